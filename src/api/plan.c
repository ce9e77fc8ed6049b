/* Plans as callers see them. */
#include <string.h>
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
  if (!device->memory) falt_threads_start(device->threads); /* an execution makes none: that would allocate */
  if (device->verbose & FALT_VERBOSE_PLAN) falt_verbose_plan(*plan, budget);
  return FALT_OK;
}

falt_status falt_plan_create_line(falt_plan **plan, falt_device *device, const char *line, const void *filter_values) {
  falt_problem problem;
  falt_budget budget;
  if (!plan) return falt_fail(FALT_INVALID_ARGUMENT, "plan: NULL; pass the address of a falt_plan pointer");
  *plan = NULL;
  FALT_TRY(falt_problem_parse(&problem, &budget, line));
  return falt_plan_create(plan, device, &problem, &budget, filter_values);
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

const char *falt_solver_about(int i) {
  return falt_solver_name(i) ? falt_solver_notes[i].about : NULL;
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

static const char *const names[OPERANDS] = {"input", "filter", "output", "bias", "scale", "residual"};

static falt_status check_operands(const falt_plan *plan, const falt_operands *operands) {
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

size_t falt_plan_bytes(const falt_plan *plan, const char *operand) {
  const falt_problem *p = &plan->problem;
  const falt_tensor *residual = p->operation == FALT_BACKWARD_MAXPOOL ? &p->input : &p->residual;
  const falt_tensor *const tensors[OPERANDS] = {&p->input, &p->filter, &p->output, NULL, NULL, residual};
  const int which = falt_find_name(operand, strlen(operand), names, OPERANDS);
  if (which < 0 || !(needed_by(plan) >> which & 1)) return 0;
  const falt_tensor *tensor = tensors[which];
  if (tensor) return (size_t)falt_tensor_span(tensor) * falt_type_size(tensor->type);
  const falt_type type = p->output.type == FALT_F64 ? FALT_F64 : FALT_F32; /* of a bias or scale, one a channel */
  return (size_t)(p->filter.size[FALT_G] * p->filter.size[FALT_K]) * falt_type_size(type);
}

typedef struct timed_call {
  const falt_plan *plan;
  const falt_operands *operands;
  bool done;
} timed_call;

static void execute_call(void *context) {
  timed_call *call = context;
  call->plan->table->execute(call->plan, call->operands);
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
  FALT_TRY(check_operands(plan, operands));
  if (plan->device->verbose & FALT_VERBOSE_TIME)
    execute_timed(plan, operands);
  else
    plan->table->execute(plan, operands);
  return plan->device->memory ? plan->device->memory->trouble(plan->device) : FALT_OK;
}
