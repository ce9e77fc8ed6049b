// The filter transform of cuda-winograd: u = G w G^T of every pair of an output channel and a channel of the source.
// One thread computes one pair; LANES neighbouring threads have neighbouring channels of the source. Where output
// channels are neighbours in w, a block loads the taps of 32 by 32 in that order, and they pass through shared memory.

// Compile-time parameters: STAGED (1: through shared memory), and those of cuda_winograd.cuh.

#include "cuda_winograd.cuh"
#include "ptx/early.cuh"

constexpr int TAPS = TAPS_H * TAPS_W, NEAR = FALT_WINOGRAD_NEAR, FAR = FALT_WINOGRAD_OTHERS(TAPS), PITCH = NEAR + 1;

__device__ inline void transform_pair(const Args &a, int group, int row, int c, const float taps[TAPS_H][TAPS_W]) {
  const float scale = row < a.rows ? scale_for(a.largest[1] + group * a.rows + row) : 1;
  const i64 matrix = (i64)a.u_rows * a.v_channels;
  float t[TAPS_H][SIZE_W], u[SIZE_H][SIZE_W];
#pragma unroll
  for (int r = 0; r < TAPS_H; r++) Width::filter(taps[r], t[r]);
  along_height<TAPS_H, SIZE_H, SIZE_W, Height::filter>(t, u);
  store_transformed<SIZE_H, SIZE_W>(a.u, group * matrix + (i64)row * a.v_channels + c, u, a.groups * matrix, scale);
}

__device__ inline void transform_in_place(const Args &a) {
  const Spot spot = spot_of(a.v_channels, a.u_rows);
  const int c = (int)spot.near, row = (int)spot.far, g = spot.group;
  if (c >= a.v_channels || row >= a.u_rows) return;
  const bool exists = c < a.channels && row < a.rows;
  const i64 w = g * a.w_group + row * a.w_row + c * a.w_channel;
  float taps[TAPS_H][TAPS_W];
#pragma unroll
  for (int r = 0; r < TAPS_H; r++)
#pragma unroll
    for (int s = 0; s < TAPS_W; s++) taps[r][s] = exists ? element_of(a.w, w + r * a.w_axis[0] + s * a.w_axis[1]) : 0;
  transform_pair(a, g, row, c, taps);
}

// The taps of FAR output channels, neighbours in w, and NEAR channels: a warp loads those of neighbours.
__device__ inline void load_taps(const Args &a, int group, int first_row, int first, float *staged) {
  const int row = first_row + threadIdx.x % FAR;
  const i64 w = group * a.w_group + row * a.w_row;
#pragma unroll 1
  for (int c = threadIdx.x / FAR; c < NEAR; c += THREADS / FAR) {
    const bool exists = row < a.rows && first + c < a.channels;
    float *to = staged + threadIdx.x % FAR * TAPS * PITCH + c;
#pragma unroll
    for (int tap = 0; tap < TAPS; tap++)
      to[tap * PITCH] =
          exists
              ? element_of(a.w, w + (first + c) * a.w_channel + tap / TAPS_W * a.w_axis[0] + tap % TAPS_W * a.w_axis[1])
              : 0;
  }
  __syncthreads();
}

__device__ inline void transform_staged(const Args &a, float *staged) {
  const unsigned pieces = (a.v_channels + NEAR - 1) / NEAR, blocks = (a.u_rows + FAR - 1) / FAR;
  const unsigned others = blockIdx.x / pieces;
  const int lane = threadIdx.x % NEAR, first = blockIdx.x % pieces * NEAR, row = others % blocks * FAR;
  const int group = others / blocks;
  load_taps(a, group, row, first, staged);
  if (first + lane >= a.v_channels) return;
#pragma unroll 1
  for (int i = threadIdx.x / NEAR; i < FAR && row + i < a.u_rows; i += THREADS / NEAR) {
    float taps[TAPS_H][TAPS_W];
#pragma unroll
    for (int tap = 0; tap < TAPS; tap++) taps[tap / TAPS_W][tap % TAPS_W] = staged[(i * TAPS + tap) * PITCH + lane];
    transform_pair(a, group, row + i, first + lane, taps);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, 4) falt_winograd_filter(const __grid_constant__ Args a) {
  __shared__ float staged[STAGED ? FAR * TAPS * PITCH : 1];
  await_stream();
  if (STAGED)
    transform_staged(a, staged);
  else
    transform_in_place(a);
}
