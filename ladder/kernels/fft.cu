// The ladder's steps for a signal by transforms (overlap-save):
//
//     y[i] = sum over j < TAPS of w[j] * x[i + j - TAPS/2],   zero outside
//
// A segment of POINTS samples is transformed, multiplied by the conjugate spectrum of the filter and transformed back.
// The last TAPS - 1 results wrap around the segment and are dropped. J. W. Cooley, J. W. Tukey, Math. Comp. 19, 1965.

// Compile-time parameters: STEP (each is compiled separately), TAPS, POINTS (a power of two), THREADS of a block,
// SEGMENTS of a block (1 or 2), LEVELS: 0 is a DFT by its definition; 1 is radix 2 in shared memory; 3 is three levels
// of radix 2 in registers between two barriers, which is radix 8.

#include "shape.h"

typedef ladder_size Size;
typedef long long i64;
enum { LEFT = TAPS / 2, KEPT = POINTS - TAPS + 1 };  // KEPT: outputs of a segment

__device__ inline float sample(const float *x, Size size, i64 at) {
  return at >= 0 && at < size.width ? x[at] : 0;
}

__device__ inline float2 sum(float2 a, float2 b) {
  return make_float2(a.x + b.x, a.y + b.y);
}
__device__ inline float2 gap(float2 a, float2 b) {
  return make_float2(a.x - b.x, a.y - b.y);
}
__device__ inline float2 times(float2 a, float2 b) {
  return make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}
__device__ inline float2 conjugate(float2 a) {
  return make_float2(a.x, -a.y);
}

// exp(-pi i at / half)
__device__ inline float2 root(int at, int half) {
  float2 w;
  sincospif(-(float)at / (float)half, &w.y, &w.x);
  return w;
}

// The place of a point in shared memory. Threads of radix 8 read eight points apart in the last pass, from two banks;
// one empty place after 16 points spreads them over all banks.
__device__ inline int place(int point) {
  return LEVELS == 3 ? point + point / 16 : point;
}
enum { PLACES = LEVELS == 3 ? POINTS + POINTS / 16 : POINTS };

// The definition, X[k] = sum over n of x[n] exp(-2 pi i n k / POINTS): POINTS products for each of POINTS results. A
// point that a thread reads serves EACH results. `sign` is -1 for the inverse.
__device__ inline void definition(float2 *data, float sign) {
  constexpr int EACH = POINTS / THREADS;
  float2 sums[EACH] = {};
  for (int n = 0; n < POINTS; n++) {
    const float2 point = data[n];
#pragma unroll
    for (int e = 0; e < EACH; e++) {
      float2 w = root(n * ((int)threadIdx.x + e * THREADS) % POINTS, POINTS / 2);
      w.y *= sign;
      sums[e] = sum(sums[e], times(point, w));
    }
  }
  __syncthreads();  // all have read what all now write
#pragma unroll
  for (int e = 0; e < EACH; e++) data[threadIdx.x + e * THREADS] = sums[e];
  __syncthreads();
}

// a * exp(-pi i eighths / 4): constants that cost no product, or two.
__device__ inline float2 turn(float2 a, int eighths) {
  constexpr float C = 0.70710678118654752f;
  return eighths == 0   ? a
         : eighths == 1 ? make_float2(C * (a.x + a.y), C * (a.y - a.x))
         : eighths == 2 ? make_float2(a.y, -a.x)
                        : make_float2(C * (a.y - a.x), -C * (a.x + a.y));
}

// One pass, decimation in frequency: DEPTH levels of butterflies on 2^DEPTH points of a thread, `distance` apart. A
// level maps (a, b) to (a + b, (a - b) w). Every level halves the distance, so its root is the previous one squared.
template <int DEPTH>
__device__ inline void forward_pass(float2 *data, int distance) {
  constexpr int RADIX = 1 << DEPTH;
  for (int t = threadIdx.x; t < POINTS / RADIX; t += THREADS) {
    const int within = t % distance, first = t / distance * distance * RADIX + within;
    float2 v[RADIX], w = root(within, distance * RADIX / 2);
#pragma unroll
    for (int e = 0; e < RADIX; e++) v[e] = data[place(first + e * distance)];
#pragma unroll
    for (int level = RADIX / 2; level > 0; level /= 2, w = times(w, w))
#pragma unroll
      for (int e = 0; e < RADIX; e++) {
        if (e & level) continue;
        const float2 a = v[e], b = v[e + level];
        v[e] = sum(a, b);
        v[e + level] = turn(times(gap(a, b), w), e % level * 4 / level);
      }
#pragma unroll
    for (int e = 0; e < RADIX; e++) data[place(first + e * distance)] = v[e];
  }
  __syncthreads();
}

// The same pass backwards, decimation in time: (a, b) to (a + b w, a - b w) with conjugate roots.
template <int DEPTH>
__device__ inline void inverse_pass(float2 *data, int distance) {
  constexpr int RADIX = 1 << DEPTH;
  for (int t = threadIdx.x; t < POINTS / RADIX; t += THREADS) {
    const int within = t % distance, first = t / distance * distance * RADIX + within;
    float2 v[RADIX], w[DEPTH];
    w[DEPTH - 1] = root(within, distance * RADIX / 2);
#pragma unroll
    for (int i = DEPTH - 1; i > 0; i--) w[i - 1] = times(w[i], w[i]);
      // conjugated before and after, a step with the roots becomes one with their conjugates
#pragma unroll
    for (int e = 0; e < RADIX; e++) v[e] = conjugate(data[place(first + e * distance)]);
#pragma unroll
    for (int i = 0; i < DEPTH; i++)
#pragma unroll
      for (int e = 0; e < RADIX; e++) {
        const int level = 1 << i;
        if (e & level) continue;
        const float2 a = v[e], b = turn(times(v[e + level], w[i]), e % level * 4 / level);
        v[e] = sum(a, b);
        v[e + level] = gap(a, b);
      }
#pragma unroll
    for (int e = 0; e < RADIX; e++) data[place(first + e * distance)] = conjugate(v[e]);
  }
  __syncthreads();
}

// Radix 2 leaves the spectrum in bit-reversed order. The filter's has the same order and the inverse starts from it, so
// no point is ever moved to its place. A pass of LOG % LEVELS levels comes first; the others have LEVELS.
constexpr int log_of(int points) {
  return points > 1 ? 1 + log_of(points / 2) : 0;
}
enum { LOG = log_of(POINTS), DEPTH = LEVELS ? LEVELS : 1, ODD = LOG % DEPTH, REST = POINTS >> ODD };

__device__ inline void forward(float2 *data) {
  if constexpr (LEVELS == 0) {
    definition(data, 1);
  } else {
    if constexpr (ODD > 0) forward_pass<ODD>(data, REST);
    for (int distance = REST >> DEPTH; distance > 0; distance >>= DEPTH) forward_pass<DEPTH>(data, distance);
  }
}

__device__ inline void inverse(float2 *data) {
  if constexpr (LEVELS == 0) {
    definition(data, -1);
  } else {
    for (int distance = 1; distance < REST; distance <<= DEPTH) inverse_pass<DEPTH>(data, distance);
    if constexpr (ODD > 0) inverse_pass<ODD>(data, REST);
  }
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
