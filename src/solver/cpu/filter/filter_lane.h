/* Filter kernels of one lane type and one instruction set, in register tiles; filter_kernels.h describes them. Register
 * tiles that minimise communication: F. Iandola et al., ICIP 2013. */
#include "cpu/vector.h"
#include "solver/cpu/filter/filter_kernels.h"

/* Register tile: P rows x Q vectors of accumulators stay in registers over all planes, rows and taps. An input vector
 * is loaded once for the (up to P) output rows that use it, and a tap is broadcast once for Q vectors. Input row t
 * feeds output row p through filter row t - p, so the first and last P - 1 input rows feed fewer outputs (a triangle).
 * They have their own code, so no product is wasted. Each piece of a sum is one chain in the order row, plane, tap for
 * any tile that computes it: outputs do not depend on the cut of the work. */

#if FALT_VECTOR_BYTES == 64 || defined(__aarch64__)
enum { P = 4, Q = 6, QUEUE = 12 }; /* 24 sums, 6 inputs, 1 tap of 32 registers */
#elif FALT_VECTOR_BYTES == 32
enum { P = 4, Q = 3, QUEUE = 8 }; /* 12 sums, 3 inputs, 1 tap of 16 registers */
#else
enum { P = 4, Q = 2, QUEUE = 8 }; /* 8 sums, and room for products without fused multiply-add */
#endif
enum { LINE = 64 / sizeof(lane) };
_Static_assert(P == 4, "tile_low and tile_high spell the rows out");

/* One call, cut to a block of columns from x on. */
typedef struct block {
  const lane *const *rows;
  const lane *taps;
  lane *const *out;
  const lane *const *prefetch;
  int64_t x, n, step, s;
  int planes, r, count;
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
                 .count = call->count,
                 .accumulate = call->accumulate,
                 .stream = call->stream};
}

/* part is 0 for a whole vector, else how many of its elements exist. */
FALT_INLINE vec take(const lane *from, int part) {
  return part ? vec_load_part(from, part) : vec_load(from);
}
FALT_INLINE void put(lane *to, vec v, int part, bool stream) {
  if (part && (part < VEC || !stream))
    vec_store_part(to, v, part);
  else if (stream)
    vec_stream(to, v);
  else
    vec_store(to, v);
}

/* A piece of a sum, which the pieces before it are added to. */
FALT_INLINE void add_to(const block *b, lane *to, vec sum, int part) {
  put(to, b->accumulate ? take(to, part) + sum : sum, part, b->stream);
}

/* The valid elements of vector k of a block of `width` vectors whose last has `part` elements. */
FALT_INLINE int part_of(int k, int width, int part) {
  return k == width - 1 ? part : 0;
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

/* Input row t of all planes into output rows low..high:
 * acc[p][k] += taps[(plane*r + t - p)*s + j] * rows[plane*(r + P - 1) + t][k*VEC + j*step]. */
FALT_INLINE void tile_row(vec acc[P][Q], int r, int low, int high, int width, int part, const block *b, int t) {
  int64_t s = b->s, step = b->step;
  const lane *tap = b->taps + t * s;
  for (int64_t plane = 0; plane < b->planes; plane++, tap += (r - 1) * s) {
    const lane *from = b->rows[plane * (r + P - 1) + t] + b->x;
    for (int64_t j = 0; j < s; j++, tap++, from += step) {
      vec in[Q];
      FALT_UNROLL
      for (int k = 0; k < width; k++)
        in[k] = low < high ? vec_keep(take(from + k * VEC, part_of(k, width, part)))
                           : take(from + k * VEC, part_of(k, width, part));
      FALT_UNROLL
      for (int p = low; p <= high; p++) {
        vec w = vec_all(tap[-p * s]);
        FALT_UNROLL
        for (int k = 0; k < width; k++) acc[p][k] = vec_madd(acc[p][k], w, in[k]);
      }
    }
  }
}

/* Filters of r < P rows: every input row has its own range of outputs, known to the compiler; rows that are not there
 * vanish. */
FALT_INLINE void tile_low_row(vec acc[P][Q], int r, int width, int part, const block *b, int t) {
  if (t < r + P - 1) tile_row(acc, r, t < r ? 0 : t - r + 1, t < P ? t : P - 1, width, part, b, t);
}
FALT_INLINE void tile_low(vec acc[P][Q], int r, int width, int part, const block *b) {
  tile_low_row(acc, r, width, part, b, 0);
  tile_low_row(acc, r, width, part, b, 1);
  tile_low_row(acc, r, width, part, b, 2);
  tile_low_row(acc, r, width, part, b, 3);
  tile_low_row(acc, r, width, part, b, 4);
  tile_low_row(acc, r, width, part, b, 5);
}

FALT_INLINE void tile_high(vec acc[P][Q], int width, int part, const block *b) {
  int r = b->r;
  tile_row(acc, r, 0, 0, width, part, b, 0);
  tile_row(acc, r, 0, 1, width, part, b, 1);
  tile_row(acc, r, 0, 2, width, part, b, 2);
  for (int t = P - 1; t < r; t++) tile_row(acc, r, 0, P - 1, width, part, b, t);
  tile_row(acc, r, 1, P - 1, width, part, b, r);
  tile_row(acc, r, 2, P - 1, width, part, b, r + 1);
  tile_row(acc, r, 3, P - 1, width, part, b, r + 2);
}

FALT_INLINE void tile_prefetch(const block *b, int width) {
  if (!b->prefetch) return;
  for (int p = 0; p < P; p++)
    for (int i = 0; i < width * VEC; i += LINE) __builtin_prefetch(b->prefetch[p] + b->x + i, 0, 2);
}

/* P rows of `width` vectors; the last has `part` elements if part is not 0. r is the filter's height if that is below
 * P, else P for "from P on". */
FALT_INLINE void tile_block(const block *b, int r, int width, int part) {
  vec acc[P][Q];
  tile_prefetch(b, width);
  FALT_UNROLL
  for (int p = 0; p < P; p++) {
    FALT_UNROLL
    for (int k = 0; k < width; k++) acc[p][k] = (vec){0};
  }
  if (r < P)
    tile_low(acc, r, width, part, b);
  else
    tile_high(acc, width, part, b);
  FALT_UNROLL
  for (int p = 0; p < P; p++) {
    FALT_UNROLL
    for (int k = 0; k < width; k++) add_to(b, b->out[p] + b->x + k * VEC, acc[p][k], part_of(k, width, part));
  }
}

enum { FEW = Q < 5 ? Q - 1 : 4 };

/* Blocks of one kernel: `width` vectors, and 1 to `most` of them with 1 to VEC elements in the last. */
typedef struct blocks {
  void (*whole)(const block *b);
  void (*few)(const block *b, int width, int part);
  int width, most;
} blocks;

/* All columns: up to the start of streaming stores, whole blocks, and the rest in blocks of similar width, so that each
 * has enough sums to hide the latency of an addition. */
static void run_columns(const falt_filter_rows *call, int rows, const blocks *kernel) {
  block b = block_of(call);
  int64_t head = b.stream ? head_of(&b, rows) : 0, whole = kernel->width * VEC;
  b.stream = false;
  if (head > 0 && head < b.n) {
    kernel->few(&b, 1, (int)head);
    b.x = head;
  }
  b.stream = call->stream && head >= 0;
  for (; b.n - b.x >= 2 * whole || b.n - b.x == whole; b.x += whole) kernel->whole(&b);
  while (b.x < b.n) {
    int vectors = (int)((b.n - b.x + VEC - 1) / VEC), pieces = (vectors + kernel->most - 1) / kernel->most;
    int width = (vectors + pieces - 1) / pieces;
    kernel->few(&b, width, b.n - b.x < width * VEC ? (int)((b.n - b.x - 1) % VEC + 1) : VEC);
    b.x += width * VEC;
  }
  if (b.stream) vec_stream_end();
}

static void tile_whole(const block *b) {
  tile_block(b, P, Q, 0);
}
/* One column of taps, the passes across rows: with nothing to loop over inside a row, its loads and sums stay dense. */
static void tile_down_whole(const block *b) {
  block down = *b;
  down.planes = 1;
  down.s = 1;
  tile_block(&down, P, Q, 0);
}
static void tile_1_whole(const block *b) {
  tile_block(b, 1, Q, 0);
}
static void tile_2_whole(const block *b) {
  tile_block(b, 2, Q, 0);
}
static void tile_3_whole(const block *b) {
  tile_block(b, 3, Q, 0);
}

FALT_INLINE void tile_few(const block *b, int r, int width, int part) {
  if (width == 1) tile_block(b, r, 1, part);
  if (width == 2 && Q > 2) tile_block(b, r, 2, part);
  if (width == 3 && Q > 3) tile_block(b, r, 3, part);
  if (width == 4 && Q > 4) tile_block(b, r, 4, part);
}
static void tile_high_few(const block *b, int width, int part) {
  tile_few(b, P, width, part);
}
static void tile_1_few(const block *b, int width, int part) {
  tile_few(b, 1, width, part);
}
static void tile_2_few(const block *b, int width, int part) {
  tile_few(b, 2, width, part);
}
static void tile_3_few(const block *b, int width, int part) {
  tile_few(b, 3, width, part);
}

static void tile_piece(const falt_filter_rows *call) {
  static const blocks by_height[P] = {{tile_whole, tile_high_few, Q, FEW},
                                      {tile_1_whole, tile_1_few, Q, FEW},
                                      {tile_2_whole, tile_2_few, Q, FEW},
                                      {tile_3_whole, tile_3_few, Q, FEW}};
  static const blocks down = {tile_down_whole, tile_high_few, Q, FEW};
  const bool column = call->r >= P && call->planes == 1 && call->s == 1;
  run_columns(call, P, column ? &down : &by_height[call->r < P ? call->r : 0]);
}

static void tile(const falt_filter_rows *call) {
  falt_filter_in_pieces(call, P, sizeof(lane), tile_piece);
}

/* ------------------------------------------------------------------------------------------------- one row */

FALT_INLINE void single_block(const block *b, int width, int part) {
  vec acc[QUEUE];
  lane *out = b->out[0] + b->x;
  FALT_UNROLL
  for (int k = 0; k < width; k++) acc[k] = (vec){0};
  for (int64_t i = 0; i < b->r; i++)
    for (int64_t plane = 0; plane < b->planes; plane++) {
      const lane *from = b->rows[plane * b->r + i] + b->x, *tap = b->taps + (plane * b->r + i) * b->s;
      for (int64_t j = 0; j < b->s; j++, tap++, from += b->step) {
        vec w = vec_all(*tap);
        FALT_UNROLL
        for (int k = 0; k < width; k++) acc[k] = vec_madd(acc[k], w, take(from + k * VEC, part_of(k, width, part)));
      }
    }
  FALT_UNROLL
  for (int k = 0; k < width; k++) add_to(b, out + k * VEC, acc[k], part_of(k, width, part));
}

static void single_whole(const block *b) {
  single_block(b, QUEUE, 0);
}
static void single_few(const block *b, int width, int part) {
  if (width == 1) single_block(b, 1, part);
  if (width == 2) single_block(b, 2, part);
  if (width == 3) single_block(b, 3, part);
  if (width == 4) single_block(b, 4, part);
}

static void single_piece(const falt_filter_rows *call) {
  static const blocks kernel = {single_whole, single_few, QUEUE, 4};
  run_columns(call, 1, &kernel);
}

static void single(const falt_filter_rows *call) {
  falt_filter_in_pieces(call, 1, sizeof(lane), single_piece);
}
