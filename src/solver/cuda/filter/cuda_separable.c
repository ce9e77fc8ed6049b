/* Plans the separable solvers, cuda-separable, cuda-separable-25d and cuda-separable-volume: filters that are a sum of
 * a few separable terms. A term takes T + R + S multiply-adds an output instead of T*R*S, in one pass over the image.
 * The output of the pass along a row stays in registers and is added to the accumulators of the pass across rows
 * (cuda_direct.cu, TERMS) or across planes (cuda_25d.cu). src/solver/common/factor.h finds the terms. */
#include <math.h>

#include "core/memory.h"
#include "solver/common/factor.h"
#include "solver/common/factor_cost.h"
#include "solver/cuda/filter/cuda_taps.h"

enum { MAX_TERMS = 4, MAX_TAPS = 1 << 16 };

/* ---- applicable */

/* Most terms that need fewer multiply-adds than the whole filter. */
static int most_terms(const int taps[3]) {
  const double whole = (double)taps[0] * taps[1] * taps[2];
  const double term = (taps[0] > 1 ? taps[0] : 0) + (taps[1] > 1 ? taps[1] : 0) + taps[2];
  return (int)fmin(MAX_TERMS, ceil(whole / term) - 1);
}

static const char *refusal(const falt_ask *ask) {
  int taps[3];
  const char *why = falt_cuda_filter_refusal(ask);
  if (why) return why;
  falt_taps_along(ask->problem, taps);
  return (taps[0] > 1) + (taps[1] > 1) + (taps[2] > 1) < 2 ? "the filter has one axis only: nothing to separate"
         : (double)taps[0] * taps[1] * taps[2] > MAX_TAPS  ? "the filter has more than 2^16 taps, too many to factor"
         : most_terms(taps) < 1   ? "the filter is so small that separable terms would not need fewer multiply-adds"
         : !falt_factor_pays(ask) ? falt_factor_too_long
                                  : NULL;
}

/* ---- factoring */

/* Factors the dense taps within the budget's error. False with the reason set. */
static bool factor(falt_ask *ask, const double *dense, const int taps[3], falt_factors *factors) {
  const falt_problem *p = ask->problem;
  const int64_t size[] = {taps[0], taps[1], taps[2]}, count = size[0] * size[1] * size[2];
  const double worst = 0.5, rounding = ldexp(1, falt_problem_has_f64(p) ? -48 : -22);
  const int most = most_terms(taps);
  switch (falt_factor(factors, dense, size, most, fmin(fmax(rounding, ask->budget->max_error), worst))) {
    case FALT_FACTORED:
      if (!falt_type_is_integer(p->input.type) || !falt_are_integers(dense, count) || factors->exact ||
          ask->budget->max_error > 0)
        return true;
      falt_refuse(ask, "the filter has integer taps and rank %d: terms would round where sums are exact",
                  factors->terms);
      falt_factors_free(factors);
      return false;
    case FALT_FACTOR_MEMORY:
      falt_refuse_memory(ask);
      return false;
    case FALT_FACTOR_VALUES:
      falt_refuse(ask, "the filter has infinite or undefined taps");
      return false;
    default:
      falt_refuse(ask, "the filter's rank is above %d: more separable terms would not be faster", most);
      return false;
  }
}

static bool factor_filter(falt_ask *ask, falt_factors *factors) {
  int taps[3];
  falt_taps_along(ask->problem, taps);
  double *dense = falt_alloc((size_t)taps[0] * (size_t)taps[1] * (size_t)taps[2] * sizeof *dense);
  if (!dense) falt_refuse_memory(ask);
  if (dense) falt_problem_taps(ask->problem, ask->filter_values, 0, FALT_F64, dense);
  const bool factored = dense && factor(ask, dense, taps, factors);
  falt_free(dense);
  return factored;
}

/* Without planes, the factor along them is a number: the kernel leaves it out. */
static void fold_planes(falt_factors *factors) {
  for (int k = 0; k < factors->terms && factors->size[0] == 1; k++) {
    double *f = falt_factors_taps(factors, k, 0), *g = falt_factors_taps(factors, k, 1);
    for (int64_t i = 0; i < factors->size[1]; i++) g[i] *= *f;
    *f = 1;
  }
}

/* ---- plan */

static falt_plan *plan_terms(const falt_solver *solver, falt_ask *ask, falt_taps_cut *cut) {
  falt_factors factors;
  const char *why = refusal(ask);
  if (why) return falt_refuse(ask, "%s", why);
  if (!factor_filter(ask, &factors)) return NULL;
  falt_taps_plan *plan = cut(solver, ask, factors.terms);
  fold_planes(&factors);
  if (plan) {
    falt_taps_pack(plan, factors.taps); /* term by term, along planes, rows and columns */
    if (factors.residual > ldexp(1, plan->wide ? -48 : -22)) plan->base.cost.error = factors.residual;
  }
  falt_factors_free(&factors);
  return plan ? &plan->base : NULL;
}

static falt_plan *plan_separable(const falt_solver *solver, falt_ask *ask) {
  return plan_terms(solver, ask, falt_tile_plan_new);
}

static falt_plan *plan_separable_volume(const falt_solver *solver, falt_ask *ask) {
  return plan_terms(solver, ask, falt_25d_plan_new);
}

static falt_plan *plan_separable_25d(const falt_solver *solver, falt_ask *ask) {
  return plan_terms(solver, ask, falt_separable_25d_plan_new);
}

extern const falt_solver falt_solver_cuda_separable, falt_solver_cuda_separable_volume, falt_solver_cuda_separable_25d;
const falt_solver falt_solver_cuda_separable_25d = {
    .name = "cuda-separable-25d", .device_kind = "cuda", .plan = plan_separable_25d, .spreads = true, .factors = true};
const falt_solver falt_solver_cuda_separable = {
    .name = "cuda-separable", .device_kind = "cuda", .plan = plan_separable, .spreads = true, .factors = true};
const falt_solver falt_solver_cuda_separable_volume = {.name = "cuda-separable-volume",
                                                       .device_kind = "cuda",
                                                       .plan = plan_separable_volume,
                                                       .spreads = true,
                                                       .factors = true};
