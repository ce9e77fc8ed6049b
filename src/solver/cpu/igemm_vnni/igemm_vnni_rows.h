/* Row loaders of tiles: copies, conversions, groups, pairs and transposes. Included by igemm_vnni_tmpl.c after
 * cpu/vector.h. */
#ifndef FALT_SOLVER_CPU_IGEMM_VNNI_IGEMM_VNNI_ROWS_H
#define FALT_SOLVER_CPU_IGEMM_VNNI_IGEMM_VNNI_ROWS_H

#include <string.h>

#include "solver/cpu/igemm_vnni/igemm_vnni_finish.h"

enum { GROUP = 4 /* bytes */, GROUPS = FALT_TILE_BYTES / GROUP };

#if FALT_VECTOR_BYTES == 64
FALT_INLINE __mmask64 first_bytes(int64_t n) {
  return n < FALT_TILE_BYTES ? ((__mmask64)1 << n) - 1 : ~(__mmask64)0;
}

/* The first n bytes, n <= 64, and zeros. */
FALT_INLINE void copy_piece(char *to, const char *from, int64_t n) {
  _mm512_storeu_si512(to, _mm512_maskz_loadu_epi8(first_bytes(n), from));
}
/* The first n bytes, perhaps followed by zeros, with only `room` bytes to write. */
FALT_INLINE void copy_some(char *to, const char *from, int64_t n, int64_t room) {
  _mm512_mask_storeu_epi8(to, first_bytes(room), _mm512_maskz_loadu_epi8(first_bytes(n), from));
}

/* A part of up to `room` bytes, 16, 32 or 64, and zeros behind it. */
FALT_INLINE void copy_part(char *to, const char *from, __mmask64 mask, const int room) {
  if (room == 16)
    _mm_storeu_si128((__m128i *)(void *)to, _mm_maskz_loadu_epi8((__mmask16)mask, from));
  else if (room == 32)
    _mm256_storeu_si256((__m256i *)(void *)to, _mm256_maskz_loadu_epi8((__mmask32)mask, from));
  else
    _mm512_storeu_si512(to, _mm512_maskz_loadu_epi8(mask, from));
}

FALT_INLINE void spread_within(const falt_tiles_spread *call, int64_t all, const int room) {
  const __mmask64 mask = first_bytes(call->bytes);
  for (int64_t m = 0; m + 1 < call->count; m++) {
    const char *from = call->from + m * call->step;
    char *to = call->to + m * call->pitch;
    _mm512_storeu_si512(to + all - FALT_TILE_BYTES, _mm512_setzero_si512());
    for (int64_t j = 0; j < call->parts; j++, from += call->apart, to += call->bytes) copy_part(to, from, mask, room);
  }
}

/* Parts of up to 64 bytes: whole stores, whose bytes beyond the window are overwritten by the next one. The last is
 * left. Short stores seldom cross a line. */
FALT_INLINE int64_t spread_short(const falt_tiles_spread *call, int64_t all) {
  if (call->bytes > FALT_TILE_BYTES || call->pitch != all) return 0;
  if (call->bytes <= 16)
    spread_within(call, all, 16);
  else if (call->bytes <= 32)
    spread_within(call, all, 32);
  else
    spread_within(call, all, 64);
  return call->count > 0 ? call->count - 1 : 0;
}
#else
FALT_INLINE int64_t spread_short(const falt_tiles_spread *call, int64_t all) {
  return (void)call, (void)all, 0;
}
FALT_INLINE void copy_piece(char *to, const char *from, int64_t n) {
  memcpy(to, from, (size_t)n);
  memset(to + n, 0, (size_t)(FALT_TILE_BYTES - n));
}
FALT_INLINE void copy_some(char *to, const char *from, int64_t n, int64_t room) {
  (void)room;
  memcpy(to, from, (size_t)n);
}
#endif

static void spread_whole(const falt_tiles_spread *call) {
  const int64_t whole = call->bytes / FALT_TILE_BYTES * FALT_TILE_BYTES, rest = call->bytes - whole;
  for (int64_t m = 0; m < call->count; m++) {
    const char *from = call->from + m * call->step;
    char *to = call->to + m * call->pitch;
    for (int64_t i = 0; i < whole; i += FALT_TILE_BYTES) memcpy(to + i, from + i, FALT_TILE_BYTES);
    if (rest > 0) copy_piece(to + whole, from + whole, rest);
  }
}

/* Bytes copied beyond a part are overwritten by the next one; nothing is written beyond the last multiple of 64. */
static void spread_parts(const falt_tiles_spread *call) {
  const int64_t all = (call->parts * call->bytes + FALT_TILE_BYTES - 1) / FALT_TILE_BYTES * FALT_TILE_BYTES;
  for (int64_t m = spread_short(call, all); m < call->count; m++) {
    const char *from = call->from + m * call->step;
    char *to = call->to + m * call->pitch;
    memset(to + all - FALT_TILE_BYTES, 0, FALT_TILE_BYTES);
    for (int64_t left = all, j = 0; j < call->parts; j++, from += call->apart)
      for (int64_t i = 0, n; i < call->bytes; i += n, to += n, left -= n) {
        n = call->bytes - i < FALT_TILE_BYTES ? call->bytes - i : FALT_TILE_BYTES;
        copy_some(to, from + i, n, left);
      }
  }
}

static void spread(const falt_tiles_spread *call) {
  if (call->parts > 1)
    spread_parts(call);
  else
    spread_whole(call);
}

/* A bf16 has 8 of f16's 11 bits: the remainder is a bf16, too. Values that are not finite have no remainder. */
FALT_INLINE uint32_t split_one(uint16_t x) {
  const float value = f32_from_f16(x);
  const uint32_t large = bits_of(value) & 0xffff0000u, rest = bits_of(value - float_of(large)) >> 16;
  const uint32_t quiet = (x & 0x7fff) > 0x7c00 ? 0x40 : 0;
  return (x & 0x7c00) == 0x7c00 ? large >> 16 | quiet : large >> 16 | rest << 16;
}

FALT_INLINE void split_row_of(const uint16_t *from, int64_t step, uint32_t *restrict to, int64_t n) {
  for (int64_t i = 0; i < n; i++) to[i] = split_one(from[i * step]);
}

static void upconvert(const falt_tiles_upconvert *call) {
  if (!call->split)
    upconvert_typed(call->from, call->type, call->step, call->to, call->n);
  else if (call->step == 1)
    split_row_of(call->from, 1, call->to, call->n);
  else
    split_row_of(call->from, call->step, call->to, call->n);
}

FALT_INLINE void zip_bytes(const uint8_t *a, const uint8_t *b, const uint8_t *c, const uint8_t *d, uint8_t *restrict to,
                           int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    to[4 * i] = a[i];
    to[4 * i + 1] = b[i];
    to[4 * i + 2] = c[i];
    to[4 * i + 3] = d[i];
  }
}

FALT_INLINE void zip_halves(const uint16_t *a, const uint16_t *b, uint16_t *restrict to, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    to[2 * i] = a[i];
    to[2 * i + 1] = b[i];
  }
}

static void zip(const falt_tiles_zip *call) {
  const void *const *rows = call->rows;
  if (call->bytes)
    zip_bytes(rows[0], rows[1], rows[2], rows[3], (uint8_t *)call->to, call->n);
  else
    zip_halves(rows[0], rows[1], (uint16_t *)(void *)call->to, call->n);
}

#if FALT_VECTOR_BYTES == 64
/* Interleaves the elements of two rows, 16 columns each. */
typedef struct pairs {
  __m512i low, high;
} pairs;

FALT_INLINE pairs pair_vectors(__m512i even, __m512i odd) {
  static const int16_t order[32] = {0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
                                    8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
  const __m512i low = _mm512_loadu_si512(order), high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
  return (pairs){_mm512_permutex2var_epi16(even, low, odd), _mm512_permutex2var_epi16(even, high, odd)};
}

FALT_INLINE pairs pair_rows(const void *even, const void *odd, int n) {
  const __mmask32 mask = n < 32 ? ((__mmask32)1 << n) - 1 : ~(__mmask32)0;
  return pair_vectors(_mm512_maskz_loadu_epi16(mask, even), _mm512_maskz_loadu_epi16(mask, odd));
}

FALT_INLINE void store_pairs(pairs p, char *to, int n) {
  _mm512_storeu_si512(to, p.low);
  if (n > FALT_TILE_ROWS) _mm512_storeu_si512(to + FALT_TILE, p.high);
}

static void pair(const falt_tiles_square *call) {
  for (int g = 0; g < GROUPS; g++)
    store_pairs(pair_rows(call->rows[2 * g], call->rows[2 * g + 1], call->n), call->to + g * FALT_TILE_BYTES, call->n);
}

/* Bit i of the lower half to bit 2*i. */
FALT_INLINE __mmask32 even_bits(uint32_t half) {
  half = (half | half << 8) & 0x00ff00ff;
  half = (half | half << 4) & 0x0f0f0f0f;
  half = (half | half << 2) & 0x33333333;
  return (half | half << 1) & 0x55555555;
}

/* The kept elements of a row, which are 1 or 2 apart. */
FALT_INLINE __m512i load_kept(const falt_tiles_kept *call, int m, const int apart) {
  const uint32_t keep = call->keep[call->mask[m]];
  if (apart == 1) return _mm512_maskz_loadu_epi16(keep, falt_tiles_kept_at(call, m, 0));
  const __m512i first = _mm512_maskz_loadu_epi16(even_bits(keep & 0xffff), falt_tiles_kept_at(call, m, 0));
  const __m512i second = _mm512_maskz_loadu_epi16(even_bits(keep >> 16), falt_tiles_kept_at(call, m, 16));
  return _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi32_epi16(first)), _mm512_cvtepi32_epi16(second), 1);
}

FALT_INLINE void pair_apart(const falt_tiles_kept *call, const int apart) {
  for (int g = 0; g < GROUPS; g++)
    store_pairs(pair_vectors(load_kept(call, 2 * g, apart), load_kept(call, 2 * g + 1, apart)),
                call->to + g * FALT_TILE_BYTES, call->n);
}

static void pair_kept(const falt_tiles_kept *call) {
  if (call->apart == 1)
    pair_apart(call, 1);
  else
    pair_apart(call, 2);
}

/* A square of 16 x 16 groups, in place: groups at distance 1 and 2 within quarters, then the quarters. */
FALT_INLINE void transpose_square(__m512i v[16]) {
  __m512i t[16];
  FALT_UNROLL
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(v[i], v[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(v[i], v[i + 1]);
  }
  FALT_UNROLL
  for (int i = 0; i < 16; i += 4) {
    v[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    v[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    v[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    v[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  FALT_UNROLL
  for (int i = 0; i < 4; i++) {
    t[i] = _mm512_shuffle_i32x4(v[i], v[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_i32x4(v[i], v[i + 4], 0xdd);
    t[i + 8] = _mm512_shuffle_i32x4(v[i + 8], v[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_i32x4(v[i + 8], v[i + 12], 0xdd);
  }
  FALT_UNROLL
  for (int i = 0; i < 4; i++) {
    v[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
    v[i + 4] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0x88);
    v[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
    v[i + 12] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0xdd);
  }
}

static void transpose_rows(const falt_tiles_square *call) {
  __m512i low[16], high[16];
  for (int g = 0; g < GROUPS; g++) {
    const pairs p = pair_rows(call->rows[2 * g], call->rows[2 * g + 1], call->n);
    low[g] = p.low;
    high[g] = p.high;
  }
  transpose_square(low);
  for (int i = 0; i < 16 && i < call->n; i++) _mm512_storeu_si512(call->to + i * call->pitch, low[i]);
  if (call->n <= 16) return;
  transpose_square(high);
  for (int i = 16; i < call->n; i++) _mm512_storeu_si512(call->to + i * call->pitch, high[i - 16]);
}

static void cross(const falt_tiles_square *call) {
  for (int first = 0; first < call->n; first += FALT_TILE_ROWS) {
    __m512i v[16];
    char *to = call->to + first / FALT_TILE_ROWS * FALT_TILE;
    for (int i = 0; i < FALT_TILE_ROWS; i++)
      v[i] = first + i < call->n ? _mm512_loadu_si512(call->rows[first + i]) : _mm512_setzero_si512();
    transpose_square(v);
    for (int g = 0; g < GROUPS; g++) _mm512_storeu_si512(to + g * FALT_TILE_BYTES, v[g]);
  }
}
#else
static void pair(const falt_tiles_square *call) {
  const int tiles = call->n > FALT_TILE_ROWS ? 2 : 1;
  for (int i = 0; i < tiles * FALT_TILE_ROWS; i++)
    for (int m = 0; m < 2 * GROUPS; m++) {
      char *to = call->to + i / FALT_TILE_ROWS * FALT_TILE + m / 2 * FALT_TILE_BYTES + i % FALT_TILE_ROWS * GROUP;
      const uint16_t x = i < call->n ? ((const uint16_t *)call->rows[m])[i] : 0;
      memcpy(to + m % 2 * 2, &x, sizeof x);
    }
}

static void pair_kept(const falt_tiles_kept *call) {
  const int tiles = call->n > FALT_TILE_ROWS ? 2 : 1;
  for (int i = 0; i < tiles * FALT_TILE_ROWS; i++)
    for (int m = 0; m < 2 * GROUPS; m++) {
      char *to = call->to + i / FALT_TILE_ROWS * FALT_TILE + m / 2 * FALT_TILE_BYTES + i % FALT_TILE_ROWS * GROUP;
      const uint16_t x = call->keep[call->mask[m]] >> i & 1 ? *(const uint16_t *)falt_tiles_kept_at(call, m, i) : 0;
      memcpy(to + m % 2 * 2, &x, sizeof x);
    }
}

static void transpose_rows(const falt_tiles_square *call) {
  for (int i = 0; i < call->n; i++)
    for (int m = 0; m < 2 * GROUPS; m++)
      memcpy(call->to + i * call->pitch + 2 * m, (const uint16_t *)call->rows[m] + i, 2);
}

static void cross(const falt_tiles_square *call) {
  for (int i = 0; i < (call->n > FALT_TILE_ROWS ? 2 : 1) * FALT_TILE_ROWS; i++)
    for (int g = 0; g < GROUPS; g++) {
      char *to = call->to + i / FALT_TILE_ROWS * FALT_TILE + g * FALT_TILE_BYTES + i % FALT_TILE_ROWS * GROUP;
      if (i < call->n)
        memcpy(to, (const char *)call->rows[i] + g * GROUP, GROUP);
      else
        memset(to, 0, GROUP);
    }
}
#endif

#endif
