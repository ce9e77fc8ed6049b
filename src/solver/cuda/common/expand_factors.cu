// Factors that come with an execution, as other solvers take them: as dense taps, or as the factors of passes. In
// double, rounded once.
#include "convert.cuh"
#include "factors_args.h"

typedef long long i64;
typedef falt_cuda_factors_args Args;

__device__ inline double value_at(const Args &a, i64 term, int axis, i64 tap) {
  i64 at = term * (a.size[0] + a.size[1] + a.size[2]);
  for (int before = 0; before < axis; before++) at += a.size[before];
  return load<double>(a.values, a.type, at + (a.backwards[axis] ? a.size[axis] - 1 - tap : tap));
}

// The sum over the terms, one thread a tap.
extern "C" __global__ void __launch_bounds__(FALT_CUDA_FACTORS_THREADS)
    falt_expand_factors(const __grid_constant__ Args a) {
  const i64 tap = (i64)blockIdx.x * FALT_CUDA_FACTORS_THREADS + threadIdx.x;
  if (tap >= a.count) return;
  const i64 s = tap % a.size[2], r = tap / a.size[2] % a.size[1], t = tap / a.size[2] / a.size[1];
  double sum = 0;
  for (i64 term = 0; term < a.terms; term++)
    sum += value_at(a, term, 0, t) * value_at(a, term, 1, r) * value_at(a, term, 2, s);
  store<double>(a.to, a.to_type, tap, sum);
}

// The factors themselves, one thread a value; those of the first pass times those of the axes of one tap.
extern "C" __global__ void __launch_bounds__(FALT_CUDA_FACTORS_THREADS)
    falt_pass_factors(const __grid_constant__ Args a) {
  const i64 i = (i64)blockIdx.x * FALT_CUDA_FACTORS_THREADS + threadIdx.x, all = a.size[0] + a.size[1] + a.size[2];
  if (i >= a.count) return;
  const i64 term = i / all;
  i64 tap = i % all;
  int axis = 0;
  while (tap >= a.size[axis]) tap -= a.size[axis++];
  double value = value_at(a, term, axis, tap);
  for (int b = 0; b < 3; b++)
    if (axis == a.first && b != axis && a.size[b] == 1) value *= value_at(a, term, b, 0);
  store<double>(a.to, a.to_type, i, value);
}
