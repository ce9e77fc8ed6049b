// Steps of the ladder for a network layer with ReLU and 2 x 2 max pooling, n images of c channels with k filters:
//
//     y[n,k,u,v] = sum over c, r, s of w[k,c,r,s] * x[n, c, u*STRIDE_H + r - PAD_H, v*STRIDE_W + s - PAD_W]
//
// x is zero outside. A block computes a tile of one image; blockIdx.x counts images and filters, y and z the tiles.

// Compile-time parameters: STEP (each is compiled separately), TAPS_R, TAPS_S, STRIDE_H, STRIDE_W, PAD_H, PAD_W,
// TILE_H, TILE_W (threads of a block), FILTERS (of a thread, in the later steps).

#include "shape.h"

typedef ladder_layer_size Layer;
typedef long long i64;

// An element of an image's channel, zero outside.
__device__ inline float element(const float *image, const Layer &l, int row, int column) {
  return row >= 0 && row < l.height && column >= 0 && column < l.width ? image[row * (i64)l.width + column] : 0;
}

// Loads the inputs of a tile to shared memory, by all threads. row and column may be outside.
template <int HEIGHT, int WIDTH>
__device__ inline void load_tile(float (&tile)[HEIGHT][WIDTH], const float *image, const Layer &l, int row,
                                 int column) {
  for (int h = threadIdx.y; h < HEIGHT; h += TILE_H)
    for (int v = threadIdx.x; v < WIDTH; v += TILE_W) tile[h][v] = element(image, l, row + h, column + v);
}

#if STEP == 1
// Step 1, direct: a thread an output, every tap and every input read from memory.
extern "C" __global__ void layer_direct(const float *x, float *y, Layer l, const float *w) {
  const int k = blockIdx.x % l.filters, u = blockIdx.y * TILE_H + threadIdx.y, v = blockIdx.z * TILE_W + threadIdx.x;
  const i64 n = blockIdx.x / l.filters;
  if (u >= l.out_height || v >= l.out_width) return;
  float sum = 0;
  for (int c = 0; c < l.channels; c++) {
    const float *image = x + (n * l.channels + c) * l.height * l.width;
    for (int r = 0; r < TAPS_R; r++)
      for (int s = 0; s < TAPS_S; s++)
        sum += w[((i64)k * l.channels + c) * TAPS_R * TAPS_S + r * TAPS_S + s] *
               element(image, l, u * STRIDE_H - PAD_H + r, v * STRIDE_W - PAD_W + s);
  }
  y[((n * l.filters + k) * l.out_height + u) * l.out_width + v] = sum;
}
#endif

#if STEP == 2
// Step 2, shared memory: the inputs of the tile, halo included, are loaded once a channel.
extern "C" __global__ void layer_shared(const float *x, float *y, Layer l, const float *w) {
  __shared__ float tile[(TILE_H - 1) * STRIDE_H + TAPS_R][(TILE_W - 1) * STRIDE_W + TAPS_S];
  const int k = blockIdx.x % l.filters, first_u = blockIdx.y * TILE_H, first_v = blockIdx.z * TILE_W;
  const int u = first_u + threadIdx.y, v = first_v + threadIdx.x;
  const i64 n = blockIdx.x / l.filters;
  float sum = 0;
  for (int c = 0; c < l.channels; c++) {
    load_tile(tile, x + (n * l.channels + c) * l.height * l.width, l, first_u * STRIDE_H - PAD_H,
              first_v * STRIDE_W - PAD_W);
    __syncthreads();
    const float *taps = w + ((i64)k * l.channels + c) * TAPS_R * TAPS_S;
    for (int r = 0; r < TAPS_R; r++)
      for (int s = 0; s < TAPS_S; s++)
        sum += taps[r * TAPS_S + s] * tile[threadIdx.y * STRIDE_H + r][threadIdx.x * STRIDE_W + s];
    __syncthreads();  // no thread may load the next channel while others still sum
  }
  if (u < l.out_height && v < l.out_width) y[((n * l.filters + k) * l.out_height + u) * l.out_width + v] = sum;
}
#endif

// Taps of FILTERS filters and one channel: those of one position are contiguous, so a thread reads four at a time.
struct FilterTaps {
  alignas(16) float at[TAPS_R][TAPS_S][FILTERS];
};

__device__ inline void load_taps(FilterTaps &taps, const float *w, const Layer &l, int first, int c) {
  constexpr int TAPS = TAPS_R * TAPS_S;
  for (int i = threadIdx.y * TILE_W + threadIdx.x; i < TAPS * FILTERS; i += TILE_H * TILE_W) {
    const int k = first + i / TAPS, tap = i % TAPS;
    taps.at[tap / TAPS_S][tap % TAPS_S][i / TAPS] = k < l.filters ? w[((i64)k * l.channels + c) * TAPS + tap] : 0;
  }
}

#if STEP == 3
// Step 3, all channels: every filter reads the same tile, so a thread computes its output for FILTERS of them and reads
// each input once for all, not once for each.
extern "C" __global__ void layer_channels(const float *x, float *y, Layer l, const float *w) {
  __shared__ float tile[(TILE_H - 1) * STRIDE_H + TAPS_R][(TILE_W - 1) * STRIDE_W + TAPS_S];
  __shared__ FilterTaps taps;
  const int groups = (l.filters + FILTERS - 1) / FILTERS, first = blockIdx.x % groups * FILTERS;
  const int first_u = blockIdx.y * TILE_H, first_v = blockIdx.z * TILE_W;
  const int u = first_u + threadIdx.y, v = first_v + threadIdx.x;
  const i64 n = blockIdx.x / groups;
  float sum[FILTERS] = {};
  for (int c = 0; c < l.channels; c++) {
    load_tile(tile, x + (n * l.channels + c) * l.height * l.width, l, first_u * STRIDE_H - PAD_H,
              first_v * STRIDE_W - PAD_W);
    load_taps(taps, w, l, first, c);
    __syncthreads();
    for (int r = 0; r < TAPS_R; r++)
      for (int s = 0; s < TAPS_S; s++) {
        const float input = tile[threadIdx.y * STRIDE_H + r][threadIdx.x * STRIDE_W + s];
#pragma unroll
        for (int f = 0; f < FILTERS; f++) sum[f] += taps.at[r][s][f] * input;
      }
    __syncthreads();
  }
  if (u >= l.out_height || v >= l.out_width) return;
#pragma unroll
  for (int f = 0; f < FILTERS; f++)
    if (first + f < l.filters) y[((n * l.filters + first + f) * l.out_height + u) * l.out_width + v] = sum[f];
}
#endif

#if STEP == 4
// Step 4, implicit GEMM: the filters, with a column for every tap, times the patches, with a row for every tap and a
// column for every output. im2col writes the patches to memory; here a block gathers 16 rows of its 64 columns from the
// images on load to shared memory. A thread computes 4 x 4 outputs, so 8 reads serve 16 products for any filter shape.
extern "C" __global__ void layer_implicit(const float *x, float *y, Layer l, const float *w) {
  constexpr int SIDE = LADDER_PRODUCT_SIDE, DEPTH = 16, EACH = SIDE / TILE_W, TAPS = TAPS_R * TAPS_S;
  __shared__ float patches[DEPTH][SIDE], filters[DEPTH][SIDE + 1];  // + 1: the banks of a column differ
  const int me = threadIdx.y * TILE_W + threadIdx.x, plane = l.out_height * l.out_width, depth = l.channels * TAPS;
  const i64 columns = l.count / l.filters, first = blockIdx.x * (i64)SIDE, mine = first + me % SIDE;
  const i64 n = mine / plane;
  const int u = mine % plane / l.out_width, v = mine % l.out_width, first_k = blockIdx.y * SIDE;
  const float *image = x + n * l.channels * l.height * l.width;
  float sum[EACH][EACH] = {};
  for (int begin = 0; begin < depth; begin += DEPTH) {
    for (int i = me / SIDE; i < DEPTH; i += TILE_H * TILE_W / SIDE) {
      const int d = begin + i, c = d / TAPS, r = d % TAPS / TAPS_S, s = d % TAPS_S;
      patches[i][me % SIDE] = d < depth && mine < columns ? element(image + (i64)c * l.height * l.width, l,
                                                                    u * STRIDE_H - PAD_H + r, v * STRIDE_W - PAD_W + s)
                                                          : 0;
    }
    for (int k = me / DEPTH; k < SIDE; k += TILE_H * TILE_W / DEPTH) {
      const int d = begin + me % DEPTH;
      filters[me % DEPTH][k] = d < depth && first_k + k < l.filters ? w[(i64)(first_k + k) * depth + d] : 0;
    }
    __syncthreads();
    for (int i = 0; i < DEPTH; i++)
#pragma unroll
      for (int a = 0; a < EACH; a++)
#pragma unroll
        for (int b = 0; b < EACH; b++)
          sum[a][b] += filters[i][threadIdx.y + a * TILE_H] * patches[i][threadIdx.x + b * TILE_W];
    __syncthreads();
  }
#pragma unroll
  for (int a = 0; a < EACH; a++)
#pragma unroll
    for (int b = 0; b < EACH; b++) {
      const i64 at = first + threadIdx.x + b * TILE_W;
      const int k = first_k + threadIdx.y + a * TILE_H;
      if (at < columns && k < l.filters) y[(at / plane * l.filters + k) * plane + at % plane] = sum[a][b];
    }
}
#endif

#if STEP == 5
// Step 5, ReLU, a pass of its own: reads and writes everything for one comparison.
extern "C" __global__ void layer_relu(const float *x, float *y, Layer l) {
  const i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x;
  if (i < l.count) y[i] = fmaxf(x[i], 0);
}
#endif

#if STEP == 6
// Step 6, max pooling, one more pass: a thread takes the largest of 2 x 2. blockIdx.x counts images and filters.
extern "C" __global__ void layer_pool(const float *x, float *y, Layer l) {
  const int u = blockIdx.y * TILE_H + threadIdx.y, v = blockIdx.z * TILE_W + threadIdx.x;
  if (u >= l.pooled_height || v >= l.pooled_width) return;
  const float *from = x + ((i64)blockIdx.x * l.out_height + 2 * u) * l.out_width + 2 * v;
  y[((i64)blockIdx.x * l.pooled_height + u) * l.pooled_width + v] =
      fmaxf(fmaxf(from[0], from[1]), fmaxf(from[l.out_width], from[l.out_width + 1]));
}
#endif

#if STEP == 7
// Step 7, fused: a thread makes the four results that one pooled value is the largest of. The convolution's output,
// four times the pooled one, is never written. Clipping the largest clips all four: ReLU is one operation, too.
extern "C" __global__ void layer_fused(const float *x, float *y, Layer l, const float *w) {
  __shared__ float tile[(2 * TILE_H - 1) * STRIDE_H + TAPS_R][(2 * TILE_W - 1) * STRIDE_W + TAPS_S];
  __shared__ FilterTaps taps;
  const int groups = (l.filters + FILTERS - 1) / FILTERS, first = blockIdx.x % groups * FILTERS;
  const int first_u = blockIdx.y * TILE_H, first_v = blockIdx.z * TILE_W;
  const int u = first_u + threadIdx.y, v = first_v + threadIdx.x;
  const i64 n = blockIdx.x / groups;
  float sum[FILTERS][4] = {};
  for (int c = 0; c < l.channels; c++) {
    load_tile(tile, x + (n * l.channels + c) * l.height * l.width, l, 2 * first_u * STRIDE_H - PAD_H,
              2 * first_v * STRIDE_W - PAD_W);
    load_taps(taps, w, l, first, c);
    __syncthreads();
    for (int r = 0; r < TAPS_R; r++)
      for (int s = 0; s < TAPS_S; s++)
#pragma unroll
        for (int q = 0; q < 4; q++) {
          const float input = tile[(2 * threadIdx.y + q / 2) * STRIDE_H + r][(2 * threadIdx.x + q % 2) * STRIDE_W + s];
#pragma unroll
          for (int f = 0; f < FILTERS; f++) sum[f][q] += taps.at[r][s][f] * input;
        }
    __syncthreads();
  }
  if (u >= l.pooled_height || v >= l.pooled_width) return;
#pragma unroll
  for (int f = 0; f < FILTERS; f++)
    if (first + f < l.filters)
      y[((n * l.filters + first + f) * l.pooled_height + u) * l.pooled_width + v] =
          fmaxf(fmaxf(fmaxf(sum[f][0], sum[f][1]), fmaxf(sum[f][2], sum[f][3])), 0);
}
#endif
