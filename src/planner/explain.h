/* The candidates of a problem as callers see them. */
#ifndef FALT_PLANNER_EXPLAIN_H
#define FALT_PLANNER_EXPLAIN_H

#include "planner/search.h"
#include "planner/timer.h"

/* All fields of *candidate that follow from the plan alone; plan text and rejection stay empty. */
void falt_candidate_fill(falt_candidate *candidate, const falt_plan *plan, const falt_timing *timing);

/* falt_explain over a list of solvers. */
falt_status falt_explain_search(const falt_solver *const *solvers, falt_device *device, const falt_problem *problem,
                                const falt_budget *budget, const void *filter_values, double measure_seconds,
                                void (*report)(void *context, const falt_candidate *candidate), void *context);

#endif
