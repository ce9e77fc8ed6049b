/* Element types, and the only conversion of a double to an element. */
#include "core/types.h"

#include <math.h>
#include <string.h>

/* Half precision has 1 sign, 5 exponent and 10 mantissa bits (IEEE 754), bfloat16 1, 8 and 7. Both are converted from
 * double by integer arithmetic on the bits in one rounding; a conversion through float would round twice. */

static const struct {
  const char *name;
  size_t size;
  bool is_integer;
  falt_type accumulator;
  double min, max, epsilon, smallest, beyond;
} types[] = {
    [FALT_U8] = {"u8", 1, true, FALT_S32, 0, UINT8_MAX, 0, 1, INFINITY},
    [FALT_S8] = {"s8", 1, true, FALT_S32, INT8_MIN, INT8_MAX, 0, 1, INFINITY},
    [FALT_U16] = {"u16", 2, true, FALT_F64, 0, UINT16_MAX, 0, 1, INFINITY},
    [FALT_S16] = {"s16", 2, true, FALT_F64, INT16_MIN, INT16_MAX, 0, 1, INFINITY},
    [FALT_S32] = {"s32", 4, true, FALT_F64, INT32_MIN, INT32_MAX, 0, 1, INFINITY},
    [FALT_F16] = {"f16", 2, false, FALT_F32, -INFINITY, INFINITY, 0x1p-11, 0x1p-14, 0x1p16},
    [FALT_BF16] = {"bf16", 2, false, FALT_F32, -INFINITY, INFINITY, 0x1p-8, 0x1p-126, 0x1p128},
    [FALT_F32] = {"f32", 4, false, FALT_F32, -INFINITY, INFINITY, 0x1p-24, 0x1p-126, 0x1p128},
    [FALT_F64] = {"f64", 8, false, FALT_F64, -INFINITY, INFINITY, 0x1p-53, 0x1p-1022, INFINITY},
};
_Static_assert(sizeof types / sizeof *types == FALT_TYPE_COUNT, "a type has no row");

static bool is_known(falt_type type) {
  return (unsigned)type < FALT_TYPE_COUNT;
}

const char *falt_type_name(falt_type type) {
  return is_known(type) ? types[type].name : "unknown type";
}

size_t falt_type_size(falt_type type) {
  return is_known(type) ? types[type].size : 0;
}

bool falt_type_is_integer(falt_type type) {
  return is_known(type) && types[type].is_integer;
}

bool falt_type_is_float(falt_type type) {
  return is_known(type) && !types[type].is_integer;
}

bool falt_type_is_narrow(falt_type type) {
  return is_known(type) && types[type].size <= 2;
}

bool falt_type_is_byte(falt_type type) {
  return is_known(type) && types[type].is_integer && types[type].size == 1;
}

bool falt_type_is_half(falt_type type) {
  return is_known(type) && !types[type].is_integer && types[type].size == 2;
}

bool falt_type_fits_f32(falt_type type) {
  return falt_type_is_narrow(type) || type == FALT_F32;
}

falt_type falt_type_accumulator(falt_type type) {
  return types[type].accumulator;
}

falt_type falt_type_real(falt_type type) {
  return types[type].is_integer ? FALT_F32 : types[type].accumulator;
}

double falt_type_min(falt_type type) {
  return types[type].min;
}

double falt_type_max(falt_type type) {
  return types[type].max;
}

double falt_type_largest(falt_type type) {
  return fmax(fabs(types[type].min), types[type].max);
}

double falt_type_epsilon(falt_type type) {
  return types[type].epsilon;
}

double falt_type_smallest(falt_type type) {
  return types[type].smallest;
}

double falt_type_beyond(falt_type type) {
  return types[type].beyond;
}

int falt_type_find(const char *text, size_t length) {
  for (int i = 0; i < FALT_TYPE_COUNT; i++)
    if (strlen(types[i].name) == length && memcmp(types[i].name, text, length) == 0) return i;
  return -1;
}

static float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

float falt_from_f16(uint16_t bits) {
  const uint32_t sign = (uint32_t)(bits & 0x8000) << 16, magnitude = bits & 0x7fff;
  if (magnitude >= 0x7c00) return float_of(sign | 0x7f800000 | (magnitude & 0x3ff) << 13);
  if (magnitude >= 0x0400) return float_of(sign | ((magnitude << 13) + ((127 - 15) << 23)));
  return (sign ? -0x1p-24f : 0x1p-24f) * (float)magnitude; /* subnormal: a multiple of the smallest one */
}

float falt_from_bf16(uint16_t bits) {
  return float_of((uint32_t)bits << 16);
}

/* Rounds to a 16-bit format with the given mantissa bits and exponent bias. The exponent is above the mantissa during
 * rounding, so a carry moves to the next binade and finally to infinity. */
static uint16_t narrow(double value, int mantissa, int bias) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  const uint16_t sign = (uint16_t)(bits >> 48 & 0x8000);
  const uint16_t infinity = (uint16_t)((2 * bias + 1) << mantissa);
  const uint64_t hidden = UINT64_C(1) << 52, magnitude = bits & INT64_MAX;
  if (magnitude > 2047 * hidden) /* NaN: made quiet, keeps the leading bits of its payload */
    return (uint16_t)(sign | infinity | 1 << (mantissa - 1) | (magnitude & (hidden - 1)) >> (52 - mantissa));

  const int exponent = (int)(magnitude >> 52) - 1023 + bias;
  if (exponent > 2 * bias) return sign | infinity;
  uint64_t significand = magnitude & (hidden - 1);
  int drop = 52 - mantissa;
  if (exponent > 0) {
    significand |= (uint64_t)exponent << 52;
  } else { /* subnormal: the hidden bit is no longer hidden, and the farther down, the fewer bits stay */
    significand |= hidden;
    drop += 1 - exponent;
    if (drop > 53) return sign; /* below half of the smallest number */
  }
  const uint64_t below_half = (UINT64_C(1) << (drop - 1)) - 1, odd = significand >> drop & 1;
  return (uint16_t)(sign | (significand + below_half + odd) >> drop);
}

uint16_t falt_to_f16(double value) {
  return narrow(value, 10, 15);
}

uint16_t falt_to_bf16(double value) {
  return narrow(value, 7, 127);
}

double falt_load(const void *data, falt_type type, int64_t index) {
  switch (type) {
    case FALT_U8:
      return ((const uint8_t *)data)[index];
    case FALT_S8:
      return ((const int8_t *)data)[index];
    case FALT_U16:
      return ((const uint16_t *)data)[index];
    case FALT_S16:
      return ((const int16_t *)data)[index];
    case FALT_S32:
      return ((const int32_t *)data)[index];
    case FALT_F16:
      return falt_from_f16(((const uint16_t *)data)[index]);
    case FALT_BF16:
      return falt_from_bf16(((const uint16_t *)data)[index]);
    case FALT_F32:
      return ((const float *)data)[index];
    case FALT_F64:
      return ((const double *)data)[index];
    default:
      return NAN;
  }
}

/* Nearest integer in the type's range, ties to even, in any rounding mode. The part that truncation drops is exact. */
static int32_t to_integer(double value, falt_type type) {
  if (isnan(value)) return 0;
  if (value <= types[type].min) return (int32_t)types[type].min;
  if (value >= types[type].max) return (int32_t)types[type].max;
  int32_t whole = (int32_t)value;
  const double dropped = value - whole;
  if (dropped > 0.5 || (dropped == 0.5 && whole & 1)) whole++;
  if (dropped < -0.5 || (dropped == -0.5 && whole & 1)) whole--;
  return whole;
}

void falt_store(void *data, falt_type type, int64_t index, double value) {
  switch (type) {
    case FALT_U8:
      ((uint8_t *)data)[index] = (uint8_t)to_integer(value, type);
      break;
    case FALT_S8:
      ((int8_t *)data)[index] = (int8_t)to_integer(value, type);
      break;
    case FALT_U16:
      ((uint16_t *)data)[index] = (uint16_t)to_integer(value, type);
      break;
    case FALT_S16:
      ((int16_t *)data)[index] = (int16_t)to_integer(value, type);
      break;
    case FALT_S32:
      ((int32_t *)data)[index] = to_integer(value, type);
      break;
    case FALT_F16:
      ((uint16_t *)data)[index] = falt_to_f16(value);
      break;
    case FALT_BF16:
      ((uint16_t *)data)[index] = falt_to_bf16(value);
      break;
    case FALT_F32:
      ((float *)data)[index] = (float)value;
      break;
    case FALT_F64:
      ((double *)data)[index] = value;
      break;
    default:
      break;
  }
}
