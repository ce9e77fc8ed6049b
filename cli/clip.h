/* Saturation: counts the outputs that an integer type clipped, and the range that would have held them all. */
#ifndef FALT_CLI_CLIP_H
#define FALT_CLI_CLIP_H

#include "io/io.h"

/* The least and the largest of some finite values; low > high: there were none. */
typedef struct cli_range {
  double low, high;
} cli_range;

/* The values of an integer type; false for other types. */
bool cli_clip_limits(falt_type type, cli_range *limits);
/* Whether a result of an integer type is the type's least or largest value, which alone clipping leaves. */
bool cli_clip_is_possible(const void *results, falt_type type, int64_t count);
/* Counts the exact values (f32 or f64) that are outside the type after rounding. */
int64_t cli_clip_count(const void *exact, falt_type exact_type, int64_t count, falt_type type);
/* Extends *range by the finite ones of the exact values (f32 or f64). */
void cli_clip_range(const void *exact, falt_type exact_type, int64_t count, cli_range *range);

#endif
