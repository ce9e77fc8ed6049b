/* Tile search of cuda_igemm_sm90_halo.cu: enumerates all shapes, rejects the illegal ones with a reason, and keeps the
 * one with the smallest estimated time. */
#include <math.h>

#include "core/memory.h"
#include "solver/cuda/igemm_sm90/cuda_igemm_sm90_halo_tiles.h"

enum {
  MOST_CHANNELS = 64,
  MOST_PIECES = 16,
  MOST_STAGES = 6,
  FEWEST_STAGES = 2,
  MOST_WALKS = 64,
  MOST_PRODUCTS = 160,
  MOST_SUMS = 192
};
enum { MOST_SIZE = INT32_MAX / 4, MOST_SHIFTS = 1 << 12 };

int falt_igemm_sm90_halo_tile_width(const falt_igemm_sm90_halo_tile *t) {
  return 8 * t->blocks_w;
}

int falt_igemm_sm90_halo_tile_height(const falt_igemm_sm90_halo_tile *t) {
  return 8 * t->consumers * t->blocks / t->blocks_w;
}

const char *falt_igemm_sm90_halo_refusal(const falt_igemm_sm90_halo_problem *p) {
  if (p->channels > MOST_CHANNELS * (p->scattered ? MOST_PIECES : 1))
    return p->scattered ? "it sums 1024 channels at most" : "it sums 64 channels at most";
  if (p->results > MOST_SIZE || p->images > MOST_SIZE) return "it has too many channels or images";
  for (int i = 0; i < 3; i++)
    if (p->taps[i] > 16 || p->in[i] > MOST_SIZE || p->out[i] > MOST_SIZE || p->corner[i] > MOST_SIZE ||
        p->corner[i] < -MOST_SIZE)
      return "an axis or its taps are too long";
  return NULL;
}

/* ---- data gradients with strides */

static int64_t floor_div(int64_t a, int64_t b) {
  return a >= 0 ? a / b : -falt_ceil_div(-a, b);
}

/* Pixel e of step b is pixel b * stride + e - shift of the output. Its tap r reads pixel (that + pad - r) / stride of
 * the source if the division is exact: from the first pixel's last tap to the last pixel's first. */
static falt_igemm_sm90_halo_axis shifted(int64_t stride, int64_t taps, int64_t pad, int64_t shift) {
  const int64_t first = pad - shift, corner = -floor_div(taps - 1 - first, stride);
  return (falt_igemm_sm90_halo_axis){.step = stride,
                                     .shift = shift,
                                     .taps = floor_div(stride - 1 + first, stride) - corner + 1,
                                     .corner = corner,
                                     .first = first - stride * corner};
}

/* Of steps that no layer has only the first shifts are tried: all would be 2^40. */
falt_igemm_sm90_halo_axis falt_igemm_sm90_halo_axis_of(int64_t stride, int64_t taps, int64_t pad) {
  falt_igemm_sm90_halo_axis best = shifted(stride, taps, pad, 0);
  for (int64_t shift = 1; shift < falt_min(stride, MOST_SHIFTS); shift++) {
    const falt_igemm_sm90_halo_axis a = shifted(stride, taps, pad, shift);
    if (a.taps < best.taps) best = a;
  }
  return best;
}

/* ---- one tile */

/* Columns of one product: an instruction's width for all tap planes; 0: no instruction is that wide. */
static int columns_of(const falt_igemm_sm90_halo_problem *p, const falt_igemm_sm90_halo_tile *t) {
  static const int columns[] = {48, 64, 96, 128, 192, 256}; /* of wgmma.cuh */
  for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
    if (p->taps[0] * t->channels <= columns[i]) return columns[i];
  return 0;
}

static int window_pixels(const falt_igemm_sm90_halo_problem *p, const falt_igemm_sm90_halo_tile *t) {
  return (falt_igemm_sm90_halo_tile_height(t) + (int)p->taps[1] - 1) *
         (falt_igemm_sm90_halo_tile_width(t) + (int)p->taps[2] - 1);
}

/* Products of a warpgroup for a window. */
static int products_of(const falt_igemm_sm90_halo_problem *p, const falt_igemm_sm90_halo_tile *t) {
  return (int)(p->taps[1] * p->taps[2]) * t->pixel / 32 * t->blocks;
}

static const char *fit(const falt_igemm_sm90_halo_problem *p, const falt_machine *m, falt_igemm_sm90_halo_tile *t) {
  const int taps = (int)(p->taps[1] * p->taps[2]), stage = (int)falt_round_up(window_pixels(p, t) * t->pixel, 1024);
  t->columns = columns_of(p, t);
  if (t->columns == 0) return "no product has so many columns";
  if (p->boxed && (t->blocks != 2 || t->blocks_w % 2)) return "NCHW output needs pairs of adjacent blocks";
  if (t->blocks * t->columns / 2 > (t->consumers == 3 ? MOST_SUMS / 2 : MOST_SUMS))
    return "registers have no room for its sums";
  if (products_of(p, t) > MOST_PRODUCTS) return "it has more taps than its code should unroll";
  const int filter = (int)falt_round_up(taps * (int)p->taps[0] * t->channels * t->pixel * t->pieces, 1024),
            rest = 16 * MOST_STAGES + (p->scattered ? 16 * t->channels
                                       : p->boxed   ? 256 + 4 * t->consumers * 2 * t->channels * 32
                                                    : 0);
  const int stages = (m->arch->block_shared - filter - rest) / stage;
  t->stages = stages < MOST_STAGES ? stages : MOST_STAGES;
  t->shared_bytes = filter + t->stages * stage + rest;
  return stages < FEWEST_STAGES ? "shared memory has no room for the filter and two windows" : NULL;
}

static void count(const falt_igemm_sm90_halo_problem *p, const falt_machine *m, falt_igemm_sm90_halo_tile *t) {
  t->tiles[0] = (int)falt_ceil_div(p->out[1], falt_igemm_sm90_halo_tile_height(t));
  t->tiles[1] = (int)falt_ceil_div(p->out[2], falt_igemm_sm90_halo_tile_width(t));
  t->walks = (int)falt_ceil_div(p->out[0], t->walk);
  t->column_tiles = (int)falt_ceil_div(p->results, t->channels);
  t->items = (int64_t)t->tiles[0] * t->tiles[1] * t->walks;
  if (t->items < MOST_SIZE) t->items *= p->images;
  const int64_t most = m->multiprocessors / t->column_tiles, blocks = t->items < most ? t->items : most;
  t->grid = (blocks > 1 ? blocks : 1) * t->column_tiles;
}

/* Planes of the source that a walk multiplies, without planes outside. */
static double planes_of(const falt_igemm_sm90_halo_problem *p, const falt_igemm_sm90_halo_tile *t) {
  return fmin((double)(t->walk + p->taps[0] - 1), (double)p->in[0]);
}

/* Cycles that a plane takes besides, as its outputs leave: scattered ones as many as they are, and so parts of sectors,
 * which the memory's cache must put together. As measured on an H200. */
static double sending(const falt_igemm_sm90_halo_problem *p, const falt_igemm_sm90_halo_tile *t) {
  if (p->boxed && !p->sectors) return 30.0 * t->blocks * t->channels;
  return p->scattered ? 75.0 * t->blocks * (double)falt_min(p->results, t->channels) / p->scattered : 400;
}

/* Cycles of a multiprocessor for a plane: of the tensor cores, which power keeps at three quarters of their rate; of
 * shared memory, that they read and TMA fills. As measured on an H200. */
static double plane_cycles(const falt_igemm_sm90_halo_problem *p, const falt_igemm_sm90_halo_tile *t) {
  const int products = products_of(p, t) * t->consumers * t->pieces;
  const double multiplied = products * t->columns / 2 / 0.75;
  const double shared = products * (16 + t->columns / 4) + window_pixels(p, t) * (double)t->pixel * t->pieces / 128;
  return fmax(multiplied, shared / 0.75) + sending(p, t);
}

static void estimate(const falt_igemm_sm90_halo_problem *p, const falt_machine *m, falt_igemm_sm90_halo_tile *t) {
  const double window = (double)window_pixels(p, t) * t->pixel * t->pieces,
               filter = (double)(p->taps[0] * p->taps[1] * p->taps[2]);
  const double rounds = ceil((double)t->items * t->column_tiles / (double)t->grid), planes = planes_of(p, t);
  const double starting = 4000 + filter * t->channels * t->pixel * t->pieces / 16;
  const double compute = (rounds * (planes * plane_cycles(p, t) + 1000) + starting) / m->clock_hz;
  const double results = (double)p->images * (double)(p->out[0] * p->out[1]) * (double)(p->out[2] * p->results);
  const double bytes =
      (double)t->items * t->column_tiles * planes * window + results * p->y_bytes * (p->residual ? 2 : 1);
  const double memory = bytes / ((p->scattered ? 0.75 : 0.6) * m->bytes_per_s);
  t->seconds = fmax(compute, memory) + 0.1 * fmin(compute, memory) + 2e-6;
}

static void visit_tile(const falt_igemm_sm90_halo_problem *p, const falt_machine *m, falt_igemm_sm90_halo_tile t,
                       falt_tile_search *search) {
  t.rejected = fit(p, m, &t);
  if (!t.rejected) {
    count(p, m, &t);
    if (t.items > MOST_SIZE) t.rejected = "it has more tiles than one launch can number";
    if (t.column_tiles > m->multiprocessors) t.rejected = "it has more channels than blocks run at once";
  }
  if (!t.rejected) estimate(p, m, &t);
  falt_tile_offer(search, &t, t.rejected, t.seconds);
}

typedef struct shape {
  int consumers, blocks, blocks_w;
} shape;

static const shape shapes[] = {{2, 2, 1}, {2, 2, 2}, {2, 2, 4}, {3, 1, 1}, {3, 1, 3}, {2, 1, 1}, {2, 1, 2}, {1, 1, 1}};

static void visit_walks(const falt_igemm_sm90_halo_problem *p, const falt_machine *m, falt_igemm_sm90_halo_tile t,
                        falt_tile_search *search) {
  for (int64_t walk = p->out[0] + 1; (walk = falt_piece_below(p->out[0], MOST_WALKS, walk)) > 0;) {
    t.walk = (int)walk;
    visit_tile(p, m, t, search);
  }
}

/* More than 64 channels are loaded in pieces of 64, or of 32 if that pads less. */
static int pixel_of(const falt_igemm_sm90_halo_problem *p) {
  const int64_t rest = p->channels % MOST_CHANNELS, last = p->channels > MOST_CHANNELS ? 32 : 0;
  return p->channels <= 16 ? 32 : p->channels <= 32 || (rest > 0 && rest <= last) ? 64 : 128;
}

void falt_igemm_sm90_halo_each(const falt_igemm_sm90_halo_problem *p, const falt_machine *m, falt_tile_search *search) {
  falt_igemm_sm90_halo_tile t = {.pixel = pixel_of(p)};
  t.pieces = (int)falt_ceil_div(p->channels, t.pixel / 2);
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (t.channels = 16; t.channels <= 64; t.channels *= 2) {
      t.consumers = shapes[i].consumers;
      t.blocks = shapes[i].blocks;
      t.blocks_w = shapes[i].blocks_w;
      visit_walks(p, m, t, search);
    }
}

bool falt_igemm_sm90_halo_choose(const falt_igemm_sm90_halo_problem *problem, const falt_machine *machine,
                                 falt_igemm_sm90_halo_tile *best) {
  falt_tile_search search = falt_tile_search_best(best, sizeof *best);
  falt_igemm_sm90_halo_each(problem, machine, &search);
  return search.found;
}
