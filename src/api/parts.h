/* Plans for parts of a plan's problem. falt_execute_host creates them on first use and keeps them with the plan. */
#ifndef FALT_API_PARTS_H
#define FALT_API_PARTS_H

#include "planner/planner.h"

/* Stores the budget and the filter's values, from which plans of parts are created. */
falt_status falt_parts_keep(falt_plan *plan, const falt_budget *budget, const void *filter_values);

/* The plan itself if the problem is its own, else one for the part's problem; it lives as long as the plan. One thread
 * of a device at a time. */
falt_status falt_parts_plan(const falt_plan *plan, const falt_problem *problem, const falt_plan **part);

#endif
