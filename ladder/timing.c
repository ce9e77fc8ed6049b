/* The clock of all steps. */
#include "ladder/timing.h"

#include <math.h>

#include "core/clock.h"

double ladder_least_time(ladder_body body, void *context, double seconds) {
  double least = INFINITY, once = 0;
  long runs = 1; /* of a sample: long enough for the clock and, on a GPU, for the wait at its end */
  for (const double end = falt_seconds() + seconds; isinf(least) || falt_seconds() < end;) {
    const double start = falt_seconds();
    body(context, runs);
    once = falt_seconds() - start;
    least = fmin(least, once / (double)runs);
    if (once < seconds / 32 && runs < 1 << 16) runs *= 2;
  }
  return least;
}
