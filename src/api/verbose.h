/* FALTUNG_VERBOSE: lines on standard error on request. The only file of the library that prints. */
#ifndef FALT_API_VERBOSE_H
#define FALT_API_VERBOSE_H

#include "planner/planner.h"

enum { FALT_VERBOSE_PLAN = 1, FALT_VERBOSE_TIME = 2 };

/* Reads the environment. */
falt_status falt_verbose_read(unsigned *flags);
/* One line with the problem and the plan. */
void falt_verbose_plan(const falt_plan *plan, const falt_budget *budget);
/* One line with the plan and the seconds of one execution. */
void falt_verbose_time(const falt_plan *plan, double seconds);

#endif
