// The last kernel of cuda-winograd-wgrad: dw = G^T m G of every pair of an output channel and a channel. One thread
// computes one pair; LANES neighbouring threads have neighbouring channels, or output channels. Where a tap is not
// finite, the thread computes all taps of the pair again, output by output.

// Compile-time parameters: ROWS_FIRST (1: neighbouring threads have neighbouring output channels), TYPE_Y (the
// number of dw's falt_type), and those of cuda_winograd.cuh.

#include "cuda_winograd.cuh"
#include "ptx/early.cuh"

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

extern "C" __global__ void __launch_bounds__(THREADS, 4) falt_winograd_wgrad(const __grid_constant__ Args a) {
  await_stream();
  const float unscale = SCALED ? 1 / (scale_of_parts(a.largest[0]) * scale_of_parts(a.largest[1])) : 1;
  const int inner = ROWS_FIRST ? a.rows : a.channels, outer = ROWS_FIRST ? a.channels : a.rows;
  const Spot spot = spot_of(inner, outer);
  if (spot.near >= inner || spot.far >= outer) return;
  const i64 row = ROWS_FIRST ? spot.near : spot.far, c = ROWS_FIRST ? spot.far : spot.near;
  float g[TAPS_H][TAPS_W], zero = 0;
  load_transformed<TAPS_H, TAPS_W, Height::products, Width::products>(
      a, a.m + spot.group * a.m_matrix + row * a.m_row + c * a.m_column, g);
#pragma unroll
  for (int i = 0; i < TAPS_H * TAPS_W; i++) zero += 0 * g[i / TAPS_W][i % TAPS_W];
  const i64 w = spot.group * a.w_group + row * a.w_row + c * a.w_channel;
  if (zero != 0) {
    const i64 x = spot.group * a.x_group + c * a.x_channel, y = spot.group * a.y_group + row * a.y_channel;
#pragma unroll 1
    for (int tap = 0; tap < TAPS_H * TAPS_W; tap++) {
      const int r = tap / TAPS_W, s = tap % TAPS_W;
      store<float>(a.w, TYPE_Y, w + r * a.w_axis[0] + s * a.w_axis[1], direct_sum(a, x, y, r, s));
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < TAPS_H * TAPS_W; i++)
    store<float>(a.w, TYPE_Y, w + i / TAPS_W * a.w_axis[0] + i % TAPS_W * a.w_axis[1],
                 unscale * g[i / TAPS_W][i % TAPS_W]);
}
