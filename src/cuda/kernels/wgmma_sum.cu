// The last step of wgmma.cu's gradients by the filter: the splits' sums, added in their order, one thread an element.
// Threads follow the sums' order, so that neighbours read neighbours.
#include "convert.cuh"
#include "wgmma_args.h"

extern "C" __global__ void __launch_bounds__(256) falt_wgmma_sum(const __grid_constant__ falt_cuda_wgmma_sum_args a) {
  const long long index = (long long)blockIdx.x * 256 + threadIdx.x;
  if (index >= a.count) return;
  long long rest = index, at = 0, tap = 0;
  const long long channel = rest % a.w.size[2];
  rest /= a.w.size[2];
  const long long width = a.w.size[5], height = a.w.size[4], depth = a.w.size[3];
  const long long s = rest % width, r = rest / width % height, t = rest / (width * height) % depth;
  const long long k = rest / (width * height * depth);
  tap = (t * height + r) * width + s;
  at = k * a.w.stride[0] + channel * a.w.stride[2] + t * a.w.stride[3] + r * a.w.stride[4] + s * a.w.stride[5];
  const long long columns = depth * height * width * a.tap_columns, split = a.w.size[0] * columns;
  const float *from = a.sums + k * columns + tap * a.tap_columns + channel;
  float sum = 0;
#pragma unroll 8
  for (int i = 0; i < a.splits; i++) sum += __ldg(from + i * split);
  store<float>(a.w.data, a.w.type, at, a.alpha * sum);
}
