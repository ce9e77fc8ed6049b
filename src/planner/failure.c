/* The message if no plan fits: which budget prevents it, the nearest plan, and its requirements. */
#include <math.h>
#include <string.h>

#include "planner/search.h"

static falt_budget without_limits(const falt_budget *budget) {
  falt_budget wide = *budget;
  wide.max_workspace = -1;
  wide.tune_seconds = 0;
  wide.max_error = INFINITY;
  wide.deterministic = false;
  wide.allow_tf32 = true;
  wide.no_transforms = false;
  return wide;
}

/* Describes the requirements of a plan beyond the budget; returns their number. */
static int needs(const falt_budget *budget, const falt_plan *plan, falt_text *text) {
  int count = 0;
  if (budget->max_workspace >= 0 && plan->workspace > (size_t)budget->max_workspace)
    falt_text_add(text, "%s%zu bytes of workspace (the limit is %lld)", count++ ? ", " : "", plan->workspace,
                  (long long)budget->max_workspace);
  if (budget->deterministic && plan->solver->nondeterministic)
    falt_text_add(text, "%sdeterministic off", count++ ? ", " : "");
  if (budget->no_transforms && plan->mixes) falt_text_add(text, "%stransforms", count++ ? ", " : "");
  if (!(plan->cost.error <= budget->max_error))
    falt_text_add(text, "%sa relative error of %.2g (the limit is %.2g)", count++ ? ", " : "", plan->cost.error,
                  budget->max_error);
  return count;
}

/* The fewest limits to lift, then the least workspace, then the fastest. */
static bool nearer(const falt_budget *budget, const falt_plan *a, const falt_plan *b) {
  falt_text nowhere = falt_text_over(NULL, 0);
  int needs_a = needs(budget, a, &nowhere), needs_b = needs(budget, b, &nowhere);
  if (needs_a != needs_b) return needs_a < needs_b;
  if (a->workspace != b->workspace) return a->workspace < b->workspace;
  return a->cost.seconds < b->cost.seconds;
}

static const falt_plan *nearest(const falt_search *wide, const falt_budget *budget) {
  const falt_plan *best = NULL;
  for (int i = 0; i < wide->count; i++) {
    const falt_entry *entry = &wide->entries[i];
    if (entry->outcome > FALT_LAST_RESORT) continue;
    if (!best || nearer(budget, entry->plan, best)) best = entry->plan;
  }
  return best;
}

/* The solver whose plan fits the budget without a named method, or NULL. */
static const char *what_fits(const falt_search *search) {
  falt_search any;
  falt_budget budget = search->budget;
  budget.method[0] = '\0';
  falt_search_init(&any, search->solvers, search->device, &search->problem, &budget, search->filter_values);
  any.depth = search->depth;
  const char *name = NULL;
  if (falt_search_run(&any, false) == FALT_OK && any.chosen) name = any.chosen->solver->name;
  falt_search_close(&any, NULL);
  return name;
}

static falt_status over_budget(const falt_search *search, const falt_plan *plan) {
  char words[256] = "";
  falt_text text = falt_text_over(words, sizeof words);
  if (!needs(&search->budget, plan, &text)) falt_text_add(&text, "a wider budget");
  const char *name = plan->solver->name;
  if (!search->budget.method[0])
    return falt_fail(FALT_OVER_BUDGET, "budget: no plan fits; the nearest is '%s', which needs %s", name, words);
  const char *other = what_fits(search);
  if (!other) return falt_fail(FALT_OVER_BUDGET, "budget: method '%s' needs %s; allow it", name, words);
  return falt_fail(FALT_OVER_BUDGET, "budget: method '%s' needs %s; allow it, or leave the method out: '%s' fits", name,
                   words, other);
}

/* Of the solver that was asked for by name; explain has asked others, too. */
static const char *named_reason(const falt_search *search) {
  int i = 0;
  while (i + 1 < search->count && strcmp(search->entries[i].solver->name, search->budget.method) != 0) i++;
  return search->entries[i].reason;
}

static falt_status no_solver(const falt_search *search) {
  if (search->budget.method[0])
    return falt_fail(FALT_NO_SOLVER, "method: '%s' does not apply: %s", search->budget.method, named_reason(search));
  if (!search->count)
    return falt_fail(FALT_NO_SOLVER, "problem: this build has no solver for %s", search->device->kind);
  const falt_entry *last = &search->entries[search->count - 1];
  return falt_fail(FALT_NO_SOLVER, "problem: none of the %d solvers for %s applies; '%s': %s", search->count,
                   search->device->kind, last->solver->name, last->reason);
}

static bool memory_ran_out(const falt_search *search) {
  for (int i = 0; i < search->count; i++)
    if (search->entries[i].outcome == FALT_SHORT_OF_MEMORY) return true;
  return false;
}

/* A plan that fits the budget and failed to become ready: the message is the machine's limitation. */
static const falt_entry *unready(const falt_search *search) {
  for (int i = 0; i < search->count; i++)
    if (search->entries[i].outcome == FALT_NOT_READY) return &search->entries[i];
  return NULL;
}

falt_status falt_search_failure(const falt_search *search) {
  const falt_entry *stopped = unready(search);
  if (stopped) return falt_fail(stopped->status, "%s", stopped->reason);
  if (memory_ran_out(search)) return falt_fail(FALT_NO_MEMORY, "planning: memory ran out");
  falt_search wide;
  falt_budget budget = without_limits(&search->budget);
  falt_search_init(&wide, search->solvers, search->device, &search->problem, &budget, search->filter_values);
  wide.depth = search->depth;
  falt_status status = falt_search_run(&wide, true);
  const falt_plan *plan = status == FALT_OK ? nearest(&wide, &search->budget) : NULL;
  if (status == FALT_OK && memory_ran_out(&wide) && !plan)
    status = falt_fail(FALT_NO_MEMORY, "planning: memory ran out");
  if (status == FALT_OK) status = plan ? over_budget(search, plan) : no_solver(search);
  falt_search_close(&wide, NULL);
  return status;
}
