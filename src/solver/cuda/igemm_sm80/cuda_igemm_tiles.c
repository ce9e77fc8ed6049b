/* Tile search of cuda_igemm.cu: enumerates the tiles that a block can hold, and keeps the one with the smallest
 * estimated time. */
#include "solver/cuda/common/igemm.h"

#include <math.h>

#include "core/memory.h"

enum { MOST_SPLIT_K = 16, LEAST_STEPS = 3 };

/* ---- resources of a tile */

static int threads_of(const falt_igemm_tile *t) {
  return FALT_WARP * t->warps[0] * t->warps[1];
}

static int stage_bytes(const falt_igemm_tile *t) {
  return (t->bm + (t->wgmma ? 2 : 1) * t->bn) * t->row;
}

/* Shared memory: the steps, and afterwards the warps' outputs with the positions of their pixels. */
static int shared_of(const falt_igemm_shape *s, const falt_igemm_tile *t) {
  const int wm = t->bm / t->warps[0], wn = t->bn / t->warps[1], size = s->real ? 4 : 8;
  const int rows = s->planar && wm % 32 == 0 ? 32 : 16, pitch = s->planar ? wn + 1 : wn + 16 / size;
  const int desk = (rows * pitch * size + 15) / 16 * 16 + wm * 16;
  return larger(t->stages * stage_bytes(t), t->warps[0] * t->warps[1] * desk) + (t->wgmma ? 1024 : 0);
}

/* Registers: accumulators, fragments of a slice, pixel state, and the rest as seen on compiled kernels. */
static int fitted_registers(const falt_igemm_shape *s, const falt_igemm_tile *t) {
  const int wm = t->bm / t->warps[0], wn = t->bn / t->warps[1], sums = wm * wn / 32 * (s->x_bytes == 8 ? 2 : 1);
  const int pixels = s->gather ? 0 : larger(1, t->bm * (t->row / s->unit) / threads_of(t));
  return sums * (t->promote ? 2 : 1) + wm / 4 + (s->split ? 24 : 8) +
         (s->gather  ? 72
          : t->wgmma ? 28
                     : 44) +
         (s->spans ? 4 : 0) +
         pixels * (s->fold        ? 7
                   : s->unit < 16 ? 4
                                  : 2) +
         (s->merged > 1 ? 32 : 0) + (s->real ? 0 : 24);
}

static int blocks_of(const falt_igemm_shape *s, const falt_machine *m, const falt_igemm_tile *t) {
  const int64_t by_registers = falt_blocks_by_registers(threads_of(t), fitted_registers(s, t));
  return (int)falt_min(falt_min(by_registers, falt_blocks_by_shared(m, t->shared_bytes)), 1536 / threads_of(t));
}

static bool is_possible(const falt_igemm_shape *s, const falt_machine *m, const falt_igemm_tile *t) {
  const int chunks = t->row / 16, threads = threads_of(t);
  if (t->shared_bytes + (int)sizeof(falt_cuda_igemm_polyphase) > m->arch->block_shared || t->blocks < 1) return false;
  if (s->gather) {
    const int parts = threads / t->bm; /* of a step's chunks in registers of a thread */
    return threads % t->bm == 0 && chunks % parts == 0 && chunks / parts * 16 / s->x_bytes <= 32;
  }
  return threads % (t->row / s->unit) == 0;
}

/* ---- estimate */

static double ceil_of(double a, double b) {
  return ceil(a / b);
}

/* Instructions for a gathered element: its load, its part of an entry, and the wait if a warp's pixels are in more than
 * a quarter of 32 lines. */
static double gathered(const falt_igemm_shape *s) {
  const double lines = fmin((double)s->apart / 4, 32);
  return 5 + 16.0 / s->gather + fmax(lines - 8, 0);
}

/* Instructions that copy a step of the source. Rows of spans start anywhere in a line of memory, so a warp's copies
 * touch more lines, and neighbouring pixels belong to other blocks. */
static double copied(const falt_igemm_shape *s, const falt_igemm_tile *t) {
  const double astray = t->row == 64 ? 195 : 130, piece = !s->spans ? 35 : s->apart ? astray : 50;
  return (double)t->bm * t->row * (s->gather ? gathered(s) / s->x_bytes : piece / s->unit) / FALT_WARP;
}

/* Cycles of a multiprocessor for one step of one block: products or the matrices that feed them, and the instructions
 * that copy. All costs here are fitted to 270 timings of 36 layers on an H200. */
static double step_cycles(const falt_igemm_shape *s, const falt_machine *m, const falt_igemm_tile *t) {
  const int wm = t->bm / t->warps[0], wn = t->bn / t->warps[1];
  const double all = (double)t->bm * t->bn * t->row / s->merged;
  const double products = all * (s->split ? 3 : 1) / falt_mma_bytes(m, s->x_bytes);
  const double matrices = all / 160 * (1.0 / wm + 1.0 / wn);
  const double filter = (double)t->bn * t->row * 6 / 16 / FALT_WARP;
  return fmax(products, matrices) + (copied(s, t) + filter) / 4;
}

/* The same for all blocks with wgmma: one waits while others multiply. A single warpgroup of 64 columns multiplies for
 * less of its time; pieces of less than 16 bytes cost their instructions, and with one stage all warps wait for them.
 */
static double warpgroup_cycles(const falt_igemm_shape *s, const falt_igemm_tile *t, double blocks) {
  const double rate = t->bm * t->bn > 64 * 64 ? 4096 : 3400;
  const double products = 3.0 * t->bm * t->bn * t->row / rate;
  if (s->unit == 16) return blocks * products + 900 / blocks;
  return (blocks * (products + copied(s, t) / 4) + 900 / blocks) * (t->stages == 2 ? 1.36 : 1);
}

/* Instructions of a block's stores; if rows are not multiples of vectors, also those of missing outputs, contiguous or
 * one by one. */
static double stored_cycles(const falt_igemm_shape *s, const falt_igemm_tile *t) {
  const double columns = s->ragged ? (double)s->channels / ceil_of((double)s->channels, t->bn) : t->bn;
  const double ragged = s->channels >= FALT_IGEMM_RAGGED ? 0.5 : 1.7;
  const double each = s->planar ? (t->wgmma ? 0.5 : 1.19) : s->ragged ? ragged : 0.32;
  return t->bm * columns * each * (s->real ? 1 : 2);
}

/* Cycles until a block's last step, and of its stores, with a given number of blocks on a multiprocessor. A single warp
 * waits for its own outputs in shared memory, and a block for copies that touch many lines. */
static double wave_cycles(const falt_igemm_shape *s, const falt_machine *m, const falt_igemm_tile *t, double blocks) {
  const double stored = fmax(stored_cycles(s, t) * blocks, 1.5 * t->bm * t->bn / (t->warps[0] * t->warps[1]));
  const double far = s->apart == 0 ? 1 : s->spans ? 1.3 : s->apart >= 64 ? 2.1 : 1.7;
  const double alone = s->apart == 0 ? 0.5 : fmax(0.5, (t->bm + t->bn) / 192.0);
  const double latency = (t->stages > 2 ? 1620 : 1890) * (blocks > 1 ? 1 : alone) * far, steps = t->slice_steps;
  return 400 + stored +
         steps * (t->wgmma ? warpgroup_cycles(s, t, blocks) : fmax(step_cycles(s, m, t) * blocks, latency));
}

static double blocks_in_all(const falt_igemm_shape *s, const falt_igemm_tile *t) {
  return ceil_of((double)s->pixels, t->bm) * ceil_of((double)s->channels, t->bn) * (double)s->products * t->split_k;
}

/* The cost of adding the split-K slices: another launch, and their traffic in memory or cache. */
static double sum_seconds(const falt_machine *m, const falt_igemm_tile *t) {
  return t->split_k > 1 ? 2.5e-6 + (double)t->workspace / m->bytes_per_s : 0;
}

static void estimate(const falt_igemm_shape *s, const falt_machine *m, falt_igemm_tile *t) {
  const double blocks = blocks_in_all(s, t);
  const double slots = (double)m->multiprocessors * t->blocks, full = floor(blocks / slots);
  const double rest = ceil_of(blocks - full * slots, m->multiprocessors); /* of the last wave that share a
                                                                           * multiprocessor */
  const double cycles = full * wave_cycles(s, m, t, t->blocks) + (rest > 0 ? wave_cycles(s, m, t, rest) : 0);
  const double memory = s->bytes / (0.95 * m->bytes_per_s), compute = cycles / m->clock_hz;
  t->seconds = fmax(compute, memory) + 0.2 * fmin(compute, memory) + sum_seconds(m, t);
}

/* The tile with a number of split-K slices. False if they do not help, or need more than the workspace. */
static bool cut_depth(const falt_igemm_shape *s, const falt_machine *m, falt_igemm_tile *t, int split_k) {
  const int steps = (int)ceil_of((double)s->depth, t->row);
  t->slice_steps = (steps + split_k - 1) / split_k;
  t->split_k = t->slice_steps ? (steps + t->slice_steps - 1) / t->slice_steps : 1;
  if (split_k == 1) return true;
  t->workspace = t->split_k * s->products * s->pixels * s->channels * (s->x_bytes == 8 ? 8 : 4);
  return s->split_k && t->split_k == split_k && t->slice_steps >= LEAST_STEPS &&
         blocks_in_all(s, t) <= 2.0 * m->multiprocessors && (s->workspace < 0 || t->workspace <= s->workspace);
}

typedef struct visitor {
  const falt_igemm_shape *shape;
  const falt_machine *machine;
  falt_tile_search *search;
} visitor;

/* Merged groups are one tap a step and one tile of columns, all of a warp. */
static bool suits_groups(const falt_igemm_shape *s, const falt_igemm_tile *t) {
  return s->merged == 1 || (t->row == s->step && t->bn == s->channels && t->warps[1] == 1 && !t->wgmma);
}

/* The tile with every number of split-K slices. */
static void visit_splits(const visitor *v, falt_igemm_tile *t) {
  if (fitted_registers(v->shape, t) > 255 || !suits_groups(v->shape, t)) return;
  t->shared_bytes = shared_of(v->shape, t);
  t->blocks = blocks_of(v->shape, v->machine, t);
  if (!is_possible(v->shape, v->machine, t)) return;
  for (int split_k = 1; split_k <= MOST_SPLIT_K; split_k++) {
    if (!cut_depth(v->shape, v->machine, t, split_k)) continue;
    estimate(v->shape, v->machine, t);
    falt_tile_offer(v->search, t, NULL, t->seconds);
  }
}

/* Warpgroups on Hopper: where f32 is in parts. */
static void visit_warpgroups(const visitor *v) {
  static const int tiles[][3] = {{128, 128, 3}, {128, 128, 4}, {128, 64, 3},
                                 {64, 128, 2},  {64, 64, 3},   {128, 64, 2}}; /* bm, bn, stages */
  if (!v->machine->arch->wgmma || !v->shape->split) return;
  for (unsigned i = 0; i < sizeof tiles / sizeof *tiles; i++) {
    falt_igemm_tile t = {.bm = tiles[i][0],
                         .bn = tiles[i][1],
                         .warps = {tiles[i][0] / 16, 1},
                         .row = 128,
                         .stages = tiles[i][2],
                         .promote = 1,
                         .wgmma = true};
    visit_splits(v, &t);
  }
}

void falt_igemm_each(const falt_igemm_shape *s, const falt_machine *m, falt_tile_search *search) {
  static const int tiles[][4] = {{256, 128, 4, 2}, {128, 256, 2, 4}, {128, 128, 2, 2}, {128, 128, 2, 4},
                                 {256, 64, 4, 1},  {128, 64, 2, 2},  {64, 128, 2, 2},  {64, 64, 2, 2},
                                 {128, 32, 4, 1},  {64, 32, 2, 1},   {128, 16, 4, 1},  {32, 64, 1, 4},
                                 {256, 32, 8, 1},  {128, 64, 4, 1}};
  static const int steps[][2] = {{64, 4}, {128, 2}, {128, 3}}; /* bytes, stages */
  const visitor v = {s, m, search};
  for (unsigned i = 0; i < sizeof tiles / sizeof *tiles; i++)
    for (unsigned k = 0; k < sizeof steps / sizeof *steps; k++) {
      falt_igemm_tile t = {.bm = tiles[i][0],
                           .bn = tiles[i][1],
                           .warps = {tiles[i][2], tiles[i][3]},
                           .row = steps[k][0],
                           .stages = steps[k][1],
                           .promote = s->split ? 128 / steps[k][0] : 0};
      visit_splits(&v, &t);
    }
  visit_warpgroups(&v);
}

void falt_igemm_choose(const falt_igemm_shape *s, const falt_machine *m, falt_igemm_tile *best) {
  falt_tile_search search = falt_tile_search_best(best, sizeof *best);
  falt_igemm_each(s, m, &search);
}
