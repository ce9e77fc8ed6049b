/* Execution with operands in host memory: in place, in slabs through a device with queues, or copied as a whole. */
#include "api/pipeline.h"
#include "core/clock.h"
#include "core/memory.h"
#include "planner/operands.h"

/* One operand in host memory and on the device. An output with gaps between its elements keeps their content, so it is
 * copied in, too. */
typedef struct staged {
  void *here, *there;
  size_t bytes;
  bool written;
} staged;

static void list(const falt_plan *plan, const falt_operands *o, staged all[FALT_OPERANDS]) {
  falt_use use[FALT_ADDRESSES];
  falt_operands_use(plan, use);
  for (falt_operand i = 0; i < FALT_OPERANDS; i++)
    if (use[i].used)
      all[i] = (staged){.here = falt_operand_data(o, i), .bytes = falt_use_bytes(&use[i]), .written = use[i].written};
}

/* ---- as a whole */

static falt_status bring(falt_device *device, staged all[FALT_OPERANDS], falt_stages *stages) {
  const double began = falt_seconds();
  for (int i = 0; i < FALT_OPERANDS; i++) {
    if (!all[i].here) continue;
    if (falt_cancelled()) return FALT_CANCELLED;
    FALT_TRY(falt_device_alloc(device, &all[i].there, all[i].bytes));
    FALT_TRY(falt_device_write(device, all[i].there, all[i].here, all[i].bytes));
    stages->bytes_in += (double)all[i].bytes;
  }
  stages->copy_in = falt_seconds() - began;
  return FALT_OK;
}

static falt_status fetch(falt_device *device, const staged all[FALT_OPERANDS], falt_stages *stages) {
  const double began = falt_seconds();
  for (int i = 0; i < FALT_OPERANDS; i++) {
    if (!all[i].here || !all[i].written) continue;
    if (falt_cancelled()) return FALT_CANCELLED;
    FALT_TRY(falt_device_read(device, all[i].here, all[i].there, all[i].bytes));
    stages->bytes_out += (double)all[i].bytes;
  }
  stages->copy_out = falt_seconds() - began;
  return FALT_OK;
}

static falt_status execute_there(const falt_plan *plan, const staged all[FALT_OPERANDS], falt_stages *stages) {
  falt_operands there = {.input = NULL};
  for (falt_operand i = 0; i < FALT_OPERANDS; i++) *falt_operand_at(&there, i) = all[i].there;
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
  staged all[FALT_OPERANDS] = {{NULL, NULL, 0, false}};
  list(plan, operands, all);
  stages->slabs = 1;
  falt_status status = bring(plan->device, all, stages);
  if (status == FALT_OK) status = execute_there(plan, all, stages);
  for (int i = 0; i < FALT_OPERANDS; i++) falt_device_free(plan->device, &all[i].there);
  return status;
}

/* ---- in slabs, or where they are */

/* A part may lack a plan although the whole has one: the requested method applies to one and not to the other. */
static falt_status execute_copied(const falt_plan *plan, const falt_operands *operands, falt_stages *stages) {
  falt_slabs slabs;
  FALT_TRY(falt_operands_check(plan, operands, false));
  if (falt_pipeline_cut(plan, &slabs)) {
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
  falt_call call;
  falt_call_begin(&call, &plan->device->control, "execute");
  const falt_status status = falt_call_end(
      &call, plan->device->memory ? execute_copied(plan, operands, stages) : execute_here(plan, operands));
  stages->seconds = falt_seconds() - began;
  if (!plan->device->memory) stages->compute = stages->seconds;
  return status;
}

falt_status falt_execute_host(const falt_plan *plan, const falt_operands *operands) {
  falt_stages stages;
  return falt_execute_stages(plan, operands, &stages);
}
