/* Maps with vectors along the channels of a group, for layouts with adjacent channels. */
#include <string.h>

#include "solver/generic/generic.h"

/* A tile is a block of positions times output channels, a small matrix product whose depth is (tap, source channel).
 * The source channels of the positions are gathered into the rows of one operand (an im2col that stays in the cache),
 * the weights into the other. */

enum { MOST_POSITIONS = 64, FEW_JOBS = 16 };

typedef struct shape {
  int64_t polyphases[3];
  int64_t channels, blocks; /* of one tile; tiles */
  int64_t positions, tiles;
} shape;

typedef struct job {
  const falt_generic_run *run;
  const shape *s;
} job;

typedef struct tile {
  const falt_generic_plan *plan;
  const falt_generic_run *run;
  falt_polyphase polyphase[3];
  int64_t g, channel, channels, pitch;
  int64_t positions;
  int64_t at[MOST_POSITIONS][4]; /* n and the polyphase part's d, h, w of each */
  int64_t index[MOST_POSITIONS]; /* of the source position's channel 0; OUTSIDE or ABSENT */
  int depth;
  int64_t low, high; /* positions that the batch concerns */
  const void *b[FALT_GENERIC_DEPTH];
  _Alignas(64) char a[MOST_POSITIONS * FALT_GENERIC_DEPTH * sizeof(double)];
  _Alignas(64) char weights[FALT_GENERIC_SUMS + FALT_GENERIC_DEPTH * sizeof(double)];
  _Alignas(64) char sums[FALT_GENERIC_SUMS];
} tile;

enum { OUTSIDE = -1, ABSENT = -2 };

static void flush(tile *t) {
  const size_t element = t->plan->lane->element, sum = t->plan->lane->sum;
  if (t->depth == 0) return;
  t->plan->lane->product(&(falt_generic_product){.a = t->a + (size_t)(t->low * FALT_GENERIC_DEPTH) * element,
                                                 .a_row = FALT_GENERIC_DEPTH,
                                                 .a_step = 1,
                                                 .b = t->b,
                                                 .sums = t->sums + (size_t)(t->low * t->pitch) * sum,
                                                 .pitch = t->pitch,
                                                 .n = t->pitch,
                                                 .rows = (int)(t->high - t->low),
                                                 .depth = t->depth});
  t->depth = 0;
  t->low = t->positions;
  t->high = 0;
}

/* The source position of every position of the tile for one tap of each axis. False if none contributes. */
static bool find_positions(tile *t, const falt_link link[3], const int64_t tap[3]) {
  bool any = false;
  for (int64_t p = 0; p < t->positions; p++) {
    const int64_t *at = t->at[p];
    t->index[p] = ABSENT;
    if (!falt_link_covers(&link[0], at[1]) || !falt_link_covers(&link[1], at[2]) || !falt_link_covers(&link[2], at[3]))
      continue;
    const int64_t d = falt_link_source(&link[0], at[1], tap[0]), h = falt_link_source(&link[1], at[2], tap[1]),
                  w = falt_link_source(&link[2], at[3], tap[2]);
    const bool outside = d < 0 || h < 0 || w < 0;
    if (outside && t->plan->fill == 0) continue;
    t->index[p] = outside ? OUTSIDE : falt_tensor_at(&t->plan->source, at[0], t->g, 0, d, h, w);
    any = true;
  }
  return any;
}

/* Rows of weights: output channels of `count` source channels from c on, for the filter's tap (i, j, k). */
static void load_weights(tile *t, int64_t c, int64_t count, const int64_t tap[3]) {
  const falt_generic_plan *plan = t->plan;
  const falt_tensor *w = &plan->p.filter;
  const int64_t element = (int64_t)plan->lane->element;
  const int64_t first = falt_tensor_at(w, 0, t->g, 0, tap[0], tap[1], tap[2]) + t->channel * plan->filter_out;
  for (int64_t m = 0; m < count; m++) {
    char *row = t->weights + (t->depth + m) * t->pitch * element;
    falt_generic_load(plan, row, t->run->filter, w->type, first + (c + m) * plan->filter_in, plan->filter_out,
                      t->channels);
    falt_generic_fill(plan, row + t->channels * element, 0, t->pitch - t->channels);
    t->b[t->depth + m] = row;
  }
}

static void load_source(tile *t, int64_t c, int64_t count) {
  const falt_generic_plan *plan = t->plan;
  const int64_t element = (int64_t)plan->lane->element, stride = plan->source.stride[FALT_C];
  for (int64_t p = 0; p < t->positions; p++) {
    char *row = t->a + (p * FALT_GENERIC_DEPTH + t->depth) * element;
    if (t->index[p] >= 0) {
      falt_generic_load(plan, row, t->run->source, plan->source.type, t->index[p] + c * stride, stride, count);
    } else {
      falt_generic_fill(plan, row, t->index[p] == OUTSIDE ? plan->fill : 0, count);
    }
    if (t->index[p] == ABSENT) continue;
    t->low = falt_min(t->low, p);
    t->high = falt_max(t->high, p + 1);
  }
}

static void accumulate(tile *t, const falt_link link[3]) {
  int64_t tap[3];
  for (tap[0] = 0; tap[0] < link[0].taps; tap[0]++)
    for (tap[1] = 0; tap[1] < link[1].taps; tap[1]++)
      for (tap[2] = 0; tap[2] < link[2].taps && !falt_cancelled(); tap[2]++) {
        int64_t own[3]; /* the filter's numbering */
        if (!find_positions(t, link, tap)) continue;
        for (int a = 0; a < 3; a++) own[a] = link[a].tap_first + tap[a] * link[a].tap_next;
        for (int64_t c = 0, count; c < t->plan->in_channels; c += count) {
          if (t->depth == FALT_GENERIC_DEPTH) flush(t);
          count = falt_min(FALT_GENERIC_DEPTH - t->depth, t->plan->in_channels - c);
          load_weights(t, c, count, own);
          load_source(t, c, count);
          t->depth += (int)count;
        }
      }
  flush(t);
}

static void store(const tile *t) {
  const falt_generic_plan *plan = t->plan;
  const falt_tensor *y = &plan->result, *z = &plan->p.residual;
  for (int64_t p = 0; p < t->positions; p++) {
    int64_t at[3];
    for (int a = 0; a < 3; a++) at[a] = t->polyphase[a].origin + t->at[p][1 + a] * t->polyphase[a].step;
    falt_generic_store(
        t->run, t->sums + (size_t)(p * t->pitch) * plan->lane->sum, t->channels,
        &(falt_generic_target){.index = falt_tensor_at(y, t->at[p][0], t->g, t->channel, at[0], at[1], at[2]),
                               .stride = y->stride[FALT_C],
                               .residual = falt_tensor_at(z, t->at[p][0], t->g, t->channel, at[0], at[1], at[2]),
                               .residual_stride = z->stride[FALT_C],
                               .channel = t->g * plan->out_channels + t->channel,
                               .channel_step = 1});
  }
}

static void compute(tile *t) {
  const falt_generic_plan *plan = t->plan;
  falt_link link[3];
  t->pitch = falt_round_up(t->channels, plan->lane->width);
  t->depth = 0;
  t->low = t->positions;
  t->high = 0;
  memset(t->sums, 0, (size_t)(t->positions * t->pitch) * plan->lane->sum);
  for (bool any = falt_links_first(plan, t->polyphase, link); any; any = falt_links_next(plan, t->polyphase, link))
    accumulate(t, link);
  store(t);
}

static void run_tile(void *context, int64_t index) {
  const job *j = context;
  const shape *s = j->s;
  tile t;
  t.run = j->run;
  t.plan = j->run->plan;
  t.channel = falt_generic_digit(&index, s->blocks) * s->channels;
  t.channels = falt_min(s->channels, t.plan->out_channels - t.channel);
  for (int a = 2; a >= 0; a--)
    t.polyphase[a] = falt_polyphase_at(t.plan, a, falt_generic_digit(&index, s->polyphases[a]));
  const int64_t first = falt_generic_digit(&index, s->tiles) * s->positions;
  const int64_t all = t.plan->result.size[FALT_N] * t.polyphase[0].count * t.polyphase[1].count * t.polyphase[2].count;
  t.g = index;
  t.positions = falt_min(s->positions, all - first);
  for (int64_t p = 0; p < t.positions; p++) {
    int64_t rest = first + p;
    for (int a = 2; a >= 0; a--) t.at[p][1 + a] = falt_generic_digit(&rest, t.polyphase[a].count);
    t.at[p][0] = rest;
  }
  if (t.positions > 0) compute(&t);
}

static shape shape_of(const falt_generic_plan *plan) {
  const int64_t row = FALT_GENERIC_SUMS / MOST_POSITIONS; /* bytes */
  shape s = {.positions = MOST_POSITIONS};
  s.channels = falt_min(plan->out_channels, row / (int64_t)plan->lane->sum);
  s.blocks = falt_ceil_div(plan->out_channels, s.channels);
  int64_t all = plan->result.size[FALT_N], polyphases = 1;
  for (int a = 0; a < 3; a++) {
    s.polyphases[a] = falt_polyphase_count(plan, a);
    polyphases *= s.polyphases[a];
    all *= falt_polyphase_at(plan, a, 0).count;
  }
  s.tiles = falt_ceil_div(all, s.positions);
  while (s.tiles * s.blocks * polyphases * plan->result.size[FALT_G] < FEW_JOBS && s.positions > 8) {
    s.positions /= 2;
    s.tiles = falt_ceil_div(all, s.positions);
  }
  return s;
}

void falt_generic_map_channels(const falt_generic_run *run) {
  const shape s = shape_of(run->plan);
  const int64_t jobs =
      s.tiles * s.blocks * s.polyphases[0] * s.polyphases[1] * s.polyphases[2] * run->plan->result.size[FALT_G];
  falt_parallel_for(run->plan->base.device->threads, jobs, run_tile, &(job){.run = run, .s = &s});
}
