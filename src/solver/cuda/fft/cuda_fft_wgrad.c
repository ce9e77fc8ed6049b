/* Solver cuda-fft-wgrad: wgrad of depthwise layers of many taps by fast transforms: dw is the correlation of x and dy.
 * Pairs of images are the real and imaginary parts of x and dy. Their products are added over all images at each
 * frequency and transformed back once; the sum is the real part. Where dy and dw fit in a tile, a block does all of a
 * filter (cuda_fft.cu). A longer dy is cut into parts as a filter is (cuda_fft_partitioned.cu). */
#include "solver/cuda/fft/cuda_fft.h"

static bool is_whole(const falt_cuda_fft_plan *plan) {
  return plan->tile.axis < 0;
}

static void execute(const falt_plan *base, const falt_operands *o) {
  const falt_cuda_fft_plan *plan = (const falt_cuda_fft_plan *)base;
  if (!is_whole(plan)) {
    falt_cuda_fft_kept_execute(base, o);
    return;
  }
  const falt_cuda_fft_args args = falt_cuda_fft_begin(plan, o);
  falt_cuda_fft_start(plan, FALT_FFT_OWN, &args, args.all_pairs, o->stream);
  falt_cuda_fft_end(plan, &args, o->stream);
}

static void print(const falt_plan *base, falt_text *text) {
  const falt_cuda_fft_plan *plan = (const falt_cuda_fft_plan *)base;
  if (!is_whole(plan)) {
    falt_cuda_fft_kept_print(base, text);
    return;
  }
  falt_cuda_fft_print(plan, text);
  falt_text_add(text, " whole)");
}

static const char *choose(falt_plan *base, falt_ask *ask) {
  static const falt_cuda_fft_kernel whole[] = {{"cuda_fft.cu", "falt_fft_wgrad", 0}, {NULL, NULL, 0}};
  falt_cuda_fft_plan *plan = (falt_cuda_fft_plan *)base;
  const char *why = falt_cuda_fft_kept_choose(base, ask, falt_cuda_fft_each_wgrad);
  if (is_whole(plan)) plan->own = whole;
  return why;
}

static const falt_plan_steps steps = {sizeof(falt_cuda_fft_plan),
                                      {execute, print, falt_cuda_fft_destroy, falt_cuda_fft_ready},
                                      falt_cuda_fft_wgrad_inapplicable,
                                      choose};

extern const falt_solver falt_solver_cuda_fft_wgrad;
const falt_solver falt_solver_cuda_fft_wgrad = {
    .name = "cuda-fft-wgrad", .device_kind = "cuda", .plan = falt_cuda_plan_make, .steps = &steps, .mixes = true};
