/* Depthwise kernels of one instruction set in f32. depthwise_kernels.h describes them. Compiled once per level. */
#define FALT_LANE_BITS 32
#include "solver/cpu/depthwise/depthwise_kernels.h"

#define KIND FALT_TILES_F32
#include "solver/cpu/depthwise/depthwise_sums.h"

/* ---- gradient */

/* Sources of a group whose accumulators are in registers together. */
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

/* The sum of a few positions: no chain of roundings is longer. */
FALT_INLINE void add_to(lane *sums, vec sum) {
  vec_store(sums, vec_load(sums) + sum);
}

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
  for (int i = 0; i < taps * sources; i++) sum[i] = (vec){0};
  if (r->segment->near && !(reads == FALT_READS_EACH && whole))
    gather_columns(sum, r, j, pick, taps, sources, reads, full);
  else
    gather_apart(sum, r, j, pick, taps, sources, reads, full);
  FALT_UNROLL
  for (int i = 0; i < taps * sources; i++)
    add_to(r->sums + i / sources * weight_step + (j + i % sources) * VEC, sum[i]);
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
  for (int i = 0; i < taps * rows; i++) sum[i] = (vec){0};
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
  for (int i = 0; i < taps * rows; i++) add_to(r[i / taps].sums + i % taps * weight_step, sum[i]);
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

/* Few positions at a time if there are few sums, so that chains of different segments overlap and memory is read in
 * order. */
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
    .width = VEC, .tile = TILE, .speed = 1, .sums = sums, .gradient = gradient};
