// Adds the split-K slices of the sm_90a wgrad kernels in a fixed order: four neighbouring columns a thread.
#include "cuda_igemm_sm90_args.h"
#include "epilogue.cuh"
#include "ptx/early.cuh"

__device__ inline void add(float4 &sum, const float4 &x) {
  sum.x += x.x, sum.y += x.y, sum.z += x.z, sum.w += x.w;
}

// Splits `begin` to `end`; `next`: from one split's sums to the next one's, in fours.
__device__ inline float4 sum_of(const float *sums, unsigned index, long long next, int begin, int end) {
  const float4 *from = (const float4 *)sums + index;
  float4 sum = {};
#pragma unroll 8
  for (int i = begin; i < end; i++) add(sum, __ldg(from + i * next));
  return sum;
}

// Stores four neighbouring elements of a line, of which `count` exist, in one access if they are aligned.
__device__ inline void store_four(const falt_cuda_tensor &t, long long at, const float (&v)[4], int count) {
  const int size = t.type == F32 ? 4 : 2;
  char *to = (char *)t.data + at * size;
  if (t.stride[2] != 1 || count < 4 || (unsigned long long)to % (4 * size)) {
    for (int i = 0; i < 4; i++)
      if (i < count) store<float>(t.data, t.type, at + i * t.stride[2], v[i]);
  } else if (size == 4) {
    *(float4 *)to = make_float4(v[0], v[1], v[2], v[3]);
  } else {
    const bool f16 = t.type == F16;
    const unsigned a = f16 ? to_f16(v[0]) : to_bf16(v[0]), b = f16 ? to_f16(v[1]) : to_bf16(v[1]);
    const unsigned c = f16 ? to_f16(v[2]) : to_bf16(v[2]), d = f16 ? to_f16(v[3]) : to_bf16(v[3]);
    *(uint2 *)to = make_uint2(a | b << 16, c | d << 16);
  }
}

// Where four neighbouring sums go, and how many of them exist.
struct Goal {
  long long place;
  int count;
};

__device__ inline Goal goal_of(const falt_cuda_igemm_sm90_sum_args &a, unsigned index) {
  const unsigned k = index / a.row_fours, column = index % a.row_fours * 4;
  const unsigned tap = column / a.tap_columns, channel = column % a.tap_columns;
  const unsigned width = a.w.size[5], height = a.w.size[4];
  return {k * a.w.stride[0] + channel * a.w.stride[2] + tap / (width * height) * a.w.stride[3] +
              tap / width % height * a.w.stride[4] + tap % width * a.w.stride[5],
          (int)a.w.size[2] - (int)channel};
}

// If sums are few and split-K slices many, `parts` threads of a block share the slices of each four. Addresses that
// take divisions are computed before the wait for the stream.
extern "C" __global__ void __launch_bounds__(256)
    falt_igemm_sm90_sum(const __grid_constant__ falt_cuda_igemm_sm90_sum_args a) {
  __shared__ float4 shared[256];
  const unsigned fours = 256 / a.parts, part = threadIdx.x / fours;
  const unsigned index = blockIdx.x * fours + threadIdx.x % fours;
  const int begin = part * a.split_k / a.parts, end = (part + 1) * a.split_k / a.parts;
  const Goal goal = goal_of(a, index);
  await_stream_knowing(goal.place + begin + end);
  float4 sum = {};
  if (index < a.fours) sum = sum_of(a.sums, index, a.fours, begin, end);
  shared[threadIdx.x] = sum;
  __syncthreads();
  if (index >= a.fours || part > 0) return;
  for (int i = 1; i < a.parts; i++) add(sum, shared[threadIdx.x + i * fours]);
  if (goal.count <= 0) return;
  const float v[4] = {a.alpha * sum.x, a.alpha * sum.y, a.alpha * sum.z, a.alpha * sum.w};
  store_four(a.w, goal.place, v, goal.count);
}
