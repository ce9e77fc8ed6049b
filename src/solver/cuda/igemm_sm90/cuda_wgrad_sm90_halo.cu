// Wgrad of dense NHWC layers with wgmma and TMA (sm_90a); each halo tile is loaded once for all taps of a plane:
//
//   dw[k][t][r][s][c] = sum over pixels of dy[pixel][k] * x[pixel + (t, r, s)][c]

// TMA loads a tile of dy and the halo tile of x, 64 channels of each, with zeros outside the image. The depth of a
// product is 16 pixels, two rows of eight. Its 64 rows are channels of dy. Its columns are the channels of x for all
// taps of a row: the same halo tile from one pixel, its neighbour and the next, because the 64-column blocks of a
// descriptor may be as close as one pixel. Each warpgroup computes one tap row and keeps its accumulators in registers
// over all tiles of the block. Blocks share the tiles; cuda_igemm_sm90_sum.cu adds their sums in a fixed order.

// Compile-time parameters:
//   PAIR                      types of the operands, "f16.f16" or "bf16.bf16"
//   TAPS_D TAPS_H TAPS_W      of the filter, along planes, rows, columns; TAPS_H warpgroups multiply
//   DILATION_H DILATION_W     from tap to tap
//   TILE_H TILE_W             pixels of a tile; 2 and 8 divide them
//   STAGES                    tiles in flight

#include "cuda_igemm_sm90_halo_args.h"
#include "pipeline.cuh"
#include "ptx/barrier.cuh"
#include "ptx/copy.cuh"
#include "ptx/early.cuh"
#include "ptx/wgmma.cuh"

typedef falt_cuda_wgrad_sm90_halo_args Args;

constexpr int PIXEL = 128, SPAN = 64;
constexpr int WINDOW_W = TILE_W + (TAPS_W - 1) * DILATION_W, WINDOW_H = TILE_H + (TAPS_H - 1) * DILATION_H;
constexpr int TILE = TILE_W * TILE_H * PIXEL, WINDOW = WINDOW_W * WINDOW_H * PIXEL;
constexpr int BEFORE = (TILE + 1023) / 1024 * 1024, STAGE = BEFORE + (WINDOW + 1023) / 1024 * 1024;
constexpr int BARRIERS = STAGES * STAGE;
constexpr int COLUMNS = TAPS_W * SPAN;
constexpr int THREADS = 128 * (TAPS_H + 1);

struct Shared {
  unsigned base;
  __device__ unsigned tile(int i) const { return base + i * STAGE; }
  __device__ unsigned window(int i) const { return base + i * STAGE + BEFORE; }
  __device__ unsigned full(int i) const { return base + BARRIERS + 8 * i; }
  __device__ unsigned empty(int i) const { return base + BARRIERS + 8 * (STAGES + i); }
};

typedef Pipeline<STAGES> PipelineState;

// The work of a block: its channels and tap planes, and its split-K slice of the tiles.
struct Part {
  int row, column, plane, slice;
};

__device__ inline Part part_of(const Args &a) {
  const int plane = blockIdx.x % TAPS_D, rest = blockIdx.x / TAPS_D;
  const int column = rest % a.column_tiles, row = rest / a.column_tiles % a.row_tiles;
  return {row * SPAN, column * SPAN, plane, rest / a.column_tiles / a.row_tiles};
}

__device__ inline void produce(const Args &a, const Shared &s, const Part &part) {
  PipelineState state;
  for (int item = part.slice; item < a.items; item += a.split_k) {
    const int w = item % a.tiles[2] * TILE_W, h = item / a.tiles[2] % a.tiles[1] * TILE_H;
    const int rest = item / a.tiles[2] / a.tiles[1], d = rest % a.tiles[0], image = rest / a.tiles[0];
    const int y[5] = {part.row, w, h, d, image};
    const int x[5] = {part.column, w + a.corner[2], h + a.corner[1], d + a.corner[0] + part.plane * a.dilation, image};
    barrier_wait(s.empty(state.stage), state.parity ^ 1);
    barrier_expect(s.full(state.stage), TILE + WINDOW);
    copy_box(s.tile(state.stage), &a.y, s.full(state.stage), y);
    copy_box(s.window(state.stage), &a.x, s.full(state.stage), x);
    state.next();
  }
}

typedef float Sums[COLUMNS / 2];

__device__ inline void multiply_tile(Sums &sums, unsigned tile, unsigned window, int row) {
  const unsigned long long y = wgmma_lines(tile, 0, TILE_W * PIXEL);
  const unsigned long long x =
      wgmma_lines(window + row * DILATION_H * WINDOW_W * PIXEL, DILATION_W * PIXEL, WINDOW_W * PIXEL);
  wgmma_hold(sums);
  wgmma_begin();
#pragma unroll
  for (int h = 0; h < TILE_H; h += 2)
#pragma unroll
    for (int w = 0; w < TILE_W; w += 8)
      Wgmma<1, 1>::add(sums, y + (h * TILE_W + w) * PIXEL / 16, x + (h * WINDOW_W + w) * PIXEL / 16, 1);
  wgmma_commit();
  wgmma_hold(sums);
}

// Stores the block's sums with contiguous channels of a tap.
__device__ inline void keep_sums(const Args &a, const Sums &sums, const Part &part, int tap_row) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, taps = TAPS_D * TAPS_H * TAPS_W;
#pragma unroll
  for (int half = 0; half < 2; half++) {
    const int row = part.row + warp * 16 + half * 8 + lane / 4, tap = (part.plane * TAPS_H + tap_row) * TAPS_W;
    if (row >= a.rows) continue;
    float *to = a.sums + (((long long)part.slice * a.rows + row) * taps + tap) * a.tap_columns + part.column;
#pragma unroll
    for (int j = 0; j < COLUMNS / 8; j++)
      *(float2 *)(to + j / 8 * a.tap_columns + j % 8 * 8 + lane % 4 * 2) =
          make_float2(sums[4 * j + 2 * half], sums[4 * j + 2 * half + 1]);
  }
}

__device__ inline void consume(const Args &a, const Shared &s, const Part &part, int row) {
  PipelineState state;
  Sums sums;
  int before = -1;
#pragma unroll
  for (int j = 0; j < COLUMNS / 2; j++) sums[j] = 0;
  for (int item = part.slice; item < a.items; item += a.split_k) {
    barrier_wait(s.full(state.stage), state.parity);
    multiply_tile(sums, s.tile(state.stage), s.window(state.stage), row);
    if (before >= 0) {
      wgmma_wait<1>();
      if (threadIdx.x % 128 == 0) barrier_arrive(s.empty(before));
    }
    before = state.stage;
    state.next();
  }
  wgmma_wait<0>();
  wgmma_hold(sums);
  keep_sums(a, sums, part, row);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) falt_wgrad_sm90_halo(const __grid_constant__ Args a) {
  extern __shared__ __align__(1024) char memory[];
  const Shared s = {shared_address(memory)};
  const int group = __shfl_sync(~0u, (int)threadIdx.x / 128, 0);
  const Part part = part_of(a);
  if (threadIdx.x == 0) {
    ring_init<STAGES>(s, 1, TAPS_H);
    barrier_init_fence();
  }
  __syncthreads();
  await_stream();
  if (group < TAPS_H)
    consume(a, s, part, group);
  else if (threadIdx.x == 128 * TAPS_H)
    produce(a, s, part);
}
