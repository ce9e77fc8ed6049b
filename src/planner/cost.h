/* The lower bound of a problem's time on a device, from its work and the bytes that it must move. */
#ifndef FALT_PLANNER_COST_H
#define FALT_PLANNER_COST_H

#include "planner/planner.h"

typedef struct falt_limit {
  double flops, bytes; /* as the problem counts them: all taps, also for a filter of low rank */
  double seconds;      /* the larger of the two below, with no start-up */
  double compute_seconds, memory_seconds;
} falt_limit;

falt_limit falt_problem_limit(const falt_device *device, const falt_problem *problem);

/* "memory" or "compute", whichever is slower. */
const char *falt_limit_bound(const falt_limit *limit);

#endif
