/* Filters of rank one as passes along one axis each, with the results between them in the workspace.
 *
 *     y = (f along z) * (g along y) * (h along x) * x:  T + R + S multiply-adds a result instead of T*R*S
 *
 * Every pass is a filter problem of its own, planned as any other. One walk that keeps the results of the first pass in
 * registers moves fewer bytes; this is for filters so tall that their sums do not fit there. A pass continues its input
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
  size_t between[2], scratch; /* where results between passes lie in the workspace, and what the passes need */
} passes_plan;

/* ---- execute */

static void execute(const falt_plan *base, const falt_operands *operands) {
  const passes_plan *plan = (const passes_plan *)base;
  char *workspace = operands->workspace;
  falt_operands o = *operands;
  o.workspace = workspace + plan->scratch;
  for (int i = 0; i < plan->count && !falt_cancelled(); i++) {
    const falt_progress_range all = falt_progress_enter((double)i / plan->count, (double)(i + 1) / plan->count);
    o.output = i + 1 < plan->count ? workspace + plan->between[i % 2] : operands->output;
    falt_plan_run_shared(plan->pass[i], &o);
    falt_progress_leave(all);
    o.input = o.output;
  }
}

static void print(const falt_plan *base, falt_text *text) {
  const passes_plan *plan = (const passes_plan *)base;
  falt_text_add(text, "(separable-passes");
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

static const char *refusal(const falt_ask *ask) {
  const falt_problem *p = ask->problem;
  const int64_t *taps = p->filter.size;
  const bool one = taps[FALT_C] == 1 && taps[FALT_K] == 1 && (taps[FALT_G] == 1 || p->filter.stride[FALT_G] == 0);
  return p->operation != FALT_FORWARD           ? "only forward"
         : !one                                 ? "the filter is not one for all channels"
         : !ask->filter_values                  ? "the filter's values are not known when planning"
         : tapped_axes(p) < 2                   ? "the filter has one axis only: nothing to separate"
         : falt_type_is_integer(p->filter.type) ? "passes would round where sums of integers are exact"
         : (double)taps[FALT_D] * (double)taps[FALT_H] * (double)taps[FALT_W] > MAX_TAPS
             ? "the filter has more than 2^16 taps, too many to factor"
         : !falt_factor_pays(ask) ? falt_factor_too_long
                                  : NULL;
}

/* ---- the passes' problems */

static falt_type between_type(const falt_problem *p) {
  return falt_type_real(p->accumulator);
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
  pass.rank = 0;
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
  void *values = plan->taps[plan->count] = pass_taps(ask->problem, taps, count, scale);
  falt_plan *child = values ? falt_plan_child(ask, pass, values) : falt_refuse_memory(ask);
  if (child && !child->packed) {
    falt_plan_destroy(&child);
    falt_refuse(ask, "the plan of a pass does not keep its taps");
  }
  if (child) plan->pass[plan->count++] = child;
  return child != NULL;
}

/* Along the width first, where rows are in reach; a factor of an axis without taps is a number. */
static bool add_passes(passes_plan *plan, falt_ask *ask, const falt_factors *factors) {
  const falt_problem *p = ask->problem;
  const falt_tensor *input = &p->input;
  double scale = 1, value = p->boundary_value;
  size_t scratch = 0;
  for (int a = 0; a < 3; a++)
    if (factors->size[a] == 1) scale *= *falt_factors_taps(factors, 0, a);
  for (int a = 2, left = tapped_axes(p); a >= 0; a--) {
    const double *taps = falt_factors_taps(factors, 0, a);
    if (factors->size[a] == 1) continue;
    const falt_problem pass = pass_problem(p, input, a, --left == 0, value);
    if (!add_pass(plan, ask, &pass, taps, scale)) return false;
    count_pass(plan, plan->pass[plan->count - 1], left == 0, &scratch);
    value *= sum_of(taps, factors->size[a], scale);
    scale = 1;
    input = &plan->pass[plan->count - 1]->problem.output;
  }
  for (int i = 0; i < 2; i++) plan->between[i] = falt_place_part(&plan->base.layout, plan->between[i]);
  plan->scratch = falt_place_part(&plan->base.layout, scratch);
  plan->base.workspace = plan->base.layout.total;
  return true;
}

static bool factor(falt_ask *ask, falt_factors *factors) {
  const falt_problem *p = ask->problem;
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
  plan->base.packed = true;
  if (residual > ldexp(1, between_type(ask->problem) == FALT_F64 ? -48 : -22)) plan->base.cost.error += residual;
  return &plan->base;
}

extern const falt_solver falt_solver_separable_passes;
const falt_solver falt_solver_separable_passes = {
    .name = "separable-passes", .device_kind = "cuda", .plan = plan_passes, .spreads = true, .factors = true};
