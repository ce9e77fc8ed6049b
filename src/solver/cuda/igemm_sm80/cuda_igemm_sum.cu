// Adds the split-K slices of cuda_igemm.cu in a fixed order and applies the epilogue: one thread an output.

// Compile-time parameters:
//   SUM                    type of the sums
//   TYPE_Y TYPE_R REAL ACTIVATION   as in cuda_igemm.cu

#include "args.h"
#include "convert.cuh"
#include "cuda_igemm_output.cuh"
#include "ptx/early.cuh"

extern "C" __global__ void __launch_bounds__(256) falt_igemm_sum(const __grid_constant__ Args a) {
  await_stream();
  const i64 i = blockIdx.x * 256ll + threadIdx.x, group = blockIdx.y, slice = (i64)a.polyphase.pixels * a.channels;
  if (i >= slice) return;
  const SUM *from = (const SUM *)a.partial + group * a.split_k * slice + i;
  SUM sum = 0;
#pragma unroll 4
  for (int k = 0; k < a.split_k; k++) sum += from[k * slice];
  const int m = (int)(i / a.channels), channel = (int)(i % a.channels);
  const Result to = find_result(a, a.polyphase, m);
  const i64 residual = group * a.r_group + channel * a.r_channel + to.r;
  store<REAL>(a.y, TYPE_Y, group * a.y_group + channel * a.y_channel + to.y,
              finished(a, linear(a, group * a.channels + channel), (REAL)sum, residual));
}
