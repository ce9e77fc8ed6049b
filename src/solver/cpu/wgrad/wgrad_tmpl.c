/* Outer-product kernels of one instruction set. wgrad_kernels.h describes them. Compiled once per level. */
#define FALT_LANE_BITS 32
#include "cpu/vector.h"
#include "solver/cpu/common/layer_blocks.h"
#include "solver/cpu/wgrad/wgrad_kernels.h"

/* As in layer_lane.h a block of rows x vectors of accumulators stays in registers over the depth, and one step loads
 * the panel's vectors once for all rows. Here the rows of a step are adjacent, so one address for each step serves the
 * whole block. */

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

#if FALT_VECTOR_BYTES == 64 || defined(__aarch64__)
enum { REGISTERS = 32, ROWS_1 = 8, ROWS_2 = 8, ROWS_3 = 8, ROWS_4 = 6 };
#else
enum { REGISTERS = 16, ROWS_1 = 8, ROWS_2 = 6, ROWS_3 = 4, ROWS_4 = 0 };
#endif

enum { LINE = 16 };

/* A call's sums are added to those before them at its end: no chain of roundings is longer than a call. */
FALT_INLINE void put_sum(lane *to, vec sum, bool adds) {
  vec_store(to, adds ? vec_load(to) + sum : sum);
}

/* Always inlined with constant rows and vectors, so the loops over the block unroll. */
FALT_INLINE void block(const falt_outer *call, const int rows, const int vectors) {
  vec sum[REGISTERS];
  FALT_UNROLL
  for (int m = 0; m < rows; m++) {
    FALT_UNROLL
    for (int q = 0; q < vectors; q++) {
      sum[m * vectors + q] = (vec){0};
      __builtin_prefetch(call->out + (m * vectors + q) * VEC, 1);
    }
  }
  const lane *b = call->b;
  const lane *const *a = call->a;
  const int64_t first = call->first;
  for (int64_t j = 0; j < call->depth; j++, b += vectors * VEC) {
    const lane *row = a[j] + first;
    vec column[FALT_LAYER_VECTORS];
    __builtin_prefetch(row + LINE); /* rows are too far apart for the hardware prefetcher */
    FALT_UNROLL
    for (int q = 0; q < vectors; q++) column[q] = vec_keep(vec_load(b + q * VEC));
    FALT_UNROLL
    for (int m = 0; m < rows; m++) {
      vec x = vec_all(row[m]);
      if (vectors > 1) x = vec_keep(x);
      FALT_UNROLL
      for (int q = 0; q < vectors; q++) sum[m * vectors + q] = vec_madd(sum[m * vectors + q], column[q], x);
    }
  }
  FALT_UNROLL
  for (int m = 0; m < rows; m++) {
    FALT_UNROLL
    for (int q = 0; q < vectors; q++)
      put_sum(call->out + (m * vectors + q) * VEC, sum[m * vectors + q], call->accumulate);
  }
}

/* The sizes that the table of blocks needs, for the compiler to know. */
#define BLOCK(rows, vectors)                                     \
  static void block_##rows##_##vectors(const falt_outer *call) { \
    block(call, rows, vectors);                                  \
  }
FALT_LAYER_BLOCKS(BLOCK)

enum { MOST_ROWS = 8 };

static void (*const blocks[FALT_LAYER_VECTORS][MOST_ROWS])(const falt_outer *call) = {
    FALT_LAYER_BLOCKS(FALT_LAYER_BLOCK_AT)};

static void outer(const falt_outer *call) {
  blocks[call->vectors - 1][call->rows - 1](call);
}

/* ---- dot products: a step loads a vector of each column and of each row */

#if FALT_VECTOR_BYTES == 64 || defined(__aarch64__)
enum { DOT_ROWS = 6, DOT_COLUMNS = 4 };
#else
enum { DOT_ROWS = 6, DOT_COLUMNS = 2 };
#endif

FALT_INLINE void dots_step(vec sum[DOT_ROWS][DOT_COLUMNS], const lane *const *row, const lane *b, int64_t b_pitch,
                           const int rows, const int columns, int n) {
  vec column[DOT_COLUMNS];
  FALT_UNROLL
  for (int i = 0; i < columns; i++) {
    column[i] = vec_keep(n == VEC ? vec_load(b + i * b_pitch) : vec_load_part(b + i * b_pitch, n));
    __builtin_prefetch(b + (i + columns) * b_pitch);
  }
  FALT_UNROLL
  for (int m = 0; m < rows; m++) {
    const vec x = vec_keep(n == VEC ? vec_load(row[m]) : vec_load_part(row[m], n));
    FALT_UNROLL
    for (int i = 0; i < columns; i++) sum[m][i] = vec_madd(sum[m][i], column[i], x);
  }
}

FALT_INLINE void dots_block(const falt_dots *call, const int rows, const int columns) {
  vec sum[DOT_ROWS][DOT_COLUMNS];
  FALT_UNROLL
  for (int m = 0; m < rows; m++) {
    FALT_UNROLL
    for (int i = 0; i < columns; i++) sum[m][i] = (vec){0};
  }
  const int last = (int)(call->depth % VEC);
  const lane *const *a = call->a, *b = call->b;
  for (int64_t s = 0; s < call->segments; s++, a += call->a_pitch, b += call->b_apart) {
    const lane *row[DOT_ROWS];
    FALT_UNROLL
    for (int m = 0; m < rows; m++) row[m] = a[m];
    for (int64_t j = 0; j < call->depth - last; j += VEC) {
      dots_step(sum, row, b + j, call->b_pitch, rows, columns, VEC);
      FALT_UNROLL
      for (int m = 0; m < rows; m++) row[m] += VEC;
    }
    if (last > 0) dots_step(sum, row, b + call->depth - last, call->b_pitch, rows, columns, last);
  }
  FALT_UNROLL
  for (int m = 0; m < rows; m++) {
    FALT_UNROLL
    for (int i = 0; i < columns; i++) put_sum(call->out + (m * call->pitch + i) * VEC, sum[m][i], call->accumulate);
  }
}

#define DOTS(rows)                                 \
  static void dots_##rows(const falt_dots *call) { \
    if (call->columns == DOT_COLUMNS)              \
      dots_block(call, rows, DOT_COLUMNS);         \
    else                                           \
      dots_block(call, rows, 1);                   \
  }
DOTS(1)
DOTS(2)
DOTS(3)
DOTS(4)
DOTS(5)
DOTS(6)

static void dots(const falt_dots *call) {
  static void (*const sizes[DOT_ROWS])(const falt_dots *) = {dots_1, dots_2, dots_3, dots_4, dots_5, dots_6};
  sizes[call->rows - 1](call);
}

/* ---- transposes: squares of 4 x 4 in registers of 4 elements, which every instruction set has */

enum { SQUARE = 4 };
typedef lane four __attribute__((vector_size(SQUARE * sizeof(lane))));
typedef lane four_unaligned __attribute__((vector_size(SQUARE * sizeof(lane)), aligned(sizeof(lane)), may_alias));

FALT_INLINE four load_four(const lane *p) {
  return *(const four_unaligned *)p;
}
FALT_INLINE void store_four(lane *p, four v) {
  *(four_unaligned *)p = v;
}

FALT_INLINE void transpose_square(const lane *from, int64_t from_pitch, lane *to, int64_t to_pitch) {
  const four a = load_four(from), b = load_four(from + from_pitch);
  const four c = load_four(from + 2 * from_pitch), d = load_four(from + 3 * from_pitch);
  const four ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5), ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const four cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5), cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  store_four(to, __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5));
  store_four(to + to_pitch, __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7));
  store_four(to + 2 * to_pitch, __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5));
  store_four(to + 3 * to_pitch, __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7));
}

static void transpose_part(const falt_transpose *call, int64_t i, int64_t n, int64_t j, int64_t count) {
  for (int64_t y = j; y < j + count; y++)
    for (int64_t x = i; x < i + n; x++) call->to[y * call->to_pitch + x] = call->from[x * call->from_pitch + y];
}

/* Runs of each row of the destination: if rows are a page or more apart, one TLB entry serves a run. */
static void transpose(const falt_transpose *call) {
  enum { RUN = 64 };
  const int64_t n = call->n / SQUARE * SQUARE, count = call->count / SQUARE * SQUARE;
  for (int64_t run = 0; run < n; run += RUN) {
    const int64_t end = run + RUN < n ? run + RUN : n;
    for (int64_t j = 0; j < count; j += SQUARE)
      for (int64_t i = run; i < end; i += SQUARE)
        transpose_square(call->from + i * call->from_pitch + j, call->from_pitch, call->to + j * call->to_pitch + i,
                         call->to_pitch);
  }
  transpose_part(call, n, call->n - n, 0, count);
  transpose_part(call, 0, call->n, count, call->count - count);
}

extern const falt_outer_kernels JOIN(falt_outer_kernels_, FALT_ISA_SUFFIX);
const falt_outer_kernels JOIN(falt_outer_kernels_, FALT_ISA_SUFFIX) = {
    .rows = {0, ROWS_1, ROWS_2, ROWS_3, ROWS_4},
    .dot_rows = DOT_ROWS,
    .dot_columns = DOT_COLUMNS,
    .outer = outer,
    .dots = dots,
    .transpose = transpose,
};
