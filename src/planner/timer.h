/* The timing rule for work of nanoseconds to minutes. */
#ifndef FALT_PLANNER_TIMER_H
#define FALT_PLANNER_TIMER_H

typedef struct falt_timing {
  double median, min; /* seconds of one call */
} falt_timing;

/* The timed work. `finish`, if not NULL, waits for the work of all earlier bodies, once a sample. `measure`, if not
 * NULL, calls the body a number of times and returns the seconds by the device's own clock, which excludes launch
 * overhead of the host; negative if that clock fails, and then the host's clock counts. */
typedef struct falt_timed {
  void (*body)(void *context);
  void (*finish)(void *context);
  void *context;
  double (*measure)(void *context, long iterations);
} falt_timed;

/* Calls body(context) again and again for about `seconds`, at least once. Ends soon once the call is cancelled; its
 * times then mean nothing. */
falt_timing falt_time(const falt_timed *timed, double seconds);

#endif
