/* Element types: names, sizes, and the definition of reading, rounding and saturating a value. */
#ifndef FALT_CORE_TYPES_H
#define FALT_CORE_TYPES_H

#include "faltung/faltung.h"

/* Traits of a type, one row of one table. A public type that is no enumerator has none: callers check it first. */
bool falt_type_is_integer(falt_type type);
bool falt_type_is_float(falt_type type);
bool falt_type_is_narrow(falt_type type); /* 16 bits or fewer */
bool falt_type_is_byte(falt_type type);   /* an integer of 8 bits */
bool falt_type_is_half(falt_type type);   /* a float of 16 bits */
bool falt_type_fits_f32(falt_type type);  /* every value is an f32 */
/* The type that sums products of two values of this type, and the same among floats: bias and scale have that type. */
falt_type falt_type_accumulator(falt_type type);
falt_type falt_type_real(falt_type type);
/* Range of an integer type as doubles; +-infinity for floats. */
double falt_type_min(falt_type type);
double falt_type_max(falt_type type);
/* The largest magnitude of both ends. */
double falt_type_largest(falt_type type);
/* Unit roundoff: the error of one operation relative to the result. 0 for integers, 2^-24 for f32. */
double falt_type_epsilon(falt_type type);
/* Of floats: the smallest normal number, and the power of two where rounding gives infinity. */
double falt_type_smallest(falt_type type);
double falt_type_beyond(falt_type type);
int falt_type_find(const char *text, size_t length); /* -1 if unknown */

/* IEEE 754 half and bfloat16 as bit patterns, rounding to nearest, ties to even, keeping NaN and infinity. From double
 * in one rounding. */
float falt_from_f16(uint16_t bits);
float falt_from_bf16(uint16_t bits);
uint16_t falt_to_f16(double value);
uint16_t falt_to_bf16(double value);

/* data[index] as a double (exact for every type). */
double falt_load(const void *data, falt_type type, int64_t index);
/* data[index] = value: integers are rounded to the nearest, ties to even, and saturated, NaN becomes 0 there; floats
 * are rounded once. */
void falt_store(void *data, falt_type type, int64_t index, double value);

#endif
