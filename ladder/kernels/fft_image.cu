// The ladder's steps for an image by transforms (overlap-save):
//
//     y[i, j] = sum over r < TAPS_Y, s < TAPS_X of w[r, s] * x[i + r - TAPS_Y/2, j + s - TAPS_X/2],   zero outside
//
// A tile of SIDE x SIDE pixels is transformed along its columns and its rows, multiplied by the conjugate spectrum of
// the filter and transformed back. The last TAPS_Y - 1 rows and TAPS_X - 1 columns wrap around the tile and are
// dropped. The steps are those of fft.cu: each ladder is read on its own.

// Compile-time parameters: STEP (each is compiled separately), TAPS_Y, TAPS_X, SIDE (a power of two), POINTS of a tile,
// THREADS of a block, TILES of a block (1 or 2), LEVELS: 0 is a DFT by its definition; 1 is radix 2 in shared memory; 3
// is three levels of radix 2 in registers between two barriers, which is radix 8. The transforms are in fft.cuh.

#include "fft.cuh"
#include "shape.h"

typedef ladder_size Size;
typedef long long i64;
enum { TOP = TAPS_Y / 2, LEFT = TAPS_X / 2, KEPT_Y = SIDE - TAPS_Y + 1, KEPT_X = SIDE - TAPS_X + 1 };

__device__ inline float pixel(const float *x, Size size, i64 row, i64 column) {
  const bool inside = row >= 0 && row < size.height && column >= 0 && column < size.width;
  return inside ? x[row * size.pitch + column] : 0;
}

// The first output of a tile; tiles follow each other, row after row.
struct Corner {
  i64 row, column;
};

__device__ inline Corner corner_of(Size size, i64 tile) {
  const i64 across = (size.width + KEPT_X - 1) / KEPT_X;
  return {tile / across * KEPT_Y, tile % across * KEPT_X};
}

__device__ inline float pixel_of(const float *x, Size size, Corner tile, int point) {
  return pixel(x, size, tile.row - TOP + point / SIDE, tile.column - LEFT + point % SIDE);
}

__device__ inline void store(float *y, Size size, Corner tile, int point, float output) {
  const int row = point / SIDE, column = point % SIDE;
  if (row >= KEPT_Y || column >= KEPT_X || tile.row + row >= size.height || tile.column + column >= size.width) return;
  y[(tile.row + row) * size.pitch + tile.column + column] = output;
}

// Columns, then rows; the inverse the other way.
__device__ inline void forward(float2 *data) {
  forward_axis<SIDE, SIDE>(data);
  forward_axis<SIDE, 1>(data);
}
__device__ inline void inverse(float2 *data) {
  inverse_axis<SIDE, 1>(data);
  inverse_axis<SIDE, SIDE>(data);
}

#if STEP == 1
// Step 1, the definition of the convolution: TAPS_Y * TAPS_X products an output.
extern "C" __global__ void fft_image_direct(const float *x, float *y, Size size, const float *w) {
  const i64 column = blockIdx.x * (i64)THREADS + threadIdx.x, row = blockIdx.y;
  if (column >= size.width) return;
  float sums = 0;
  for (int r = 0; r < TAPS_Y; r++)
    for (int s = 0; s < TAPS_X; s++) sums += w[r * TAPS_X + s] * pixel(x, size, row - TOP + r, column - LEFT + s);
  y[row * size.pitch + column] = sums;
}
#endif

#if STEP == 2
// The filter's spectrum, by one block. The conjugate makes the product a correlation; the inverse's division by POINTS
// is done here once.
extern "C" __global__ void fft_image_filter(const float *w, float2 *spectra, Size size) {
  __shared__ float2 data[PLACES];
  for (int t = threadIdx.x; t < POINTS; t += THREADS) {
    const int row = t / SIDE, column = t % SIDE;
    data[place(t)] = make_float2(row < TAPS_Y && column < TAPS_X ? w[row * TAPS_X + column] : 0, 0);
  }
  __syncthreads();
  forward(data);
  for (int t = threadIdx.x; t < POINTS; t += THREADS) {
    const float2 point = data[place(t)];
    spectra[t] = make_float2(point.x / POINTS, -point.y / POINTS);
  }
}
#endif

#if STEP == 3
// The spectrum of a tile, a block each; the filter's comes before the first.
extern "C" __global__ void fft_image_forward(const float *x, float2 *spectra, Size size) {
  __shared__ float2 data[PLACES];
  const Corner tile = corner_of(size, blockIdx.x);
  for (int t = threadIdx.x; t < POINTS; t += THREADS) data[place(t)] = make_float2(pixel_of(x, size, tile, t), 0);
  __syncthreads();
  forward(data);
  for (int t = threadIdx.x; t < POINTS; t += THREADS) spectra[(blockIdx.x + 1) * (i64)POINTS + t] = data[place(t)];
}
#endif

#if STEP == 4
// The product of the spectra on the way to shared memory, and the inverse.
extern "C" __global__ void fft_image_inverse(const float2 *spectra, float *y, Size size) {
  __shared__ float2 data[PLACES];
  const Corner tile = corner_of(size, blockIdx.x);
  for (int t = threadIdx.x; t < POINTS; t += THREADS)
    data[place(t)] = times(spectra[(blockIdx.x + 1) * (i64)POINTS + t], spectra[t]);
  __syncthreads();
  inverse(data);
  for (int t = threadIdx.x; t < POINTS; t += THREADS) store(y, size, tile, t, data[place(t)].x);
}
#endif

#if STEP == 5
// One kernel: spectra of tiles stay in shared memory, so that the image is read once and the result written once. With
// TILES = 2 the next tile is the imaginary part of the first: the filter is real, so real and imaginary parts never
// mix, and one transform serves two. A tile beyond the last one reads zeros and stores nothing.
extern "C" __global__ void fft_image_fused(const float *x, float *y, Size size, const float2 *filter) {
  __shared__ float2 data[PLACES];
  const Corner tile = corner_of(size, blockIdx.x * (i64)TILES), next = corner_of(size, blockIdx.x * (i64)TILES + 1);
  for (int t = threadIdx.x; t < POINTS; t += THREADS)
    data[place(t)] = make_float2(pixel_of(x, size, tile, t), TILES == 2 ? pixel_of(x, size, next, t) : 0);
  __syncthreads();
  forward(data);
  for (int t = threadIdx.x; t < POINTS; t += THREADS) data[place(t)] = times(data[place(t)], filter[t]);
  __syncthreads();
  inverse(data);
  for (int t = threadIdx.x; t < POINTS; t += THREADS) {
    const float2 outputs = data[place(t)];
    store(y, size, tile, t, outputs.x);
    if (TILES == 2) store(y, size, next, t, outputs.y);
  }
}
#endif
