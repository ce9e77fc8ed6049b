/* Weight gradients: dw[k,g,c,j] = sum over n and o of dy[n,g,k,o] * x[n,g,c,i(o,j)], in three versions. */
#include <string.h>

#include "solver/generic/generic.h"

/*   rows      dot products along the width: a block of dy's channels by a block of x's (channel, tap)
 *   channels  a product whose depth is positions: vectors of one tensor's channels times elements of the other's
 *   groups    pairs of vectors over positions
 *
 * One thread sums each output in one order, so the bits do not depend on the number of threads. Long sums are moved to
 * doubles at intervals, so they lose no more precision than short ones. */

enum { FEW_JOBS = 16 };

typedef struct job {
  const falt_generic_run *run;
  falt_link link[3];
  int64_t k_block, c_block, s_block; /* of one tile */
  int64_t k_tiles, c_tiles, s_tiles;
} job;

/* One tile of outputs, and the filter's tap that they share (the first of s_block). */
typedef struct place {
  int64_t g, k, c, t, r, s;
} place;

static job job_of(const falt_generic_run *run, int64_t k_block, int64_t c_block, int64_t s_block) {
  const int64_t *w = run->plan->p.filter.size;
  job j = {.run = run, .k_block = k_block, .c_block = c_block, .s_block = s_block};
  for (int a = 0; a < 3; a++) falt_link_first(run->plan, a, falt_polyphase_at(run->plan, a, 0), &j.link[a]);
  j.k_tiles = falt_ceil_div(w[FALT_K], k_block);
  j.c_tiles = falt_ceil_div(w[FALT_C], c_block);
  j.s_tiles = falt_ceil_div(w[FALT_W], s_block);
  return j;
}

static int64_t tap_jobs(const job *j) {
  return j->run->plan->p.filter.size[FALT_D] * j->run->plan->p.filter.size[FALT_H] * j->s_tiles;
}

static place place_of(const job *j, int64_t index) {
  const int64_t *w = j->run->plan->p.filter.size;
  place at;
  at.s = falt_generic_digit(&index, j->s_tiles) * j->s_block;
  at.r = falt_generic_digit(&index, w[FALT_H]);
  at.t = falt_generic_digit(&index, w[FALT_D]);
  at.c = falt_generic_digit(&index, j->c_tiles) * j->c_block;
  at.k = falt_generic_digit(&index, j->k_tiles) * j->k_block;
  at.g = index;
  return at;
}

/* Element of x, channel c, at the start of the row that the place's tap of output row (n, d, h) reads; -1 outside. */
static int64_t x_row(const job *j, const place *at, int64_t n, int64_t d, int64_t h) {
  const int64_t xd = falt_link_source(&j->link[0], d, at->t), xh = falt_link_source(&j->link[1], h, at->r);
  return xd < 0 || xh < 0 ? -1 : falt_tensor_at(&j->run->plan->p.input, n, at->g, at->c, xd, xh, 0);
}

static bool outside_matters(const job *j) {
  return j->run->plan->fill != 0;
}

/* Takes the elements x and y of x and dy that meet at a position; x is -1 outside. */
typedef void take_position(void *tile, int64_t x, int64_t y);

/* All positions of a place, in order; those outside only if they matter. */
__attribute__((always_inline)) static inline void each_position(const job *j, const place *at, take_position *take,
                                                                void *tile) {
  const falt_problem *p = &j->run->plan->p;
  const int64_t *out = p->output.size, x_step = p->input.stride[FALT_W], y_step = p->output.stride[FALT_W];
  const bool all = outside_matters(j);
  for (int64_t row = 0; row < out[FALT_N] * out[FALT_D] * out[FALT_H] && !falt_cancelled(); row++) {
    int64_t n = row;
    const int64_t h = falt_generic_digit(&n, out[FALT_H]), d = falt_generic_digit(&n, out[FALT_D]);
    const int64_t x = x_row(j, at, n, d, h), y = falt_tensor_at(&p->output, n, at->g, at->k, d, h, 0);
    for (int64_t w = 0; w < out[FALT_W] && (x >= 0 || all); w++) {
      const int64_t xw = x < 0 ? -1 : falt_link_source(&j->link[2], w, at->s);
      if (xw >= 0 || all) take(tile, xw < 0 ? -1 : x + xw * x_step, y + w * y_step);
    }
  }
}

/* ---- rows */

enum { MOST_K = 16, MOST_COLUMNS = 12, ROW_BYTES = 1024, MOST_ROWS = ROW_BYTES / sizeof(float) };

typedef struct dot_tile {
  const job *job;
  place at;
  int k, c, s;                                    /* extents */
  int64_t x_index[MOST_ROWS], y_index[MOST_ROWS]; /* starts of rows; -1 outside */
  double totals[MOST_K * MOST_COLUMNS];
  _Alignas(64) char dy[MOST_K][ROW_BYTES], x[MOST_COLUMNS][ROW_BYTES];
} dot_tile;

/* Some rows (first, first + 1, ... in the order n, d, h), and of each the same piece of the width, end to end; padded
 * with zeros to whole vectors. */
typedef struct stretch {
  int64_t first, rows, w, n, padded;
} stretch;

/* False if no row of x is inside. */
static bool find_rows(dot_tile *t, const stretch *s) {
  const falt_problem *p = &t->job->run->plan->p;
  bool any = false;
  for (int64_t r = 0; r < s->rows; r++) {
    int64_t n = s->first + r;
    const int64_t h = falt_generic_digit(&n, p->output.size[FALT_H]),
                  d = falt_generic_digit(&n, p->output.size[FALT_D]);
    t->x_index[r] = x_row(t->job, &t->at, n, d, h);
    t->y_index[r] = falt_tensor_at(&p->output, n, t->at.g, t->at.k, d, h, s->w);
    any |= t->x_index[r] >= 0;
  }
  return any;
}

static const void *dy_rows(dot_tile *t, const stretch *s, int m) {
  const falt_generic_plan *plan = t->job->run->plan;
  const falt_tensor *y = &plan->p.output;
  const void *data = t->job->run->operands->output;
  const int64_t element = (int64_t)plan->lane->element, channel = m * y->stride[FALT_C];
  if (s->rows == 1 && s->padded == s->n && y->stride[FALT_W] == 1) {
    const void *there = falt_generic_in_place(plan, data, y->type, t->y_index[0] + channel);
    if (there) return there;
  }
  for (int64_t r = 0; r < s->rows; r++)
    falt_generic_load(plan, t->dy[m] + r * s->n * element, data, y->type, t->y_index[r] + channel, y->stride[FALT_W],
                      s->n);
  const int64_t n = s->rows * s->n;
  falt_generic_fill(plan, t->dy[m] + n * element, 0, s->padded - n);
  return t->dy[m];
}

static const void *x_rows(dot_tile *t, const stretch *s, int c, int tap) {
  const job *j = t->job;
  const falt_generic_plan *plan = j->run->plan;
  const falt_tensor *x = &plan->p.input;
  const falt_link *w = &j->link[2];
  const int64_t element = (int64_t)plan->lane->element, channel = c * x->stride[FALT_C];
  const falt_cut cut = falt_generic_cut(w, w->base + w->step * s->w + w->tap_step * (t->at.s + tap), w->step, s->n);
  const bool inside = cut.begin == 0 && cut.end == s->n && t->x_index[0] >= 0;
  if (s->rows == 1 && s->padded == s->n && x->stride[FALT_W] == 1 && w->step == 1 && inside) {
    const void *there = falt_generic_in_place(plan, j->run->source, x->type, t->x_index[0] + channel + cut.base);
    if (there) return there;
  }
  char *to = t->x[c * t->s + tap];
  falt_generic_fill(plan, to, plan->fill, s->padded);
  for (int64_t r = 0; r < s->rows; r++)
    if (t->x_index[r] >= 0) falt_generic_load_cut(j->run, to + r * s->n * element, t->x_index[r] + channel, &cut);
  return to;
}

static void add_stretch(dot_tile *t, const stretch *s) {
  const void *a[MOST_K], *b[MOST_COLUMNS];
  if (!find_rows(t, s) && !outside_matters(t->job)) return;
  for (int m = 0; m < t->k; m++) a[m] = dy_rows(t, s, m);
  for (int c = 0; c < t->c; c++)
    for (int tap = 0; tap < t->s; tap++) b[c * t->s + tap] = x_rows(t, s, c, tap);
  t->job->run->plan->lane->dots(a, t->k, b, t->c * t->s, s->padded, t->totals);
}

static void run_dots(void *context, int64_t index) {
  const job *j = context;
  const falt_problem *p = &j->run->plan->p;
  const int64_t *w = p->filter.size, width = p->output.size[FALT_W];
  const int64_t rows = p->output.size[FALT_N] * p->output.size[FALT_D] * p->output.size[FALT_H];
  const int64_t most = ROW_BYTES / (int64_t)j->run->plan->lane->element, at_once = falt_max(1, most / width);
  dot_tile t = {.job = j, .at = place_of(j, index)};
  t.k = (int)falt_min(j->k_block, w[FALT_K] - t.at.k);
  t.c = (int)falt_min(j->c_block, w[FALT_C] - t.at.c);
  t.s = (int)falt_min(j->s_block, w[FALT_W] - t.at.s);
  for (int64_t row = 0; row < rows && !falt_cancelled(); row += at_once)
    for (int64_t at = 0; at < width; at += most) {
      stretch s = {row, falt_min(at_once, rows - row), at, falt_min(most, width - at), 0};
      s.padded = falt_round_up(s.rows * s.n, j->run->plan->lane->width);
      add_stretch(&t, &s);
    }
  for (int m = 0; m < t.k; m++)
    for (int c = 0; c < t.c; c++)
      falt_generic_store_totals(j->run, t.totals + (m * t.c + c) * t.s, t.s,
                                falt_tensor_at(&p->filter, t.at.k + m, t.at.g, t.at.c + c, t.at.t, t.at.r, t.at.s),
                                p->filter.stride[FALT_W]);
}

void falt_generic_filter_rows(const falt_generic_run *run) {
  const int64_t *w = run->plan->p.filter.size;
  int64_t k = falt_min(w[FALT_K], MOST_K), s = falt_min(w[FALT_W], MOST_COLUMNS);
  int64_t c = falt_min(w[FALT_C], MOST_COLUMNS / s);
  job j = job_of(run, k, c, s);
  while (j.k_tiles * j.c_tiles * w[FALT_G] * tap_jobs(&j) < FEW_JOBS && k * c * s > 1) {
    if (s > 1)
      s = falt_ceil_div(s, 2);
    else if (c > 1)
      c = falt_ceil_div(c, 2);
    else
      k = falt_ceil_div(k, 2);
    j = job_of(run, k, c, s);
  }
  falt_parallel_for(run->plan->base.device->threads, j.k_tiles * j.c_tiles * w[FALT_G] * tap_jobs(&j), run_dots, &j);
}

/* ---- channels */

enum { MOST_ELEMENTS = 24, VECTOR_BYTES = 256, DRAIN_AFTER = 16 };

/* One of the two tensors in the product. */
typedef struct factor {
  const falt_tensor *tensor;
  const void *data;
  int64_t channel, channels; /* of the tile */
  int64_t filter_stride;
} factor;

typedef struct product_tile {
  const job *job;
  place at;
  factor vector, scalar;
  bool x_is_vector;
  int64_t pitch;
  int depth, flushes;
  const void *b[FALT_GENERIC_DEPTH];
  _Alignas(64) char a[FALT_GENERIC_DEPTH * MOST_ELEMENTS * sizeof(double)];
  _Alignas(64) char vectors[FALT_GENERIC_DEPTH][VECTOR_BYTES];
  _Alignas(64) char sums[MOST_ELEMENTS * VECTOR_BYTES];
  double totals[MOST_ELEMENTS * VECTOR_BYTES / sizeof(float)];
} product_tile;

static void flush_product(product_tile *t, bool drain) {
  const falt_generic_lane *lane = t->job->run->plan->lane;
  if (t->depth > 0) {
    lane->product(&(falt_generic_product){.a = t->a,
                                          .a_row = 1,
                                          .a_step = MOST_ELEMENTS,
                                          .b = t->b,
                                          .sums = t->sums,
                                          .pitch = t->pitch,
                                          .n = t->pitch,
                                          .rows = (int)t->scalar.channels,
                                          .depth = t->depth});
    t->flushes++;
  }
  t->depth = 0;
  if (!drain && t->flushes < DRAIN_AFTER) return;
  lane->drain(t->sums, t->scalar.channels * t->pitch, t->totals);
  t->flushes = 0;
}

/* Neighbours of a factor along `dim`, from an element on (-1: outside), and zeros up to `pitch`; in place or in `to`.
 */
__attribute__((always_inline)) static inline const void *elements_of(const falt_generic_plan *plan, const factor *f,
                                                                     int dim, int64_t index, int64_t pitch, char *to) {
  const int64_t stride = f->tensor->stride[dim];
  if (index < 0) {
    falt_generic_fill(plan, to, plan->fill, f->channels);
  } else {
    const bool whole = stride == 1 && f->channels == pitch;
    const void *there = whole ? falt_generic_in_place(plan, f->data, f->tensor->type, index) : NULL;
    if (there) return there;
    falt_generic_load(plan, to, f->data, f->tensor->type, index, stride, f->channels);
  }
  falt_generic_fill(plan, to + f->channels * (int64_t)plan->lane->element, 0, pitch - f->channels);
  return to;
}

static void push_channels(void *tile, int64_t x, int64_t y) {
  product_tile *t = tile;
  const falt_generic_plan *plan = t->job->run->plan;
  const factor *f = &t->scalar;
  const int64_t vector = t->x_is_vector ? x : y, scalar = t->x_is_vector ? y : x;
  char *a = t->a + (size_t)(t->depth * MOST_ELEMENTS) * plan->lane->element;
  if (scalar < 0)
    falt_generic_fill(plan, a, plan->fill, f->channels);
  else
    falt_generic_load(plan, a, f->data, f->tensor->type, scalar, f->tensor->stride[FALT_C], f->channels);
  t->b[t->depth] = elements_of(plan, &t->vector, FALT_C, vector, t->pitch, t->vectors[t->depth]);
  if (++t->depth == FALT_GENERIC_DEPTH) flush_product(t, false);
}

static void store_products(product_tile *t) {
  const falt_tensor *w = &t->job->run->plan->p.filter;
  const int64_t first = falt_tensor_at(w, t->at.k, t->at.g, t->at.c, t->at.t, t->at.r, t->at.s);
  for (int64_t m = 0; m < t->scalar.channels; m++)
    falt_generic_store_totals(t->job->run, t->totals + m * t->pitch, t->vector.channels,
                              first + m * t->scalar.filter_stride, t->vector.filter_stride);
}

/* The longer side is the vector, unless the input's already fills one. */
static bool x_is_vector(const falt_generic_plan *plan) {
  const int64_t *w = plan->p.filter.size;
  return w[FALT_C] >= falt_min(w[FALT_K], VECTOR_BYTES / (int64_t)plan->lane->element);
}

static void run_product(void *context, int64_t index) {
  const job *j = context;
  const falt_problem *p = &j->run->plan->p;
  product_tile t;
  t.job = j;
  t.at = place_of(j, index);
  t.x_is_vector = x_is_vector(j->run->plan);
  const factor x = {&p->input, j->run->operands->input, t.at.c, falt_min(j->c_block, p->filter.size[FALT_C] - t.at.c),
                    p->filter.stride[FALT_C]};
  const factor y = {&p->output, j->run->operands->output, t.at.k, falt_min(j->k_block, p->filter.size[FALT_K] - t.at.k),
                    p->filter.stride[FALT_K]};
  t.vector = t.x_is_vector ? x : y;
  t.scalar = t.x_is_vector ? y : x;
  t.pitch = falt_round_up(t.vector.channels, j->run->plan->lane->width);
  t.depth = t.flushes = 0;
  memset(t.sums, 0, sizeof t.sums);
  memset(t.totals, 0, sizeof t.totals);
  each_position(j, &t.at, push_channels, &t);
  flush_product(&t, true);
  store_products(&t);
}

void falt_generic_filter_channels(const falt_generic_run *run) {
  const int64_t *w = run->plan->p.filter.size;
  const bool x_vector = x_is_vector(run->plan);
  const int64_t vector = VECTOR_BYTES / (int64_t)run->plan->lane->element;
  int64_t k = falt_min(w[FALT_K], x_vector ? MOST_ELEMENTS : vector);
  int64_t c = falt_min(w[FALT_C], x_vector ? vector : MOST_ELEMENTS);
  job j = job_of(run, k, c, 1);
  while (j.k_tiles * j.c_tiles * w[FALT_G] * tap_jobs(&j) < FEW_JOBS && k * c > 64) {
    if (k > c)
      k = falt_ceil_div(k, 2);
    else
      c = falt_ceil_div(c, 2);
    j = job_of(run, k, c, 1);
  }
  falt_parallel_for(run->plan->base.device->threads, j.k_tiles * j.c_tiles * w[FALT_G] * tap_jobs(&j), run_product, &j);
}

/* ---- groups */

typedef struct pair_tile {
  const job *job;
  place at;
  int64_t groups, pitch;
  int depth;
  const void *a[FALT_GENERIC_DEPTH], *b[FALT_GENERIC_DEPTH];
  _Alignas(64) char dy[FALT_GENERIC_DEPTH][VECTOR_BYTES], x[FALT_GENERIC_DEPTH][VECTOR_BYTES];
  _Alignas(64) char sums[VECTOR_BYTES];
  double totals[VECTOR_BYTES / sizeof(float)];
} pair_tile;

static void flush_pairs(pair_tile *t) {
  const falt_generic_lane *lane = t->job->run->plan->lane;
  lane->pairs(t->a, t->b, t->depth, t->pitch, t->sums);
  lane->drain(t->sums, t->pitch, t->totals);
  t->depth = 0;
}

/* Neighbouring groups of both operands at a position. */
static void push_groups(void *tile, int64_t x, int64_t y) {
  pair_tile *t = tile;
  const falt_generic_run *run = t->job->run;
  const factor dy = {.tensor = &run->plan->p.output, .data = run->operands->output, .channels = t->groups};
  const factor in = {.tensor = &run->plan->p.input, .data = run->operands->input, .channels = t->groups};
  t->a[t->depth] = elements_of(run->plan, &dy, FALT_G, y, t->pitch, t->dy[t->depth]);
  t->b[t->depth] = elements_of(run->plan, &in, FALT_G, x, t->pitch, t->x[t->depth]);
  if (++t->depth == FALT_GENERIC_DEPTH) flush_pairs(t);
}

/* The job's "g" counts blocks of groups. */
static void run_pairs(void *context, int64_t index) {
  const job *j = context;
  const falt_problem *p = &j->run->plan->p;
  const int64_t block = VECTOR_BYTES / (int64_t)j->run->plan->lane->element;
  pair_tile t;
  t.job = j;
  t.at = place_of(j, index);
  t.at.g *= block;
  t.groups = falt_min(block, p->filter.size[FALT_G] - t.at.g);
  t.pitch = falt_round_up(t.groups, j->run->plan->lane->width);
  t.depth = 0;
  memset(t.sums, 0, sizeof t.sums);
  memset(t.totals, 0, sizeof t.totals);
  each_position(j, &t.at, push_groups, &t);
  flush_pairs(&t);
  falt_generic_store_totals(j->run, t.totals, t.groups,
                            falt_tensor_at(&p->filter, t.at.k, t.at.g, t.at.c, t.at.t, t.at.r, t.at.s),
                            p->filter.stride[FALT_G]);
}

void falt_generic_filter_groups(const falt_generic_run *run) {
  const int64_t block = VECTOR_BYTES / (int64_t)run->plan->lane->element;
  job j = job_of(run, 1, 1, 1);
  const int64_t blocks = falt_ceil_div(run->plan->p.filter.size[FALT_G], block);
  falt_parallel_for(run->plan->base.device->threads, j.k_tiles * j.c_tiles * blocks * tap_jobs(&j), run_pairs, &j);
}
