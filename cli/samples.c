/* Samples of one channel among interleaved ones, as the numbers that a convolver takes. */
#include "samples.h"

#include <math.h>

/* ---- from any type to a lane and back; a function for each pair */

#define LOAD(name, element, lane)                                             \
  static void name(const void *from, int64_t step, int64_t count, void *to) { \
    const element *samples = from;                                            \
    lane *values = to;                                                        \
    for (int64_t i = 0; i < count; i++) values[i] = (lane)samples[i * step];  \
  }

/* low > high: a type of floating point, which is not rounded. */
#define STORE(name, lane, element, low, high)                                                                          \
  static void name(const void *from, int64_t skip, int64_t count, double alpha, double beta, void *to, int64_t step) { \
    const lane *values = from;                                                                                         \
    element *samples = to;                                                                                             \
    for (int64_t i = 0; i < count; i++) {                                                                              \
      const double value = alpha * (double)values[i * skip] + beta;                                                    \
      samples[i * step] = (element)((low) > (high) ? value : fmin(fmax(rint(value), low), high));                      \
    }                                                                                                                  \
  }

#define BOTH(type, element, low, high)               \
  LOAD(load_##type##_f32, element, float)            \
  LOAD(load_##type##_f64, element, double)           \
  STORE(store_f32_##type, float, element, low, high) \
  STORE(store_f64_##type, double, element, low, high)

BOTH(u8, uint8_t, 0, UINT8_MAX)
BOTH(s8, int8_t, INT8_MIN, INT8_MAX)
BOTH(u16, uint16_t, 0, UINT16_MAX)
BOTH(s16, int16_t, INT16_MIN, INT16_MAX)
BOTH(s32, int32_t, INT32_MIN, INT32_MAX)
BOTH(f32, float, 1, 0)
BOTH(f64, double, 1, 0)

#define ROW(type)                           \
  {load_##type##_f32, load_##type##_f64}, { \
    store_f32_##type, store_f64_##type      \
  }
static const struct {
  falt_type type;
  void (*load[2])(const void *from, int64_t step, int64_t count, void *to);
  void (*store[2])(const void *from, int64_t skip, int64_t count, double alpha, double beta, void *to, int64_t step);
} types[] = {{FALT_U8, ROW(u8)},   {FALT_S8, ROW(s8)},   {FALT_U16, ROW(u16)}, {FALT_S16, ROW(s16)},
             {FALT_S32, ROW(s32)}, {FALT_F32, ROW(f32)}, {FALT_F64, ROW(f64)}};
enum { TYPES = sizeof types / sizeof *types };

static int index_of(falt_type type) {
  for (int i = 0; i < TYPES; i++)
    if (types[i].type == type) return i;
  return -1;
}

bool cli_samples_known(falt_type type) {
  return index_of(type) >= 0;
}

void cli_samples_load(const void *from, falt_type type, int64_t step, int64_t count, void *to, falt_type lane) {
  types[index_of(type)].load[lane == FALT_F64](from, step, count, to);
}

void cli_samples_store(const void *from, falt_type lane, int64_t skip, int64_t count, double alpha, double beta,
                       void *to, falt_type type, int64_t step) {
  types[index_of(type)].store[lane == FALT_F64](from, skip, count, alpha, beta, to, step);
}

/* ---- values that are not finite */

/* The difference of such a value from itself is not zero. */
#define CLEAN(name, lane)                                                        \
  static void name(lane *values, int64_t count, int64_t *first, int64_t *last) { \
    int found = 0;                                                               \
    *first = count, *last = -1;                                                  \
    for (int64_t i = 0; i < count; i++) found |= !(values[i] - values[i] == 0);  \
    for (int64_t i = 0; found && i < count; i++) {                               \
      if (isfinite(values[i])) continue;                                         \
      *first = *first < i ? *first : i;                                          \
      *last = i;                                                                 \
      values[i] = 0;                                                             \
    }                                                                            \
  }
CLEAN(clean_f32, float)
CLEAN(clean_f64, double)

void cli_samples_clean(void *values, falt_type lane, int64_t count, int64_t *first, int64_t *last) {
  if (lane == FALT_F64)
    clean_f64(values, count, first, last);
  else
    clean_f32(values, count, first, last);
}
