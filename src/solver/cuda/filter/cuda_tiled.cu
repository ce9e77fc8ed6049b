// Filters of many taps with register blocking: a block stages the input of its outputs in shared memory, converted and
// continued beyond the image's ends. A thread owns DEPTH x ROWS x V outputs. It loads one window of each tile line and
// adds it to every output row that the line belongs to. The kernel reads the taps at run time. V. Volkov and J. Demmel,
// "Benchmarking GPUs to tune dense linear algebra", 2008.

// Row q of a thread uses line i with tap row r = (i - q*stride) / dilation, and likewise along planes. The loop over
// lines is not unrolled, so it fits in the instruction cache for any filter height. Taps come from shared memory, one
// address for all threads.
//
// A step is a plane of the image and a band of tap rows and tap columns, as many as shared memory holds.
//
// The outputs of a thread along a row are GROUPS groups of GROUP outputs, SPREAD elements apart. Dense windows are
// loaded as whole vectors. Spread windows give neighbouring threads neighbouring elements, so large dilations cost no
// more than small ones.

// Compile-time parameters:
//   ELEMENT_X ELEMENT_Y       C types of elements in and out
//   TYPE_X TYPE_Y TYPE_W      numbers of falt_type: in, out, taps
//   SUM                       float or double
//   PIXEL                     interleaved channels
//   STRIDE_T STRIDE_R STRIDE_S DILATE_T DILATE_R
//   DEPTH ROWS GROUPS GROUP SPREAD   outputs of a thread
//   LANES LINES               threads of a block along the columns, along the rows
//   CHUNK REST                tap columns of a window, of a row's last window; CHUNK 0: one window a row
//   SPACE NEXT_RESULT NEXT_TAP       distance of a window's elements; of outputs, of taps in it
//   DENSE                     1: windows have no gaps and begin at a vector
//   SHIFT                     elements loaded before the window to be aligned
//   PITCH                     elements of a line of the tile
//   BAND_R BAND_S             tap rows and columns of a step; BAND_S > REST: a multiple of CHUNK
//   WALK                     1: DEPTH is the number of tap planes and a block walks along the depth: see walk
//   BUFFERS                   2: the next step's tile arrives during this one
//   BLOCKS                    blocks that should fit on a multiprocessor
//   APART                     1: a window's taps are summed for themselves: see partial.cuh
//   FLUSH                     windows until a thread's sums go to its totals in local memory; 0: they stay
//   EPILOGUE                  0: the sum, 1: alpha * sum + beta, 2: everything

#include "args.h"
#include "boundary.cuh"
#include "convert.cuh"
#include "epilogue.cuh"
#include "partial.cuh"

typedef long long i64;
typedef falt_cuda_tiled_args Args;
typedef ELEMENT_X X;
typedef ELEMENT_Y Y;
typedef SUM ACC;

constexpr int V = GROUPS * GROUP, P = PIXEL, THREADS = LANES * LINES;
constexpr int TAP_PITCH = (BAND_S + 16 / sizeof(SUM) - 1) / (16 / sizeof(SUM)) * (16 / sizeof(SUM));
constexpr int WIDTH = LANES * V, HEIGHT = LINES * ROWS;  // outputs of a block
constexpr int QUAD = 16 / sizeof(ACC), QUADS = PITCH / QUAD;
constexpr bool ALL = WALK && ROWS == 1 && DILATE_R == 1;  // every line belongs to every output of a thread
constexpr bool COPY = TYPE_X == F32 && sizeof(ACC) == 4;  // elements need no conversion

struct alignas(16) Quad {
  ACC of[QUAD];
};
struct alignas(sizeof(X) * QUAD < 16 ? sizeof(X) * QUAD : 16) QuadX {
  X of[QUAD];
};
constexpr int PACK = GROUP * sizeof(Y) <= 16 ? GROUP : 16 / sizeof(Y);  // outputs of one store
struct alignas(PACK * sizeof(Y)) PackY {
  Y of[PACK];
};

// The element of the input, in elements of a row, below the first tap of an output's element.
__device__ constexpr int below(int element) {
  return STRIDE_S == 1 ? element : element / P * STRIDE_S * P + element % P;
}

__device__ inline ACC from_x(X value) {
  if (TYPE_X == F16) return from_f16((unsigned short)value);
  if (TYPE_X == BF16) return from_bf16((unsigned short)value);
  return (ACC)value;
}

// ---- staging

__device__ inline void copy_16(void *shared, const void *global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(shared)),
               "l"(global));
}

__device__ inline void copies_arrived() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

// The position of the element that continues the row at `at`; negative: the constant.
__device__ inline int place(const Args &a, int at) {
  const int pixel = at >= 0 ? at / P : -((P - 1 - at) / P);
  const int folded = fold<int>(a.boundary[2][0], a.boundary[2][1], a.in_columns / P, pixel);
  return folded < 0 ? -1 : folded * P + (at - pixel * P);
}

__device__ inline void stage_inner(ACC *to, const X *from) {
  if (COPY) return copy_16(to, from);
  const QuadX raw = *(const QuadX *)from;
  Quad quad;
#pragma unroll
  for (int i = 0; i < QUAD; i++) quad.of[i] = from_x(raw.of[i]);
  *(Quad *)to = quad;
}

__device__ inline void stage_outer(const Args &a, ACC *to, const X *row, int at) {
  if (row && at >= 0 && at + QUAD <= a.in_columns && a.x_aligned) return stage_inner(to, row + at);
#pragma unroll 1
  for (int i = 0; i < QUAD; i++) {
    const int from = row ? place(a, at + i) : -1;
    to[i] = from < 0 ? (ACC)a.fill : from_x(row[from]);
  }
}

// Lines [row, row + rows) of a plane, from element `column` on, wholly inside it.
__device__ inline void stage_inside(const Args &a, ACC *tile, const X *from, int rows) {
  int quad = threadIdx.x % QUADS;
  const i64 step = THREADS / QUADS * a.x_row + THREADS % QUADS * QUAD, wrap = a.x_row - PITCH;
  from += threadIdx.x / QUADS * a.x_row + quad * QUAD;
#pragma unroll 4
  for (int i = threadIdx.x; i < rows * QUADS; i += THREADS) {
    stage_inner(tile + i * QUAD, from);
    quad += THREADS % QUADS;
    from += quad < QUADS ? step : step + wrap;
    quad -= quad < QUADS ? 0 : QUADS;
  }
}

// The same at the ends of the plane.
__device__ inline void stage_edged(const Args &a, ACC *tile, const X *x, int row, int rows, int column) {
#pragma unroll 1
  for (int i = threadIdx.x; i < rows * QUADS; i += THREADS) {
    const int from = x ? fold<int>(a.boundary[1][0], a.boundary[1][1], a.in_rows, row + i / QUADS) : -1;
    stage_outer(a, tile + i * QUAD, from < 0 ? 0 : x + from * a.x_row, column + i % QUADS * QUAD);
  }
}

__device__ inline void stage_tile(const Args &a, ACC *tile, const X *x, int plane, int row, int rows, int column) {
  plane = fold<int>(a.boundary[0][0], a.boundary[0][1], a.in_planes, plane);
  x = plane < 0 ? 0 : x + plane * a.x_plane;
  if (x && a.x_aligned && row >= 0 && row + rows <= a.in_rows && column >= 0 && column + PITCH <= a.in_columns)
    stage_inside(a, tile, x + (row * a.x_row + column), rows);
  else
    stage_edged(a, tile, x, row, rows, column);
}

// ---- steps

// A step: one plane of the input, and a band of tap rows and columns. first_tap: of tap plane T for the thread's output
// plane 0.
struct Step {
  int plane, row, column;
  int rows, columns;
};

// The tap plane by which input plane `plane` belongs to a block's output plane d, or -1.
__device__ inline int tap_plane(const Args &a, int plane, int d) {
  if (WALK) return DEPTH - 1 - d;
  const int t = plane - d * STRIDE_T;
  return t >= 0 && t % DILATE_T == 0 && t / DILATE_T < a.taps[0] ? t / DILATE_T : -1;
}

__device__ inline bool is_read(const Args &a, int plane) {
  bool any = false;
#pragma unroll
  for (int d = 0; d < DEPTH; d++) any |= tap_plane(a, plane, d) >= 0;
  return any;
}

__device__ inline bool measure(const Args &a, Step &s) {
  constexpr int reach = (DEPTH - 1) * STRIDE_T;
  while (s.plane <= reach + (a.taps[0] - 1) * DILATE_T && !is_read(a, s.plane)) s.plane++;
  s.rows = min(BAND_R, a.taps[1] - s.row);
  s.columns = min(BAND_S, a.taps[2] - s.column);
  return s.plane <= reach + (a.taps[0] - 1) * DILATE_T;
}

// Moves to the next step; false behind the last.
__device__ inline bool advance(const Args &a, Step &s) {
  s.column += BAND_S;
  if (s.column >= a.taps[2]) {
    s.column = 0;
    s.row += BAND_R;
  }
  if (s.row >= a.taps[1]) {
    s.row = 0;
    s.plane++;
  }
  return measure(a, s);
}

struct Block {
  const X *x;
  const char *w;
  int column, row, plane;  // the first output's
};

__device__ inline void stage_taps(const Args &a, ACC *taps, const char *w, const Step &s) {
  const int pitch = TAP_PITCH, plane = BAND_R * pitch, count = DEPTH * plane;
#pragma unroll 1
  for (int i = threadIdx.x; i < count; i += THREADS) {
    const int d = i / plane, r = i % plane / pitch, c = i % pitch, t = tap_plane(a, s.plane, d);
    if (t < 0 || r >= s.rows || c >= s.columns) continue;
    taps[i] = load<ACC>(w, TYPE_W, t * a.w_tap[0] + (s.row + r) * a.w_tap[1] + (s.column + c) * a.w_tap[2]);
  }
}

__device__ inline void stage_lines(const Args &a, const Block &b, const Step &s, ACC *tile) {
  const int rows = (HEIGHT - 1) * STRIDE_R + (s.rows - 1) * DILATE_R + 1;
  stage_tile(a, tile, b.x, b.plane * STRIDE_T - a.pad[0] + s.plane, b.row * STRIDE_R - a.pad[1] + s.row * DILATE_R,
             rows, below(b.column) - a.pad[2] - SHIFT + s.column * (NEXT_TAP * SPACE));
}

__device__ inline void stage(const Args &a, const Block &b, const Step &s, ACC *tile) {
  stage_lines(a, b, s, tile);
  stage_taps(a, tile + a.tile_elements, b.w, s);
}

// ---- sums

// A pointer into shared memory that stays in a register: otherwise each load computes the base again.
__device__ inline const ACC *kept(const ACC *shared) {
  size_t at = __cvta_generic_to_shared(shared);
  asm("" : "+l"(at));
  return (const ACC *)__cvta_shared_to_generic(at);
}

// Adds TAPS columns of taps to all outputs that line i of the thread's part of the tile belongs to.
template <int TAPS>
__device__ inline void add_window(const Args &a, ACC sum[DEPTH][ROWS][V], const ACC *line, const ACC *taps,
                                  const unsigned limit[DEPTH], int i) {
  constexpr int window = (GROUP - 1) * NEXT_RESULT + (TAPS - 1) * NEXT_TAP + 1;
  constexpr int quads = (SHIFT + window + QUAD - 1) / QUAD;
  union {
    Quad quad[quads];
    ACC of[quads * QUAD];
  } x[GROUPS];
#pragma unroll
  for (int g = 0; g < GROUPS; g++) {
    const ACC *from = line + g * below(LANES * GROUP);
    if (DENSE) {
#pragma unroll
      for (int k = 0; k < quads; k++) x[g].quad[k] = ((const Quad *)from)[k];
    } else {
#pragma unroll
      for (int k = 0; k < window; k++) x[g].of[SHIFT + k] = from[SHIFT + k * SPACE];
    }
  }
#pragma unroll
  for (int d = 0; d < DEPTH; d++)
#pragma unroll
    for (int q = 0; q < ROWS; q++) {
      const unsigned below_first = i - q * STRIDE_R;  // lines below the first that row q reads; huge above it
      if (!ALL && (below_first >= limit[d] || below_first % DILATE_R != 0)) continue;
      const int r = below_first / DILATE_R;
      const ACC *row = taps + (d * BAND_R + r) * TAP_PITCH;
      union {
        Quad quad[(TAPS + QUAD - 1) / QUAD];
        ACC of[(TAPS + QUAD - 1) / QUAD * QUAD];
      } w;
#pragma unroll
      for (int k = 0; k < (TAPS + QUAD - 1) / QUAD; k++) w.quad[k] = ((const Quad *)row)[k];
      add_terms<APART, TAPS, V>(sum[d][q], [&](ACC *part, int s) {
#pragma unroll
        for (int v = 0; v < V; v++)
          part[v] += w.of[s] * x[v / GROUP].of[SHIFT + v % GROUP * NEXT_RESULT + s * NEXT_TAP];
      });
    }
}

// A thread's sums of many windows, in local memory because they are rarely accessed. Volatile, so that they occupy no
// registers.
struct Totals {
  volatile ACC of[DEPTH][ROWS][V];
  int windows;  // since the sums went there
};

__device__ inline void flush(ACC sum[DEPTH][ROWS][V], Totals &t) {
  t.windows = 0;
#pragma unroll
  for (int d = 0; d < DEPTH; d++)
#pragma unroll
    for (int q = 0; q < ROWS; q++)
#pragma unroll
      for (int v = 0; v < V; v++) {
        t.of[d][q][v] = t.of[d][q][v] + sum[d][q][v];
        sum[d][q][v] = 0;
      }
}

__device__ inline void clear(Totals &t) {
  t.windows = 0;
#pragma unroll
  for (int d = 0; d < DEPTH; d++)
#pragma unroll
    for (int q = 0; q < ROWS; q++)
#pragma unroll
      for (int v = 0; v < V; v++) t.of[d][q][v] = 0;
}

__device__ inline void add_totals(ACC sum[DEPTH][ROWS][V], const Totals &t) {
#pragma unroll
  for (int d = 0; d < DEPTH; d++)
#pragma unroll
    for (int q = 0; q < ROWS; q++)
#pragma unroll
      for (int v = 0; v < V; v++) sum[d][q][v] += t.of[d][q][v];
}

__device__ inline void count_window(ACC sum[DEPTH][ROWS][V], Totals &t) {
  if (FLUSH && ++t.windows == FLUSH) flush(sum, t);
}

__device__ inline void add_step(const Args &a, ACC sum[DEPTH][ROWS][V], const ACC *tile, const ACC *taps, const Step &s,
                                Totals &totals) {
  unsigned limit[DEPTH];  // lines of the tile that an output reads
#pragma unroll
  for (int d = 0; d < DEPTH; d++) limit[d] = tap_plane(a, s.plane, d) < 0 ? 0 : (s.rows - 1) * DILATE_R + 1;
  const int lines = (ROWS - 1) * STRIDE_R + (s.rows - 1) * DILATE_R + 1;
  const bool last = s.column + s.columns == a.taps[2];
  const int chunks = CHUNK == 0 ? 0 : (s.columns - (last ? REST : 0)) / (CHUNK + (CHUNK == 0));
#pragma unroll 1
  for (int i = 0; i < lines; i++) {
    const ACC *line = tile + i * PITCH, *row = taps;
    if (CHUNK) {
#pragma unroll 1
      for (int k = 0; k < chunks; k++) {
        add_window<CHUNK ? CHUNK : 1>(a, sum, line, row, limit, i);
        count_window(sum, totals);
        line += CHUNK * NEXT_TAP * SPACE;
        row += CHUNK;
      }
    }
    if (!CHUNK || last) {
      add_window<REST>(a, sum, line, row, limit, i);
      count_window(sum, totals);
    }
  }
}

// ---- outputs

struct Place {
  Y *y;
  i64 residual, channel;  // for the epilogue: offset of the batch, first channel
  int column, row, plane;
};

__device__ inline int column_of(int v) {
  return v / GROUP * (LANES * GROUP) + v % GROUP * SPREAD;
}

__device__ inline void store_plane(const Args &a, const Place &p, const ACC sum[ROWS][V], int plane) {
#pragma unroll
  for (int q = 0; q < ROWS; q++) {
    if (plane >= a.out_planes || p.row + q >= a.out_rows) continue;
    Y *to = p.y + (plane * a.y_plane + (p.row + q) * a.y_row + p.column);
#pragma unroll
    for (int v = 0; v < V; v += PACK) {
      PackY pack;
#pragma unroll
      for (int i = 0; i < PACK; i++) {
        const ACC value = sum[q][v + i];
        store<ACC>(&pack.of[i], TYPE_Y, 0, EPILOGUE ? (ACC)a.epilogue.alpha * value + (ACC)a.epilogue.beta : value);
      }
      if (SPREAD == 1 && a.y_aligned && p.column + column_of(v) + PACK <= a.out_columns) {
        *(PackY *)(to + column_of(v)) = pack;
      } else {
#pragma unroll
        for (int i = 0; i < PACK; i++)
          if (p.column + column_of(v + i) < a.out_columns) to[column_of(v + i)] = pack.of[i];
      }
    }
  }
}

// The full epilogue is long: sums go through shared memory, so its code exists once.
__device__ inline void store_finished(const Args &a, const Place &p, const ACC sum[DEPTH][ROWS][V], ACC *shared) {
  ACC *mine = shared + threadIdx.x;
  __syncthreads();
#pragma unroll
  for (int d = 0; d < DEPTH; d++)
#pragma unroll
    for (int q = 0; q < ROWS; q++)
#pragma unroll
      for (int v = 0; v < V; v++) mine[((d * ROWS + q) * V + v) * THREADS] = sum[d][q][v];
#pragma unroll 1
  for (int k = 0; k < DEPTH * ROWS * V; k++) {
    const int plane = p.plane + k / (ROWS * V), row = p.row + k / V % ROWS, column = p.column + column_of(k % V);
    if (plane >= a.out_planes || row >= a.out_rows || column >= a.out_columns) continue;
    const i64 at = p.residual + plane * a.residual.stride[3] + row * a.residual.stride[4] +
                   column / P * a.residual.stride[5] + column % P * a.residual.stride[1];
    const double value = finish(a.epilogue, a.residual, p.channel + column % P, at, mine[k * THREADS]);
    store<double>(p.y, TYPE_Y, plane * a.y_plane + row * a.y_row + column, value);
  }
}

// ---- the kernel

// All steps of a block's outputs.
__device__ inline void add_steps(const Args &a, const Block &b, ACC *tile, ACC sum[DEPTH][ROWS][V], int mine) {
  int buffer = 0;
  Step step = {0, 0, 0, 0, 0};
  Totals totals;
  if (FLUSH) clear(totals);
  bool more = measure(a, step);
  if (BUFFERS == 2) stage(a, b, step, tile);
  while (more) {
    Step next = step;
    ACC *now = tile + buffer * a.buffer_elements;
    if (BUFFERS == 1) {
      __syncthreads();
      stage(a, b, step, now);
    }
    if (COPY) copies_arrived();
    __syncthreads();
    more = advance(a, next);
    if (BUFFERS == 2) {
      buffer ^= 1;
      if (more) stage(a, b, next, tile + buffer * a.buffer_elements);
    }
    add_step(a, sum, kept(now + mine), kept(now + a.tile_elements), step, totals);
    step = next;
  }
  if (FLUSH) add_totals(sum, totals);
}

// 2.5D blocking over a.walk output planes: each input plane is added to the DEPTH output planes that read it; the
// oldest is then complete and the others move up.
__device__ inline void walk(const Args &a, const Block &b, ACC *tile, ACC sum[DEPTH][ROWS][V], int mine,
                            const Place &p) {
  const int steps = min(a.walk, a.out_planes - b.plane) + DEPTH - 1;
  Step step = {0, 0, 0, a.taps[1], a.taps[2]};
  Totals none;
  stage_taps(a, tile + a.tile_elements, b.w, step);
  if (BUFFERS == 2) stage_lines(a, b, step, tile);
#pragma unroll 1
  for (int i = 0; i < steps; i++) {
    ACC *now = tile + (BUFFERS == 2 ? i % 2 * a.buffer_elements : 0);
    if (BUFFERS == 1) {
      __syncthreads();
      stage_lines(a, b, step, now);
    }
    if (COPY) copies_arrived();
    __syncthreads();
    step.plane++;
    if (BUFFERS == 2 && i + 1 < steps) stage_lines(a, b, step, tile + (i + 1) % 2 * a.buffer_elements);
    add_step(a, sum, kept(now + mine), kept(tile + a.tile_elements), step, none);
    if (i >= DEPTH - 1) store_plane(a, p, sum[0], b.plane + i - (DEPTH - 1));
#pragma unroll
    for (int d = 0; d < DEPTH; d++)
#pragma unroll
      for (int q = 0; q < ROWS; q++)
#pragma unroll
        for (int v = 0; v < V; v++) sum[d][q][v] = d + 1 < DEPTH ? sum[d + 1][q][v] : 0;
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) falt_tiled(const __grid_constant__ Args a) {
  extern __shared__ __align__(16) unsigned char shared[];
  const int lane = threadIdx.x % LANES, line = threadIdx.x / LANES;
  unsigned block = blockIdx.x;
  Block b;
  b.column = block % a.column_blocks * WIDTH;
  block /= a.column_blocks;
  b.row = block % a.row_blocks * HEIGHT;
  block /= a.row_blocks;
  b.plane = block % a.plane_blocks * (WALK ? a.walk : DEPTH);
  block /= a.plane_blocks;
  const i64 k = block % a.batch[0], g = block / a.batch[0] % a.batch[1], n = block / a.batch[0] / a.batch[1];
  b.x = (const X *)a.x + (n * a.x_batch[0] + g * a.x_batch[1]);
  b.w = (const char *)a.w + (g * a.w_batch[0] + k * a.w_batch[1]);
  ACC sum[DEPTH][ROWS][V] = {};
  const int base = lane / SPREAD * (SPREAD * GROUP) + lane % SPREAD,
            mine = line * (ROWS * STRIDE_R * PITCH) + below(base);
  const Place p = {(Y *)a.y + (n * a.y_batch[0] + g * a.y_batch[1] + k * a.y_batch[2]),
                   n * a.residual.stride[0] + g * a.residual.stride[1] + k * a.residual.stride[2],
                   g * a.batch[0] + k,
                   b.column + base,
                   b.row + line * ROWS,
                   b.plane};
  if (WALK) return walk(a, b, (ACC *)shared, sum, mine, p);
  add_steps(a, b, (ACC *)shared, sum, mine);
  if (EPILOGUE == 2) return store_finished(a, p, sum, (ACC *)shared);
#pragma unroll
  for (int d = 0; d < DEPTH; d++) store_plane(a, p, sum[d], b.plane + d);
}
