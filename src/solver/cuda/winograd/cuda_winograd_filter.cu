// The filter transform of cuda-winograd: u = G w G^T of every pair of an output channel and a channel of the source. A
// block takes 32 channels, neighbours in u, of some output channels. Where they are not neighbours in w, its taps are
// loaded in the order of w and pass through shared memory.

// Compile-time parameters: STAGED (1: through shared memory), ROWS_LAST (1: output channels are neighbours in w, 0:
// taps), and those of cuda_winograd.cuh.

#include "cuda_winograd.cuh"
#include "ptx/early.cuh"

constexpr int TAPS = TAPS_H * TAPS_W, NEAR = 32, FAR = !STAGED ? THREADS / NEAR : TAPS <= 9 ? 32 : 8, PITCH = NEAR + 1;

__device__ inline i64 tap_of(const Args &a, int group, int row, int c, int tap) {
  return group * a.w_group + row * a.w_row + c * a.w_channel + tap / TAPS_W * a.w_axis[0] + tap % TAPS_W * a.w_axis[1];
}

__device__ inline float tap_or_zero(const Args &a, int group, int row, int c, int tap) {
  return row < a.rows && c < a.channels ? element_of(a.w, tap_of(a, group, row, c, tap)) : 0;
}

__device__ inline void load_taps(const Args &a, int group, int row, int c, float *staged) {
#pragma unroll 4
  for (int i = threadIdx.x; i < FAR * NEAR * TAPS; i += THREADS) {
    const int r = ROWS_LAST ? i % FAR : i / (NEAR * TAPS), tap = ROWS_LAST ? i / (FAR * NEAR) : i % TAPS;
    const int column = ROWS_LAST ? i / FAR % NEAR : i / TAPS % NEAR;
    staged[(r * TAPS + tap) * PITCH + column] = tap_or_zero(a, group, row + r, c + column, tap);
  }
  __syncthreads();
}

__device__ inline void transform_pair(const Args &a, int group, int row, int c, const float taps[TAPS_H][TAPS_W]) {
  const float scale = row < a.rows ? scale_for(a.largest[1] + group * a.rows + row) : 1;
  const i64 matrix = (i64)a.u_rows * a.v_channels;
  float t[TAPS_H][SIZE_W], u[SIZE_H][SIZE_W];
#pragma unroll
  for (int r = 0; r < TAPS_H; r++) Width::filter(taps[r], t[r]);
  along_height<TAPS_H, SIZE_H, SIZE_W, Height::filter>(t, u);
  store_transformed<SIZE_H, SIZE_W>(a.u, group * matrix + (i64)row * a.v_channels + c, u, a.groups * matrix, scale);
}

extern "C" __global__ void __launch_bounds__(THREADS, 4) falt_winograd_filter(const __grid_constant__ Args a) {
  __shared__ float staged[STAGED ? FAR * TAPS * PITCH : 1];
  await_stream();
  const unsigned pieces = (a.v_channels + NEAR - 1) / NEAR, blocks = (a.u_rows + FAR - 1) / FAR;
  const unsigned others = blockIdx.x / pieces;
  const int first = blockIdx.x % pieces * NEAR, c = first + threadIdx.x % NEAR, group = others / blocks;
  const int row = others % blocks * FAR;
  if (STAGED) load_taps(a, group, row, first, staged);
  if (c >= a.v_channels) return;
#pragma unroll 1
  for (int i = threadIdx.x / NEAR; i < FAR && row + i < a.u_rows; i += THREADS / NEAR) {
    float taps[TAPS_H][TAPS_W];
#pragma unroll
    for (int tap = 0; tap < TAPS; tap++)
      taps[tap / TAPS_W][tap % TAPS_W] =
          STAGED ? staged[(i * TAPS + tap) * PITCH + threadIdx.x % NEAR] : tap_or_zero(a, group, row + i, c, tap);
    transform_pair(a, group, row + i, c, taps);
  }
}
