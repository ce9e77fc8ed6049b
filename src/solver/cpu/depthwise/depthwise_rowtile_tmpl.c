/* Row tile kernels of one instruction set. depthwise_rowtile_kernels.h describes them. Compiled once per level. */
#define FALT_LANE_BITS 32
#include "cpu/activate.h"
#include "cpu/convert.h"
#include "cpu/vector.h"
#include "solver/cpu/depthwise/depthwise_rowtile_kernels.h"

/* 3x3 taps: the accumulators of three rows of seven positions, nine vectors of weights and a column fill 31 of 32
 * registers. With stride 1, 45 columns are loaded for 189 multiply-adds. 7x7 taps: two rows, with their weights of one
 * tap row, 14 accumulators and 14 weights. Instruction sets with 16 registers use four positions, and weights come from
 * the cache.
 *
 * Wgrad is the same block with other roles: nine accumulators stay in registers, and columns are multiplied by elements
 * of dy. The rest of rows and lines uses smaller blocks, because no product may be added twice. */

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

enum { ROWS = FALT_BLOCK_ROWS, TAPS = FALT_BLOCK_TAPS, GATHERED = 3 /* taps of gradients */ };
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

/* Outputs of all rows; `last` makes them of sums. */
FALT_INLINE void write(const falt_block *b, vec *sum, int64_t q, int64_t channel, const int rows, const falt_type type,
                       const falt_block_finish *last) {
  vec low, high, scale, offset;
  if (last) low = vec_all(last->low), high = vec_all(last->high);
  if (last) scale = vec_load(last->scale + channel), offset = vec_load(last->offset + channel);
  const int64_t step = b->out_pixel * (int64_t)size_of(type);
  FALT_UNROLL
  for (int r = 0; r < rows; r++) {
    if (r == b->rows) return;
    char *to = (char *)b->out[r] + q * step + channel * (int64_t)size_of(type);
    FALT_UNROLL
    for (int p = 0; p < PLACES; p++, to += step)
      put(to, last ? vec_clip(vec_madd(offset, scale, sum[r * PLACES + p]), low, high) : sum[r * PLACES + p], type,
          b->stream);
  }
}

/* A case for each type, like other switches over types: each call is compiled for its constant type. */
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

/* Rare cases, out of line: curves, and conversion of bytes to another type by factors. */
static __attribute__((noinline)) void write_apart(const falt_block *b, const vec *sum, int64_t q, int64_t channel) {
  const falt_block_finish *f = b->finish;
  const int64_t size = (int64_t)falt_type_size(b->result_type);
  for (int r = 0; r < b->rows; r++)
    for (int p = 0; p < PLACES; p++) {
      vec y = sum[r * PLACES + p];
      if (f) y = vec_madd(vec_load(f->offset + channel), vec_load(f->scale + channel), y);
      if (f) y = vec_clip(vec_bend(y, f->curve, f->slope), vec_all(f->low), vec_all(f->high));
      put_as((char *)b->out[r] + ((q + p) * b->out_pixel + channel) * size, y, b);
    }
}

FALT_INLINE void finish(const falt_block *b, vec *sum, int64_t q, int64_t channel, const int rows,
                        const falt_type type) {
  const bool bytes = type == FALT_U8 || type == FALT_S8, straight = !b->finish || b->finish->curve == FALT_IDENTITY;
  if (bytes && b->result_type == FALT_S32 && !b->finish) {
    write(b, sum, q, channel, rows, FALT_S32, NULL);
  } else if (b->result_type == type && !b->finish) {
    write(b, sum, q, channel, rows, type, NULL);
  } else if (b->result_type == type && straight) {
    write(b, sum, q, channel, rows, type, b->finish);
  } else {
    vec sums[ROWS * PLACES]; /* in memory, unlike the others */
    FALT_UNROLL
    for (int r = 0; r < rows; r++) {
      FALT_UNROLL
      for (int p = 0; p < PLACES; p++) sums[r * PLACES + p] = sum[r * PLACES + p];
    }
    write_apart(b, sums, q, channel);
  }
}

/* ---- columns: inlined with constant shape and type, so that sums and factors stay in registers */

/* A block's rows and positions, and whether it computes wgrad sums. */
typedef struct shape {
  int taps, rows, places, stride;
  falt_type type;
  bool gathers;
} shape;

/* A column's products: of each tap that reads it for a row and position. Factors are the positions' if it gathers, else
 * the weights of the row of taps that each row of outputs has on this line. */
FALT_INLINE void add_column(vec *sum, const vec *factor, vec column, const int line, const int c, const shape is) {
  FALT_UNROLL
  for (int r = 0; r < is.rows; r++) {
    const int i = line - r * is.stride;
    FALT_UNROLL
    for (int s = 0; s < is.taps; s++) {
      const int p = (c - s) / is.stride, place = r * PLACES + p;
      const bool reads = i >= 0 && i < is.taps && c >= s && (c - s) % is.stride == 0 && p < is.places;
      if (reads && is.gathers)
        sum[i * is.taps + s] = vec_madd(sum[i * is.taps + s], factor[place], column);
      else if (reads)
        sum[place] = vec_madd(sum[place], factor[r * TAPS + s], column);
    }
  }
}

/* `from` is at the block's first column, which is column `first` of the line. Only the outermost ones may be outside.
 */
FALT_INLINE void add_line(vec *sum, const vec *factor, const falt_block *b, const char *from, int64_t first,
                          const int line, const shape is) {
  enum { MOST = 15 };
  const int columns = (is.places - 1) * is.stride + is.taps, ends = is.taps / 2;
  const int64_t step = b->pixel * (int64_t)size_of(is.type);
  FALT_UNROLL
  for (int c = 0; c < MOST; c++, from += c % 3 == 0 ? 3 * step : 0) { /* addresses have room for 0, 1 or 2 steps */
    if (c >= columns || (c < ends && first + c < 0) || (c >= columns - ends && first + c >= b->width)) continue;
    add_column(sum, factor, vec_keep(load_whole(from + c % 3 * step, is.type)), line, c, is);
  }
}

/* Weights that rows of outputs have on a line. */
FALT_INLINE void load_weights(vec *weight, const lane *from, const int line, const shape is) {
  FALT_UNROLL
  for (int r = 0; r < is.rows; r++) {
    const int i = line - r * is.stride;
    FALT_UNROLL
    for (int s = 0; s < is.taps; s++)
      if (i >= 0 && i < is.taps) weight[r * TAPS + s] = vec_load(from + (i * is.taps + s) * VEC);
  }
}

/* All lines under rows [row, row + rows) at positions from q on. */
FALT_INLINE void add_lines(vec *sum, const vec *by, const lane *weights, const falt_block *b, int row, int64_t q,
                           int64_t channel, const shape is) {
  const int64_t first = q * is.stride - b->before;
  const int64_t at = (first * b->pixel + channel) * (int64_t)size_of(is.type);
  FALT_UNROLL
  for (int line = 0; line < FALT_BLOCK_LINES; line++) {
    const char *from = line < (is.rows - 1) * is.stride + is.taps ? b->lines[row * is.stride + line] : NULL;
    vec weight[ROWS * TAPS];
    if (!from) continue;
    if (!is.gathers) load_weights(weight, weights, line, is);
    add_line(sum, is.gathers ? by : weight, b, from + at, first, line, is);
  }
}

/* ---- sums */

/* Positions [q, q + PLACES) of all rows, a vector of channels. */
FALT_INLINE void sum_block(const falt_block *b, int64_t q, int64_t vector, const shape is) {
  const int64_t channel = falt_block_channel(vector, VEC, b->channels);
  const lane *weights = b->weights + vector * is.taps * is.taps * VEC;
  vec sum[ROWS * PLACES];
  FALT_UNROLL
  for (int r = 0; r < is.rows; r++) {
    FALT_UNROLL
    for (int p = 0; p < PLACES; p++) sum[r * PLACES + p] = (vec){0};
  }
  add_lines(sum, NULL, weights, b, 0, q, channel, is);
  finish(b, sum, q, channel, is.rows, is.type);
}

/* Channels are the inner loop, so memory is read in order. The last block ends at the end of the row. */
FALT_INLINE void sums_as(const falt_block *b, const int taps, const int stride, const falt_type type) {
  const shape is = {taps, falt_block_rows(taps), PLACES, stride, type, false};
  for (int64_t begin = 0; begin < b->positions; begin += PLACES) {
    const int64_t q = begin + PLACES <= b->positions ? begin : b->positions - PLACES;
    for (int64_t v = b->vector; v < b->vectors; v++) sum_block(b, q, v, is);
  }
}

FALT_INLINE void sums_of(const falt_block *b, const falt_type type) {
  if (falt_block_has(type, 7) && b->taps == 7)
    sums_as(b, 7, 1, type);
  else if (falt_block_has(type, 5) && b->taps == 5)
    sums_as(b, 5, 1, type);
  else if (b->stride == 1)
    sums_as(b, 3, 1, type);
  else
    sums_as(b, 3, 2, type);
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

/* ---- gradient */

FALT_INLINE void gather_block(const falt_block_gradient *g, int row, int64_t q, int64_t vector, const shape is) {
  const falt_block *b = &g->block;
  const int64_t channel = falt_block_channel(vector, VEC, b->channels), size = (int64_t)size_of(is.type);
  float *sums = g->sums + vector * FALT_BLOCK_SUMS * VEC;
  vec by[ROWS * PLACES], sum[GATHERED * GATHERED];
  FALT_UNROLL
  for (int r = 0; r < is.rows; r++) {
    const char *from = (const char *)g->by[row + r] + (q * g->by_pixel + channel) * size;
    FALT_UNROLL
    for (int p = 0; p < is.places; p++, from += g->by_pixel * size)
      by[r * PLACES + p] = vec_keep(load_whole(from, is.type));
  }
  FALT_UNROLL
  for (int i = 0; i < GATHERED * GATHERED; i++) sum[i] = vec_load(sums + i * VEC);
  add_lines(sum, by, NULL, b, row, q, channel, is);
  FALT_UNROLL
  for (int i = 0; i < GATHERED * GATHERED; i++) vec_store(sums + i * VEC, sum[i]);
  if (!g->adds_by) return;
  vec all = vec_load(sums + GATHERED * GATHERED * VEC);
  FALT_UNROLL
  for (int r = 0; r < is.rows; r++) {
    FALT_UNROLL
    for (int p = 0; p < is.places; p++) all += by[r * PLACES + p];
  }
  vec_store(sums + GATHERED * GATHERED * VEC, all);
}

FALT_INLINE void gather_rows(const falt_block_gradient *g, int row, const int rows, const int stride,
                             const falt_type type) {
  const falt_block *b = &g->block;
  const shape wide = {GATHERED, rows, PLACES, stride, type, true}, one = {GATHERED, rows, 1, stride, type, true};
  int64_t q = 0;
  for (; q + PLACES <= b->positions; q += PLACES)
    for (int64_t v = b->vector; v < b->vectors; v++) gather_block(g, row, q, v, wide);
  for (; q < b->positions; q++)
    for (int64_t v = b->vector; v < b->vectors; v++) gather_block(g, row, q, v, one);
}

FALT_INLINE void gather_as(const falt_block_gradient *g, const int stride, const falt_type type) {
  if (g->block.rows == ROWS)
    gather_rows(g, 0, ROWS, stride, type);
  else
    for (int row = 0; row < g->block.rows; row++) gather_rows(g, row, 1, stride, type);
}

FALT_INLINE void gather_of(const falt_block_gradient *g, const falt_type type) {
  if (g->block.stride == 1)
    gather_as(g, 1, type);
  else
    gather_as(g, 2, type);
}

static void gradient(const falt_block_gradient *g) {
  if (g->block.type == FALT_F16)
    gather_of(g, FALT_F16);
  else if (g->block.type == FALT_BF16)
    gather_of(g, FALT_BF16);
  else
    gather_of(g, FALT_F32);
}

extern const falt_block_kernels JOIN(falt_block_kernels_, FALT_ISA_SUFFIX);
const falt_block_kernels JOIN(falt_block_kernels_, FALT_ISA_SUFFIX) = {
    .width = VEC, .positions = PLACES, .sums = sums, .gradient = gradient};
