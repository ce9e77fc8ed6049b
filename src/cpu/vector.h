/* Vectors of FALT_VECTOR_BYTES of `lane`, by the compiler's vector extensions. Define FALT_LANE_BITS before including
 * it. */
#ifndef FALT_CPU_VECTOR_H
#define FALT_CPU_VECTOR_H

#include <stdint.h>
#include <string.h>

#include "core/sanitize.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>

/* All arithmetic is plain C on `vec`. Only partial access (the tail of a row, not a byte beyond it) and non-temporal
 * stores use intrinsics. */

#endif

#if FALT_LANE_BITS == 32
typedef float lane;
typedef int32_t lane_bits;
#else
typedef double lane;
typedef int64_t lane_bits;
#endif

#define FALT_INLINE static inline __attribute__((always_inline))
/* Partial access; tested lane by lane under a sanitizer, where only one copy of it is compiled. */
#if defined(FALT_SANITIZED)
#define FALT_INLINE_PART static inline __attribute__((noinline))
#else
#define FALT_INLINE_PART FALT_INLINE
#endif
/* Before a loop of known count over registers. */
#if defined(__clang__)
#define FALT_UNROLL _Pragma("clang loop unroll(full)")
#else
#define FALT_UNROLL _Pragma("GCC unroll 16")
#endif

enum { VEC = FALT_VECTOR_BYTES / (FALT_LANE_BITS / 8) }; /* elements */
typedef lane vec __attribute__((vector_size(FALT_VECTOR_BYTES)));
typedef lane vec_unaligned __attribute__((vector_size(FALT_VECTOR_BYTES), aligned(FALT_LANE_BITS / 8), may_alias));
typedef lane_bits vec_bits __attribute__((vector_size(FALT_VECTOR_BYTES)));

FALT_INLINE vec vec_load(const lane *p) {
  return *(const vec_unaligned *)p;
}
FALT_INLINE void vec_store(lane *p, vec v) {
  *(vec_unaligned *)p = v;
}
FALT_INLINE vec vec_all(lane x) {
  return x - (vec){0};
}

FALT_INLINE vec_bits load_bits(const void *p) {
  vec_bits v;
  memcpy(&v, p, sizeof v);
  return v;
}
FALT_INLINE vec_bits all_bits(lane_bits x) {
  return x - (vec_bits){0};
}

/* The same value, but in a register from here on: without it compilers load an input again for each of its uses. The
 * memory sanitizer takes operands of assembly for used, lanes that nobody stores among them, so there it does nothing.
 */
FALT_INLINE vec vec_keep(vec v) {
#if defined(FALT_MSAN)
#elif defined(__x86_64__)
  __asm__("" : "+v"(v));
#elif defined(__aarch64__)
  __asm__("" : "+w"(v));
#endif
  return v;
}

/* sum + a*b, rounded once if the instruction set can. With intrinsics, because compilers fuse some such expressions and
 * not others, and the same sum must have the same bits in every kernel. */
FALT_INLINE vec vec_madd(vec sum, vec a, vec b) {
#if FALT_VECTOR_BYTES == 64 && FALT_LANE_BITS == 32
  return (vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)sum);
#elif FALT_VECTOR_BYTES == 64
  return (vec)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)sum);
#elif FALT_VECTOR_BYTES == 32 && FALT_LANE_BITS == 32
  return (vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)sum);
#elif FALT_VECTOR_BYTES == 32
  return (vec)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)sum);
#elif defined(__aarch64__) && FALT_LANE_BITS == 32
  return (vec)vfmaq_f32((float32x4_t)sum, (float32x4_t)a, (float32x4_t)b);
#elif defined(__aarch64__)
  return (vec)vfmaq_f64((float64x2_t)sum, (float64x2_t)a, (float64x2_t)b);
#else
  return sum + a * b;
#endif
}

/* All bits set in the first n elements. */
FALT_INLINE vec_bits vec_first(int n) {
  vec_bits index;
  for (int i = 0; i < VEC; i++) index[i] = i;
  return index < n;
}

/* The first n of VEC elements, 1 <= n <= VEC; the others read as zero. */
FALT_INLINE_PART vec vec_load_part(const lane *p, int n) {
#if FALT_VECTOR_BYTES == 64 && FALT_LANE_BITS == 32
  return (vec)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
#elif FALT_VECTOR_BYTES == 64
  return (vec)_mm512_maskz_loadu_pd((__mmask8)((1u << n) - 1), p);
#elif FALT_VECTOR_BYTES == 32 && FALT_LANE_BITS == 32
  return (vec)_mm256_maskload_ps(p, (__m256i)vec_first(n));
#elif FALT_VECTOR_BYTES == 32
  return (vec)_mm256_maskload_pd(p, (__m256i)vec_first(n));
#else
  if (n == VEC) return vec_load(p);
  vec v = {p[0]};
  for (int i = 1; i < VEC; i++) v[i] = i < n ? p[i] : 0;
  return v;
#endif
}
FALT_INLINE_PART void vec_store_part(lane *p, vec v, int n) {
#if FALT_VECTOR_BYTES == 64 && FALT_LANE_BITS == 32
  _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)v);
#elif FALT_VECTOR_BYTES == 64
  _mm512_mask_storeu_pd(p, (__mmask8)((1u << n) - 1), (__m512d)v);
#elif FALT_VECTOR_BYTES == 32 && FALT_LANE_BITS == 32
  _mm256_maskstore_ps(p, (__m256i)vec_first(n), (__m256)v);
#elif FALT_VECTOR_BYTES == 32
  _mm256_maskstore_pd(p, (__m256i)vec_first(n), (__m256d)v);
#else
  if (n == VEC)
    vec_store(p, v);
  else
    for (int i = 0; i < n; i++) p[i] = v[i];
#endif
}

/* x[index[i]] for each i. */
FALT_INLINE vec vec_pick(vec x, vec_bits index) {
#if FALT_VECTOR_BYTES == 64 && FALT_LANE_BITS == 32
  return (vec)_mm512_permutexvar_ps((__m512i)index, (__m512)x);
#elif FALT_VECTOR_BYTES == 64
  return (vec)_mm512_permutexvar_pd((__m512i)index, (__m512d)x);
#elif FALT_VECTOR_BYTES == 32 && FALT_LANE_BITS == 32
  return (vec)_mm256_permutevar8x32_ps((__m256)x, (__m256i)index);
#elif FALT_VECTOR_BYTES == 32
  const vec_bits low = index + index, halves = low | (low + 1) << 32; /* of each element */
  return (vec)_mm256_permutevar8x32_ps((__m256)x, (__m256i)halves);
#else
  vec y;
  for (int i = 0; i < VEC; i++) y[i] = x[index[i]];
  return y;
#endif
}

/* Around the cache; p is aligned to FALT_VECTOR_BYTES. */
FALT_INLINE void vec_stream(lane *p, vec v) {
#if defined(__clang__)
  __builtin_nontemporal_store(v, (vec *)p);
#elif FALT_VECTOR_BYTES == 64
  _mm512_stream_si512((__m512i *)p, (__m512i)v);
#elif FALT_VECTOR_BYTES == 32
  _mm256_stream_si256((__m256i *)p, (__m256i)v);
#elif defined(__x86_64__)
  _mm_stream_si128((__m128i *)p, (__m128i)v);
#else
  *(vec *)p = v;
#endif
}
/* Makes non-temporal stores visible before later ones. */
FALT_INLINE void vec_stream_end(void) {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

#endif
