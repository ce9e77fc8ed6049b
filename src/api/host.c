/* Executing with operands in host memory: where they are, in slabs through a device with queues, or copied there as a
 * whole. */
#include <string.h>

#include "api/pipeline.h"
#include "core/clock.h"
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

/* ---- as a whole */

static falt_status bring(falt_device *device, staged all[OPERANDS], falt_stages *stages) {
  const double began = falt_seconds();
  for (int i = 0; i < OPERANDS; i++) {
    if (!all[i].here) continue;
    FALT_TRY(falt_device_alloc(device, &all[i].there, all[i].bytes));
    FALT_TRY(falt_device_write(device, all[i].there, all[i].here, all[i].bytes));
    stages->bytes_in += (double)all[i].bytes;
  }
  stages->copy_in = falt_seconds() - began;
  return FALT_OK;
}

static falt_status fetch(falt_device *device, const staged all[OPERANDS], falt_stages *stages) {
  const double began = falt_seconds();
  for (int i = 0; i < OPERANDS; i++) {
    if (!all[i].here || !all[i].written) continue;
    FALT_TRY(falt_device_read(device, all[i].here, all[i].there, all[i].bytes));
    stages->bytes_out += (double)all[i].bytes;
  }
  stages->copy_out = falt_seconds() - began;
  return FALT_OK;
}

static falt_status execute_there(const falt_plan *plan, const staged all[OPERANDS], falt_stages *stages) {
  falt_operands there = {.input = all[INPUT].there,
                         .filter = all[FILTER].there,
                         .output = all[OUTPUT].there,
                         .bias = all[BIAS].there,
                         .scale = all[SCALE].there,
                         .residual = all[RESIDUAL].there};
  if (plan->workspace) FALT_TRY(falt_device_alloc(plan->device, &there.workspace, plan->workspace));
  const double began = falt_seconds();
  falt_status status = falt_execute(plan, &there);
  if (status == FALT_OK) status = falt_device_synchronize(plan->device);
  stages->compute = falt_seconds() - began;
  if (status == FALT_OK) status = fetch(plan->device, all, stages);
  falt_device_free(plan->device, &there.workspace);
  return status;
}

static falt_status execute_whole(const falt_plan *plan, const falt_operands *operands, falt_stages *stages) {
  staged all[OPERANDS] = {{NULL, NULL, 0, false}};
  list(plan, operands, all);
  stages->slabs = 1;
  falt_status status = bring(plan->device, all, stages);
  if (status == FALT_OK) status = execute_there(plan, all, stages);
  for (int i = 0; i < OPERANDS; i++) falt_device_free(plan->device, &all[i].there);
  return status;
}

/* ---- in slabs, or where they are */

/* A missing operand is for falt_execute to name. */
static bool complete(const falt_plan *plan, const falt_operands *operands) {
  staged all[OPERANDS] = {{NULL, NULL, 0, false}};
  list(plan, operands, all);
  for (int i = 0; i < OPERANDS; i++)
    if (all[i].bytes && !all[i].here) return false;
  return true;
}

/* Parts may lack a plan that the whole has: the method asked for applies to one and not the other. */
static falt_status execute_copied(const falt_plan *plan, const falt_operands *operands, falt_stages *stages) {
  falt_slabs slabs;
  if (complete(plan, operands) && falt_pipeline_cut(plan, &slabs)) {
    const falt_status status = falt_pipeline_run(plan, &slabs, operands, stages);
    if (status != FALT_NO_SOLVER && status != FALT_OVER_BUDGET) return status;
  }
  return execute_whole(plan, operands, stages);
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

falt_status falt_execute_stages(const falt_plan *plan, const falt_operands *operands, falt_stages *stages) {
  if (!stages) return falt_fail(FALT_INVALID_ARGUMENT, "stages: NULL; pass the struct to fill");
  *stages = (falt_stages){0};
  if (!plan) return falt_fail(FALT_INVALID_ARGUMENT, "plan: NULL; make one with falt_plan_create");
  if (!operands) return falt_fail(FALT_INVALID_ARGUMENT, "operands: NULL; pass the addresses of the tensors");
  const double began = falt_seconds();
  const falt_status status =
      plan->device->memory ? execute_copied(plan, operands, stages) : execute_here(plan, operands);
  stages->seconds = falt_seconds() - began;
  if (!plan->device->memory) stages->compute = stages->seconds;
  return status;
}

falt_status falt_execute_host(const falt_plan *plan, const falt_operands *operands) {
  falt_stages stages;
  return falt_execute_stages(plan, operands, &stages);
}
