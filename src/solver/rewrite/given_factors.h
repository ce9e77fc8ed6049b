/* Factors that come with an execution, on any device: converted in the workspace, by the host or by the back end. */
#ifndef FALT_SOLVER_REWRITE_GIVEN_FACTORS_H
#define FALT_SOLVER_REWRITE_GIVEN_FACTORS_H

#include "planner/planner.h"

typedef struct falt_given_factors {
  bool expands;   /* dense taps in T, R, S order; otherwise the factors of separable_passes.h */
  falt_type type; /* of the result */
  void *kernel;   /* of the back end, once it is ready */
} falt_given_factors;

/* Finds the kernel, on devices that need one. */
falt_status falt_given_factors_ready(falt_given_factors *given, const falt_device *device);
/* Converts the factors of the plan's problem. */
void falt_given_factors_make(const falt_given_factors *given, const falt_plan *plan, const falt_operands *operands,
                             void *to);

/* Taps of the dense filter, for every channel. */
static inline double falt_dense_taps(const falt_problem *p) {
  return (double)p->filter.size[FALT_D] * (double)p->filter.size[FALT_H] * (double)p->filter.size[FALT_W];
}

#endif
