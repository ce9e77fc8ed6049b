// The ladder's steps for a volume:
//
//     y[z,u,v] = sum over t, r, s of w[t,r,s] * x[z + t - TAPS_T/2, u + r - TAPS_R/2, v + s - TAPS_S/2],   zero outside
//
// Follows Hwu, Kirk, El Hajj, "Programming Massively Parallel Processors", the chapters on convolution and on stencils.

// Compile-time parameters: STEP (each is compiled separately), TAPS_T, TAPS_R, TAPS_S, TILE_D, TILE_H and TILE_W
// (outputs of a block).

#include "shape.h"

typedef ladder_size Size;
struct Taps {
  float value[TAPS_T * TAPS_R * TAPS_S];
};
enum { FRONT = TAPS_T / 2, TOP = TAPS_R / 2, LEFT = TAPS_S / 2 };
enum { IN_D = TILE_D + TAPS_T - 1, IN_H = TILE_H + TAPS_R - 1, IN_W = TILE_W + TAPS_S - 1 };

__device__ inline bool inside(const Size &size, int z, int u, int v) {
  return z >= 0 && z < size.depth && u >= 0 && u < size.height && v >= 0 && v < size.width;
}

__device__ inline long long place(const Size &size, int z, int u, int v) {
  return (z * (long long)size.height + u) * size.pitch + v;
}

// A voxel, zero outside.
__device__ inline float voxel(const float *x, const Size &size, int z, int u, int v) {
  return inside(size, z, u, v) ? x[place(size, z, u, v)] : 0;
}

#if STEP == 1
// Step 1, the definition: a quarter of an operation a byte.
extern "C" __global__ void volume_basic(const float *x, float *y, Size size, const float *w) {
  const int v = blockIdx.x * TILE_W + threadIdx.x, u = blockIdx.y * TILE_H + threadIdx.y;
  const int z = blockIdx.z * TILE_D + threadIdx.z;
  if (!inside(size, z, u, v)) return;
  float sum = 0;
  for (int t = 0; t < TAPS_T; t++)
    for (int r = 0; r < TAPS_R; r++)
      for (int s = 0; s < TAPS_S; s++)
        sum += w[(t * TAPS_R + r) * TAPS_S + s] * voxel(x, size, z - FRONT + t, u - TOP + r, v - LEFT + s);
  y[place(size, z, u, v)] = sum;
}
#endif

#if STEP == 2
// Step 2: the taps come from the constant cache, half an operation a byte.
extern "C" __global__ void volume_constant(const float *x, float *y, Size size, const __grid_constant__ Taps w) {
  const int v = blockIdx.x * TILE_W + threadIdx.x, u = blockIdx.y * TILE_H + threadIdx.y;
  const int z = blockIdx.z * TILE_D + threadIdx.z;
  if (!inside(size, z, u, v)) return;
  float sum = 0;
  for (int t = 0; t < TAPS_T; t++)
    for (int r = 0; r < TAPS_R; r++)
      for (int s = 0; s < TAPS_S; s++)
        sum += w.value[(t * TAPS_R + r) * TAPS_S + s] * voxel(x, size, z - FRONT + t, u - TOP + r, v - LEFT + s);
  y[place(size, z, u, v)] = sum;
}
#endif

#if STEP == 3
// Step 3: a cube with its halo in shared memory. A volume's halo is heavy: a cube of 8 under a filter of 3 reads 10^3
// for 8^3 outputs, nearly twice what it needs, where an image's tile of 32 reads an eighth more.
extern "C" __global__ void volume_tiled(const float *x, float *y, Size size, const __grid_constant__ Taps w) {
  __shared__ float tile[IN_D][IN_H][IN_W];
  const int z = blockIdx.z * TILE_D, u = blockIdx.y * TILE_H, v = blockIdx.x * TILE_W;
  for (int i = (threadIdx.z * TILE_H + threadIdx.y) * TILE_W + threadIdx.x; i < IN_D * IN_H * IN_W;
       i += TILE_D * TILE_H * TILE_W) {
    const int d = i / (IN_H * IN_W), h = i / IN_W % IN_H, j = i % IN_W;
    tile[d][h][j] = voxel(x, size, z - FRONT + d, u - TOP + h, v - LEFT + j);
  }
  __syncthreads();
  if (!inside(size, z + threadIdx.z, u + threadIdx.y, v + threadIdx.x)) return;
  float sum = 0;
  for (int t = 0; t < TAPS_T; t++)
    for (int r = 0; r < TAPS_R; r++)
      for (int s = 0; s < TAPS_S; s++)
        sum += w.value[(t * TAPS_R + r) * TAPS_S + s] * tile[threadIdx.z + t][threadIdx.y + r][threadIdx.x + s];
  y[place(size, z + threadIdx.z, u + threadIdx.y, v + threadIdx.x)] = sum;
}
#endif

#if STEP == 4
// Step 4, 2.5D blocking: the block moves through the volume with one plane in shared memory. A plane belongs to TAPS_T
// output planes; their accumulators stay in registers and move up by one at every plane, so depth has a halo only at
// both ends. A thread computes four neighbouring columns from a window in registers. A block processes TILE_D planes.
extern "C" __global__ void volume_sweep(const float *x, float *y, Size size, const __grid_constant__ Taps w) {
  constexpr int WIDE = (IN_W + 3) / 4, WINDOW = (4 + TAPS_S - 1 + 3) / 4;
  __shared__ float4 tile[2][IN_H][WIDE];  // alternating, so one barrier a plane is enough
  const int z = blockIdx.z * TILE_D, first_row = blockIdx.y * TILE_H, first_column = blockIdx.x * TILE_W;
  const int u = first_row + threadIdx.y, v = first_column + threadIdx.x * 4;
  float sum[TAPS_T][4] = {};
  for (int i = 0; i < IN_D; i++) {
    for (int h = threadIdx.y; h < IN_H; h += blockDim.y)
      for (int j = threadIdx.x; j < IN_W; j += blockDim.x)
        ((float *)tile[i % 2][h])[j] = voxel(x, size, z - FRONT + i, first_row - TOP + h, first_column - LEFT + j);
    __syncthreads();
#pragma unroll
    for (int r = 0; r < TAPS_R; r++) {
      union {
        float4 four[WINDOW];
        float one[4 * WINDOW];
      } window;
#pragma unroll
      for (int j = 0; j < WINDOW; j++) window.four[j] = tile[i % 2][threadIdx.y + r][threadIdx.x + j];
#pragma unroll
      for (int t = 0; t < TAPS_T; t++)  // sum[0] is the oldest: this plane is under its last tap
#pragma unroll
        for (int s = 0; s < TAPS_S; s++)
#pragma unroll
          for (int e = 0; e < 4; e++)
            sum[t][e] += w.value[((TAPS_T - 1 - t) * TAPS_R + r) * TAPS_S + s] * window.one[s + e];
    }
    const int done = z + i - (TAPS_T - 1);  // the plane that has seen all its taps
    if (done >= z && done < size.depth && u < size.height) {
      float *to = y + place(size, done, u, v);
      if (v + 4 <= size.width) {
        *(float4 *)to = make_float4(sum[0][0], sum[0][1], sum[0][2], sum[0][3]);
      } else {
#pragma unroll
        for (int e = 0; e < 4; e++)
          if (v + e < size.width) to[e] = sum[0][e];
      }
    }
#pragma unroll
    for (int t = 0; t < TAPS_T; t++)
#pragma unroll
      for (int e = 0; e < 4; e++) sum[t][e] = t + 1 < TAPS_T ? sum[t + 1][e] : 0;
  }
}
#endif
