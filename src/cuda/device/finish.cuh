// The epilogue of kernels with compile-time output types. The kernel defines TYPE_Y, TYPE_R, REAL and ACTIVATION.
#pragma once
#include "epilogue.cuh"

constexpr bool RESIDUAL = TYPE_R >= 0;

template <typename ARGS>
__device__ inline Linear<REAL> linear(const ARGS &a, long long channel) {
  falt_cuda_epilogue e = a.epilogue;
  e.vector_type = TYPE_Y == F64 ? F64 : F32;
  return linear_of<REAL>(e, channel);
}

template <typename ARGS>
__device__ inline REAL finished(const ARGS &a, const Linear<REAL> &l, REAL sum, long long residual) {
  REAL value = sum * l.scale + l.offset;
  if (RESIDUAL) value += load<REAL>(a.residual, TYPE_R, residual);
  falt_cuda_epilogue e = a.epilogue;
  e.activation = ACTIVATION;
  return activate<REAL>(e, value);
}
