/* Depthwise kernels of one instruction set: cpu/depthwise.h says what they compute. Compiled once per level.
 *
 * A tile of neighbouring positions of one vector of channels keeps its sums in registers over all segments. In a near
 * segment, the usual one, a vector of the source is loaded once for all taps that read it: 3 taps of 14 positions are
 * 16 vectors and 3 of weights for 42 multiply-adds, and a column that a table leaves out takes its multiply-adds with
 * it. Elsewhere (strides, dilations) each multiply-add has a load of its own, which two loads a cycle just feed.
 * Channels are the inner loop and positions the outer one, so that memory is read in order.
 *
 * Small groups lie side by side in a vector, and each lane's factor is shuffled out of it. A shuffle takes a
 * multiply-add's place, so that sharing a column among 3 taps is worth more there: 16 shuffles for 42 multiply-adds. A
 * group that fills vectors has one element of the source for all lanes, which a load brings at no cost. */
#define FALT_LANE_BITS 32
#include "cpu/depthwise.h"
#include "cpu/layer_activate.h"
#include "cpu/vector.h"

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

/* The same where n is rarely known: masks of this width cost nothing. */
FALT_INLINE vec load_some(const lane *from, int n) {
  const bool known = __builtin_constant_p(n) && n == VEC;
  return FALT_VECTOR_BYTES == 64 && !known ? vec_load_part(from, n) : load(from, n);
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

/* ---- places: a vector of result channels and the sources that it reads */

typedef struct place {
  int64_t result, source; /* channels */
  int64_t ahead;          /* the source to look ahead for */
  vec_bits pick;
  int n, m; /* results, and sources where they are read as a vector */
} place;

/* One walk over a call's vectors. `next` is the vector's number. */
typedef struct walk {
  const falt_depthwise_call *call;
  int64_t next, first, source; /* the unit's first result and source */
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

/* ---- what lanes multiply */

/* Of source j of each lane's group; `pick` is moved on by j. */
FALT_INLINE vec fetch(const lane *x, int64_t j, vec_bits pick, int m, const falt_depthwise_reads reads) {
  if (reads == FALT_READS_ALL) return vec_all(x[j]);
  const vec v = load_some(x, m);
  return reads == FALT_READS_PICK ? vec_pick(v, pick) : v;
}

/* ---- sums: these are inlined with constant positions, taps and reads, so that sums stay in registers */

/* Columns at either end that a tidy segment may leave out; the others it reads without looking. */
enum { ENDS = 3 };

/* Columns [begin, end) of a near segment. `tidy`: full vectors, and few columns are left out. */
FALT_INLINE void add_near(vec *sum, const falt_depthwise_segment *segment, const lane *x, const lane *w, int64_t j,
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
      if (c >= s && c - s < positions) sum[c - s] = vec_madd(sum[c - s], weight[s], column);
  }
}

/* One tap, whose positions read apart from each other, or by a table. */
FALT_INLINE void add_apart(vec *sum, const lane *x, const int64_t *at, int64_t step, const lane *w, int64_t j,
                           vec_bits pick, int m, const int positions, const falt_depthwise_reads reads) {
  const vec weight = vec_keep(vec_load(w));
  if (!at) {
    FALT_UNROLL
    for (int q = 0; q < positions; q++, x += step) sum[q] = vec_madd(sum[q], weight, fetch(x, j, pick, m, reads));
    return;
  }
  FALT_UNROLL
  for (int q = 0; q < positions; q++)
    if (at[q] != FALT_DEPTHWISE_NONE) sum[q] = vec_madd(sum[q], weight, fetch(x + at[q], j, pick, m, reads));
}

FALT_INLINE void add_near_taps(vec *sum, const falt_depthwise_segment *segment, const lane *x, const lane *w, int64_t j,
                               vec_bits pick, int64_t begin, int64_t end, int m, const int positions,
                               const falt_depthwise_reads reads, const bool tidy) {
  switch (segment->taps) {
    case 1:
      add_near(sum, segment, x, w, j, pick, begin, end, m, positions, 1, reads, tidy);
      break;
    case 2:
      add_near(sum, segment, x, w, j, pick, begin, end, m, positions, 2, reads, tidy);
      break;
    case 3:
      add_near(sum, segment, x, w, j, pick, begin, end, m, positions, 3, reads, tidy);
      break;
    case 4:
      if (reads == FALT_READS_EACH) add_near(sum, segment, x, w, j, pick, begin, end, m, positions, 4, reads, tidy);
      break;
    case 5:
      if (reads == FALT_READS_EACH) add_near(sum, segment, x, w, j, pick, begin, end, m, positions, 5, reads, tidy);
      break;
    default:
      if (reads == FALT_READS_EACH) add_near(sum, segment, x, w, j, pick, begin, end, m, positions, 7, reads, tidy);
  }
}

FALT_INLINE void add_segment(vec *sum, const falt_depthwise_segment *s, const lane *weights, const place *at, int64_t q,
                             int64_t table, const int positions, const falt_depthwise_reads reads, const bool full) {
  const lane *x = s->row + at->source + (s->at ? 0 : q * s->step), *w = weights + s->weight;
  const int64_t begin = s->begin - q, end = s->end - q;
  const int64_t depth = reads == FALT_READS_EACH ? 1 : s->depth;
  const bool tidy = full && begin <= ENDS && end >= positions + s->taps - 1 - ENDS;
  vec_bits pick = at->pick;
  for (int64_t j = 0; j < depth; j++, pick += 1, w += VEC) {
    if (!s->near)
      for (int tap = 0; tap < s->taps; tap++) {
        const lane *from = s->at ? x : x + tap * s->tap_step, *by = w + tap * s->weight_step;
        if (full && !s->at)
          add_apart(sum, from, NULL, s->step, by, j, pick, VEC, positions, reads);
        else
          add_apart(sum, from, s->at ? s->at + tap * table + q : NULL, s->step, by, j, pick, at->m, positions, reads);
      }
    else if (tidy)
      add_near_taps(sum, s, x, w, j, pick, begin, end, VEC, positions, reads, true);
    else
      add_near_taps(sum, s, x, w, j, pick, begin, end, at->m, positions, reads, false);
  }
}

/* Kept out of the tiles: few instructions each, and there are many tiles. */
static __attribute__((noinline)) void finish(const falt_depthwise_call *call, const vec *sum, int64_t q, int64_t i,
                                             int n, int positions) {
  const falt_depthwise_finish *f = call->finish;
  const vec low = vec_all(f->low), high = vec_all(f->high);
  const vec scale = load(f->scale + i, n), offset = load(f->offset + i, n);
  for (int p = 0; p < positions; p++) {
    vec y = vec_madd(offset, scale, sum[p]);
    if (f->residual) y += load(f->residual + (q + p) * f->residual_step + i, n);
    if (f->curve != FALT_IDENTITY) y = vec_bend(y, f->curve, f->slope);
    store(call->out + (q + p) * call->out_step + i, vec_clip(y, low, high), n, call->stream);
  }
}

/* Positions [q, q + positions) of one vector of channels. */
FALT_INLINE void tile(const falt_depthwise_call *call, int64_t q, const place *at, const lane *weights,
                      const int positions, const falt_depthwise_reads reads) {
  vec sum[TILE];
  const bool full = at->n == VEC && (reads == FALT_READS_ALL || at->m == VEC);
  look_ahead(call, q, at, positions);
  FALT_UNROLL
  for (int p = 0; p < positions; p++) sum[p] = (vec){0};
  for (const falt_depthwise_segment *s = call->segments; s < call->segments + call->count; s++)
    add_segment(sum, s, weights, at, q, call->positions, positions, reads, full);
  if (call->finish) {
    vec sums[TILE];
    FALT_UNROLL
    for (int p = 0; p < positions; p++) sums[p] = sum[p];
    finish(call, sums, q, at->result, at->n, positions);
    return;
  }
  lane *out = call->out + q * call->out_step + at->result;
  FALT_UNROLL
  for (int p = 0; p < positions; p++, out += call->out_step) store(out, sum[p], at->n, call->stream);
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

/* ---- gradient */

/* Sources of a group whose sums are in registers together. */
enum { SOURCES = 4 };

/* A run of positions of one segment and vector. */
typedef struct run {
  const falt_depthwise_segment *segment;
  const lane *x, *by;
  const int64_t *at;
  int64_t by_step, count, begin, end, table; /* table: from tap to tap */
  const place *place;
  lane *sums; /* of the segment's first tap */
} run;

/* The products of one column with the taps that read it: all of them, but at the ends of the run. */
FALT_INLINE void add_column(vec *sum, const run *r, const lane *x, int64_t j, vec_bits pick, int64_t c, const int taps,
                            const int sources, const falt_depthwise_reads reads, const bool full, const bool inside) {
  vec factor[FALT_DEPTHWISE_TAPS];
  const int n = full ? VEC : r->place->n, m = full ? VEC : r->place->m;
  FALT_UNROLL
  for (int s = 0; s < taps; s++)
    factor[s] = inside || (c >= s && c - s < r->count) ? vec_keep(load(r->by + (c - s) * r->by_step, n)) : (vec){0};
  FALT_UNROLL
  for (int k = 0; k < sources; k++) {
    const vec column = vec_keep(fetch(x, j + k, pick + k, m, reads));
    FALT_UNROLL
    for (int s = 0; s < taps; s++)
      if (inside || (c >= s && c - s < r->count))
        sum[s * sources + k] = vec_madd(sum[s * sources + k], factor[s], column);
  }
}

FALT_INLINE void gather_columns(vec *sum, const run *r, int64_t j, vec_bits pick, const int taps, const int sources,
                                const falt_depthwise_reads reads, const bool full) {
  const int64_t step = r->segment->step, last = r->end < r->count + taps - 1 ? r->end : r->count + taps - 1;
  for (int64_t c = r->begin > 0 ? r->begin : 0; c < last; c++) {
    if (c >= taps - 1 && c < r->count)
      add_column(sum, r, r->x + c * step, j, pick, c, taps, sources, reads, full, true);
    else
      add_column(sum, r, r->x + c * step, j, pick, c, taps, sources, reads, full, false);
  }
}

/* Each tap reads for itself. */
FALT_INLINE void gather_apart(vec *sum, const run *r, int64_t j, vec_bits pick, const int taps, const int sources,
                              const falt_depthwise_reads reads, const bool full) {
  const int n = full ? VEC : r->place->n, m = full ? VEC : r->place->m;
  const int64_t step = r->segment->step, tap_step = r->segment->tap_step;
  for (int64_t q = 0; q < r->count; q++) {
    const vec factor = vec_keep(load(r->by + q * r->by_step, n));
    FALT_UNROLL
    for (int s = 0; s < taps; s++) {
      const int64_t here = !full && r->at ? r->at[q + s * r->table] : q * step + s * tap_step;
      if (!full && here == FALT_DEPTHWISE_NONE) continue;
      FALT_UNROLL
      for (int k = 0; k < sources; k++)
        sum[s * sources + k] = vec_madd(sum[s * sources + k], factor, fetch(r->x + here, j + k, pick + k, m, reads));
    }
  }
}

/* Sums of `taps` taps and `sources` sources from j on. Columns are shared where that spares something. */
FALT_INLINE void gather_sources(const run *r, int64_t j, vec_bits pick, const int taps, const int sources,
                                const falt_depthwise_reads reads, const bool full) {
  vec sum[FALT_DEPTHWISE_TAPS * SOURCES];
  const int64_t weight_step = r->segment->weight_step;
  const bool whole = r->begin <= 0 && r->end >= r->count + taps - 1;
  FALT_UNROLL
  for (int i = 0; i < taps * sources; i++)
    sum[i] = vec_load(r->sums + i / sources * weight_step + (j + i % sources) * VEC);
  if (r->segment->near && !(reads == FALT_READS_EACH && whole))
    gather_columns(sum, r, j, pick, taps, sources, reads, full);
  else
    gather_apart(sum, r, j, pick, taps, sources, reads, full);
  FALT_UNROLL
  for (int i = 0; i < taps * sources; i++)
    vec_store(r->sums + i / sources * weight_step + (j + i % sources) * VEC, sum[i]);
}

FALT_INLINE void gather_taps(const run *r, const int taps, const falt_depthwise_reads reads, const bool full) {
  const int64_t depth = r->segment->depth;
  vec_bits pick = r->place->pick;
  int64_t j = 0;
  if (reads != FALT_READS_EACH)
    for (; j + SOURCES <= depth; j += SOURCES, pick += SOURCES) gather_sources(r, j, pick, taps, SOURCES, reads, full);
  for (; j < depth; j++, pick += 1) gather_sources(r, j, pick, taps, 1, reads, full);
}

FALT_INLINE void gather_segment(const run *r, const falt_depthwise_reads reads, const bool full) {
  switch (r->segment->taps) {
    case 1:
      gather_taps(r, 1, reads, full);
      break;
    case 2:
      gather_taps(r, 2, reads, full);
      break;
    case 3:
      gather_taps(r, 3, reads, full);
      break;
    case 4:
      if (reads == FALT_READS_EACH) gather_taps(r, 4, reads, full);
      break;
    case 5:
      if (reads == FALT_READS_EACH) gather_taps(r, 5, reads, full);
      break;
    default:
      if (reads == FALT_READS_EACH) gather_taps(r, 7, reads, full);
  }
}

/* Segments that read alike, as the rows under a window do: few sums each would wait for one another, and all of them
 * are multiplied by the same vectors. */
enum { ROWS = 3, ROW_SUMS = 10 };

static int rows_alike(const falt_depthwise_segment *s, int64_t left) {
  const bool ranged = s->at || s->end > 0; /* a row of the constant has no columns */
  const int most = !ranged ? 1 : s->taps == 3 ? 3 : s->taps == 5 ? 2 : 1;
  int rows = 1;
  for (; rows < most && rows < left; rows++) {
    const falt_depthwise_segment *next = s + rows;
    if (next->taps != s->taps || next->at != s->at || next->step != s->step || next->tap_step != s->tap_step ||
        next->begin != s->begin || next->end != s->end || next->weight_step != s->weight_step)
      break;
  }
  return rows;
}

/* Where tap s of position q reads, in elements; or none. */
FALT_INLINE int64_t reads_at(const run *r, int64_t q, int64_t s) {
  if (r->at) return r->at[q + s * r->table];
  const bool inside = q + s >= r->begin && q + s < r->end;
  return inside ? q * r->segment->step + s * r->segment->tap_step : FALT_DEPTHWISE_NONE;
}

/* One run for each row. */
FALT_INLINE void gather_rows(const run *r, const int taps, const int rows) {
  vec sum[ROW_SUMS];
  const int64_t weight_step = r->segment->weight_step, step = r->segment->step, tap_step = r->segment->tap_step;
  FALT_UNROLL
  for (int i = 0; i < taps * rows; i++) sum[i] = vec_load(r[i / taps].sums + i % taps * weight_step);
  for (int64_t q = 0; q < r->count; q++) {
    const vec factor = vec_keep(vec_load(r->by + q * r->by_step));
    if (!r->at && q >= r->begin && q + taps <= r->end) {
      FALT_UNROLL
      for (int i = 0; i < taps * rows; i++)
        sum[i] = vec_madd(sum[i], factor, vec_load(r[i / taps].x + q * step + i % taps * tap_step));
      continue;
    }
    FALT_UNROLL
    for (int s = 0; s < taps; s++) {
      const int64_t here = reads_at(r, q, s);
      if (here == FALT_DEPTHWISE_NONE) continue;
      FALT_UNROLL
      for (int i = 0; i < rows; i++) sum[i * taps + s] = vec_madd(sum[i * taps + s], factor, vec_load(r[i].x + here));
    }
  }
  FALT_UNROLL
  for (int i = 0; i < taps * rows; i++) vec_store(r[i / taps].sums + i % taps * weight_step, sum[i]);
}

static run run_of(const falt_depthwise_gradient *g, const falt_depthwise_segment *s, const walk *w, int64_t q,
                  int64_t count) {
  return (run){.segment = s,
               .x = s->row + w->at.source + (s->at ? 0 : q * s->step),
               .by = g->by + q * g->by_step + w->at.result,
               .at = s->at ? s->at + q : NULL,
               .by_step = g->by_step,
               .count = count,
               .begin = s->begin - q,
               .end = s->end - q,
               .table = g->call.positions,
               .place = &w->at,
               .sums = g->sums + w->next * g->call.weights_pitch + s->weight};
}

/* Rows from segment s on that go together, all lanes used; their number, or 0. */
static int gather_alike(const falt_depthwise_gradient *g, const falt_depthwise_segment *s, const walk *w, int64_t q,
                        int64_t count) {
  const int rows = rows_alike(s, g->call.segments + g->call.count - s);
  run r[ROWS];
  if (rows == 1) return 0;
  for (int i = 0; i < rows; i++) r[i] = run_of(g, s + i, w, q, count);
  if (s->taps == 5)
    gather_rows(r, 5, 2);
  else if (rows == 2)
    gather_rows(r, 3, 2);
  else
    gather_rows(r, 3, 3);
  return rows;
}

FALT_INLINE void gather(const falt_depthwise_gradient *g, int64_t q, int64_t count, const falt_depthwise_reads reads) {
  const falt_depthwise_call *call = &g->call;
  walk w = walk_channels(call, reads);
  do {
    const bool full = w.at.n == VEC && (reads == FALT_READS_ALL || w.at.m == VEC);
    look_ahead(call, q, &w.at, count);
    for (const falt_depthwise_segment *s = call->segments; s < call->segments + call->count; s++) {
      const int rows = full && reads == FALT_READS_EACH ? gather_alike(g, s, &w, q, count) : 0;
      if (rows > 0) {
        s += rows - 1;
        continue;
      }
      const run r = run_of(g, s, &w, q, count);
      if (full && !s->at)
        gather_segment(&r, reads, true);
      else
        gather_segment(&r, reads, false);
    }
  } while (walk_on(&w, reads));
}

/* Few positions at a time where there are few sums, so that chains of different segments overlap in the processor and
 * memory is read in order. */
static void gradient(const falt_depthwise_gradient *g) {
  const falt_depthwise_reads reads = g->call.unit->reads;
  const int64_t most = reads == FALT_READS_EACH ? 14 : 56;
  for (int64_t q = 0; q < g->call.positions; q += most) {
    const int64_t count = q + most < g->call.positions ? most : g->call.positions - q;
    if (reads == FALT_READS_EACH)
      gather(g, q, count, FALT_READS_EACH);
    else if (reads == FALT_READS_PICK)
      gather(g, q, count, FALT_READS_PICK);
    else
      gather(g, q, count, FALT_READS_ALL);
  }
}

extern const falt_depthwise_kernels JOIN(falt_depthwise_kernels_, FALT_ISA_SUFFIX);
const falt_depthwise_kernels JOIN(falt_depthwise_kernels_, FALT_ISA_SUFFIX) = {
    .width = VEC, .tile = TILE, .sums = sums, .gradient = gradient};
