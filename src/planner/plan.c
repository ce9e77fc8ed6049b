/* Bases of plans and questions: refusing with a reason, making a plan, destroying it. */
#include <stdarg.h>
#include <stdio.h>

#include "core/memory.h"
#include "core/sanitize.h"
#include "planner/planner.h"

falt_plan *falt_refuse(falt_ask *ask, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(ask->reason, sizeof ask->reason, format, arguments);
  va_end(arguments);
  return NULL;
}

falt_plan *falt_refuse_memory(falt_ask *ask) {
  ask->no_memory = true;
  return falt_refuse(ask, "memory ran out while planning");
}

void *falt_plan_new(size_t size, const falt_plan_table *table, const falt_solver *solver, falt_ask *ask) {
  falt_plan *plan = falt_alloc_zero(size);
  if (!plan) return falt_refuse_memory(ask);
  plan->table = table;
  plan->solver = solver;
  plan->device = ask->device;
  plan->problem = *ask->problem;
  return plan;
}

static void forbid(void *context, char *gap, size_t bytes) {
  (void)context;
  FALT_FORBID(gap, bytes);
}

static void allow(void *context, char *gap, size_t bytes) {
  (void)context;
  FALT_ALLOW(gap, bytes);
}

void falt_plan_run_shared(const falt_plan *child, const falt_operands *operands) {
  const bool checks = FALT_EXACT_ALLOCATION && !child->device->memory;
  if (checks) FALT_UNWRITTEN(operands->workspace, child->workspace);
  if (checks) falt_place_gaps(&child->layout, operands->workspace, forbid, NULL);
  child->table->execute(child, operands);
  if (checks) falt_place_gaps(&child->layout, operands->workspace, allow, NULL);
}

falt_status falt_plan_ready(falt_plan *plan) {
  if (!plan->ready && plan->table->ready) FALT_TRY(plan->table->ready(plan));
  plan->ready = true;
  return FALT_OK;
}

void falt_plan_destroy(falt_plan **plan) {
  if (!plan || !*plan) return;
  falt_free((*plan)->operands);
  if ((*plan)->parts) (*plan)->parts->destroy((*plan)->parts);
  (*plan)->table->destroy(*plan);
  *plan = NULL;
}

/* ---- what callers ask of a plan */

size_t falt_plan_workspace(const falt_plan *plan) {
  return plan ? plan->workspace : 0;
}

size_t falt_plan_print(const falt_plan *plan, char *text, size_t size) {
  falt_text out = falt_text_over(text, size);
  if (plan) plan->table->print(plan, &out);
  return out.length;
}

const char *falt_plan_solver(const falt_plan *plan) {
  return plan ? plan->solver->name : "";
}
