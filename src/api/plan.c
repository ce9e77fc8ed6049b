/* Public entries: plans. */
#include "api/parts.h"
#include "api/verbose.h"
#include "core/clock.h"
#include "planner/operands.h"
#include "planner/search.h"

static falt_status create(falt_plan **plan, falt_device *device, const falt_problem *problem, const falt_budget *budget,
                          const void *filter_values) {
  if (plan) *plan = NULL;
  if (problem) FALT_TRY(falt_problem_check_values(problem, filter_values));
  FALT_TRY(falt_plan_search(plan, falt_solvers, device, problem, budget, filter_values));
  if (device->queues) {
    const falt_status status = falt_parts_keep(*plan, budget, filter_values);
    if (status != FALT_OK) falt_plan_destroy(plan);
    FALT_TRY(status);
  }
  if (!device->memory) falt_threads_start(device->threads); /* an execution makes none: that would allocate */
  if (device->verbose & FALT_VERBOSE_PLAN) falt_verbose_plan(*plan, budget);
  return FALT_OK;
}

falt_status falt_plan_create(falt_plan **plan, falt_device *device, const falt_problem *problem,
                             const falt_budget *budget, const void *filter_values) {
  if (!plan || !device)
    return create(plan, device, problem, budget, filter_values); /* its message names the missing
                                                                  * library */
  falt_call call;
  falt_call_begin(&call, &device->control, NULL);
  const falt_status status = falt_call_end(&call, create(plan, device, problem, budget, filter_values));
  if (status != FALT_OK) falt_plan_destroy(plan);
  return status;
}

falt_status falt_plan_create_line(falt_plan **plan, falt_device *device, const char *line, const void *filter_values) {
  falt_problem problem;
  falt_budget budget;
  if (!plan) return falt_fail(FALT_INVALID_ARGUMENT, "plan: NULL; pass the address of a falt_plan pointer");
  *plan = NULL;
  FALT_TRY(falt_problem_parse(&problem, &budget, line));
  return falt_plan_create(plan, device, &problem, &budget, filter_values);
}

const char *falt_solver_name(int i) {
  if (i < 0) return NULL;
  for (int j = 0; falt_solvers[j]; j++)
    if (j == i) return falt_solvers[j]->name;
  return NULL;
}

const char *falt_solver_about(int i) {
  return falt_solver_name(i) ? falt_solver_notes[i].about : NULL;
}

/* ---- execution */

typedef struct timed_call {
  const falt_plan *plan;
  const falt_operands *operands;
  bool done;
} timed_call;

static void execute_call(void *context) {
  timed_call *call = context;
  falt_plan_run(call->plan, call->operands);
  call->done = true;
}

/* By the device's own clock where it has one that can be read: starting a kernel is not running it. */
static void execute_timed(const falt_plan *plan, const falt_operands *operands) {
  const falt_device_memory *memory = plan->device->memory;
  timed_call call = {.plan = plan, .operands = operands};
  const double start = falt_seconds();
  double seconds = memory && memory->time ? memory->time(plan->device, operands->stream, execute_call, &call, 1) : -1;
  if (!call.done) execute_call(&call);
  if (seconds < 0) seconds = falt_seconds() - start;
  falt_verbose_time(plan, seconds);
}

falt_status falt_execute(const falt_plan *plan, const falt_operands *operands) {
  if (!plan) return falt_fail(FALT_INVALID_ARGUMENT, "plan: NULL; make one with falt_plan_create");
  if (!operands) return falt_fail(FALT_INVALID_ARGUMENT, "operands: NULL; pass the addresses of the tensors");
  FALT_TRY(falt_operands_check(plan, operands, true));
  falt_call call;
  falt_call_begin(&call, &plan->device->control, "execute");
  if (falt_call_is_over(falt_here.call)) return falt_call_end(&call, FALT_OK);
  if (plan->device->verbose & FALT_VERBOSE_TIME)
    execute_timed(plan, operands);
  else
    falt_plan_run(plan, operands);
  return falt_call_end(&call, plan->device->memory ? plan->device->memory->trouble(plan->device) : FALT_OK);
}
