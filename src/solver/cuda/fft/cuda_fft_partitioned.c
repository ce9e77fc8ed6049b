/* Solver cuda-fft-partitioned: filters that are longer than a tile along one axis, by uniformly partitioned
 * overlap-save (Kulp 1988; Stockham 1966). Each tile of the input is transformed once and its spectrum kept in the
 * workspace. Sums of products with the parts' spectra are direct convolutions along the axis at each frequency, and
 * each is transformed back once. Kernels: cuda_fft_partitioned.cu. */
#include "solver/cuda/fft/cuda_fft.h"

enum { KEEP = FALT_FFT_OWN, PRODUCTS, BACK };

/* As many strands at a time as the workspace has room for; those of a filter's images stay together in wgrad, whose dy
 * are transformed with them. */
void falt_cuda_fft_kept_execute(const falt_plan *base, const falt_operands *o) {
  const falt_cuda_fft_plan *plan = (const falt_cuda_fft_plan *)base;
  const falt_cuda_fft_tile *t = &plan->tile;
  const bool wgrad = base->problem.operation == FALT_BACKWARD_FILTER;
  falt_cuda_fft_args args = falt_cuda_fft_begin(plan, o);
  const int64_t pairs = wgrad ? args.strand_pairs : 1; /* strands whose products are added */
  const int64_t all = wgrad ? (int64_t)args.groups * args.filters * pairs : args.all_pairs / t->steps;
  const int64_t groups = falt_ceil_div(t->steps, t->group);
  const int64_t columns = (int64_t)t->threads * FALT_FFT_SLOTS / FALT_FFT_PRODUCT_THREADS;
  for (int64_t first = 0; first < all; first += t->strands) {
    const int64_t strands = falt_min(t->strands, all - first), sums = strands / pairs;
    args.first_strand = (unsigned)first;
    args.strands = (unsigned)strands;
    if (wgrad) falt_cuda_fft_start(plan, FALT_FFT_SPECTRUM, &args, strands * t->all_parts, o->stream);
    falt_cuda_fft_start(plan, KEEP, &args, strands * t->inputs, o->stream);
    falt_cuda_fft_start(plan, PRODUCTS, &args, sums * groups * columns, o->stream);
    falt_cuda_fft_start(plan, BACK, &args, sums * t->steps, o->stream);
  }
  falt_cuda_fft_end(plan, &args, o->stream);
}

void falt_cuda_fft_kept_print(const falt_plan *base, falt_text *text) {
  const falt_cuda_fft_plan *plan = (const falt_cuda_fft_plan *)base;
  const falt_cuda_fft_tile *t = &plan->tile;
  const long long steps = t->steps, strands = t->strands;
  falt_cuda_fft_print(plan, text);
  falt_text_add(text, " axis=%c steps=%lld strands=%lld)", "zyx"[t->axis], steps, strands);
}

const char *falt_cuda_fft_kept_choose(falt_plan *base, falt_ask *ask, falt_cuda_fft_method *method) {
  static const falt_cuda_fft_kernel own[] = {
      {"cuda_fft_partitioned.cu", "falt_fft_keep", 0},
      {"cuda_fft_partitioned.cu", "falt_fft_products", FALT_FFT_PRODUCT_THREADS},
      {"cuda_fft_partitioned.cu", "falt_fft_back", 0},
  };
  return falt_cuda_fft_plan_choose((falt_cuda_fft_plan *)base, ask, method, own);
}

static const char *choose(falt_plan *base, falt_ask *ask) {
  return falt_cuda_fft_kept_choose(base, ask, falt_cuda_fft_each_partitioned);
}

/* cuda-fft-wgrad has the same tables with another choice and scope, which a table cannot leave open. */
static const falt_plan_steps steps = {
    sizeof(falt_cuda_fft_plan),
    {falt_cuda_fft_kept_execute, falt_cuda_fft_kept_print, falt_cuda_fft_destroy, falt_cuda_fft_ready},
    falt_cuda_fft_inapplicable,
    choose};

extern const falt_solver falt_solver_cuda_fft_partitioned;
const falt_solver falt_solver_cuda_fft_partitioned = {
    .name = "cuda-fft-partitioned", .device_kind = "cuda", .plan = falt_cuda_plan_make, .steps = &steps, .mixes = true};
