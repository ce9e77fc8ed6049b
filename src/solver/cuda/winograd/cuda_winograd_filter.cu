// The filter transform of cuda-winograd: u = G w G^T of every pair of an output channel and a channel of the source.
// One thread computes one pair; LANES neighbouring threads have neighbouring channels of the source.
//
// Compile-time parameters: see cuda_winograd.cuh.

#include "cuda_winograd.cuh"
#include "ptx/early.cuh"

extern "C" __global__ void __launch_bounds__(THREADS) falt_winograd_filter(const __grid_constant__ Args a) {
  await_stream();
  const Spot spot = spot_of(a.v_channels, a.u_rows);
  const int c = (int)spot.near, row = (int)spot.far, g = spot.group;
  if (c >= a.v_channels || row >= a.u_rows) return;
  const bool exists = c < a.channels && row < a.rows;
  const float *w = a.w + g * a.w_group + row * a.w_row + c * a.w_channel;
  float t[TAPS][SIZE];
#pragma unroll
  for (int r = 0; r < TAPS; r++) {
    float taps[TAPS];
#pragma unroll
    for (int s = 0; s < TAPS; s++) taps[s] = exists ? w[r * a.w_axis[0] + s * a.w_axis[1]] : 0;
    transform_filter(taps, t[r]);
  }
  const i64 matrix = (i64)a.u_rows * a.v_channels;
  float *u = a.u + g * matrix + (i64)row * a.v_channels + c;
#pragma unroll
  for (int j = 0; j < SIZE; j++) {
    const float taps[TAPS] = {t[0][j], t[1][j], t[2][j]};
    float s[SIZE];
    transform_filter(taps, s);
#pragma unroll
    for (int i = 0; i < SIZE; i++) u[(i * SIZE + j) * a.groups * matrix] = to_two_tf32(s[i]);
  }
}
