/* Decides by cost if a known filter is factored into separable terms at all. */
#ifndef FALT_SOLVER_COMMON_FACTOR_COST_H
#define FALT_SOLVER_COMMON_FACTOR_COST_H

#include "planner/planner.h"

static const char falt_factor_too_long[] = "finding its separable terms takes longer than they could save";

/* False for large filters of few outputs: finding their terms (solver/common/factor.h) takes longer than one execution
 * of all taps at the peak of the multiply-adds. */
static inline bool falt_factor_pays(const falt_ask *ask) {
  enum { SMALL = 4096 }; /* taps that are factored in some tens of microseconds */
  const double seconds_per_tap = 12e-9;
  const falt_problem *p = ask->problem;
  const double taps = (double)p->filter.size[FALT_D] * (double)p->filter.size[FALT_H] * (double)p->filter.size[FALT_W];
  const falt_type type = falt_problem_has_f64(p) ? FALT_F64 : FALT_F32;
  return taps <= SMALL || falt_roofline(ask->device, type, falt_problem_flops(p), 1, 0) > seconds_per_tap * taps;
}

#endif
