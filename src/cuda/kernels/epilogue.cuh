// What happens to a sum before it is stored; in double, once a result.
#pragma once
#include "args.h"
#include "convert.cuh"

enum Activation { IDENTITY, RELU, RELU6, LEAKY, SILU, GELU, SIGMOID, TANH, CLIP };

// Comparisons are written so that NaN passes through.
__device__ inline double clip(double x, double low, double high) {
  if (x < low) return low;
  return x > high ? high : x;
}

__device__ inline double activate(const falt_cuda_epilogue &e, double x) {
  switch (e.activation) {
    case RELU:
      return x < 0 ? 0 : x;
    case RELU6:
      return clip(x, 0, 6);
    case LEAKY:
      return x < 0 ? e.act_a * x : x;
    case SILU:
      return x / (1 + exp(-x));
    case GELU:
      return x / 2 * (1 + erf(x * 0.70710678118654752440));
    case SIGMOID:
      return 1 / (1 + exp(-x));
    case TANH:
      return tanh(x);
    case CLIP:
      return clip(x, e.act_a, e.act_b);
    default:
      return x;
  }
}

__device__ inline double finish(const falt_cuda_epilogue &e, const falt_cuda_tensor &residual, long long channel,
                                long long at, double sum) {
  double scale = e.alpha, offset = e.beta;
  if (e.scale) scale *= load<double>(e.scale, e.vector_type, channel);
  if (e.bias) offset += load<double>(e.bias, e.vector_type, channel);
  double value = sum * scale + offset;
  if (residual.data) value += load<double>(residual.data, residual.type, at);
  return activate(e, value);
}
