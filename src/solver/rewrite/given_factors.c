/* Factors that come with an execution. */
#include "solver/rewrite/given_factors.h"

#include "solver/rewrite/factors_args.h"
#include "solver/rewrite/separable_passes.h"

falt_status falt_given_factors_ready(falt_given_factors *given, const falt_device *device) {
  if (!device->gpu) return FALT_OK;
  const falt_cuda_kernel kernel = {.source = "expand_factors.cu",
                                   .entry = given->expands ? "falt_expand_factors" : "falt_pass_factors"};
  return falt_gpu_kernel(device->gpu, &kernel, &given->function);
}

static void start(const falt_given_factors *given, const falt_plan *plan, const falt_operands *operands, void *to) {
  const falt_problem *p = &plan->problem;
  const int64_t *size = &p->filter.size[FALT_D];
  int axis[FALT_MOST_PASSES];
  falt_cuda_factors_args args = {
      .values = operands->filter,
      .to = to,
      .size = {size[0], size[1], size[2]},
      .count = given->expands ? size[0] * size[1] * size[2] : falt_problem_filter_elements(p),
      .terms = p->factors,
      .type = (int)p->filter.type,
      .to_type = (int)given->type,
      .first = falt_passes_axes(p, axis) ? axis[0] : 2};
  for (int a = 0; a < 3; a++) args.backwards[a] = size[a] > 1 && p->filter.stride[FALT_D + a] < 0;
  void *parameters[] = {&args};
  const falt_gpu_launch launch = {.function = given->function,
                                  .blocks = falt_ceil_div(args.count, FALT_CUDA_FACTORS_THREADS),
                                  .threads = {FALT_CUDA_FACTORS_THREADS, 1},
                                  .stream = operands->stream};
  falt_gpu_start(plan->device->gpu, &launch, parameters);
}

void falt_given_factors_make(const falt_given_factors *given, const falt_plan *plan, const falt_operands *operands,
                             void *to) {
  if (plan->device->gpu)
    start(given, plan, operands, to);
  else if (given->expands)
    falt_factors_expand(&plan->problem, operands->filter, given->type, to);
  else
    falt_passes_values(&plan->problem, operands->filter, to);
}
