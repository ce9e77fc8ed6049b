// The last kernel of cuda-winograd-wgrad: dw = G^T m G of every pair of an output channel and a channel. A block
// computes 32 neighbours in m by some of the other dimension, and stores them through shared memory in the order of w.
// Where a tap is not finite, all taps of the pair are computed again, output by output.

// Compile-time parameters: ROWS_FIRST (1: output channels are neighbours in m, 0: channels), CHANNELS_LAST (1: channels
// are neighbours in w, 0: taps), TYPE_Y (the number of dw's falt_type), and those of cuda_winograd.cuh.

#include "cuda_winograd.cuh"
#include "ptx/early.cuh"

constexpr int TAPS = TAPS_H * TAPS_W, NEAR = FALT_WINOGRAD_NEAR;

// The sum of tap (r, s), output by output.
__device__ inline float direct_sum(const Args &a, i64 x, i64 y, int r, int s) {
  float sum = 0;
  for (i64 plane = 0; plane < a.images * a.planes; plane++)
    for (int u = 0; u < a.out[0]; u++)
      for (int v = 0; v < a.out[1]; v++) {
        const int i = index_at(a, 0, u + r - a.pad[0]), j = index_at(a, 1, v + s - a.pad[1]);
        const bool inside = i >= 0 && j >= 0;
        if (!inside && !a.filled) continue;
        const i64 n = plane / a.planes, d = plane % a.planes;
        const i64 at = x + n * a.x_image + d * a.x_plane + i * a.x_axis[0] + j * a.x_axis[1];
        const i64 by = y + n * a.y_image + d * a.y_plane + u * a.y_axis[0] + v * a.y_axis[1];
        sum += (inside ? element_of(a.x, at) : a.fill) * element_of(a.y, by);
      }
  return sum;
}

// Where a block's results wait to be stored in the order of w, a tap of a pair each.
constexpr int FAR = FALT_WINOGRAD_OTHERS(TAPS), PITCH = NEAR + 1;

__device__ inline int staged_at(int near, int far, int tap) {
  return (far * TAPS + tap) * PITCH + near;
}

// The taps of a pair, from its products or, where one is not finite, output by output.
__device__ inline void stage_pair(const Args &a, int group, int row, int c, float unscale, float *staged) {
  float g[TAPS_H][TAPS_W], zero = 0;
  load_transformed<TAPS_H, TAPS_W, Height::products, Width::products>(
      a, a.m + group * a.m_matrix + row * a.m_row + c * a.m_column, g);
#pragma unroll
  for (int i = 0; i < TAPS; i++) {
    zero += 0 * g[i / TAPS_W][i % TAPS_W];
    staged[i * PITCH] = unscale * g[i / TAPS_W][i % TAPS_W];
  }
  if (zero == 0) return;
  const i64 x = group * a.x_group + c * a.x_channel, y = group * a.y_group + row * a.y_channel;
#pragma unroll 1
  for (int tap = 0; tap < TAPS; tap++) staged[tap * PITCH] = direct_sum(a, x, y, tap / TAPS_W, tap % TAPS_W);
}

extern "C" __global__ void __launch_bounds__(THREADS, 4) falt_winograd_wgrad(const __grid_constant__ Args a) {
  __shared__ float staged[FAR * TAPS * PITCH];
  await_stream();
  const float unscale = SCALED ? 1 / (scale_for(a.largest[0]) * scale_for(a.largest[1])) : 1;
  const int inner = ROWS_FIRST ? a.rows : a.channels, outer = ROWS_FIRST ? a.channels : a.rows;
  const unsigned pieces = (inner + NEAR - 1) / NEAR, blocks = (outer + FAR - 1) / FAR, others = blockIdx.x / pieces;
  const int near = blockIdx.x % pieces * NEAR, far = others % blocks * FAR, group = others / blocks;
  const int own = threadIdx.x % NEAR;
#pragma unroll 1
  for (int i = threadIdx.x / NEAR; i < FAR && far + i < outer; i += THREADS / NEAR)
    if (near + own < inner)
      stage_pair(a, group, ROWS_FIRST ? near + own : far + i, ROWS_FIRST ? far + i : near + own, unscale,
                 staged + staged_at(own, i, 0));
  __syncthreads();
  constexpr int ROWS = ROWS_FIRST ? NEAR : FAR, CHANNELS = ROWS_FIRST ? FAR : NEAR;
  const int row = ROWS_FIRST ? near : far, channel = ROWS_FIRST ? far : near;
#pragma unroll 1
  for (int i = threadIdx.x; i < ROWS * CHANNELS * TAPS; i += THREADS) {
    const int c = CHANNELS_LAST ? i % CHANNELS : i / TAPS % CHANNELS,
              tap = CHANNELS_LAST ? i / CHANNELS % TAPS : i % TAPS;
    const int r = i / (CHANNELS * TAPS);
    if (row + r >= a.rows || channel + c >= a.channels) continue;
    const i64 to = group * a.w_group + (row + r) * a.w_row + (channel + c) * a.w_channel + tap / TAPS_W * a.w_axis[0] +
                   tap % TAPS_W * a.w_axis[1];
    store<float>(a.w, TYPE_Y, to, staged[ROWS_FIRST ? staged_at(r, c, tap) : staged_at(c, r, tap)]);
  }
}
