/* Timing as in FFTW's kernel/timer.c: one call to warm up, iterations doubled until a sample is far above the clock's
 * resolution, then samples until the time is over; the median tells what to expect, the minimum what the machine can.
 */
#include "planner/timer.h"

#include <stdlib.h>

#include "core/clock.h"

enum { MAX_SAMPLES = 128, MIN_SAMPLES = 3 };
static const double shortest_sample = 2e-5; /* reading the clock costs some 50 ns: a quarter of a percent of this */

typedef struct stopwatch {
  const falt_timed *timed;
  double end, sample[MAX_SAMPLES];
  int count;
} stopwatch;

static double elapsed(const stopwatch *watch, long iterations) {
  double measured = watch->timed->measure ? watch->timed->measure(watch->timed->context, iterations) : -1;
  if (measured >= 0) return measured;
  double start = falt_seconds();
  for (long i = 0; i < iterations; i++) watch->timed->body(watch->timed->context);
  if (watch->timed->finish) watch->timed->finish(watch->timed->context);
  return falt_seconds() - start;
}

/* The first sample, long enough, and the number of iterations behind it. */
static long calibrate(stopwatch *watch, double enough) {
  long iterations = 1;
  double seconds = elapsed(watch, iterations);
  while (seconds < enough && falt_seconds() < watch->end) {
    iterations *= 2;
    seconds = elapsed(watch, iterations);
  }
  watch->sample[watch->count++] = seconds / (double)iterations;
  return iterations;
}

static void collect(stopwatch *watch, long iterations) {
  while (watch->count < MAX_SAMPLES && (watch->count < MIN_SAMPLES || falt_seconds() < watch->end))
    watch->sample[watch->count++] = elapsed(watch, iterations) / (double)iterations;
}

static int rising(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

falt_timing falt_time(const falt_timed *timed, double seconds) {
  stopwatch watch = {.timed = timed, .end = falt_seconds() + seconds};
  double warm = elapsed(&watch, 1);
  if (warm >= seconds) return (falt_timing){warm, warm};
  double share = seconds / MAX_SAMPLES;
  long iterations = calibrate(&watch, share > shortest_sample ? share : shortest_sample);
  collect(&watch, iterations);
  qsort(watch.sample, (size_t)watch.count, sizeof watch.sample[0], rising);
  return (falt_timing){.median = watch.sample[watch.count / 2], .min = watch.sample[0]};
}
