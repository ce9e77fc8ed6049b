/* Filters that come as factors, as their dense taps: for filters of few taps, or of one axis, where all terms are one.
 *
 * Known factors are expanded when planning, given ones with each execution, into the workspace. Sums over the terms are
 * in f64 and are rounded once, to f32 or, where the sums of the problem are f64, not at all. */
#include "core/memory.h"
#include "planner/planner.h"
#include "solver/rewrite/given_factors.h"

typedef struct expand_plan {
  falt_parent parent;
  falt_given_factors given;
  size_t dense, scratch; /* in the workspace: taps of given factors; the child's */
} expand_plan;

static void execute(const falt_plan *base, const falt_operands *operands) {
  const expand_plan *plan = (const expand_plan *)base;
  char *workspace = operands->workspace;
  falt_operands o = *operands;
  o.filter = NULL;
  if (!base->packed) {
    o.filter = workspace + plan->dense;
    falt_given_factors_make(&plan->given, base, operands, o.filter);
  }
  o.workspace = workspace ? workspace + plan->scratch : NULL;
  falt_plan_run(plan->parent.child, &o);
}

static void print(const falt_plan *base, falt_text *text) {
  falt_text_add(text, "(%s ", base->solver->name);
  falt_parent_print(base, text);
}

static falt_status ready(falt_plan *base) {
  expand_plan *plan = (expand_plan *)base;
  FALT_TRY(falt_parent_ready(base));
  return base->packed ? FALT_OK : falt_given_factors_ready(&plan->given, base->device);
}

/* ---- plan */

static const char *refusal(const falt_problem *p) {
  const bool one_axis = falt_dense_taps(p) <= (double)falt_problem_filter_elements(p);
  return !p->factors ? "the filter does not come as factors"
         : falt_dense_taps(p) > FALT_MOST_EXPANDED_TAPS && !one_axis
             ? "the filter has more than 2^16 taps, too many to expand"
             : NULL;
}

static falt_problem dense_problem(const falt_problem *p, falt_type type) {
  falt_problem dense = *p;
  dense.factors = 0;
  dense.filter.type = type;
  dense.filter.size[FALT_G] = 1;
  falt_tensor_layout(&dense.filter, "oidhw"); /* cannot fail: the taps are few */
  dense.filter.size[FALT_G] = p->filter.size[FALT_G];
  dense.filter.stride[FALT_G] = 0;
  return dense;
}

/* The child, and what it keeps of known factors. False with the reason set. */
static bool add_child(expand_plan *plan, falt_ask *ask) {
  const falt_problem *p = ask->problem;
  const falt_type type = falt_problem_has_f64(p) ? FALT_F64 : FALT_F32;
  plan->given = (falt_given_factors){.expands = true, .type = type};
  const falt_problem dense = dense_problem(p, type);
  const size_t bytes = (size_t)falt_dense_taps(p) * falt_type_size(type);
  if (ask->filter_values) {
    if (!(plan->parent.values = falt_alloc(bytes))) return falt_refuse_memory(ask);
    falt_factors_expand(p, ask->filter_values, type, plan->parent.values);
  } else {
    plan->dense = falt_place_part(&plan->parent.base.layout, bytes);
  }
  plan->parent.child = falt_plan_child(ask, &dense, plan->parent.values);
  if (!plan->parent.child) return false;
  plan->scratch = falt_place_child(&plan->parent.base.layout, plan->parent.child);
  return !plan->parent.values || plan->parent.child->packed ||
         falt_refuse(ask, "the plan of the dense filter does not keep its taps");
}

static falt_plan *plan_expand(const falt_solver *solver, falt_ask *ask) {
  static const falt_plan_table table = {execute, print, falt_parent_destroy, ready};
  const char *why = refusal(ask->problem);
  if (why) return falt_refuse(ask, "%s", why);
  expand_plan *plan = falt_plan_new(sizeof *plan, &table, solver, ask);
  if (!plan) return NULL;
  if (!add_child(plan, ask)) {
    falt_parent_destroy(&plan->parent.base);
    return NULL;
  }
  const double products = ask->filter_values ? 0 : falt_dense_taps(ask->problem) * ask->problem->factors;
  plan->parent.base.workspace = plan->parent.base.layout.total;
  plan->parent.base.packed = ask->filter_values != NULL;
  plan->parent.base.cost = plan->parent.child->cost;
  const double launch = 3e-6; /* on GPUs, where the products are many at a time */
  plan->parent.base.cost.seconds += ask->filter_values ? 0
                                    : ask->device->gpu ? launch + 1e-11 * products
                                                       : 1e-8 * products;
  return &plan->parent.base;
}

extern const falt_solver falt_solver_expand_factors, falt_solver_cuda_expand_factors;
const falt_solver falt_solver_expand_factors = {
    .name = "expand-factors", .device_kind = "cpu", .plan = plan_expand, .takes_factors = true};
const falt_solver falt_solver_cuda_expand_factors = {
    .name = "cuda-expand-factors", .device_kind = "cuda", .plan = plan_expand, .takes_factors = true};
