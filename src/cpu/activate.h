/* Activations of vectors, accurate to a few units in the last place of the argument or the output, whichever is larger.
 * Included by kernels after cpu/vector.h. */
#ifndef FALT_CPU_ACTIVATE_H
#define FALT_CPU_ACTIVATE_H

#include <math.h>

#include "core/types.h"
#include "cpu/vector.h"

/* In f32:
 *   exp      2^k * e^r with k = round(x / ln 2), |r| <= ln 2 / 2, e^r by its series
 *   tanh     1 - 2 / (e^2x + 1); by its series near 0, where that would cancel
 *   erf      1 - t*(a1 + ... + a5*t^4) * e^(-x^2) with t = 1 / (1 + p*x), x >= 0, and odd: C. Hastings, "Approximations
 *            for Digital Computers", 1955; M. Abramowitz, I. Stegun, "Handbook of Mathematical Functions", 7.1.26
 * In f64:
 *   exp      the same, with more terms
 *   tanh     m / (m + 2) with m = e^2x - 1 = 2^k*(e^r - 1) + 2^k - 1
 *   erf      of the C library, element by element */

FALT_INLINE vec vec_select(vec_bits mask, vec a, vec b) {
  return (vec)((mask & (vec_bits)a) | (~mask & (vec_bits)b));
}
/* NaN passes. */
FALT_INLINE vec vec_clip(vec x, vec low, vec high) {
#if FALT_VECTOR_BYTES == 64 && FALT_LANE_BITS == 32
  return (vec)_mm512_min_ps((__m512)high, _mm512_max_ps((__m512)low, (__m512)x));
#elif FALT_VECTOR_BYTES == 64
  return (vec)_mm512_min_pd((__m512d)high, _mm512_max_pd((__m512d)low, (__m512d)x));
#elif FALT_VECTOR_BYTES == 32 && FALT_LANE_BITS == 64
  return (vec)_mm256_min_pd((__m256d)high, _mm256_max_pd((__m256d)low, (__m256d)x));
#elif FALT_VECTOR_BYTES == 32
  return (vec)_mm256_min_ps((__m256)high, _mm256_max_ps((__m256)low, (__m256)x));
#else
  x = vec_select(x < low, low, x);
  return vec_select(x > high, high, x);
#endif
}

#if FALT_LANE_BITS == 32

FALT_INLINE vec vec_exp(vec x) {
  static const float least = -87, most = 88; /* results stay normal numbers */
  static const float factor = 1.44269504F, whole = 0x1.8p23F, ln2_high = 0x1.62e4p-1F, ln2_low = 0x1.7f7d1cp-20F;
  x = vec_clip(x, vec_all(least), vec_all(most));
  const vec shifted = vec_madd(vec_all(whole), x, vec_all(factor)), k = shifted - whole;
  const vec r = vec_madd(vec_madd(x, k, vec_all(-ln2_high)), k, vec_all(-ln2_low));
  static const float series[] = {1.0F / 720, 1.0F / 120, 1.0F / 24, 1.0F / 6, 1.0F / 2, 1, 1};
  vec sum = vec_all(1.0F / 5040);
  FALT_UNROLL
  for (int i = 0; i < 7; i++) sum = vec_madd(vec_all(series[i]), sum, r);
  const vec_bits one = (vec_bits)vec_all(1);
  return sum * (vec)(((vec_bits)shifted << 23) + one); /* the last bits of `shifted` are k */
}

FALT_INLINE vec vec_tanh(vec x) {
  static const float small = 0.35F;
  static const float series[] = {62.0F / 2835, -17.0F / 315, 2.0F / 15, -1.0F / 3, 1};
  const vec square = x * x;
  vec sum = vec_all(-1382.0F / 155925);
  FALT_UNROLL
  for (int i = 0; i < 5; i++) sum = vec_madd(vec_all(series[i]), sum, square);
  return vec_select((x > -small) & (x < small), x * sum, 1 - 2 / (vec_exp(2 * x) + 1));
}

FALT_INLINE vec vec_erf(vec x) {
  static const float p = 0.3275911F;
  static const float a[] = {-1.453152027F, 1.421413741F, -0.284496736F, 0.254829592F};
  const vec size = vec_select(x < 0, -x, x), t = 1 / (1 + p * size);
  vec sum = vec_all(1.061405429F);
  FALT_UNROLL
  for (int i = 0; i < 4; i++) sum = vec_madd(vec_all(a[i]), sum, t);
  const vec positive = 1 - sum * t * vec_exp(-size * size);
  return vec_select(x < 0, -positive, positive);
}

enum { SILU_VANISHES = -87, GELU_VANISHES = -13 }; /* y is smaller than any rounding error below */

#else

/* e^r - 1 with x = k*ln 2 + r; *power becomes 2^k. NaN passes. */
FALT_INLINE vec vec_exp_rest(vec x, vec *power) {
  static const double least = -708, most = 709; /* results stay normal numbers */
  static const double factor = 0x1.71547652b82fep0, whole = 0x1.8p52;
  static const double ln2_high = 0x1.62e42fefa38p-1, ln2_low = 0x1.ef35793c7673p-45;
  x = vec_clip(x, vec_all(least), vec_all(most));
  const vec shifted = vec_madd(vec_all(whole), x, vec_all(factor)), k = shifted - whole;
  const vec r = vec_madd(vec_madd(x, k, vec_all(-ln2_high)), k, vec_all(-ln2_low));
  static const double series[] = {1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040,
                                  1.0 / 720,       1.0 / 120,      1.0 / 24,      1.0 / 6,      1.0 / 2};
  vec sum = vec_all(1.0 / 6227020800);
  FALT_UNROLL
  for (int i = 0; i < 11; i++) sum = vec_madd(vec_all(series[i]), sum, r);
  *power = (vec)(((vec_bits)shifted << 52) + (vec_bits)vec_all(1)); /* the last bits of `shifted` are k */
  return vec_madd(r, sum, r * r);
}

FALT_INLINE vec vec_exp(vec x) {
  vec power;
  const vec rest = vec_exp_rest(x, &power);
  return vec_madd(power, power, rest);
}

FALT_INLINE vec vec_tanh(vec x) {
  static const double whole = 20; /* 1 from there on */
  vec power;
  const vec rest = vec_exp_rest(2 * vec_clip(x, vec_all(-whole), vec_all(whole)), &power);
  const vec more = vec_madd(power - 1, power, rest);
  return more / (more + 2);
}

FALT_INLINE vec vec_erf(vec x) {
  for (int i = 0; i < VEC; i++) x[i] = erf(x[i]);
  return x;
}

enum { SILU_VANISHES = -708, GELU_VANISHES = -39 };

#endif

FALT_INLINE vec vec_sigmoid(vec x) {
  return 1 / (1 + vec_exp(-x));
}

/* y, or the limit of SiLU and GELU for x below a bound, from which on y is smaller than any rounding error. NaN passes.
 */
FALT_INLINE vec vec_vanish(vec x, lane below, vec y) {
  return vec_select(x < below, vec_all((lane)-0.0), y);
}

/* The activations that are not a clip; a is the slope of leaky ReLU. */
FALT_INLINE vec vec_bend(vec x, falt_activation activation, lane a) {
  switch (activation) {
    case FALT_LEAKY:
      return vec_select(x < 0, a * x, x);
    case FALT_SILU:
      return vec_vanish(x, SILU_VANISHES, x * vec_sigmoid(x));
    case FALT_GELU:
      return vec_vanish(x, GELU_VANISHES, x * (lane)0.5 * (1 + vec_erf(x * (lane)0.70710678118654752)));
    case FALT_SIGMOID:
      return vec_sigmoid(x);
    case FALT_TANH:
      return vec_tanh(x);
    default:
      return x;
  }
}

#endif
