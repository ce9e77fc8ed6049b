// What the kernels of filters' gradients share: where a gradient goes. TYPE_W is a hole of theirs.
#pragma once
#include "args.h"
#include "convert.cuh"

typedef long long i64;
typedef falt_cuda_gemm_filter_args Args;

// Where the gradient of a row and a column goes: to the filter, to the bias, or nowhere, between merged groups.
template <typename T>
__device__ inline void put(const Args &a, int group, int row, int column, T sum) {
  const int channels = a.channels * a.merged, taps = a.taps[0] * a.taps[1] * a.taps[2];
  const int tap = column / channels, channel = column - tap * channels;
  const int sub = row / a.rows, sub_row = row - sub * a.rows, sub_channel = channel - sub * a.channels;
  if (row >= a.rows * a.merged || column >= a.columns) return;
  if (tap == taps) {
    if (channel == 0 && a.bias) store<double>(a.bias, a.vector_type, (i64)group * a.rows * a.merged + row, (double)sum);
    return;
  }
  if (sub_channel < 0 || sub_channel >= a.channels) return;
  const int s = tap % a.taps[2], r = tap / a.taps[2] % a.taps[1], t = tap / a.taps[2] / a.taps[1];
  store<T>(a.w, TYPE_W,
           ((i64)group * a.merged + sub) * a.w_group + sub_row * a.w_row + sub_channel * a.w_channel + t * a.w_axis[0] +
               r * a.w_axis[1] + s * a.w_axis[2],
           (T)(a.alpha * sum));
}
