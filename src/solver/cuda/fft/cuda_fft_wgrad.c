/* Solver cuda-fft-wgrad: wgrad of depthwise layers of many taps by fast transforms: dw is the correlation of x and dy,
 * so a long dy is cut into parts as a filter is (cuda_fft_partitioned.c). Pairs of images are the real and imaginary
 * parts of x and dy. Their products are added over all images at each frequency and transformed back once; the sum is
 * the real part. Kernels: cuda_fft_partitioned.cu. */
#include "solver/cuda/fft/cuda_fft.h"

enum { KEEP = FALT_FFT_OWN, PRODUCTS, BACK };

/* As many filters at a time as the workspace has room for. */
static void execute(const falt_plan *base, const falt_operands *o) {
  const falt_cuda_fft_plan *plan = (const falt_cuda_fft_plan *)base;
  const falt_cuda_fft_tile *t = &plan->tile;
  falt_cuda_fft_args args = falt_cuda_fft_begin(plan, o);
  const int64_t pairs = args.strand_pairs, all = (int64_t)args.groups * args.filters * pairs;
  const int64_t groups = falt_ceil_div(t->steps, t->group);
  const int64_t columns = (int64_t)t->threads * FALT_FFT_SLOTS / FALT_FFT_PRODUCT_THREADS;
  for (int64_t first = 0; first < all; first += t->strands) {
    const int64_t strands = falt_min(t->strands, all - first), filters = strands / pairs;
    args.first_strand = (unsigned)first;
    args.strands = (unsigned)strands;
    falt_cuda_fft_start(plan, FALT_FFT_SPECTRUM, &args, strands * t->all_parts, o->stream);
    falt_cuda_fft_start(plan, KEEP, &args, strands * t->inputs, o->stream);
    falt_cuda_fft_start(plan, PRODUCTS, &args, filters * groups * columns, o->stream);
    falt_cuda_fft_start(plan, BACK, &args, filters * t->steps, o->stream);
  }
  falt_cuda_fft_end(plan, &args, o->stream);
}

static void print(const falt_plan *base, falt_text *text) {
  const falt_cuda_fft_plan *plan = (const falt_cuda_fft_plan *)base;
  const long long steps = plan->tile.steps, strands = plan->tile.strands;
  falt_cuda_fft_print(plan, text);
  falt_text_add(text, " axis=%c steps=%lld strands=%lld)", "zyx"[plan->tile.axis], steps, strands);
}

static const char *choose(falt_plan *base, falt_ask *ask) {
  static const falt_cuda_fft_kernel own[] = {
      {"cuda_fft_partitioned.cu", "falt_fft_keep", 0},
      {"cuda_fft_partitioned.cu", "falt_fft_products", FALT_FFT_PRODUCT_THREADS},
      {"cuda_fft_partitioned.cu", "falt_fft_back", 0},
  };
  return falt_cuda_fft_plan_choose((falt_cuda_fft_plan *)base, ask, falt_cuda_fft_choose_wgrad, own);
}

static const falt_plan_steps steps = {sizeof(falt_cuda_fft_plan),
                                      {execute, print, falt_cuda_fft_destroy, falt_cuda_fft_ready},
                                      falt_cuda_fft_wgrad_inapplicable,
                                      choose};

extern const falt_solver falt_solver_cuda_fft_wgrad;
const falt_solver falt_solver_cuda_fft_wgrad = {.name = "cuda-fft-wgrad",
                                                .device_kind = "cuda",
                                                .plan = falt_cuda_plan_make,
                                                .steps = &steps,
                                                .mixes = true,
                                                .only_by_name = true};
