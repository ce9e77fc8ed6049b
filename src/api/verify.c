/* falt_verify: every plan that the planner considers, executed on random data and held against the reference.
 *
 * What a result may differ by follows from what was summed. The reference is run a second time on the magnitudes of all
 * operands: that gives, for every result, the sum S of |w||x| (through the epilogue, without activation). A sum of n
 * terms in an arithmetic of rounding error eps, in whatever order, is wrong by little more than sqrt(n)*eps*S where
 * roundings are random, so
 *
 *   tolerance = (16 + 4 sqrt n) * eps_acc * (L*S + |y|) + plan's own error * S + 2 * eps_out * |y| + smallest number
 *
 * with L a bound of the activation's slope. Integer results of integer operands, without a fractional epilogue, must
 * agree to the bit; other integer results may differ by one unit more, because a tie may fall either way. */
#include <math.h>
#include <string.h>

#include "api/verify.h"
#include "planner/search.h"

typedef struct verification {
  falt_device *device, *host; /* the reference runs on the host */
  falt_mirror mirror;         /* of data, where the device has memory of its own */
  const falt_problem *problem;
  const falt_budget *budget;
  uint64_t seed;
  falt_bench data, expected, magnitudes; /* operands; the same with the reference's results; sums of magnitudes */
  falt_verdict *verdicts;                /* one a solver, in the order of falt_solvers */
} verification;

/* ---- execution */

/* Executes with a poisoned workspace between guards. False if a guard was written or execution failed. */
static bool execute_guarded(falt_device *device, const falt_plan *plan, falt_operands operands) {
  enum { GUARD = FALT_GUARD, POISON = FALT_POISON };
  const size_t size = falt_plan_workspace(plan) + 2 * GUARD;
  unsigned char *memory = falt_alloc(size);
  void *there = NULL;
  if (!memory) return false;
  memset(memory, POISON, size);
  bool fine =
      falt_device_alloc(device, &there, size) == FALT_OK && falt_device_write(device, there, memory, size) == FALT_OK;
  operands.workspace = (char *)there + GUARD;
  if (plan->packed) operands.filter = NULL;
  fine = fine && falt_execute(plan, &operands) == FALT_OK && falt_device_read(device, memory, there, size) == FALT_OK;
  for (size_t i = 0; i < GUARD; i++) fine &= memory[i] == POISON && memory[size - GUARD + i] == POISON;
  falt_device_free(device, &there);
  falt_free(memory);
  return fine;
}

/* The same wherever the operands must lie. */
static bool execute_placed(verification *v, const falt_plan *plan) {
  if (!v->device->memory) return execute_guarded(v->device, plan, falt_bench_operands(&v->data));
  return falt_mirror_send(&v->mirror, v->device, &v->data) == FALT_OK &&
         execute_guarded(v->device, plan, falt_mirror_operands(&v->mirror)) &&
         falt_mirror_fetch(&v->mirror, v->device, &v->data) == FALT_OK;
}

static falt_status run_reference(falt_device *device, const falt_problem *problem, const falt_bench *bench) {
  falt_budget budget;
  falt_plan *plan = NULL;
  falt_budget_default(&budget);
  strcpy(budget.method, "reference");
  FALT_TRY(falt_plan_search(&plan, falt_solvers, device, problem, &budget, NULL));
  const falt_operands operands = falt_bench_operands(bench);
  const falt_status status = falt_execute(plan, &operands);
  falt_plan_destroy(&plan);
  return status;
}

/* The problem whose results are sums of magnitudes. */
static falt_problem magnitude_problem(const falt_problem *problem) {
  falt_problem m = *problem;
  m.input.type = m.filter.type = m.output.type = m.residual.type = m.accumulator = FALT_F64;
  m.alpha = fabs(m.alpha);
  m.beta = fabs(m.beta);
  m.boundary_value = fabs(m.boundary_value);
  m.activation = FALT_IDENTITY;
  return m;
}

/* ---- comparison */

typedef struct comparison {
  const verification *v;
  const falt_plan *plan;
  falt_operand which;
  falt_verdict *verdict;
} comparison;

static bool is_whole(double value) {
  return value == rint(value);
}

/* Integers in, integers out, and nothing on the way that is not an integer. */
static bool is_exact(const falt_problem *p) {
  const falt_type result = falt_problem_result(p)->type;
  if (!falt_type_is_integer(result) || p->operation == FALT_AVGPOOL) return false;
  if (p->operation == FALT_MAXPOOL) return true;
  const bool activation = p->activation == FALT_IDENTITY || p->activation == FALT_RELU || p->activation == FALT_RELU6 ||
                          p->activation == FALT_CLIP;
  return p->operation == FALT_FORWARD && falt_type_is_integer(p->input.type) && falt_type_is_integer(p->filter.type) &&
         is_whole(p->boundary_value) && p->alpha == 1 && is_whole(p->beta) && !p->has_scale && !p->has_bias &&
         (!p->has_residual || falt_type_is_integer(p->residual.type)) && activation;
}

static double slope_bound(const falt_problem *p) {
  return p->activation == FALT_LEAKY ? fmax(1, fabs(p->act_a)) : 1.2; /* SiLU and GELU rise by up to 1.13 */
}

static double smallest_number(falt_type type) {
  if (type == FALT_F16) return 0x1p-24;
  return falt_type_is_integer(type) ? 0 : 0x1p-126;
}

static double tolerance_of(const comparison *c, falt_type type, double reference, double sum) {
  const falt_problem *p = c->v->problem;
  const double epsilon = p->accumulator == FALT_F64 ? 0x1p-53 : 0x1p-24, size = fabs(reference);
  const double rounding = (16 + 4 * sqrt((double)falt_problem_depth(p))) * epsilon;
  if (is_exact(p)) return 0;
  const double tolerance = rounding * (slope_bound(p) * sum + size) + c->plan->cost.error * slope_bound(p) * sum;
  if (falt_type_is_integer(type)) return 1 + tolerance;
  return tolerance + 2 * falt_type_epsilon(type) * size + smallest_number(type);
}

/* An f16 that overflowed is as far away as the next number would be. */
static double finite_f16(falt_type type, double value) {
  return type == FALT_F16 && isinf(value) ? copysign(0x1p16, value) : value;
}

static double distance(double a, double b) {
  if (a == b || (isnan(a) && isnan(b))) return 0;
  return isfinite(a - b) ? fabs(a - b) : INFINITY;
}

/* A gradient of maxpool sums what different windows give: their magnitudes are not those of |x|'s windows. */
static double magnitude_at(const comparison *c, int64_t index) {
  const falt_guarded *m = &c->v->magnitudes.operand[c->which];
  if (c->v->problem->operation == FALT_BACKWARD_MAXPOOL) return (double)falt_problem_depth(c->v->problem);
  return falt_load(falt_guarded_data(m), FALT_F64, index);
}

static void compare_element(void *context, int64_t index) {
  comparison *c = context;
  const falt_guarded *got = &c->v->data.operand[c->which], *expected = &c->v->expected.operand[c->which];
  const falt_type type = got->tensor.type;
  const double y = finite_f16(type, falt_load(falt_guarded_data(got), type, index));
  const double reference = finite_f16(type, falt_load(falt_guarded_data(expected), type, index));
  const double sum = magnitude_at(c, index), error = distance(y, reference);
  const double tolerance = tolerance_of(c, type, reference, sum);
  c->verdict->max_rel_error = fmax(c->verdict->max_rel_error, error == 0 ? 0 : error / fmax(sum, 0x1p-1000));
  const bool fails = !(error <= tolerance), first_failure = fails && c->verdict->ok;
  if (!first_failure && (fails != !c->verdict->ok || error < c->verdict->max_abs_error)) return;
  c->verdict->ok &= !fails;
  c->verdict->max_abs_error = error; /* of an element that fails if there is one, and the tolerance that it had */
  c->verdict->tolerance = tolerance;
}

static void compare(const verification *v, const falt_plan *plan, falt_verdict *verdict) {
  for (int i = 0; i < FALT_OPERAND_COUNT; i++) {
    const falt_guarded *o = &v->data.operand[i];
    comparison c = {.v = v, .plan = plan, .which = (falt_operand)i, .verdict = verdict};
    if (o->used && o->written) falt_tensor_visit(&o->tensor, compare_element, &c);
  }
}

/* ---- solvers */

static falt_verdict *verdict_of(const verification *v, const falt_solver *solver) {
  int i = 0;
  while (falt_solvers[i] != solver) i++;
  if (!v->verdicts[i].solver) v->verdicts[i] = (falt_verdict){.solver = solver->name, .ok = true, .seed = v->seed};
  return &v->verdicts[i];
}

static void verify_plan(verification *v, const falt_plan *plan) {
  falt_verdict *verdict = verdict_of(v, plan->solver);
  falt_bench_poison(&v->data);
  verdict->ok &= execute_placed(v, plan);
  compare(v, plan, verdict);
  verdict->ok &= falt_bench_intact(&v->data);
}

/* Every plan within the budget, those that run only by name included. */
static falt_status verify_plans(verification *v, const void *filter_values) {
  falt_search search;
  falt_search_init(&search, falt_solvers, v->device, v->problem, v->budget, filter_values);
  falt_status status = falt_search_run(&search, true);
  for (int i = 0; status == FALT_OK && i < search.count; i++) {
    if (search.entries[i].outcome == FALT_SHORT_OF_MEMORY)
      status = falt_fail(FALT_NO_MEMORY, "verify: memory ran out while planning; use a smaller problem");
    else if (search.entries[i].outcome <= FALT_BY_NAME_ONLY && falt_entry_ready(&search.entries[i]))
      verify_plan(v, search.entries[i].plan);
  }
  falt_search_close(&search, NULL);
  return status;
}

static falt_status prepare(verification *v) {
  const falt_problem magnitudes = magnitude_problem(v->problem);
  FALT_TRY(falt_bench_open(&v->data, v->problem));
  FALT_TRY(falt_bench_open(&v->expected, v->problem));
  FALT_TRY(falt_bench_open(&v->magnitudes, &magnitudes));
  falt_bench_fill(&v->data, v->problem, v->seed);
  falt_bench_fill(&v->expected, v->problem, v->seed);
  falt_bench_fill_magnitudes(&v->magnitudes, &v->data);
  if (v->device->memory) FALT_TRY(falt_mirror_open(&v->mirror, v->device, &v->data));
  FALT_TRY(run_reference(v->host, v->problem, &v->expected));
  return run_reference(v->host, &magnitudes, &v->magnitudes);
}

/* Once with the filter at execution, once with its values at planning. */
static falt_status verify_all(verification *v) {
  const falt_guarded *filter = &v->data.operand[FALT_OPERAND_W];
  FALT_TRY(prepare(v));
  FALT_TRY(verify_plans(v, NULL));
  return filter->used && !filter->written ? verify_plans(v, falt_guarded_data(filter)) : FALT_OK;
}

falt_status falt_verify(falt_device *device, const falt_problem *problem, const falt_budget *budget, uint64_t seed,
                        void (*report)(void *context, const falt_verdict *verdict), void *context) {
  FALT_TRY(falt_question_check(device, problem, budget));
  if (!report) return falt_fail(FALT_INVALID_ARGUMENT, "report: NULL; pass a function that receives the verdicts");
  int solvers = 0;
  while (falt_solvers[solvers]) solvers++;
  verification v = {.device = device, .host = device, .problem = problem, .budget = budget, .seed = seed};
  const falt_cpu_options one_thread = {.threads = 1};
  if (device->memory) FALT_TRY(falt_device_cpu(&v.host, &one_thread));
  v.verdicts = falt_alloc_zero((size_t)(solvers + 1) * sizeof *v.verdicts);
  falt_status status = v.verdicts ? verify_all(&v) : falt_fail(FALT_NO_MEMORY, "verify: memory ran out");
  for (int i = 0; status == FALT_OK && i < solvers; i++)
    if (v.verdicts[i].solver) report(context, &v.verdicts[i]);
  falt_mirror_close(&v.mirror, device);
  if (v.host != device) falt_device_destroy(&v.host);
  falt_bench_close(&v.data);
  falt_bench_close(&v.expected);
  falt_bench_close(&v.magnitudes);
  falt_free(v.verdicts);
  return status;
}
