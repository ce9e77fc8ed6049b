// Steps of the ladder for an image with CHANNELS interleaved channels and rows `pitch` elements apart:
//
//     y[u,v] = sum over r, s of w[r,s] * x[u + r - TAPS_R/2, v + s - TAPS_S/2]   for each channel, zero outside
//
// One thread computes one pixel, except in the last step. Hwu, Kirk, El Hajj, "Programming Massively Parallel
// Processors", chapter 7.

// Compile-time parameters: STEP (each is compiled separately), TAPS_R, TAPS_S, CHANNELS, TILE_H and TILE_W (outputs of
// a block), EACH_H (rows of a thread in the last step).

#include "shape.h"

typedef ladder_size Size;
struct Taps {
  float value[TAPS_R * TAPS_S];
};
enum { TOP = TAPS_R / 2, LEFT = TAPS_S / 2, IN_H = TILE_H + TAPS_R - 1, IN_W = TILE_W + TAPS_S - 1 };

__device__ inline bool inside(const Size &size, int row, int column) {
  return row >= 0 && row < size.height && column >= 0 && column < size.width;
}

// A channel of a pixel, zero outside.
__device__ inline float pixel(const float *x, const Size &size, int row, int column, int channel) {
  return inside(size, row, column) ? x[row * size.pitch + column * CHANNELS + channel] : 0;
}

#if STEP == 1
// Step 1, the definition: 8 bytes are loaded for every product, a quarter of an operation a byte.
extern "C" __global__ void image_basic(const float *x, float *y, Size size, const float *w) {
  const int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
  if (!inside(size, row, column)) return;
  for (int c = 0; c < CHANNELS; c++) {
    float sum = 0;
    for (int r = 0; r < TAPS_R; r++)
      for (int s = 0; s < TAPS_S; s++) sum += w[r * TAPS_S + s] * pixel(x, size, row - TOP + r, column - LEFT + s, c);
    y[row * size.pitch + column * CHANNELS + c] = sum;
  }
}
#endif

#if STEP == 2
// Step 2: the taps come from the constant cache, half an operation a byte is left.
extern "C" __global__ void image_constant(const float *x, float *y, Size size, const __grid_constant__ Taps w) {
  const int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
  if (!inside(size, row, column)) return;
  for (int c = 0; c < CHANNELS; c++) {
    float sum = 0;
    for (int r = 0; r < TAPS_R; r++)
      for (int s = 0; s < TAPS_S; s++)
        sum += w.value[r * TAPS_S + s] * pixel(x, size, row - TOP + r, column - LEFT + s, c);
    y[row * size.pitch + column * CHANNELS + c] = sum;
  }
}
#endif

#if STEP == 3
// Step 3: the block is as large as the input tile. Every thread loads one element and the load needs no loop;
// afterwards those over the halo have nothing to compute, but must still come to both barriers.
extern "C" __global__ void image_input_tile(const float *x, float *y, Size size, const __grid_constant__ Taps w) {
  __shared__ float tile[IN_H][IN_W];
  const int h = (int)threadIdx.y - TOP, v = (int)threadIdx.x - LEFT;  // in the output tile, if not over the halo
  const int row = blockIdx.y * TILE_H + h, column = blockIdx.x * TILE_W + v;
  const bool makes_output = h >= 0 && h < TILE_H && v >= 0 && v < TILE_W && inside(size, row, column);
  for (int c = 0; c < CHANNELS; c++) {
    tile[threadIdx.y][threadIdx.x] = pixel(x, size, row, column, c);
    __syncthreads();
    if (makes_output) {
      float sum = 0;
      for (int r = 0; r < TAPS_R; r++)
        for (int s = 0; s < TAPS_S; s++) sum += w.value[r * TAPS_S + s] * tile[h + r][v + s];
      y[row * size.pitch + column * CHANNELS + c] = sum;
    }
    __syncthreads();  // no thread may load the next channel while others still sum
  }
}
#endif

#if STEP == 4
// Step 4: the block is as large as the output tile. Every thread computes; the larger input tile is loaded in turns,
// all threads along one line through it, so that only the last turn has idle ones.
extern "C" __global__ void image_output_tile(const float *x, float *y, Size size, const __grid_constant__ Taps w) {
  __shared__ float tile[IN_H][IN_W];
  const int first_row = blockIdx.y * TILE_H, first_column = blockIdx.x * TILE_W;
  const int row = first_row + threadIdx.y, column = first_column + threadIdx.x;
  for (int c = 0; c < CHANNELS; c++) {
    for (int i = threadIdx.y * TILE_W + threadIdx.x; i < IN_H * IN_W; i += TILE_H * TILE_W)
      tile[i / IN_W][i % IN_W] = pixel(x, size, first_row - TOP + i / IN_W, first_column - LEFT + i % IN_W, c);
    __syncthreads();
    if (inside(size, row, column)) {
      float sum = 0;
      for (int r = 0; r < TAPS_R; r++)
        for (int s = 0; s < TAPS_S; s++) sum += w.value[r * TAPS_S + s] * tile[threadIdx.y + r][threadIdx.x + s];
      y[row * size.pitch + column * CHANNELS + c] = sum;
    }
    __syncthreads();
  }
}
#endif

#if STEP == 5
// Step 5: only the block's own pixels are kept; the halo, which is other blocks' pixels, is left to the caches.
extern "C" __global__ void image_cached(const float *x, float *y, Size size, const __grid_constant__ Taps w) {
  __shared__ float tile[TILE_H][TILE_W];
  const int row = blockIdx.y * TILE_H + threadIdx.y, column = blockIdx.x * TILE_W + threadIdx.x;
  for (int c = 0; c < CHANNELS; c++) {
    tile[threadIdx.y][threadIdx.x] = pixel(x, size, row, column, c);
    __syncthreads();
    if (inside(size, row, column)) {
      float sum = 0;
      for (int r = 0; r < TAPS_R; r++)
        for (int s = 0; s < TAPS_S; s++) {
          const int h = (int)threadIdx.y - TOP + r, v = (int)threadIdx.x - LEFT + s;
          const bool here = h >= 0 && h < TILE_H && v >= 0 && v < TILE_W;
          sum += w.value[r * TAPS_S + s] * (here ? tile[h][v] : pixel(x, size, row - TOP + r, column - LEFT + s, c));
        }
      y[row * size.pitch + column * CHANNELS + c] = sum;
    }
    __syncthreads();
  }
}
#endif

#if STEP == 6
// Step 6: a thread makes EACH_H rows of four neighbouring elements. A window of one row, read from shared memory four
// at a time, serves every output row that it belongs to. The channels need no loop any more: a tap's neighbour is
// simply CHANNELS elements away. Here TILE_W counts elements of a row.
extern "C" __global__ void image_registers(const float *x, float *y, Size size, const __grid_constant__ Taps w) {
  constexpr int HALO = (TAPS_S - 1) * CHANNELS, WIDE = (TILE_W + HALO + 3) / 4, WINDOW = (4 + HALO + 3) / 4;
  constexpr int ROWS = EACH_H + TAPS_R - 1, UNROLL = ROWS * TAPS_S <= 160 ? ROWS : 1;
  __shared__ float4 tile[IN_H][WIDE];
  const int elements = (int)size.width * CHANNELS;
  const int first_row = blockIdx.y * TILE_H - TOP, first = blockIdx.x * TILE_W - LEFT * CHANNELS;
  for (int h = threadIdx.y; h < IN_H; h += blockDim.y)
    for (int v = threadIdx.x; v < TILE_W + HALO; v += blockDim.x) {
      const int row = first_row + h, element = first + v;
      const bool is_there = row >= 0 && row < size.height && element >= 0 && element < elements;
      ((float *)tile[h])[v] = is_there ? x[row * size.pitch + element] : 0;
    }
  __syncthreads();
  float sum[EACH_H][4] = {};
#pragma unroll(UNROLL)
  for (int i = 0; i < ROWS; i++) {
    union {
      float4 four[WINDOW];
      float one[4 * WINDOW];
    } window;
#pragma unroll
    for (int v = 0; v < WINDOW; v++) window.four[v] = tile[threadIdx.y * EACH_H + i][threadIdx.x + v];
#pragma unroll
    for (int q = 0; q < EACH_H; q++) {  // row i of the window is under row i - q of the filter
      if (i - q < 0 || i - q >= TAPS_R) continue;
#pragma unroll
      for (int s = 0; s < TAPS_S; s++)
#pragma unroll
        for (int e = 0; e < 4; e++) sum[q][e] += w.value[(i - q) * TAPS_S + s] * window.one[s * CHANNELS + e];
    }
  }
  const int row = blockIdx.y * TILE_H + threadIdx.y * EACH_H, element = blockIdx.x * TILE_W + threadIdx.x * 4;
#pragma unroll
  for (int q = 0; q < EACH_H; q++) {
    if (row + q >= size.height) return;
    float *to = y + (row + q) * size.pitch + element;
    if (element + 4 <= elements) {  // the pitch keeps rows aligned
      *(float4 *)to = make_float4(sum[q][0], sum[q][1], sum[q][2], sum[q][3]);
    } else {
#pragma unroll
      for (int e = 0; e < 4; e++)
        if (element + e < elements) to[e] = sum[q][e];
    }
  }
}
#endif
