/* Maps with vectors along the width: layouts with adjacent width, and all layouts without another version. */
#include <math.h>
#include <string.h>

#include "solver/generic/generic.h"

/* A tile is a block of output channels times positions: a piece of one row, or several whole short rows. Each source
 * row of a tile is converted, and continued by the boundary, once for all taps along the width, which then are shifted
 * views of it. A row that needs neither is read in place. Between short rows there are a few positions of no output;
 * their sums are dropped. */

enum { MOST_CHANNELS = 12, MOST_ROWS = 256, MOST_BYTES = 8192, FEW_JOBS = 16 };

typedef struct shape {
  int64_t polyphases[3];
  int channels;                      /* of one tile */
  int64_t blocks, row_tiles, pieces; /* tiles along channels, rows, width */
  int64_t rows, n, pitch;            /* of one tile; pitch separates rows in it */
} shape;

typedef struct job {
  const falt_generic_run *run;
  const shape *s;
} job;

typedef struct row_source {
  int64_t index; /* of the element at the start of the row, channel 0; -1 outside */
  int64_t d, h;
} row_source;

typedef struct tile {
  const falt_generic_plan *plan;
  const falt_generic_run *run;
  falt_polyphase polyphase[3];
  int64_t g, channel;
  int channels;
  int64_t row, rows, w, n, pitch; /* first row, first position along the width, and how many */
  int64_t sum_pitch;
  int depth;
  size_t used; /* of the pool */
  row_source source[MOST_ROWS];
  const void *b[FALT_GENERIC_DEPTH];
  _Alignas(64) char a[FALT_GENERIC_DEPTH * MOST_CHANNELS * sizeof(double)];
  _Alignas(64) char sums[FALT_GENERIC_SUMS + MOST_CHANNELS * 2 * FALT_GENERIC_WIDEST * sizeof(double)];
  _Alignas(64) char pool[FALT_GENERIC_POOL];
} tile;

/* A piece of a tile that one set of links covers: `at` is its first sum. */
typedef struct part {
  int64_t row, rows, w, n, at;
} part;

static int64_t width_of(const falt_generic_plan *plan) {
  return plan->lane->width;
}

/* ---- the rows of a part */

static void split_row(const tile *t, int64_t row, int64_t *n, int64_t *d, int64_t *h) {
  *h = row % t->polyphase[1].count;
  *d = row / t->polyphase[1].count % t->polyphase[0].count;
  *n = row / t->polyphase[1].count / t->polyphase[0].count;
}

/* Finds the source row of each of the part's rows for taps (i, j) of depth and height; false if all are outside. */
static bool find_rows(tile *t, const part *p, const falt_link link[3], int64_t i, int64_t j) {
  const falt_tensor *x = &t->plan->source;
  bool any = false;
  for (int64_t r = 0; r < p->rows; r++) {
    int64_t n, qd, qh;
    split_row(t, p->row + r, &n, &qd, &qh);
    const int64_t d = falt_link_source(&link[0], qd, i), h = falt_link_source(&link[1], qh, j);
    const bool outside = d < 0 || h < 0;
    t->source[r] = (row_source){outside ? -1 : falt_tensor_at(x, n, t->g, 0, d, h, 0), d, h};
    any |= !outside;
  }
  return any;
}

/* ---- kernel calls */

static void flush(tile *t, const part *p) {
  if (t->depth == 0) return;
  const int64_t n = falt_round_up((p->rows - 1) * t->pitch + p->n, width_of(t->plan));
  char *sums = t->sums + (size_t)p->at * t->plan->lane->sum;
  if (t->plan->p.operation == FALT_MAXPOOL) {
    t->plan->lane->largest(t->b, t->depth, n, sums);
  } else {
    t->plan->lane->product(&(falt_generic_product){.a = t->a,
                                                   .a_row = 1,
                                                   .a_step = MOST_CHANNELS,
                                                   .b = t->b,
                                                   .sums = sums,
                                                   .pitch = t->sum_pitch,
                                                   .n = n,
                                                   .rows = t->channels,
                                                   .depth = t->depth});
  }
  t->depth = 0;
  t->used = 0;
}

static void load_weights(tile *t, int64_t channel_in, int64_t i, int64_t j, int64_t k) {
  const falt_generic_plan *plan = t->plan;
  const falt_tensor *w = &plan->p.filter;
  char *a = t->a + (size_t)t->depth * MOST_CHANNELS * plan->lane->element;
  if (falt_is_pooling(plan->p.operation)) {
    falt_generic_fill(plan, a, 1, 1);
    return;
  }
  const int64_t index =
      falt_tensor_at(w, 0, t->g, 0, i, j, k) + t->channel * plan->filter_out + channel_in * plan->filter_in;
  falt_generic_load(plan, a, t->run->filter, w->type, index, plan->filter_out, t->channels);
}

/* ---- source rows */

/* The row in place, if it needs neither conversion nor boundary and ends with a whole vector. */
static const char *row_in_place(const tile *t, const part *p, const falt_link *link, int64_t row, int64_t start,
                                int64_t length) {
  const falt_generic_plan *plan = t->plan;
  const bool as_it_lies = p->rows == 1 && link->step == 1 && plan->source.stride[FALT_W] == 1 && row >= 0 &&
                          start >= 0 && start + length <= link->size && p->n % width_of(plan) == 0 &&
                          plan->p.operation != FALT_BACKWARD_AVGPOOL;
  return as_it_lies ? falt_generic_in_place(plan, t->run->source, plan->source.type, row + start) : NULL;
}

/* Loads the part's rows of one source channel from position start on, `length` of each, into the pool. */
static const char *load_rows(tile *t, const part *p, const falt_link *link, int64_t channel, int64_t start,
                             int64_t length, int64_t total) {
  const falt_generic_plan *plan = t->plan;
  const size_t element = plan->lane->element;
  const falt_cut cut = falt_generic_cut(link, start, link->step, length);
  char *to = t->pool + t->used;
  falt_generic_fill(plan, to, plan->fill, total);
  for (int64_t r = 0; r < p->rows; r++) {
    const row_source *from = &t->source[r];
    char *row = to + (size_t)(r * t->pitch) * element;
    if (from->index < 0) continue;
    falt_generic_load_cut(t->run, row, from->index + channel * plan->source.stride[FALT_C], &cut);
    if (plan->p.operation == FALT_BACKWARD_AVGPOOL)
      falt_generic_average(plan, row + (size_t)cut.begin * element, from->d, from->h, start + cut.begin,
                           cut.end - cut.begin);
  }
  t->used += falt_round_up(total * (int64_t)element, 64);
  return to;
}

/* Taps along the width that one loaded row can serve. In a part of a tile only one: shifted views end in elements of
 * other taps, which would add to the sums beside the part. */
static int64_t taps_at_once(const tile *t, const part *p, const falt_link *link) {
  const int64_t half = FALT_GENERIC_POOL / 2 / (int64_t)t->plan->lane->element;
  const int64_t room = p->rows == 1 ? half - p->n - FALT_GENERIC_WIDEST : t->pitch - p->n;
  if ((link->step != 1 && link->step != -1) || p->rows != t->rows || p->n != t->n) return 1;
  return falt_max(1, falt_min(falt_min(link->taps, FALT_GENERIC_DEPTH / 2), 1 + room / link->tap_step));
}

/* Adds `taps` taps along the width, from tap k on, of source channel `channel` to the batch. */
static void push(tile *t, const part *p, const falt_link link[3], int64_t channel, int64_t i, int64_t j, int64_t k,
                 int64_t taps) {
  const falt_link *w = &link[2];
  const int64_t element = (int64_t)t->plan->lane->element, span = (taps - 1) * w->tap_step, length = p->n + span;
  const int64_t sums = falt_round_up((p->rows - 1) * t->pitch + p->n, width_of(t->plan)), total = sums + span;
  int64_t start = w->base + w->step * p->w + w->tap_step * k;
  if (w->step < 0) start += span; /* the row is loaded backwards */
  const char *row =
      row_in_place(t, p, w, t->source[0].index < 0 ? -1 : t->source[0].index + channel * t->plan->source.stride[FALT_C],
                   start, length);
  if (t->depth + taps > FALT_GENERIC_DEPTH || (!row && (int64_t)t->used + (total + 16) * element > FALT_GENERIC_POOL))
    flush(t, p);
  if (!row) row = load_rows(t, p, w, channel, start, length, total);
  for (int64_t m = 0; m < taps; m++) {
    const int64_t shift = (w->step < 0 ? taps - 1 - m : m) * w->tap_step;
    load_weights(t, channel, link[0].tap_first + i * link[0].tap_next, link[1].tap_first + j * link[1].tap_next,
                 w->tap_first + (k + m) * w->tap_next);
    t->b[t->depth++] = row + shift * element;
  }
}

/* All taps and source channels of one set of links. */
static void accumulate(tile *t, const part *p, const falt_link link[3]) {
  const bool skip_outside = falt_is_pooling(t->plan->p.operation) || t->plan->fill == 0;
  const int64_t at_once = taps_at_once(t, p, &link[2]);
  for (int64_t i = 0; i < link[0].taps; i++)
    for (int64_t j = 0; j < link[1].taps; j++) {
      if (!find_rows(t, p, link, i, j) && skip_outside) continue;
      for (int64_t c = 0; c < t->plan->in_channels; c++)
        for (int64_t k = 0; k < link[2].taps && !falt_cancelled(); k += at_once)
          push(t, p, link, c, i, j, k, falt_min(at_once, link[2].taps - k));
    }
  flush(t, p);
}

/* ---- a tile */

/* The main links cover the whole tile; links of the folded outside cover a part of some rows. */
static void apply_links(tile *t, const falt_link link[3]) {
  const part whole = {t->row, t->rows, t->w, t->n, 0};
  if (falt_link_is_main(&link[0]) && falt_link_is_main(&link[1]) && falt_link_is_main(&link[2])) {
    accumulate(t, &whole, link);
    return;
  }
  const int64_t w = falt_max(t->w, link[2].first), end = falt_min(t->w + t->n, link[2].first + link[2].count);
  for (int64_t r = 0; r < t->rows && w < end; r++) {
    int64_t n, qd, qh;
    split_row(t, t->row + r, &n, &qd, &qh);
    if (!falt_link_covers(&link[0], qd) || !falt_link_covers(&link[1], qh)) continue;
    accumulate(t, &(part){t->row + r, 1, w, end - w, r * t->pitch + w - t->w}, link);
  }
}

static void store(tile *t) {
  const falt_generic_plan *plan = t->plan;
  const falt_tensor *y = &plan->result, *z = &plan->p.residual;
  const int64_t w = t->polyphase[2].origin + t->w * t->polyphase[2].step;
  for (int m = 0; m < t->channels; m++)
    for (int64_t r = 0; r < t->rows; r++) {
      int64_t n, d, h;
      split_row(t, t->row + r, &n, &d, &h);
      d = t->polyphase[0].origin + d * t->polyphase[0].step;
      h = t->polyphase[1].origin + h * t->polyphase[1].step;
      char *sums = t->sums + (size_t)(m * t->sum_pitch + r * t->pitch) * plan->lane->sum;
      if (plan->p.operation == FALT_AVGPOOL) falt_generic_average(plan, sums, d, h, w, t->n);
      falt_generic_store(t->run, sums, t->n,
                         &(falt_generic_target){.index = falt_tensor_at(y, n, t->g, t->channel + m, d, h, w),
                                                .stride = y->stride[FALT_W] * t->polyphase[2].step,
                                                .residual = falt_tensor_at(z, n, t->g, t->channel + m, d, h, w),
                                                .residual_stride = z->stride[FALT_W],
                                                .channel = t->g * plan->out_channels + t->channel + m});
    }
}

static void compute(tile *t) {
  const falt_generic_plan *plan = t->plan;
  falt_link link[3];
  t->sum_pitch = falt_round_up(t->rows * t->pitch, width_of(plan)) + width_of(plan);
  t->depth = 0;
  t->used = 0;
  const size_t sums = (size_t)(t->channels * t->sum_pitch);
  if (plan->p.operation == FALT_MAXPOOL)
    falt_generic_fill(plan, t->sums, -INFINITY, (int64_t)sums);
  else
    memset(t->sums, 0, sums * plan->lane->sum);
  for (bool any = falt_links_first(plan, t->polyphase, link); any; any = falt_links_next(plan, t->polyphase, link))
    apply_links(t, link);
  store(t);
}

static void run_tile(void *context, int64_t index) {
  const job *j = context;
  const shape *s = j->s;
  const falt_generic_plan *plan = j->run->plan;
  tile t;
  t.plan = plan;
  t.run = j->run;
  t.pitch = s->pitch;
  t.channel = falt_generic_digit(&index, s->blocks) * s->channels;
  t.w = falt_generic_digit(&index, s->pieces) * s->n;
  for (int axis = 2; axis >= 0; axis--)
    t.polyphase[axis] = falt_polyphase_at(plan, axis, falt_generic_digit(&index, s->polyphases[axis]));
  t.row = falt_generic_digit(&index, s->row_tiles) * s->rows;
  t.g = index;
  const int64_t rows = plan->result.size[FALT_N] * t.polyphase[0].count * t.polyphase[1].count;
  t.channels = (int)falt_min(s->channels, plan->out_channels - t.channel);
  t.n = falt_min(s->n, t.polyphase[2].count - t.w);
  t.rows = falt_min(s->rows, rows - t.row);
  if (t.n > 0 && t.rows > 0) compute(&t);
}

/* ---- shape of the tiles; a function of the problem alone, so outputs do not depend on threads */

static int64_t jobs(const falt_generic_plan *plan, const shape *s) {
  return s->blocks * s->pieces * s->row_tiles * plan->result.size[FALT_G] * s->polyphases[0] * s->polyphases[1] *
         s->polyphases[2];
}

/* Positions between the short rows of a tile, which make all taps shifts of one loaded row. */
static int64_t row_gap(const falt_generic_plan *plan, int64_t width) {
  falt_link link;
  if (!falt_link_first(plan, 2, falt_polyphase_at(plan, 2, 0), &link) || link.step != 1) return 0;
  const int64_t gap = (link.taps - 1) * link.tap_step;
  return gap <= width ? gap : 0;
}

static shape shape_of(const falt_generic_plan *plan) {
  const int64_t lanes = plan->lane->width;
  shape s = {.channels = (int)falt_min(plan->out_channels, MOST_CHANNELS)};
  int64_t most =
      falt_min(MOST_BYTES / (int64_t)plan->lane->element, FALT_GENERIC_SUMS / (int64_t)plan->lane->sum / s.channels);
  most = most / lanes * lanes;
  for (int a = 0; a < 3; a++) s.polyphases[a] = falt_polyphase_count(plan, a);
  const int64_t width = falt_polyphase_at(plan, 2, 0).count;
  const int64_t rows =
      plan->result.size[FALT_N] * falt_polyphase_at(plan, 0, 0).count * falt_polyphase_at(plan, 1, 0).count;
  s.blocks = falt_ceil_div(plan->out_channels, s.channels);
  s.pieces = falt_ceil_div(width, most);
  s.n = s.pieces == 1 ? width : falt_round_up(falt_ceil_div(width, s.pieces), lanes);
  const int64_t gap = row_gap(plan, s.n);
  s.rows = s.pieces > 1 ? 1 : falt_min(falt_min(rows, MOST_ROWS), falt_max(1, most / (s.n + gap)));
  s.row_tiles = falt_ceil_div(rows, s.rows);
  while (jobs(plan, &s) < FEW_JOBS && s.rows > 1) {
    s.rows = falt_ceil_div(s.rows, 2);
    s.row_tiles = falt_ceil_div(rows, s.rows);
  }
  while (jobs(plan, &s) < FEW_JOBS && s.n > 8 * lanes) {
    s.n = falt_round_up(falt_ceil_div(s.n, 2), lanes);
    s.pieces = falt_ceil_div(width, s.n);
  }
  s.pitch = s.rows > 1 ? s.n + gap : s.n;
  return s;
}

void falt_generic_map_rows(const falt_generic_run *run) {
  const shape s = shape_of(run->plan);
  falt_parallel_for(run->plan->base.device->threads, jobs(run->plan, &s), run_tile, &(job){.run = run, .s = &s});
}
