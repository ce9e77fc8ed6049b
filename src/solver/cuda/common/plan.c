/* The base of CUDA plans: creation, destruction, and the device copy of a known filter. */
#include "solver/cuda/common/plan.h"

#include "core/memory.h"

falt_plan *falt_cuda_plan_make(const falt_solver *solver, falt_ask *ask) {
  falt_cuda_plan *plan = falt_plan_begin(solver, ask);
  if (!plan) return NULL;
  if (ask->problem->operation != FALT_BACKWARD_FILTER) plan->values = ask->filter_values;
  plan->base.packed = plan->values != NULL;
  return falt_plan_choose(&plan->base, ask);
}

void falt_cuda_plan_destroy(falt_plan *base) {
  const falt_cuda_plan *plan = (const falt_cuda_plan *)base;
  falt_gpu_release(base->device->gpu, plan->filter);
  falt_gpu_release(base->device->gpu, plan->memory);
  falt_free(base);
}

falt_status falt_cuda_plan_ready(falt_plan *base, const falt_cuda_kernel *kernel, const falt_cuda_kernel *sum) {
  falt_cuda_plan *plan = (falt_cuda_plan *)base;
  FALT_TRY(falt_gpu_kernel(base->device->gpu, kernel, &plan->function));
  if (sum) FALT_TRY(falt_gpu_kernel(base->device->gpu, sum, &plan->sum));
  return falt_cuda_plan_keep_filter(plan);
}

falt_status falt_cuda_plan_keep_filter(falt_cuda_plan *plan) {
  const falt_tensor *w = &plan->base.problem.filter;
  const size_t bytes = (size_t)falt_tensor_span(w) * falt_type_size(w->type);
  if (plan->values) FALT_TRY(falt_cuda_upload(plan->base.device->gpu, &plan->filter, plan->values, bytes));
  plan->values = NULL;
  return FALT_OK;
}

falt_status falt_cuda_plan_pack_filter(falt_cuda_plan *plan, int64_t bytes, falt_cuda_pack *pack) {
  falt_gpu *gpu = plan->base.device->gpu;
  if (!plan->values) return FALT_OK;
  FALT_TRY(falt_cuda_plan_keep_filter(plan));
  void *const raw = plan->filter;
  plan->filter = NULL;
  falt_status status = falt_gpu_allocate(gpu, &plan->filter, (size_t)bytes);
  if (status == FALT_OK && !plan->base.device->described) {
    pack(&plan->base, falt_cuda_element(raw, &plan->base.problem.filter), plan->filter, NULL);
    status = falt_gpu_trouble();
    if (status == FALT_OK) status = falt_gpu_synchronize(gpu);
  }
  falt_gpu_release(gpu, raw);
  return status;
}

char *falt_cuda_plan_filter(const falt_cuda_plan *plan, const falt_operands *o) {
  return falt_cuda_element(plan->filter ? plan->filter : o->filter, &plan->base.problem.filter);
}
