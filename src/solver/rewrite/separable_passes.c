/* Filters of rank one as passes along one axis each, with the results between them in the workspace.
 *
 *     y = (f along z) * (g along y) * (h along x) * x:  T + R + S multiply-adds a result instead of T*R*S
 *
 * Every pass is a filter problem of its own, planned as any other. One walk that keeps the results of the first pass in
 * registers moves fewer bytes; this is for filters so tall that their sums do not fit there: on GPUs, and on CPUs where
 * the filter comes as one term of factors, known or given. A pass continues its input
 * by the axis's own boundary, which commutes with the passes along the other axes; only a constant grows by the sum of
 * the taps that have met it already. */
#include <math.h>

#include "core/memory.h"
#include "planner/planner.h"
#include "solver/common/factor.h"
#include "solver/common/factor_cost.h"

enum { MAX_PASSES = 3, MAX_TAPS = 1 << 16 };

typedef struct passes_plan {
  falt_plan base;
  int count;
  falt_plan *pass[MAX_PASSES];
  void *taps[MAX_PASSES];
  int axis[MAX_PASSES];
  size_t between[2], scratch; /* where results between passes lie in the workspace, and what the passes need */
  size_t given;               /* in the workspace: factors that are given, depth, height and width */
} passes_plan;

static falt_type between_type(const falt_problem *p) {
  return falt_type_real(p->accumulator);
}

/* ---- execute */

/* Where the factor along an axis begins, in elements. */
static int64_t factor_at(const falt_problem *p, int axis) {
  int64_t at = 0;
  for (int before = 0; before < axis; before++) at += p->filter.size[FALT_D + before];
  return at;
}

/* Given factors in the type between. The first pass takes the factors of axes of one tap, which are numbers. */
static void give(const passes_plan *plan, const void *values, void *factors) {
  const falt_problem *p = &plan->base.problem;
  const falt_type type = between_type(p);
  const int first = plan->axis[0];
  const int64_t at = factor_at(p, first);
  double scale = 1;
  for (int a = 0; a < 3; a++)
    if (a != first && p->filter.size[FALT_D + a] == 1) scale *= falt_factor_value(p, values, 0, a, 0);
  falt_factor_values(p, values, type, factors);
  for (int64_t j = 0; j < p->filter.size[FALT_D + first]; j++)
    falt_store(factors, type, at + j, scale * falt_factor_value(p, values, 0, first, j));
}

static void execute(const falt_plan *base, const falt_operands *operands) {
  const passes_plan *plan = (const passes_plan *)base;
  char *workspace = operands->workspace, *factors = workspace + plan->given;
  falt_operands o = *operands;
  o.workspace = workspace + plan->scratch;
  if (!base->packed) give(plan, operands->filter, factors);
  for (int i = 0; i < plan->count && !falt_cancelled(); i++) {
    const falt_progress_range all = falt_progress_enter((double)i / plan->count, (double)(i + 1) / plan->count);
    const size_t at = (size_t)factor_at(&base->problem, plan->axis[i]) * falt_type_size(between_type(&base->problem));
    if (!base->packed) o.filter = factors + at;
    o.output = i + 1 < plan->count ? workspace + plan->between[i % 2] : operands->output;
    falt_plan_run_shared(plan->pass[i], &o);
    falt_progress_leave(all);
    o.input = o.output;
  }
}

static void print(const falt_plan *base, falt_text *text) {
  const passes_plan *plan = (const passes_plan *)base;
  falt_text_add(text, "(%s", base->solver->name);
  for (int i = 0; i < plan->count; i++) {
    falt_text_add(text, " ");
    plan->pass[i]->table->print(plan->pass[i], text);
  }
  falt_text_add(text, ")");
}

static void destroy(falt_plan *base) {
  passes_plan *plan = (passes_plan *)base;
  for (int i = 0; i < MAX_PASSES; i++) {
    falt_plan_destroy(&plan->pass[i]);
    falt_free(plan->taps[i]);
  }
  falt_free(plan);
}

static falt_status ready(falt_plan *base) {
  passes_plan *plan = (passes_plan *)base;
  for (int i = 0; i < plan->count; i++) FALT_TRY(falt_plan_ready(plan->pass[i]));
  return FALT_OK;
}

/* ---- applicable */

static int tapped_axes(const falt_problem *p) {
  return (p->filter.size[FALT_D] > 1) + (p->filter.size[FALT_H] > 1) + (p->filter.size[FALT_W] > 1);
}

static const char *refusal_of_factors(const falt_ask *ask) {
  const bool given = !ask->filter_values;
  return ask->problem->factors > 1      ? "the filter has several terms"
         : given && ask->device->memory ? "the factors are not known when planning"
         : given && ask->problem->boundary_value != 0
             ? "between passes a constant other than 0 depends on the factors, which are not known when planning"
             : NULL;
}

static const char *refusal(const falt_ask *ask) {
  const falt_problem *p = ask->problem;
  const int64_t *taps = p->filter.size;
  const bool one = taps[FALT_C] == 1 && taps[FALT_K] == 1 && (taps[FALT_G] == 1 || p->filter.stride[FALT_G] == 0);
  return p->operation != FALT_FORWARD           ? "only forward"
         : !one                                 ? "the filter is not one for all channels"
         : p->factors                           ? refusal_of_factors(ask)
         : !ask->filter_values                  ? "the filter's values are not known when planning"
         : tapped_axes(p) < 2                   ? "the filter has one axis only: nothing to separate"
         : falt_type_is_integer(p->filter.type) ? "passes would round where sums of integers are exact"
         : (double)taps[FALT_D] * (double)taps[FALT_H] * (double)taps[FALT_W] > MAX_TAPS
             ? "the filter has more than 2^16 taps, too many to factor"
         : !falt_factor_pays(ask) ? falt_factor_too_long
                                  : NULL;
}

/* ---- the passes' problems */

static bool has_pass(const falt_problem *p, int axis) {
  return p->filter.size[FALT_D + axis] > 1 || (axis == 2 && tapped_axes(p) == 0);
}

/* Dense in the order of the input: channels stay side by side where they are. */
static void lay_densely(falt_tensor *t, const falt_problem *p) {
  static const int planes[] = {FALT_W, FALT_H, FALT_D, FALT_C, FALT_G, FALT_N},
                   pixels[] = {FALT_G, FALT_W, FALT_H, FALT_D, FALT_C, FALT_N};
  const bool together = t->size[FALT_G] > 1 && p->input.stride[FALT_G] == 1;
  int64_t stride = 1;
  for (int i = 0; i < FALT_DIMS; i++) {
    const int dim = (together ? pixels : planes)[i];
    t->stride[dim] = stride;
    stride *= t->size[dim];
  }
  t->offset = 0;
  t->type = between_type(p);
}

static void drop_epilogue(falt_problem *p) {
  p->has_scale = p->has_bias = p->has_residual = false;
  p->activation = FALT_IDENTITY;
  p->alpha = 1;
  p->beta = p->act_a = p->act_b = 0;
}

/* A pass along `axis` from `input`; the last takes over what is left of the problem. */
static falt_problem pass_problem(const falt_problem *p, const falt_tensor *input, int axis, bool last, double value) {
  falt_problem pass = *p;
  pass.input = *input;
  pass.rank = pass.factors = 0;
  pass.boundary_value = value;
  pass.filter.type = between_type(p);
  pass.filter.offset = 0;
  for (int dim = 0; dim < FALT_DIMS; dim++) pass.filter.stride[dim] = 0;
  pass.filter.stride[FALT_D + axis] = 1;
  for (int a = 0; a < 3; a++) {
    const bool mine = a == axis || (last && p->filter.size[FALT_D + a] == 1);
    if (a != axis) pass.filter.size[FALT_D + a] = 1;
    if (!mine) pass.axis[a] = (falt_axis){.stride = 1, .dilation = 1};
    if (!mine) pass.output.size[FALT_D + a] = input->size[FALT_D + a];
  }
  if (last) return pass;
  lay_densely(&pass.output, p);
  drop_epilogue(&pass);
  return pass;
}

/* ---- plan */

/* Taps of a pass in the type between; NULL when memory is short. */
static void *pass_taps(const falt_problem *p, const double *taps, int64_t count, double scale) {
  void *values = falt_alloc((size_t)count * falt_type_size(between_type(p)));
  for (int64_t i = 0; values && i < count; i++) {
    if (between_type(p) == FALT_F64)
      ((double *)values)[i] = taps[i] * scale;
    else
      ((float *)values)[i] = (float)(taps[i] * scale);
  }
  return values;
}

static double sum_of(const double *taps, int64_t count, double scale) {
  double sum = 0;
  for (int64_t i = 0; i < count; i++) sum += taps[i] * scale;
  return sum;
}

/* Counts a pass into the whole; false if results between passes would be too large to be addressed. */
static void count_pass(passes_plan *plan, const falt_plan *pass, bool last, size_t *scratch) {
  size_t *room = &plan->between[(plan->count - 1) % 2]; /* a size until all passes are known */
  const falt_tensor *out = &pass->problem.output;
  const size_t bytes = (size_t)falt_tensor_span(out) * falt_type_size(out->type);
  if (!last && bytes > *room) *room = bytes;
  if (pass->workspace > *scratch) *scratch = pass->workspace;
  plan->base.cost.seconds += pass->cost.seconds;
  plan->base.cost.error += pass->cost.error;
}

static bool add_pass(passes_plan *plan, falt_ask *ask, const falt_problem *pass, const double *taps, double scale) {
  const int64_t count = pass->filter.size[FALT_D] * pass->filter.size[FALT_H] * pass->filter.size[FALT_W];
  const bool known = ask->filter_values != NULL;
  void *values = plan->taps[plan->count] = known ? pass_taps(ask->problem, taps, count, scale) : NULL;
  falt_plan *child = values || !known ? falt_plan_child(ask, pass, values) : falt_refuse_memory(ask);
  if (child && known && !child->packed) {
    falt_plan_destroy(&child);
    falt_refuse(ask, "the plan of a pass does not keep its taps");
  }
  if (child) plan->pass[plan->count++] = child;
  return child != NULL;
}

/* Along the width first, where rows are in reach; a factor of an axis without taps is a number. A filter of one tap is
 * a pass along the width. */
static bool add_passes(passes_plan *plan, falt_ask *ask, const falt_factors *factors) {
  const falt_problem *p = ask->problem;
  const falt_tensor *input = &p->input;
  double scale = 1, value = p->boundary_value;
  size_t scratch = 0;
  const int passes = falt_max(1, tapped_axes(p));
  for (int a = 0; a < 3; a++)
    if (!has_pass(p, a)) scale *= *falt_factors_taps(factors, 0, a);
  for (int a = 2, left = passes; a >= 0; a--) {
    const double *taps = falt_factors_taps(factors, 0, a);
    if (!has_pass(p, a)) continue;
    plan->axis[plan->count] = a;
    const falt_problem pass = pass_problem(p, input, a, --left == 0, value);
    if (!add_pass(plan, ask, &pass, taps, scale)) return false;
    count_pass(plan, plan->pass[plan->count - 1], left == 0, &scratch);
    value *= sum_of(taps, factors->size[a], scale);
    scale = 1;
    input = &plan->pass[plan->count - 1]->problem.output;
  }
  const size_t values = (size_t)falt_problem_filter_elements(p) * falt_type_size(between_type(p));
  if (!ask->filter_values) plan->given = falt_place_part(&plan->base.layout, values);
  for (int i = 0; i < 2; i++) plan->between[i] = falt_place_part(&plan->base.layout, plan->between[i]);
  plan->scratch = falt_place_part(&plan->base.layout, scratch);
  plan->base.workspace = plan->base.layout.total;
  return true;
}

/* The problem's own term; zeros stand for values that are given. */
static bool take_factors(falt_ask *ask, falt_factors *factors) {
  const falt_problem *p = ask->problem;
  *factors = (falt_factors){.terms = 1, .groups = 1};
  for (int a = 0; a < 3; a++) factors->size[a] = p->filter.size[FALT_D + a];
  factors->taps = falt_alloc_zero((size_t)falt_problem_filter_elements(p) * sizeof *factors->taps);
  if (!factors->taps) return falt_refuse_memory(ask);
  if (ask->filter_values) falt_factor_values(p, ask->filter_values, FALT_F64, factors->taps);
  return true;
}

static bool factor(falt_ask *ask, falt_factors *factors) {
  const falt_problem *p = ask->problem;
  if (p->factors) return take_factors(ask, factors);
  const int64_t size[] = {p->filter.size[FALT_D], p->filter.size[FALT_H], p->filter.size[FALT_W]};
  const double worst = 0.5, rounding = ldexp(1, between_type(p) == FALT_F64 ? -48 : -22);
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

static falt_plan *plan_passes(const falt_solver *solver, falt_ask *ask) {
  static const falt_plan_table table = {execute, print, destroy, ready};
  falt_factors factors;
  const char *why = refusal(ask);
  if (why) return falt_refuse(ask, "%s", why);
  if (!factor(ask, &factors)) return NULL;
  passes_plan *plan = falt_plan_new(sizeof *plan, &table, solver, ask);
  const bool made = plan && add_passes(plan, ask, &factors);
  const double residual = factors.residual;
  falt_factors_free(&factors);
  if (!made) {
    if (plan) destroy(&plan->base);
    return NULL;
  }
  plan->base.packed = ask->filter_values != NULL;
  if (residual > ldexp(1, between_type(ask->problem) == FALT_F64 ? -48 : -22)) plan->base.cost.error += residual;
  return &plan->base;
}

/* On CPUs `separable` finds the terms of dense filters. */
static falt_plan *plan_factors(const falt_solver *solver, falt_ask *ask) {
  return ask->problem->factors ? plan_passes(solver, ask) : falt_refuse(ask, "the filter does not come as factors");
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
                                                      .plan = plan_factors,
                                                      .spreads = true,
                                                      .factors = true,
                                                      .takes_factors = true};
