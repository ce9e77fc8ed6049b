/* The choice of tiles for cuda_fft_partitioned.cu, and its estimate. */
#include <math.h>

#include "core/memory.h"
#include "solver/cuda/fft/cuda_fft_tiles.h"

/* Bytes of a launch's spectra, if a line of tiles takes less. Fitted to an H200 (page fft): the fraction of the peak
 * that sums of products reach, of the rates of memory and cache that spectra reach, and of the issue rate in kernels
 * that transform one way only. */
static const double kept_bytes = 0x1p29, product_share = 0.35, memory_share = 0.75, stage_share = 0.33;
/* Of wgrad, measured, of what the stages add up to, with kept spectra and by one block; the cause was not looked for.
 */
static const double kept_cost = 1.8, whole_cost = 1.7;
static const falt_cuda_fft_rates *const rates = &falt_cuda_fft_rates_of_points;
enum { MOST_SEGMENTS = 64 };

typedef falt_cuda_fft_axis axis;

static double strand_bytes(const falt_cuda_fft_problem *p, const falt_cuda_fft_tile *t) {
  return (double)(t->inputs + t->steps) * falt_cuda_fft_points_of(t) * 2 * p->real_bytes + (double)t->inputs;
}

double falt_cuda_fft_kept(const falt_cuda_fft_problem *p, const falt_cuda_fft_tile *t) {
  return t->axis < 0 ? 0 : (double)t->strands * strand_bytes(p, t);
}

/* Products of the inputs before number `end` of a line: input u is read by min(u + 1, inputs - u, steps, parts) tiles.
 */
static double products_before(const falt_cuda_fft_tile *t, double end) {
  const double steps = (double)t->steps, parts = (double)t->parts[t->axis], inputs = (double)t->inputs;
  const double most = fmin(steps, parts);
  if (end <= most) return end * (end + 1) / 2;
  if (end <= inputs - most) return most * (most + 1) / 2 + (end - most) * most;
  return steps * parts - (inputs - end) * (inputs - end + 1) / 2;
}

/* The inputs of a line that are not zeros beyond the ends, and the products with them. */
typedef struct live {
  double inputs, products;
} live;

static live live_of(const falt_cuda_fft_problem *p, const falt_cuda_fft_tile *t) {
  const int i = t->axis;
  if (!p->zeros[i]) return (live){(double)t->inputs, (double)t->steps * (double)t->parts[i]};
  const double step = (double)t->block[i] * (double)p->stride[i], from = (double)(p->pad[i] + t->shift);
  const double length = ldexp(1, t->log[i]), inputs = (double)t->inputs, lines = (double)t->segments;
  /* of the whole axis; each segment has its share */
  const double begin = fmax(0, floor((from - length) / step) + 1), end = ceil(((double)p->in[i] + from) / step);
  const double all = (double)(t->tiles[i] + t->parts[i] - 1), share = fmax(0, fmin(end, all) - begin) / all;
  if (t->segments > 1) return (live){inputs * share, (double)t->steps * (double)t->parts[i] * share};
  const double last = fmin(end, inputs);
  if (last <= begin) return (live){0, 0};
  return (live){(last - begin) * fmax(1, lines), products_before(t, last) - products_before(t, begin)};
}

/* Seconds of a kernel whose blocks each move and compute as much: blocks are on all multiprocessors at once. */
static double stage(const falt_cuda_fft_problem *p, const falt_machine *m, const falt_cuda_fft_tile *t, double blocks,
                    double steps, double bytes, double rate) {
  const double slots = (double)m->multiprocessors * t->blocks, waves = fmax(1, blocks / slots + 0.5);
  const double wide = falt_cuda_fft_wide(p, m);
  const double compute = waves * slots * steps * wide * falt_cuda_fft_points_of(t) / (m->flops / 2 * stage_share);
  const double memory = blocks * bytes / rate;
  return rates->launch + fmax(compute, memory) + 0.3 * fmin(compute, memory);
}

/* Of wgrad dy are transformed as x are, and the products of a filter's pairs are one sum. */
static double seconds_of(const falt_cuda_fft_problem *p, const falt_machine *m, const falt_cuda_fft_tile *t) {
  const double pairs = (double)p->filters * (double)falt_ceil_div(t->boxes, 2), points = falt_cuda_fft_points_of(t);
  const double sums = (p->wgrad ? (double)p->filters : pairs) * (double)t->steps;
  const double point = 2.0 * p->real_bytes, columns = (double)(INT64_C(1) << t->log[2]);
  const bool cached = falt_cuda_fft_kept(p, t) + t->spectra_bytes < 0.5 * m->cache_bytes;
  const double cache_rate = memory_share * p->cache_bytes_per_s;
  const double rate = cached ? cache_rate : memory_share * m->bytes_per_s, transform = falt_cuda_fft_transform_steps(t);
  const double launches = ceil(pairs / (double)t->strands);
  const live l = live_of(p, t);
  const double in = 2 * p->x_bytes * falt_cuda_fft_sectors(columns, p->x_bytes, p->x_step);
  const double out = 2 * p->y_bytes * falt_cuda_fft_sectors((double)t->block[2], p->y_bytes, p->y_step);
  const double ahead = stage(p, m, t, pairs * l.inputs, transform + rates->load, points * (in + point), rate);
  const double back =
      stage(p, m, t, sums, transform + rates->store + (p->far ? rates->far : 0), points * (out + point), rate);
  const double flops = falt_cuda_fft_wide(p, m) * pairs * l.products * points * 8;
  const double arithmetic = flops / (m->flops * product_share);
  const double loads = points * point * (2 * pairs * l.products / t->group + 2 * sums) / cache_rate;
  const double spectra = p->wgrad ? pairs * (double)t->all_parts * points * point : t->spectra_bytes;
  const double moved = points * point * (pairs * l.inputs + sums) / rate + spectra / (p->wgrad ? rate : m->bytes_per_s);
  const double memory = fmax(loads, moved);
  const double products = rates->launch + fmax(memory, arithmetic) + 0.3 * fmin(memory, arithmetic);
  return ahead + back + products + 3 * rates->launch * (launches - 1);
}

static void complete(const falt_cuda_fft_problem *p, const falt_machine *m, falt_cuda_fft_tile *t) {
  double lines = (double)p->images * (double)t->segments;
  for (int i = 0; i < 3; i++) lines *= i == t->axis ? 1 : (double)t->tiles[i];
  falt_cuda_fft_set_block(p, m, t);
  t->boxes = (int64_t)fmin(lines, 0x1p40);
  const double pairs = (double)falt_ceil_div(t->boxes, 2), all = pairs * (double)p->filters;
  const double spectra = t->spectra_bytes, together = p->wgrad ? pairs : 1;
  const double bytes = strand_bytes(p, t) + (p->wgrad ? spectra / (double)p->filters : 0);
  const double budget = p->most_bytes < 0 ? kept_bytes : fmin(kept_bytes, 0.5 * (double)p->most_bytes);
  t->strands = (int64_t)(together * fmax(1, fmin(all / together, floor(budget / bytes / together))));
  t->pairs = (int64_t)fmin((p->wgrad ? 1 : pairs) * (double)t->steps, 0x1p40);
  if (p->wgrad) t->spectra_bytes = (double)t->strands * spectra / (double)p->filters;
  t->group = t->steps > 8 ? 16 : t->steps > 4 ? 8 : t->steps > 2 ? 4 : t->steps > 1 ? 2 : 1;
  t->rejected = falt_cuda_fft_reason(p, m, t);
  if (t->rejected) return;
  t->seconds = (rates->launch + seconds_of(p, m, t)) * (p->wgrad ? kept_cost : 1);
  falt_cuda_fft_tile filters = *t;
  if (p->wgrad) filters.spectra_bytes = spectra * pairs;
  if (!p->known) t->seconds += falt_cuda_fft_filters_of(p, m, &filters);
}

static int64_t common_multiple(int64_t a, int64_t b) {
  int64_t x = a, y = b;
  while (y) {
    const int64_t rest = x % y;
    x = y;
    y = rest;
  }
  return a / x * b;
}

/* Tiles and parts along the axis are equally far apart. */
static bool set_kept_axis(const falt_cuda_fft_problem *p, const axis *a, falt_cuda_fft_tile *t, int i, int log) {
  const int64_t length = INT64_C(1) << log, unit = common_multiple(a->stride, a->dilation);
  const int64_t hop = (length - 1 + a->stride + a->dilation) / 2 / unit * unit;
  if (hop == 0) return false;
  t->log[i] = log;
  t->part_taps[i] = hop / a->dilation;
  t->parts[i] = falt_ceil_div(a->taps, t->part_taps[i]);
  t->block[i] = hop / a->stride;
  t->tiles[i] = falt_ceil_div(a->out, t->block[i]);
  /* the first input begins at a multiple of the distance, if there is room: fewer tiles then hold data */
  const int64_t room = length - (2 * hop - a->stride - a->dilation + 1), rest = p->pad[i] % hop;
  t->shift = rest ? hop - rest : 0;
  if (rest < 0 || t->shift > room) t->shift = 0;
  return t->parts[i] > 1;
}

static void each_kept(const falt_cuda_fft_search *s, const axis a[3], const int log[3]) {
  for (int along = 0; along < 3; along++) {
    falt_cuda_fft_tile t = {.axis = along};
    bool fits = set_kept_axis(s->problem, &a[along], &t, along, log[along]);
    for (int i = 0; i < 3 && fits; i++)
      fits = i == along || (falt_cuda_fft_set_axis(&a[i], &t, i, log[i], 0) && t.parts[i] == 1);
    for (int64_t segments = 1; fits && segments <= MOST_SEGMENTS && segments <= t.tiles[along]; segments *= 2) {
      t.segments = segments;
      t.steps = falt_ceil_div(t.tiles[along], segments);
      t.inputs = t.steps + t.parts[along] - 1;
      complete(s->problem, s->machine, &t);
      falt_tile_offer(s->tiles, &t, t.rejected, t.seconds);
    }
  }
}

/* A block transforms x and dy of every pair of images, and their sums of products back. */
static void complete_whole(const falt_cuda_fft_problem *p, const falt_machine *m, falt_cuda_fft_tile *t) {
  const double pairs = (double)falt_ceil_div(p->images, 2), transform = falt_cuda_fft_transform_steps(t);
  t->boxes = p->images;
  t->pairs = t->segments = t->steps = t->inputs = 1;
  falt_cuda_fft_set_block(p, m, t);
  t->spectra_bytes = 0;
  t->rejected = falt_cuda_fft_reason(p, m, t);
  if (t->rejected) return;
  const double taps = (double)p->taps[0] * (double)p->taps[1] * (double)p->taps[2] * (double)p->images;
  const double steps = pairs * (2 * transform + 5 * rates->load) + transform + rates->store;
  const double slots = (double)m->multiprocessors * t->blocks, waves = fmax(1, (double)p->filters / slots + 0.5);
  const double rate = m->flops / 2 * rates->issue_share / slots;
  const double compute = waves * steps * falt_cuda_fft_wide(p, m) * falt_cuda_fft_points_of(t) / rate;
  const double scan = ceil((double)p->filters / slots) * taps / t->threads * 30 / m->clock_hz;
  t->seconds = 3 * rates->launch + whole_cost * (compute + scan);
}

/* dy and dw in one tile. */
static void offer_whole(const falt_cuda_fft_search *s, const axis a[3], const int log[3]) {
  falt_cuda_fft_tile t = {.axis = -1};
  for (int i = 0; i < 3; i++)
    if (!falt_cuda_fft_set_axis(&a[i], &t, i, log[i], 0) || t.parts[i] > 1 || t.tiles[i] > 1) return;
  complete_whole(s->problem, s->machine, &t);
  falt_tile_offer(s->tiles, &t, t.rejected, t.seconds);
}

/* dy in parts or whole; along the other axes dw are the outputs of one tile. */
static void each_wgrad(const falt_cuda_fft_search *s, const axis a[3], const int log[3]) {
  offer_whole(s, a, log);
  for (int way = 0; way < 6; way++) {
    const int along = way / 2;
    falt_cuda_fft_tile t = {.axis = along, .segments = 1};
    bool fits = way % 2 ? set_kept_axis(s->problem, &a[along], &t, along, log[along])
                        : falt_cuda_fft_set_axis(&a[along], &t, along, log[along], 0) && t.parts[along] == 1;
    for (int i = 0; i < 3 && fits; i++)
      fits = i == along || (falt_cuda_fft_set_axis(&a[i], &t, i, log[i], 0) && t.parts[i] == 1 && t.tiles[i] == 1);
    if (!fits) continue;
    t.steps = t.tiles[along];
    t.inputs = t.steps + t.parts[along] - 1;
    complete(s->problem, s->machine, &t);
    falt_tile_offer(s->tiles, &t, t.rejected, t.seconds);
  }
}

void falt_cuda_fft_each_partitioned(const falt_cuda_fft_problem *p, const falt_machine *m, falt_tile_search *tiles) {
  falt_cuda_fft_each_log(&(falt_cuda_fft_search){p, m, tiles}, each_kept);
}

void falt_cuda_fft_each_wgrad(const falt_cuda_fft_problem *p, const falt_machine *m, falt_tile_search *tiles) {
  falt_cuda_fft_each_log(&(falt_cuda_fft_search){p, m, tiles}, each_wgrad);
}
