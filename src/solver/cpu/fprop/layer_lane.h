/* Layer kernels of one lane and one instruction set. layer_kernels.h describes them. Define FALT_LANE_BITS and
 * FALT_LAYER_LANE, the table's name without its level, before. */
#include "core/memory.h"
#include "cpu/activate.h"
#include "cpu/vector.h"
#include "solver/cpu/common/layer_blocks.h"
#include "solver/cpu/fprop/layer_kernels.h"
#include "solver/cpu/fprop/layer_transpose.h"

/* A block of rows x vectors of accumulators stays in registers over the whole depth. One step of the depth loads the
 * panel's vectors once for all rows and broadcasts one element of each row: with 6 rows of 4 vectors, 10 loads feed 24
 * multiply-adds. The number of rows is chosen so that accumulators, the panel's vectors and one broadcast fill the
 * register file, and the addresses of the rows the general registers. */

#if FALT_LANE_BITS == 32
#define NUMBER f32
#else
#define NUMBER f64
#endif
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

#if FALT_VECTOR_BYTES == 64 || defined(__aarch64__)
enum { REGISTERS = 32, VECTORS = 4, ROWS_1 = 10, ROWS_2 = 12, ROWS_3 = 8, ROWS_4 = 6 };
#else
enum { REGISTERS = 16, VECTORS = 3, ROWS_1 = 8, ROWS_2 = 6, ROWS_3 = 4, ROWS_4 = 0 };
#endif

FALT_INLINE vec load_columns(const lane *from, int q, int vectors, int last) {
  return q + 1 < vectors || last == VEC ? vec_load(from + q * VEC) : vec_load_part(from + q * VEC, last);
}

FALT_INLINE void store_columns(lane *to, int q, int vectors, int last, vec sum) {
  if (q + 1 < vectors || last == VEC)
    vec_store(to + q * VEC, sum);
  else
    vec_store_part(to + q * VEC, sum, last);
}

enum { LINE = 64 / sizeof(lane) }; /* elements of a cache line */
enum { CUTS = FALT_LANE_BITS == 32 /* sums into chains */ };

typedef struct ahead {
  const lane *at;
  int64_t step, left;
} ahead;

/* Without anything to fetch, the panel, which is in the cache. */
FALT_INLINE ahead begin_ahead(const falt_layer_product *call) {
  const bool fetches = call->ahead != NULL;
  return (ahead){fetches ? call->ahead : call->b, fetches ? LINE : 0, call->ahead_run};
}

FALT_INLINE void fetch_ahead(ahead *a, const falt_layer_product *call) {
  __builtin_prefetch(a->at);
  a->at += a->step;
  if (--a->left == 0) {
    a->at += call->ahead_jump;
    a->left = call->ahead_run;
  }
}

/* One chain of multiply-adds. Always inlined with constant rows and vectors, so that the loops over the block unroll.
 * Compilers unroll short loops only, so rows and vectors are separate loops everywhere; otherwise accumulators would
 * not stay in registers. */
FALT_INLINE void block(const falt_layer_product *call, const int rows, const int vectors) {
  vec sum[FALT_LAYER_ROWS][FALT_LAYER_VECTORS];
  const int last = (int)call->n - (vectors - 1) * VEC;
  FALT_UNROLL
  for (int m = 0; m < rows; m++) {
    FALT_UNROLL
    for (int q = 0; q < vectors; q++) {
      sum[m][q] = !CUTS && call->accumulate ? load_columns(call->out[m], q, vectors, last) : (vec){0};
      __builtin_prefetch((lane *)call->out[m] + q * VEC, 1); /* outputs are in flight while sums are formed */
    }
  }
  const int64_t step = 1 + call->skip, end = call->depth * step, pitch = vectors * VEC + call->b_skip;
  const void *const *a = call->a;
  const lane *b = call->b;
  const falt_layer_jump *jump = call->jumps;
  const bool widest = vectors == VECTORS; /* others have no registers left */
  ahead next = begin_ahead(call);
  for (int64_t s = 0; s < call->segments; s++, a += call->a_pitch) {
    if (jump) {
      a += jump->a;
      b += jump->b;
      jump++;
    }
    const lane *row[FALT_LAYER_ROWS];
    FALT_UNROLL
    for (int m = 0; m < rows; m++) row[m] = (const lane *)a[m] + call->offset;
    for (int64_t j = 0; j < end; j += step, b += pitch) {
      vec column[FALT_LAYER_VECTORS];
      FALT_UNROLL
      for (int q = 0; q < vectors; q++) column[q] = vec_keep(vec_load(b + q * VEC));
      if (widest) fetch_ahead(&next, call);
      FALT_UNROLL
      for (int m = 0; m < rows; m++) {
        vec x = vec_all(row[m][j]);
        if (vectors > 1) x = vec_keep(x);
        FALT_UNROLL
        for (int q = 0; q < vectors; q++) sum[m][q] = vec_madd(sum[m][q], column[q], x);
      }
    }
  }
  FALT_UNROLL
  for (int m = 0; m < rows; m++) {
    FALT_UNROLL
    for (int q = 0; q < vectors; q++) {
      if (CUTS && call->accumulate) sum[m][q] += load_columns(call->out[m], q, vectors, last);
      store_columns(call->out[m], q, vectors, last, sum[m][q]);
    }
  }
}

/* The sizes that the table of blocks needs, for the compiler to know. */
#define BLOCK(rows, vectors)                                             \
  static void block_##rows##_##vectors(const falt_layer_product *call) { \
    block(call, rows, vectors);                                          \
  }
#if FALT_VECTOR_BYTES == 64 || defined(__aarch64__)
#define MORE_BLOCKS(X) X(9, 1) X(10, 1) X(11, 1) X(12, 1) X(9, 2) X(10, 2) X(11, 2) X(12, 2)
#else
#define MORE_BLOCKS(X)
#endif
FALT_LAYER_BLOCKS(BLOCK)
MORE_BLOCKS(BLOCK)

typedef void (*block_function)(const falt_layer_product *call);

static const block_function blocks[FALT_LAYER_VECTORS][FALT_LAYER_ROWS] = {FALT_LAYER_BLOCKS(FALT_LAYER_BLOCK_AT)
                                                                               MORE_BLOCKS(FALT_LAYER_BLOCK_AT)};

/* Segments from s on in one chain, whose panel begins `at` elements after the call's. */
static int64_t chained(const falt_layer_product *call, int64_t s, int64_t at, int64_t pitch, int64_t chain) {
  const int64_t left = call->segments - s, most = falt_min(left, falt_layer_chain(call->depth, chain));
  const int64_t segment = call->depth * pitch, reach = falt_max(1, falt_layer_chain(call->depth, chain) * segment);
  if (!call->jumps || call->depth >= chain) return most;
  int64_t count = 0, here, first = 0;
  for (; count < left; count++, at = here + segment) {
    here = at + call->jumps[s + count].b;
    if (count == 0) first = here / reach;
    if (here / reach != first) break;
  }
  return count;
}

/* Chain by chain. Where a segment is longer than a chain, each of its pieces is one. Out of line: a copy of the call,
 * just written, waits for its stores, which short products would feel. */
__attribute__((noinline)) static void chains(const falt_layer_product *call, block_function run, int64_t chain) {
  const int64_t pitch = (call->n + VEC - 1) / VEC * VEC + call->b_skip;
  falt_layer_product piece = *call;
  for (int64_t s = 0, steps = 0; s < call->segments; s += piece.segments) {
    const lane *b = piece.b;
    piece.segments = chained(call, s, b - (const lane *)call->b, pitch, chain);
    piece.jumps = call->jumps ? call->jumps + s : NULL;
    for (int64_t j = 0; j < call->depth; j += piece.depth) {
      piece.depth = call->depth >= chain ? falt_min(chain, call->depth - j) : call->depth;
      piece.offset = call->offset + j * (1 + call->skip);
      piece.b = b + j * pitch;
      run(&piece);
      piece.accumulate = true;
      steps += piece.segments * piece.depth;
      if (call->ahead)
        piece.ahead = (const lane *)call->ahead + steps * LINE + steps / call->ahead_run * call->ahead_jump;
    }
    piece.a += piece.segments * call->a_pitch;
    piece.b = b + piece.segments * call->depth * pitch;
    for (int64_t i = 0; call->jumps && i < piece.segments; i++) {
      piece.a += call->jumps[s + i].a;
      piece.b = (const lane *)piece.b + call->jumps[s + i].b;
    }
  }
}

static void product(const falt_layer_product *call) {
  const block_function run = blocks[(call->n - 1) / VEC][call->rows - 1];
  const int64_t chain = call->chain ? call->chain : FALT_LAYER_CHAIN;
  const bool near = !call->jumps || call->segments < 2 || call->depth < 1; /* no jump leads into another chain */
  if (!CUTS || (near && call->segments * call->depth <= chain))
    run(call);
  else
    chains(call, run, chain);
}

/* ---- products of small groups */

/* A shuffle extracts each column's element from the row's vector. It costs as much as a multiply-add, but no lane is
 * wasted. */
FALT_INLINE void groups_block(const falt_layer_product *call, const int rows) {
  const int n = (int)call->n, span = n / call->results * (int)call->depth;
  vec sum[FALT_LAYER_ROWS] = {0}, total[FALT_LAYER_ROWS] = {0};
  vec_bits first;
  for (int i = 0; i < VEC; i++) first[i] = i < n ? i / call->results * (int)call->depth : 0;
  const void *const *a = call->a;
  const lane *b = call->b;
  for (int64_t s = 0, left = FALT_LAYER_CHAIN; s < call->segments; s++, a += call->a_pitch, left -= call->depth) {
    vec row[FALT_LAYER_ROWS];
    vec_bits index = first;
    if (CUTS && left <= 0) {
      FALT_UNROLL
      for (int m = 0; m < rows; m++) total[m] += sum[m], sum[m] = (vec){0};
      left = FALT_LAYER_CHAIN;
    }
    FALT_UNROLL
    for (int m = 0; m < rows; m++) row[m] = vec_load_part((const lane *)a[m] + call->offset, span);
    for (int64_t j = 0; j < call->depth; j++, b += VEC, index += 1) {
      const vec column = vec_keep(vec_load(b));
      FALT_UNROLL
      for (int m = 0; m < rows; m++) sum[m] = vec_madd(sum[m], column, vec_pick(row[m], index));
    }
  }
  FALT_UNROLL
  for (int m = 0; m < rows; m++) vec_store_part(call->out[m], total[m] + sum[m], n);
}

#define GROUPS(rows)                                          \
  static void groups_##rows(const falt_layer_product *call) { \
    groups_block(call, rows);                                 \
  }
GROUPS(1)
GROUPS(2)
GROUPS(3)
GROUPS(4)
GROUPS(5)
GROUPS(6)
#if FALT_VECTOR_BYTES == 64 || defined(__aarch64__)
GROUPS(7)
GROUPS(8)
GROUPS(9)
GROUPS(10)
GROUPS(11)
GROUPS(12)
#endif

static void groups(const falt_layer_product *call) {
  static void (*const sizes[FALT_LAYER_ROWS])(const falt_layer_product *) = {
    groups_1,
    groups_2,
    groups_3,
    groups_4,
    groups_5,
    groups_6,
#if FALT_VECTOR_BYTES == 64 || defined(__aarch64__)
    groups_7,
    groups_8,
    groups_9,
    groups_10,
    groups_11,
    groups_12,
#endif
  };
  sizes[call->rows - 1](call);
}

/* ---- rows in */

/* Rows are a channel apart, too far for the hardware prefetcher: some rows are prefetched. */
enum { AHEAD = 8 };
enum { LEAST_TRANSPOSED = 3 }; /* rows and columns for which shuffles are faster than moving single elements */

FALT_INLINE void copy_near(const falt_layer_copy *call) {
  const int last = (int)((call->n - 1) % VEC) + 1;
  const int64_t whole = call->n - last;
  const lane *from = call->from;
  lane *to = call->to;
  for (int64_t j = 0; j < call->count; j++, from += call->from_pitch, to += call->to_pitch) {
    for (int64_t i = 0; i < call->n; i += LINE) __builtin_prefetch(from + AHEAD * call->from_pitch + i);
    for (int64_t i = 0; i < whole; i += VEC) vec_store(to + i, vec_load(from + i));
    vec_store_part(to + whole, vec_load_part(from + whole, last), last);
  }
}

/* Short rows, contiguous: whole vectors, the end of each overwritten by the next row. The last rows, after which
 * nothing may be read or written, are left to copy_near. */
FALT_INLINE int64_t copy_dense(const falt_layer_copy *call) {
  const int64_t unread = call->from_pitch > 0 ? falt_ceil_div(VEC - call->n, call->from_pitch) : call->count;
  const int64_t unwritten = falt_ceil_div(VEC - call->n, call->n), count = call->count - falt_max(unread, unwritten);
  const lane *from = call->from;
  lane *to = call->to;
  for (int64_t j = 0; j < count; j++, from += call->from_pitch, to += call->n) {
    __builtin_prefetch(from + AHEAD * call->from_pitch);
    vec_store(to, vec_load(from));
  }
  return count > 0 ? count : 0;
}

static void copy_rows(const falt_layer_copy *call) {
  falt_layer_copy rest = *call;
  const int64_t done = call->n < VEC && call->to_pitch == call->n ? copy_dense(call) : 0;
  rest.from = (const lane *)rest.from + done * call->from_pitch;
  rest.to = (lane *)rest.to + done * call->to_pitch;
  rest.count -= done;
  copy_near(&rest);
}

/* A step that the compiler knows becomes shuffles. */
FALT_INLINE void copy_apart(const falt_layer_copy *call, int64_t step) {
  for (int64_t j = 0; j < call->count; j++) {
    const lane *restrict from = (const lane *)call->from + j * call->from_pitch;
    lane *restrict to = (lane *)call->to + j * call->to_pitch;
    for (int64_t i = 0; i < call->n; i++) to[i] = from[i * step];
  }
}

static void copy(const falt_layer_copy *call) {
  if (call->step == 1)
    copy_rows(call);
  else if ((call->from_pitch == 1 || call->from_pitch == -1) && call->count >= LEAST_TRANSPOSED &&
           call->n >= LEAST_TRANSPOSED)
    copy_transposed(call);
  else if (call->step == 2)
    copy_apart(call, 2);
  else if (call->step == 4)
    copy_apart(call, 4);
  else
    copy_apart(call, call->step);
}

/* ---- sums that overlap */

/* Runs with distance `apart` do not overlap and are added one after the other: a run that reads the output of the
 * previous one waits for it. */
static void overlap(const falt_layer_overlap *call) {
  const int64_t apart = (call->n - 1) / call->step + 1;
  const int last = (int)((call->n - 1) % VEC) + 1;
  const int64_t whole = call->n - last;
  for (int64_t first = 0; first < apart; first++)
    for (int64_t j = first; j < call->count; j += apart) {
      const lane *from = (const lane *)call->from + j * call->pitch;
      lane *to = (lane *)call->to + j * call->step;
      for (int64_t i = 0; i < whole; i += VEC) vec_store(to + i, vec_load(to + i) + vec_load(from + i));
      vec_store_part(to + whole, vec_load_part(to + whole, last) + vec_load_part(from + whole, last), last);
    }
}

/* ---- sums out */

/* Column i of all rows, so data of columns is loaded once. */
FALT_INLINE void finish_columns(const falt_layer_finish *call, int64_t i, int n, bool by_row) {
  const vec low = vec_all(call->low.NUMBER), high = vec_all(call->high.NUMBER);
  vec scale = {0}, offset = {0};
  if (!by_row) {
    scale = vec_load_part((const lane *)call->scale + i, n);
    offset = vec_load_part((const lane *)call->offset + i, n);
  }
  for (int m = 0; m < call->rows; m++) {
    if (by_row) {
      scale = vec_all(((const lane *)call->scale)[m]);
      offset = vec_all(((const lane *)call->offset)[m]);
    }
    vec y = vec_madd(offset, scale, vec_load_part((const lane *)call->sums + m * call->pitch + i, n));
    if (call->residual) y += vec_load_part((const lane *)call->residual[m] + i, n);
    if (call->curve != FALT_IDENTITY) y = vec_bend(y, call->curve, call->slope.NUMBER);
    vec_store_part((lane *)call->out[m] + i, vec_clip(y, low, high), n);
  }
}

FALT_INLINE void finish(const falt_layer_finish *call, bool by_row) {
  int64_t i = 0;
  for (; i + VEC <= call->n; i += VEC) finish_columns(call, i, VEC, by_row);
  if (i < call->n) finish_columns(call, i, (int)(call->n - i), by_row);
}

static void finish_by_row(const falt_layer_finish *call) {
  finish(call, true);
}

static void finish_by_column(const falt_layer_finish *call) {
  finish(call, false);
}

extern const falt_layer_kernels JOIN(FALT_LAYER_LANE, FALT_ISA_SUFFIX);
const falt_layer_kernels JOIN(FALT_LAYER_LANE, FALT_ISA_SUFFIX) = {
    .lane_size = sizeof(lane),
    .width = VEC,
    .vectors = VECTORS,
    .rows = {0, ROWS_1, ROWS_2, ROWS_3, ROWS_4},
    .group_rows = ROWS_2,
    .product = product,
    .groups = groups,
    .copy = copy,
    .overlap = overlap,
    .finish_by_row = finish_by_row,
    .finish_by_column = finish_by_column,
};
