// The filter transform of cuda-winograd: u = G w G^T of every pair of an output channel and a channel of the source.
// One thread computes one pair; LANES neighbouring threads have neighbouring channels of the source.
//
// Compile-time parameters: see cuda_winograd.cuh.

#include "cuda_winograd.cuh"
#include "ptx/early.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 4) falt_winograd_filter(const __grid_constant__ Args a) {
  await_stream();
  const Spot spot = spot_of(a.v_channels, a.u_rows);
  const int c = (int)spot.near, row = (int)spot.far, g = spot.group;
  if (c >= a.v_channels || row >= a.u_rows) return;
  const bool exists = c < a.channels && row < a.rows;
  const i64 w = g * a.w_group + row * a.w_row + c * a.w_channel;
  const float scale = exists ? scale_for(a.largest[1] + g * a.rows + row) : 1;
  float t[TAPS_H][SIZE_W], u[SIZE_H][SIZE_W];
#pragma unroll
  for (int r = 0; r < TAPS_H; r++) {
    float taps[TAPS_W];
#pragma unroll
    for (int s = 0; s < TAPS_W; s++) taps[s] = exists ? element_of(a.w, w + r * a.w_axis[0] + s * a.w_axis[1]) : 0;
    Width::filter(taps, t[r]);
  }
  along_height<TAPS_H, SIZE_H, SIZE_W, Height::filter>(t, u);
  const i64 matrix = (i64)a.u_rows * a.v_channels;
  store_transformed<SIZE_H, SIZE_W>(a.u, g * matrix + (i64)row * a.v_channels + c, u, a.groups * matrix, scale);
}
