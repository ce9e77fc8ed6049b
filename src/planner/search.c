/* The search over solvers, like FFTW's kernel/planner.c: a loop in which "does not apply" is not an error. */
#include "planner/search.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/hash.h"
#include "core/memory.h"
#include "core/random.h"
#include "planner/operands.h"
#include "planner/wisdom.h"

void falt_search_init(falt_search *search, const falt_solver *const *solvers, falt_device *device,
                      const falt_problem *problem, const falt_budget *budget, const void *filter_values) {
  *search = (falt_search){.solvers = solvers, .device = device, .filter_values = filter_values};
  search->problem = falt_problem_planned(problem, filter_values);
  if (budget)
    search->budget = *budget;
  else
    falt_budget_default(&search->budget);
  if (!search->budget.method[0]) return;
  for (const falt_solver_alias *a = falt_solver_aliases; a->old; a++)
    if (strcmp(search->budget.method, a->old) == 0)
      snprintf(search->budget.method, sizeof search->budget.method, "%s", a->name);
}

static bool is_named(const falt_search *search, const falt_solver *solver) {
  return strcmp(search->budget.method, solver->name) == 0;
}

static bool reject(falt_entry *entry, falt_outcome outcome, const char *reason) {
  entry->outcome = outcome;
  snprintf(entry->reason, sizeof entry->reason, "%s", reason);
  return false;
}

static bool within_workspace(const falt_budget *budget, falt_entry *entry) {
  if (budget->max_workspace < 0 || entry->plan->workspace <= (size_t)budget->max_workspace) return true;
  reject(entry, FALT_OVER_WORKSPACE, "");
  snprintf(entry->reason, sizeof entry->reason, "needs %zu bytes of workspace and the limit is %lld",
           entry->plan->workspace, (long long)budget->max_workspace);
  return false;
}

static bool within_error(const falt_budget *budget, falt_entry *entry) {
  if (entry->plan->cost.error <= budget->max_error) return true;
  if (budget->allow_tf32 && entry->plan->cost.error <= FALT_TF32_ERROR) return true;
  reject(entry, FALT_INEXACT, "");
  snprintf(entry->reason, sizeof entry->reason, "has a relative error of %.2g and the limit is %.2g",
           entry->plan->cost.error, budget->max_error);
  return false;
}

static bool within_budget(const falt_budget *budget, falt_entry *entry) {
  if (!within_workspace(budget, entry)) return false;
  if (budget->deterministic && entry->solver->nondeterministic)
    return reject(entry, FALT_NOT_DETERMINISTIC, "its sums depend on the order of the threads");
  if (budget->no_transforms && entry->plan->mixes)
    return reject(entry, FALT_TRANSFORMS, "it transforms its input, and the budget has no transforms");
  return within_error(budget, entry);
}

/* Checks a plan against the requested method and the budget. */
static void judge(const falt_search *search, falt_entry *entry) {
  bool named = is_named(search, entry->solver);
  if (search->budget.method[0] && !named)
    reject(entry, FALT_OTHER_METHOD, "another method was asked for");
  else if (entry->solver->only_by_name && !named)
    reject(entry, FALT_BY_NAME_ONLY, "runs only when it is named as the method");
  else if (within_budget(&search->budget, entry) && entry->solver->last_resort && !named)
    entry->outcome = FALT_LAST_RESORT;
}

static falt_ask question(const falt_search *search, falt_device *device) {
  return (falt_ask){.problem = &search->problem,
                    .budget = &search->budget,
                    .device = device,
                    .filter_values = search->filter_values,
                    .solvers = search->solvers,
                    .depth = search->depth,
                    .own_gaps = search->own_gaps,
                    .pick = search->pick};
}

static falt_plan *answer(const falt_solver *solver, falt_ask *ask) {
  if (falt_problem_pools(ask->problem) && !solver->pools) return falt_refuse(ask, "does not pool its results");
  if (ask->problem->factors && !solver->takes_factors) return falt_refuse(ask, "takes no filter as factors");
  falt_plan *plan = solver->plan(solver, ask);
  if (plan && solver->fallbacks && !falt_fallback_make(plan, ask)) falt_plan_destroy(&plan);
  if (!plan) return NULL;
  if (solver->avx2 > 0 && ask->device->isa == FALT_ISA_AVX2) plan->cost.seconds *= solver->avx2;
  plan->spreads |= solver->spreads || ask->spreads;
  plan->factors |= solver->factors || ask->factors;
  plan->mixes |= solver->mixes || ask->mixes;
  plan->splits |= ask->splits;
  return plan;
}

static double seconds_of(const falt_plan *plan) {
  return plan && !isnan(plan->cost.seconds) ? plan->cost.seconds : INFINITY;
}

static double steady_seconds(const falt_search *search, const falt_solver *solver) {
  if (!search->budget.deterministic || !search->device->steady) return 0;
  falt_ask ask = question(search, search->device->steady);
  falt_plan *plan = answer(solver, &ask);
  const double seconds = seconds_of(plan);
  falt_plan_destroy(&plan);
  return seconds;
}

static void ask_one(const falt_search *search, falt_entry *entry) {
  falt_ask ask = question(search, search->device);
  entry->plan = answer(entry->solver, &ask);
  if (entry->plan) {
    entry->steady = steady_seconds(search, entry->solver);
    judge(search, entry);
  } else {
    reject(entry, ask.no_memory ? FALT_SHORT_OF_MEMORY : FALT_INAPPLICABLE, ask.reason);
  }
}

/* The same as this part of the search's progress; children tell nothing. */
static void ask_entry(const falt_search *search, falt_entry *entry, double low, double high) {
  const falt_progress_range all = falt_progress_enter(search->depth ? 0 : low, search->depth ? 0 : high);
  ask_one(search, entry);
  falt_progress_leave(all);
}

bool falt_entry_ready(falt_entry *entry) {
  if (!entry->plan || falt_cancelled()) return false;
  falt_status status = falt_plan_ready(entry->plan);
  if (status == FALT_OK) status = falt_operands_keep(entry->plan);
  if (status == FALT_OK) return true;
  entry->status = status;
  reject(entry, status == FALT_NO_MEMORY ? FALT_SHORT_OF_MEMORY : FALT_NOT_READY, falt_message());
  falt_plan_destroy(&entry->plan);
  return false;
}

/* ---- order */

static bool is_measured(const falt_entry *entry) {
  return entry->min > 0 && entry->steady == 0;
}

static double expected(const falt_entry *entry) {
  return entry->steady > 0 ? entry->steady : entry->min > 0 ? entry->min : seconds_of(entry->plan);
}

static bool before(const falt_entry *a, const falt_entry *b) {
  int rank_a = a->outcome > FALT_LAST_RESORT ? 2 : (int)a->outcome;
  int rank_b = b->outcome > FALT_LAST_RESORT ? 2 : (int)b->outcome;
  if (rank_a != rank_b) return rank_a < rank_b;
  if (is_measured(a) != is_measured(b)) return is_measured(a); /* measured times precede estimates */
  if (expected(a) != expected(b)) return expected(a) < expected(b);
  return a->order < b->order;
}

void falt_search_sort(falt_search *search) {
  for (int i = 1; i < search->count; i++) {
    falt_entry moving = search->entries[i];
    int j = i;
    for (; j > 0 && before(&moving, &search->entries[j - 1]); j--) search->entries[j] = search->entries[j - 1];
    search->entries[j] = moving;
  }
}

/* ---- wisdom */

int falt_search_fitting(const falt_search *search) {
  int count = 0;
  while (count < search->count && search->entries[count].outcome == FALT_FITS) count++;
  return count;
}

/* Independent of the order of the entries: solvers are added up by their hashes. */
static uint64_t competitors(const falt_search *search) {
  uint64_t sum = 0;
  for (int i = 0; i < falt_search_fitting(search); i++) {
    const char *name = search->entries[i].solver->name;
    sum += falt_hash(FALT_HASH_START, name, strlen(name));
  }
  return sum;
}

bool falt_search_key(const falt_search *search, char *line, size_t size, uint64_t *among) {
  falt_budget budget = search->budget;
  budget.tune_seconds = 0;
  budget.method[0] = '\0';
  *among = competitors(search);
  return falt_problem_print(&search->problem, &budget, line, size) < size;
}

/* A remembered winner counts only if the same solvers competed: another filter may be separable, this one not. */
static falt_entry *remembered(const falt_search *search) {
  char line[FALT_WISDOM_LINE], solver[FALT_WISDOM_NAME];
  uint64_t among;
  if (search->budget.method[0] || search->budget.deterministic) return NULL;
  if (!search->device->wisdom || falt_wisdom_is_empty(search->device->wisdom)) return NULL;
  if (!falt_search_key(search, line, sizeof line, &among)) return NULL;
  if (!falt_wisdom_find(search->device->wisdom, line, among, solver)) return NULL;
  for (int i = 0; i < falt_search_fitting(search); i++)
    if (strcmp(search->entries[i].solver->name, solver) == 0) return &search->entries[i];
  return NULL;
}

/* Children that verification combines with every parent. */
static falt_entry *picked(const falt_search *search) {
  const int fitting = falt_search_fitting(search);
  if (!search->pick || search->depth == 0 || fitting == 0) return NULL;
  uint64_t state = search->pick;
  return &search->entries[falt_random_int(&state, 0, fitting - 1)];
}

/* A plan that cannot be made ready leaves its place to the next. */
void falt_search_choose(falt_search *search) {
  for (;;) {
    falt_entry *best = picked(search);
    if (!best) best = remembered(search);
    search->from_wisdom = best != NULL && !search->pick;
    if (!best && search->count && search->entries[0].outcome <= FALT_LAST_RESORT) best = search->entries;
    search->chosen = best ? best->plan : NULL;
    if (!best || search->depth > 0 || falt_entry_ready(best) || falt_cancelled())
      return; /* children wait for parents */
    falt_search_sort(search);
  }
}

/* ---- the whole */

static int solver_count(const falt_solver *const *solvers) {
  int count = 0;
  while (solvers[count]) count++;
  return count;
}

static falt_status unknown_method(const falt_search *search, int count) {
  const char *method = search->budget.method;
  const char **names = falt_alloc((size_t)(count + 1) * sizeof *names);
  for (int i = 0; names && i < count; i++) names[i] = search->solvers[i]->name;
  const char *near = names ? falt_nearest_name(method, strlen(method), names, count) : NULL;
  falt_free(names);
  if (near) return falt_fail(FALT_INVALID_METHOD, "method: no solver is called '%s'; did you mean '%s'?", method, near);
  return falt_fail(FALT_INVALID_METHOD, "method: no solver is called '%s'; 'faltung info' lists them", method);
}

static falt_status check_method(const falt_search *search, int count) {
  if (!search->budget.method[0]) return FALT_OK;
  const char *other_kind = NULL;
  for (int i = 0; i < count; i++) {
    if (!is_named(search, search->solvers[i])) continue;
    if (strcmp(search->solvers[i]->device_kind, search->device->kind) == 0) return FALT_OK;
    other_kind = search->solvers[i]->device_kind;
  }
  if (!other_kind) return unknown_method(search, count);
  return falt_fail(FALT_NO_SOLVER,
                   "method: '%s' runs on %s devices and this one is %s; choose another method or device",
                   search->budget.method, other_kind, search->device->kind);
}

falt_status falt_search_run(falt_search *search, bool only_named) {
  int count = solver_count(search->solvers);
  FALT_TRY(check_method(search, count));
  only_named = only_named && search->budget.method[0];
  search->entries = falt_alloc_zero((size_t)count * sizeof *search->entries);
  if (!search->entries) return falt_fail(FALT_NO_MEMORY, "planning: memory ran out");
  if (search->depth == 0) falt_progress_phase("plan");
  for (int i = 0; i < count && !falt_cancelled(); i++) {
    const falt_solver *solver = search->solvers[i];
    if (strcmp(solver->device_kind, search->device->kind) != 0) continue;
    if (only_named && !is_named(search, solver)) continue;
    falt_entry *entry = &search->entries[search->count++];
    entry->solver = solver;
    entry->order = i;
    ask_entry(search, entry, (double)i / count, (double)(i + 1) / count);
  }
  if (falt_cancelled()) return FALT_CANCELLED;
  falt_search_sort(search);
  falt_search_choose(search);
  return falt_cancelled() ? FALT_CANCELLED : FALT_OK;
}

void falt_search_close(falt_search *search, const falt_plan *keep) {
  for (int i = 0; i < search->count; i++)
    if (search->entries[i].plan != keep) falt_plan_destroy(&search->entries[i].plan);
  falt_free(search->entries);
  search->entries = NULL;
  search->count = 0;
  search->chosen = NULL;
}
