/* Monotonic time. */
#include "core/clock.h"

#include <time.h>

double falt_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

double falt_seconds_coarse(void) {
#ifdef CLOCK_MONOTONIC_COARSE
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
#else
  return falt_seconds();
#endif
}
