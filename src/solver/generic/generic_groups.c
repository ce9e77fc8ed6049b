/* Maps with vectors along the groups: depthwise layers and pooling in layouts with adjacent channels. */
#include <math.h>
#include <string.h>

#include "solver/generic/generic.h"

/* A tile is a few positions times a block of groups. The weights of the block are converted once for all its positions.
 * Each position then adds products of vectors, weight times source, over its (tap, source position) pairs. */

enum { MOST_POSITIONS = 32, ROW_BYTES = 512, FEW_JOBS = 16, CHUNK = FALT_GENERIC_POOL / ROW_BYTES };

typedef struct job {
  const falt_generic_run *run, *windows;
  int64_t groups, blocks, positions, tiles; /* of one tile; tiles */
} job;

typedef struct tile {
  const falt_generic_plan *plan;
  const falt_generic_run *run, *windows;
  int64_t g, groups, channel, pitch; /* pitch is a multiple of the vector */
  int64_t position, positions;
  int64_t chunk, chunk_end; /* the weights at hand: (tap, source channel) in order */
  int depth;
  size_t used;
  const void *a[FALT_GENERIC_DEPTH], *b[FALT_GENERIC_DEPTH];
  double factor[FALT_GENERIC_DEPTH]; /* pooling: of each row, as the lane's elements */
  _Alignas(64) char outside[ROW_BYTES];
  _Alignas(64) char sums[MOST_POSITIONS * ROW_BYTES];
  _Alignas(64) char weights[CHUNK * ROW_BYTES];
  _Alignas(64) char pool[CHUNK / 2 * ROW_BYTES];
} tile;

static void split_position(const falt_tensor *y, int64_t position, int64_t at[4]) {
  for (int a = 2; a >= 0; a--) at[1 + a] = falt_generic_digit(&position, y->size[FALT_D + a]);
  at[0] = position;
}

/* ---- vectors of groups */

static const char *load_vector(const falt_generic_plan *plan, char *to, int64_t pitch, int64_t n, const void *data,
                               falt_type type, int64_t index, int64_t stride) {
  falt_generic_load(plan, to, data, type, index, stride, n);
  falt_generic_fill(plan, to + (size_t)n * plan->lane->element, 0, pitch - n);
  return to;
}

/* The source's groups at one position: in place, or in the pool. */
static const char *source_vector(tile *t, int64_t index) {
  const falt_generic_plan *plan = t->plan;
  const falt_tensor *x = &plan->source;
  const char *there = NULL;
  if (t->pitch == t->groups && falt_tensor_unit(x, FALT_G))
    there = falt_generic_in_place(plan, t->run->source, x->type, index);
  if (there) return there;
  char *to = t->pool + t->used;
  t->used += ROW_BYTES;
  return load_vector(plan, to, t->pitch, t->groups, t->run->source, x->type, index, x->stride[FALT_G]);
}

static void load_weights(tile *t) {
  const falt_generic_plan *plan = t->plan;
  const falt_tensor *w = &plan->p.filter;
  for (int64_t at = t->chunk; at < t->chunk_end; at++) {
    int64_t rest = at;
    const int64_t c = falt_generic_digit(&rest, plan->in_channels), s = falt_generic_digit(&rest, w->size[FALT_W]),
                  r = falt_generic_digit(&rest, w->size[FALT_H]);
    const int64_t index =
        falt_tensor_at(w, 0, t->g, 0, rest, r, s) + t->channel * plan->filter_out + c * plan->filter_in;
    load_vector(plan, t->weights + (at - t->chunk) * ROW_BYTES, t->pitch, t->groups, t->run->filter, w->type, index,
                w->stride[FALT_G]);
  }
}

/* ---- one position */

static void flush(tile *t, char *sums) {
  const falt_generic_lane *lane = t->plan->lane;
  if (t->plan->p.operation == FALT_MAXPOOL) {
    lane->largest(t->b, t->depth, t->pitch, sums);
  } else if (falt_is_pooling(t->plan->p.operation)) {
    lane->product(&(falt_generic_product){
        .a = t->factor, .a_step = 1, .b = t->b, .sums = sums, .n = t->pitch, .rows = 1, .depth = t->depth});
  } else {
    lane->pairs(t->a, t->b, t->depth, t->pitch, sums);
  }
  t->depth = 0;
  t->used = 0;
}

static bool is_full(const tile *t) {
  return t->depth == FALT_GENERIC_DEPTH || t->used == sizeof t->pool;
}

/* The products of all source channels at source position (n, m), by the weights at hand. */
static void add_products(tile *t, char *sums, int64_t n, const falt_meet m[3]) {
  const falt_generic_plan *plan = t->plan;
  const bool outside = m[0].source < 0 || m[1].source < 0 || m[2].source < 0;
  const int64_t *taps = plan->p.filter.size;
  const int64_t first = ((m[0].tap * taps[FALT_H] + m[1].tap) * taps[FALT_W] + m[2].tap) * plan->in_channels;
  if (outside && plan->fill == 0) return;
  for (int64_t at = falt_max(first, t->chunk); at < falt_min(first + plan->in_channels, t->chunk_end); at++) {
    const int64_t c = at - first;
    if (is_full(t)) flush(t, sums);
    t->a[t->depth] = t->weights + (at - t->chunk) * ROW_BYTES;
    t->b[t->depth] =
        outside ? t->outside
                : source_vector(t, falt_tensor_at(&plan->source, n, t->g, c, m[0].source, m[1].source, m[2].source));
    t->depth++;
  }
}

static void add_to_pool(tile *t, char *sums, int64_t n, const falt_meet m[3]) {
  const falt_generic_plan *plan = t->plan;
  if (m[0].source < 0 || m[1].source < 0 || m[2].source < 0) return;
  if (is_full(t)) flush(t, sums);
  double factor = 1;
  if (plan->p.operation == FALT_BACKWARD_AVGPOOL)
    factor = 1 / falt_generic_window_count(plan, m[0].source, m[1].source, m[2].source);
  falt_generic_fill(plan, (char *)t->factor + (size_t)t->depth * plan->lane->element, factor, 1);
  t->b[t->depth++] = source_vector(t, falt_tensor_at(&plan->source, n, t->g, 0, m[0].source, m[1].source, m[2].source));
}

/* ---- gradient of maxpool */

typedef struct maxima {
  _Alignas(64) char top[ROW_BYTES], x[ROW_BYTES];
  int32_t which[ROW_BYTES / sizeof(float)];
} maxima;

static void find_maxima(const tile *t, maxima *m, int64_t n, const int64_t o[3]) {
  const falt_generic_plan *plan = t->windows->plan;
  const int64_t *taps = plan->p.filter.size;
  falt_meet d = falt_meet_start(plan, 0, o[0]);
  bool any = false;
  while (falt_meet_next(&d)) {
    falt_meet h = falt_meet_start(plan, 1, o[1]);
    while (falt_meet_next(&h)) {
      falt_meet w = falt_meet_start(plan, 2, o[2]);
      while (falt_meet_next(&w)) {
        if (d.source < 0 || h.source < 0 || w.source < 0) continue;
        const int32_t tag = (int32_t)((d.tap * taps[FALT_H] + h.tap) * taps[FALT_W] + w.tap);
        falt_generic_load(plan, m->x, t->windows->source, plan->source.type,
                          falt_tensor_at(&plan->source, n, t->g, 0, d.source, h.source, w.source),
                          plan->source.stride[FALT_G], t->groups);
        if (any) {
          plan->lane->first_largest(m->x, tag, t->groups, m->top, m->which);
          continue;
        }
        any = true;
        memcpy(m->top, m->x, sizeof m->x);
        for (int64_t i = 0; i < t->groups; i++) m->which[i] = tag;
      }
    }
  }
}

static void add_where_largest(tile *t, char *sums, int64_t n, const falt_meet m[3]) {
  maxima all;
  const int64_t o[3] = {m[0].source, m[1].source, m[2].source}, *taps = t->plan->p.filter.size;
  t->used = 0;
  const char *dy = source_vector(t, falt_tensor_at(&t->plan->source, n, t->g, 0, o[0], o[1], o[2]));
  find_maxima(t, &all, n, o);
  t->plan->lane->add_where(dy, all.which, (int32_t)((m[0].tap * taps[FALT_H] + m[1].tap) * taps[FALT_W] + m[2].tap),
                           t->groups, sums);
}

/* ---- a tile */

/* Forward with one source channel: the taps along the width step through memory; no pair needs to be looked up. */
static void add_row(tile *t, char *sums, int64_t n, const falt_meet m[3], int64_t w) {
  const falt_generic_plan *plan = t->plan;
  const falt_axis *a = &plan->p.axis[2];
  const int64_t *taps = plan->p.filter.size, stride = plan->source.stride[FALT_W];
  const bool outside = m[0].source < 0 || m[1].source < 0;
  const int64_t first = (m[0].tap * taps[FALT_H] + m[1].tap) * taps[FALT_W];
  const int64_t row = outside ? -1 : falt_tensor_at(&plan->source, n, t->g, 0, m[0].source, m[1].source, 0);
  int64_t u = w * a->stride - a->pad[0];
  if (outside && plan->fill == 0) return;
  for (int64_t k = 0; k < taps[FALT_W]; k++, u += a->dilation) {
    const int64_t at = u >= 0 && u < m[2].in ? u : falt_axis_map(a, m[2].in, u);
    const bool constant = outside || at < 0;
    if (first + k < t->chunk || first + k >= t->chunk_end || (constant && plan->fill == 0)) continue;
    if (is_full(t)) flush(t, sums);
    t->a[t->depth] = t->weights + (first + k - t->chunk) * ROW_BYTES;
    t->b[t->depth] = constant ? t->outside : source_vector(t, row + at * stride);
    t->depth++;
  }
}

static void add_position(tile *t, int64_t position, char *sums) {
  const falt_generic_plan *plan = t->plan;
  int64_t at[4];
  falt_meet m[3];
  split_position(&plan->result, position, at);
  for (m[0] = falt_meet_start(plan, 0, at[1]); falt_meet_next(&m[0]);)
    for (m[1] = falt_meet_start(plan, 1, at[2]); falt_meet_next(&m[1]) && !falt_cancelled();) {
      m[2] = falt_meet_start(plan, 2, at[3]);
      if (plan->p.operation == FALT_FORWARD && plan->in_channels == 1) {
        add_row(t, sums, at[0], m, at[3]);
        continue;
      }
      for (; falt_meet_next(&m[2]);) {
        if (plan->p.operation == FALT_BACKWARD_MAXPOOL)
          add_where_largest(t, sums, at[0], m);
        else if (falt_is_pooling(plan->p.operation))
          add_to_pool(t, sums, at[0], m);
        else
          add_products(t, sums, at[0], m);
      }
    }
  if (t->depth > 0) flush(t, sums);
}

static void store(const tile *t, int64_t position, char *sums) {
  const falt_generic_plan *plan = t->plan;
  const falt_tensor *y = &plan->result, *z = &plan->p.residual;
  int64_t at[4];
  split_position(y, position, at);
  if (plan->p.operation == FALT_AVGPOOL)
    falt_generic_divide(plan, sums, falt_generic_window_count(plan, at[1], at[2], at[3]), t->groups);
  falt_generic_store(t->run, sums, t->groups,
                     &(falt_generic_target){.index = falt_tensor_at(y, at[0], t->g, t->channel, at[1], at[2], at[3]),
                                            .stride = y->stride[FALT_G],
                                            .residual = falt_tensor_at(z, at[0], t->g, t->channel, at[1], at[2], at[3]),
                                            .residual_stride = z->stride[FALT_G],
                                            .channel = t->g * plan->out_channels + t->channel,
                                            .channel_step = plan->out_channels});
}

static void compute(tile *t) {
  const falt_generic_plan *plan = t->plan;
  const bool pooling = falt_is_pooling(plan->p.operation);
  const int64_t *taps = plan->p.filter.size;
  const int64_t all = pooling ? 1 : taps[FALT_D] * taps[FALT_H] * taps[FALT_W] * plan->in_channels;
  const int64_t row = t->pitch * (int64_t)plan->lane->sum;
  falt_generic_fill(plan, t->outside, plan->fill, t->pitch);
  if (plan->p.operation == FALT_MAXPOOL)
    falt_generic_fill(plan, t->sums, -INFINITY, t->positions * t->pitch);
  else
    memset(t->sums, 0, (size_t)(t->positions * row));
  for (t->chunk = 0; t->chunk < all; t->chunk = t->chunk_end) {
    t->chunk_end = falt_min(t->chunk + CHUNK, all);
    if (!pooling) load_weights(t);
    for (int64_t p = 0; p < t->positions; p++) add_position(t, t->position + p, t->sums + p * row);
  }
  for (int64_t p = 0; p < t->positions; p++) store(t, t->position + p, t->sums + p * row);
}

static int64_t positions_of(const falt_tensor *y) {
  return y->size[FALT_N] * y->size[FALT_D] * y->size[FALT_H] * y->size[FALT_W];
}

static void run_tile(void *context, int64_t index) {
  const job *j = context;
  const falt_generic_plan *plan = j->run->plan;
  tile t;
  t.plan = plan;
  t.run = j->run;
  t.windows = j->windows;
  t.channel = falt_generic_digit(&index, plan->out_channels);
  t.g = falt_generic_digit(&index, j->blocks) * j->groups;
  t.groups = falt_min(j->groups, plan->result.size[FALT_G] - t.g);
  t.pitch = falt_round_up(t.groups, plan->lane->width);
  t.position = index * j->positions;
  t.positions = falt_min(j->positions, positions_of(&plan->result) - t.position);
  t.depth = 0;
  t.used = 0;
  compute(&t);
}

void falt_generic_map_groups(const falt_generic_run *run) {
  const falt_generic_plan *plan = run->plan;
  const int64_t groups = plan->result.size[FALT_G], all = positions_of(&plan->result);
  falt_generic_plan windows_plan;
  falt_generic_run windows;
  job j = {.run = run, .windows = &windows, .positions = MOST_POSITIONS};
  if (plan->p.operation == FALT_BACKWARD_MAXPOOL) falt_generic_windows(run, &windows_plan, &windows);
  j.groups = falt_min(groups, ROW_BYTES / (int64_t)plan->lane->sum);
  j.blocks = falt_ceil_div(groups, j.groups);
  while (j.positions > 4 && falt_ceil_div(all, j.positions) * j.blocks * plan->out_channels < FEW_JOBS)
    j.positions /= 2;
  j.tiles = falt_ceil_div(all, j.positions);
  falt_parallel_for(plan->base.device->threads, j.tiles * j.blocks * plan->out_channels, run_tile, &j);
}
