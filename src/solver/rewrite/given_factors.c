/* Factors that come with an execution. */
#include "solver/rewrite/given_factors.h"

#include "planner/backend.h"
#include "solver/rewrite/separable_passes.h"

falt_status falt_given_factors_ready(falt_given_factors *given, const falt_device *device) {
  const falt_backend *backend = falt_backend_of(device);
  return backend->factors ? backend->factors_ready(device, given->expands, &given->kernel) : FALT_OK;
}

static falt_factors factors_of(const falt_given_factors *given, const falt_problem *p) {
  const int64_t *size = &p->filter.size[FALT_D];
  int axis[FALT_MOST_PASSES];
  falt_factors f = {.expands = given->expands,
                    .size = {size[0], size[1], size[2]},
                    .count = given->expands ? size[0] * size[1] * size[2] : falt_problem_filter_elements(p),
                    .terms = p->factors,
                    .type = p->filter.type,
                    .to_type = given->type,
                    .first = falt_passes_axes(p, axis) ? axis[0] : 2};
  for (int a = 0; a < 3; a++) f.backwards[a] = size[a] > 1 && p->filter.stride[FALT_D + a] < 0;
  return f;
}

void falt_given_factors_make(const falt_given_factors *given, const falt_plan *plan, const falt_operands *operands,
                             void *to) {
  const falt_backend *backend = falt_backend_of(plan->device);
  if (!backend->factors) {
    if (given->expands)
      falt_factors_expand(&plan->problem, operands->filter, given->type, to);
    else
      falt_passes_values(&plan->problem, operands->filter, to);
    return;
  }
  falt_factors f = factors_of(given, &plan->problem);
  f.values = operands->filter;
  f.to = to;
  backend->factors(plan->device, given->kernel, &f, operands->stream);
}
