// Filters by direct convolution in register tiles: a thread owns V neighbouring elements of ROWS rows of PLANES planes,
// loads each line that they read once, and adds each element to all accumulators that it belongs to. Taps are read from
// the constant bank. F. Iandola et al., "Communication-minimizing 2D convolution in GPU registers", 2013.

// The loads of a tile are independent, so each thread has hundreds of bytes in flight. Elements that neighbouring
// threads share come from the L1 cache.
//
// Separable filters (TERMS) do the same with the output of a pass along each line, and volumes with the output of a
// pass across the lines of a plane: only final outputs leave the registers.
//
// Dilation: the rows of a thread are spaced so that they share input lines. With dilation d and stride e, output rows
// d/gcd(d, e) apart read lines d apart, e/gcd(d, e) lines from one row to the next. This is the undilated filter on
// every d-th line, so no additional lines are read. Neighbouring threads compute the tiles between two such rows.
//
// Tiles compute the inner box, whose windows are inside the image. Separate threads compute the outputs around it, V at
// a time, and apply the boundary to every element.

// Compile-time parameters:
//   TAPS_T TAPS_R TAPS_S      taps along the planes, the rows, the columns
//   STRIDE_T STRIDE_R STRIDE_S, DILATE_T DILATE_R DILATE_S
//   PAD_T PAD_R PAD_S         the axes' pads before
//   AXIS_T AXIS_R AXIS_S      the axes' boundaries: before, after
//   FAR                       1: pads reach farther than an image is long
//   PIXEL                     interleaved channels
//   ELEMENT_X ELEMENT_Y       C types of elements in and out
//   TYPE_X TYPE_Y             their numbers of falt_type
//   SUM                       float or double
//   TINY                      1: elements of u8 and u16 are the bits of tiny floats, taps are scaled to meet them
//   TERMS                     separable terms; 0: the whole filter
//   THREAD ROWS PLANES        elements, rows, planes of a thread
//   VECTOR_X VECTOR_Y         elements of one load, of one store
//   BLOCK_X BLOCK_Y BLOCKS    threads of a block along a row and across; blocks that should fit on a multiprocessor
//   LINEAR                    1: ROWS pieces of one long row instead of rows
//   SCALED                    1: the output is alpha * sum + beta

#include "partial.cuh"
#include "places.cuh"

typedef long long i64;
typedef falt_cuda_tile_args Args;

constexpr int T = TAPS_T, R = TAPS_R, S = TAPS_S, P = PIXEL, V = THREAD;
constexpr int TERM = T + R + S;     // taps of a separable term
constexpr int NEXT = P * DILATE_S;  // elements from one tap to the next

// The element of a line below the first tap of a thread's output v; strides count pixels, which V is whole of then.
__device__ constexpr int below(int v) {
  return STRIDE_S == 1 ? v : v / P * (P * STRIDE_S) + v % P;
}

constexpr int WINDOW = below(V - 1) + (S - 1) * NEXT + 1;               // elements that a line gives a thread
constexpr int SHIFT = ((-PAD_S * P) % VECTOR_X + VECTOR_X) % VECTOR_X;  // loaded before it to be aligned
constexpr int LOADS = (SHIFT + WINDOW + VECTOR_X - 1) / VECTOR_X;
constexpr bool APART = in_blocks<ACC>(TERMS ? S : T * R * S);  // tap rows have accumulators of their own
constexpr int PIECE = BLOCK_X * V;                             // LINEAR: from one of a thread's rows to the next

enum { PLANE, ROW, COLUMN };

__device__ constexpr int divisor(int a, int b) {
  return b ? divisor(b, a % b) : a;
}

// From one of a thread's rows or planes to the next: outputs, and lines that the filter reads.
constexpr int SPREAD_T = PLANES > 1 ? DILATE_T / divisor(STRIDE_T, DILATE_T) : 1;
constexpr int SPREAD_R = ROWS > 1 ? DILATE_R / divisor(STRIDE_R, DILATE_R) : 1;
constexpr int NEXT_T = STRIDE_T / divisor(STRIDE_T, DILATE_T), NEXT_R = STRIDE_R / divisor(STRIDE_R, DILATE_R);
constexpr int READ_T = (PLANES - 1) * NEXT_T + T, READ_R = (ROWS - 1) * NEXT_R + R;

// The first output of a tile along an axis with so many outputs a thread.
__device__ constexpr int first_of(int tile, int many, int spread) {
  return tile / spread * (spread * many) + tile % spread;
}

// The tap by which line i belongs to output q of a thread; outside [0, taps): none.
__device__ constexpr int tap_of(int i, int q, int next) {
  return i - q * next;
}

__device__ constexpr bool has_tap(int i, int q, int next, int taps) {
  return tap_of(i, q, next) >= 0 && tap_of(i, q, next) < taps;
}

struct Taps {
  ACC value[TERMS ? TERMS * TERM : T * R * S];
};

// The first elements of a window, unconverted.
typedef Word<VECTOR_X * sizeof(X)>::type WordX;
typedef Raw<WordX, LOADS * VECTOR_X> RawX;

// ---- elements

__device__ inline void load_window(ACC window[WINDOW], const X *from) {
  RawX raw;
#pragma unroll
  for (int i = 0; i < LOADS; i++) raw.word[i] = __ldg((const WordX *)(from + i * VECTOR_X));
#pragma unroll
  for (int i = 0; i < WINDOW; i++) window[i] = element(raw, SHIFT + i);
}

__device__ inline ACC finished(const Args &a, ACC sum) {
  return SCALED ? (ACC)a.alpha * sum + (ACC)a.beta : sum;
}

__device__ inline void store_vector(const Args &a, Y *to, const ACC sum[V]) {
  ACC result[V];
#pragma unroll
  for (int v = 0; v < V; v++) result[v] = finished(a, sum[v]);
  store_results<VECTOR_Y, V>(to, result);
}

// The first `count` of a vector.
__device__ inline void store_some(const Args &a, Y *to, const ACC sum[V], int count) {
#pragma unroll
  for (int v = 0; v < V; v++)
    if (v < count) to[v] = to_y(finished(a, sum[v]));
}

// ---- the filter on a line

// Adds line r of a plane to all output rows that it belongs to, with all taps of plane t.
__device__ inline void add_line(ACC sum[ROWS][V], const Taps &taps, const ACC window[WINDOW], int t, int r) {
#pragma unroll
  for (int q = 0; q < ROWS; q++) {
    if (!has_tap(r, q, NEXT_R, R)) continue;
    const int first = (t * R + tap_of(r, q, NEXT_R)) * S;
    add_terms<APART, S, V>(sum[q], [&](ACC *part, int s) {
#pragma unroll
      for (int v = 0; v < V; v++) part[v] += taps.value[TERMS ? 0 : first + s] * window[below(v) + s * NEXT];
    });
  }
}

// The same for a separable term: first along the line, then across. `of`: the term's taps.
__device__ inline void add_passed(ACC sum[ROWS][V], const ACC *of, const ACC window[WINDOW], int r) {
  ACC along[V] = {};
  add_terms<APART, S, V>(along, [&](ACC *part, int s) {
#pragma unroll
    for (int v = 0; v < V; v++) part[v] += of[T + R + s] * window[below(v) + s * NEXT];
  });
#pragma unroll
  for (int q = 0; q < ROWS; q++) {
    if (!has_tap(r, q, NEXT_R, R)) continue;
#pragma unroll
    for (int v = 0; v < V; v++) sum[q][v] += of[T + tap_of(r, q, NEXT_R)] * along[v];
  }
}

// ---- tiles

// A tile's first output.
struct Place {
  int plane, row, column;
};

// Line r of plane i of a tile's input.
__device__ inline const X *line_at(const Args &a, const X *x, const Place &at, int i, int r) {
  const int plane = at.plane * STRIDE_T + i * DILATE_T - PAD_T;
  const int row = at.row * STRIDE_R - PAD_R + (LINEAR ? 0 : r * DILATE_R);
  const int column = (at.column + (LINEAR ? r * PIECE : 0)) * STRIDE_S - PAD_S * P - SHIFT;
  return x + (plane * a.x_plane + row * a.x_row + column);
}

// Whether the box has piece q of a LINEAR tile.
__device__ inline bool has_piece(const Args &a, const Place &at, int q) {
  const int column = at.column / V + q * BLOCK_X;
  return !LINEAR || (column >= a.begin[COLUMN] && column < a.end[COLUMN]);
}

__device__ inline void add_plane(ACC sum[PLANES][ROWS][V], const Args &a, const Taps &taps, const X *x, const Place &at,
                                 int i) {
  ACC across[TERMS ? TERMS : 1][ROWS][V] = {};
#pragma unroll
  for (int r = 0; r < READ_R; r++) {
    ACC window[WINDOW];
    if (!has_piece(a, at, r)) continue;
    load_window(window, line_at(a, x, at, i, r));
#pragma unroll
    for (int k = 0; k < TERMS; k++) add_passed(T == 1 ? sum[0] : across[k], taps.value + k * TERM, window, r);
#pragma unroll
    for (int p = 0; p < (TERMS ? 0 : PLANES); p++)
      if (has_tap(i, p, NEXT_T, T)) add_line(sum[p], taps, window, tap_of(i, p, NEXT_T), r);
  }
#pragma unroll
  for (int k = 0; k < (T == 1 ? 0 : TERMS); k++)
#pragma unroll
    for (int p = 0; p < PLANES; p++) {
      if (!has_tap(i, p, NEXT_T, T)) continue;
#pragma unroll
      for (int q = 0; q < ROWS; q++)
#pragma unroll
        for (int v = 0; v < V; v++) sum[p][q][v] += taps.value[k * TERM + tap_of(i, p, NEXT_T)] * across[k][q][v];
    }
}

__device__ inline void compute_tile(const Args &a, const Taps &taps, const X *x, Y *y, const Place &at) {
  ACC sum[PLANES][ROWS][V] = {};
#pragma unroll
  for (int i = 0; i < READ_T; i++) add_plane(sum, a, taps, x, at, i);
  y += at.plane * a.y_plane + at.row * a.y_row + at.column;
#pragma unroll
  for (int p = 0; p < PLANES; p++)
#pragma unroll
    for (int q = 0; q < ROWS; q++) {
      Y *to = y + (p * SPREAD_T * a.y_plane + (LINEAR ? q * PIECE : q * SPREAD_R * a.y_row));
      if (has_piece(a, at, q)) store_vector(a, to, sum[p][q]);
    }
}

// The tiles of the box have the positions of tiles that cover the image: warps read and write whole cache lines.
__device__ inline void compute_inner(const Args &a, const Taps &taps, const X *x, Y *y, unsigned block) {
  const int column = block % a.blocks[COLUMN] * (LINEAR ? BLOCK_X * ROWS : BLOCK_X) + threadIdx.x;
  block /= a.blocks[COLUMN];
  const int row = a.begin[ROW] + block % a.blocks[ROW] * BLOCK_Y + threadIdx.y;
  const int plane = a.begin[PLANE] + block / a.blocks[ROW];
  if (row >= a.end[ROW] || (!LINEAR && (column < a.begin[COLUMN] || column >= a.end[COLUMN]))) return;
  compute_tile(a, taps, x, y,
               {first_of(plane, PLANES, SPREAD_T), LINEAR ? row : first_of(row, ROWS, SPREAD_R), column * V});
}

// ---- the frame

__device__ inline bool has_vector(const Args &a, int at) {
  return a.aligned && at >= 0 && at + VECTOR_X <= a.in[COLUMN];
}

// Whole vectors where possible; `row` null: the constant. Vectors of less than 4 bytes share a word, which must be
// initialized: the compiler may add its bytes and assumes that bytes that were not loaded are in range.
__device__ inline void look_up(ACC window[WINDOW], const Args &a, const X *row, int column) {
  const int from = column * STRIDE_S - PAD_S * P - SHIFT;
  RawX raw = {};
#pragma unroll
  for (int i = 0; i < LOADS; i++)
    if (row && has_vector(a, from + i * VECTOR_X)) raw.word[i] = *(const WordX *)(row + from + i * VECTOR_X);
#pragma unroll
  for (int i = 0; i < WINDOW; i++) {
    if (row && has_vector(a, from + (SHIFT + i) / VECTOR_X * VECTOR_X)) {
      window[i] = element(raw, SHIFT + i);
    } else {
      const int at = row ? place(a, from + SHIFT + i) : -1;
      window[i] = at < 0 ? constant(a.fill) : from_x(row[at]);
    }
  }
}

// Outputs [at.column, at.column + V) of a row, as far as they exist.
__device__ inline void compute_row(const Args &a, const Taps &taps, const X *x, Y *y, const Place &at) {
  ACC sum[V] = {};
  if (at.plane >= a.out[PLANE] || at.row >= a.out[ROW]) return;
#pragma unroll 1
  for (int i = 0; i < T * R; i++) {
    const int t = i / R, r = i % R;
    ACC window[WINDOW];
    const int plane = at.plane * STRIDE_T + t * DILATE_T - PAD_T, row = at.row * STRIDE_R + r * DILATE_R - PAD_R;
    look_up(window, a, row_at(a, x, plane, row), at.column);
    add_terms<APART || (TERMS > 0 && in_blocks<ACC>(T * R * S)), S, V>(sum, [&](ACC *part, int s) {
      ACC tap = TERMS ? 0 : taps.value[TERMS ? 0 : i * S + s];
#pragma unroll
      for (int k = 0; k < TERMS; k++) {
        const ACC *of = taps.value + k * TERM;
        tap += (T == 1 ? 1 : of[t]) * of[T + r] * of[T + R + s];
      }
#pragma unroll
      for (int v = 0; v < V; v++) part[v] += tap * window[below(v) + s * NEXT];
    });
  }
  store_some(a, y + (at.plane * a.y_plane + at.row * a.y_row + at.column), sum, a.out[COLUMN] - at.column);
}

// The box leaves planes before and behind it, rows around it in its planes, columns around it in its rows. `item`
// counts through these tiles, then again for the next of their rows; past the last nothing happens.
__device__ inline void compute_frame(const Args &a, const Taps &taps, const X *x, Y *y, unsigned item) {
  constexpr int height = LINEAR ? 1 : ROWS;
  unsigned outside[3], box[3], at[3];
#pragma unroll
  for (int i = 0; i < 3; i++) {
    box[i] = a.end[i] - a.begin[i];
    outside[i] = a.tiles[i] - box[i];
  }
  const unsigned of_planes = outside[PLANE] * a.tiles[ROW] * a.tiles[COLUMN];
  const unsigned of_rows = box[PLANE] * outside[ROW] * a.tiles[COLUMN];
  const unsigned all = of_planes + of_rows + box[PLANE] * box[ROW] * outside[COLUMN], line = item / all;
  if (line >= PLANES * height) return;
  item %= all;
  const bool planes = item < of_planes, rows = !planes && item - of_planes < of_rows;
  if (!planes) item -= rows ? of_planes : of_planes + of_rows;
  const unsigned columns = planes || rows ? a.tiles[COLUMN] : outside[COLUMN];
  const unsigned in_plane = planes ? a.tiles[ROW] : rows ? outside[ROW] : box[ROW];
  at[COLUMN] = item % columns;
  at[ROW] = item / columns % in_plane;
  at[PLANE] = item / columns / in_plane;
  if (!planes) at[PLANE] += a.begin[PLANE];
  if (!planes && !rows) at[ROW] += a.begin[ROW];
  const int across = planes ? PLANE : rows ? ROW : COLUMN;  // the axis that the box divides
#pragma unroll
  for (int i = 0; i < 3; i++)
    if (i == across && at[i] >= a.begin[i]) at[i] += box[i];
  const int plane = first_of(at[PLANE], PLANES, SPREAD_T) + line / height * SPREAD_T;
  const int row = first_of(at[ROW], height, SPREAD_R) + line % height * SPREAD_R;
  compute_row(a, taps, x, y, {plane, row, int(at[COLUMN] * V)});
}

// The frame first: its blocks take longest.
extern "C" __global__ void __launch_bounds__(BLOCK_X *BLOCK_Y, BLOCKS)
    falt_tile(const __grid_constant__ Args a, const __grid_constant__ Taps taps) {
  const unsigned image = blockIdx.x / a.all_blocks, block = blockIdx.x % a.all_blocks;
  const i64 inner = image % a.batch, outer = image / a.batch;
  const X *x = (const X *)a.x + (outer * a.x_batch[0] + inner * a.x_batch[1]);
  Y *y = (Y *)a.y + (outer * a.y_batch[0] + inner * a.y_batch[1]);
  if (block < a.frame_blocks)
    compute_frame(a, taps, x, y, (block * BLOCK_Y + threadIdx.y) * BLOCK_X + threadIdx.x);
  else
    compute_inner(a, taps, x, y, block - a.frame_blocks);
}
