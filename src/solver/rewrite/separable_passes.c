/* Filters of rank one, or of factors, as passes along one axis each, with the results between them in the workspace.
 *
 *     y = sum over terms of (d along z) * (h along y) * (w along x) * x:  T + R + S multiply-adds a result and term
 *
 * Each pass is a filter problem of its own, planned as any other. On GPUs a volume's rows and columns may be one pass,
 * whose output stays in registers between them: 16 bytes of f32 an output instead of 24. One walk that keeps the
 * results of the first pass in registers moves fewer bytes: this is for filters so tall that its rows do not fit there,
 * and for given factors. */
#include <math.h>

#include "core/memory.h"
#include "planner/planner.h"
#include "solver/common/factor.h"
#include "solver/common/factor_cost.h"
#include "solver/rewrite/given_factors.h"
#include "solver/rewrite/separable_passes.h"

enum { MAX_TAPS = 1 << 16 };

typedef struct passes_plan {
  falt_plan base;
  falt_passes passes;
  falt_given_factors given;
  int terms;
  falt_plan **pass; /* the first passes: those of a term one after the other; terms share them if factors are given */
  falt_plan *last, *finish;
  void *values; /* of known factors, as passes take them; then those of a pass of two axes */
  size_t factors, between, stack, sums, scratch; /* in the workspace: given factors, results, what passes need */
} passes_plan;

/* ---- execute */

static size_t element(const passes_plan *plan) {
  return falt_type_size(plan->given.type);
}

static int firsts(const passes_plan *plan) {
  return plan->passes.count - 1;
}

static falt_plan *pass_of(const passes_plan *plan, int term, int i) {
  return plan->pass[(plan->base.packed ? term : 0) * firsts(plan) + i];
}

/* Where the factor of a pass stands among given ones; NULL where children hold known ones. */
static char *factor_of(const passes_plan *plan, const falt_operands *operands, int term, int i) {
  if (plan->base.packed) return NULL;
  const falt_problem *p = &plan->base.problem;
  const int64_t at = term * falt_passes_term(p) + falt_passes_factor(p, plan->passes.axis[i]);
  return (char *)operands->workspace + plan->factors + (size_t)at * element(plan);
}

/* The first passes of a term, into its place of the stack. */
static void run_term(const passes_plan *plan, const falt_operands *operands, int term) {
  char *workspace = operands->workspace;
  falt_operands o = *operands;
  o.workspace = workspace + plan->scratch;
  for (int i = 0; i < firsts(plan) && !falt_cancelled(); i++) {
    char *to = workspace + plan->between;
    if (i + 1 == firsts(plan)) to = workspace + plan->stack + (size_t)(term * plan->passes.apart) * element(plan);
    o.filter = factor_of(plan, operands, term, i);
    o.output = to;
    falt_plan_run_shared(pass_of(plan, term, i), &o);
    o.input = o.output;
  }
}

static void run_last(const passes_plan *plan, const falt_operands *operands) {
  char *workspace = operands->workspace;
  falt_operands o = *operands;
  o.workspace = workspace + plan->scratch;
  o.input = workspace + plan->stack;
  o.filter = factor_of(plan, operands, 0, firsts(plan));
  o.output = plan->finish ? workspace + plan->sums : operands->output;
  falt_plan_run_shared(plan->last, &o);
  if (!plan->finish || falt_cancelled()) return;
  o.input = o.output;
  o.filter = NULL;
  o.output = operands->output;
  falt_plan_run_shared(plan->finish, &o);
}

static void execute(const falt_plan *base, const falt_operands *operands) {
  const passes_plan *plan = (const passes_plan *)base;
  const double parts = plan->terms + 1;
  if (!base->packed) falt_given_factors_make(&plan->given, base, operands, (char *)operands->workspace + plan->factors);
  for (int term = 0; term <= plan->terms && !falt_cancelled(); term++) {
    const falt_progress_range all = falt_progress_enter(term / parts, (term + 1) / parts);
    if (term < plan->terms)
      run_term(plan, operands, term);
    else
      run_last(plan, operands);
    falt_progress_leave(all);
  }
}

static void print_child(const falt_plan *child, falt_text *text) {
  falt_text_add(text, " ");
  child->table->print(child, text);
}

static void print(const falt_plan *base, falt_text *text) {
  const passes_plan *plan = (const passes_plan *)base;
  falt_text_add(text, "(%s", base->solver->name);
  if (plan->terms > 1) falt_text_add(text, " terms=%d", plan->terms);
  for (int i = 0; i < firsts(plan); i++) print_child(pass_of(plan, 0, i), text);
  print_child(plan->last, text);
  if (plan->finish) print_child(plan->finish, text);
  falt_text_add(text, ")");
}

static void destroy(falt_plan *base) {
  passes_plan *plan = (passes_plan *)base;
  const int count = plan->pass ? (base->packed ? plan->terms : 1) * firsts(plan) : 0;
  for (int i = 0; i < count; i++) falt_plan_destroy(&plan->pass[i]);
  falt_plan_destroy(&plan->last);
  falt_plan_destroy(&plan->finish);
  falt_free(plan->pass);
  falt_free(plan->values);
  falt_free(plan);
}

static falt_status ready(falt_plan *base) {
  passes_plan *plan = (passes_plan *)base;
  const int count = (base->packed ? plan->terms : 1) * firsts(plan);
  for (int i = 0; i < count; i++) FALT_TRY(falt_plan_ready(plan->pass[i]));
  FALT_TRY(falt_plan_ready(plan->last));
  if (plan->finish) FALT_TRY(falt_plan_ready(plan->finish));
  return base->packed ? FALT_OK : falt_given_factors_ready(&plan->given, base->device);
}

/* ---- applicable */

/* Whether results between passes, extended and of all terms, can be addressed. */
static bool is_moderate(const falt_problem *p) {
  double count = falt_max(1, p->factors) * (double)p->input.size[FALT_N] * (double)p->input.size[FALT_G];
  for (int a = 0; a < 3; a++) {
    const double out = (double)p->output.size[FALT_D + a], in = (double)p->input.size[FALT_D + a];
    const double reach =
        (out - 1) * (double)p->axis[a].stride + (double)falt_extent(&p->axis[a], p->filter.size[FALT_D + a]);
    count *= fmax(fmax(in, out), reach);
  }
  return count < 0x1p56;
}

static const char *refusal(const falt_ask *ask) {
  const falt_problem *p = ask->problem;
  const int64_t *taps = p->filter.size;
  const bool one = taps[FALT_C] == 1 && taps[FALT_K] == 1 && (taps[FALT_G] == 1 || p->filter.stride[FALT_G] == 0);
  int axis[FALT_MOST_PASSES];
  return p->operation != FALT_FORWARD           ? "only forward"
         : !one                                 ? "the filter is not one for all channels"
         : falt_passes_axes(p, axis) < 2        ? "the filter has one axis only: nothing to separate"
         : !is_moderate(p)                      ? "results between passes would be too large to be addressed"
         : p->factors                           ? NULL
         : !ask->filter_values                  ? "the filter's values are not known when planning"
         : falt_type_is_integer(p->filter.type) ? "passes would round where sums of integers are exact"
         : falt_dense_taps(p) > MAX_TAPS        ? "the filter has more than 2^16 taps, too many to factor"
         : !falt_factor_pays(ask)               ? falt_factor_too_long
                                                : NULL;
}

/* ---- plan */

/* Where the values of a pass's filter stand among known ones; NULL if they are given. */
static void *values_of(const passes_plan *plan, int term, int i) {
  const falt_problem *p = &plan->base.problem;
  int64_t at = term * falt_passes_term(p) + falt_passes_factor(p, plan->passes.axis[i]);
  if (plan->passes.paired && i == 0) at = falt_passes_term(p);
  return plan->values ? (char *)plan->values + (size_t)at * element(plan) : NULL;
}

/* Children may be NULL after a refusal; each adds to the whole. */
static falt_plan *add_child(passes_plan *plan, falt_ask *ask, const falt_problem *problem, int term, int i) {
  const void *values = values_of(plan, term, i);
  falt_plan *child = falt_plan_child(ask, problem, values);
  if (child && values && !child->packed) {
    falt_plan_destroy(&child);
    falt_refuse(ask, "the plan of a pass does not keep its taps");
  }
  return child;
}

static void count_child(passes_plan *plan, const falt_plan *child, double times, size_t *scratch) {
  if (child->workspace > *scratch) *scratch = child->workspace;
  plan->base.cost.seconds += times * child->cost.seconds;
  plan->base.cost.error = fmax(plan->base.cost.error, child->cost.error);
}

static bool add_finish(passes_plan *plan, falt_ask *ask) {
  static const float one = 1;
  static const double wide_one = 1;
  if (!plan->passes.finishes) return true;
  const bool wide = plan->given.type == FALT_F64;
  plan->finish = falt_plan_child(ask, &plan->passes.finish, wide ? (const void *)&wide_one : &one);
  if (plan->finish && !plan->finish->packed) return falt_refuse(ask, "the plan of the end does not keep its tap");
  return plan->finish != NULL;
}

static size_t bytes_of(const falt_tensor *t) {
  return (size_t)falt_tensor_span(t) * falt_type_size(t->type);
}

static void lay_workspace(passes_plan *plan, size_t scratch) {
  falt_memory_layout *layout = &plan->base.layout;
  const falt_passes *passes = &plan->passes;
  const size_t values = (size_t)falt_problem_filter_elements(&plan->base.problem) * element(plan);
  if (!plan->base.packed) plan->factors = falt_place_part(layout, values);
  if (passes->count > 2) plan->between = falt_place_part(layout, bytes_of(&passes->pass[0].output));
  plan->stack = falt_place_part(layout, (size_t)(plan->terms * passes->apart) * element(plan));
  if (plan->finish) plan->sums = falt_place_part(layout, bytes_of(&plan->passes.finish.input));
  plan->scratch = falt_place_part(layout, scratch);
  plan->base.workspace = layout->total;
}

/* False with the reason set. */
static bool add_passes(passes_plan *plan, falt_ask *ask) {
  const int own = plan->base.packed ? plan->terms : 1;
  const double times = (double)plan->terms / own;
  size_t scratch = 0;
  plan->pass = falt_alloc_zero((size_t)(own * firsts(plan)) * sizeof(falt_plan *));
  if (!plan->pass) return falt_refuse_memory(ask);
  for (int i = 0; i < own * firsts(plan); i++) {
    const int number = i % firsts(plan);
    plan->pass[i] = add_child(plan, ask, &plan->passes.pass[number], i / firsts(plan), number);
    if (!plan->pass[i]) return false;
    count_child(plan, plan->pass[i], times, &scratch);
  }
  plan->last = add_child(plan, ask, &plan->passes.pass[firsts(plan)], 0, firsts(plan));
  if (!plan->last || !add_finish(plan, ask)) return false;
  count_child(plan, plan->last, 1, &scratch);
  if (plan->finish) count_child(plan, plan->finish, 1, &scratch);
  lay_workspace(plan, scratch);
  return true;
}

/* The known values. Those of a pass of two axes are the products of their factors. */
static bool make_values(passes_plan *plan, falt_ask *ask, const void *values) {
  const falt_problem *p = &plan->base.problem;
  const falt_type type = plan->given.type;
  const int64_t count = falt_problem_filter_elements(p), height = p->filter.size[FALT_H],
                width = p->filter.size[FALT_W];
  const int64_t rows = falt_passes_factor(p, 1), columns = falt_passes_factor(p, 2);
  plan->values = falt_alloc((size_t)(count + (plan->passes.paired ? height * width : 0)) * element(plan));
  if (!plan->values) return falt_refuse_memory(ask);
  falt_passes_values(p, values, plan->values);
  for (int64_t i = 0; plan->passes.paired && i < height * width; i++)
    falt_store(plan->values, type, count + i,
               falt_load(plan->values, type, rows + i / width) * falt_load(plan->values, type, columns + i % width));
  return true;
}

/* Whether the first pass of a term, with the rows beyond the ends that later passes read, takes more products than all
 * taps of the dense filter: true of few samples and much dilation. */
static bool extends_too_far(const falt_passes *passes, const falt_problem *p) {
  const falt_problem *first = &passes->pass[0];
  const double taps = falt_dense_taps(p);
  return passes->extends && taps <= FALT_MOST_EXPANDED_TAPS &&
         (double)falt_tensor_count(&first->output) * falt_dense_taps(first) >
             (double)falt_tensor_count(&p->output) * taps;
}

/* The problem with its filter as factors; `values` are these, or NULL if they are given. */
static falt_plan *plan_factors(const falt_solver *solver, falt_ask *ask, const falt_problem *p, const void *values,
                               bool pair) {
  static const falt_plan_table table = {execute, print, destroy, ready};
  passes_plan *plan = falt_plan_new(sizeof *plan, &table, solver, ask);
  if (!plan) return NULL;
  plan->base.problem = *p;
  plan->base.packed = values != NULL;
  plan->terms = p->factors;
  plan->given.type = falt_passes_type(p);
  falt_passes_make(&plan->passes, p, values, pair);
  const bool too_far = extends_too_far(&plan->passes, p);
  if (too_far) falt_refuse(ask, "the rows beyond the ends take more products than the dense filter");
  if (too_far || (values && !make_values(plan, ask, values)) || !add_passes(plan, ask)) {
    destroy(&plan->base);
    return NULL;
  }
  plan->base.problem = *ask->problem;
  return &plan->base;
}

/* Whether rows and columns may be one pass, whose dense taps are factored again. */
static bool may_pair(const falt_problem *p, const void *values) {
  int axis[FALT_MOST_PASSES];
  const double taps = (double)p->filter.size[FALT_H] * (double)p->filter.size[FALT_W];
  return values && p->factors == 1 && falt_passes_axes(p, axis) == 3 && taps <= MAX_TAPS;
}

/* The faster of a pass for each axis and, if `pairs`, one along rows and columns. */
static falt_plan *plan_faster(const falt_solver *solver, falt_ask *ask, const falt_problem *p, const void *values,
                              bool pairs) {
  falt_plan *single = plan_factors(solver, ask, p, values, false);
  if (!pairs || !may_pair(p, values) || ask->no_memory) return single;
  falt_plan *paired = plan_factors(solver, ask, p, values, true);
  const bool worse = single && paired && single->cost.seconds <= paired->cost.seconds;
  falt_plan **drop = paired && !worse ? &single : &paired;
  falt_plan *kept = drop == &single ? paired : single;
  falt_plan_destroy(drop);
  if (ask->no_memory) falt_plan_destroy(&kept);
  return kept;
}

/* The one term of a filter that comes dense. */
static bool factor(falt_ask *ask, falt_factors *factors) {
  const falt_problem *p = ask->problem;
  const int64_t size[] = {p->filter.size[FALT_D], p->filter.size[FALT_H], p->filter.size[FALT_W]};
  const double worst = 0.5, rounding = ldexp(1, falt_passes_type(p) == FALT_F64 ? -48 : -22);
  double *dense = falt_alloc((size_t)(size[0] * size[1] * size[2]) * sizeof *dense);
  if (!dense) return falt_refuse_memory(ask);
  falt_problem_taps(p, ask->filter_values, 0, FALT_F64, dense);
  const falt_factoring answer =
      falt_factor(factors, dense, size, 1, fmin(fmax(rounding, ask->budget->max_error), worst));
  falt_free(dense);
  if (answer == FALT_FACTOR_MEMORY) return falt_refuse_memory(ask);
  if (answer == FALT_FACTOR_VALUES) return falt_refuse(ask, "the filter has infinite or undefined taps");
  if (answer != FALT_FACTORED) return falt_refuse(ask, "the filter's rank is above 1");
  return true;
}

/* The problem as if its taps, which run forwards, came as one term. */
static falt_problem as_factors(const falt_problem *p) {
  falt_problem one = *p;
  one.factors = 1;
  one.rank = 0;
  one.filter.type = FALT_F64;
  one.filter.offset = 0;
  for (int dim = FALT_D; dim < FALT_DIMS; dim++) one.filter.stride[dim] = 1;
  return one;
}

static falt_plan *plan_dense(const falt_solver *solver, falt_ask *ask, bool pairs) {
  falt_factors factors;
  if (!factor(ask, &factors)) return NULL;
  const falt_problem one = as_factors(ask->problem);
  falt_plan *plan = plan_faster(solver, ask, &one, falt_factors_taps(&factors, 0, 0), pairs);
  const double residual = factors.residual;
  falt_factors_free(&factors);
  if (plan && residual > ldexp(1, falt_passes_type(&one) == FALT_F64 ? -48 : -22)) plan->cost.error += residual;
  return plan;
}

static falt_plan *plan_any(const falt_solver *solver, falt_ask *ask, bool pairs) {
  const char *why = refusal(ask);
  if (why) return falt_refuse(ask, "%s", why);
  if (!ask->problem->factors) return plan_dense(solver, ask, pairs);
  return plan_faster(solver, ask, ask->problem, ask->filter_values, pairs);
}

static falt_plan *plan_passes(const falt_solver *solver, falt_ask *ask) {
  return plan_any(solver, ask, true);
}

/* On CPUs `separable` finds the terms of dense filters. What a pass has written the next reads from memory, which takes
 * longer than both estimates together. */
static falt_plan *plan_on_cpu(const falt_solver *solver, falt_ask *ask) {
  const double from_memory = 1.35;
  if (!ask->problem->factors) return falt_refuse(ask, "the filter does not come as factors");
  falt_plan *plan = plan_any(solver, ask, false);
  if (plan) plan->cost.seconds *= from_memory;
  return plan;
}

extern const falt_solver falt_solver_separable_passes, falt_solver_separable_passes_cpu;
const falt_solver falt_solver_separable_passes = {.name = "separable-passes",
                                                  .device_kind = "cuda",
                                                  .plan = plan_passes,
                                                  .spreads = true,
                                                  .factors = true,
                                                  .takes_factors = true};
const falt_solver falt_solver_separable_passes_cpu = {.name = "separable-passes-cpu",
                                                      .device_kind = "cpu",
                                                      .avx2 = 1.4,
                                                      .plan = plan_on_cpu,
                                                      .spreads = true,
                                                      .factors = true,
                                                      .takes_factors = true};
