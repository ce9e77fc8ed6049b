/* The choice of tiles for cuda_fft.cu, its estimate, and the twiddles of a tile. */
#include "solver/cuda/fft/cuda_fft_tiles.h"

#include <math.h>

#include "core/memory.h"

enum { LEAST_LOG = 9, MOST_LOG = 14, WAYS = 3, SECTOR = 32 };

/* Instructions of a point and bit of a transform. */
static const double bit_steps = 4.5;
static const falt_cuda_fft_rates *const rates = &falt_cuda_fft_rates_of_points;
/* Of kept spectra: bytes of a rates->launch, where there is a choice; segments of a line; the fraction of the peak that
 * sums of products reach. */
static const double most_kept = 0x1p32;

const falt_cuda_fft_rates falt_cuda_fft_rates_of_points = {
    .issue_share = 0.5, .load = 14, .store = 10, .far = 60, .launch = 2e-6};

typedef falt_cuda_fft_axis axis;

/* ---- one axis */

static axis axis_of(const falt_cuda_fft_problem *p, int i) {
  axis a = {.out = p->out[i], .taps = p->taps[i], .stride = p->stride[i], .dilation = p->dilation[i]};
  const double reach = (double)(a.out - 1) * (double)a.stride + (double)(a.taps - 1) * (double)a.dilation + 1;
  a.reach = (int64_t)fmin(reach, 0x1p40);
  return a;
}

static int ceil_log2(int64_t n) {
  int log = 0;
  while (log < 40 && INT64_C(1) << log < n) log++;
  return log;
}

/* Logarithms of an axis's lengths. An axis without taps is not transformed, but neighbouring columns are loaded
 * together, and the tile must have enough points. */
static int most_log(const axis *a, int i) {
  if (a->taps == 1 && i != 2) return 0;
  const int all = ceil_log2(a->reach), most = i == 2 && all < LEAST_LOG ? LEAST_LOG : all;
  return most < MOST_LOG ? most : MOST_LOG;
}

/* The taps of a part, of at most `share` of the tile's length; 0 if that is no new way. */
static int64_t part_of(const axis *a, int64_t length, int way) {
  static const double shares[WAYS] = {1, 0.5, 0.75};
  const double positions = floor(shares[way] * (double)length);
  const int64_t most = (int64_t)((positions - 1) / (double)a->dilation) + 1;
  if (way > 0 && (a->taps <= most || length < 4)) return 0;
  if (way == 0 && a->taps > most) return length == 1 ? 1 : 0; /* leaves a single output */
  return a->taps <= most ? a->taps : falt_ceil_div(a->taps, falt_ceil_div(a->taps, most));
}

bool falt_cuda_fft_set_axis(const axis *a, falt_cuda_fft_tile *t, int i, int log, int way) {
  const int64_t length = INT64_C(1) << log, part = part_of(a, length, way);
  if (part == 0) return false;
  t->log[i] = log;
  t->part_taps[i] = part;
  t->parts[i] = falt_ceil_div(a->taps, part);
  t->block[i] = falt_min((length - 1 - (part - 1) * a->dilation) / a->stride + 1, a->out);
  t->tiles[i] = falt_ceil_div(a->out, t->block[i]);
  return true;
}

/* ---- estimate */

double falt_cuda_fft_points_of(const falt_cuda_fft_tile *t) {
  return ldexp(1, t->log[0] + t->log[1] + t->log[2]);
}

double falt_cuda_fft_workspace(const falt_cuda_fft_problem *p, const falt_cuda_fft_tile *t) {
  const double flags = (double)p->filters * (double)t->pairs, about = 16.0 * (double)p->filters;
  return flags + (p->known ? 0 : t->spectra_bytes + about) + falt_cuda_fft_kept(p, t) + 6 * 64;
}

/* How many bytes a row of a tile moves for each that it has. */
double falt_cuda_fft_sectors(double columns, int bytes, int64_t step) {
  const double row = columns * bytes * (double)step;
  return fmin((row + SECTOR) / (columns * bytes), (double)SECTOR / bytes);
}

double falt_cuda_fft_wide(const falt_cuda_fft_problem *p, const falt_machine *m) {
  return p->real_bytes == 8 ? m->flops / m->wide_flops : 1;
}

double falt_cuda_fft_transform_steps(const falt_cuda_fft_tile *t) {
  return bit_steps * (t->log[0] + t->log[1] + t->log[2]);
}

/* Seconds of the arithmetic of all blocks, which come in waves. */
static double compute_of(const falt_cuda_fft_problem *p, const falt_machine *m, const falt_cuda_fft_tile *t) {
  const double wide = falt_cuda_fft_wide(p, m);
  const double transform = wide * falt_cuda_fft_transform_steps(t), parts = (double)t->all_parts;
  const double steps = parts * (transform + rates->load) + transform + rates->store + (p->far ? rates->far : 0);
  const double slots = (double)m->multiprocessors * t->blocks, pairs = (double)p->filters * (double)t->pairs;
  const double waves = fmax(1, pairs / slots + 0.5), rate = m->flops / 2 * rates->issue_share / slots;
  return waves * steps * falt_cuda_fft_points_of(t) / rate;
}

static double memory_of(const falt_cuda_fft_problem *p, const falt_machine *m, const falt_cuda_fft_tile *t) {
  const double columns = (double)(INT64_C(1) << t->log[2]), points = falt_cuda_fft_points_of(t);
  const double pairs = (double)p->filters * (double)t->pairs, tiles = (double)p->filters * (double)t->boxes;
  double outputs = tiles, inputs = (double)p->filters * (double)p->images;
  for (int i = 0; i < 3; i++) {
    outputs *= (double)t->block[i];
    inputs *= (double)p->out[i] * (double)p->stride[i];
  }
  const double in = p->x_bytes * falt_cuda_fft_sectors(columns, p->x_bytes, p->x_step);
  const double out = p->y_bytes * falt_cuda_fft_sectors((double)t->block[2], p->y_bytes, p->y_step);
  const double parts = (double)t->all_parts, point = 2.0 * p->real_bytes;
  const double cached = pairs * parts * points * (2 * in + point) + outputs * out;
  const double streamed =
      inputs * in + outputs * out + (t->spectra_bytes > 0.5 * m->cache_bytes ? t->spectra_bytes : 0);
  return fmax(cached / p->cache_bytes_per_s, streamed / m->bytes_per_s);
}

/* Of filters that come with the execution. */
double falt_cuda_fft_filters_of(const falt_cuda_fft_problem *p, const falt_machine *m, const falt_cuda_fft_tile *t) {
  const double wide = falt_cuda_fft_wide(p, m);
  const double steps = wide * falt_cuda_fft_transform_steps(t) + 4 * rates->load;
  const double taps = (double)p->taps[0] * (double)p->taps[1] * (double)p->taps[2];
  const double compute = t->spectra_bytes / (2.0 * p->real_bytes) * steps / (m->flops / 2 * rates->issue_share);
  const double slots = (double)m->multiprocessors * t->blocks, rounds = ceil((double)p->filters / slots);
  const double sums = rounds * taps / t->threads * 100 / m->clock_hz;
  return 2 * rates->launch + compute + t->spectra_bytes / m->bytes_per_s + sums;
}

const char *falt_cuda_fft_reason(const falt_cuda_fft_problem *p, const falt_machine *m, const falt_cuda_fft_tile *t) {
  const double pairs = (double)p->filters * (double)t->pairs, parts = (double)t->parts[0] * (double)t->parts[1];
  if (t->shared_bytes + 1024 > m->arch->block_shared) return "its tile does not fit in shared memory";
  if (pairs >= 0x1p31 || parts * (double)t->parts[2] * (double)p->filters >= 0x1p31)
    return "it has more tiles than one launch can number";
  if (falt_cuda_fft_kept(p, t) > most_kept) return "the spectra of a line of tiles take more than 4 GiB";
  if (p->most_bytes >= 0 && falt_cuda_fft_workspace(p, t) > (double)p->most_bytes)
    return "its spectra need more workspace than the limit";
  return NULL;
}

/* Threads of a multiprocessor: each needs 64 registers, a third more with sums over parts or images, twice as many in
 * f64. */
static int threads_of(const falt_cuda_fft_problem *p, const falt_cuda_fft_tile *t) {
  return p->real_bytes == 8 ? 512 : (t->all_parts > 1 || p->wgrad) && t->axis < 0 ? 768 : 1024;
}

void falt_cuda_fft_set_block(const falt_cuda_fft_problem *p, const falt_machine *m, falt_cuda_fft_tile *t) {
  const double points = falt_cuda_fft_points_of(t), point = 2.0 * p->real_bytes;
  t->all_parts = (int64_t)fmin((double)t->parts[0] * (double)t->parts[1] * (double)t->parts[2], 0x1p40);
  t->threads = (int)points / FALT_FFT_SLOTS;
  t->blocks = larger(1, threads_of(p, t) / t->threads);
  t->blocks = smaller(t->blocks, 32);
  t->shared_bytes = (int64_t)(points / FALT_FFT_SLOTS * (FALT_FFT_SLOTS + 1) * point);
  t->blocks = smaller(t->blocks, larger(1, (int)falt_blocks_by_shared(m, t->shared_bytes + 512)));
  t->spectra_bytes = (double)p->filters * (double)t->all_parts * points * point;
}

static void complete(const falt_cuda_fft_problem *p, const falt_machine *m, falt_cuda_fft_tile *t) {
  const double tiles = (double)p->images * (double)t->tiles[0] * (double)t->tiles[1] * (double)t->tiles[2];
  t->axis = -1;
  t->segments = t->steps = t->inputs = 1;
  falt_cuda_fft_set_block(p, m, t);
  t->boxes = (int64_t)fmin(tiles, 0x1p40);
  t->pairs = falt_ceil_div(t->boxes, 2);
  t->rejected = falt_cuda_fft_reason(p, m, t);
  if (t->rejected) return;
  const double compute = compute_of(p, m, t), memory = memory_of(p, m, t);
  t->seconds = 2 * rates->launch + fmax(compute, memory) + 0.3 * fmin(compute, memory);
  if (!p->known) t->seconds += falt_cuda_fft_filters_of(p, m, t);
}

/* ---- enumeration */

void falt_cuda_fft_each_log(const falt_cuda_fft_search *s, falt_cuda_fft_visit *visit) {
  axis a[3];
  int most[3], log[3];
  for (int i = 0; i < 3; i++) {
    a[i] = axis_of(s->problem, i);
    most[i] = most_log(&a[i], i);
  }
  for (log[0] = 0; log[0] <= most[0]; log[0]++)
    for (log[1] = 0; log[1] <= most[1]; log[1]++)
      for (log[2] = 0; log[2] <= most[2]; log[2]++) {
        const int all = log[0] + log[1] + log[2];
        if (all >= LEAST_LOG && all <= MOST_LOG) visit(s, a, log);
      }
}

static bool set_ways(const axis a[3], falt_cuda_fft_tile *t, const int log[3], int ways) {
  for (int i = 0; i < 3; i++, ways /= WAYS)
    if (!falt_cuda_fft_set_axis(&a[i], t, i, log[i], ways % WAYS)) return false;
  return true;
}

static void each_way(const falt_cuda_fft_search *s, const axis a[3], const int log[3]) {
  falt_cuda_fft_tile t = {.threads = 0};
  for (int ways = 0; ways < WAYS * WAYS * WAYS; ways++) {
    if (!set_ways(a, &t, log, ways)) continue;
    complete(s->problem, s->machine, &t);
    falt_tile_offer(s->tiles, &t, t.rejected, t.seconds);
  }
}

void falt_cuda_fft_each(const falt_cuda_fft_problem *p, const falt_machine *m, falt_tile_search *tiles) {
  falt_cuda_fft_each_log(&(falt_cuda_fft_search){p, m, tiles}, each_way);
}

bool falt_cuda_fft_choose(falt_cuda_fft_method *method, const falt_cuda_fft_problem *p, const falt_machine *m,
                          falt_cuda_fft_tile *best) {
  falt_tile_search tiles = falt_tile_search_best(best, sizeof *best);
  method(p, m, &tiles);
  return tiles.found;
}
