// The largest finite magnitudes of an operand in f16, by which its transforms are scaled. A block takes one part of the
// lines: for x and dy a range of them, for the filter those of an output channel.

#include "convert.cuh"
#include "cuda_winograd_args.h"
#include "ptx/early.cuh"

typedef long long i64;
constexpr int THREADS = 128, LANES = 32;

extern "C" __global__ void __launch_bounds__(THREADS)
    falt_winograd_largest(const __grid_constant__ falt_cuda_winograd_largest_args a) {
  __shared__ unsigned warps[THREADS / 32];
  await_stream();
  const i64 first = blockIdx.x * a.lines, end = min(first + a.lines, a.all_lines);
  float largest = a.least;
  for (i64 line = first + threadIdx.x / LANES; line < end; line += THREADS / LANES) {
    i64 at = 0, rest = line;
#pragma unroll
    for (int i = 1; i < FALT_WINOGRAD_DIMS; i++) {
      at += rest % a.size[i] * a.stride[i];
      rest /= a.size[i];
    }
#pragma unroll 4
    for (int i = threadIdx.x % LANES; i < a.size[0]; i += LANES) {
      const float value = fabsf(load<float>(a.data, F16, at + i * a.stride[0]));
      if (value <= 65504) largest = fmaxf(largest, value);
    }
  }
  const unsigned most = __reduce_max_sync(~0u, __float_as_uint(largest));
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = most;
  __syncthreads();
  if (threadIdx.x > 0) return;
  unsigned all = most;
  for (int i = 1; i < THREADS / 32; i++) all = max(all, warps[i]);
  a.largest[blockIdx.x] = __uint_as_float(all);
}
