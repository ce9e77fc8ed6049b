/* Tile search of cuda_wgrad.cu: tiles of the gradient and split-K slices of the pixels, so that every multiprocessor
 * has work. */
#include <math.h>

#include "core/memory.h"
#include "solver/cuda/common/igemm.h"

enum { LEAST_STEPS = 2, MOST_WAVES = 3, MOST_SPLIT_K = 1024 };

static int threads_of(const falt_igemm_wgrad_tile *t) {
  return FALT_WARP * t->warps[0] * t->warps[1];
}

/* Where the pixels of two times four steps are. */
static int found_bytes(const falt_igemm_wgrad_shape *s, const falt_igemm_wgrad_tile *t) {
  return 2 * 4 * 2 * t->pixels * (s->fold ? 24 : 16);
}

/* Both factors' pixels, padded as the kernel does. */
static int shared_of(const falt_igemm_wgrad_shape *s, const falt_igemm_wgrad_tile *t) {
  return t->stages * t->pixels * ((t->bm + t->bn) * s->x_bytes + (s->x_bytes >= 4 ? 64 : 32));
}

/* Registers: accumulators, fragments of a slice, gathered elements, and the rest as seen on compiled kernels. */
static int fitted_registers(const falt_igemm_wgrad_shape *s, const falt_igemm_wgrad_tile *t) {
  const int wm = t->bm / t->warps[0], wn = t->bn / t->warps[1], sums = wm * wn / 32 * (s->x_bytes == 8 ? 2 : 1),
            threads = threads_of(t);
  const int gathered = (s->gather[0] ? t->bm : 0) + (s->gather[1] ? t->bn : 0);
  return sums * (t->promote ? 2 : 1) + wm / 4 + (s->split ? 24 : 8) +
         gathered * t->pixels * (s->x_bytes == 8 ? 2 : 1) / threads + 64;
}

static bool threads_fit(const falt_igemm_wgrad_shape *s, const falt_igemm_wgrad_tile *t) {
  const int columns[2] = {t->bm, t->bn};
  for (int i = 0; i < 2; i++)
    if (!s->gather[i] && threads_of(t) % (columns[i] * s->x_bytes / s->unit[i])) return false;
  return true;
}

static int blocks_of(const falt_igemm_wgrad_shape *s, const falt_machine *m, const falt_igemm_wgrad_tile *t,
                     int registers) {
  const int all_shared = m->arch->block_shared + FALT_BLOCK_RESERVED, shared = t->shared_bytes + found_bytes(s, t);
  return (int)falt_min(falt_blocks_by_registers(threads_of(t), registers), all_shared / shared);
}

/* Cycles of a multiprocessor for one step of one block. */
static double step_cycles(const falt_igemm_wgrad_shape *s, const falt_machine *m, const falt_igemm_wgrad_tile *t) {
  const double products =
      (double)t->bm * t->bn * t->pixels * s->x_bytes * (s->split ? 3 : 1) / falt_mma_bytes(m, s->x_bytes);
  const int columns[2] = {t->bm, t->bn};
  double instructions = 0;
  for (int i = 0; i < 2; i++)
    instructions += (double)columns[i] * t->pixels * (s->gather[i] ? 6 : 12.0 * s->x_bytes / s->unit[i]);
  return products + 0.25 * instructions / FALT_WARP + 150;
}

/* The minimum cycles of a step for any number of blocks: gathered elements are loaded one by one. */
static double step_latency(const falt_igemm_wgrad_shape *s, const falt_igemm_wgrad_tile *t) {
  const double gathered = (s->gather[0] ? t->bm : 0) + (s->gather[1] ? t->bn : 0);
  return gathered > 0 ? 600 + 12 * gathered * t->pixels / threads_of(t) : 800;
}

/* As many split-K slices as fill the machine a number of times, with at least a few steps each; fewer if the workspace
 * is short. One slice for no wave: outputs are then stored directly. */
static void cut_pixels(const falt_igemm_wgrad_shape *s, const falt_machine *m, falt_igemm_wgrad_tile *t, int64_t tiles,
                       int waves) {
  const int64_t steps = falt_ceil_div(s->pixels, t->pixels), slots = (int64_t)m->multiprocessors * t->blocks;
  const int64_t bytes = tiles * t->bm * t->bn * (s->x_bytes == 8 ? 8 : 4);
  int64_t split_k = slots * waves / tiles;
  if (split_k > steps / LEAST_STEPS) split_k = steps / LEAST_STEPS;
  if (split_k > MOST_SPLIT_K) split_k = MOST_SPLIT_K;
  if (s->workspace >= 0 && split_k > s->workspace / bytes) split_k = s->workspace / bytes;
  if (split_k < 2 || waves == 0) split_k = 1;
  t->slice_steps = falt_ceil_div(steps, split_k);
  t->split_k = falt_ceil_div(steps, t->slice_steps);
  t->workspace = t->split_k > 1 ? t->split_k * bytes : 0;
}

static void estimate(const falt_igemm_wgrad_shape *s, const falt_machine *m, falt_igemm_wgrad_tile *t, int waves) {
  const int64_t tiles = falt_ceil_div(s->rows, t->bm) * falt_ceil_div(s->columns, t->bn) * s->groups;
  cut_pixels(s, m, t, tiles, waves);
  const double blocks = (double)tiles * (double)t->split_k, slots = (double)m->multiprocessors * t->blocks;
  const double per = fmin(t->blocks, ceil(blocks / m->multiprocessors));
  const double step = fmax(step_cycles(s, m, t) * per, step_latency(s, t)), stored = 0.11 * t->bm * t->bn * per;
  const double cycles = ceil(blocks / slots) * (2500 + stored + (double)t->slice_steps * step);
  const double slower = s->gather[0] || s->gather[1] ? 2.7 : s->split ? 1.65 : 1.9; /* as seen on an H200 */
  const double memory = (s->bytes + 2 * (double)t->workspace) / m->bytes_per_s, compute = slower * cycles / m->clock_hz;
  t->seconds = fmax(compute, memory) + 0.2 * fmin(compute, memory) + (t->split_k > 1 ? 3e-6 : 0);
}

void falt_igemm_wgrad_each(const falt_igemm_wgrad_shape *s, const falt_machine *m, falt_tile_search *search) {
  static const int tiles[][4] = {{128, 128, 2, 4}, {128, 64, 4, 2}, {64, 128, 2, 4}, {64, 64, 2, 2},
                                 {32, 128, 1, 4},  {32, 64, 1, 4},  {32, 32, 1, 2},  {128, 256, 2, 4}};
  static const int steps[][2] = {{32, 4}, {64, 2}, {64, 3}}; /* pixels, stages */
  for (unsigned i = 0; i < sizeof tiles / sizeof *tiles; i++)
    for (unsigned k = 0; k < sizeof steps / sizeof *steps; k++) {
      falt_igemm_wgrad_tile t = {.bm = tiles[i][0],
                                 .bn = tiles[i][1],
                                 .warps = {tiles[i][2], tiles[i][3]},
                                 .pixels = steps[k][0],
                                 .stages = steps[k][1],
                                 .promote = s->split ? 1 : 0};
      const int registers = fitted_registers(s, &t);
      t.shared_bytes = shared_of(s, &t);
      if (registers > 255 || t.shared_bytes + found_bytes(s, &t) > m->arch->block_shared || !threads_fit(s, &t))
        continue;
      t.blocks = blocks_of(s, m, &t, registers);
      if (t.blocks < 1) continue;
      for (int waves = 0; waves <= MOST_WAVES; waves++) {
        estimate(s, m, &t, waves);
        falt_tile_offer(search, &t, NULL, t.seconds);
      }
    }
}

void falt_igemm_wgrad_choose(const falt_igemm_wgrad_shape *s, const falt_machine *m, falt_igemm_wgrad_tile *best) {
  falt_tile_search search = falt_tile_search_best(best, sizeof *best);
  falt_igemm_wgrad_each(s, m, &search);
}
