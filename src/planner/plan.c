/* The bases of plans and questions: refusal with a reason, creation and destruction. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/copy.h"
#include "core/memory.h"
#include "core/sanitize.h"
#include "planner/backend.h"
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

void *falt_plan_begin(const falt_solver *solver, falt_ask *ask) {
  const falt_plan_steps *steps = solver->steps;
  const char *why = steps->inapplicable ? steps->inapplicable(ask) : NULL;
  if (!why) return falt_plan_new(steps->size, &steps->table, solver, ask);
  return falt_refuse(ask, "%s", why);
}

falt_plan *falt_plan_choose(falt_plan *plan, falt_ask *ask) {
  const char *why = plan->solver->steps->choose(plan, ask);
  if (!why) return plan;
  if (why != ask->reason) falt_refuse(ask, "%s", why); /* before the plan is freed: it may own the text */
  plan->table->destroy(plan);
  return NULL;
}

falt_plan *falt_plan_make(const falt_solver *solver, falt_ask *ask) {
  falt_plan *plan = falt_plan_begin(solver, ask);
  return plan ? falt_plan_choose(plan, ask) : NULL;
}

const char *falt_parent_adopt(falt_parent *plan, falt_ask *ask, const falt_problem *problem,
                              const void *filter_values) {
  const falt_plan *child = plan->child = falt_plan_child(ask, problem, filter_values);
  if (!child) return ask->reason;
  plan->base.cost = child->cost;
  plan->base.workspace = child->workspace;
  plan->base.packed = child->packed;
  return NULL;
}

falt_status falt_plan_copy_filter(const falt_plan *plan, const void **values, void **copy) {
  const falt_tensor *filter = &plan->problem.filter;
  const size_t bytes = (size_t)falt_problem_filter_elements(&plan->problem) * falt_type_size(filter->type);
  if (!*values) return FALT_OK;
  *copy = falt_alloc(bytes);
  if (!*copy) return falt_fail(FALT_NO_MEMORY, "planning: memory for a copy of the filter ran out");
  falt_copy_large(*copy, *values, bytes);
  *values = NULL;
  return FALT_OK;
}

void falt_plan_free(falt_plan *plan) {
  falt_free(plan);
}

void falt_parent_destroy(falt_plan *base) {
  falt_parent *plan = (falt_parent *)base;
  falt_plan_destroy(&plan->child);
  falt_free(plan->values);
  falt_free(plan);
}

falt_status falt_parent_ready(falt_plan *base) {
  falt_parent *plan = (falt_parent *)base;
  FALT_TRY(falt_plan_ready(plan->child));
  falt_free(plan->values);
  plan->values = NULL;
  return FALT_OK;
}

void falt_parent_print(const falt_plan *base, falt_text *text) {
  const falt_plan *child = ((const falt_parent *)base)->child;
  child->table->print(child, text);
  falt_text_add(text, ")");
}

static bool divides(int bytes, const void *data, const falt_tensor *t) {
  const uintptr_t address = (uintptr_t)data + (uintptr_t)(t->offset * (int64_t)falt_type_size(t->type));
  return bytes == 0 || address % (uintptr_t)bytes == 0;
}

static bool are_aligned(const falt_plan *plan, const falt_operands *o) {
  const falt_problem *p = &plan->problem;
  const falt_alignment *a = &plan->alignment;
  return divides(a->input, o->input, &p->input) && divides(a->filter, o->filter, &p->filter) &&
         divides(a->output, o->output, &p->output) && divides(a->residual, o->residual, &p->residual);
}

void falt_plan_run(const falt_plan *plan, const falt_operands *operands) {
  const falt_plan *chosen = !plan->fallback || are_aligned(plan, operands) ? plan : plan->fallback;
  chosen->table->execute(chosen, operands);
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
  falt_plan_run(child, operands);
  if (checks) falt_place_gaps(&child->layout, operands->workspace, allow, NULL);
}

falt_status falt_plan_ready(falt_plan *plan) {
  if (plan->ready) return FALT_OK;
  if (plan->table->ready) FALT_TRY(plan->table->ready(plan));
  if (plan->fallback) FALT_TRY(falt_plan_ready(plan->fallback));
  plan->ready = true;
  return FALT_OK;
}

void falt_plan_destroy(falt_plan **plan) {
  if (!plan || !*plan) return;
  falt_free((*plan)->operands);
  falt_plan_destroy(&(*plan)->fallback);
  if ((*plan)->parts) (*plan)->parts->destroy((*plan)->parts);
  (*plan)->table->destroy(*plan);
  *plan = NULL;
}

/* ---- queries of a plan */

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

const falt_backend *falt_backend_of(const falt_device *device) {
  static const falt_backend none;
  for (const falt_backend *const *b = falt_backends; *b; b++)
    if (strcmp((*b)->kind, device->kind) == 0) return *b;
  return &none;
}
