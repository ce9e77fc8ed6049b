/* Packs columns of a panel from the filter: transposes rows and collects groups from slots. Included by
 * igemm_vnni_tmpl.c after cpu/vector.h. */
#ifndef FALT_SOLVER_CPU_IGEMM_VNNI_IGEMM_VNNI_COLUMNS_H
#define FALT_SOLVER_CPU_IGEMM_VNNI_IGEMM_VNNI_COLUMNS_H

#include <string.h>

#include "solver/cpu/igemm_vnni/igemm_vnni_rows.h"

#if FALT_VECTOR_BYTES == 64
/* Bytes of each 128 bits in another order, zeros where it is negative, and pairs of bytes of the whole vector. The
 * memory sanitizer takes lanes that a permutation leaves out for read ones, and has these lane by lane. */
#if defined(FALT_MSAN)
FALT_INLINE __m512i order_bytes(__m512i source, __m512i order) {
  signed char from[64], at[64], to[64];
  _mm512_storeu_si512(from, source);
  _mm512_storeu_si512(at, order);
  for (int i = 0; i < 64; i++) to[i] = at[i] < 0 ? 0 : from[i / 16 * 16 + at[i] % 16];
  return _mm512_loadu_si512(to);
}

FALT_INLINE __m512i order_pairs(__m512i source, __m512i order) {
  uint16_t from[32], at[32], to[32];
  _mm512_storeu_si512(from, source);
  _mm512_storeu_si512(at, order);
  for (int i = 0; i < 32; i++) to[i] = from[at[i] % 32];
  return _mm512_loadu_si512(to);
}
#else
FALT_INLINE __m512i order_bytes(__m512i source, __m512i order) {
  return _mm512_shuffle_epi8(source, order);
}

FALT_INLINE __m512i order_pairs(__m512i source, __m512i order) {
  return _mm512_permutexvar_epi16(order, source);
}
#endif

/* Where slot j of a group is, or another slot, which can be read, if there is none. */
FALT_INLINE int64_t slot_at(const falt_tiles_slots *call, int j) {
  return call->at[call->present >> j & 1 ? j : __builtin_ctz(call->present)];
}

static void transpose(const falt_tiles_transpose *call) {
  char *to = call->to;
  for (int64_t i = 0; i < call->bytes; i += FALT_TILE_BYTES, to += FALT_TILE) {
    const __mmask64 mask = first_bytes(call->bytes - i);
    __m512i v[16];
    if (call->n == FALT_TILE_ROWS) {
      FALT_UNROLL
      for (int k = 0; k < 16; k++) v[k] = _mm512_maskz_loadu_epi8(mask, call->rows[k] + i);
    } else {
      for (int k = 0; k < 16; k++)
        v[k] = k < call->n ? _mm512_maskz_loadu_epi8(mask, call->rows[k] + i) : _mm512_setzero_si512();
    }
    transpose_square(v);
    FALT_UNROLL
    for (int g = 0; g < 16; g++) _mm512_storeu_si512(to + g * FALT_TILE_BYTES, v[g]);
  }
}

static void flip(char *tile) {
  __m512i v[16];
  FALT_UNROLL
  for (int i = 0; i < 16; i++) v[i] = _mm512_loadu_si512(tile + i * FALT_TILE_BYTES);
  transpose_square(v);
  FALT_UNROLL
  for (int i = 0; i < 16; i++) _mm512_storeu_si512(tile + i * FALT_TILE_BYTES, v[i]);
}

/* For order_bytes: bytes [from, from + width) of each group to slot j, zeros elsewhere. */
FALT_INLINE __m512i slot_order(int64_t from, int j, int width) {
  const __m512i index = _mm512_set_epi8(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9,
                                        8, 7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0,
                                        15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  const uint32_t slot = (uint32_t)(((uint64_t)1 << 8 * width) - 1) << 8 * j * width;
  const __mmask64 mask = _mm512_test_epi8_mask(_mm512_set1_epi32((int)slot), _mm512_set1_epi8(-1));
  return _mm512_mask_add_epi8(_mm512_set1_epi8(-128), mask, index, _mm512_set1_epi8((char)(from - j * width)));
}

/* Always inlined with a constant number of slots. */
FALT_INLINE void collect_slots(const falt_tiles_slots *call, const int slots) {
  const int64_t step = call->step / GROUP * FALT_TILE_BYTES;
  const char *from[4];
  __m512i order[4];
  for (int j = 0; j < slots; j++) {
    const int64_t at = slot_at(call, j);
    from[j] = call->from + at / GROUP * FALT_TILE_BYTES;
    order[j] = call->present >> j & 1 ? slot_order(at % GROUP, j, call->width) : _mm512_set1_epi8(-128);
  }
  for (int g = 0; g < call->groups; g++) {
    __m512i v = order_bytes(_mm512_loadu_si512(from[0] + g * step), order[0]);
    FALT_UNROLL
    for (int j = 1; j < slots; j++)
      v = _mm512_or_si512(v, order_bytes(_mm512_loadu_si512(from[j] + g * step), order[j]));
    _mm512_storeu_si512(call->to + g * FALT_TILE_BYTES, v);
  }
}

static void collect(const falt_tiles_slots *call) {
  if (call->width == 1)
    collect_slots(call, 4);
  else if (call->width == 2)
    collect_slots(call, 2);
  else
    collect_slots(call, 1);
}

/* Up to 16 slots, each at the low end of a group. */
FALT_INLINE __m512i load_slots(const char *from, __mmask16 mask, const int width) {
  return width == 1   ? _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(mask, from))
         : width == 2 ? _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, from))
                      : _mm512_maskz_loadu_epi32(mask, from);
}

/* Sixteen columns of a group. */
FALT_INLINE __m512i join_group(const char *const *from, const __mmask16 *mask, const int width) {
  __m512i v = load_slots(from[0], mask[0], width);
  FALT_UNROLL
  for (int j = 1; j < GROUP / width; j++)
    v = _mm512_or_si512(v, _mm512_slli_epi32(load_slots(from[j], mask[j], width), (unsigned)(8 * width * j)));
  return v;
}

/* All columns of a group at a time, because rows that are far apart may share a set of the cache. Always inlined with a
 * constant width. */
FALT_INLINE void join_slots(const falt_tiles_slots *call, const int width) {
  const char *from[4];
  __mmask16 whole[4], part[4];
  for (int j = 0; j < GROUP / width; j++) {
    const bool present = call->present >> j & 1;
    from[j] = call->from + slot_at(call, j);
    whole[j] = present ? 0xffff : 0;
    part[j] = present ? (__mmask16)((1u << call->n % FALT_TILE_ROWS) - 1) : 0;
  }
  for (int g = 0; g < call->groups; g++) {
    char *to = call->to + g * FALT_TILE_BYTES;
    int left = call->n;
    for (; left >= FALT_TILE_ROWS; left -= FALT_TILE_ROWS, to += FALT_TILE) {
      _mm512_storeu_si512(to, join_group(from, whole, width));
      FALT_UNROLL
      for (int j = 0; j < GROUP / width; j++) from[j] += FALT_TILE_ROWS * width;
    }
    if (left > 0) _mm512_storeu_si512(to, join_group(from, part, width));
    FALT_UNROLL
    for (int j = 0; j < GROUP / width; j++) from[j] += call->step - (call->n - left) * width;
  }
}

static void join(const falt_tiles_slots *call) {
  if (call->width == 1)
    join_slots(call, 1);
  else if (call->width == 2)
    join_slots(call, 2);
  else
    join_slots(call, 4);
}

/* Vector q of the source has the elements i for which i*step / 32 is q; the lane in it is i*step % 32. */
static void gather(const char *from, int64_t step, int n, char *to) {
  const __m512i index = _mm512_set_epi16(31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16, 15, 14, 13, 12,
                                         11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  const __m512i at = _mm512_mullo_epi16(index, _mm512_set1_epi16((short)step)), vector = _mm512_srli_epi16(at, 5);
  const __mmask32 columns = n < 32 ? ((__mmask32)1 << n) - 1 : ~(__mmask32)0;
  const int64_t bytes = 2 * (n - 1) * step + 2;
  __m512i v = _mm512_setzero_si512(), q = v;
  for (int64_t i = 0; i < bytes; i += FALT_TILE_BYTES, q = _mm512_add_epi16(q, _mm512_set1_epi16(1))) {
    const __m512i source = i + FALT_TILE_BYTES <= bytes ? _mm512_loadu_si512(from + i)
                                                        : _mm512_maskz_loadu_epi8(first_bytes(bytes - i), from + i);
    v = _mm512_mask_blend_epi16(_mm512_cmpeq_epi16_mask(vector, q), v, order_pairs(source, at));
  }
  _mm512_mask_storeu_epi16(to, columns, v);
}

/* The spans of up to 16 columns, one row's as groups 0 to 7 and the other row's as groups 8 to 15, with the groups of
 * all columns adjacent. */
FALT_INLINE void transpose_spans(const falt_tiles_taps *call, int first, const int columns, __m512i v[16]) {
  const __mmask16 span = (__mmask16)(((uint32_t)1 << call->span) - 1);
  const __mmask16 low = call->rows[0] ? span : 0, high = call->rows[1] ? span : 0;
  const char *even = (call->rows[0] ? call->rows[0] : call->rows[1]) + first * call->apart;
  const char *odd = (call->rows[1] ? call->rows[1] : call->rows[0]) + first * call->apart;
  FALT_UNROLL
  for (int k = 0; k < 16; k++) {
    v[k] = _mm512_setzero_si512();
    if (k >= columns) continue;
    const __m256i a = _mm256_maskz_loadu_epi16(low, even + k * call->apart);
    v[k] = _mm512_inserti64x4(_mm512_castsi256_si512(a), _mm256_maskz_loadu_epi16(high, odd + k * call->apart), 1);
  }
  transpose_square(v);
}

static void taps(const falt_tiles_taps *call) {
  for (int first = 0; first < call->n; first += FALT_TILE_ROWS) {
    __m512i v[16];
    if (call->n - first >= FALT_TILE_ROWS)
      transpose_spans(call, first, FALT_TILE_ROWS, v);
    else
      transpose_spans(call, first, call->n - first, v);
    for (int i = 0; i < call->count; i++) {
      const __m512i even = v[call->at[i] / 2], odd = v[8 + call->at[i] / 2];
      const __m512i group = call->at[i] % 2 == 0
                                ? _mm512_mask_blend_epi16(0xaaaaaaaa, even, _mm512_slli_epi32(odd, 16))
                                : _mm512_mask_blend_epi16(0xaaaaaaaa, _mm512_srli_epi32(even, 16), odd);
      _mm512_storeu_si512(call->to[i] + first / FALT_TILE_ROWS * FALT_TILE, group);
    }
  }
}
#else
static void transpose(const falt_tiles_transpose *call) {
  const int64_t groups = (call->bytes + GROUP - 1) / GROUP;
  const int64_t all = (call->bytes + FALT_TILE_BYTES - 1) / FALT_TILE_BYTES * GROUPS;
  const int64_t whole = call->bytes / GROUP;
  for (int64_t i = 0; i < all; i++)
    for (int k = 0; k < FALT_TILE_ROWS; k++) {
      uint32_t group = 0;
      if (k < call->n && i < whole)
        memcpy(&group, call->rows[k] + i * GROUP, GROUP);
      else if (k < call->n && i < groups)
        memcpy(&group, call->rows[k] + i * GROUP, (size_t)(call->bytes - i * GROUP));
      memcpy(call->to + i * FALT_TILE_BYTES + k * GROUP, &group, GROUP);
    }
}

static void flip(char *tile) {
  uint32_t square[FALT_TILE_ROWS][GROUPS];
  memcpy(square, tile, sizeof square);
  for (int i = 0; i < FALT_TILE_ROWS; i++)
    for (int g = 0; g < GROUPS; g++) memcpy(tile + g * FALT_TILE_BYTES + i * GROUP, &square[i][g], GROUP);
}

/* One slot of n <= 16 columns `apart` bytes apart. Always inlined with a constant width. */
FALT_INLINE void move_slot(const char *from, int64_t apart, char *restrict to, int n, const int width) {
  for (int k = 0; k < n; k++) memcpy(to + k * GROUP, from + k * apart, (size_t)width);
}

FALT_INLINE void move_slots(const char *from, int64_t apart, char *restrict to, int n, int width) {
  if (width == 1)
    move_slot(from, apart, to, n, 1);
  else if (width == 2)
    move_slot(from, apart, to, n, 2);
  else
    move_slot(from, apart, to, n, 4);
}

static void collect(const falt_tiles_slots *call) {
  memset(call->to, 0, (size_t)(call->groups * FALT_TILE_BYTES));
  for (int g = 0; g < call->groups; g++)
    for (int j = 0; j < GROUP / call->width; j++) {
      if (!(call->present >> j & 1)) continue;
      const int64_t at = call->at[j] + g * call->step;
      move_slots(call->from + at / GROUP * FALT_TILE_BYTES + at % GROUP, GROUP,
                 call->to + g * FALT_TILE_BYTES + j * call->width, FALT_TILE_ROWS, call->width);
    }
}

static void join(const falt_tiles_slots *call) {
  for (int first = 0; first < call->n; first += FALT_TILE_ROWS) {
    const int n = call->n - first < FALT_TILE_ROWS ? call->n - first : FALT_TILE_ROWS;
    char *to = call->to + first / FALT_TILE_ROWS * FALT_TILE;
    memset(to, 0, (size_t)(call->groups * FALT_TILE_BYTES));
    for (int g = 0; g < call->groups; g++)
      for (int j = 0; j < GROUP / call->width; j++)
        if (call->present >> j & 1)
          move_slots(call->from + call->at[j] + g * call->step + first * call->width, call->width,
                     to + g * FALT_TILE_BYTES + j * call->width, n, call->width);
  }
}

static void gather(const char *from, int64_t step, int n, char *to) {
  for (int i = 0; i < n; i++) memcpy(to + 2 * i, from + 2 * i * step, 2);
}

static void taps(const falt_tiles_taps *call) {
  for (int i = 0; i < call->count; i++)
    for (int k = 0; k < FALT_TILE_ROWS * (call->n > FALT_TILE_ROWS ? 2 : 1); k++)
      for (int j = 0; j < 2; j++) {
        char *to = call->to[i] + k / FALT_TILE_ROWS * FALT_TILE + k % FALT_TILE_ROWS * GROUP + 2 * j;
        if (k < call->n && call->rows[j])
          memcpy(to, call->rows[j] + k * call->apart + 2 * call->at[i], 2);
        else
          memset(to, 0, 2);
      }
}
#endif

#endif
