/* The timing rule, written once: how long does something take that may take nanoseconds or minutes? */
#ifndef FALT_PLANNER_TIMER_H
#define FALT_PLANNER_TIMER_H

typedef struct falt_timing {
  double median, min; /* seconds of one call */
} falt_timing;

/* Calls body(context) again and again for about `seconds`, at least once. */
falt_timing falt_time(void (*body)(void *context), void *context, double seconds);

#endif
