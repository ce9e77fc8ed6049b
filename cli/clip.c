/* Saturation: counts the outputs that an integer type clipped, and the range that would have held them all. */
#include "clip.h"

#include <math.h>

static const struct {
  falt_type type;
  cli_range limits;
} types[] = {{FALT_U8, {0, UINT8_MAX}},
             {FALT_S8, {INT8_MIN, INT8_MAX}},
             {FALT_U16, {0, UINT16_MAX}},
             {FALT_S16, {INT16_MIN, INT16_MAX}},
             {FALT_S32, {INT32_MIN, INT32_MAX}}};
enum { TYPES = sizeof types / sizeof *types };

bool cli_clip_limits(falt_type type, cli_range *limits) {
  for (int i = 0; i < TYPES; i++) {
    if (types[i].type != type) continue;
    *limits = types[i].limits;
    return true;
  }
  return false;
}

/* Whether any element is one of two; one line a type, which compilers vectorise. */
#define ANY(name, element)                                                                 \
  static bool name(const element *values, int64_t count, element low, element high) {      \
    bool found = false;                                                                    \
    for (int64_t i = 0; i < count; i++) found |= (values[i] == low) | (values[i] == high); \
    return found;                                                                          \
  }
ANY(any_u8, uint8_t)
ANY(any_s8, int8_t)
ANY(any_u16, uint16_t)
ANY(any_s16, int16_t)
ANY(any_s32, int32_t)

bool cli_clip_is_possible(const void *results, falt_type type, int64_t count) {
  switch (type) {
    case FALT_U8:
      return any_u8(results, count, 0, UINT8_MAX);
    case FALT_S8:
      return any_s8(results, count, INT8_MIN, INT8_MAX);
    case FALT_U16:
      return any_u16(results, count, 0, UINT16_MAX);
    case FALT_S16:
      return any_s16(results, count, INT16_MIN, INT16_MAX);
    case FALT_S32:
      return any_s32(results, count, INT32_MIN, INT32_MAX);
    default:
      return false;
  }
}

/* Ties go to even: the largest value is odd, so that a half above it is outside; the least is even, and a half below it
 * is not. */
int64_t cli_clip_count(const void *exact, falt_type exact_type, int64_t count, falt_type type) {
  const float *f32 = exact;
  const double *f64 = exact;
  cli_range limits;
  int64_t clipped = 0;
  if (!cli_clip_limits(type, &limits)) return 0;
  const double low = limits.low - 0.5, high = limits.high + 0.5;
  for (int64_t i = 0; exact_type == FALT_F32 && i < count; i++)
    clipped += ((double)f32[i] < low) | ((double)f32[i] >= high);
  for (int64_t i = 0; exact_type == FALT_F64 && i < count; i++) clipped += (f64[i] < low) | (f64[i] >= high);
  return clipped;
}

void cli_clip_range(const void *exact, falt_type exact_type, int64_t count, cli_range *range) {
  const float *f32 = exact;
  const double *f64 = exact;
  for (int64_t i = 0; i < count; i++) {
    const double value = exact_type == FALT_F32 ? (double)f32[i] : f64[i];
    if (!isfinite(value)) continue;
    range->low = fmin(range->low, value);
    range->high = fmax(range->high, value);
  }
}
