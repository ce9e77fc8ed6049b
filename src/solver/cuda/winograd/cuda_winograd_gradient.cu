// The transform of dy of cuda-winograd-wgrad: d = A y A^T of every tile and output channel. One thread computes one
// tile of one output channel; LANES neighbouring threads have neighbouring tiles.
//
// Compile-time parameters: see cuda_winograd.cuh.

#include "cuda_winograd.cuh"
#include "ptx/early.cuh"

// Outputs beyond the end of a plane are zeros.
__device__ inline void load_tile(const Args &a, const Place &p, i64 y, float t[OUTPUTS_H][SIZE_W]) {
#pragma unroll
  for (int i = 0; i < OUTPUTS_H; i++) {
    float line[OUTPUTS_W];
#pragma unroll
    for (int j = 0; j < OUTPUTS_W; j++) {
      const int u = p.at[0] + i, v = p.at[1] + j;
      line[j] = u < a.out[0] && v < a.out[1] ? element_of(a.y, y + u * a.y_axis[0] + v * a.y_axis[1]) : 0;
    }
    Width::gradient(line, t[i]);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, 4) falt_winograd_gradient(const __grid_constant__ Args a) {
  await_stream();
  const Spot spot = spot_of(a.v_tiles, a.u_rows);
  if (spot.near >= a.v_tiles || spot.far >= a.u_rows) return;
  float t[OUTPUTS_H][SIZE_W] = {}, d[SIZE_H][SIZE_W];
  if (spot.near < a.tiles && spot.far < a.rows) {
    const Place p = place_of(a, spot.near);
    load_tile(a, p, p.image * a.y_image + p.plane * a.y_plane + spot.group * a.y_group + spot.far * a.y_channel, t);
  }
  const float scale = scale_for(a.largest[1]);
  along_height<OUTPUTS_H, SIZE_H, SIZE_W, Height::gradient>(t, d);
  const i64 matrix = (i64)a.u_rows * a.v_tiles;
  store_transformed<SIZE_H, SIZE_W>(a.d, spot.group * matrix + spot.far * a.v_tiles + spot.near, d, a.groups * matrix,
                                    scale);
}
