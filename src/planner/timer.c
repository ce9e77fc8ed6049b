/* Timing as in FFTW's kernel/timer.c: one warm-up call, iterations doubled until a sample is far above the clock's
 * resolution, then samples until the time is over. The median is the expected time, the minimum the best possible one.
 */
#include "planner/timer.h"

#include <stdlib.h>

#include "core/call.h"
#include "core/clock.h"

enum { MAX_SAMPLES = 128, MIN_SAMPLES = 3 };
#define WARM_SHARE 0.5 /* of the progress of a body that is slow; a fast one tells nothing so soon */
static const double shortest_sample = 2e-5; /* reading the clock costs some 50 ns: a quarter of a percent of this */

typedef struct stopwatch {
  const falt_timed *timed;
  double begin, end, sample[MAX_SAMPLES];
  int count;
} stopwatch;

static double elapsed_alone(const stopwatch *watch, long iterations) {
  double measured = watch->timed->measure ? watch->timed->measure(watch->timed->context, iterations) : -1;
  if (measured >= 0) return measured;
  double start = falt_seconds();
  for (long i = 0; i < iterations && !falt_cancelled(); i++) watch->timed->body(watch->timed->context);
  if (watch->timed->finish) watch->timed->finish(watch->timed->context);
  return falt_seconds() - start;
}

/* Progress is that of the time; the body's own reports are suppressed. */
static double elapsed(const stopwatch *watch, long iterations) {
  const double over = (falt_seconds() - watch->begin) / (watch->end - watch->begin);
  const double share = WARM_SHARE + (1 - WARM_SHARE) * (over < 1 ? over : 1);
  const falt_progress_range all = falt_progress_enter(share, share);
  const double seconds = elapsed_alone(watch, iterations);
  falt_progress_leave(all);
  return seconds;
}

/* One call, which may take longer than all the time. */
static double warm_up(const stopwatch *watch) {
  const falt_progress_range all = falt_progress_enter(0, WARM_SHARE);
  const double seconds = elapsed_alone(watch, 1);
  falt_progress_leave(all);
  return seconds;
}

/* The first sample, long enough, and the number of iterations behind it. */
static long calibrate(stopwatch *watch, double enough) {
  long iterations = 1;
  double seconds = elapsed(watch, iterations);
  while (seconds < enough && falt_seconds() < watch->end && !falt_cancelled()) {
    iterations *= 2;
    seconds = elapsed(watch, iterations);
  }
  watch->sample[watch->count++] = seconds / (double)iterations;
  return iterations;
}

static void collect(stopwatch *watch, long iterations) {
  while (watch->count < MAX_SAMPLES && (watch->count < MIN_SAMPLES || falt_seconds() < watch->end) && !falt_cancelled())
    watch->sample[watch->count++] = elapsed(watch, iterations) / (double)iterations;
}

static int rising(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

falt_timing falt_time(const falt_timed *timed, double seconds) {
  const double begin = falt_seconds();
  stopwatch watch = {.timed = timed, .begin = begin, .end = begin + seconds};
  double warm = warm_up(&watch);
  if (warm >= seconds) return (falt_timing){warm, warm};
  double share = seconds / MAX_SAMPLES;
  long iterations = calibrate(&watch, share > shortest_sample ? share : shortest_sample);
  collect(&watch, iterations);
  qsort(watch.sample, (size_t)watch.count, sizeof watch.sample[0], rising);
  return (falt_timing){.median = watch.sample[watch.count / 2], .min = watch.sample[0]};
}
