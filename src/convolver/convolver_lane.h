/* Kernels of the convolver for one lane. Define FALT_LANE_BITS and FALT_CONVOLVER_LANE, the table's name without its
 * level, before. */
#include "convolver/convolver_kernels.h"
#include "cpu/vector.h"

/* ---- the first taps */

FALT_INLINE void sums(const lane *x, const lane *h, int64_t taps, lane *y, int vectors) {
  vec sum[8] = {{0}};
  for (int64_t j = 0; j < taps; j++) {
    const vec tap = vec_all(h[j]);
    FALT_UNROLL
    for (int q = 0; q < vectors; q++) sum[q] = vec_madd(sum[q], tap, vec_load(x - j + q * VEC));
  }
  FALT_UNROLL
  for (int q = 0; q < vectors; q++) vec_store(y + q * VEC, vec_load(y + q * VEC) + sum[q]);
}

static void head(const void *x, const void *h, int64_t taps, void *y, int64_t n) {
  const lane *from = x;
  lane *to = y;
  for (; n > 4 * VEC; n -= 8 * VEC, from += 8 * VEC, to += 8 * VEC) sums(from, h, taps, to, 8);
  for (; n > VEC; n -= 4 * VEC, from += 4 * VEC, to += 4 * VEC) sums(from, h, taps, to, 4);
  if (n > 0) sums(from, h, taps, to, 1);
}

/* ---- signals */

static void add(void *y, const void *x, int64_t n) {
  for (int64_t i = 0; i < n; i++) ((lane *)y)[i] += ((const lane *)x)[i];
}

static void fade(void *y, const void *x, int64_t n, int64_t at, double step) {
  lane *to = y;
  for (int64_t i = 0; i < n; i++) {
    const double share = (double)(at + i) * step;
    const lane other = ((const lane *)x)[i];
    to[i] = share < 1 ? (lane)((double)to[i] + ((double)other - (double)to[i]) * share) : other;
  }
}

/* ---- transforms */

static void twist(const void *a, const void *b, const void *twiddles, void *re, void *im, int64_t n) {
  const lane *cosine = twiddles, *sine = cosine + n;
  for (int64_t i = 0; i < n; i += VEC) {
    const vec p = vec_load((const lane *)a + i), q = vec_load((const lane *)b + i);
    const vec c = vec_load(cosine + i), s = vec_load(sine + i);
    vec_store((lane *)re + i, p * c + q * s);
    vec_store((lane *)im + i, p * s - q * c);
  }
}

static void untwist(const void *re, const void *im, const void *twiddles, void *b, int64_t n) {
  const lane *cosine = twiddles, *sine = cosine + n;
  for (int64_t i = 0; i < n; i += VEC) {
    const vec p = vec_load((const lane *)re + i), q = vec_load((const lane *)im + i);
    vec_store((lane *)b + i, p * vec_load(sine + i) - q * vec_load(cosine + i));
  }
}

static void multiply(void *sum, const void *a, const void *b, int64_t n) {
  for (int64_t i = 0; i < 2 * n; i += 2 * VEC) {
    lane *to = (lane *)sum + i;
    const vec p = vec_load((const lane *)a + i), q = vec_load((const lane *)a + i + VEC);
    const vec r = vec_load((const lane *)b + i), s = vec_load((const lane *)b + i + VEC);
    vec_store(to, vec_madd(vec_madd(vec_load(to), p, r), -q, s));
    vec_store(to + VEC, vec_madd(vec_madd(vec_load(to + VEC), p, s), q, r));
  }
}

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
extern const falt_convolver_lane JOIN(FALT_CONVOLVER_LANE, FALT_ISA_SUFFIX);
const falt_convolver_lane JOIN(FALT_CONVOLVER_LANE, FALT_ISA_SUFFIX) = {head, add, fade, twist, untwist, multiply};
