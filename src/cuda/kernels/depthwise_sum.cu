// Adds what shares of the positions contribute to the gradient of a depthwise layer's filter, and of its bias:
// neighbouring threads take neighbouring sums, each warp other shares of them, always in the same order.
//
// Holes:
//   SUM                   float or double
//   TYPE_W                number of falt_type: the gradient's
//   TAPS_T TAPS_R TAPS_S  along planes, rows, columns
//   CHANNELS MULTIPLE     results' channels; those of a group
//   BIAS                  1: after the taps' sums stand those of the bias
#include "args.h"
#include "convert.cuh"

extern "C" __global__ void __launch_bounds__(1024)
    falt_depthwise_sum(const __grid_constant__ falt_cuda_depthwise_args p) {
  constexpr int ALL_TAPS = TAPS_T * TAPS_R * TAPS_S;
  constexpr int PLACES = (ALL_TAPS + BIAS) * CHANNELS;
  __shared__ SUM part[32][32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, place = blockIdx.x * 32 + lane;
  SUM sum = 0;
  if (place < PLACES)
#pragma unroll 8
    for (unsigned share = warp; share < p.shares; share += 32)
      sum += ((const SUM *)p.partial)[share * (long long)PLACES + place];
  part[warp][lane] = sum;
  __syncthreads();
  if (warp > 0 || place >= PLACES) return;
#pragma unroll
  for (int i = 1; i < 32; i++) sum += part[i][lane];
  const int tap = place / CHANNELS, channel = place % CHANNELS, group = channel / MULTIPLE, member = channel % MULTIPLE;
  if (tap == ALL_TAPS) {
    store<SUM>(p.epilogue.bias, p.epilogue.vector_type, channel, sum);
    return;
  }
  const int s = tap % TAPS_S, r = tap / TAPS_S % TAPS_R, t = tap / TAPS_S / TAPS_R;
  store<SUM>((void *)p.w, TYPE_W,
             group * p.w_channel + member * p.w_next + t * p.w_axis[0] + r * p.w_axis[1] + s * p.w_axis[2],
             (SUM)(p.epilogue.alpha * sum));
}
