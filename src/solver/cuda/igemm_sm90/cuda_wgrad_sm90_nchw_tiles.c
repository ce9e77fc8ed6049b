/* Tile search of cuda_wgrad_sm90_nchw.cu: rows of a stage, and the number of blocks that share the rows. */
#include "solver/cuda/igemm_sm90/cuda_wgrad_sm90_nchw_tiles.h"

#include <math.h>

#include "core/memory.h"

enum {
  GROUP = FALT_PLANES_SPAN * 16 + 16, /* bytes of eight pixels in shared memory */
  PRODUCTS = 9,                       /* of 16 pixels: the taps of a plane */
  FEWEST_STAGES = 5,
  MOST_STAGES = 12,
  MOST_ROWS = 16,
  MOST_GROUPS = 16, /* of a stage: a thread has 128 bytes of each operand in flight */
  MOST_WAVES = 3,
  MOST_SIZE = INT32_MAX / 4,
  MOST_DILATION = MOST_SIZE / 64
};

const char *falt_wgrad_sm90_nchw_refusal(const falt_wgrad_sm90_nchw_problem *p) {
  return p->unit < 4                                                                  ? "4 bytes do not divide its rows"
         : p->taps > 64                                                               ? "it has too many planes of taps"
         : p->dilation > MOST_DILATION || p->pad > MOST_SIZE || p->pad < -MOST_SIZE   ? "its planes of taps are too far"
         : p->channels > 4096 || p->results > 4096                                    ? "it has too many channels"
         : (double)p->images * (double)p->depth * (double)(p->height + 1) > MOST_SIZE ? "it has too many rows"
         : p->results * falt_ceil_div(p->channels, FALT_PLANES_SPAN) * FALT_PLANES_SPAN * p->taps * PRODUCTS > MOST_SIZE
             ? "it has more sums than one launch can number"
             : NULL;
}

/* ---- one tile */

/* Of a stage, an even number. */
static int64_t groups_of(const falt_wgrad_sm90_nchw_problem *p, const falt_wgrad_sm90_tile *t) {
  const int64_t filled = falt_ceil_div(p->width, 8);
  return t->height * (filled + filled % 2 * (t->height % 2));
}

static const char *fit(const falt_wgrad_sm90_nchw_problem *p, const falt_machine *m, falt_wgrad_sm90_tile *t) {
  const int barriers = 16 * MOST_STAGES + 8;
  const int64_t groups = groups_of(p, t), stages = (m->arch->block_shared - GROUP - barriers) / (2 * groups * GROUP);
  if (groups > MOST_GROUPS) return "registers have no room for its rows in flight";
  if (stages < FEWEST_STAGES) return "shared memory has no room for the stages";
  t->stages = (int)falt_min(stages, MOST_STAGES);
  t->shared_bytes = (int)(2 * t->stages * groups * GROUP) + GROUP + barriers;
  return NULL;
}

/* `waves`: how often blocks fill the GPU. */
static const char *count(const falt_wgrad_sm90_nchw_problem *p, const falt_machine *m, int waves,
                         falt_wgrad_sm90_tile *t) {
  const int64_t rows = p->images * p->depth * (p->height + 1) - 1; /* none of zeros behind the last image */
  t->items = (int)falt_ceil_div(rows, t->height);
  const falt_wgrad_sm90_sums sums = {p->results, p->channels, p->taps, p->taps * PRODUCTS, p->workspace};
  return falt_wgrad_sm90_cut(t, m, &sums, waves);
}

/* As measured on an H200: products for 16 pixels take 288 cycles, and wait for shared memory, which copies fill. */
static void estimate(const falt_wgrad_sm90_nchw_problem *p, const falt_machine *m, falt_wgrad_sm90_tile *t) {
  const double step = p->unit < 8 ? 460 : 400, between = 700; /* cycles for 16 pixels; from stage to stage */
  const double stage = (double)groups_of(p, t) / 2 * step + between;
  const double waves = ceil((double)t->grid / m->multiprocessors), each = ceil((double)t->items / t->split_k);
  const double compute = waves * (each * stage + 6000) / m->clock_hz;
  const double tiles = (double)t->row_tiles * t->column_tiles * (double)p->taps;
  const double bytes = 2.0 * (double)(p->images * p->depth * p->height * p->width);
  const double once = bytes * (double)(p->channels + p->results);
  const double again = bytes * 2 * FALT_PLANES_SPAN * tiles - once;
  t->seconds = falt_wgrad_sm90_seconds(m, compute, once, again, (double)t->workspace);
}

/* ---- all tiles: the search of the halo kernel has the same lines for other fields */

void falt_wgrad_sm90_nchw_each(const falt_wgrad_sm90_nchw_problem *p, const falt_machine *m, falt_tile_search *search) {
  for (int rows = 1; rows <= MOST_ROWS; rows++)
    for (int waves = 1; waves <= MOST_WAVES; waves++) {
      falt_wgrad_sm90_tile t = {.height = rows};
      t.rejected = fit(p, m, &t);
      if (!t.rejected) t.rejected = count(p, m, waves, &t);
      if (!t.rejected) estimate(p, m, &t);
      falt_tile_offer(search, &t, t.rejected, t.seconds);
    }
}

bool falt_wgrad_sm90_nchw_choose(const falt_wgrad_sm90_nchw_problem *problem, const falt_machine *machine,
                                 falt_wgrad_sm90_tile *best) {
  falt_tile_search search = falt_tile_search_best(best, sizeof *best);
  falt_wgrad_sm90_nchw_each(problem, machine, &search);
  return search.found;
}
