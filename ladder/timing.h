/* Private to the ladder: the clock of all steps. */
#ifndef FALT_LADDER_TIMING_H
#define FALT_LADDER_TIMING_H

#include "ladder/ladder.h"

/* Runs the work a number of times, and returns when it is done. */
typedef void (*ladder_body)(void *context, long runs);

/* Least seconds of one run, of samples that last long enough, until the seconds are over. */
double ladder_least_time(ladder_body body, void *context, double seconds);

falt_status ladder_cuda_time(const ladder_step *step, const ladder_task *task, double seconds, double *least);

#endif
