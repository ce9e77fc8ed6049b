/* Element conversions without branches, which compilers vectorize: selects, bit casts and arithmetic. */
#ifndef FALT_CPU_CONVERT_H
#define FALT_CPU_CONVERT_H

#include <stdint.h>
#include <string.h>

#include "core/types.h"
#include "cpu/vector.h"

/* Rounding to integers adds 1.5 * 2^(mantissa bits): the last bits of the sum are the integer, which the addition
 * rounds to nearest, ties to even. f16 uses the same idea with powers of two around the subnormals. f64 goes to f16 and
 * bf16 through an f32 rounded to odd, which makes two roundings equal to one (Boldo, Melquiond, 2008). */

FALT_INLINE uint32_t bits_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}
FALT_INLINE float float_of(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

FALT_INLINE float f32_from_f16(uint16_t h) {
  uint32_t magnitude = (uint32_t)(h & 0x7fff) << 13, sign = (uint32_t)(h & 0x8000) << 16;
  float finite = float_of(magnitude) * 0x1p112f; /* re-biases the exponent; exact for subnormals too */
  uint32_t special = magnitude | 0x7f800000u;
  return float_of(((h & 0x7c00) == 0x7c00 ? special : bits_of(finite)) | sign);
}
FALT_INLINE float f32_from_bf16(uint16_t h) {
  return float_of((uint32_t)h << 16);
}

FALT_INLINE uint16_t f16_from_f32(float x) {
  uint32_t bits = bits_of(x), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffffu;
  uint32_t rounded = magnitude - (112u << 23) + 0xfff + (magnitude >> 13 & 1); /* normal results */
  uint32_t small = bits_of(float_of(magnitude) + 0.5f) - 0x3f000000u;          /* subnormal results */
  uint32_t large =
      magnitude > 0x7f800000u ? 0x7e00u | (magnitude >> 13 & 0x3ff) : 0x7c00u; /* NaN, infinity, overflow */
  uint32_t value = magnitude < (113u << 23) ? small : rounded >> 13;
  return (uint16_t)((magnitude >= 0x477ff000u ? large : value) | sign);
}
FALT_INLINE uint16_t bf16_from_f32(float x) {
  uint32_t bits = bits_of(x);
  uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16, quiet = bits >> 16 | 0x40;
  return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}

/* To f32, inexact results with the last bit set: a later rounding to fewer bits sees which side it is on. */
FALT_INLINE float f32_to_odd(double x) {
  float near = (float)x;
  double back = near, size = x < 0 ? -x : x, near_size = back < 0 ? -back : back;
  uint32_t bits = bits_of(near);
  uint32_t odd = (bits - (near_size > size ? 1u : 0u)) | 1u;
  return float_of(back == x || x != x ? bits : odd);
}

/* In [low, high], bounds of at most 22 bits; NaN gives 0. */
FALT_INLINE int32_t round_f32(float x, float low, float high) {
  float number = x == x ? x : 0.0f;
  float above = number < low ? low : number;
  float inside = above > high ? high : above;
  return (int32_t)(bits_of(inside + 0x1.8p23f) - 0x4b400000u);
}
/* In [low, high], bounds of at most 32 bits; NaN gives 0. */
FALT_INLINE int64_t round_f64(double x, double low, double high) {
  double number = x == x ? x : 0.0;
  double above = number < low ? low : number;
  double inside = (above > high ? high : above) + 0x1.8p52;
  int64_t bits;
  memcpy(&bits, &inside, sizeof bits);
  return bits - INT64_C(0x4338000000000000);
}

/* The larger and the smaller of two; x where that is not a number. */
FALT_INLINE vec vec_at_least(vec x, vec low) {
#if FALT_VECTOR_BYTES == 64
  return (vec)_mm512_max_ps((__m512)low, (__m512)x);
#elif FALT_VECTOR_BYTES == 32
  return (vec)_mm256_max_ps((__m256)low, (__m256)x);
#else
  vec_bits below = x < low;
  return (vec)((below & (vec_bits)low) | (~below & (vec_bits)x));
#endif
}
FALT_INLINE vec vec_at_most(vec x, vec high) {
#if FALT_VECTOR_BYTES == 64
  return (vec)_mm512_min_ps((__m512)high, (__m512)x);
#elif FALT_VECTOR_BYTES == 32
  return (vec)_mm256_min_ps((__m256)high, (__m256)x);
#else
  vec_bits above = x > high;
  return (vec)((above & (vec_bits)high) | (~above & (vec_bits)x));
#endif
}
/* To the nearest integer, of at most 22 bits, to even between two; not a number gives 0. */
FALT_INLINE vec_bits vec_round(vec x) {
#if FALT_VECTOR_BYTES == 64
  return (vec_bits)_mm512_maskz_cvtps_epi32(_mm512_cmp_ps_mask((__m512)x, (__m512)x, _CMP_ORD_Q), (__m512)x);
#elif FALT_VECTOR_BYTES == 32
  return (vec_bits)_mm256_cvtps_epi32((__m256)((vec_bits)x & (x == x)));
#else
  vec_bits number = x == x;
  return ((vec_bits)(x + 0x1.8p23f) - 0x4b400000) & number;
#endif
}

/* VEC integers to VEC elements of `size` bytes, 1 or 2. Signed steps, which instruction sets have for every width. */
FALT_INLINE void store_narrow(void *dst, size_t size, vec_bits v) {
  typedef int16_t words __attribute__((vector_size(FALT_VECTOR_BYTES / 2)));
  typedef int8_t bytes __attribute__((vector_size(FALT_VECTOR_BYTES / 4)));
  if (size == 2) {
    words narrow = __builtin_convertvector(v, words);
    memcpy(dst, &narrow, sizeof narrow);
  } else {
#if FALT_VECTOR_BYTES == 64
    bytes narrow = __builtin_convertvector(v, bytes);
#else
    bytes narrow = __builtin_convertvector(__builtin_convertvector(v, words), bytes);
#endif
    memcpy(dst, &narrow, sizeof narrow);
  }
}

/* Four times VEC integers within the range of `size` bytes: bytes are packed to one whole vector. */
FALT_INLINE void store_four(void *dst, size_t size, const vec_bits v[4]) {
#if FALT_VECTOR_BYTES == 64
  if (size == 1) {
    /* Packing works within quarters of a register: unsigned words keep the low bytes of either sign. */
    const __m512i low = _mm512_set1_epi32(0xff),
                  order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    __m512i part[4];
    for (int k = 0; k < 4; k++) part[k] = _mm512_and_si512((__m512i)v[k], low);
    const __m512i bytes =
        _mm512_packus_epi16(_mm512_packus_epi32(part[0], part[1]), _mm512_packus_epi32(part[2], part[3]));
    _mm512_storeu_si512(dst, _mm512_permutexvar_epi32(order, bytes));
    return;
  }
#endif
  for (int k = 0; k < 4; k++) store_narrow((char *)dst + (size_t)(k * VEC) * size, size, v[k]);
}

/* VEC halves in and out. */
FALT_INLINE vec load_bf16(const void *from) {
#if FALT_VECTOR_BYTES == 64
  return (vec)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)from)), 16);
#elif FALT_VECTOR_BYTES == 32
  return (vec)_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)from)), 16);
#else
  vec wide;
  for (int i = 0; i < VEC; i++) wide[i] = f32_from_bf16(((const uint16_t *)from)[i]);
  return wide;
#endif
}
FALT_INLINE vec load_f16(const void *from) {
#if FALT_VECTOR_BYTES == 64
  return (vec)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)from));
#elif FALT_VECTOR_BYTES == 32
  return (vec)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)from));
#else
  vec wide;
  for (int i = 0; i < VEC; i++) wide[i] = f32_from_f16(((const uint16_t *)from)[i]);
  return wide;
#endif
}
FALT_INLINE void store_bf16(void *to, vec y) {
  const vec_bits one = (vec_bits){0} + 1, bits = (vec_bits)y, up = bits >> 16 & one;
  const vec_bits number = y == y, rounded = (bits + 0x7fff + up) >> 16, quiet = bits >> 16 | 0x40;
  store_narrow(to, 2, (number & rounded) | (~number & quiet));
}
/* Saturated integers; not a number gives 0. */
FALT_INLINE void store_s32(void *to, vec y) {
#if FALT_VECTOR_BYTES == 64
  const __m512 x = (__m512)y;
  const __m512i near = _mm512_maskz_cvtps_epi32(_mm512_cmp_ps_mask(x, x, _CMP_ORD_Q), x); /* the lowest if beyond */
  const __mmask16 beyond = _mm512_cmp_ps_mask(x, _mm512_set1_ps(0x1p31f), _CMP_GE_OQ);
  _mm512_storeu_si512(to, _mm512_mask_mov_epi32(near, beyond, _mm512_set1_epi32(INT32_MAX)));
#elif FALT_VECTOR_BYTES == 32
  const __m256i near = _mm256_cvtps_epi32((__m256)((vec_bits)y & (y == y)));
  const __m256i beyond = (__m256i)(y >= vec_all(0x1p31f)); /* the lowest becomes the highest */
  _mm256_storeu_si256((__m256i *)to, _mm256_xor_si256(near, beyond));
#else
  for (int i = 0; i < VEC; i++) ((int32_t *)to)[i] = (int32_t)round_f64(y[i], INT32_MIN, INT32_MAX);
#endif
}
FALT_INLINE void store_f16(void *to, vec y) {
#if FALT_VECTOR_BYTES == 64
  const __m256i narrow = _mm512_cvtps_ph((__m512)y, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  memcpy(to, &narrow, sizeof narrow);
#elif FALT_VECTOR_BYTES == 32
  const __m128i narrow = _mm256_cvtps_ph((__m256)y, _MM_FROUND_TO_NEAREST_INT);
  memcpy(to, &narrow, sizeof narrow);
#else
  for (int i = 0; i < VEC; i++) ((uint16_t *)to)[i] = f16_from_f32(y[i]);
#endif
}

/* ---- VEC elements of a type that is known: f32, f16, bf16, u8 or s8; u16, s16 and s32 are stored only */

FALT_INLINE size_t size_of(const falt_type type) {
  const bool byte = type == FALT_U8 || type == FALT_S8;
  return byte ? 1 : type == FALT_F32 || type == FALT_S32 ? 4 : 2;
}

/* VEC bytes in, of either sign. */
FALT_INLINE vec load_bytes(const void *from, const bool has_sign) {
#if FALT_VECTOR_BYTES == 64
  const __m128i bytes = _mm_loadu_si128((const __m128i *)from);
  return (vec)_mm512_cvtepi32_ps(has_sign ? _mm512_cvtepi8_epi32(bytes) : _mm512_cvtepu8_epi32(bytes));
#elif FALT_VECTOR_BYTES == 32
  const __m128i bytes = _mm_loadl_epi64((const __m128i *)from);
  return (vec)_mm256_cvtepi32_ps(has_sign ? _mm256_cvtepi8_epi32(bytes) : _mm256_cvtepu8_epi32(bytes));
#else
  vec wide;
  for (int i = 0; i < VEC; i++) wide[i] = has_sign ? ((const int8_t *)from)[i] : ((const uint8_t *)from)[i];
  return wide;
#endif
}

FALT_INLINE vec load_whole(const void *from, const falt_type type) {
  return type == FALT_F32    ? vec_load(from)
         : type == FALT_BF16 ? load_bf16(from)
         : type == FALT_F16  ? load_f16(from)
                             : load_bytes(from, type == FALT_S8);
}

FALT_INLINE void store_whole(void *to, vec y, const falt_type type) {
  if (type == FALT_F32) {
    memcpy(to, &y, sizeof y);
  } else if (type == FALT_BF16) {
#if defined(__AVX512BF16__)
    const __m256bh narrow = _mm512_cvtneps_pbh((__m512)y);
    memcpy(to, &narrow, sizeof narrow);
#else
    store_bf16(to, y);
#endif
  } else if (type == FALT_F16) {
    store_f16(to, y);
  } else if (type == FALT_S32) {
    store_s32(to, y);
  } else {
    const lane end = size_of(type) == 1 ? 0x1p8f : 0x1p16f; /* of an unsigned range; a signed one has half above 0 */
    const bool has_sign = type == FALT_S8 || type == FALT_S16;
    const vec low = vec_all(has_sign ? -end / 2 : 0), high = vec_all((has_sign ? end / 2 : end) - 1);
    store_narrow(to, size_of(type), vec_round(vec_at_most(vec_at_least(y, low), high)));
  }
}

FALT_INLINE void store_some(void *to, vec y, int n, const falt_type type) {
  const size_t size = size_of(type);
  _Alignas(FALT_VECTOR_BYTES) char whole[FALT_VECTOR_BYTES];
  if (n == VEC) {
    store_whole(to, y, type);
  } else {
    store_whole(whole, y, type);
    memcpy(to, whole, (size_t)n * size);
  }
}

#endif
