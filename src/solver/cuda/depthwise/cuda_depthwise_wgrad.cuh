// Address of an element of a depthwise weight gradient or of its bias gradient.

// Compile-time parameters: SUM, float or double; TYPE_W, number of falt_type of the gradient; MULTIPLE, channels of a
// group

#pragma once
#include "args.h"
#include "convert.cuh"

__device__ inline void put_tap(const falt_cuda_depthwise_args &p, int channel, int t, int r, int s, SUM sum) {
  store<SUM>((void *)p.w, TYPE_W,
             channel / MULTIPLE * p.w_channel + channel % MULTIPLE * p.w_next + t * p.w_axis[0] + r * p.w_axis[1] +
                 s * p.w_axis[2],
             (SUM)(p.epilogue.alpha * sum));
}

__device__ inline void put_bias(const falt_cuda_depthwise_args &p, int channel, SUM sum) {
  store<SUM>(p.epilogue.bias, p.epilogue.vector_type, channel, sum);
}
