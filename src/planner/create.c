/* Creates plans, for callers and for solvers that plan child problems. */
#include <math.h>
#include <string.h>

#include "core/random.h"
#include "planner/search.h"
#include "planner/tune.h"

enum { MAX_DEPTH = 4 /* solvers within solvers; more is a loop */, MOST_SOLVERS = 128 };

static falt_status check_budget(const falt_budget *budget) {
  if (!budget) return FALT_OK;
  FALT_TRY(FALT_CHECK_RESERVED(budget, "falt_budget_default"));
  if (!memchr(budget->method, '\0', sizeof budget->method))
    return falt_fail(FALT_INVALID_ARGUMENT, "budget.method: not terminated; end the name with a NUL");
  if (!(budget->tune_seconds >= 0) || isinf(budget->tune_seconds))
    return falt_fail(FALT_INVALID_ARGUMENT, "budget.tune_seconds: %g is not a time; use 0 or more",
                     budget->tune_seconds);
  if (!(budget->max_error >= 0))
    return falt_fail(FALT_INVALID_ARGUMENT, "budget.max_error: %g is not an error; use 0 or more", budget->max_error);
  return FALT_OK;
}

falt_status falt_question_check(const falt_device *device, const falt_problem *problem, const falt_budget *budget) {
  if (!device) return falt_fail(FALT_INVALID_ARGUMENT, "device: NULL; make one with falt_device_cpu");
  if (!problem) return falt_fail(FALT_INVALID_ARGUMENT, "problem: NULL; fill one with falt_problem_default");
  FALT_TRY(check_budget(budget));
  return falt_problem_check(problem);
}

falt_status falt_plan_search(falt_plan **plan, const falt_solver *const *solvers, falt_device *device,
                             const falt_problem *problem, const falt_budget *budget, const void *filter_values) {
  if (!plan) return falt_fail(FALT_INVALID_ARGUMENT, "plan: NULL; pass the address of a falt_plan pointer");
  *plan = NULL;
  FALT_TRY(falt_question_check(device, problem, budget));
  falt_search search;
  falt_search_init(&search, solvers, device, problem, budget, filter_values);
  falt_status status = falt_search_run(&search, true);
  if (status == FALT_OK) falt_search_tune(&search);
  if (falt_cancelled()) status = FALT_CANCELLED;
  if (status == FALT_OK) {
    *plan = (falt_plan *)search.chosen;
    if (!*plan) status = falt_search_failure(&search);
  }
  falt_search_close(&search, *plan);
  return status;
}

/* The most telling reason: that of the entry which sorted last, unless memory ran out. */
static falt_plan *refuse_child(falt_ask *ask, const falt_search *search) {
  for (int i = 0; i < search->count; i++)
    if (search->entries[i].outcome == FALT_SHORT_OF_MEMORY) return falt_refuse_memory(ask);
  if (!search->count) return falt_refuse(ask, "no solver is there for its inner problem");
  const falt_entry *last = &search->entries[search->count - 1];
  return falt_refuse(ask, "no plan for its inner problem; %.32s: %.80s", last->solver->name, last->reason);
}

/* Sums of integers must be exact: where a solver forms them in floats, solvers that round transformed inputs are left
 * out. */
static const falt_solver *const *exact_solvers(const falt_solver *const *all, const falt_solver *exact[MOST_SOLVERS]) {
  int count = 0;
  for (; *all && count < MOST_SOLVERS - 1; all++)
    if (!(*all)->mixes) exact[count++] = *all;
  exact[count] = NULL;
  return exact;
}

falt_plan *falt_plan_child_with(falt_ask *ask, const falt_problem *problem, const void *filter_values,
                                const falt_child_terms *terms) {
  if (ask->depth >= MAX_DEPTH) return falt_refuse(ask, "solvers are nested more than %d deep", MAX_DEPTH);
  const falt_problem inner = falt_problem_planned(problem, filter_values);
  if (falt_problem_check(&inner) != FALT_OK) return falt_refuse(ask, "its inner problem is not legal");
  falt_budget budget = *ask->budget;
  budget.method[0] = '\0';
  budget.tune_seconds = 0; /* the whole is measured, not its parts */
  budget.max_workspace = terms->max_workspace;
  const falt_solver *const *solvers = terms->solvers ? terms->solvers : falt_solvers, *exact[MOST_SOLVERS];
  if (falt_problem_sums_integers(ask->problem) && !falt_problem_sums_integers(&inner))
    solvers = exact_solvers(solvers, exact);
  falt_search search;
  falt_search_init(&search, solvers, ask->device, &inner, &budget, filter_values);
  search.depth = ask->depth + 1;
  search.own_gaps = terms->own_gaps;
  search.pick = ask->pick ? falt_random(&ask->pick) | 1 : 0; /* another one for the next child */
  falt_plan *plan = NULL;
  if (falt_search_run(&search, false) == FALT_OK) {
    plan = (falt_plan *)search.chosen;
    if (!plan) refuse_child(ask, &search);
    ask->spreads |= plan && plan->spreads;
    ask->factors |= plan && plan->factors;
    ask->mixes |= plan && plan->mixes;
    ask->splits |= plan && plan->splits;
  } else {
    falt_refuse_memory(ask);
  }
  falt_search_close(&search, plan);
  return plan;
}

falt_plan *falt_plan_child(falt_ask *ask, const falt_problem *problem, const void *filter_values) {
  const falt_child_terms terms = {.solvers = ask->solvers, .max_workspace = ask->budget->max_workspace};
  return falt_plan_child_with(ask, problem, filter_values, &terms);
}

bool falt_fallback_make(falt_plan *plan, falt_ask *ask) {
  const falt_child_terms terms = {.solvers = plan->solver->fallbacks, .max_workspace = (int64_t)plan->workspace};
  plan->layout = (falt_memory_layout){.count = 0}; /* both use the workspace, each by parts of its own */
  plan->fallback = falt_plan_child_with(ask, ask->problem, ask->filter_values, &terms);
  if (!plan->fallback && !ask->no_memory) falt_refuse(ask, "no solver takes operands that are not aligned");
  return plan->fallback != NULL;
}
