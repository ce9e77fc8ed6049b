/* Solver cuda-fft-wgrad: wgrad of depthwise layers of many taps by fast transforms: dw is the correlation of x and dy,
 * so a long dy is cut into parts as a filter is (cuda_fft_partitioned.c). Pairs of images are the real and imaginary
 * parts of x and dy. Their products are added over all images at each frequency and transformed back once; the sum is
 * the real part. Kernels: cuda_fft_partitioned.cu. */
#include "solver/cuda/fft/cuda_fft.h"

static const char *choose(falt_plan *base, falt_ask *ask) {
  return falt_cuda_fft_kept_choose(base, ask, falt_cuda_fft_each_wgrad);
}

/* The tables of cuda-fft-partitioned with another choice and scope, which a table cannot leave open. */
static const falt_plan_steps steps = {
    sizeof(falt_cuda_fft_plan),
    {falt_cuda_fft_kept_execute, falt_cuda_fft_kept_print, falt_cuda_fft_destroy, falt_cuda_fft_ready},
    falt_cuda_fft_wgrad_inapplicable,
    choose};

extern const falt_solver falt_solver_cuda_fft_wgrad;
const falt_solver falt_solver_cuda_fft_wgrad = {
    .name = "cuda-fft-wgrad", .device_kind = "cuda", .plan = falt_cuda_plan_make, .steps = &steps, .mixes = true};
