/* How planes.cu's layers are cut: every shape is enumerated, the illegal are dropped with a reason, the others compared
 * by an estimate of their time. */
#include <math.h>

#include "core/memory.h"
#include "cuda/planes.h"

enum { MOST_CHANNELS = 64, MOST_STAGES = 6, FEWEST_STAGES = 2, MOST_WALKS = 64, MOST_PRODUCTS = 160, MOST_SUMS = 192 };
enum { MOST_SIZE = INT32_MAX / 4 };

int falt_planes_tile_width(const falt_planes_tile *t) {
  return 8 * t->blocks_w;
}

int falt_planes_tile_height(const falt_planes_tile *t) {
  return 8 * t->consumers * t->blocks / t->blocks_w;
}

const char *falt_planes_refusal(const falt_planes_problem *p) {
  if (p->channels > MOST_CHANNELS) return "it sums 64 channels at most";
  if (p->results > MOST_SIZE || p->images > MOST_SIZE) return "it has too many channels or images";
  for (int i = 0; i < 3; i++)
    if (p->taps[i] > 16 || p->in[i] > MOST_SIZE || p->out[i] > MOST_SIZE || p->corner[i] > MOST_SIZE ||
        p->corner[i] < -MOST_SIZE)
      return "an axis or its taps are too long";
  return NULL;
}

/* ---- one tile */

/* Columns of one product. */
static int width_of(const falt_planes_problem *p, const falt_planes_tile *t) {
  return (int)p->taps[0] * t->channels;
}

static bool has_product(int width) {
  static const int widths[] = {48, 64, 96, 128, 192, 256}; /* of wgmma.cuh */
  for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
    if (width == widths[i]) return true;
  return false;
}

static int window_pixels(const falt_planes_problem *p, const falt_planes_tile *t) {
  return (falt_planes_tile_height(t) + (int)p->taps[1] - 1) * (falt_planes_tile_width(t) + (int)p->taps[2] - 1);
}

static int round_up(int bytes) {
  return (bytes + 1023) / 1024 * 1024;
}

/* Products of a warpgroup for a window. */
static int products_of(const falt_planes_problem *p, const falt_planes_tile *t) {
  return (int)(p->taps[1] * p->taps[2]) * t->pixel / 32 * t->blocks;
}

static const char *fit(const falt_planes_problem *p, const falt_planes_machine *m, falt_planes_tile *t) {
  const int taps = (int)(p->taps[1] * p->taps[2]), width = width_of(p, t),
            stage = round_up(window_pixels(p, t) * t->pixel);
  if (!has_product(width)) return "no product has so many columns";
  if (t->blocks * width / 2 > (t->consumers == 3 ? MOST_SUMS / 2 : MOST_SUMS))
    return "registers have no room for its sums";
  if (products_of(p, t) > MOST_PRODUCTS) return "it has more taps than its code should unroll";
  const int filter = round_up(taps * width * t->pixel), barriers = 16 * MOST_STAGES;
  const int stages = (m->shared_block - filter - barriers) / stage;
  t->stages = stages < MOST_STAGES ? stages : MOST_STAGES;
  t->shared_bytes = filter + t->stages * stage + barriers;
  return stages < FEWEST_STAGES ? "shared memory has no room for the filter and two windows" : NULL;
}

static void count(const falt_planes_problem *p, const falt_planes_machine *m, falt_planes_tile *t) {
  t->tiles[0] = (int)falt_ceil_div(p->out[1], falt_planes_tile_height(t));
  t->tiles[1] = (int)falt_ceil_div(p->out[2], falt_planes_tile_width(t));
  t->walks = (int)falt_ceil_div(p->out[0], t->walk);
  t->column_tiles = (int)falt_ceil_div(p->results, t->channels);
  t->items = (int64_t)t->tiles[0] * t->tiles[1] * t->walks;
  if (t->items < MOST_SIZE) t->items *= p->images;
  const int64_t most = m->multiprocessors / t->column_tiles, blocks = t->items < most ? t->items : most;
  t->grid = (blocks > 1 ? blocks : 1) * t->column_tiles;
}

/* Planes of the source that a walk multiplies, those at the ends without what lies outside. */
static double planes_of(const falt_planes_problem *p, const falt_planes_tile *t) {
  return fmin((double)(t->walk + p->taps[0] - 1), (double)p->in[0]);
}

/* Cycles of a multiprocessor for a plane: of the tensor cores, which power keeps at three quarters of their rate; of
 * shared memory, that they read and the copy engine fills; and what a plane takes besides. As measured on an H200. */
static double plane_cycles(const falt_planes_problem *p, const falt_planes_tile *t) {
  const int width = width_of(p, t), products = products_of(p, t) * t->consumers;
  const double multiplied = products * width / 2 / 0.75;
  const double shared = products * (16 + width / 4) + window_pixels(p, t) * (double)t->pixel / 128;
  return fmax(multiplied, shared / 0.75) + 400;
}

static void estimate(const falt_planes_problem *p, const falt_planes_machine *m, falt_planes_tile *t) {
  const double window = (double)window_pixels(p, t) * t->pixel, filter = (double)(p->taps[0] * p->taps[1] * p->taps[2]);
  const double rounds = ceil((double)t->items * t->column_tiles / (double)t->grid), planes = planes_of(p, t);
  const double starting = 4000 + filter * t->channels * t->pixel / 16;
  const double compute = (rounds * (planes * plane_cycles(p, t) + 1000) + starting) / m->clock_hz;
  const double results = (double)p->images * (double)(p->out[0] * p->out[1]) * (double)(p->out[2] * p->results);
  const double bytes =
      (double)t->items * t->column_tiles * planes * window + results * p->y_bytes * (p->residual ? 2 : 1);
  const double memory = bytes / (0.6 * m->bytes_per_s);
  t->seconds = fmax(compute, memory) + 0.1 * fmin(compute, memory) + 2e-6;
}

static void visit_tile(const falt_planes_problem *p, const falt_planes_machine *m, falt_planes_tile t,
                       void (*visit)(void *context, const falt_planes_tile *tile), void *context) {
  t.rejected = fit(p, m, &t);
  if (!t.rejected) {
    count(p, m, &t);
    if (t.items > MOST_SIZE) t.rejected = "it has more tiles than one launch can number";
    if (t.column_tiles > m->multiprocessors) t.rejected = "it has more channels than blocks run at once";
  }
  if (!t.rejected) estimate(p, m, &t);
  visit(context, &t);
}

typedef struct shape {
  int consumers, blocks, blocks_w;
} shape;

static const shape shapes[] = {{2, 2, 1}, {2, 2, 2}, {2, 2, 4}, {3, 1, 1}, {3, 1, 3}, {2, 1, 1}, {2, 1, 2}, {1, 1, 1}};

void falt_planes_each(const falt_planes_problem *p, const falt_planes_machine *m,
                      void (*visit)(void *context, const falt_planes_tile *tile), void *context) {
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (int channels = 16; channels <= 64; channels *= 2)
      for (int64_t walks = 1, before = 0; walks <= p->out[0] && walks <= MOST_WALKS; walks++) {
        const int64_t walk = falt_ceil_div(p->out[0], walks);
        if (walk == before) continue;
        before = walk;
        visit_tile(p, m,
                   (falt_planes_tile){.pixel = p->channels <= 16   ? 32
                                               : p->channels <= 32 ? 64
                                                                   : 128,
                                      .channels = channels,
                                      .consumers = shapes[i].consumers,
                                      .blocks = shapes[i].blocks,
                                      .blocks_w = shapes[i].blocks_w,
                                      .walk = (int)walk},
                   visit, context);
      }
}

static void keep_better(void *context, const falt_planes_tile *tile) {
  falt_planes_tile *best = context;
  if (!tile->rejected && (best->channels == 0 || tile->seconds < best->seconds)) *best = *tile;
}

bool falt_planes_choose(const falt_planes_problem *problem, const falt_planes_machine *machine,
                        falt_planes_tile *best) {
  *best = (falt_planes_tile){.channels = 0};
  falt_planes_each(problem, machine, keep_better, best);
  return best->channels != 0;
}
