/* Kernels for filters of u8 images of one instruction set. direct_u8_kernels.h describes them. Compiled once per level.
 */
#define FALT_LANE_BITS 32
#include "solver/cpu/filter/direct_u8_kernels.h"

#include "cpu/convert.h"
#include "cpu/vector.h"
#include "solver/cpu/common/vector_dots.h"

/* A lane is a column. Its word holds the four bytes that four taps along the row read, and serves all output rows that
 * read its row. A shuffle within 16 bytes makes four words from them, so lane 4*q + i of vector k is column 16*q + 4*k
 * + i of a tile: packed into bytes, the four vectors have the columns in order. */

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

/* Register tile: sums of ROWS by VECTORS. */
enum { ROWS = FALT_VECTOR_BYTES == 64 ? 4 : 2, VECTORS = 4, COLUMNS = VECTORS * VEC };

/* Which of 16 bytes go into the words of four lanes: byte i + j*step into byte j of lane i. */
static vec_bits windows_of(int step) {
  vec_bits bytes = {0};
  for (int i = 0; i < VEC; i++)
    for (int j = 0; j < 4; j++) bytes[i] |= (i % 4 + j * step) << 8 * j;
  return bytes;
}

FALT_INLINE vec_bits window(const uint8_t *from, vec_bits bytes) {
#if FALT_VECTOR_BYTES == 64 && defined(__AVX512BW__)
  return (vec_bits)_mm512_shuffle_epi8((__m512i)load_bits(from), (__m512i)bytes);
#elif FALT_VECTOR_BYTES == 32 && defined(__AVX2__)
  return (vec_bits)_mm256_shuffle_epi8((__m256i)load_bits(from), (__m256i)bytes);
#else
  vec_bits words = {0};
  for (int i = 0; i < VEC; i++)
    for (int j = 0; j < 4; j++) words[i] |= (int32_t)((uint32_t)from[bytes[i] >> 8 * j & 0xff] << 8 * j);
  return words;
#endif
}

/* ---- outputs */

/* One row of a tile as bytes, where whole vectors are to be written. */
FALT_INLINE void store_bytes(uint8_t *to, const vec_bits *sum, bool stream) {
#if FALT_VECTOR_BYTES == 64 && defined(__AVX512BW__)
  const __m512i low = _mm512_packs_epi32((__m512i)sum[0], (__m512i)sum[1]);
  const __m512i high = _mm512_packs_epi32((__m512i)sum[2], (__m512i)sum[3]);
  const vec bytes = (vec)_mm512_packus_epi16(low, high);
  if (stream)
    vec_stream((lane *)(void *)to, bytes);
  else
    memcpy(to, &bytes, sizeof bytes);
#elif FALT_VECTOR_BYTES == 32 && defined(__AVX2__)
  const __m256i low = _mm256_packs_epi32((__m256i)sum[0], (__m256i)sum[1]);
  const __m256i high = _mm256_packs_epi32((__m256i)sum[2], (__m256i)sum[3]);
  (void)stream; /* half lines */
  _mm256_storeu_si256((__m256i *)(void *)to, _mm256_packus_epi16(low, high));
#else
  (void)stream;
  for (int i = 0; i < COLUMNS; i++) {
    const int32_t y = sum[i / VEC][i % VEC];
    to[i] = (uint8_t)(y < 0 ? 0 : y > UINT8_MAX ? UINT8_MAX : y);
  }
#endif
}

/* The columns of a tile in their order. */
FALT_INLINE void in_order(int32_t *to, const vec_bits *sum) {
  for (int l = 0; l < VEC; l += 4)
    for (int k = 0; k < VECTORS; k++) memcpy(to + 4 * l + 4 * k, (const int32_t *)&sum[k] + l, 4 * sizeof *to);
}

/* Sums as numbers: converted before they are scaled, both exactly. */
FALT_INLINE vec scaled(vec_bits sum, float scale) {
  return __builtin_convertvector(sum, vec) * vec_all(scale);
}

FALT_INLINE void store_row_as(const falt_direct_u8_call *call, char *to, const vec_bits *sum, int n,
                              const falt_type type) {
  _Alignas(FALT_VECTOR_BYTES) int32_t ordered[COLUMNS];
  in_order(ordered, sum);
  for (int x = 0; x < n; x += VEC)
    store_some(to + x * (int)size_of(type), scaled(load_bits(ordered + x), call->scale), n - x < VEC ? n - x : VEC,
               type);
}

/* Kept out of the tiles: other types than bytes. A case for each type, like other switches over types: each call is
 * compiled for its constant type. */
static __attribute__((noinline)) void store_row(const falt_direct_u8_call *call, char *to, const vec_bits *sum, int n) {
  switch (call->type) {
    case FALT_U8:
      store_row_as(call, to, sum, n, FALT_U8);
      break;
    case FALT_S8:
      store_row_as(call, to, sum, n, FALT_S8);
      break;
    case FALT_U16:
      store_row_as(call, to, sum, n, FALT_U16);
      break;
    case FALT_S16:
      store_row_as(call, to, sum, n, FALT_S16);
      break;
    case FALT_S32:
      store_row_as(call, to, sum, n, FALT_S32);
      break;
    default:
      store_row_as(call, to, sum, n, FALT_F32);
  }
}

FALT_INLINE void finish(const falt_direct_u8_call *call, int p, const vec_bits *sum, int64_t x, int n) {
  vec_bits whole[VECTORS];
  FALT_UNROLL
  for (int q = 0; q < VECTORS; q++) whole[q] = sum[q];
  char *to = (char *)call->out[p] + x * (int64_t)size_of(call->type);
  if (call->type != FALT_U8 || n < COLUMNS) {
    store_row(call, to, whole, n);
    return;
  }
  if (call->scale != 1) {
    FALT_UNROLL
    for (int q = 0; q < VECTORS; q++)
      whole[q] = __builtin_convertvector(vec_round(scaled(sum[q], call->scale)), vec_bits);
  }
  store_bytes((uint8_t *)to, whole, call->stream && (uintptr_t)to % FALT_VECTOR_BYTES == 0);
}

/* ---- sums */

/* Input row i contributes to output row p by the taps of row i - p. */
FALT_INLINE void tile(const falt_direct_u8_call *call, vec_bits bytes, int64_t x, int n) {
  vec_bits sum[ROWS][VECTORS] = {0};
  for (int i = 0; i < ROWS + call->r - 1; i++)
    for (int g = 0; g < call->words; g++) {
      const uint8_t *from = call->rows[i] + x + 4 * g * call->step;
      split word[VECTORS];
      FALT_UNROLL
      for (int q = 0; q < VECTORS; q++) word[q] = split_row(window(from + 4 * q, bytes), FALT_TILES_U8);
      FALT_UNROLL
      for (int p = 0; p < ROWS; p++) {
        if (i < p || i - p >= call->r) continue;
        const split tap = split_column(all_bits(call->taps[(i - p) * call->words + g]), FALT_TILES_U8);
        FALT_UNROLL
        for (int q = 0; q < VECTORS; q++) sum[p][q] = multiply(sum[p][q], word[q], tap, FALT_TILES_U8);
      }
    }
  FALT_UNROLL
  for (int p = 0; p < ROWS; p++) finish(call, p, sum[p], x, n);
}

static void sums(const falt_direct_u8_call *call) {
  const vec_bits bytes = windows_of(call->step);
  int64_t x = 0;
  for (; x + COLUMNS <= call->n; x += COLUMNS) tile(call, bytes, x, COLUMNS);
  if (x < call->n) tile(call, bytes, x, (int)(call->n - x));
  if (call->stream) vec_stream_end();
}

extern const falt_direct_u8_kernels JOIN(falt_direct_u8_kernels_, FALT_ISA_SUFFIX);
const falt_direct_u8_kernels JOIN(falt_direct_u8_kernels_, FALT_ISA_SUFFIX) = {
    .rows = ROWS,
    .columns = COLUMNS,
    .speed = FALT_VECTOR_BYTES < 32 ? 0
             : HAS_BYTES            ? 4
                                    : 1,
    .sums = sums,
};
