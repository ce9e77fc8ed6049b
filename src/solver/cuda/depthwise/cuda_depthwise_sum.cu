// Adds the split-K slices of a depthwise wgrad, and of its bias gradient, in a fixed order. Neighbouring threads add
// neighbouring sums; each warp adds other slices.

// Compile-time parameters:
//   SUM                   float or double
//   TYPE_W                number of falt_type: the gradient's
//   TAPS_T TAPS_R TAPS_S  along planes, rows, columns
//   CHANNELS MULTIPLE     channels of the output; of a group
//   BIAS                  1: the sums of the bias follow those of the taps

#include "cuda_depthwise_wgrad.cuh"
#include "ptx/early.cuh"

extern "C" __global__ void __launch_bounds__(1024)
    falt_depthwise_sum(const __grid_constant__ falt_cuda_depthwise_args p) {
  constexpr int ALL_TAPS = TAPS_T * TAPS_R * TAPS_S;
  constexpr int PLACES = (ALL_TAPS + BIAS) * CHANNELS;
  __shared__ SUM part[32][32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32, place = blockIdx.x * 32 + lane;
  SUM sum = 0;
  await_stream();
  if (place < PLACES)
#pragma unroll 8
    for (unsigned slice = warp; slice < p.split_k; slice += warps)
      sum += ((const SUM *)p.partial)[slice * (long long)PLACES + place];
  part[warp][lane] = sum;
  __syncthreads();
  if (warp > 0 || place >= PLACES) return;
#pragma unroll 4
  for (int i = 1; i < warps; i++) sum += part[i][lane];
  const int tap = place / CHANNELS, channel = place % CHANNELS;
  if (tap == ALL_TAPS)
    put_bias(p, channel, sum);
  else
    put_tap(p, channel, tap / TAPS_S / TAPS_R, tap / TAPS_S % TAPS_R, tap % TAPS_S, sum);
}
