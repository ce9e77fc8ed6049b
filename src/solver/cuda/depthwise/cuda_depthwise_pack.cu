// Repacks a depthwise filter for NHWC layers: the channels of each tap become contiguous.

// Compile-time parameters: TYPE_W, a number of falt_type; SUM, the packed type; TAPS_R TAPS_S CHANNELS MULTIPLE

#include "args.h"
#include "convert.cuh"
#include "ptx/early.cuh"

extern "C" __global__ void __launch_bounds__(256)
    falt_depthwise_pack(const __grid_constant__ falt_cuda_depthwise_args p) {
  const long long i = blockIdx.x * 256ll + threadIdx.x;
  if (i >= p.tiles) return;
  const int channel = i % CHANNELS, s = i / CHANNELS % TAPS_S, r = i / CHANNELS / TAPS_S % TAPS_R,
            t = i / CHANNELS / TAPS_S / TAPS_R;
  const long long from = channel / MULTIPLE * p.w_channel + channel % MULTIPLE * p.w_next + t * p.w_axis[0] +
                         r * p.w_axis[1] + s * p.w_axis[2];
  await_stream();
  ((SUM *)p.y)[i] = load<SUM>(p.w, TYPE_W, from);
}
