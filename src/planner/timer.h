/* The timing rule for work of nanoseconds to minutes. */
#ifndef FALT_PLANNER_TIMER_H
#define FALT_PLANNER_TIMER_H

typedef struct falt_timing {
  double median, min; /* seconds of one call */
} falt_timing;

/* What is timed. `finish`, where there is one, waits for what the bodies before have started: once a sample. `measure`,
 * where there is one, calls the body so many times in a row and returns the seconds by a clock of the device's own,
 * which does not see what calling costs the host; negative where that clock fails, and the host's then counts. */
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
