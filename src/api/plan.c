/* Plans as callers see them. */
#include "api/parts.h"
#include "api/verbose.h"
#include "core/clock.h"
#include "core/memory.h"
#include "planner/search.h"

falt_status falt_plan_create(falt_plan **plan, falt_device *device, const falt_problem *problem,
                             const falt_budget *budget, const void *filter_values) {
  FALT_TRY(falt_plan_search(plan, falt_solvers, device, problem, budget, filter_values));
  if (device->queues) {
    const falt_status status = falt_parts_keep(*plan, budget, filter_values);
    if (status != FALT_OK) falt_plan_destroy(plan);
    FALT_TRY(status);
  }
  if (device->verbose & FALT_VERBOSE_PLAN) falt_verbose_plan(*plan, budget);
  return FALT_OK;
}

size_t falt_plan_workspace(const falt_plan *plan) {
  return plan->workspace;
}

size_t falt_plan_print(const falt_plan *plan, char *text, size_t size) {
  falt_text out = falt_text_over(text, size);
  plan->table->print(plan, &out);
  return out.length;
}

const char *falt_plan_solver(const falt_plan *plan) {
  return plan->solver->name;
}

const char *falt_solver_name(int i) {
  if (i < 0) return NULL;
  for (int j = 0; falt_solvers[j]; j++)
    if (j == i) return falt_solvers[j]->name;
  return NULL;
}

/* ---- execution */

enum { INPUT = 1, FILTER = 2, OUTPUT = 4, BIAS = 8, SCALE = 16, RESIDUAL = 32, OPERANDS = 6 };

static const unsigned needed[FALT_OPERATION_COUNT] = {
    [FALT_FORWARD] = INPUT | FILTER | OUTPUT,
    [FALT_BACKWARD_DATA] = INPUT | FILTER | OUTPUT,
    [FALT_BACKWARD_FILTER] = INPUT | FILTER | OUTPUT,
    [FALT_MAXPOOL] = INPUT | OUTPUT,
    [FALT_AVGPOOL] = INPUT | OUTPUT,
    [FALT_BACKWARD_MAXPOOL] = INPUT | OUTPUT | RESIDUAL,
    [FALT_BACKWARD_AVGPOOL] = INPUT | OUTPUT,
};

static unsigned needed_by(const falt_plan *plan) {
  const falt_problem *problem = &plan->problem;
  unsigned set = needed[problem->operation];
  if (plan->packed && problem->operation != FALT_BACKWARD_FILTER) set &= ~(unsigned)FILTER;
  if (problem->has_bias) set |= BIAS;
  if (problem->has_scale) set |= SCALE;
  if (problem->has_residual) set |= RESIDUAL;
  return set;
}

static bool is_within_reach(falt_device *device, const void *memory) {
  return !device->memory || !device->memory->reaches || device->memory->reaches(device, memory);
}

static falt_status out_of_reach(const falt_device *device, const char *name) {
  return falt_fail(FALT_INVALID_ARGUMENT,
                   "operands.%s: not in the memory of %s; allocate it there, or use falt_execute_host", name,
                   device->name);
}

static falt_status check_operands(const falt_plan *plan, const falt_operands *operands) {
  static const char *const names[OPERANDS] = {"input", "filter", "output", "bias", "scale", "residual"};
  const void *const given[OPERANDS] = {operands->input, operands->filter, operands->output,
                                       operands->bias,  operands->scale,  operands->residual};
  unsigned set = needed_by(plan);
  for (int i = 0; i < OPERANDS; i++) {
    if (!(set >> i & 1)) continue;
    if (!given[i]) return falt_fail(FALT_INVALID_ARGUMENT, "operands.%s: NULL; the plan reads or writes it", names[i]);
    if (!is_within_reach(plan->device, given[i])) return out_of_reach(plan->device, names[i]);
  }
  if (!plan->workspace) return FALT_OK;
  if (!operands->workspace)
    return falt_fail(FALT_INVALID_ARGUMENT, "operands.workspace: NULL; the plan needs %zu bytes", plan->workspace);
  if ((uintptr_t)operands->workspace % FALT_ALIGN)
    return falt_fail(FALT_INVALID_ARGUMENT, "operands.workspace: not aligned; align it to %d bytes", FALT_ALIGN);
  return is_within_reach(plan->device, operands->workspace) ? FALT_OK : out_of_reach(plan->device, "workspace");
}

static void execute_timed(const falt_plan *plan, const falt_operands *operands) {
  double start = falt_seconds();
  plan->table->execute(plan, operands);
  falt_verbose_time(plan, falt_seconds() - start);
}

falt_status falt_execute(const falt_plan *plan, const falt_operands *operands) {
  if (!plan) return falt_fail(FALT_INVALID_ARGUMENT, "plan: NULL; make one with falt_plan_create");
  if (!operands) return falt_fail(FALT_INVALID_ARGUMENT, "operands: NULL; pass the addresses of the tensors");
  FALT_TRY(check_operands(plan, operands));
  if (plan->device->verbose & FALT_VERBOSE_TIME)
    execute_timed(plan, operands);
  else
    plan->table->execute(plan, operands);
  return plan->device->memory ? plan->device->memory->trouble(plan->device) : FALT_OK;
}
