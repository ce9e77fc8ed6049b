/* Epilogue of tiles: factors, residual, activation, rounding, narrowing. Included by igemm_vnni_tmpl.c after
 * cpu/vector.h. */
#ifndef FALT_SOLVER_CPU_IGEMM_VNNI_IGEMM_VNNI_FINISH_H
#define FALT_SOLVER_CPU_IGEMM_VNNI_IGEMM_VNNI_FINISH_H

#include <string.h>

#include "cpu/activate.h"
#include "cpu/convert.h"
#include "cpu/vector.h"
#include "solver/cpu/igemm_vnni/igemm_vnni_kernels.h"

enum { PITCH = FALT_TILES_COLUMNS, AHEAD = 128 /* bytes */ };

/* ---- elements in */

/* Elements of a row as f32; a whole number of vectors of neighbours is vector code. */
FALT_INLINE float upconvert_one(const void *from, int64_t i, const falt_type type) {
  switch (type) {
    case FALT_U8:
      return ((const uint8_t *)from)[i];
    case FALT_S8:
      return ((const int8_t *)from)[i];
    case FALT_F16:
      return f32_from_f16(((const uint16_t *)from)[i]);
    case FALT_BF16:
      return f32_from_bf16(((const uint16_t *)from)[i]);
    default:
      return ((const float *)from)[i];
  }
}

FALT_INLINE void upconvert_row(const void *from, int64_t step, float *restrict to, int64_t n, const falt_type type) {
  if (step == 1)
    for (int64_t i = 0; i < n; i++) to[i] = upconvert_one(from, i, type);
  else
    for (int64_t i = 0; i < n; i++) to[i] = upconvert_one(from, i * step, type);
}

/* A case for each type, like other switches over types: each call is compiled for its constant type. */
FALT_INLINE void upconvert_typed(const void *from, falt_type type, int64_t step, float *to, int64_t n) {
  switch (type) {
    case FALT_U8:
      upconvert_row(from, step, to, n, FALT_U8);
      break;
    case FALT_S8:
      upconvert_row(from, step, to, n, FALT_S8);
      break;
    case FALT_F16:
      upconvert_row(from, step, to, n, FALT_F16);
      break;
    case FALT_BF16:
      upconvert_row(from, step, to, n, FALT_BF16);
      break;
    default:
      upconvert_row(from, step, to, n, FALT_F32);
      break;
  }
}

/* ---- sums out */

FALT_INLINE vec_bits clip_whole(vec_bits x, int32_t low, int32_t high) {
  const vec above = vec_select(x < low, (vec)all_bits(low), (vec)x);
  return (vec_bits)vec_select((vec_bits)above > high, (vec)all_bits(high), above);
}

FALT_INLINE vec as_floats(vec_bits sums, const bool whole) {
  return whole ? __builtin_convertvector(sums, vec) : (vec)sums;
}

/* n <= VEC sums. The lanes behind them are clipped and converted too, which the memory sanitizer takes for a use. */
FALT_INLINE vec_bits load_sums(const int32_t *sums, int n) {
  vec_bits x = load_bits(sums);
  FALT_WRITTEN((lane *)&x + n, (size_t)(VEC - n) * sizeof(lane));
  return x;
}

/* n <= VEC sums that are outputs. */
FALT_INLINE void plain_columns(const int32_t *sums, char *to, int n, const falt_type type, const bool whole) {
  const vec_bits x = load_sums(sums, n);
  if (whole && n == VEC && type == FALT_U8)
    store_narrow(to, 1, clip_whole(x, 0, 255));
  else if (whole && n == VEC && type == FALT_S8)
    store_narrow(to, 1, clip_whole(x, -128, 127));
  else
    store_some(to, as_floats(x, whole), n, type);
}

FALT_INLINE void plain_row(const int32_t *sums, char *to, int n, const falt_type type, const bool whole) {
  int i = 0;
#if defined(__AVX512BF16__)
  for (; type == FALT_BF16 && !whole && i + 2 * VEC <= n; i += 2 * VEC) {
    const __m512bh narrow = _mm512_cvtne2ps_pbh((__m512)load_bits(sums + i + VEC), (__m512)load_bits(sums + i));
    memcpy(to + (size_t)i * 2, &narrow, sizeof narrow);
  }
#endif
  for (; i + VEC <= n; i += VEC) plain_columns(sums + i, to + (size_t)i * size_of(type), VEC, type, whole);
  if (i < n) plain_columns(sums + i, to + (size_t)i * size_of(type), n - i, type, whole);
}

#if FALT_VECTOR_BYTES == 64
/* Two rows of a whole block of integers as bytes: packed within quarters of a vector, which are put in order at last.
 */
FALT_INLINE void plain_pair(const int32_t *sums, char *first, char *second, const falt_type type) {
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i a = _mm512_packs_epi32((__m512i)load_bits(sums), (__m512i)load_bits(sums + VEC));
  const __m512i b = _mm512_packs_epi32((__m512i)load_bits(sums + PITCH), (__m512i)load_bits(sums + PITCH + VEC));
  const __m512i bytes = type == FALT_U8 ? _mm512_packus_epi16(a, b) : _mm512_packs_epi16(a, b);
  const __m512i rows = _mm512_permutexvar_epi32(order, bytes);
  _mm256_storeu_si256((__m256i *)(void *)first, _mm512_castsi512_si256(rows));
  _mm256_storeu_si256((__m256i *)(void *)second, _mm512_extracti64x4_epi64(rows, 1));
}
#endif

FALT_INLINE void plain_rows(const falt_tiles_finish *f, int q, int end, const falt_type type, const bool whole) {
  const int32_t *sums = f->sums;
  const int64_t *at = f->at;
  char *out = f->out;
  const int n = f->n;
#if FALT_VECTOR_BYTES == 64
  const bool bytes = whole && (type == FALT_U8 || type == FALT_S8);
  for (; bytes && n == PITCH && q + 1 < end; q += 2) plain_pair(sums + q * PITCH, out + at[q], out + at[q + 1], type);
#endif
  if (n == PITCH) /* whole blocks: no tails */
    for (; q < end; q++) plain_row(sums + q * PITCH, out + at[q] * (int64_t)size_of(type), PITCH, type, whole);
  else
    for (; q < end; q++) plain_row(sums + q * PITCH, out + at[q] * (int64_t)size_of(type), n, type, whole);
}

/* The inputs of a row's epilogue, except the sums. */
typedef struct factors {
  const float *scale, *offset;
  vec low, high;
} factors;

FALT_INLINE vec factor_of(const float *all, bool by_row, int q, int i, int n) {
  if (by_row) return vec_all(all[q]);
  return n == VEC ? vec_load(all + i) : vec_load_part(all + i, n);
}

/* Columns [i, i + n) of row q. The product is rounded before it is added to, on every instruction set: outputs of
 * integers have the same bits. */
FALT_INLINE void full_columns(const falt_tiles_finish *f, const factors *by, int q, int i, int n, const falt_type type,
                              const bool whole, const bool bends, const int32_t *sums, char *to) {
  const vec scale = factor_of(by->scale, f->by_row, q, i, n), offset = factor_of(by->offset, f->by_row, q, i, n);
  vec y = vec_keep(scale * as_floats(load_sums(sums + i, n), whole)) + offset;
  if (bends && f->residual) {
    const size_t residual_size = falt_type_size(f->residual_type);
    float z[VEC] = {0};
    upconvert_typed((const char *)f->residual + (size_t)(f->residual_at[q] + i) * residual_size, f->residual_type, 1, z,
                    n);
    y += vec_load(z);
  }
  if (bends && f->curve != FALT_IDENTITY) y = vec_bend(y, f->curve, f->slope);
  store_some(to + (size_t)i * size_of(type), vec_clip(y, by->low, by->high), n, type);
}

FALT_INLINE void add_rows(const falt_tiles_finish *f, int q, int end) {
  for (; q < end; q++) {
    const float *sums = (const float *)f->sums + q * PITCH;
    float *to = (float *)f->out + f->at[q];
    int i = 0;
    for (; i + VEC <= f->n; i += VEC) vec_store(to + i, vec_load(to + i) + vec_load(sums + i));
    for (; i < f->n; i++) to[i] += sums[i];
  }
}

FALT_INLINE void full_rows(const falt_tiles_finish *f, int q, int end, const falt_type type, const bool whole,
                           const bool bends) {
  const factors by = {f->scale, f->offset, vec_all(f->low), vec_all(f->high)};
  const int64_t *at = f->at;
  char *out = f->out;
  const int n = f->n;
  for (; q < end; q++) {
    const int32_t *sums = (const int32_t *)f->sums + q * PITCH;
    char *to = out + at[q] * (int64_t)size_of(type);
    int i = 0;
    for (; i + VEC <= n; i += VEC) full_columns(f, &by, q, i, VEC, type, whole, bends, sums, to);
    if (i < n) full_columns(f, &by, q, i, n - i, type, whole, bends, sums, to);
  }
}

/* Most outputs have neither a residual nor a curve, and many no epilogue at all: copies of the loop without them. */
FALT_INLINE void finish_as(const falt_tiles_finish *f, int q, int end, const falt_type type) {
  if (f->plain && f->whole)
    plain_rows(f, q, end, type, true);
  else if (f->plain)
    plain_rows(f, q, end, type, false);
  else if (f->residual || f->curve != FALT_IDENTITY)
    full_rows(f, q, end, type, f->whole, true);
  else if (f->whole)
    full_rows(f, q, end, type, true, false);
  else
    full_rows(f, q, end, type, false, false);
}

/* Sums as they are. */
FALT_INLINE void copy_rows(const falt_tiles_finish *f, int q, int end) {
  for (; q < end; q++) {
    const float *sums = (const float *)f->sums + q * PITCH;
    float *to = (float *)f->out + f->at[q];
    int i = 0;
    for (; i + VEC <= f->n; i += VEC) vec_store(to + i, vec_load(sums + i));
    if (i < f->n) vec_store_part(to + i, vec_load_part(sums + i, f->n - i), f->n - i);
  }
}

/* Prefetches the outputs of later calls: rows of channels continue after their end, and a store waits for its line. */
FALT_INLINE void fetch_rows(const falt_tiles_finish *f, char *out, int q, int end) {
  const int64_t size = f->type == FALT_S32 ? 4 : (int64_t)size_of(f->type);
  for (; q < end; q++)
    for (int64_t i = 0; i < PITCH * size; i += 64) __builtin_prefetch(out + f->at[q] * size + AHEAD + i, 1);
}

/* A case for each type, as above. */
static void finish_rows(const falt_tiles_finish *f, int q, int end) {
  if (f->by_row) fetch_rows(f, f->out, q, end);
  switch (f->type) {
    case FALT_U8:
      finish_as(f, q, end, FALT_U8);
      break;
    case FALT_S8:
      finish_as(f, q, end, FALT_S8);
      break;
    case FALT_F16:
      finish_as(f, q, end, FALT_F16);
      break;
    case FALT_BF16:
      finish_as(f, q, end, FALT_BF16);
      break;
    case FALT_F32:
      if (f->adds)
        add_rows(f, q, end);
      else
        finish_as(f, q, end, FALT_F32);
      break;
    default:
      copy_rows(f, q, end);
  }
}

/* Stores rows [q, end) of the sums that are outputs. */
static void finish_some(const falt_tiles_finish *f, int q, int end) {
  for (int tile = 0; tile < 2; tile++) {
    const int first = tile * FALT_TILE_ROWS, last = first + f->rows[tile];
    const int from = q < first ? first : q, to = end < last ? end : last;
    if (from < to) finish_rows(f, from, to);
  }
}

#endif
