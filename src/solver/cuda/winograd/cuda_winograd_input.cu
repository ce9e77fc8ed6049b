// The input transform of cuda-winograd: v = B^T d B of every tile and channel. One thread a tile and channel; LANES
// neighbouring threads have neighbouring channels.
//
// Compile-time parameters: those of cuda_winograd.cuh.

#include "cuda_winograd.cuh"
#include "ptx/early.cuh"

__device__ inline void load_tile(const Args &a, const Place &p, const float *x, float t[SIZE][SIZE]) {
  int column[SIZE];
#pragma unroll
  for (int j = 0; j < SIZE; j++) column[j] = index_at(a, 1, p.at[1] + j - a.pad[1]);
#pragma unroll
  for (int i = 0; i < SIZE; i++) {
    const int row = index_at(a, 0, p.at[0] + i - a.pad[0]);
    float d[SIZE];
#pragma unroll
    for (int j = 0; j < SIZE; j++)
      d[j] = row >= 0 && column[j] >= 0 ? x[row * a.x_axis[0] + column[j] * a.x_axis[1]] : a.fill;
    transform_input(d, t[i]);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) falt_winograd_input(const __grid_constant__ Args a) {
  await_stream();
  const int pieces = (a.depth + LANES - 1) / LANES;
  const i64 others = blockIdx.x / pieces, blocks = (a.v_rows + OTHERS - 1) / OTHERS;
  const int c = blockIdx.x % pieces * LANES + threadIdx.x % LANES, g = (int)(others / blocks);
  const i64 tile = others % blocks * OTHERS + threadIdx.x / LANES;
  if (c >= a.depth || tile >= a.v_rows) return;
  float t[SIZE][SIZE] = {};
  if (c < a.channels && tile < a.tiles) {
    const Place p = place_of(a, tile);
    load_tile(a, p, a.x + source_of(a, p, g, c), t);
  }
  const i64 matrix = (i64)a.v_rows * a.depth;
  float *v = a.v + g * matrix + tile * a.depth + c;
#pragma unroll
  for (int j = 0; j < SIZE; j++) {
    float d[SIZE], s[SIZE];
#pragma unroll
    for (int i = 0; i < SIZE; i++) d[i] = t[i][j];
    transform_input(d, s);
#pragma unroll
    for (int i = 0; i < SIZE; i++) v[(i * SIZE + j) * a.groups * matrix] = to_two_tf32(s[i]);
  }
}
