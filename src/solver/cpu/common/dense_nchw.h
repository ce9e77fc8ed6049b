/* Dense layers of narrow types in NCHW by way of NHWC. */
#ifndef FALT_SOLVER_CPU_COMMON_DENSE_NCHW_H
#define FALT_SOLVER_CPU_COMMON_DENSE_NCHW_H

#include "planner/planner.h"

/* A plan for problems of this operation, forward or backward-data; NULL with the reason set. */
falt_plan *falt_dense_nchw_plan(const falt_solver *solver, falt_ask *ask, falt_operation operation);

#endif
