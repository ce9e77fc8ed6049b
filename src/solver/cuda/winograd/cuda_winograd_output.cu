// The output transform of cuda-winograd: y = A^T m A of every tile and output channel, and the epilogue. One thread
// computes one tile of one output channel; LANES neighbouring threads have neighbouring channels, or tiles. Transforms
// spread NaN and infinity over a tile and may overflow: a tile with such an output is computed again tap by tap.

// Compile-time parameters: TILES_FIRST (1: neighbouring threads have neighbouring tiles), and
// the parameters of cuda_winograd.cuh and finish.cuh.

#include "cuda_winograd.cuh"
#include "finish.cuh"
#include "ptx/early.cuh"

// The sum of an output's products, tap by tap.
__device__ inline float direct_sum(const Args &a, i64 x, i64 w, int row, int column) {
  float sum = 0;
  for (int tap = 0; tap < TAPS_H * TAPS_W; tap++) {
    const int r = tap / TAPS_W, s = tap % TAPS_W;
    const int i = index_at(a, 0, row + r - a.pad[0]), j = index_at(a, 1, column + s - a.pad[1]);
    const bool inside = i >= 0 && j >= 0;
    if (!inside && !a.filled) continue;
    const i64 from = x + (inside ? i * a.x_axis[0] + j * a.x_axis[1] : 0);
    const i64 taps = w + r * a.w_axis[0] + s * a.w_axis[1];
    for (int c = 0; c < a.channels; c++)
      sum += (inside ? element_of(a.x, from + c * a.x_channel) : a.fill) * element_of(a.w, taps + c * a.w_channel);
  }
  return sum;
}

__device__ inline bool all_finite(const float y[OUTPUTS_H][OUTPUTS_W]) {
  float zero = 0;
#pragma unroll
  for (int i = 0; i < OUTPUTS_H * OUTPUTS_W; i++) zero += 0 * y[i / OUTPUTS_W][i % OUTPUTS_W];
  return zero == 0;
}

// What the sum of an output's products is divided by: the scales of the transforms.
__device__ inline float unscale_of(const Args &a, int row) {
  return SCALED ? 1 / (scale_for(a.largest[0]) * scale_for(a.largest[1] + row)) : 1;
}

extern "C" __global__ void __launch_bounds__(THREADS, 4) falt_winograd_output(const __grid_constant__ Args a) {
  await_stream();
  const i64 inner = TILES_FIRST ? a.tiles : a.rows, outer = TILES_FIRST ? a.rows : a.tiles;
  const Spot spot = spot_of(inner, outer);
  if (spot.near >= inner || spot.far >= outer) return;
  const int g = spot.group, row = (int)(TILES_FIRST ? spot.far : spot.near);
  const i64 tile = TILES_FIRST ? spot.near : spot.far;
  const Place p = place_of(a, tile);
  float y[OUTPUTS_H][OUTPUTS_W];
  load_transformed<OUTPUTS_H, OUTPUTS_W, Height::output, Width::output>(
      a, a.m + g * a.m_matrix + row * a.m_row + tile * a.m_column, y);
  const bool finite = all_finite(y);
  const float unscale = unscale_of(a, g * a.rows + row);
  const i64 x = source_of(a, p, g, 0), w = g * a.w_group + row * a.w_row;
  const Linear<float> l = linear(a, (i64)g * a.rows + row);
  const i64 to = p.image * a.y_image + p.plane * a.y_plane + g * a.y_group + row * a.y_channel;
  const i64 residual = p.image * a.r_image + p.plane * a.r_plane + g * a.r_group + row * a.r_channel;
  const auto finish = [&](int i, int j, float sum) {
    store<float>(a.y, TYPE_Y, to + i * a.y_axis[0] + j * a.y_axis[1],
                 finished(a, l, sum, residual + i * a.r_axis[0] + j * a.r_axis[1]));
  };
  if (!finite) {
#pragma unroll 1
    for (int i = 0; i < OUTPUTS_H * OUTPUTS_W; i++) {
      const int u = p.at[0] + i / OUTPUTS_W, v = p.at[1] + i % OUTPUTS_W;
      if (u < a.out[0] && v < a.out[1]) finish(u, v, direct_sum(a, x, w, u, v));
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < OUTPUTS_H * OUTPUTS_W; i++) {
    const int u = p.at[0] + i / OUTPUTS_W, v = p.at[1] + i % OUTPUTS_W;
    if (u < a.out[0] && v < a.out[1]) finish(u, v, unscale * y[i / OUTPUTS_W][i % OUTPUTS_W]);
  }
}
