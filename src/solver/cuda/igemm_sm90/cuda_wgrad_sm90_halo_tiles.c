/* Tile search of cuda_wgrad_sm90_halo.cu, and the number of blocks that share the tiles. */
#include <math.h>

#include "core/memory.h"
#include "solver/cuda/igemm_sm90/cuda_igemm_sm90_halo_tiles.h"

enum { PIXEL = 128, MOST_STAGES = 8, FEWEST_STAGES = 2, MOST_PRODUCTS = 32, MOST_WAVES = 3, MOST_SIZE = INT32_MAX / 4 };

const char *falt_wgrad_sm90_halo_refusal(const falt_wgrad_sm90_halo_problem *p) {
  const int64_t taps = p->taps[0] * p->taps[1] * p->taps[2];
  if (p->taps[1] > 3 || p->taps[2] > 4 || p->taps[1] * p->taps[2] > 9)
    return "registers have no room for its taps' sums";
  if (p->taps[0] > 64) return "it has too many planes of taps";
  if (p->channels > 4096 || p->results > 4096 || p->images > MOST_SIZE) return "it has too many channels or images";
  for (int i = 0; i < 3; i++)
    if (p->in[i] > MOST_SIZE || p->out[i] > MOST_SIZE || p->dilation[i] > 16 || p->corner[i] > MOST_SIZE ||
        p->corner[i] < -MOST_SIZE)
      return "an axis is too long or its taps too far apart";
  if (p->results * falt_ceil_div(p->channels, FALT_PLANES_SPAN) * FALT_PLANES_SPAN * taps > MOST_SIZE)
    return "it has more sums than one launch can number";
  return NULL;
}

/* ---- what all kernels for wgrad by wgmma have in common */

const char *falt_wgrad_sm90_cut(falt_wgrad_sm90_tile *t, const falt_machine *m, const falt_wgrad_sm90_sums *sums,
                                int waves) {
  t->row_tiles = (int)falt_ceil_div(sums->results, FALT_PLANES_SPAN);
  t->column_tiles = (int)falt_ceil_div(sums->channels, FALT_PLANES_SPAN);
  t->columns = (int64_t)t->column_tiles * FALT_PLANES_SPAN * sums->taps;
  const int64_t parts = (int64_t)t->row_tiles * t->column_tiles * sums->tap_blocks;
  const int64_t bytes = sums->results * t->columns * (int64_t)sizeof(float);
  if (sums->workspace >= 0 && sums->workspace < bytes) return "it needs more workspace than is allowed";
  int64_t split_k = (int64_t)m->multiprocessors * waves / parts;
  if (sums->workspace >= 0) split_k = falt_min(split_k, sums->workspace / bytes);
  t->split_k = (int)falt_max(1, falt_min(split_k, t->items));
  t->grid = parts * t->split_k;
  t->workspace = (size_t)(t->split_k * bytes);
  return NULL;
}

double falt_wgrad_sm90_seconds(const falt_machine *m, double compute, double once, double again, double sums) {
  const double cached = 0.3; /* cost of a byte from the cache relative to memory */
  const double memory = (once + cached * again + sums) / (0.6 * m->bytes_per_s);
  return fmax(compute, memory) + 0.1 * fmin(compute, memory) + 4.6e-6 + 2 * sums / m->bytes_per_s;
}

/* ---- one tile */

static int64_t window_pixels(const falt_wgrad_sm90_halo_problem *p, const falt_wgrad_sm90_tile *t) {
  return (t->height + (p->taps[1] - 1) * p->dilation[1]) * (t->width + (p->taps[2] - 1) * p->dilation[2]);
}

static int64_t pixels_of(const falt_wgrad_sm90_halo_problem *p, const falt_wgrad_sm90_tile *t) {
  return t->height * t->width + window_pixels(p, t);
}

static const char *fit(const falt_wgrad_sm90_halo_problem *p, const falt_machine *m, falt_wgrad_sm90_tile *t) {
  const int barriers = 16 * MOST_STAGES;
  const int64_t stage =
      falt_round_up(t->height * t->width * PIXEL, 1024) + falt_round_up(window_pixels(p, t) * PIXEL, 1024);
  const int64_t stages = (m->arch->block_shared - barriers) / stage;
  t->stages = (int)(stages < MOST_STAGES ? stages : MOST_STAGES);
  t->shared_bytes = (int)(t->stages * stage) + barriers;
  return stages < FEWEST_STAGES ? "shared memory has no room for two tiles" : NULL;
}

/* `waves`: how often blocks fill the GPU. */
static const char *count(const falt_wgrad_sm90_halo_problem *p, const falt_machine *m, int waves,
                         falt_wgrad_sm90_tile *t) {
  const int64_t taps = p->taps[0] * p->taps[1] * p->taps[2];
  t->tiles[0] = (int)p->out[0];
  t->tiles[1] = (int)falt_ceil_div(p->out[1], t->height);
  t->tiles[2] = (int)falt_ceil_div(p->out[2], t->width);
  const double items = (double)p->images * t->tiles[0] * t->tiles[1] * t->tiles[2];
  if (items > MOST_SIZE) return "it has more tiles than one launch can number";
  t->items = (int)items;
  const falt_wgrad_sm90_sums sums = {p->results, p->channels, p->taps[0], taps, p->workspace};
  return falt_wgrad_sm90_cut(t, m, &sums, waves);
}

/* Cycles of a multiprocessor for a tile: of the tensor cores, which power keeps at three quarters of their rate; of
 * shared memory, that they read and TMA fills. As measured on an H200. */
static double tile_cycles(const falt_wgrad_sm90_halo_problem *p, const falt_wgrad_sm90_tile *t) {
  const double width = (double)(FALT_PLANES_SPAN * p->taps[2]);
  const double products = t->height / 2.0 * t->width / 8 * (double)p->taps[1], pixels = (double)pixels_of(p, t);
  return fmax(products * width / 2 / 0.75, (products * (16 + width / 4) + pixels) / 0.75) + 100;
}

static void estimate(const falt_wgrad_sm90_halo_problem *p, const falt_machine *m, falt_wgrad_sm90_tile *t) {
  const double waves = ceil((double)t->grid / m->multiprocessors), each = ceil((double)t->items / t->split_k);
  const double compute = waves * (each * tile_cycles(p, t) + 4000) / m->clock_hz;
  const double once = (double)t->items * (double)pixels_of(p, t) * PIXEL;
  const double again = once * ((double)t->grid / t->split_k - 1);
  t->seconds = falt_wgrad_sm90_seconds(m, compute, once, again, (double)t->workspace);
}

void falt_wgrad_sm90_halo_each(const falt_wgrad_sm90_halo_problem *p, const falt_machine *m, falt_tile_search *search) {
  for (int height = 2; height <= 32; height += 2)
    for (int width = 8; width <= 64; width += 8)
      for (int waves = 1; waves <= MOST_WAVES; waves++) {
        falt_wgrad_sm90_tile t = {.height = height, .width = width};
        if (height / 2 * width / 8 > MOST_PRODUCTS) continue;
        t.rejected = fit(p, m, &t);
        if (!t.rejected) t.rejected = count(p, m, waves, &t);
        if (!t.rejected) estimate(p, m, &t);
        falt_tile_offer(search, &t, t.rejected, t.seconds);
      }
}

bool falt_wgrad_sm90_halo_choose(const falt_wgrad_sm90_halo_problem *problem, const falt_machine *machine,
                                 falt_wgrad_sm90_tile *best) {
  falt_tile_search search = falt_tile_search_best(best, sizeof *best);
  falt_wgrad_sm90_halo_each(problem, machine, &search);
  return search.found;
}
