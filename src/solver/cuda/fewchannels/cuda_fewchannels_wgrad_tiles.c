/* Tile search of cuda_fewchannels_wgrad.cu: enumerates all shapes, rejects the illegal ones with a reason, and keeps
 * the one with the smallest estimated time. */
#include <math.h>

#include "core/memory.h"
#include "solver/cuda/fewchannels/cuda_fewchannels_tiles.h"

enum { PRODUCERS = 2, MOST_CONSUMERS = 4, MOST_WIDTH = 128, FEWEST_STAGES = 2, MOST_STAGES = 12 };
enum { FETCHING = 56, MOST_REGISTERS = 240 };
enum { REGISTERS_BESIDE = 48 }; /* of a thread that multiplies, as seen on compiled kernels */

int64_t falt_fewchannels_wgrad_columns(const falt_fewchannels_wgrad_problem *p) {
  return p->layer.taps[0] * p->layer.taps[1] * p->layer.channels + (p->biased ? 2 : 0);
}

static int consumers_of(const falt_fewchannels_wgrad_tile *t) {
  return t->layer.rows * t->layer.parts;
}

int falt_fewchannels_wgrad_threads(const falt_fewchannels_wgrad_tile *t) {
  return 128 * (consumers_of(t) + t->producers);
}

/* ---- one tile */

/* Registers of a thread that multiplies, as the kernel divides them. */
static int consumer_registers(const falt_fewchannels_wgrad_tile *t) {
  const int groups = consumers_of(t) + t->producers, all = FALT_REGISTERS / (128 * groups) / 8 * 8 * groups;
  return smaller((all - t->producers * FETCHING) / consumers_of(t) / 8 * 8, MOST_REGISTERS);
}

/* The layer of a part's rows of taps. */
static falt_fewchannels_nhwc_problem part_of(const falt_fewchannels_wgrad_problem *p,
                                             const falt_fewchannels_wgrad_tile *t) {
  falt_fewchannels_nhwc_problem part = p->layer;
  part.taps[0] = t->taps;
  return part;
}

static int64_t sums_of(const falt_fewchannels_nhwc_problem *part, const falt_fewchannels_wgrad_tile *t) {
  return falt_fewchannels_nhwc_fewest_pieces(part, &t->layer) * t->blocks * 4;
}

static const char *fit(const falt_fewchannels_nhwc_problem *part, const falt_machine *m,
                       falt_fewchannels_wgrad_tile *t) {
  falt_fewchannels_nhwc_tile *l = &t->layer;
  const int64_t row_bytes = falt_fewchannels_nhwc_row_pieces(part, l) * 16, batch = l->rows * part->stride[0];
  const int64_t batch_bytes = row_bytes * batch + 16, ahead = falt_fewchannels_nhwc_ahead(part, l);
  const int64_t line_bytes = consumers_of(t) * (l->width * 128 + 8);
  const int64_t beside = row_bytes * l->mirrored;
  const int64_t left = m->arch->block_shared - beside - FEWEST_STAGES * line_bytes;
  if (sums_of(part, t) + l->width / 4 + REGISTERS_BESIDE > consumer_registers(t))
    return "registers have no room for the sums";
  if ((ahead + 2) * batch_bytes > left) return "the rows that an output reads do not fit into shared memory";
  l->batches = (int)falt_min(left / batch_bytes, ahead + 2 + t->producers);
  t->stages = (int)falt_min((m->arch->block_shared - beside - l->batches * batch_bytes) / line_bytes, MOST_STAGES);
  t->shared_bytes = (int)(beside + l->batches * batch_bytes + t->stages * line_bytes);
  return NULL;
}

static const char *count(const falt_fewchannels_wgrad_problem *p, const falt_fewchannels_nhwc_problem *part,
                         const falt_machine *m, falt_fewchannels_wgrad_tile *t) {
  const int64_t bytes = p->layer.results * falt_fewchannels_wgrad_columns(p) * (int64_t)sizeof(float);
  const char *why = falt_fewchannels_nhwc_count(part, m, &t->layer);
  if (why) return why;
  t->split_k = t->layer.grid / t->layer.result_tiles * t->layer.rows * t->layer.paired;
  t->workspace = (size_t)(t->split_k * bytes);
  return p->workspace >= 0 && t->split_k * bytes > p->workspace ? "it needs more workspace than is allowed" : NULL;
}

/* Cycles of a multiprocessor for a batch: of the tensor cores, which power keeps at three quarters of their rate; of
 * rows in flight, and the rest as measured on an H200. */
static double batch_cycles(const falt_fewchannels_nhwc_problem *part, const falt_fewchannels_wgrad_tile *t) {
  const falt_fewchannels_nhwc_tile *l = &t->layer;
  const double multiplied = (double)(sums_of(part, t) * consumers_of(t)) * l->width / 16 / 0.75;
  const double fetches =
      (double)(l->rows * part->stride[0]) / (double)falt_fewchannels_nhwc_at_once(part, l) / t->producers;
  return fmax(multiplied, 1900 * fetches) + (consumers_of(t) > 1 ? 240 : 550); /* one multiplies or waits */
}

static void estimate(const falt_fewchannels_nhwc_problem *part, const falt_machine *m, falt_fewchannels_wgrad_tile *t) {
  const falt_fewchannels_nhwc_tile *l = &t->layer;
  const double walks = ceil((double)l->items * l->result_tiles / (double)l->grid);
  const double batches = (double)(falt_ceil_div(l->walk, l->rows) + falt_fewchannels_nhwc_ahead(part, l));
  const double compute = (walks * batches * batch_cycles(part, t) + 6000) / m->clock_hz;
  const double pixels = (double)(l->items * l->walk) * l->width * l->paired;
  const double x = pixels * (double)(part->stride[0] * part->stride[1] * part->channels) * 2 * l->result_tiles;
  const double y = pixels * (double)part->results * 2 * l->tap_parts;
  const double memory = (x + y) / (0.85 * m->bytes_per_s), sums = 7 * (double)t->workspace / m->bytes_per_s;
  t->seconds = fmax(compute, memory) + 0.2 * fmin(compute, memory) + sums + 4e-6;
}

static void visit_tile(const falt_fewchannels_wgrad_problem *p, const falt_machine *m, falt_fewchannels_wgrad_tile t,
                       falt_tile_search *search) {
  const falt_fewchannels_nhwc_problem part = part_of(p, &t);
  t.rejected = fit(&part, m, &t);
  if (!t.rejected) t.rejected = count(p, &part, m, &t);
  if (!t.rejected) estimate(&part, m, &t);
  falt_tile_offer(search, &t, t.rejected, t.seconds);
}

/* ---- tiles */

/* Tap rows of an instruction: its columns divided by eight (wgmma_rows.cuh). */
static int blocks_for(int taps) {
  static const int blocks[] = {2, 3, 4, 6, 7, 8};
  for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
    if (blocks[i] >= taps) return blocks[i];
  return 0;
}

/* With all but the pixels chosen. */
static void visit_pixels(const falt_fewchannels_wgrad_problem *p, const falt_machine *m, falt_fewchannels_wgrad_tile *t,
                         falt_tile_search *search) {
  falt_fewchannels_nhwc_tile *l = &t->layer;
  for (l->rows = 1; l->rows * l->parts <= MOST_CONSUMERS; l->rows++)
    for (l->width = 16; l->width <= MOST_WIDTH; l->width += 16)
      for (l->walk = l->walks = 0; falt_fewchannels_nhwc_next_walk(&p->layer, l);) visit_tile(p, m, *t, search);
}

void falt_fewchannels_wgrad_each(const falt_fewchannels_wgrad_problem *p, const falt_machine *m,
                                 falt_tile_search *search) {
  const falt_fewchannels_nhwc_problem *whole = &p->layer;
  falt_fewchannels_wgrad_tile t = {.producers = PRODUCERS,
                                   .layer = {.pixel = whole->channels + p->biased <= 4 ? 4 : 8}};
  falt_fewchannels_nhwc_tile *l = &t.layer;
  if (whole->channels + p->biased > 8) return;
  l->paired = whole->stride[1] * l->pixel % 8 ? 2 : 1;
  l->pieces = (int)falt_fewchannels_nhwc_fewest_pieces(whole, l);
  const int spans = (int)falt_min(falt_ceil_div(whole->results, 64), MOST_CONSUMERS / l->paired);
  for (int64_t taps = whole->taps[0] + 1; (taps = falt_piece_below(whole->taps[0], whole->taps[0], taps)) > 0;) {
    t.taps = (int)taps;
    t.blocks = blocks_for(t.taps);
    if (t.blocks == 0) continue;
    l->tap_parts = (int)falt_ceil_div(whole->taps[0], taps);
    l->mirrored = (t.blocks - 1) * (int)whole->dilation[0];
    for (l->parts = l->paired; l->parts <= spans * l->paired; l->parts += l->paired) visit_pixels(p, m, &t, search);
  }
}

bool falt_fewchannels_wgrad_choose(const falt_fewchannels_wgrad_problem *problem, const falt_machine *machine,
                                   falt_fewchannels_wgrad_tile *best) {
  falt_tile_search search = falt_tile_search_best(best, sizeof *best);
  falt_fewchannels_wgrad_each(problem, machine, &search);
  if (!search.seen) best->rejected = "registers have no room for the sums";
  return search.found;
}

void falt_fewchannels_wgrad_defines(falt_cuda_kernel *kernel, const falt_fewchannels_wgrad_problem *p,
                                    const falt_fewchannels_wgrad_tile *t) {
  const falt_fewchannels_nhwc_problem part = part_of(p, t);
  falt_fewchannels_nhwc_defines(kernel, &part, &t->layer);
  falt_cuda_define(kernel, "BIASED=%d", p->biased);
  falt_cuda_define(kernel, "STAGES=%d", t->stages);
  falt_cuda_define(kernel, "PRODUCERS=%d", t->producers);
  falt_cuda_define(kernel, "BLOCKS=%d", t->blocks);
}
