// The epilogue of an output: scale, bias, residual, activation. Once an output, in double unless a kernel says
// otherwise.
#pragma once
#include "args.h"
#include "convert.cuh"

enum Activation { IDENTITY, RELU, RELU6, LEAKY, SILU, GELU, SIGMOID, TANH, CLIP };

// Comparisons are written so that NaN passes through.
template <typename R>
__device__ inline R clip(R x, R low, R high) {
  if (x < low) return low;
  return x > high ? high : x;
}

template <typename R>
__device__ inline R activate(const falt_cuda_epilogue &e, R x) {
  switch (e.activation) {
    case RELU:
      return x < 0 ? 0 : x;
    case RELU6:
      return clip<R>(x, 0, 6);
    case LEAKY:
      return x < 0 ? (R)e.act_a * x : x;
    case SILU:  // far below zero the limit: at -infinity the formulas of both give NaN
      return x < -1000 ? (R)-0.0 : x / (1 + exp(-x));
    case GELU:
      return x < -1000 ? (R)-0.0 : x / 2 * (1 + erf(x * (R)0.70710678118654752440));
    case SIGMOID:
      return 1 / (1 + exp(-x));
    case TANH:
      return tanh(x);
    case CLIP:
      return clip<R>(x, (R)e.act_a, (R)e.act_b);
    default:
      return x;
  }
}

// The factor and the term of a channel's sums.
template <typename R>
struct Linear {
  R scale, offset;
};

template <typename R>
__device__ inline Linear<R> linear_of(const falt_cuda_epilogue &e, long long channel) {
  Linear<R> l = {(R)e.alpha, (R)e.beta};
  if (e.scale) l.scale *= load<R>(e.scale, e.vector_type, channel);
  if (e.bias) l.offset += load<R>(e.bias, e.vector_type, channel);
  return l;
}

__device__ inline double finish(const falt_cuda_epilogue &e, const falt_cuda_tensor &residual, long long channel,
                                long long at, double sum) {
  const Linear<double> l = linear_of<double>(e, channel);
  double value = sum * l.scale + l.offset;
  if (residual.data) value += load<double>(residual.data, residual.type, at);
  return activate<double>(e, value);
}
