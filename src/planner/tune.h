/* Tuning: measures candidates instead of estimating them. */
#ifndef FALT_PLANNER_TUNE_H
#define FALT_PLANNER_TUNE_H

#include "planner/search.h"

/* Measures the entries that fit, best estimate first, for about budget.tune_seconds together, chooses the fastest and
 * stores it in the device's wisdom. Does nothing if there is no choice. */
void falt_search_tune(falt_search *search);

/* Measures each entry that fits for about `seconds` and sorts. */
falt_status falt_search_measure(falt_search *search, double seconds);

#endif
