/* The arithmetic of filters on rows, for one lane type and one instruction set: cpu/filter.h says what it computes.
 *
 * Register tile: P rows x Q vectors of sums stay in registers while all planes, rows and taps pass by. An input vector
 * is loaded once for the (up to P) output rows that use it, a tap is broadcast once for Q vectors. Input row t feeds
 * output row p through filter row t - p, so the first and last P - 1 input rows feed fewer outputs (a triangle): they
 * have their own code, and no tap is multiplied that is not there. Each sum is one chain in the order plane, row, tap,
 * whatever the tile that it falls into: results do not depend on how the work is cut.
 *
 * (Register tiles that minimise communication: Iandola, Sheffield, Anderson, Phothilimthana, Keutzer, ICIP 2013.) */
#include "cpu/filter.h"
#include "cpu/vector.h"

#if FALT_VECTOR_BYTES == 64 || defined(__aarch64__)
enum { P = 4, Q = 6, QUEUE = 12 }; /* 24 sums, 6 inputs, 1 tap of 32 registers */
#elif FALT_VECTOR_BYTES == 32
enum { P = 4, Q = 3, QUEUE = 8 }; /* 12 sums, 3 inputs, 1 tap of 16 registers */
#else
enum { P = 4, Q = 2, QUEUE = 8 }; /* 8 sums, and room for products where there is no fused multiply-add */
#endif
enum { LINE = 64 / sizeof(lane) };

/* One call, cut to a block of columns from x on. */
typedef struct block {
  const lane *const *rows;
  const lane *taps;
  lane *const *out;
  const lane *const *prefetch;
  int64_t x, n, step, s;
  int planes, r;
  bool accumulate, stream;
} block;

static block block_of(const falt_filter_rows *call) {
  return (block){.rows = (const lane *const *)call->rows,
                 .taps = call->taps,
                 .out = (lane *const *)call->out,
                 .prefetch = (const lane *const *)call->prefetch,
                 .n = call->n,
                 .step = call->step,
                 .s = call->s,
                 .planes = call->planes,
                 .r = call->r,
                 .accumulate = call->accumulate,
                 .stream = call->stream};
}

/* part is 0 for a whole vector, else how many of its elements exist. */
FALT_INLINE vec take(const lane *from, int part) {
  return part ? vec_load_part(from, part) : vec_load(from);
}
FALT_INLINE void put(lane *to, vec v, int part, bool stream) {
  if (part)
    vec_store_part(to, v, part);
  else if (stream)
    vec_stream(to, v);
  else
    vec_store(to, v);
}

/* Elements before the next address that vec_stream accepts, if that is one place for all rows; else -1. */
static int64_t head_of(const block *b, int rows) {
  int64_t head = -1;
  for (int p = 0; p < rows; p++) {
    uintptr_t past = (uintptr_t)b->out[p] % FALT_VECTOR_BYTES;
    int64_t here = past % sizeof(lane) ? -1 : (int64_t)((FALT_VECTOR_BYTES - past) % FALT_VECTOR_BYTES / sizeof(lane));
    if (here < 0 || (p > 0 && here != head)) return -1;
    head = here;
  }
  return head;
}

/* ------------------------------------------------------------------------------------------- P rows at a time */

/* Input row t into output rows low..high: acc[p][k] += taps[(t - p)*s + j] * row[k*VEC + j*step]. */
FALT_INLINE void tile_row(vec acc[P][Q], int low, int high, int width, int part, const block *b, const lane *row,
                          const lane *taps, int t) {
  const lane *tap = taps + t * b->s;
  const lane *from = row + b->x;
  int64_t s = b->s, step = b->step;
  for (int64_t j = 0; j < s; j++, tap++, from += step) {
    vec in[Q];
    FALT_UNROLL
    for (int k = 0; k < width; k++)
      in[k] = low < high ? vec_keep(take(from + k * VEC, part)) : take(from + k * VEC, part);
    FALT_UNROLL
    for (int p = low; p <= high; p++) {
      vec w = vec_all(tap[-p * s]);
      FALT_UNROLL
      for (int k = 0; k < width; k++) acc[p][k] += w * in[k];
    }
  }
}

/* Filters of r < P rows: every input row has its own range of outputs, all known to the compiler. */
FALT_INLINE void tile_plane_low(vec acc[P][Q], int r, int width, int part, const block *b, const lane *const *rows,
                                const lane *taps) {
  FALT_UNROLL
  for (int t = 0; t < r + P - 1; t++)
    tile_row(acc, t < r ? 0 : t - r + 1, t < P ? t : P - 1, width, part, b, rows[t], taps, t);
}

FALT_INLINE void tile_plane_high(vec acc[P][Q], int width, int part, const block *b, const lane *const *rows,
                                 const lane *taps) {
  FALT_UNROLL
  for (int t = 0; t < P - 1; t++) tile_row(acc, 0, t, width, part, b, rows[t], taps, t);
  for (int t = P - 1; t < b->r; t++) tile_row(acc, 0, P - 1, width, part, b, rows[t], taps, t);
  FALT_UNROLL
  for (int below = 1; below < P; below++) {
    int t = b->r - 1 + below;
    tile_row(acc, below, P - 1, width, part, b, rows[t], taps, t);
  }
}

FALT_INLINE void tile_prefetch(const block *b, int width) {
  if (!b->prefetch) return;
  for (int p = 0; p < P; p++)
    for (int i = 0; i < width * VEC; i += LINE) __builtin_prefetch(b->prefetch[p] + b->x + i, 0, 2);
}

/* P rows of `width` vectors, or of the first `part` elements of one. r is the filter's height if that is below P, else
 * P for "from P on". */
FALT_INLINE void tile_block(const block *b, int r, int width, int part) {
  vec acc[P][Q];
  tile_prefetch(b, width);
  FALT_UNROLL
  for (int p = 0; p < P; p++) {
    FALT_UNROLL
    for (int k = 0; k < width; k++) acc[p][k] = b->accumulate ? take(b->out[p] + b->x + k * VEC, part) : (vec){0};
  }
  const lane *const *rows = b->rows;
  const lane *taps = b->taps;
  for (int plane = 0; plane < b->planes; plane++, rows += b->r + P - 1, taps += b->r * b->s)
    if (r < P)
      tile_plane_low(acc, r, width, part, b, rows, taps);
    else
      tile_plane_high(acc, width, part, b, rows, taps);
  FALT_UNROLL
  for (int p = 0; p < P; p++) {
    FALT_UNROLL
    for (int k = 0; k < width; k++) put(b->out[p] + b->x + k * VEC, acc[p][k], part, b->stream);
  }
}

FALT_INLINE void tile_columns(block b, int r) {
  int64_t head = b.stream ? head_of(&b, P) : 0;
  bool stream = b.stream && head >= 0;
  b.stream = false;
  if (head > 0 && head < b.n) {
    tile_block(&b, r, 1, (int)head);
    b.x = head;
  }
  b.stream = stream;
  for (; b.x + Q * VEC <= b.n; b.x += Q * VEC) tile_block(&b, r, Q, 0);
  b.stream = false;
  for (; b.x + VEC <= b.n; b.x += VEC) tile_block(&b, r, 1, 0);
  if (b.x < b.n) tile_block(&b, r, 1, (int)(b.n - b.x));
  if (stream) vec_stream_end();
}

static void tile_any(const falt_filter_rows *call) {
  tile_columns(block_of(call), P);
}
static void tile_1(const falt_filter_rows *call) {
  tile_columns(block_of(call), 1);
}
static void tile_2(const falt_filter_rows *call) {
  tile_columns(block_of(call), 2);
}
static void tile_3(const falt_filter_rows *call) {
  tile_columns(block_of(call), 3);
}

static void tile(const falt_filter_rows *call) {
  static void (*const by_height[P])(const falt_filter_rows *) = {tile_any, tile_1, tile_2, tile_3};
  by_height[call->r < P ? call->r : 0](call);
}

/* ------------------------------------------------------------------------------------------------- one row */

FALT_INLINE void single_block(const block *b, int width, int part) {
  vec acc[QUEUE];
  lane *out = b->out[0] + b->x;
  FALT_UNROLL
  for (int k = 0; k < width; k++) acc[k] = b->accumulate ? take(out + k * VEC, part) : (vec){0};
  const lane *tap = b->taps;
  for (int64_t row = 0; row < (int64_t)b->planes * b->r; row++) {
    const lane *from = b->rows[row] + b->x;
    for (int64_t j = 0; j < b->s; j++, tap++, from += b->step) {
      vec w = vec_all(*tap);
      FALT_UNROLL
      for (int k = 0; k < width; k++) acc[k] += w * take(from + k * VEC, part);
    }
  }
  FALT_UNROLL
  for (int k = 0; k < width; k++) put(out + k * VEC, acc[k], part, b->stream);
}

static void single(const falt_filter_rows *call) {
  block b = block_of(call);
  int64_t head = b.stream ? head_of(&b, 1) : 0;
  bool stream = b.stream && head >= 0;
  b.stream = false;
  if (head > 0 && head < b.n) {
    single_block(&b, 1, (int)head);
    b.x = head;
  }
  b.stream = stream;
  for (; b.x + QUEUE * VEC <= b.n; b.x += QUEUE * VEC) single_block(&b, QUEUE, 0);
  b.stream = false;
  for (; b.x + VEC <= b.n; b.x += VEC) single_block(&b, 1, 0);
  if (b.x < b.n) single_block(&b, 1, (int)(b.n - b.x));
  if (stream) vec_stream_end();
}
