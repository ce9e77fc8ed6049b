/* Dot products of 4-byte groups by vectors: each lane multiplies a group of rows by a group of columns, element by
 * element, and adds the products to its sum. */
#ifndef FALT_SOLVER_CPU_COMMON_VECTOR_DOTS_H
#define FALT_SOLVER_CPU_COMMON_VECTOR_DOTS_H

#include "cpu/vector.h"
#include "solver/cpu/igemm_vnni/igemm_vnni_kernels.h"

/* f32    one multiply-add
 * bf16   AVX512_BF16: one instruction for the group's two products. Otherwise two multiply-adds: the two halves of a
 *        group are two f32, one in place and one shifted up
 * 8-bit  VNNI: one instruction for the group's four products, u8 by s8; s8 rows are shifted by 128, and 128 times the
 *        column's sum is subtracted at the end. Otherwise the even and the odd bytes of a group are upconverted to 16
 * bits and multiplied pairwise, exactly
 */

/* Whether there are instructions for such groups. */
#if defined(__AVX512BF16__)
enum { HAS_BF16 = 1 };
#else
enum { HAS_BF16 = 0 };
#endif
#if defined(__AVX512VNNI__)
enum { HAS_BYTES = 1 };
#else
enum { HAS_BYTES = 0 };
#endif

/* A group as the operands of the multiplication: one or two vectors. */
typedef struct split {
  vec_bits first, second;
} split;

#if !defined(__AVX512VNNI__)
/* Sums of products of pairs of 16-bit numbers. The memory sanitizer knows arithmetic lane by lane, intrinsics not. */
FALT_INLINE vec_bits multiply_pairs(vec_bits sum, vec_bits a, vec_bits b) {
#if defined(FALT_MSAN) || !defined(__x86_64__)
  return sum + (a << 16 >> 16) * (b << 16 >> 16) + (a >> 16) * (b >> 16);
#elif FALT_VECTOR_BYTES == 64
  return sum + (vec_bits)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#elif FALT_VECTOR_BYTES == 32
  return sum + (vec_bits)_mm256_madd_epi16((__m256i)a, (__m256i)b);
#else
  return sum + (vec_bits)_mm_madd_epi16((__m128i)a, (__m128i)b);
#endif
}

typedef int16_t vec_pairs __attribute__((vector_size(FALT_VECTOR_BYTES)));

FALT_INLINE split split_bytes(vec_bits x, const bool has_sign) {
  return has_sign ? (split){(vec_bits)((vec_pairs)x << 8 >> 8), (vec_bits)((vec_pairs)x >> 8)}
                  : (split){x & all_bits(0x00ff00ff), x >> 8 & all_bits(0x00ff00ff)};
}
#endif

FALT_INLINE split split_halves(vec_bits x) {
#if defined(__AVX512BF16__)
  return (split){.first = x};
#else
  return (split){x << 16, x & all_bits((int32_t)0xffff0000u)};
#endif
}

FALT_INLINE vec_bits multiply_halves(vec_bits sum, split a, split b) {
#if defined(__AVX512BF16__)
  return (vec_bits)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a.first, (__m512bh)b.first);
#else
  return (vec_bits)vec_madd(vec_madd((vec)sum, (vec)a.first, (vec)b.first), (vec)a.second, (vec)b.second);
#endif
}

FALT_INLINE split split_row(vec_bits x, const falt_tiles_kind kind) {
  if (kind == FALT_TILES_F32) return (split){.first = x};
  if (kind == FALT_TILES_BF16) return split_halves(x);
#if defined(__AVX512VNNI__)
  return (split){.first = kind == FALT_TILES_S8 ? x ^ all_bits((int32_t)0x80808080u) : x};
#else
  return split_bytes(x, kind != FALT_TILES_U8);
#endif
}

FALT_INLINE split split_column(vec_bits x, const falt_tiles_kind kind) {
  if (kind == FALT_TILES_F32) return (split){.first = x};
  if (kind == FALT_TILES_BF16) return split_halves(x);
#if defined(__AVX512VNNI__)
  return (split){.first = x};
#else
  return split_bytes(x, kind != FALT_TILES_S8_U8);
#endif
}

FALT_INLINE vec_bits multiply(vec_bits sum, split a, split b, const falt_tiles_kind kind) {
  if (kind == FALT_TILES_F32) return (vec_bits)vec_madd((vec)sum, (vec)a.first, (vec)b.first);
  if (kind == FALT_TILES_BF16) return multiply_halves(sum, a, b);
#if defined(__AVX512VNNI__)
  if (kind == FALT_TILES_S8_U8) return (vec_bits)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)b.first, (__m512i)a.first);
  return (vec_bits)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)a.first, (__m512i)b.first);
#else
  return multiply_pairs(multiply_pairs(sum, a.first, b.first), a.second, b.second);
#endif
}

/* The offset of every sum if VNNI reads s8 as u8: 128 times the columns' sums. */
FALT_INLINE bool is_moved(const falt_tiles_kind kind) {
#if defined(__AVX512VNNI__)
  return kind == FALT_TILES_S8;
#else
  return (void)kind, false;
#endif
}

#endif
