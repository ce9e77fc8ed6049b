/* Block kernels of one instruction set: cpu/depthwise_block.h says what they compute. Compiled once per level.
 *
 * The sums of three rows of seven positions, nine vectors of weights and a column fill 31 of 32 registers. With stride
 * 1, 45 columns are loaded for 189 multiply-adds; with 16 registers there are three rows of four positions, and weights
 * come from the cache. */
#define FALT_LANE_BITS 32
#include "cpu/depthwise_block.h"
#include "cpu/filter_convert.h"
#include "cpu/layer_activate.h"
#include "cpu/vector.h"

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

enum { ROWS = FALT_BLOCK_ROWS, TAPS = FALT_BLOCK_TAPS };
#if FALT_VECTOR_BYTES == 64 || defined(__aarch64__)
enum { PLACES = 7 };
#else
enum { PLACES = 4 };
#endif

/* ---- elements in and out */

FALT_INLINE void put(char *to, vec y, const falt_type type, bool stream) {
  if (type == FALT_F32 && stream)
    vec_stream((lane *)(void *)to, y);
  else
    store_whole(to, y, type);
}

/* Results of all rows; `last` makes them of sums. */
FALT_INLINE void write(const falt_block *b, vec sum[ROWS][PLACES], int64_t q, int64_t channel, const falt_type type,
                       const falt_block_finish *last) {
  vec low, high, scale, offset;
  if (last) low = vec_all(last->low), high = vec_all(last->high);
  if (last) scale = vec_load(last->scale + channel), offset = vec_load(last->offset + channel);
  const int64_t step = b->out_pixel * (int64_t)size_of(type);
  FALT_UNROLL
  for (int r = 0; r < ROWS; r++) {
    if (r == b->rows) return;
    char *to = (char *)b->out[r] + q * step + channel * (int64_t)size_of(type);
    FALT_UNROLL
    for (int p = 0; p < PLACES; p++, to += step)
      put(to, last ? vec_clip(vec_madd(offset, scale, sum[r][p]), low, high) : sum[r][p], type, b->stream);
  }
}

FALT_INLINE void put_as(char *to, vec y, const falt_block *b) {
  switch (b->result_type) {
    case FALT_U8:
      store_whole(to, y, FALT_U8);
      break;
    case FALT_S8:
      store_whole(to, y, FALT_S8);
      break;
    case FALT_S32:
      store_whole(to, y, FALT_S32);
      break;
    case FALT_F16:
      store_whole(to, y, FALT_F16);
      break;
    case FALT_BF16:
      store_whole(to, y, FALT_BF16);
      break;
    default:
      put(to, y, FALT_F32, b->stream);
  }
}

/* What is rare, kept out of the blocks: curves, and bytes to another type by factors. */
static __attribute__((noinline)) void write_apart(const falt_block *b, const vec sum[ROWS][PLACES], int64_t q,
                                                  int64_t channel) {
  const falt_block_finish *f = b->finish;
  const int64_t size = (int64_t)falt_type_size(b->result_type);
  for (int r = 0; r < b->rows; r++)
    for (int p = 0; p < PLACES; p++) {
      vec y = sum[r][p];
      if (f) y = vec_madd(vec_load(f->offset + channel), vec_load(f->scale + channel), y);
      if (f) y = vec_clip(vec_bend(y, f->curve, f->slope), vec_all(f->low), vec_all(f->high));
      put_as((char *)b->out[r] + ((q + p) * b->out_pixel + channel) * size, y, b);
    }
}

FALT_INLINE void finish(const falt_block *b, vec sum[ROWS][PLACES], int64_t q, int64_t channel, const falt_type type) {
  const bool bytes = type == FALT_U8 || type == FALT_S8, straight = !b->finish || b->finish->curve == FALT_IDENTITY;
  if (bytes && b->result_type == FALT_S32 && !b->finish) {
    write(b, sum, q, channel, FALT_S32, NULL);
  } else if (b->result_type == type && !b->finish) {
    write(b, sum, q, channel, type, NULL);
  } else if (b->result_type == type && straight) {
    write(b, sum, q, channel, type, b->finish);
  } else {
    vec sums[ROWS][PLACES]; /* in memory, as the others are not */
    FALT_UNROLL
    for (int r = 0; r < ROWS; r++) {
      FALT_UNROLL
      for (int p = 0; p < PLACES; p++) sums[r][p] = sum[r][p];
    }
    write_apart(b, sums, q, channel);
  }
}

/* ---- sums: inlined with constant stride and type, so that they stay in registers */

/* A column's products with the taps of all rows that read it. */
FALT_INLINE void add_column(vec sum[ROWS][PLACES], const vec *weight, vec column, const int line, const int c,
                            const int stride) {
  FALT_UNROLL
  for (int r = 0; r < ROWS; r++) {
    const int i = line - r * stride;
    FALT_UNROLL
    for (int s = 0; s < TAPS; s++) {
      const int p = (c - s) / stride;
      const bool reads = i >= 0 && i < TAPS && c >= s && (c - s) % stride == 0 && p < PLACES;
      if (reads) sum[r][p] = vec_madd(sum[r][p], weight[i * TAPS + s], column);
    }
  }
}

/* `from` is at the block's first column, which is column `first` of the line. Only the first and the last one may be
 * outside. */
FALT_INLINE void add_line(vec sum[ROWS][PLACES], const vec *weight, const falt_block *b, const char *from,
                          int64_t first, const int line, const int stride, const falt_type type) {
  enum { MOST = 2 * (PLACES - 1) + TAPS };
  const int columns = (PLACES - 1) * stride + TAPS;
  const int64_t step = b->pixel * (int64_t)size_of(type);
  FALT_UNROLL
  for (int c = 0; c < MOST; c++, from += c % 3 == 0 ? 3 * step : 0) { /* addresses have room for 0, 1 or 2 steps */
    if (c >= columns || (c == 0 && first < 0) || (c == columns - 1 && first + c >= b->width)) continue;
    add_column(sum, weight, vec_keep(load_whole(from + c % 3 * step, type)), line, c, stride);
  }
}

/* Positions [q, q + PLACES) of all rows, a vector of channels. */
FALT_INLINE void sum_block(const falt_block *b, int64_t q, int64_t vector, const int stride, const falt_type type) {
  const int64_t first = q * stride - b->before, channel = falt_block_channel(vector, VEC, b->channels);
  const int64_t at = (first * b->pixel + channel) * (int64_t)size_of(type);
  vec sum[ROWS][PLACES], weight[TAPS * TAPS];
  FALT_UNROLL
  for (int i = 0; i < TAPS * TAPS; i++) weight[i] = vec_load(b->weights + (vector * TAPS * TAPS + i) * VEC);
  FALT_UNROLL
  for (int r = 0; r < ROWS; r++) {
    FALT_UNROLL
    for (int p = 0; p < PLACES; p++) sum[r][p] = (vec){0};
  }
  FALT_UNROLL
  for (int line = 0; line < FALT_BLOCK_LINES; line++) {
    const bool reads = line < (ROWS - 1) * stride + TAPS;
    if (reads && b->lines[line]) add_line(sum, weight, b, (const char *)b->lines[line] + at, first, line, stride, type);
  }
  finish(b, sum, q, channel, type);
}

/* Channels are the inner loop, so that memory is read in order. The last block ends where the row ends. */
FALT_INLINE void sums_as(const falt_block *b, const int stride, const falt_type type) {
  for (int64_t begin = 0; begin < b->positions; begin += PLACES) {
    const int64_t q = begin + PLACES <= b->positions ? begin : b->positions - PLACES;
    for (int64_t v = b->vector; v < b->vectors; v++) sum_block(b, q, v, stride, type);
  }
}

FALT_INLINE void sums_of(const falt_block *b, const falt_type type) {
  if (b->stride == 1)
    sums_as(b, 1, type);
  else
    sums_as(b, 2, type);
}

static void sums(const falt_block *b) {
  switch (b->type) {
    case FALT_U8:
      sums_of(b, FALT_U8);
      break;
    case FALT_S8:
      sums_of(b, FALT_S8);
      break;
    case FALT_F16:
      sums_of(b, FALT_F16);
      break;
    case FALT_BF16:
      sums_of(b, FALT_BF16);
      break;
    default:
      sums_of(b, FALT_F32);
  }
  if (b->stream) vec_stream_end();
}

extern const falt_block_kernels JOIN(falt_block_kernels_, FALT_ISA_SUFFIX);
const falt_block_kernels JOIN(falt_block_kernels_, FALT_ISA_SUFFIX) = {.width = VEC, .positions = PLACES, .sums = sums};
