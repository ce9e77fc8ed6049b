/* Executing with operands in host memory: staged through the device's where it has its own. */
#include <string.h>

#include "core/memory.h"
#include "planner/planner.h"

enum { INPUT, FILTER, OUTPUT, BIAS, SCALE, RESIDUAL, OPERANDS };

/* One operand here and there. Results with gaps between their elements keep what lies there, so all is copied in. */
typedef struct staged {
  void *here, *there;
  size_t bytes;
  bool written;
} staged;

static size_t bytes_of(const falt_tensor *tensor) {
  return (size_t)falt_tensor_span(tensor) * falt_type_size(tensor->type);
}

static size_t vector_bytes(const falt_problem *p) {
  return (size_t)(p->filter.size[FALT_G] * p->filter.size[FALT_K]) *
         falt_type_size(p->output.type == FALT_F64 ? FALT_F64 : FALT_F32);
}

static void list(const falt_plan *plan, const falt_operands *o, staged all[OPERANDS]) {
  const falt_problem *p = &plan->problem;
  const bool dx_apart = p->operation == FALT_BACKWARD_MAXPOOL;
  const falt_tensor *result = falt_problem_result(p);
  const bool reads_filter = !falt_is_pooling(p->operation) && !(plan->packed && result != &p->filter);
  all[INPUT] = (staged){.here = o->input, .bytes = bytes_of(&p->input), .written = result == &p->input && !dx_apart};
  all[OUTPUT] = (staged){.here = o->output, .bytes = bytes_of(&p->output), .written = result == &p->output};
  if (reads_filter)
    all[FILTER] = (staged){.here = o->filter, .bytes = bytes_of(&p->filter), .written = result == &p->filter};
  if (p->has_bias)
    all[BIAS] = (staged){.here = o->bias, .bytes = vector_bytes(p), .written = p->operation == FALT_BACKWARD_FILTER};
  if (p->has_scale) all[SCALE] = (staged){.here = o->scale, .bytes = vector_bytes(p)};
  if (p->has_residual) all[RESIDUAL] = (staged){.here = o->residual, .bytes = bytes_of(&p->residual)};
  if (dx_apart) all[RESIDUAL] = (staged){.here = o->residual, .bytes = bytes_of(&p->input), .written = true};
}

static falt_status bring(falt_device *device, staged all[OPERANDS]) {
  for (int i = 0; i < OPERANDS; i++) {
    if (!all[i].here) continue;
    FALT_TRY(falt_device_alloc(device, &all[i].there, all[i].bytes));
    FALT_TRY(falt_device_write(device, all[i].there, all[i].here, all[i].bytes));
  }
  return FALT_OK;
}

static falt_status fetch(falt_device *device, const staged all[OPERANDS]) {
  FALT_TRY(falt_device_synchronize(device));
  for (int i = 0; i < OPERANDS; i++)
    if (all[i].here && all[i].written) FALT_TRY(falt_device_read(device, all[i].here, all[i].there, all[i].bytes));
  return FALT_OK;
}

static falt_status execute_there(const falt_plan *plan, const staged all[OPERANDS]) {
  falt_operands there = {.input = all[INPUT].there,
                         .filter = all[FILTER].there,
                         .output = all[OUTPUT].there,
                         .bias = all[BIAS].there,
                         .scale = all[SCALE].there,
                         .residual = all[RESIDUAL].there};
  if (plan->workspace) FALT_TRY(falt_device_alloc(plan->device, &there.workspace, plan->workspace));
  falt_status status = falt_execute(plan, &there);
  if (status == FALT_OK) status = fetch(plan->device, all);
  falt_device_free(plan->device, &there.workspace);
  return status;
}

static falt_status execute_here(const falt_plan *plan, const falt_operands *operands) {
  falt_operands here = *operands;
  if (here.workspace) return falt_execute(plan, &here);
  here.workspace = plan->workspace ? falt_alloc(plan->workspace) : NULL;
  if (plan->workspace && !here.workspace)
    return falt_fail(FALT_NO_MEMORY, "workspace: %zu bytes cannot be had; lower budget.max_workspace", plan->workspace);
  const falt_status status = falt_execute(plan, &here);
  falt_free(here.workspace);
  return status;
}

falt_status falt_execute_host(const falt_plan *plan, const falt_operands *operands) {
  if (!plan) return falt_fail(FALT_INVALID_ARGUMENT, "plan: NULL; make one with falt_plan_create");
  if (!operands) return falt_fail(FALT_INVALID_ARGUMENT, "operands: NULL; pass the addresses of the tensors");
  if (!plan->device->memory) return execute_here(plan, operands);
  staged all[OPERANDS] = {{NULL, NULL, 0, false}};
  list(plan, operands, all);
  falt_status status = bring(plan->device, all);
  if (status == FALT_OK) status = execute_there(plan, all);
  for (int i = 0; i < OPERANDS; i++) falt_device_free(plan->device, &all[i].there);
  return status;
}
