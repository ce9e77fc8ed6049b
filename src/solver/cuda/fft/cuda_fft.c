/* Solver cuda-fft: filters of many taps, and depthwise layers as filters of each channel, by overlap-save (Stockham
 * 1966). A block transforms a pair of tiles in registers and shared memory, multiplies them by the filter's spectrum
 * and transforms them back: one read and one write of the data. A second kernel sums tiles with NaN or
 * infinity tap by tap. Kernels: cuda_fft.cu. Tile search: cuda_fft_tiles.c. */
#include "solver/cuda/fft/cuda_fft.h"

static void execute(const falt_plan *base, const falt_operands *o) {
  const falt_cuda_fft_plan *plan = (const falt_cuda_fft_plan *)base;
  const falt_cuda_fft_args args = falt_cuda_fft_begin(plan, o);
  falt_cuda_fft_start(plan, FALT_FFT_OWN, &args, args.all_pairs, o->stream);
  falt_cuda_fft_end(plan, &args, o->stream);
}

static void print(const falt_plan *base, falt_text *text) {
  falt_cuda_fft_print((const falt_cuda_fft_plan *)base, text);
  falt_text_add(text, ")");
}

static const char *choose(falt_plan *base, falt_ask *ask) {
  static const falt_cuda_fft_kernel own[] = {{"cuda_fft.cu", "falt_fft", 0}, {NULL, NULL, 0}};
  return falt_cuda_fft_plan_choose((falt_cuda_fft_plan *)base, ask, falt_cuda_fft_each, own);
}

static const falt_plan_steps steps = {sizeof(falt_cuda_fft_plan),
                                      {execute, print, falt_cuda_fft_destroy, falt_cuda_fft_ready},
                                      falt_cuda_fft_inapplicable,
                                      choose};

extern const falt_solver falt_solver_cuda_fft;
const falt_solver falt_solver_cuda_fft = {
    .name = "cuda-fft", .device_kind = "cuda", .plan = falt_cuda_plan_make, .steps = &steps, .mixes = true};
