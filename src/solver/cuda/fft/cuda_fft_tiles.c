/* The choice of tiles for cuda_fft.cu, its estimate, and the twiddles of a tile. */
#include "solver/cuda/fft/cuda_fft_tiles.h"

#include <math.h>

#include "core/memory.h"

enum { SLOTS = 16, LEAST_LOG = 9, MOST_LOG = 14, WAYS = 3, SECTOR = 32 };

/* Estimates, not fitted to timings: the fraction of the issue rate that a block reaches between its barriers, and
 * instructions of a point beside those of the passes. */
static const double issue_share = 0.45, bit_steps = 4.5, load_steps = 14, store_steps = 10, far_steps = 60;
static const double launch = 2e-6;

/* ---- one axis */

typedef struct axis {
  int64_t out, taps, stride, dilation, reach; /* reach: positions that all outputs read */
} axis;

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

static bool set_axis(const axis *a, falt_cuda_fft_tile *t, int i, int log, int way) {
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

static double points_of(const falt_cuda_fft_tile *t) {
  return ldexp(1, t->log[0] + t->log[1] + t->log[2]);
}

double falt_cuda_fft_workspace(const falt_cuda_fft_problem *p, const falt_cuda_fft_tile *t) {
  const double flags = (double)p->filters * (double)t->pairs, about = 16.0 * (double)p->filters;
  return flags + (p->known ? 0 : t->spectra_bytes + about) + 3 * 64;
}

/* How many bytes a row of a tile moves for each that it has. */
static double sectors(double columns, int bytes, int64_t step) {
  const double row = columns * bytes * (double)step;
  return fmin((row + SECTOR) / (columns * bytes), (double)SECTOR / bytes);
}

static double steps_of_transform(const falt_cuda_fft_tile *t) {
  return bit_steps * (t->log[0] + t->log[1] + t->log[2]);
}

/* Seconds of the arithmetic of all blocks, which come in waves. */
static double compute_of(const falt_cuda_fft_problem *p, const falt_machine *m, const falt_cuda_fft_tile *t) {
  const double wide = p->real_bytes == 8 ? m->flops / m->wide_flops : 1;
  const double transform = wide * steps_of_transform(t), parts = (double)t->all_parts;
  const double steps = parts * (transform + load_steps) + transform + store_steps + (p->far ? far_steps : 0);
  const double slots = (double)m->multiprocessors * t->blocks, pairs = (double)p->filters * (double)t->pairs;
  const double waves = fmax(1, pairs / slots + 0.5), rate = m->flops / 2 * issue_share / slots;
  return waves * steps * points_of(t) / rate;
}

static double memory_of(const falt_cuda_fft_problem *p, const falt_machine *m, const falt_cuda_fft_tile *t) {
  const double columns = (double)(INT64_C(1) << t->log[2]), points = points_of(t);
  const double pairs = (double)p->filters * (double)t->pairs, tiles = (double)p->filters * (double)t->boxes;
  double outputs = tiles, inputs = (double)p->filters * (double)p->images;
  for (int i = 0; i < 3; i++) {
    outputs *= (double)t->block[i];
    inputs *= (double)p->out[i] * (double)p->stride[i];
  }
  const double in = p->x_bytes * sectors(columns, p->x_bytes, p->x_step);
  const double out = p->y_bytes * sectors((double)t->block[2], p->y_bytes, p->y_step);
  const double parts = (double)t->all_parts, point = 2.0 * p->real_bytes;
  const double cached = pairs * parts * points * (2 * in + point) + outputs * out;
  const double streamed =
      inputs * in + outputs * out + (t->spectra_bytes > 0.5 * m->cache_bytes ? t->spectra_bytes : 0);
  return fmax(cached / p->cache_bytes_per_s, streamed / m->bytes_per_s);
}

/* Of filters that come with the execution. */
static double filters_of(const falt_cuda_fft_problem *p, const falt_machine *m, const falt_cuda_fft_tile *t) {
  const double wide = p->real_bytes == 8 ? m->flops / m->wide_flops : 1;
  const double steps = wide * steps_of_transform(t) + 4 * load_steps;
  const double taps = (double)p->taps[0] * (double)p->taps[1] * (double)p->taps[2];
  const double compute = t->spectra_bytes / (2.0 * p->real_bytes) * steps / (m->flops / 2 * issue_share);
  const double slots = (double)m->multiprocessors * t->blocks, rounds = ceil((double)p->filters / slots);
  const double sums = rounds * taps / t->threads * 100 / m->clock_hz;
  return 2 * launch + compute + t->spectra_bytes / m->bytes_per_s + sums;
}

static const char *reason(const falt_cuda_fft_problem *p, const falt_machine *m, const falt_cuda_fft_tile *t) {
  const double pairs = (double)p->filters * (double)t->pairs, parts = (double)t->parts[0] * (double)t->parts[1];
  if (t->shared_bytes + 1024 > m->arch->block_shared) return "its tile does not fit in shared memory";
  if (pairs >= 0x1p31 || parts * (double)t->parts[2] * (double)p->filters >= 0x1p31)
    return "it has more tiles than one launch can number";
  if (p->most_bytes >= 0 && falt_cuda_fft_workspace(p, t) > (double)p->most_bytes)
    return "its spectra need more workspace than the limit";
  return NULL;
}

/* Threads of a multiprocessor: each needs 64 registers, a third more with sums over parts, twice as many in f64. */
static int threads_of(const falt_cuda_fft_problem *p, const falt_cuda_fft_tile *t) {
  return p->real_bytes == 8 ? 512 : t->all_parts > 1 ? 768 : 1024;
}

static void complete(const falt_cuda_fft_problem *p, const falt_machine *m, falt_cuda_fft_tile *t) {
  const double points = points_of(t), point = 2.0 * p->real_bytes;
  const double tiles = (double)p->images * (double)t->tiles[0] * (double)t->tiles[1] * (double)t->tiles[2];
  t->all_parts = (int64_t)fmin((double)t->parts[0] * (double)t->parts[1] * (double)t->parts[2], 0x1p40);
  t->threads = (int)points / SLOTS;
  t->blocks = larger(1, threads_of(p, t) / t->threads);
  t->blocks = smaller(t->blocks, 32);
  t->shared_bytes = (int64_t)(points / SLOTS * (SLOTS + 1) * point);
  t->blocks = smaller(t->blocks, larger(1, (int)falt_blocks_by_shared(m, t->shared_bytes + 512)));
  t->boxes = (int64_t)fmin(tiles, 0x1p40);
  t->pairs = falt_ceil_div(t->boxes, 2);
  t->spectra_bytes = (double)p->filters * (double)t->all_parts * points * point;
  t->rejected = reason(p, m, t);
  if (t->rejected) return;
  const double compute = compute_of(p, m, t), memory = memory_of(p, m, t);
  t->seconds = 2 * launch + fmax(compute, memory) + 0.3 * fmin(compute, memory);
  if (!p->known) t->seconds += filters_of(p, m, t);
}

/* ---- enumeration */

static bool set_ways(const axis a[3], falt_cuda_fft_tile *t, const int log[3], int ways) {
  for (int i = 0; i < 3; i++, ways /= WAYS)
    if (!set_axis(&a[i], t, i, log[i], ways % WAYS)) return false;
  return true;
}

static void each_way(const falt_cuda_fft_problem *p, const falt_machine *m, const axis a[3], const int log[3],
                     falt_tile_search *search) {
  falt_cuda_fft_tile t = {.threads = 0};
  for (int ways = 0; ways < WAYS * WAYS * WAYS; ways++) {
    if (!set_ways(a, &t, log, ways)) continue;
    complete(p, m, &t);
    falt_tile_offer(search, &t, t.rejected, t.seconds);
  }
}

void falt_cuda_fft_each(const falt_cuda_fft_problem *p, const falt_machine *m, falt_tile_search *search) {
  axis a[3];
  int most[3], log[3];
  for (int i = 0; i < 3; i++) {
    a[i] = axis_of(p, i);
    most[i] = most_log(&a[i], i);
  }
  for (log[0] = 0; log[0] <= most[0]; log[0]++)
    for (log[1] = 0; log[1] <= most[1]; log[1]++)
      for (log[2] = 0; log[2] <= most[2]; log[2]++) {
        const int all = log[0] + log[1] + log[2];
        if (all >= LEAST_LOG && all <= MOST_LOG) each_way(p, m, a, log, search);
      }
}

bool falt_cuda_fft_choose(const falt_cuda_fft_problem *p, const falt_machine *m, falt_cuda_fft_tile *best) {
  falt_tile_search search = falt_tile_search_best(best, sizeof *best);
  falt_cuda_fft_each(p, m, &search);
  return search.found;
}

/* ---- twiddles */

/* exp(-2 pi i k / 2^log). */
static void set_root(double *to, int64_t k, int log) {
  const double angle = 2 * 3.14159265358979323846 * (double)k / ldexp(1, log);
  to[0] = cos(angle);
  to[1] = -sin(angle);
}

/* The passes of `low` to `top` bits of an axis that begins at bit `start`: the powers 1, 2, 4, .. of each root. */
static size_t set_pass(int start, int low, int top, double *to) {
  const int64_t span = INT64_C(1) << (low - start);
  if (low == start) return 0;
  for (int k = 0; to && k < top - low; k++)
    for (int64_t j = 0; j < span; j++) set_root(to + 2 * (k * span + j), j << k, top - start);
  return (size_t)((top - low) * span);
}

size_t falt_cuda_fft_twiddles(const int log[3], double *to) {
  const int all = log[0] + log[1] + log[2];
  size_t count = 0;
  for (int top = all, low; top > 0; top = low) {
    const int start = top > log[2] + log[1] ? log[2] + log[1] : top > log[2] ? log[2] : 0;
    const int window = larger(0, all - ((all - top) / 4 + 1) * 4);
    low = larger(window, start);
    count += set_pass(start, low, top, to ? to + 2 * count : NULL);
  }
  return count;
}
