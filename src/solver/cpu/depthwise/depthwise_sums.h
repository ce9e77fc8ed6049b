/* The sums of the kernels of depthwise_kernels.h. A template defines KIND, the content of a word of the source and of
 * the weights (one f32, two bf16 or four bytes), and includes this file. */
#ifndef FALT_SOLVER_CPU_DEPTHWISE_DEPTHWISE_SUMS_H
#define FALT_SOLVER_CPU_DEPTHWISE_DEPTHWISE_SUMS_H

#include "cpu/activate.h"
#include "cpu/convert.h"
#include "cpu/vector.h"
#include "solver/cpu/common/vector_dots.h"
#include "solver/cpu/depthwise/depthwise_kernels.h"

/* A tile of neighbouring positions of one vector of channels keeps its accumulators in registers over all segments. In
 * a near segment, the usual one, a vector of the source is loaded once for all taps that read it: 3 taps of 14
 * positions load 16 vectors and 3 weights for 42 multiply-adds. A column that a table leaves out saves its
 * multiply-adds. Other segments (strides, dilations) load once for each multiply-add, which two loads a cycle can just
 * supply. Channels are the inner loop and positions the outer one, so memory is read in order.
 *
 * Small groups are adjacent in a vector, and a shuffle extracts each lane's factor. A shuffle may take the place of a
 * multiply-add, so sharing a column among 3 taps pays more there: 16 shuffles for 42 multiply-adds. For a group that
 * fills vectors, one word of the source serves all lanes, and a load broadcasts it at no cost. */

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

enum { LINE = 64 };
#if FALT_VECTOR_BYTES == 64 || defined(__aarch64__)
enum { TILE = 14 };
#else
enum { TILE = 7 };
#endif

/* Columns of a tile are more than FALT_UNROLL unrolls. */
#if defined(__clang__)
#define UNROLL_COLUMNS _Pragma("clang loop unroll(full)")
#else
#define UNROLL_COLUMNS _Pragma("GCC unroll 32")
#endif

FALT_INLINE vec load(const lane *from, int n) {
  return n == VEC ? vec_load(from) : vec_load_part(from, n);
}

/* The same where n is rarely known: masks of this width cost little, and halves and quarters nothing. */
FALT_INLINE vec load_some(const lane *from, int n) {
#if FALT_VECTOR_BYTES == 64
  const bool known = __builtin_constant_p(n);
  if (known && n == VEC / 2) return (vec)_mm512_zextps256_ps512(_mm256_loadu_ps(from));
  if (known && n == VEC / 4) return (vec)_mm512_zextps128_ps512(_mm_loadu_ps(from));
  if (!known) return vec_load_part(from, n);
#endif
  return load(from, n);
}

/* Lines are written whole by vectors of their size alone. */
FALT_INLINE void store(lane *to, vec y, int n, bool stream) {
  if (stream && VEC * sizeof(lane) == LINE && n == VEC)
    vec_stream(to, y);
  else if (n == VEC)
    vec_store(to, y);
  else
    vec_store_part(to, y, n);
}

/* ---- places: a vector of output channels and the sources that it reads */

typedef struct place {
  int64_t result, source; /* channels */
  int64_t ahead;          /* the source to prefetch */
  vec_bits pick;
  int n, m; /* outputs, and sources where they are read as a vector */
} place;

/* One walk over a call's vectors. `next` is the vector's number. */
typedef struct walk {
  const falt_depthwise_call *call;
  int64_t next, first, source; /* the unit's first output and source */
  place at;
} walk;

FALT_INLINE void set_place(walk *w, int64_t result) {
  const falt_depthwise_unit *unit = w->call->unit;
  const int64_t left = w->call->n - w->first, results = left < unit->results ? left : unit->results;
  const int64_t within = result - w->first;
  w->at.result = result;
  w->at.source = w->source;
  w->at.ahead = w->source + (within < unit->sources ? within : 0);
  w->at.n = results - within < VEC ? (int)(results - within) : VEC;
  w->at.m = (int)(results == unit->results ? unit->sources : results * unit->sources / unit->results);
}

FALT_INLINE walk walk_channels(const falt_depthwise_call *call, const falt_depthwise_reads reads) {
  walk w = {.call = call};
  if (reads == FALT_READS_PICK)
    for (int i = 0; i < VEC; i++) w.at.pick[i] = call->unit->pick[i];
  if (reads == FALT_READS_EACH)
    w.at.n = w.at.m = call->n < VEC ? (int)call->n : VEC;
  else
    set_place(&w, 0);
  return w;
}

/* On to the next vector; false behind the last. */
FALT_INLINE bool walk_on(walk *w, const falt_depthwise_reads reads) {
  const int64_t next = w->at.result + w->at.n;
  w->next++;
  if (next == w->call->n) return false;
  if (reads == FALT_READS_EACH) {
    w->at.result = w->at.source = w->at.ahead = next;
    w->at.n = w->at.m = w->call->n - next < VEC ? (int)(w->call->n - next) : VEC;
    return true;
  }
  if (next - w->first == w->call->unit->results) {
    w->first = next;
    w->source += w->call->unit->sources;
  }
  set_place(w, next);
  return true;
}

FALT_INLINE void look_ahead(const falt_depthwise_call *call, int64_t q, const place *at, int64_t positions) {
  for (int a = 0; a < call->ahead_count; a++)
    for (int64_t p = 0; p < positions; p++)
      __builtin_prefetch(call->ahead[a] + (q + p) * call->ahead_step + at->ahead, 0, 2);
}

/* ---- operands of lanes */

/* Words that a full vector of outputs reads as a vector: where it is of several groups, as many channels as outputs. */
FALT_INLINE int words_of(const falt_depthwise_reads reads) {
  const int elements = KIND == FALT_TILES_F32 ? 1 : KIND == FALT_TILES_BF16 ? 2 : 4;
  return reads == FALT_READS_PICK ? VEC / elements : VEC;
}

FALT_INLINE vec vec_word(const lane *from) {
  lane_bits word; /* of a tensor of narrower elements, which need not be aligned */
  memcpy(&word, from, sizeof word);
  return (vec)all_bits(word);
}

/* Of source j of each lane's group; `pick` is moved on by j. */
FALT_INLINE vec fetch(const lane *x, int64_t j, vec_bits pick, int m, const falt_depthwise_reads reads) {
  if (reads == FALT_READS_ALL) return vec_word(x + j);
  const vec v = load_some(x, m);
  return reads == FALT_READS_PICK ? vec_pick(v, pick) : v;
}

FALT_INLINE vec multiply_add(vec sum, vec weight, vec column) {
  const split x = split_row((vec_bits)column, KIND), w = split_column((vec_bits)weight, KIND);
  return (vec)multiply((vec_bits)sum, x, w, KIND);
}

/* ---- sums: inlined with constant positions, taps and reads, which keeps accumulators in registers */

/* Columns at either end that a near segment may skip; it reads the others without tests. */
enum { ENDS = 3 };

/* Columns [begin, end) of a near segment. `tidy`: full vectors, and few columns are left out. */
FALT_INLINE void add_columns(vec *sum, const falt_depthwise_segment *segment, const lane *x, const lane *w, int64_t j,
                             vec_bits pick, int64_t begin, int64_t end, int m, const int positions, const int taps,
                             const falt_depthwise_reads reads, const bool tidy) {
  const int columns = positions + taps - 1;
  const int64_t step = segment->step;
  vec weight[FALT_DEPTHWISE_TAPS];
  FALT_UNROLL
  for (int s = 0; s < taps; s++) weight[s] = vec_keep(vec_load(w + s * segment->weight_step));
  UNROLL_COLUMNS
  for (int c = 0; c < columns; c++, x += c % 3 == 0 ? 3 * step : 0) { /* addresses have room for 0, 1 or 2 steps */
    if ((!tidy || c < ENDS) && c < begin) continue;
    if ((!tidy || c >= columns - ENDS) && c >= end) continue;
    const vec column = vec_keep(fetch(x + c % 3 * step, j, pick, m, reads));
    FALT_UNROLL
    for (int s = 0; s < taps; s++)
      if (c >= s && c - s < positions) sum[c - s] = multiply_add(sum[c - s], weight[s], column);
  }
}

/* The same for all sources: differences between segments are decided once for each. */
FALT_INLINE void add_near(vec *sum, const falt_depthwise_segment *segment, const lane *x, const lane *w, vec_bits pick,
                          int64_t begin, int64_t end, int m, const int positions, const int taps,
                          const falt_depthwise_reads reads, const bool tidy) {
  const int64_t depth = reads == FALT_READS_EACH ? 1 : segment->depth;
  for (int64_t j = 0; j < depth; j++, pick += 1, w += VEC)
    add_columns(sum, segment, x, w, j, pick, begin, end, m, positions, taps, reads, tidy);
}

/* One tap, whose positions read with a distance, or by a table. */
FALT_INLINE void add_apart(vec *sum, const lane *x, const int64_t *at, int64_t step, const lane *w, int64_t j,
                           vec_bits pick, int m, const int positions, const falt_depthwise_reads reads) {
  const vec weight = vec_keep(vec_load(w));
  if (!at) {
    FALT_UNROLL
    for (int q = 0; q < positions; q++, x += step) sum[q] = multiply_add(sum[q], weight, fetch(x, j, pick, m, reads));
    return;
  }
  FALT_UNROLL
  for (int q = 0; q < positions; q++)
    if (at[q] != FALT_DEPTHWISE_NONE) sum[q] = multiply_add(sum[q], weight, fetch(x + at[q], j, pick, m, reads));
}

FALT_INLINE void add_near_taps(vec *sum, const falt_depthwise_segment *segment, const lane *x, const lane *w,
                               vec_bits pick, int64_t begin, int64_t end, int m, const int positions,
                               const falt_depthwise_reads reads, const bool tidy) {
  switch (segment->taps) {
    case 1:
      add_near(sum, segment, x, w, pick, begin, end, m, positions, 1, reads, tidy);
      break;
    case 2:
      add_near(sum, segment, x, w, pick, begin, end, m, positions, 2, reads, tidy);
      break;
    case 3:
      add_near(sum, segment, x, w, pick, begin, end, m, positions, 3, reads, tidy);
      break;
    case 4:
      if (reads == FALT_READS_EACH) add_near(sum, segment, x, w, pick, begin, end, m, positions, 4, reads, tidy);
      break;
    case 5:
      if (reads == FALT_READS_EACH) add_near(sum, segment, x, w, pick, begin, end, m, positions, 5, reads, tidy);
      break;
    default:
      if (reads == FALT_READS_EACH) add_near(sum, segment, x, w, pick, begin, end, m, positions, 7, reads, tidy);
  }
}

/* Segments that are not near. */
FALT_INLINE void add_far(vec *sum, const falt_depthwise_segment *s, const lane *x, const lane *w, const place *at,
                         int64_t q, int64_t table, const int positions, const falt_depthwise_reads reads,
                         const bool full) {
  const int64_t depth = reads == FALT_READS_EACH ? 1 : s->depth;
  vec_bits pick = at->pick;
  for (int64_t j = 0; j < depth; j++, pick += 1, w += VEC)
    for (int tap = 0; tap < s->taps; tap++) {
      const lane *from = s->at ? x : x + tap * s->tap_step, *by = w + tap * s->weight_step;
      if (full && !s->at)
        add_apart(sum, from, NULL, s->step, by, j, pick, words_of(reads), positions, reads);
      else
        add_apart(sum, from, s->at ? s->at + tap * table + q : NULL, s->step, by, j, pick, at->m, positions, reads);
    }
}

FALT_INLINE void add_segment(vec *sum, const falt_depthwise_segment *s, const lane *weights, const place *at, int64_t q,
                             int64_t table, const int positions, const falt_depthwise_reads reads, const bool full) {
  const lane *x = s->row + at->source + (s->at ? 0 : q * s->step), *w = weights + s->weight;
  const int64_t begin = s->begin - q, end = s->end - q;
  const bool tidy = full && begin <= ENDS && end >= positions + s->taps - 1 - ENDS;
  if (!s->near)
    add_far(sum, s, x, w, at, q, table, positions, reads, full);
  else if (tidy)
    add_near_taps(sum, s, x, w, at->pick, begin, end, words_of(reads), positions, reads, true);
  else
    add_near_taps(sum, s, x, w, at->pick, begin, end, at->m, positions, reads, false);
}

/* ---- outputs */

FALT_INLINE vec as_number(vec sum) {
  return KIND <= FALT_TILES_S8 ? __builtin_convertvector((vec_bits)sum, vec) : sum;
}

FALT_INLINE void put(char *to, vec y, int n, const falt_type type, bool stream) {
  if (type == FALT_F32)
    store((lane *)(void *)to, y, n, stream);
  else
    store_some(to, y, n, type);
}

/* The product is rounded before it is added to, on every instruction set: outputs of integers have the same bits. */
FALT_INLINE void results_as(const falt_depthwise_call *call, const vec *sum, int64_t q, int64_t i, int n, int positions,
                            const falt_type type) {
  const falt_depthwise_finish *f = call->finish;
  const int64_t step = call->out_step * (int64_t)size_of(type);
  char *out = (char *)call->out + (q * call->out_step + i) * (int64_t)size_of(type);
  for (int p = 0; p < positions && !f; p++) put(out + p * step, as_number(sum[p]), n, type, call->stream);
  if (!f) return;
  const vec low = vec_all(f->low), high = vec_all(f->high);
  const vec scale = load(f->scale + i, n), offset = load(f->offset + i, n);
  for (int p = 0; p < positions; p++) {
    vec y = vec_keep(scale * as_number(sum[p])) + offset;
    if (f->residual) y += load(f->residual + (q + p) * f->residual_step + i, n);
    if (f->curve != FALT_IDENTITY) y = vec_bend(y, f->curve, f->slope);
    put(out + p * step, vec_clip(y, low, high), n, type, call->stream);
  }
}

/* Kept out of the tiles: few instructions each, and there are many tiles. A case for each type, like other switches
 * over types: each call is compiled for its constant type. */
static __attribute__((noinline)) void results(const falt_depthwise_call *call, const vec *sum, int64_t q, int64_t i,
                                              int n, int positions) {
  switch (KIND == FALT_TILES_F32 ? FALT_F32 : call->type) {
    case FALT_U8:
      results_as(call, sum, q, i, n, positions, FALT_U8);
      break;
    case FALT_S8:
      results_as(call, sum, q, i, n, positions, FALT_S8);
      break;
    case FALT_U16:
      results_as(call, sum, q, i, n, positions, FALT_U16);
      break;
    case FALT_S16:
      results_as(call, sum, q, i, n, positions, FALT_S16);
      break;
    case FALT_F16:
      results_as(call, sum, q, i, n, positions, FALT_F16);
      break;
    case FALT_BF16:
      results_as(call, sum, q, i, n, positions, FALT_BF16);
      break;
    case FALT_S32:
      results_as(call, sum, q, i, n, positions, FALT_S32);
      break;
    default:
      results_as(call, sum, q, i, n, positions, FALT_F32);
  }
}

/* Sums of floats are chains of the segments whose weights lie in the same PIECE words of a lane; these are added one
 * after another. The cut depends on the taps alone. */
enum { PIECE = 512, ROUNDS = KIND == FALT_TILES_F32 || KIND == FALT_TILES_BF16 };

FALT_INLINE void all_segments(vec *sum, const falt_depthwise_call *call, int64_t q, const place *at,
                              const lane *weights, const int positions, const falt_depthwise_reads reads,
                              const bool full) {
  vec total[TILE];
  int64_t piece = call->count > 0 ? call->segments->weight / (PIECE * VEC) : 0;
  bool has_total = false;
  for (const falt_depthwise_segment *s = call->segments; s < call->segments + call->count; s++) {
    if (ROUNDS && s->weight / (PIECE * VEC) != piece) {
      FALT_UNROLL
      for (int p = 0; p < positions; p++) total[p] = has_total ? total[p] + sum[p] : sum[p], sum[p] = (vec){0};
      has_total = true;
      piece = s->weight / (PIECE * VEC);
    }
    add_segment(sum, s, weights, at, q, call->positions, positions, reads, full);
  }
  FALT_UNROLL
  for (int p = 0; p < positions; p++)
    if (has_total) sum[p] = total[p] + sum[p];
}

/* Positions [q, q + positions) of one vector of channels. */
FALT_INLINE void tile(const falt_depthwise_call *call, int64_t q, const place *at, const lane *weights,
                      const int positions, const falt_depthwise_reads reads) {
  vec sum[TILE];
  const bool full = at->n == VEC && (reads == FALT_READS_ALL || at->m == words_of(reads));
  look_ahead(call, q, at, positions);
  FALT_UNROLL
  for (int p = 0; p < positions; p++) sum[p] = (vec){0};
  all_segments(sum, call, q, at, weights, positions, reads, full);
  const falt_type own = KIND == FALT_TILES_F32 ? FALT_F32 : KIND == FALT_TILES_BF16 ? FALT_BF16 : FALT_U8;
  if (call->finish || (KIND != FALT_TILES_F32 && (call->type != own || at->n != VEC))) {
    vec sums[TILE];
    FALT_UNROLL
    for (int p = 0; p < positions; p++) sums[p] = sum[p];
    results(call, sums, q, at->result, at->n, positions);
    return;
  }
  const int n = KIND == FALT_TILES_F32 ? at->n : VEC;
  const int64_t step = call->out_step * (int64_t)size_of(own);
  char *out = (char *)call->out + (q * call->out_step + at->result) * (int64_t)size_of(own);
  FALT_UNROLL
  for (int p = 0; p < positions; p++, out += step) put(out, as_number(sum[p]), n, own, call->stream);
}

FALT_INLINE void all_channels(const falt_depthwise_call *call, int64_t q, const int positions,
                              const falt_depthwise_reads reads) {
  walk w = walk_channels(call, reads);
  do tile(call, q, &w.at, call->weights + w.next * call->weights_pitch, positions, reads);
  while (walk_on(&w, reads));
}

/* The sizes that sums() needs, for the compiler to know. */
#define POSITIONS(count)                                                 \
  static void each_##count(const falt_depthwise_call *call, int64_t q) { \
    all_channels(call, q, count, FALT_READS_EACH);                       \
  }                                                                      \
  static void pick_##count(const falt_depthwise_call *call, int64_t q) { \
    all_channels(call, q, count, FALT_READS_PICK);                       \
  }                                                                      \
  static void all_##count(const falt_depthwise_call *call, int64_t q) {  \
    all_channels(call, q, count, FALT_READS_ALL);                        \
  }
POSITIONS(1)
POSITIONS(2)
POSITIONS(4)
POSITIONS(7)
#if FALT_VECTOR_BYTES == 64 || defined(__aarch64__)
POSITIONS(14)
#endif

static void sums(const falt_depthwise_call *call) {
  enum { SIZES = 5 };
  static const int size[SIZES] = {14, 7, 4, 2, 1};
  static void (*const run[][SIZES])(const falt_depthwise_call *, int64_t) = {
#if FALT_VECTOR_BYTES == 64 || defined(__aarch64__)
    [FALT_READS_EACH] = {each_14, each_7, each_4, each_2, each_1},
    [FALT_READS_PICK] = {pick_14, pick_7, pick_4, pick_2, pick_1},
    [FALT_READS_ALL] = {all_14, all_7, all_4, all_2, all_1},
#else
    [FALT_READS_EACH] = {NULL, each_7, each_4, each_2, each_1},
    [FALT_READS_PICK] = {NULL, pick_7, pick_4, pick_2, pick_1},
    [FALT_READS_ALL] = {NULL, all_7, all_4, all_2, all_1},
#endif
  };
  int64_t q = 0;
  for (int i = TILE == 14 ? 0 : 1; i < SIZES; i++)
    for (; call->positions - q >= size[i]; q += size[i]) run[call->unit->reads][i](call, q);
  if (call->stream) vec_stream_end();
}

/* The table of a narrow type; the kernels of floats have more. */
#ifdef TABLE
extern const falt_depthwise_kernels JOIN(TABLE, FALT_ISA_SUFFIX);
const falt_depthwise_kernels JOIN(TABLE, FALT_ISA_SUFFIX) = {.width = VEC, .tile = TILE, .speed = SPEED, .sums = sums};
#endif

#endif
