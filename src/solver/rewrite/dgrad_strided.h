/* Gradients of inputs: what their solvers share. */
#ifndef FALT_SOLVER_REWRITE_DGRAD_STRIDED_H
#define FALT_SOLVER_REWRITE_DGRAD_STRIDED_H

#include "planner/planner.h"

/* Distance of the taps of an axis that meet the same inputs. */
int64_t falt_backward_tap_step(const falt_axis *axis);

/* Whether windows reach beyond an end that goes on with other elements: their gradients fold back. */
bool falt_backward_folds(const falt_problem *p);

#endif
