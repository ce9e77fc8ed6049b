/* SplitMix64 (Steele, Lea, Flood 2014): seedable, the same everywhere, good enough for tests and data. */
#ifndef FALT_CORE_RANDOM_H
#define FALT_CORE_RANDOM_H

#include <stdint.h>

uint64_t falt_random(uint64_t *state);
/* Uniform in [low, high]. */
int64_t falt_random_int(uint64_t *state, int64_t low, int64_t high);
/* Uniform in [0, 1). */
double falt_random_unit(uint64_t *state);

#endif
