/* Which tiles of fft-wgrad cost least. dw has T taps and dy O positions along an axis: a transform of N points gives B
 * taps their products with P positions if (B - 1) * dilation + (P - 1) * stride < N. The shorter of both is kept whole
 * where it fits, and the other one is cut. */
#include <math.h>

#include "solver/cpu/fft/fft_wgrad.h"

enum { LENGTHS = 40, OCTAVES = 5 };
static const double MOST_POINTS = 1 << 23;

/* Multiply-adds a point beside those of the passes: transforms across lanes; loads and stores; a product. */
static const double ACROSS = 12, MOVING = 12, PRODUCT = 8;

typedef struct candidate {
  falt_fft_wgrad_cut cut;
  double work; /* multiply-adds a point of one transform */
} candidate;

typedef struct lengths {
  candidate list[LENGTHS];
  int count;
} lengths;

/* ---- lengths of one axis */

typedef struct line {
  const falt_fft_lane *lane;
  int64_t taps, out;    /* of dw and dy */
  int64_t apart, step;  /* elements between taps, and between positions of dy */
  int64_t unit, vector; /* what lengths are multiples of; what is transformed across lanes */
} line;

static int64_t reach_of(int64_t count, int64_t step) {
  return (count - 1) * step + 1;
}

static void add(lengths *all, const line *a, int64_t size, int64_t block, int64_t part, bool cyclic) {
  if (all->count == LENGTHS || block < 1 || part < 1) return;
  block = falt_min(block, a->taps);
  part = falt_min(part, a->out);
  all->list[all->count++] = (candidate){{.size = size,
                                         .block = block,
                                         .blocks = falt_ceil_div(a->taps, block),
                                         .part = part,
                                         .parts = falt_ceil_div(a->out, part),
                                         .cyclic = cyclic},
                                        falt_fft_work(a->lane, size / a->vector) / 2};
}

/* As many taps and positions as a transform of this length has room for. */
static void add_cut(lengths *all, const line *a, int64_t size) {
  const int64_t taps = reach_of(a->taps, a->apart), out = reach_of(a->out, a->step);
  const int64_t kept = falt_max(1, falt_min(falt_min(taps, out), size / 2)), rest = size - kept;
  if (taps <= out)
    add(all, a, size, (kept - 1) / a->apart + 1, rest / a->step + 1, false);
  else
    add(all, a, size, rest / a->apart + 1, (kept - 1) / a->step + 1, false);
}

static void list_lengths(lengths *all, const falt_rows *rows, int i, const falt_fft_lane *lane, bool alone) {
  static const int64_t odd[] = {1, 3, 5};
  const int64_t vector = i == 2 ? lane->width : 1;
  const line a = {.lane = lane,
                  .taps = rows->out[i],
                  .out = rows->taps[i],
                  .apart = rows->axis[i].stride,
                  .step = rows->axis[i].dilation,
                  .unit = alone ? vector * vector : vector,
                  .vector = vector};
  all->count = 0;
  if (i < 2 && a.taps == 1) {
    add(all, &a, 1, 1, 1, false);
    return;
  }
  const double taps = (double)reach_of(a.taps, a.apart), out = (double)reach_of(a.out, a.step);
  const double reach = taps + out - 1, least = fmin(taps, out), most = fmin(reach, ldexp(least + 64, OCTAVES));
  const int64_t period = falt_fft_period(rows, i, (a.out - 1) * a.step, a.unit, MOST_POINTS);
  if (period > 0) add(all, &a, period, a.taps, a.out, true);
  if (reach <= MOST_POINTS)
    add(all, &a, falt_fft_smooth_from(falt_ceil_div((int64_t)reach, a.unit)) * a.unit, a.taps, a.out, false);
  for (double n = (double)a.unit; n < 2 * least && n < reach && n <= MOST_POINTS; n *= 2)
    if (n >= 1024 || 4 * n >= least) add_cut(all, &a, (int64_t)n);
  for (int k = 0; k < 3; k++)
    for (double n = (double)(odd[k] * a.unit); n < most && n <= MOST_POINTS; n *= 2)
      if (n >= 2 * least) add_cut(all, &a, (int64_t)n);
}

/* ---- the cheapest */

int64_t falt_fft_wgrad_terms(const falt_rows *rows, const falt_fft_wgrad_tile *tile) {
  const falt_fft_wgrad_cut *cut = tile->cut;
  return rows->batch * cut[0].parts * cut[1].parts * cut[2].parts;
}

typedef struct search {
  lengths all[3];
  double images, filters, threads, cache, most, element;
} search;

/* Multiply-adds of all tiles, as if all threads worked as long as the longest; infinite if the tile does not fit. */
static double cost_of(const void *context, const int at[3]) {
  const search *s = context;
  double points = 1, rows = 1, blocks = s->filters, terms = s->images, work = ACROSS + MOVING, taps = 1;
  for (int i = 0; i < 3; i++) {
    const candidate *c = &s->all[i].list[at[i]];
    points *= (double)c->cut.size;
    rows *= i < 2 ? (double)c->cut.size : 1;
    blocks *= (double)c->cut.blocks;
    terms *= (double)c->cut.parts;
    taps *= (double)c->cut.block;
    work += c->work;
  }
  const double bytes = s->element * (6.2 * points + taps), kept = 0.6 * s->cache;
  if (points > MOST_POINTS || bytes * s->threads > s->most) return INFINITY;
  const double slower = bytes > kept ? 1 + 0.1 * log2(bytes / kept) : 1;
  const double started = 4e3 + 1500 * rows; /* a tile, and its rows */
  const double pair = 2 * (points * slower * (work + PRODUCT / 2) + started), back = points * slower * work + started;
  const double pairs = ceil(terms / 2), units = blocks * pairs;
  return blocks * (pairs * pair + back) * ceil(units / s->threads) * s->threads / units;
}

bool falt_fft_wgrad_tile_choose(falt_fft_wgrad_tile *tile, const falt_rows *rows, const falt_fft_lane *lane,
                                int64_t filters, const falt_device *device, bool deterministic, int64_t most) {
  search s = {.images = (double)rows->batch,
              .filters = (double)filters,
              .threads = deterministic ? 1 : falt_threads_count(device->threads),
              .cache = (double)device->caches.l2,
              .most = most < 0 ? INFINITY : (double)most,
              .element = (double)rows->lane_size};
  int best[3], count[3];
  for (int i = 0; i < 3; i++) list_lengths(&s.all[i], rows, i, lane, rows->out[0] == 1 && rows->out[1] == 1);
  for (int i = 0; i < 3; i++) count[i] = s.all[i].count;
  tile->work = falt_fft_cheapest(count, cost_of, &s, best);
  if (!isfinite(tile->work)) return false;
  for (int i = 0; i < 3; i++) tile->cut[i] = s.all[i].list[best[i]].cut;
  return true;
}
