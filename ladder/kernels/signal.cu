// Steps of the ladder for a signal:
//
//     y[i] = sum over j < TAPS of w[j] * x[i + j - TAPS/2],   zero outside
//
// One thread computes one output, except in the last step. Hwu, Kirk, El Hajj, "Programming Massively Parallel
// Processors", chapter 7.

// Compile-time parameters: STEP (each is compiled separately), TAPS, TILE (threads of a block), EACH (outputs of a
// thread in the last step).

#include "shape.h"

typedef ladder_size Size;
typedef long long i64;
struct Taps {
  float value[TAPS];
};
enum { LEFT = TAPS / 2 };

#if STEP == 1
// Step 1, the definition. For every product the thread loads a sample and a tap: 8 bytes for 2 operations, a quarter of
// an operation a byte, without caches.
extern "C" __global__ void signal_basic(const float *x, float *y, Size size, const float *w) {
  const i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x;
  if (i >= size.width) return;
  float sum = 0;
  for (int j = 0; j < TAPS; j++) {
    const i64 at = i - LEFT + j;
    if (at >= 0 && at < size.width) sum += w[j] * x[at];  // a ghost cell adds nothing
  }
  y[i] = sum;
}
#endif

#if STEP == 2
// Step 2: all threads read the same tap at the same time, and none is written. The constant cache serves such reads:
// only the samples are left, half an operation a byte.
extern "C" __global__ void signal_constant(const float *x, float *y, Size size, const __grid_constant__ Taps w) {
  const i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x;
  if (i >= size.width) return;
  float sum = 0;
  for (int j = 0; j < TAPS; j++) {
    const i64 at = i - LEFT + j;
    if (at >= 0 && at < size.width) sum += w.value[j] * x[at];
  }
  y[i] = sum;
}
#endif

#if STEP == 3
// Step 3: neighbours share all but one of their samples. The block first loads its samples and the halo at both sides
// to shared memory, each once. Loads beyond an end of the signal store a zero, so the sum needs no test.
extern "C" __global__ void signal_tiled(const float *x, float *y, Size size, const __grid_constant__ Taps w) {
  __shared__ float tile[TILE + TAPS - 1];
  const i64 first = blockIdx.x * (i64)TILE, i = first + threadIdx.x;
  for (int t = threadIdx.x; t < TILE + TAPS - 1; t += TILE) {
    const i64 at = first - LEFT + t;
    tile[t] = at >= 0 && at < size.width ? x[at] : 0;
  }
  __syncthreads();  // every thread must reach the barrier; those beyond the end return only now
  if (i >= size.width) return;
  float sum = 0;
  for (int j = 0; j < TAPS; j++) sum += w.value[j] * tile[threadIdx.x + j];
  y[i] = sum;
}
#endif

#if STEP == 4
// Step 4: the halo is the neighbouring block's tile, so it was read a moment ago and is still in a cache. The tile
// shrinks to one sample a thread; the price is a choice for every product.
extern "C" __global__ void signal_cached(const float *x, float *y, Size size, const __grid_constant__ Taps w) {
  __shared__ float tile[TILE];
  const i64 first = blockIdx.x * (i64)TILE, i = first + threadIdx.x;
  tile[threadIdx.x] = i < size.width ? x[i] : 0;
  __syncthreads();
  if (i >= size.width) return;
  float sum = 0;
  for (int j = 0; j < TAPS; j++) {
    const int t = (int)threadIdx.x - LEFT + j;
    if (t >= 0 && t < TILE)
      sum += w.value[j] * tile[t];
    else if (first + t >= 0 && first + t < size.width)
      sum += w.value[j] * x[first + t];
  }
  y[i] = sum;
}
#endif

#if STEP == 5
// Step 5: shared memory is now the bottleneck, one read a product. A thread computes EACH neighbouring outputs from a
// window in registers: TAPS + EACH - 1 reads, four at a time, instead of TAPS * EACH.
extern "C" __global__ void signal_registers(const float *x, float *y, Size size, const __grid_constant__ Taps w) {
  constexpr int SPAN = TILE * EACH, WINDOW = (EACH + TAPS - 1 + 3) / 4;
  __shared__ float4 tile[(SPAN + TAPS - 1 + 3) / 4 + 1];
  const i64 first = blockIdx.x * (i64)SPAN, i = first + threadIdx.x * EACH;
  for (int t = threadIdx.x; t < SPAN + TAPS - 1; t += TILE) {
    const i64 at = first - LEFT + t;
    ((float *)tile)[t] = at >= 0 && at < size.width ? x[at] : 0;
  }
  __syncthreads();
  union {
    float4 four[WINDOW];
    float one[4 * WINDOW];
  } window;
#pragma unroll
  for (int t = 0; t < WINDOW; t++) window.four[t] = tile[threadIdx.x * EACH / 4 + t];
  float sum[EACH] = {};
#pragma unroll
  for (int j = 0; j < TAPS; j++)
#pragma unroll
    for (int e = 0; e < EACH; e++) sum[e] += w.value[j] * window.one[j + e];
  if (i + EACH <= size.width) {
#pragma unroll
    for (int e = 0; e < EACH; e += 4) *(float4 *)(y + i + e) = make_float4(sum[e], sum[e + 1], sum[e + 2], sum[e + 3]);
  } else {
#pragma unroll
    for (int e = 0; e < EACH; e++)
      if (i + e < size.width) y[i + e] = sum[e];
  }
}
#endif
