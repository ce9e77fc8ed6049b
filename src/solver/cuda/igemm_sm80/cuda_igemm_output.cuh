// Epilogue of the implicit GEMM kernels: converts accumulators and stores outputs. The kernel defines TYPE_Y, TYPE_R,
// REAL and ACTIVATION.
#pragma once
#include "cuda_igemm.cuh"
#include "finish.cuh"

typedef falt_cuda_igemm_args Args;

constexpr i64 NO_RESULT = 1ll << 62;  // as Output.y: strides may be negative, so places may be too

struct Result {
  i64 y, r;  // elements: where the pixel's channels begin; NO_RESULT: there is no such pixel
};

__device__ inline Result find_result(const Args &a, const Polyphase &p, int m) {
  Result result = {NO_RESULT, 0};
  int q[4];
  if (m >= p.pixels) return result;
  locate(p, m, q);
  result.y = q[0] * a.y_image + q[1] * a.y_axis[0] + q[2] * a.y_axis[1] + q[3] * a.y_axis[2];
  if (RESIDUAL) result.r = q[0] * a.r_image + q[1] * a.r_axis[0] + q[2] * a.r_axis[1] + q[3] * a.r_axis[2];
  return result;
}
