// The transform of dy of cuda-winograd-wgrad: d = A y A^T of every tile and output channel. One thread computes one
// tile of one output channel; LANES neighbouring threads have neighbouring tiles.
//
// Compile-time parameters: see cuda_winograd.cuh.

#include "cuda_winograd.cuh"
#include "ptx/early.cuh"

// Outputs beyond the end of a plane are zeros.
__device__ inline void load_tile(const Args &a, const Place &p, const float *y, float t[OUTPUTS][SIZE]) {
#pragma unroll
  for (int i = 0; i < OUTPUTS; i++) {
    float line[OUTPUTS];
#pragma unroll
    for (int j = 0; j < OUTPUTS; j++) {
      const int u = p.at[0] + i, v = p.at[1] + j;
      line[j] = u < a.out[0] && v < a.out[1] ? y[u * a.y_axis[0] + v * a.y_axis[1]] : 0;
    }
    transform_gradient(line, t[i]);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) falt_winograd_gradient(const __grid_constant__ Args a) {
  await_stream();
  const Spot spot = spot_of(a.v_tiles, a.u_rows);
  if (spot.near >= a.v_tiles || spot.far >= a.u_rows) return;
  float t[OUTPUTS][SIZE] = {};
  if (spot.near < a.tiles && spot.far < a.rows) {
    const Place p = place_of(a, spot.near);
    const i64 at = p.image * a.y_image + p.plane * a.y_plane + spot.group * a.y_group + spot.far * a.y_channel;
    load_tile(a, p, a.y + at, t);
  }
  const i64 matrix = (i64)a.u_rows * a.v_tiles;
  float *d = a.d + spot.group * matrix + spot.far * a.v_tiles + spot.near;
#pragma unroll
  for (int j = 0; j < SIZE; j++) {
    float line[OUTPUTS], s[SIZE];
#pragma unroll
    for (int i = 0; i < OUTPUTS; i++) line[i] = t[i][j];
    transform_gradient(line, s);
#pragma unroll
    for (int i = 0; i < SIZE; i++) d[(i * SIZE + j) * a.groups * matrix] = to_two_tf32(s[i]);
  }
}
