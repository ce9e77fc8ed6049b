// The input transform of cuda-winograd: v = B^T d B of every tile and channel. One thread a tile and channel; LANES
// neighbouring threads have neighbouring channels, or tiles.
//
// Compile-time parameters: TILES_FIRST (1: neighbouring threads have neighbouring tiles), and those of
// cuda_winograd.cuh.

#include "cuda_winograd.cuh"
#include "ptx/early.cuh"

__device__ inline void load_tile(const Args &a, const Place &p, i64 x, float t[SIZE_H][SIZE_W]) {
  int column[SIZE_W];
#pragma unroll
  for (int j = 0; j < SIZE_W; j++) column[j] = index_at(a, 1, p.at[1] + j - a.pad[1]);
#pragma unroll
  for (int i = 0; i < SIZE_H; i++) {
    const int row = index_at(a, 0, p.at[0] + i - a.pad[0]);
    float d[SIZE_W];
#pragma unroll
    for (int j = 0; j < SIZE_W; j++)
      d[j] = row >= 0 && column[j] >= 0 ? element_of(a.x, x + row * a.x_axis[0] + column[j] * a.x_axis[1]) : a.fill;
    Width::input(d, t[i]);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, 4) falt_winograd_input(const __grid_constant__ Args a) {
  await_stream();
  const Spot spot = TILES_FIRST ? spot_of(a.v_tiles, a.v_channels) : spot_of(a.v_channels, a.v_tiles);
  const i64 tile = TILES_FIRST ? spot.near : spot.far;
  const int c = (int)(TILES_FIRST ? spot.far : spot.near);
  if (c >= a.v_channels || tile >= a.v_tiles) return;
  float t[SIZE_H][SIZE_W] = {}, v[SIZE_H][SIZE_W];
  if (c < a.channels && tile < a.tiles) {
    const Place p = place_of(a, tile);
    load_tile(a, p, source_of(a, p, spot.group, c), t);
  }
  const float scale = scale_for(a.largest[0]);
  along_height<SIZE_H, SIZE_H, SIZE_W, Height::input>(t, v);
  store_transformed<SIZE_H, SIZE_W>(a.v, spot.group * a.v_matrix + tile * a.v_tile + c * a.v_channel, v,
                                    a.groups * a.v_matrix, scale);
}
