/* Which tiles cost least: all combinations of a few lengths for each axis, by the arithmetic of their transforms and
 * the caches that they leave. */
#include <math.h>

#include "solver/cpu/fft/fft.h"

enum { LENGTHS = 48, OCTAVES = 5 };
static const double MOST_POINTS = 1 << 25, FEW_POINTS = 1 << 19;

/* Multiply-adds a point beside those of the passes: transforms across lanes and the product; loads and stores. */
static const double ACROSS = 25, MOVING = 12;

typedef struct candidate {
  falt_fft_cut cut;
  double tiles, work;
} candidate;

typedef struct lengths {
  candidate list[LENGTHS];
  int count;
} lengths;

/* ---- lengths of one axis */

typedef struct line {
  int64_t out, stride, extent, pixel, unit; /* unit: what lengths are multiples of */
  bool transformed;
} line;

static line line_of(const falt_rows *rows, int i, const falt_fft_lane *lane) {
  return (line){.out = rows->out[i],
                .stride = rows->axis[i].stride,
                .extent = falt_extent(&rows->axis[i], rows->taps[i]),
                .pixel = i == 2 ? rows->pixel : 1,
                .unit = i == 2 ? lane->width : 1,
                .transformed = i == 2 || rows->taps[i] > 1};
}

static void add(lengths *all, const line *a, const falt_fft_lane *lane, int64_t size, int64_t block, bool cyclic) {
  if (all->count == LENGTHS || block < 1) return;
  block = falt_min(block, a->out);
  all->list[all->count++] = (candidate){{size, block, a->transformed, cyclic},
                                        (double)falt_ceil_div(a->out, block),
                                        a->transformed ? falt_fft_work(lane, size / a->unit) : 0};
}

/* Outputs of a transform of this length. */
static int64_t block_of(const line *a, int64_t size) {
  const int64_t positions = size / a->pixel;
  return positions < a->extent ? 0 : (positions - a->extent) / a->stride + 1;
}

/* Adjacent rows: powers of two, or all. */
static void list_rows(lengths *all, const line *a, const falt_fft_lane *lane) {
  for (int64_t rows = 1; rows < a->out && rows <= 64; rows *= 2) add(all, a, lane, rows, rows, false);
  if (a->out <= 128) add(all, a, lane, a->out, a->out, false);
}

static void list_lengths(lengths *all, const falt_rows *rows, int i, const falt_fft_lane *lane) {
  static const int64_t odd[] = {1, 3, 5, 9, 15};
  const line a = line_of(rows, i, lane);
  const double least = (double)a.extent * (double)a.pixel;
  const double reach = ((double)(a.out - 1) * (double)a.stride + (double)a.extent) * (double)a.pixel;
  const double most = fmin(reach, ldexp(least + 64, OCTAVES)), unit = (double)a.unit;
  all->count = 0;
  if (!a.transformed) {
    list_rows(all, &a, lane);
    return;
  }
  const int64_t period = falt_fft_period(rows, i, (a.out - 1) * a.stride, a.unit, MOST_POINTS);
  if (period > 0) add(all, &a, lane, period, a.out, true);
  if (reach <= MOST_POINTS) {
    const int64_t whole = falt_fft_smooth_from(falt_ceil_div((int64_t)reach, a.unit)) * a.unit;
    add(all, &a, lane, whole, a.out, false);
  }
  for (int k = 0; k < 5; k++)
    for (double n = (double)odd[k] * unit; n < most && n <= MOST_POINTS; n *= 2)
      if (n >= least) add(all, &a, lane, (int64_t)n, block_of(&a, (int64_t)n), false);
}

/* ---- the cheapest */

typedef struct search {
  lengths all[3];
  double slices, filters, threads, cache, most, element;
  double points; /* of a tile at most: few, or in proportion to what the filter covers, so that its spectrum is */
} search;

static double most_points(const falt_rows *rows) {
  double covered = (double)rows->pixel;
  for (int i = 0; i < 3; i++) covered *= (double)falt_extent(&rows->axis[i], rows->taps[i]);
  return fmin(fmax(FEW_POINTS, 3 * covered), MOST_POINTS);
}

/* Multiply-adds of all tiles, two at a time, as if all threads worked as long as the longest; infinite if the tile does
 * not fit. */
static double cost_of(const void *context, const int at[3]) {
  const search *s = context;
  const candidate *z = &s->all[0].list[at[0]], *y = &s->all[1].list[at[1]], *x = &s->all[2].list[at[2]];
  const double points = (double)z->cut.size * (double)y->cut.size * (double)x->cut.size;
  const double bytes = 2 * points * s->element, spectrum = bytes;
  const double tiles = s->slices / s->filters * z->tiles * y->tiles * x->tiles;
  const double pairs = s->filters * ceil(tiles / 2), rounds = ceil(pairs / s->threads) * s->threads;
  if (points > s->points || bytes * 1.1 * s->threads > s->most) return INFINITY;
  const double kept = 0.6 * s->cache, slower = bytes + spectrum > kept ? 1 + 0.1 * log2((bytes + spectrum) / kept) : 1;
  const double started = 4e3 + 1500 * (double)z->cut.size * (double)y->cut.size; /* a pair of tiles, and its rows */
  return rounds * (points * slower * (z->work + y->work + x->work + ACROSS + MOVING) + started);
}

bool falt_fft_tile_choose(falt_fft_tile *tile, const falt_rows *rows, const falt_fft_lane *lane, int64_t filters,
                          const falt_device *device, bool deterministic, int64_t most) {
  const int threads = falt_threads_count(device->threads);
  search s = {.slices = (double)rows->batch * (double)rows->groups,
              .filters = (double)filters,
              .threads = deterministic ? 1 : threads,
              .cache = (double)device->caches.l2,
              .most = most < 0 ? INFINITY : (double)most,
              .element = (double)rows->lane_size,
              .points = most_points(rows)};
  int best[3], count[3];
  for (int i = 0; i < 3; i++) list_lengths(&s.all[i], rows, i, lane);
  for (int i = 0; i < 3; i++) count[i] = s.all[i].count;
  tile->work = falt_fft_cheapest(count, cost_of, &s, best);
  if (!isfinite(tile->work)) return false;
  for (int i = 0; i < 3; i++) tile->cut[i] = s.all[i].list[best[i]].cut;
  return true;
}
