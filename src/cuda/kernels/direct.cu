// Filters with one set of taps, stride 1: every thread owns V neighbouring elements of ROWS rows and sweeps over the
// planes (3D) or lines (2D) of the image. T partial sums a result live in registers: plane i adds to the T results that
// it belongs to, then the oldest is finished, stored, and the others move up. Every element is loaded from memory once a
// block; taps are read from the constant bank. (Iandola et al., "Communication-minimizing 2D convolution in GPU
// registers", 2013; the sweep is the 2.5D blocking of Micikevicius, 2009.)
//
// Holes:
//   TAPS_T TAPS_R TAPS_S      taps along the sweep, the rows, the columns
//   PAD_T PAD_R PAD_S         the axes' pads before
//   AXIS_T AXIS_R AXIS_S      the axes' boundaries: before, after
//   PIXEL                     channels that lie interleaved
//   ELEMENT_X ELEMENT_Y       C types of elements in and out
//   TYPE_X TYPE_Y             their numbers of falt_type
//   SUM                       float or double
//   THREAD VECTOR_X VECTOR_Y  elements of a thread, of one load, of one store
//   ROWS STEPS UNROLL         rows of a thread, planes of a sweep, planes unrolled
//   BLOCK_X BLOCK_Y BLOCKS    threads of a block; blocks that should fit on a multiprocessor
//   LINEAR                    1: ROWS chunks of one long row instead of rows
//   SCALED                    1: the result is alpha * sum + beta
#include "args.h"
#include "boundary.cuh"
#include "convert.cuh"

typedef long long i64;
typedef falt_cuda_direct_args Args;
typedef ELEMENT_X X;
typedef ELEMENT_Y Y;
typedef SUM ACC;

constexpr int T = TAPS_T, R = TAPS_R, S = TAPS_S, P = PIXEL, V = THREAD;

constexpr int WINDOW = V + (S - 1) * P;                                  // elements that a row gives a thread
constexpr int SHIFT = ((-PAD_S * P) % VECTOR_X + VECTOR_X) % VECTOR_X;            // loaded before the window to be aligned
constexpr int LOADS = (SHIFT + WINDOW + VECTOR_X - 1) / VECTOR_X;
constexpr bool TABLE = WINDOW <= 16;                                     // edges keep where elements lie
constexpr bool SKIP = T * R * S >= 81;                                   // worth a branch: see sweep
constexpr bool AHEAD = SKIP && ROWS + R == 2;                             // the next line is loaded during this one
constexpr int CHUNK = LINEAR ? BLOCK_X * V : 0;                               // from one of a thread's rows to the next

struct Taps {
  ACC value[T * R * S];
};

template <int BYTES>
struct Word;
template <>
struct Word<16> {
  typedef uint4 type;
};
template <>
struct Word<8> {
  typedef uint2 type;
};
template <>
struct Word<4> {
  typedef unsigned type;
};
template <>
struct Word<2> {
  typedef unsigned short type;
};
template <>
struct Word<1> {
  typedef unsigned char type;
};
typedef Word<VECTOR_X * sizeof(X)>::type WordX;
typedef Word<VECTOR_Y * sizeof(Y)>::type WordY;

__device__ inline ACC from_x(X value) {
  if (TYPE_X == F16) return from_f16((unsigned short)value);
  if (TYPE_X == BF16) return from_bf16((unsigned short)value);
  return (ACC)value;
}

__device__ inline Y to_y(ACC value) {
  Y result;
  store<ACC>(&result, TYPE_Y, 0, value);
  return result;
}

// ---- rows in

union Raw {
  WordX word[LOADS];
  X x[LOADS * VECTOR_X];
};

// The vectors that hold elements [column - PAD_S*P, ...) of a row, all of them inside it.
__device__ inline void fetch(Raw &raw, const X *row, int column) {
  const X *from = row + (column - PAD_S * P - SHIFT);
#pragma unroll
  for (int i = 0; i < LOADS; i++) raw.word[i] = __ldg((const WordX *)(from + i * VECTOR_X));
}

__device__ inline void unpack(ACC window[WINDOW], const Raw &raw) {
#pragma unroll
  for (int i = 0; i < WINDOW; i++) window[i] = from_x(raw.x[SHIFT + i]);
}

__device__ inline bool has_vector(const Args &a, int at) {
  return a.aligned && at >= 0 && at + VECTOR_X <= a.in_columns;
}

// Where the row's element stands that continues it at `at`; negative: the constant.
__device__ inline int place(const Args &a, int at) {
  const int pixel = at >= 0 ? at / P : -((P - 1 - at) / P);
  const int folded = fold<int>(AXIS_S, a.in_columns / P, pixel);
  return folded < 0 ? -1 : folded * P + (at - pixel * P);
}

// What a thread near the end of a row knows about it: whether all vectors lie inside, else where elements stand.
struct Edge {
  bool inside;
  int at[TABLE ? WINDOW : 1];
};

__device__ inline Edge edge_at(const Args &a, int column) {
  const int from = column - PAD_S * P - SHIFT;
  Edge edge;
  edge.inside = a.aligned && from >= 0 && from + LOADS * VECTOR_X <= a.in_columns;
#pragma unroll
  for (int i = 0; i < (TABLE ? WINDOW : 0); i++) edge.at[i] = place(a, from + SHIFT + i);
  return edge;
}

// A row's window where the row ends: whole vectors where there are some, and what the boundary says.
__device__ inline void load_edge(ACC window[WINDOW], const Args &a, const Edge &edge, const X *row, int column) {
  Raw raw;
  const int from = column - PAD_S * P - SHIFT;
#pragma unroll
  for (int i = 0; i < LOADS; i++)
    if (has_vector(a, from + i * VECTOR_X)) raw.word[i] = __ldg((const WordX *)(row + from + i * VECTOR_X));
#pragma unroll
  for (int i = 0; i < WINDOW; i++) {
    if (has_vector(a, from + (SHIFT + i) / VECTOR_X * VECTOR_X)) {
      window[i] = from_x(raw.x[SHIFT + i]);
    } else {
      const int at = TABLE ? edge.at[TABLE ? i : 0] : place(a, from + SHIFT + i);
      window[i] = at < 0 ? (ACC)a.fill : from_x(row[at]);
    }
  }
}

__device__ inline void load_edged(ACC window[WINDOW], const Args &a, const Edge &edge, const X *x, int column, int row,
                                  int plane) {
  row = fold<int>(AXIS_R, a.in_rows, row);
  plane = fold<int>(AXIS_T, a.in_sweep, plane);
  const X *line = x + (plane * a.x_sweep + row * a.x_row);
  if (row < 0 || plane < 0) {
#pragma unroll
    for (int i = 0; i < WINDOW; i++) window[i] = (ACC)a.fill;
  } else if (edge.inside) {
    Raw raw;
    fetch(raw, line, column);
    unpack(window, raw);
  } else {
    load_edge(window, a, edge, line, column);
  }
}

// ---- rows out

template <bool EDGED>
__device__ inline void store_row(const Args &a, Y *y, const ACC sum[V], int column, int row, int plane) {
  if (EDGED && (row >= a.out_rows || column >= a.out_columns)) return;
  union {
    WordY word[V / VECTOR_Y];
    Y y[V];
  } raw;
#pragma unroll
  for (int v = 0; v < V; v++) raw.y[v] = to_y(SCALED ? (ACC)a.alpha * sum[v] + (ACC)a.beta : sum[v]);
  Y *to = y + (plane * a.y_sweep + row * a.y_row + column);
  if (!EDGED || (a.aligned && column + V <= a.out_columns)) {
#pragma unroll
    for (int i = 0; i < V / VECTOR_Y; i++) __stcs((WordY *)(to + i * VECTOR_Y), raw.word[i]);
  } else {
#pragma unroll
    for (int v = 0; v < V; v++)
      if (column + v < a.out_columns) to[v] = raw.y[v];
  }
}

// ---- the sweep

// Planes before the first and behind the last result belong to fewer than T of them: skipping the others' multiply-adds
// is worth a branch a plane of taps where these are many (SKIP), and makes short sweeps cheap.
template <bool EDGED>
__device__ inline void sweep(const Args &a, const Taps &taps, const X *x, Y *y, int column, int row, int plane) {
  ACC sum[T][ROWS][V] = {};
  const int steps = EDGED ? min(STEPS, a.out_sweep - plane) : STEPS;
  const X *line = x + ((plane - PAD_T) * a.x_sweep + (row - PAD_R) * a.x_row);
  Edge edge;
  Raw next;
  if (EDGED && !CHUNK) edge = edge_at(a, column);
  if (!EDGED && AHEAD) fetch(next, line, column);
#pragma unroll(EDGED ? 1 : UNROLL)
  for (int i = 0; i < steps + T - 1; i++) {
#pragma unroll
    for (int r = 0; r < ROWS + R - 1; r++) {
      ACC window[WINDOW];
      const int my_row = LINEAR ? row : row + r - PAD_R;
      if (EDGED) {
        if (CHUNK) edge = edge_at(a, column + r * CHUNK);
        load_edged(window, a, edge, x, column + r * CHUNK, my_row, plane + i - PAD_T);
      } else if (AHEAD) {
        unpack(window, next);
        line += a.x_sweep;
        if (i + 1 < steps + T - 1) fetch(next, line, column);
      } else {
        Raw raw;
        fetch(raw, x + ((plane + i - PAD_T) * a.x_sweep + my_row * a.x_row), column + r * CHUNK);
        unpack(window, raw);
      }
#pragma unroll
      for (int t = 0; t < T; t++) {
        if (SKIP && (i < t || i - t >= steps)) continue;
#pragma unroll
        for (int q = r - R + 1 > 0 ? r - R + 1 : 0; q <= r && q < ROWS; q++)
#pragma unroll
          for (int s = 0; s < S; s++)
#pragma unroll
            for (int v = 0; v < V; v++)
              sum[T - 1 - t][q][v] += taps.value[(t * R + r - q) * S + s] * window[v + s * P];
      }
    }
    if (i >= T - 1) {
#pragma unroll
      for (int q = 0; q < ROWS; q++)
        store_row<EDGED>(a, y, sum[0][q], column + q * CHUNK, LINEAR ? row : row + q, plane + i - (T - 1));
    }
#pragma unroll
    for (int t = 0; t < T; t++)
#pragma unroll
      for (int q = 0; q < ROWS; q++)
#pragma unroll
        for (int v = 0; v < V; v++) sum[t][q][v] = t + 1 < T ? sum[t + 1][q][v] : 0;
  }
}

// Whether outputs [begin, begin + count) exist and read only what lies inside.
__device__ inline bool lies_inside(int begin, int count, int reach_before, int reach_after, int in, int out) {
  return begin + count <= out && begin - reach_before >= 0 && begin + count + reach_after <= in;
}

extern "C" __global__ void __launch_bounds__(BLOCK_X *BLOCK_Y, BLOCKS)
    falt_direct(const __grid_constant__ Args a, const __grid_constant__ Taps taps) {
  constexpr int width = BLOCK_X * V * (LINEAR ? ROWS : 1), height = LINEAR ? 1 : BLOCK_Y * ROWS;
  unsigned block = blockIdx.x;
  const int column = block % a.column_blocks * width;
  block /= a.column_blocks;
  const int row = block % a.row_blocks * height;
  block /= a.row_blocks;
  const int plane = block % a.sweep_blocks * STEPS;
  block /= a.sweep_blocks;
  const i64 inner = block % a.batch, outer = block / a.batch;
  const X *x = (const X *)a.x + (outer * a.x_batch[0] + inner * a.x_batch[1]);
  Y *y = (Y *)a.y + (outer * a.y_batch[0] + inner * a.y_batch[1]);
  const int my_column = column + threadIdx.x * V, my_row = row + (LINEAR ? 0 : threadIdx.y * ROWS);
  const bool interior =
      a.aligned &&
      lies_inside(column, width, PAD_S * P + SHIFT, LOADS * VECTOR_X - V - PAD_S * P - SHIFT, a.in_columns,
                  a.out_columns) &&
      lies_inside(row, height, PAD_R, R - 1 - PAD_R, a.in_rows, a.out_rows) &&
      lies_inside(plane, STEPS, PAD_T, T - 1 - PAD_T, a.in_sweep, a.out_sweep);
  if (interior)
    sweep<false>(a, taps, x, y, my_column, my_row, plane);
  else if (my_column < a.out_columns && my_row < a.out_rows)
    sweep<true>(a, taps, x, y, my_column, my_row, plane);
}
