/* Tile kernels of one instruction set: cpu/layer_tiles.h says what they compute. Compiled once per level.
 *
 * With AMX 2 x 2 tiles of sums stay in the tile registers: 4 tiles are loaded for 4 products, 32 cycles of loading
 * under 64 of multiplying. Vectors hold a block of rows x 2 vectors of sums and take the rows' groups one after the
 * other, each broadcast to all columns:
 *
 *   f32    one multiply-add
 *   bf16   the two halves of a group are two f32, as they stand and shifted up: two multiply-adds
 *   8-bit  VNNI: one instruction for the group's four products, u8 by s8; s8 are moved up by 128 and 128 times the
 *          column's sum is taken off at the end. Otherwise a group is split into its even and its odd bytes, both
 * widened to 16 bits, and multiplied pairwise: all of it is exact. */
#define FALT_LANE_BITS 32
#include "cpu/layer_tiles.h"

#include <string.h>

#include "cpu/layer_tiles_finish.h"
#include "cpu/vector.h"

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

#if FALT_VECTOR_BYTES == 64
enum { BLOCK_ROWS = 8, BLOCK_VECTORS = 2 };
#elif defined(__aarch64__)
enum { BLOCK_ROWS = 6, BLOCK_VECTORS = 2 };
#else
enum { BLOCK_ROWS = 3, BLOCK_VECTORS = 2 };
#endif
enum { GROUP = 4 /* bytes */, GROUPS = FALT_TILE_BYTES / GROUP };

/* ---- rows in */

#if FALT_VECTOR_BYTES == 64
FALT_INLINE __mmask64 first_bytes(int64_t n) {
  return n < FALT_TILE_BYTES ? ((__mmask64)1 << n) - 1 : ~(__mmask64)0;
}

/* The first n bytes, n <= 64, and zeros. */
FALT_INLINE void copy_piece(char *to, const char *from, int64_t n) {
  _mm512_storeu_si512(to, _mm512_maskz_loadu_epi8(first_bytes(n), from));
}
/* The first n bytes, and perhaps zeros, where there are only `room` bytes. */
FALT_INLINE void copy_some(char *to, const char *from, int64_t n, int64_t room) {
  _mm512_mask_storeu_epi8(to, first_bytes(room), _mm512_maskz_loadu_epi8(first_bytes(n), from));
}
#else
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

/* What is copied beyond a part, the next one covers; nothing goes beyond the last multiple of 64. */
static void spread_parts(const falt_tiles_spread *call) {
  const int64_t all = (call->parts * call->bytes + FALT_TILE_BYTES - 1) / FALT_TILE_BYTES * FALT_TILE_BYTES;
  for (int64_t m = 0; m < call->count; m++) {
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

/* A bf16 has 8 of f16's 11 bits: the rest is one too. What is not finite has no rest. */
FALT_INLINE uint32_t split_one(uint16_t x) {
  const float value = f32_from_f16(x);
  const uint32_t large = bits_of(value) & 0xffff0000u, rest = bits_of(value - float_of(large)) >> 16;
  const uint32_t quiet = (x & 0x7fff) > 0x7c00 ? 0x40 : 0;
  return (x & 0x7c00) == 0x7c00 ? large >> 16 | quiet : large >> 16 | rest << 16;
}

FALT_INLINE void split_row_of(const uint16_t *from, int64_t step, uint32_t *restrict to, int64_t n) {
  for (int64_t i = 0; i < n; i++) to[i] = split_one(from[i * step]);
}

static void widen(const falt_tiles_widen *call) {
  if (!call->split)
    widen_typed(call->from, call->type, call->step, call->to, call->n);
  else if (call->step == 1)
    split_row_of(call->from, 1, call->to, call->n);
  else
    split_row_of(call->from, call->step, call->to, call->n);
}

#if FALT_VECTOR_BYTES == 64
/* Elements of two rows by turns, 16 columns each. */
typedef struct pairs {
  __m512i low, high;
} pairs;

FALT_INLINE pairs pair_rows(const void *even, const void *odd, int n) {
  static const int16_t order[32] = {0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
                                    8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
  const __mmask32 mask = n < 32 ? ((__mmask32)1 << n) - 1 : ~(__mmask32)0;
  const __m512i a = _mm512_maskz_loadu_epi16(mask, even), b = _mm512_maskz_loadu_epi16(mask, odd);
  const __m512i low = _mm512_loadu_si512(order), high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
  return (pairs){_mm512_permutex2var_epi16(a, low, b), _mm512_permutex2var_epi16(a, high, b)};
}

static void pair(const falt_tiles_turn *call) {
  for (int g = 0; g < GROUPS; g++) {
    const pairs p = pair_rows(call->rows[2 * g], call->rows[2 * g + 1], call->n);
    _mm512_storeu_si512(call->to + g * FALT_TILE_BYTES, p.low);
    if (call->n > FALT_TILE_ROWS) _mm512_storeu_si512(call->to + FALT_TILE + g * FALT_TILE_BYTES, p.high);
  }
}

/* A square of 16 x 16 groups, in place: groups at distance 1 and 2 within quarters, then the quarters. */
FALT_INLINE void turn_square(__m512i v[16]) {
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

static void turn(const falt_tiles_turn *call) {
  __m512i low[16], high[16];
  for (int g = 0; g < GROUPS; g++) {
    const pairs p = pair_rows(call->rows[2 * g], call->rows[2 * g + 1], call->n);
    low[g] = p.low;
    high[g] = p.high;
  }
  turn_square(low);
  for (int i = 0; i < 16 && i < call->n; i++) _mm512_storeu_si512(call->to + i * call->pitch, low[i]);
  if (call->n <= 16) return;
  turn_square(high);
  for (int i = 16; i < call->n; i++) _mm512_storeu_si512(call->to + i * call->pitch, high[i - 16]);
}
#else
static void pair(const falt_tiles_turn *call) {
  const int tiles = call->n > FALT_TILE_ROWS ? 2 : 1;
  for (int i = 0; i < tiles * FALT_TILE_ROWS; i++)
    for (int m = 0; m < 2 * GROUPS; m++) {
      char *to = call->to + i / FALT_TILE_ROWS * FALT_TILE + m / 2 * FALT_TILE_BYTES + i % FALT_TILE_ROWS * GROUP;
      const uint16_t x = i < call->n ? ((const uint16_t *)call->rows[m])[i] : 0;
      memcpy(to + m % 2 * 2, &x, sizeof x);
    }
}

static void turn(const falt_tiles_turn *call) {
  for (int i = 0; i < call->n; i++)
    for (int m = 0; m < 2 * GROUPS; m++)
      memcpy(call->to + i * call->pitch + 2 * m, (const uint16_t *)call->rows[m] + i, 2);
}
#endif

static void finish(const falt_tiles_finish *f) {
  finish_some(f, 0, FALT_TILES_ROWS);
}

/* ---- products by vectors */

/* A group as what the multiplication takes: one or two vectors. */
typedef struct split {
  vec_bits first, second;
} split;

#if !defined(__AVX512VNNI__)
/* Sums of products of pairs of 16-bit numbers. */
FALT_INLINE vec_bits multiply_pairs(vec_bits sum, vec_bits a, vec_bits b) {
#if FALT_VECTOR_BYTES == 64
  return sum + (vec_bits)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#elif FALT_VECTOR_BYTES == 32
  return sum + (vec_bits)_mm256_madd_epi16((__m256i)a, (__m256i)b);
#elif defined(__x86_64__)
  return sum + (vec_bits)_mm_madd_epi16((__m128i)a, (__m128i)b);
#else
  return sum + (a << 16 >> 16) * (b << 16 >> 16) + (a >> 16) * (b >> 16);
#endif
}

typedef int16_t vec_pairs __attribute__((vector_size(FALT_VECTOR_BYTES)));

FALT_INLINE split split_signed(vec_bits x) {
  return (split){(vec_bits)((vec_pairs)x << 8 >> 8), (vec_bits)((vec_pairs)x >> 8)};
}
#endif

FALT_INLINE split split_halves(vec_bits x) {
  return (split){x << 16, x & all_bits((int32_t)0xffff0000u)};
}

FALT_INLINE split split_row(vec_bits x, const falt_tiles_kind kind) {
  if (kind == FALT_TILES_F32) return (split){.first = x};
  if (kind == FALT_TILES_BF16) return split_halves(x);
#if defined(__AVX512VNNI__)
  return (split){.first = kind == FALT_TILES_S8 ? x ^ all_bits((int32_t)0x80808080u) : x};
#else
  if (kind == FALT_TILES_S8) return split_signed(x);
  return (split){x & all_bits(0x00ff00ff), x >> 8 & all_bits(0x00ff00ff)};
#endif
}

FALT_INLINE split split_panel(vec_bits x, const falt_tiles_kind kind) {
  if (kind == FALT_TILES_F32) return (split){.first = x};
  if (kind == FALT_TILES_BF16) return split_halves(x);
#if defined(__AVX512VNNI__)
  return (split){.first = x};
#else
  return split_signed(x);
#endif
}

FALT_INLINE vec_bits multiply(vec_bits sum, split a, split b, const falt_tiles_kind kind) {
  if (kind == FALT_TILES_F32) return (vec_bits)vec_madd((vec)sum, (vec)a.first, (vec)b.first);
  if (kind == FALT_TILES_BF16)
    return (vec_bits)vec_madd(vec_madd((vec)sum, (vec)a.first, (vec)b.first), (vec)a.second, (vec)b.second);
#if defined(__AVX512VNNI__)
  return (vec_bits)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)a.first, (__m512i)b.first);
#else
  return multiply_pairs(multiply_pairs(sum, a.first, b.first), a.second, b.second);
#endif
}

/* What VNNI adds to every sum where it takes s8 for u8: 128 times the columns' sums. */
FALT_INLINE bool is_moved(const falt_tiles_kind kind) {
#if defined(__AVX512VNNI__)
  return kind == FALT_TILES_S8;
#else
  return (void)kind, false;
#endif
}

/* The product by one panel. */
typedef struct one_panel {
  const falt_tiles_product *call;
  const char *b;
  void *sums;
  int columns;
  const falt_tiles_finish *before; /* sums that are taken out meanwhile; NULL: none */
} one_panel;

FALT_INLINE const char *row_at(const falt_tile_rows *a, int m) {
  return a[m / FALT_TILE_ROWS].at + m % FALT_TILE_ROWS * a[m / FALT_TILE_ROWS].step;
}

/* The sums of rows [m, m + rows) and of BLOCK_VECTORS vectors of columns from i on. Always inlined with constant rows
 * and kind. */
FALT_INLINE void block(const one_panel *one, const falt_tiles_kind kind, const int rows, int m0, int i0) {
  const falt_tiles_product *call = one->call;
  const int tiles = (one->columns + FALT_TILE_ROWS - 1) / FALT_TILE_ROWS;
  const char *b = one->b + i0 / FALT_TILE_ROWS * FALT_TILE + i0 % FALT_TILE_ROWS * GROUP;
  vec_bits sum[BLOCK_ROWS * BLOCK_VECTORS] = {0}, moved[BLOCK_VECTORS] = {0};
  int32_t *to = (int32_t *)one->sums + m0 * PITCH + i0;
  const split move = {.first = all_bits((int32_t)0x80808080u)};
  int64_t ahead[BLOCK_VECTORS];
  for (int q = 0; q < BLOCK_VECTORS; q++) /* a panel of one tile has no second half: it is read twice */
    ahead[q] = i0 + q * VEC < tiles * FALT_TILE_ROWS ? (i0 + q * VEC) / FALT_TILE_ROWS * FALT_TILE +
                                                           (i0 + q * VEC) % FALT_TILE_ROWS * GROUP - (b - one->b)
                                                     : 0;
  for (int64_t s = 0; s < call->segments; s++) {
    const falt_tile_rows *a = call->a + 2 * s;
    const int64_t next = a[m0 / FALT_TILE_ROWS].next;
    const char *row[BLOCK_ROWS];
    FALT_UNROLL
    for (int m = 0; m < rows; m++) row[m] = row_at(a, m0 + m);
    for (int64_t p = 0; p < call->pieces; p++, b += tiles * FALT_TILE) {
      for (int j = 0; j < GROUPS; j++) {
        split column[BLOCK_VECTORS];
        FALT_UNROLL
        for (int q = 0; q < BLOCK_VECTORS; q++) {
          column[q] = split_panel(load_bits(b + j * FALT_TILE_BYTES + ahead[q]), kind);
          if (is_moved(kind)) moved[q] = multiply(moved[q], move, column[q], kind);
        }
        FALT_UNROLL
        for (int m = 0; m < rows; m++) {
          int32_t group;
          memcpy(&group, row[m] + j * GROUP, sizeof group);
          const split x = split_row(all_bits(group), kind);
          FALT_UNROLL
          for (int q = 0; q < BLOCK_VECTORS; q++)
            sum[m * BLOCK_VECTORS + q] = multiply(sum[m * BLOCK_VECTORS + q], x, column[q], kind);
        }
      }
      FALT_UNROLL
      for (int m = 0; m < rows; m++) row[m] += next;
    }
  }
  FALT_UNROLL
  for (int i = 0; i < rows * BLOCK_VECTORS; i++) {
    const int q = i % BLOCK_VECTORS;
    const vec_bits result = is_moved(kind) ? sum[i] - moved[q] : sum[i];
    if (q == 0 || i0 + q * VEC < tiles * FALT_TILE_ROWS)
      memcpy(to + i / BLOCK_VECTORS * PITCH + q * VEC, &result, sizeof result);
  }
}

/* Rows of a block lie in one tile, so that they have one distance between pieces. */
FALT_INLINE void product_of(const one_panel *one, const falt_tiles_kind kind) {
  if (one->before) finish(one->before);
  for (int i = 0; i < one->columns; i += BLOCK_VECTORS * VEC)
    for (int tile = 0; tile < one->call->tiles; tile++) {
      const int begin = tile * FALT_TILE_ROWS, end = begin + one->call->rows;
      int m = begin;
      for (; m + BLOCK_ROWS <= end; m += BLOCK_ROWS) block(one, kind, BLOCK_ROWS, m, i);
      for (; m < end; m++) block(one, kind, 1, m, i);
    }
}

static void product_f32(const one_panel *one) {
  product_of(one, FALT_TILES_F32);
}

#if defined(__AMX_TILE__)

/* ---- products by the matrix unit: tiles 0 to 3 are sums, 4 and 5 rows, 6 and 7 the panel */

static void open_tiles(int rows) {
  struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
  } shapes = {.palette = 1};
  for (int i = 0; i < 8; i++) {
    shapes.row_bytes[i] = FALT_TILE_BYTES;
    shapes.rows[i] = (uint8_t)(i < 6 ? rows : FALT_TILE_ROWS);
  }
  __asm__ volatile("" : : "r"(&shapes) : "memory"); /* compilers do not know that all of it is read */
  _tile_loadconfig(&shapes);
}

static void close_tiles(void) {
  _tile_release();
}

#define MULTIPLY(kind, sum, rows, panel) \
  do {                                   \
    if ((kind) == FALT_TILES_BF16)       \
      _tile_dpbf16ps(sum, rows, panel);  \
    else if ((kind) == FALT_TILES_S8)    \
      _tile_dpbssd(sum, rows, panel);    \
    else                                 \
      _tile_dpbusd(sum, rows, panel);    \
  } while (0)

/* Results of the product before, a few rows at each step of this one. */
typedef struct outgoing {
  const falt_tiles_finish *finish;
  int next, each;
} outgoing;

FALT_INLINE outgoing open_outgoing(const one_panel *one) {
  const int64_t steps = one->call->segments * one->call->pieces;
  return (outgoing){.finish = one->before,
                    .next = one->before ? 0 : FALT_TILES_ROWS,
                    .each = steps < FALT_TILES_ROWS ? (int)((FALT_TILES_ROWS + steps - 1) / steps) : 1};
}

FALT_INLINE void take_out(outgoing *o) {
  if (o->next >= FALT_TILES_ROWS) return;
  const int end = o->next + o->each < FALT_TILES_ROWS ? o->next + o->each : FALT_TILES_ROWS;
  finish_some(o->finish, o->next, end);
  o->next = end;
}

/* A panel that is not met again before it has left the first-level cache is loaded past it, which leaves that to the
 * rows. Always inlined with a constant kind and constant numbers of tiles. */
FALT_INLINE void tiles(const one_panel *one, const falt_tiles_kind kind, const bool low, const bool wide) {
  enum { STEP = PITCH * GROUP, LOWER = FALT_TILE_ROWS * STEP };
  const falt_tiles_product *call = one->call;
  outgoing before = open_outgoing(one);
  char *sums = one->sums;
  const char *b = one->b;
  _tile_zero(0);
  if (wide) _tile_zero(1);
  if (low) _tile_zero(2);
  if (low && wide) _tile_zero(3);
  for (int64_t s = 0; s < call->segments; s++) {
    const falt_tile_rows first = call->a[2 * s], second = low ? call->a[2 * s + 1] : first;
    const char *upper = first.at, *lower = second.at;
    for (int64_t p = 0; p < call->pieces; p++, b += (wide ? 2 : 1) * FALT_TILE) {
      if (call->near)
        _tile_loadd(6, b, FALT_TILE_BYTES);
      else
        _tile_stream_loadd(6, b, FALT_TILE_BYTES);
      _tile_loadd(4, upper, first.step);
      MULTIPLY(kind, 0, 4, 6);
      if (wide) {
        if (call->near)
          _tile_loadd(7, b + FALT_TILE, FALT_TILE_BYTES);
        else
          _tile_stream_loadd(7, b + FALT_TILE, FALT_TILE_BYTES);
        MULTIPLY(kind, 1, 4, 7);
      }
      if (low) {
        _tile_loadd(5, lower, second.step);
        MULTIPLY(kind, 2, 5, 6);
        if (wide) MULTIPLY(kind, 3, 5, 7);
      }
      upper += first.next;
      lower += second.next;
      take_out(&before);
    }
  }
  _tile_stored(0, sums, STEP);
  if (wide) _tile_stored(1, sums + FALT_TILE_BYTES, STEP);
  if (low) _tile_stored(2, sums + LOWER, STEP);
  if (low && wide) _tile_stored(3, sums + LOWER + FALT_TILE_BYTES, STEP);
}

FALT_INLINE void tiles_of(const one_panel *one, const falt_tiles_kind kind) {
  const bool low = one->call->tiles > 1, wide = one->columns > FALT_TILE_ROWS;
  if (low && wide)
    tiles(one, kind, true, true);
  else if (low)
    tiles(one, kind, true, false);
  else if (wide)
    tiles(one, kind, false, true);
  else
    tiles(one, kind, false, false);
}

static void product_u8(const one_panel *one) {
  tiles_of(one, FALT_TILES_U8);
}
static void product_s8(const one_panel *one) {
  tiles_of(one, FALT_TILES_S8);
}
static void product_bf16(const one_panel *one) {
  tiles_of(one, FALT_TILES_BF16);
}

#else

static void open_tiles(int rows) {
  (void)rows;
}
static void close_tiles(void) {}
static void product_u8(const one_panel *one) {
  product_of(one, FALT_TILES_U8);
}
static void product_s8(const one_panel *one) {
  product_of(one, FALT_TILES_S8);
}
static void product_bf16(const one_panel *one) {
  product_of(one, FALT_TILES_BF16);
}

#endif

/* The finish of panel i, from that of the first. */
FALT_INLINE void set_finish(falt_tiles_finish *to, const one_panel *one, int64_t i) {
  const falt_tiles_finish *first = one->call->finish;
  const int64_t apart = i * one->call->apart, columns = i * FALT_TILES_COLUMNS;
  *to = *first;
  to->sums = one->sums;
  to->n = one->columns;
  to->out = (char *)first->out + apart * (int64_t)(first->type == FALT_S32 ? 4 : size_of(first->type));
  if (first->residual) to->residual = (const char *)first->residual + apart * (int64_t)size_of(first->residual_type);
  to->scale = first->scale + columns;
  to->offset = first->offset + columns;
}

static void product(const falt_tiles_product *call, falt_tiles_flow *flow) {
  static void (*const kinds[FALT_TILES_KIND_COUNT])(const one_panel *) = {
      [FALT_TILES_U8] = product_u8,
      [FALT_TILES_S8] = product_s8,
      [FALT_TILES_BF16] = product_bf16,
      [FALT_TILES_F32] = product_f32,
  };
  void (*const multiply_panel)(const one_panel *) = kinds[call->kind];
  one_panel one = {.call = call, .b = call->b};
  for (int64_t i = 0; i < call->panels; i++, one.b += call->pitch) {
    const int64_t left = call->columns - i * FALT_TILES_COLUMNS;
    one.columns = (int)(left < FALT_TILES_COLUMNS ? left : FALT_TILES_COLUMNS);
    one.sums = (char *)flow->sums + flow->count % 2 * (FALT_TILES_ROWS * PITCH * GROUP);
    one.before = flow->count > 0 ? &flow->finish[(flow->count - 1) % 2] : NULL;
    multiply_panel(&one);
    if (call->finish) set_finish(&flow->finish[flow->count++ % 2], &one, i);
  }
}

static void flush(falt_tiles_flow *flow) {
  if (flow->count > 0) finish(&flow->finish[(flow->count - 1) % 2]);
  flow->count = 0;
}

static bool numbers(const float *sums, const int rows[2], int n) {
  bool all = true;
  for (int q = 0; q < FALT_TILES_ROWS && all; q++) {
    int32_t wrong = 0;
    for (int i = 0; i < n && q % FALT_TILE_ROWS < rows[q / FALT_TILE_ROWS]; i++)
      wrong |= sums[q * PITCH + i] != sums[q * PITCH + i];
    all = !wrong;
  }
  return all;
}

extern const falt_tiles_kernels JOIN(falt_tiles_kernels_, FALT_ISA_SUFFIX);
const falt_tiles_kernels JOIN(falt_tiles_kernels_, FALT_ISA_SUFFIX) = {
#if defined(__AMX_TILE__)
    .speed = {[FALT_TILES_U8] = 30, [FALT_TILES_S8] = 28, [FALT_TILES_BF16] = 13, [FALT_TILES_F32] = 1},
#elif defined(__AVX512VNNI__)
    .speed = {[FALT_TILES_U8] = 4, [FALT_TILES_S8] = 2.7, [FALT_TILES_BF16] = 0.7, [FALT_TILES_F32] = 1},
#else
    .speed = {[FALT_TILES_U8] = 1, [FALT_TILES_S8] = 0.9, [FALT_TILES_BF16] = 0.7, [FALT_TILES_F32] = 1},
#endif
    .open = open_tiles,
    .close = close_tiles,
    .product = product,
    .flush = flush,
    .spread = spread,
    .widen = widen,
    .pair = pair,
    .turn = turn,
    .finish = finish,
    .numbers = numbers,
};
