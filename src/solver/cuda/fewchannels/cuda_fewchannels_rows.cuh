// Row producer of the kernels for few input channels: copies rows of x into a ring in shared memory and repacks them to
// PIXEL elements a pixel (its channels, then BEYOND), with the boundary's elements beyond the ends.

// An output reads a contiguous run of a row: PIECES pieces of 16 bytes. Runs start SPREAD pieces apart. Pieces are
// distributed over SPREAD planes, so the same piece of neighbouring runs is 16 bytes apart. cuda_fewchannels_nhwc.cu
// describes the compile-time parameters.

#pragma once
#include "boundary.cuh"
#include "cuda_fewchannels_args.h"
#include "pipeline.cuh"
#include "ptx/barrier.cuh"
#include "ptx/copy.cuh"

typedef long long i64;
typedef falt_cuda_fewchannels_nhwc_args Args;

constexpr int STEP = STRIDE_S * PAIRED, SPREAD = STEP * PIXEL / 8;            // from run to run: pixels, pieces
constexpr int REACH = (TAPS_S - 1) * DILATE_S + (PAIRED - 1) * STRIDE_S + 1;  // pixels of a run
constexpr int POSITIONS = WIDTH + (PIECES - 1) / SPREAD, PLANE = POSITIONS * 16, ROW = SPREAD * PLANE;
constexpr int BATCH = ROWS * STRIDE_R, RING_ROWS = BATCHES * BATCH;
constexpr int AHEAD = ((ROWS - 1) * STRIDE_R + (TAPS_R - 1) * DILATE_R) / BATCH;  // batches beyond the first one's
constexpr int TILE = WIDTH * PAIRED;                                              // columns of outputs
static_assert(STEP * PIXEL % 8 == 0, "runs begin at pieces");
static_assert(PIECES * 8 >= REACH * PIXEL, "pieces hold a run");
static_assert(BATCHES > AHEAD + 1, "a batch may come while those that one needs are multiplied");

// Rows, with the first MIRRORED stored again behind the last, and the barriers of batches.
struct Ring {
  unsigned base, barriers;
  __device__ unsigned row(int i) const { return base + i * ROW; }
  __device__ unsigned full(int i) const { return barriers + 8 * i; }
  __device__ unsigned empty(int i) const { return barriers + 8 * (BATCHES + i); }
};

// ---- the work of a block

// Rows `begin` to `end` of a tile of columns.
struct Walk {
  int image, begin, end, column;
};

__device__ inline bool walk_at(const Args &a, int item, Walk &walk) {
  if (item >= a.items) return false;
  walk.column = item % a.column_tiles * TILE, item /= a.column_tiles;
  walk.begin = item % a.walks * a.walk, walk.image = item / a.walks;
  walk.end = min(walk.begin + a.walk, a.out[0]);
  return true;
}

__device__ inline int batches_of(const Walk &walk) {
  return (walk.end - walk.begin + ROWS - 1) / ROWS;
}

typedef Pipeline<BATCHES> PipelineState;

// ---- rows of x

// Where a position of an axis is in memory, or -1: beyond the ends, where the constant is.
__device__ inline int place_of(const Args &a, int axis, int position) {
  return fold<int>(a.boundary[axis][0], a.boundary[axis][1], a.in[axis], position);
}

constexpr int PER = (SPREAD * POSITIONS + 127) / 128, PIXELS = 8 / PIXEL;  // pieces of a thread, pixels of a piece

// The columns of a thread's pieces, the same in all rows.
struct Columns {
  int at[PER][PIXELS];
};

__device__ inline Columns columns_of(const Args &a, const Walk &walk) {
  Columns made;
#pragma unroll
  for (int i = 0; i < PER; i++)
#pragma unroll
    for (int j = 0; j < PIXELS; j++)
      made.at[i][j] = place_of(a, 1, walk.column * STRIDE_S - a.pad[1] + (threadIdx.x % 128 + i * 128) * PIXELS + j);
  return made;
}

// One row's pieces of a thread.
struct Pieces {
  unsigned short half[PER][PIXELS][CHANNELS];
};

__device__ inline void load_row(const Args &a, const Walk &walk, const Columns &columns, int row, Pieces &made) {
  const int h = place_of(a, 0, row);
  const unsigned short *from = (const unsigned short *)a.x + walk.image * a.x_image + h * a.x_row;
#pragma unroll
  for (int i = 0; i < PER; i++)
#pragma unroll
    for (int j = 0; j < PIXELS; j++) {
      const int w = columns.at[i][j];
      const unsigned short *pixel = from + (i64)w * a.x_column;
#pragma unroll
      for (int c = 0; c < CHANNELS; c++) {
        made.half[i][j][c] = a.fill;
        if (h >= 0 && w >= 0) made.half[i][j][c] = __ldg(pixel + c * a.x_channel);
      }
    }
}

__device__ inline void store_row(unsigned row, const Pieces &pieces) {
#pragma unroll
  for (int i = 0; i < PER; i++) {
    const int piece = threadIdx.x % 128 + i * 128;
    unsigned word[4];
#pragma unroll
    for (int k = 0; k < 4; k++) {
      const int j = 2 * k / PIXEL, c = 2 * k % PIXEL;
      const unsigned low = c < CHANNELS ? pieces.half[i][j][c < CHANNELS ? c : 0] : BEYOND;
      const unsigned high = c + 1 < CHANNELS ? pieces.half[i][j][c + 1 < CHANNELS ? c + 1 : 0] : BEYOND;
      word[k] = low | high << 16;
    }
    if (piece < SPREAD * POSITIONS)
      asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(row + piece % SPREAD * PLANE + piece / SPREAD * 16),
                   "r"(word[0]), "r"(word[1]), "r"(word[2]), "r"(word[3])
                   : "memory");
  }
}

__device__ inline void keep_row(const Ring &s, int i, const Pieces &pieces) {
  store_row(s.row(i), pieces);
  if (i < MIRRORED) store_row(s.row(RING_ROWS + i), pieces);
}

// Several rows are in flight at once, as many as registers hold.
__device__ constexpr int at_once(int rows) {
  return rows == 1 || (BATCH % rows == 0 && rows * PER * PIXELS * CHANNELS <= 24) ? rows : at_once(rows - 1);
}
constexpr int AT_ONCE = at_once(BATCH);

__device__ inline void load_rows(const Args &a, const Walk &walk, const Columns &columns, int row,
                                 Pieces (&rows)[AT_ONCE]) {
#pragma unroll
  for (int i = 0; i < AT_ONCE; i++) load_row(a, walk, columns, row + i, rows[i]);
}

// One of several producer warpgroups, which take batches round robin. `above`: tap rows before the first.
template <int GROUPS>
__device__ inline void produce(const Args &a, const Ring &s, int above, int mine) {
  PipelineState state;
  int number = 0;
  Walk walk;
  Pieces rows[AT_ONCE];
  for (int item = blockIdx.x / a.result_tiles; walk_at(a, item, walk); item += gridDim.x / a.result_tiles) {
    const Columns columns = columns_of(a, walk);
    const int first = walk.begin * STRIDE_R - a.pad[0] + above * DILATE_R, batches = batches_of(walk) + AHEAD;
    for (int batch = 0; batch < batches; batch++, state.next()) {
      if (number++ % GROUPS != mine) continue;
#pragma unroll 1
      for (int i = 0; i < BATCH; i += AT_ONCE) {
        load_rows(a, walk, columns, first + batch * BATCH + i, rows);
        if (i == 0) barrier_wait(s.empty(state.stage), state.parity ^ 1);
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) keep_row(s, state.stage * BATCH + i + j, rows[j]);
      }
      copy_fence();
      barrier_arrive(s.full(state.stage));
    }
  }
}
