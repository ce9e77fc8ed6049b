/* The cache of plans for parts of a problem. It is small, because the slabs of one problem have few shapes. */
#include "api/parts.h"

#include <string.h>

#include "api/verbose.h"
#include "core/copy.h"
#include "core/memory.h"
#include "planner/search.h"

enum { PLANS = 4 }; /* first, middle, last, and one to spare */

typedef struct parts {
  falt_plan_parts base;
  falt_budget budget;
  void *filter; /* NULL: given with each execution */
  falt_plan *plan[PLANS];
  falt_problem problem[PLANS]; /* canonical */
  int next;
} parts;

static void destroy(falt_plan_parts *base) {
  parts *p = (parts *)base;
  for (int i = 0; i < PLANS; i++) falt_plan_destroy(&p->plan[i]);
  falt_free(p->filter);
  falt_free(p);
}

falt_status falt_parts_keep(falt_plan *plan, const falt_budget *budget, const void *filter_values) {
  const falt_tensor *filter = &plan->problem.filter;
  const bool keeps_filter = filter_values && plan->packed;
  const size_t bytes =
      keeps_filter ? (size_t)falt_problem_filter_elements(&plan->problem) * falt_type_size(filter->type) : 0;
  parts *made = falt_alloc_zero(sizeof *made);
  if (!made) return falt_fail(FALT_NO_MEMORY, "plan: memory ran out");
  made->base.destroy = destroy;
  made->filter = keeps_filter ? falt_alloc(bytes) : NULL;
  plan->parts = &made->base;
  if (keeps_filter && !made->filter) return falt_fail(FALT_NO_MEMORY, "plan: memory for its filter ran out");
  if (keeps_filter) falt_copy_large(made->filter, filter_values, bytes);
  falt_budget_default(&made->budget);
  if (budget) made->budget = *budget;
  made->budget.tune_seconds = 0; /* the whole was measured, its parts follow wisdom and estimates */
  return FALT_OK;
}

falt_status falt_parts_plan(const falt_plan *plan, const falt_problem *problem, const falt_plan **part) {
  parts *p = (parts *)plan->parts;
  falt_problem whole = plan->problem;
  falt_problem_canonical(&whole);
  *part = plan;
  if (falt_problem_equal(&whole, problem)) return FALT_OK;
  for (int i = 0; i < PLANS; i++) {
    *part = p->plan[i];
    if (p->plan[i] && falt_problem_equal(&p->problem[i], problem)) return FALT_OK;
  }
  const int slot = p->next++ % PLANS;
  falt_plan_destroy(&p->plan[slot]);
  FALT_TRY(falt_plan_search(&p->plan[slot], falt_solvers, plan->device, problem, &p->budget, p->filter));
  if (plan->device->verbose & FALT_VERBOSE_PLAN) falt_verbose_plan(p->plan[slot], &p->budget);
  p->problem[slot] = *problem;
  *part = p->plan[slot];
  return FALT_OK;
}
