/* Dense NCHW layers of narrow types and of f64, computed in NHWC. */
#ifndef FALT_SOLVER_CPU_COMMON_DENSE_NCHW_H
#define FALT_SOLVER_CPU_COMMON_DENSE_NCHW_H

#include "planner/planner.h"

extern const falt_plan_steps falt_fprop_nchw_steps, falt_dgrad_nchw_steps;

#endif
