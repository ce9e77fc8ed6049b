/* falt_verify: executes every plan that the planner considers at least twice, on random data in guarded, poisoned
 * memory, and compares the output with the reference. The seed selects the data, the thread counts, the second
 * execution, and whether a plan's children are the cheapest or any that fit. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "api/verify.h"
#include "core/memory.h"
#include "core/random.h"
#include "planner/search.h"

typedef falt_verification verification;

/* One draw of several: true once in n. */
static bool once_in(uint64_t *state, int64_t n) {
  return falt_random_int(state, 1, n) == 1;
}

/* ---- expected output */

static falt_status run_by(const char *method, falt_device *device, const falt_problem *problem,
                          const falt_bench *bench) {
  falt_budget budget;
  falt_plan *plan = NULL;
  falt_budget_default(&budget);
  snprintf(budget.method, sizeof budget.method, "%s", method);
  FALT_TRY(falt_plan_search(&plan, falt_solvers, device, problem, &budget, NULL));
  falt_operands operands = falt_bench_operands(bench);
  const size_t workspace = falt_plan_workspace(plan);
  if (workspace) operands.workspace = falt_alloc(workspace);
  const falt_status status = workspace && !operands.workspace ? falt_fail(FALT_NO_MEMORY, "verify: memory ran out")
                                                              : falt_execute(plan, &operands);
  falt_free(operands.workspace);
  falt_plan_destroy(&plan);
  return status;
}

/* The problem whose outputs are sums of magnitudes. */
static falt_problem magnitude_problem(const falt_problem *problem) {
  falt_problem m = *problem;
  m.input.type = m.filter.type = m.output.type = m.residual.type = m.accumulator = FALT_F64;
  m.alpha = fabs(m.alpha);
  m.beta = fabs(m.beta);
  m.boundary_value = fabs(m.boundary_value);
  m.activation = FALT_IDENTITY;
  return m;
}

static falt_filling filling_of(uint64_t *state) {
  static const falt_filling fillings[] = {FALT_FILL_PLAIN,  FALT_FILL_PLAIN, FALT_FILL_PLAIN,     FALT_FILL_SPARSE,
                                          FALT_FILL_SCALED, FALT_FILL_ENDS,  FALT_FILL_NOT_FINITE};
  return fillings[falt_random_int(state, 0, (int64_t)(sizeof fillings / sizeof *fillings) - 1)];
}

/* Whether a solver may factor the filter: only filters of one input and one output channel are factored. */
static bool may_be_factored(const falt_problem *p) {
  return falt_reads_filter(p->operation) && !p->factors && p->filter.size[FALT_K] == 1 && p->filter.size[FALT_C] == 1;
}

/* Who sums the magnitudes of all products: the fastest that takes every such problem. */
static const char *summing_solver(const falt_problem *p) {
  const double taps = (double)p->filter.size[FALT_D] * (double)p->filter.size[FALT_H] * (double)p->filter.size[FALT_W];
  return !p->factors ? "generic" : taps <= FALT_MOST_EXPANDED_TAPS ? "expand-factors" : "reference";
}

static falt_status prepare_magnitudes(verification *v, falt_bench *bench, const falt_problem *magnitudes,
                                      falt_measure measure) {
  FALT_TRY(falt_bench_open(bench, magnitudes, 0));
  falt_bench_fill_magnitudes(bench, v->problem, &v->expected, measure);
  return run_by(summing_solver(magnitudes), v->host, magnitudes, bench);
}

/* The constant, too, is as large as the largest input. */
static falt_status prepare_mixed(verification *v) {
  falt_problem magnitudes = magnitude_problem(v->problem);
  if (v->mixed) return FALT_OK;
  v->mixed = true;
  magnitudes.boundary_value = fmax(magnitudes.boundary_value, falt_bench_largest(&v->expected, FALT_INPUT));
  return prepare_magnitudes(v, &v->mixed_magnitudes, &magnitudes, FALT_MEASURE_MIXED);
}

/* Magnitudes only enlarge or shrink the tolerance: a solver that is faster than the reference computes them. */
static falt_status prepare(verification *v) {
  const falt_problem magnitudes = magnitude_problem(v->problem);
  uint64_t state = v->seed;
  v->filling = filling_of(&state);
  v->factors = may_be_factored(v->problem);
  falt_bench *const same[] = {&v->data, &v->expected, &v->before, &v->other};
  for (size_t i = 0; i < sizeof same / sizeof *same; i++) FALT_TRY(falt_bench_open(same[i], v->problem, v->seed));
  falt_bench_fill(&v->data, v->problem, v->filling, v->seed);
  falt_bench_copy(&v->expected, &v->data);
  if (v->device->memory) FALT_TRY(falt_mirror_open(&v->mirror, v->device, &v->data));
  FALT_TRY(run_by("reference", v->host, v->problem, &v->expected));
  FALT_TRY(prepare_magnitudes(v, &v->magnitudes, &magnitudes, FALT_MEASURE_TERMS));
  return v->factors ? prepare_magnitudes(v, &v->term_magnitudes, &magnitudes, FALT_MEASURE_FACTORED) : FALT_OK;
}

/* ---- one plan */

static int index_of(const verification *v, const falt_solver *solver) {
  int i = 0;
  while (v->solvers[i] != solver) i++;
  return i;
}

static falt_verdict *verdict_of(const verification *v, const falt_solver *solver) {
  falt_verdict *verdict = &v->verdicts[index_of(v, solver)];
  if (!verdict->solver) *verdict = (falt_verdict){.solver = solver->name, .ok = true, .seed = v->seed};
  return verdict;
}

/* Keeps the first thing that went wrong with a solver, and the plan with which it did. */
static void note(const verification *v, const falt_plan *plan, const char *trouble) {
  falt_verdict *verdict = verdict_of(v, plan->solver);
  char *text = v->troubles[index_of(v, plan->solver)];
  if (!trouble || *text) return;
  const int used = snprintf(text, FALT_TROUBLE, "%s: ", trouble);
  falt_plan_print(plan, text + used, (size_t)(FALT_TROUBLE - used));
  verdict->ok = false;
}

/* Whether the results have the bits of the first execution. Parts of a problem, by slabs or by threads, may leave other
 * products out than the whole does. */
static bool same_bits(const verification *v) {
  return falt_bench_same(&v->before, &v->data, falt_verify_leaves_out(v) ? &v->expected : NULL);
}

/* Whether falt_execute_host copies operands to other addresses: a plan may have a second kernel for unaligned operands.
 */
static bool moves(const verification *v, falt_manner manner) {
  bool aligned = true;
  for (int i = 0; i < FALT_OPERANDS; i++) {
    const falt_guarded *o = &v->data.operand[i];
    aligned &= !o->used || (o->lead % FALT_ALIGN == 0 && o->tensor.offset == 0);
  }
  return manner == FALT_FROM_HOST && v->device->memory && !aligned;
}

static void verify_again(verification *v, const falt_plan *plan, falt_manner manner) {
  static const char *const other_bits[FALT_MANNER_COUNT] = {
      [FALT_PLAINLY] = "other bits with other bytes in the memory that it must not read",
      [FALT_FROM_HOST] = "other bits by falt_execute_host",
      [FALT_TWICE_AT_ONCE] = "other bits beside another execution of the plan",
      [FALT_AFTER_OTHER_DATA] = "other bits after an execution on other data"};
  note(v, plan, falt_verify_execute(v, plan, manner, FALT_POISON_FINITE));
  if (plan->solver->nondeterministic || moves(v, manner))
    falt_verify_compare(v, plan, verdict_of(v, plan->solver));
  else if (!same_bits(v))
    note(v, plan, other_bits[manner]);
}

/* The same plan for another number of threads, for deterministic problems. */
static void verify_rival(verification *v, const falt_plan *plan) {
  falt_device *device = v->device;
  v->device = plan->device;
  note(v, plan, falt_verify_execute(v, plan, FALT_PLAINLY, FALT_POISON));
  v->device = device;
  if (!same_bits(v)) note(v, plan, "other bits with another number of threads");
}

static falt_status verify_plan(verification *v, const falt_plan *plan, const falt_plan *rival, uint64_t *state) {
  if (plan->mixes) FALT_TRY(prepare_mixed(v));
  const falt_manner manner = (falt_manner)falt_random_int(state, 0, FALT_MANNER_COUNT - 1);
  const char *trouble = falt_verify_execute(v, plan, FALT_PLAINLY, FALT_POISON);
  falt_verify_compare(v, plan, verdict_of(v, plan->solver));
  note(v, plan, trouble);
  if (!verdict_of(v, plan->solver)->ok) note(v, plan, "wrong results");
  falt_bench_copy(&v->before, &v->data);
  verify_again(v, plan, manner);
  if (rival) verify_rival(v, rival);
  return FALT_OK;
}

/* ---- all plans */

typedef falt_search searches[2]; /* on the device, and on `rival` if there is one */

static falt_status open_searches(verification *v, const void *filter_values, searches search) {
  falt_device *const devices[] = {v->device, v->rival};
  for (int i = 0; i < 2; i++) {
    falt_search_init(&search[i], v->solvers, devices[i], v->problem, v->budget, filter_values);
    if (v->rival) search[i].budget.deterministic = true;
    search[i].pick = v->pick;
  }
  for (int i = 0; i < 2; i++)
    if (devices[i]) FALT_TRY(falt_search_run(&search[i], true));
  return FALT_OK;
}

static bool runs(falt_entry *entry) {
  return entry->outcome <= FALT_BY_NAME_ONLY && falt_entry_ready(entry);
}

static const falt_plan *rival_of(falt_search *search, const falt_solver *solver) {
  for (int i = 0; i < search->count; i++)
    if (search->entries[i].solver == solver && runs(&search->entries[i])) return search->entries[i].plan;
  return NULL;
}

/* The reference has been run on the host already, and is no faster a second time. */
static bool is_expected(const verification *v, const falt_solver *solver, uint64_t *state) {
  return v->device == v->host && !v->device->memory && strcmp(solver->name, "reference") == 0 && !once_in(state, 16);
}

static falt_status verify_entry(verification *v, falt_search search[2], falt_entry *entry, uint64_t *state) {
  if (entry->outcome == FALT_SHORT_OF_MEMORY)
    return falt_fail(FALT_NO_MEMORY, "verify: memory ran out while planning; use a smaller problem");
  if (!runs(entry)) return FALT_OK;
  if (is_expected(v, entry->solver, state))
    note(v, entry->plan, falt_bench_intact(&v->expected) ? NULL : "wrote beside a result");
  else
    return verify_plan(v, entry->plan, rival_of(&search[1], entry->solver), state);
  return FALT_OK;
}

/* Every plan within the budget, including those that run only if named. */
static falt_status verify_plans(verification *v, const void *filter_values, uint64_t *state) {
  searches search;
  const size_t apart = falt_place_apart(FALT_RED_ZONE);
  falt_status status = open_searches(v, filter_values, search);
  for (int i = 0; status == FALT_OK && i < search[0].count && !falt_cancelled(); i++) {
    falt_progress_at((double)i / search[0].count);
    status = verify_entry(v, search, &search[0].entries[i], state);
  }
  falt_place_apart(apart);
  for (int i = 0; i < 2; i++) falt_search_close(&search[i], NULL);
  return status;
}

/* Once with the filter at execution, once with its values at planning, unless the problem says which. */
static falt_status verify_all(verification *v, uint64_t *state) {
  const falt_filter_when when = v->problem->filter_when;
  const bool known = falt_reads_filter(v->problem->operation) && when != FALT_FILTER_GIVEN;
  const bool given = when != FALT_FILTER_KNOWN;
  falt_progress_range all = falt_progress_enter(0, 0);
  FALT_TRY(prepare(v));
  falt_progress_leave(all);
  all = falt_progress_enter(0, known ? 0.5 : 1);
  if (given) FALT_TRY(verify_plans(v, NULL, state));
  falt_progress_leave(all);
  if (!known) return FALT_OK;
  falt_bench_poison(&v->data, FALT_POISON);
  falt_progress_enter(given ? 0.5 : 0, 1);
  return verify_plans(v, falt_guarded_data(&v->data.operand[FALT_FILTER]), state);
}

/* ---- devices */

/* A CPU like this one with another number of threads, more than it has cores among them. */
static falt_status make_like(falt_device **made, const falt_device *device, int threads) {
  falt_cpu_options options = {.threads = threads};
  snprintf(options.isa, sizeof options.isa, "%s", falt_isa_name(device->isa));
  FALT_TRY(falt_device_cpu(made, &options));
  (*made)->limits = device->limits;
  return FALT_OK;
}

/* Every fourth problem runs with one to five threads, every eighth also with another number of them. */
static falt_status choose_devices(verification *v, uint64_t *state, falt_device *made[2]) {
  const bool is_cpu = strcmp(v->device->kind, "cpu") == 0, alone = v->seed == 0 || !once_in(state, 4);
  const int64_t threads = falt_random_int(state, 1, 5), more = falt_random_int(state, 1, 4);
  const bool limited = v->budget && v->budget->max_workspace > 0; /* fitting plans may depend on the threads */
  const bool compares = once_in(state, 2) && !limited;
  v->pick = once_in(state, 2) ? falt_random(state) | 1 : 0;
  if (!is_cpu || alone) return FALT_OK;
  FALT_TRY(make_like(&made[0], v->device, (int)threads));
  v->device = v->host = made[0];
  if (!compares) return FALT_OK;
  FALT_TRY(make_like(&made[1], v->device, (int)(threads + more - 1) % 5 + 1));
  v->rival = made[1];
  return FALT_OK;
}

static bool provide_verdicts(verification *v) {
  size_t solvers = 0;
  while (v->solvers[solvers]) solvers++;
  v->verdicts = falt_alloc_zero((solvers + 1) * sizeof *v->verdicts);
  v->troubles = falt_alloc_zero((solvers + 1) * sizeof *v->troubles);
  return v->verdicts && v->troubles;
}

static void close_all(verification *v, falt_device *made[2]) {
  falt_bench *const benches[] = {&v->data,   &v->expected, &v->magnitudes, &v->term_magnitudes, &v->mixed_magnitudes,
                                 &v->before, &v->other};
  falt_mirror_close(&v->mirror, v->device);
  for (size_t i = 0; i < sizeof benches / sizeof *benches; i++) falt_bench_close(benches[i]);
  for (int i = 0; i < 2; i++) falt_device_destroy(&made[i]);
  falt_free(v->verdicts);
  falt_free(v->troubles);
}

/* falt_message() describes the failure while a verdict that is not ok is reported. */
static void tell(const verification *v, int i) {
  const falt_verdict *verdict = &v->verdicts[i];
  if (verdict->ok) return;
  falt_fail(FALT_INTERNAL, "%s", v->troubles[i]);
}

falt_status falt_verify_solvers(const falt_solver *const *solvers, falt_device *device, const falt_problem *problem,
                                const falt_budget *budget, uint64_t seed,
                                void (*report)(void *context, const falt_verdict *verdict), void *context) {
  FALT_TRY(falt_question_check(device, problem, budget));
  if (!report) return falt_fail(FALT_INVALID_ARGUMENT, "report: NULL; pass a function that receives the verdicts");
  verification v = {
      .solvers = solvers, .device = device, .host = device, .problem = problem, .budget = budget, .seed = seed};
  falt_device *made[2] = {NULL, NULL};
  uint64_t state = ~seed;
  const falt_cpu_options one_thread = {.threads = 1};
  falt_status status = device->memory ? falt_device_cpu(&made[0], &one_thread) : choose_devices(&v, &state, made);
  if (device->memory) v.host = made[0];
  if (status == FALT_OK && !provide_verdicts(&v)) status = falt_fail(FALT_NO_MEMORY, "verify: memory ran out");
  falt_call call;
  falt_call_begin(&call, &device->control, "verify");
  if (status == FALT_OK) status = verify_all(&v, &state);
  status = falt_call_end(&call, status);
  for (int i = 0; status == FALT_OK && solvers[i]; i++) {
    if (!v.verdicts[i].solver) continue;
    tell(&v, i);
    report(context, &v.verdicts[i]);
  }
  close_all(&v, made);
  return status;
}

falt_status falt_verify(falt_device *device, const falt_problem *problem, const falt_budget *budget, uint64_t seed,
                        void (*report)(void *context, const falt_verdict *verdict), void *context) {
  return falt_verify_solvers(falt_solvers, device, problem, budget, seed, report, context);
}
