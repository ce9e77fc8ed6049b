// Steps of the ladder for a signal by transforms (overlap-save):
//
//     y[i] = sum over j < TAPS of w[j] * x[i + j - TAPS/2],   zero outside
//
// A segment of POINTS samples is transformed, multiplied by the filter's conjugate spectrum and transformed back; its
// last TAPS - 1 results, which wrap around, are dropped. J. W. Cooley, J. W. Tukey, Math. Comp. 19, 1965.

// Compile-time parameters: STEP (each is compiled separately), TAPS, POINTS (a power of two), THREADS of a block,
// SEGMENTS of a block (1 or 2), LEVELS: 0 is a DFT by its definition; 1 is radix 2 in shared memory; 3 is three levels
// of radix 2 in registers between two barriers, which is radix 8. The transforms are in fft.cuh.

#include "fft.cuh"
#include "shape.h"

typedef ladder_size Size;
typedef long long i64;
enum { LEFT = TAPS / 2, KEPT = POINTS - TAPS + 1 };  // KEPT: outputs of a segment

__device__ inline float sample(const float *x, Size size, i64 at) {
  return at >= 0 && at < size.width ? x[at] : 0;
}

__device__ inline void forward(float2 *data) {
  forward_axis<POINTS, 1>(data);
}
__device__ inline void inverse(float2 *data) {
  inverse_axis<POINTS, 1>(data);
}

#if STEP == 1
// Step 1, the definition of the convolution: TAPS products an output.
extern "C" __global__ void fft_direct(const float *x, float *y, Size size, const float *w) {
  const i64 i = blockIdx.x * (i64)THREADS + threadIdx.x;
  if (i >= size.width) return;
  float sums = 0;
  for (int j = 0; j < TAPS; j++) sums += w[j] * sample(x, size, i - LEFT + j);
  y[i] = sums;
}
#endif

#if STEP == 2
// The filter's spectrum, by one block. The conjugate makes the product a correlation; the inverse's division by POINTS
// is done here once.
extern "C" __global__ void fft_filter(const float *w, float2 *spectra, Size size) {
  __shared__ float2 data[PLACES];
  for (int t = threadIdx.x; t < POINTS; t += THREADS) data[place(t)] = make_float2(t < TAPS ? w[t] : 0, 0);
  __syncthreads();
  forward(data);
  for (int t = threadIdx.x; t < POINTS; t += THREADS) {
    const float2 point = data[place(t)];
    spectra[t] = make_float2(point.x / POINTS, -point.y / POINTS);
  }
}
#endif

#if STEP == 3
// The spectrum of a segment, a block each; the filter's comes before the first.
extern "C" __global__ void fft_forward(const float *x, float2 *spectra, Size size) {
  __shared__ float2 data[PLACES];
  const i64 first = blockIdx.x * (i64)KEPT - LEFT;
  for (int t = threadIdx.x; t < POINTS; t += THREADS) data[place(t)] = make_float2(sample(x, size, first + t), 0);
  __syncthreads();
  forward(data);
  for (int t = threadIdx.x; t < POINTS; t += THREADS) spectra[(blockIdx.x + 1) * (i64)POINTS + t] = data[place(t)];
}
#endif

#if STEP == 4
// The product of the spectra on the way to shared memory, and the inverse.
extern "C" __global__ void fft_inverse(const float2 *spectra, float *y, Size size) {
  __shared__ float2 data[PLACES];
  const i64 first = blockIdx.x * (i64)KEPT;
  for (int t = threadIdx.x; t < POINTS; t += THREADS)
    data[place(t)] = times(spectra[(blockIdx.x + 1) * (i64)POINTS + t], spectra[t]);
  __syncthreads();
  inverse(data);
  for (int t = threadIdx.x; t < KEPT; t += THREADS)
    if (first + t < size.width) y[first + t] = data[place(t)].x;
}
#endif

#if STEP == 5
// One kernel: spectra of segments stay in shared memory, so that the signal is read once and the result written once.
// With SEGMENTS = 2 the second segment is the imaginary part of the first: the filter is real, so real and imaginary
// parts never mix, and one transform serves two.
extern "C" __global__ void fft_fused(const float *x, float *y, Size size, const float2 *filter) {
  __shared__ float2 data[PLACES];
  const i64 first = blockIdx.x * (i64)(SEGMENTS * KEPT);
  for (int t = threadIdx.x; t < POINTS; t += THREADS)
    data[place(t)] =
        make_float2(sample(x, size, first - LEFT + t), SEGMENTS == 2 ? sample(x, size, first + KEPT - LEFT + t) : 0);
  __syncthreads();
  forward(data);
  for (int t = threadIdx.x; t < POINTS; t += THREADS) data[place(t)] = times(data[place(t)], filter[t]);
  __syncthreads();
  inverse(data);
  for (int t = threadIdx.x; t < KEPT; t += THREADS) {
    const float2 outputs = data[place(t)];
    if (first + t < size.width) y[first + t] = outputs.x;
    if (SEGMENTS == 2 && first + KEPT + t < size.width) y[first + KEPT + t] = outputs.y;
  }
}
#endif
