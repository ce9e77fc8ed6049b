/* The base of CUDA plans: creation, destruction, and the device copy of a known filter. */
#include "solver/cuda/common/plan.h"

#include "core/memory.h"

void *falt_cuda_plan_new(size_t size, const falt_plan_table *table, const falt_solver *solver, falt_ask *ask) {
  falt_cuda_plan *plan = falt_plan_new(size, table, solver, ask);
  if (!plan) return NULL;
  if (ask->problem->operation != FALT_BACKWARD_FILTER) plan->values = ask->filter_values;
  plan->base.packed = plan->values != NULL;
  return plan;
}

void falt_cuda_plan_destroy(falt_plan *base) {
  falt_gpu_release(base->device->gpu, ((falt_cuda_plan *)base)->filter);
  falt_free(base);
}

falt_plan *falt_cuda_plan_drop(falt_cuda_plan *plan, falt_ask *ask, const char *why) {
  falt_refuse(ask, "%s", why); /* the reason may be the plan's */
  plan->base.table->destroy(&plan->base);
  return NULL;
}

falt_status falt_cuda_plan_keep_filter(falt_cuda_plan *plan) {
  const falt_tensor *w = &plan->base.problem.filter;
  const size_t bytes = (size_t)falt_tensor_span(w) * falt_type_size(w->type);
  if (plan->values) FALT_TRY(falt_cuda_upload(plan->base.device->gpu, &plan->filter, plan->values, bytes));
  plan->values = NULL;
  return FALT_OK;
}

char *falt_cuda_plan_filter(const falt_cuda_plan *plan, const falt_operands *o) {
  const falt_tensor *w = &plan->base.problem.filter;
  char *data = plan->filter ? plan->filter : o->filter;
  return data + w->offset * (int64_t)falt_type_size(w->type);
}
