/* Tile search of cuda_grouped.cu: enumerates the tiles that fit, and keeps the one with the smallest estimated time. */
#include "solver/cuda/igemm_sm80/cuda_grouped_tiles.h"

#include <math.h>

#include "core/memory.h"

enum {
  MOST_WARPS = 8,
  MOST_REGISTERS = 248,
  MOST_HEIGHT = 16,
  MOST_PIXELS = 1024,
  MOST_PRODUCTS = 1024 /* of a band, which the compiler unrolls */
};

/* ---- sizes, as the kernel has them */

/* Pieces (16 bytes of a pixel) of a tap row. */
static int64_t pieces_of(const falt_grouped_shape *s) {
  return s->taps[1] * (s->depth / 8);
}

/* Groups that the 16 channels of a warp belong to. */
static int64_t sets_of(const falt_grouped_shape *s) {
  return s->rows % 16 ? 2 : 1;
}

/* Lines of outputs that a line of the source is part of. */
static int64_t live_of(const falt_grouped_shape *s) {
  return falt_ceil_div(s->taps[0], s->stride[0]);
}

static int64_t chunks_of(const falt_grouped_shape *s, const falt_grouped_tile *t) {
  return falt_ceil_div(16 * t->warps_c, s->rows) * (s->depth / 8);
}

static int64_t window_pixels(const falt_grouped_shape *s, const falt_grouped_tile *t) {
  const int64_t height = (t->height - 1) * s->stride[0] + s->taps[0];
  return height * ((t->width - 1) * s->stride[1] + (s->taps[1] - 1) * s->dilation + 1);
}

static int64_t shared_of(const falt_grouped_shape *s, const falt_grouped_tile *t) {
  return t->stages * window_pixels(s, t) * (chunks_of(s, t) | 1) * 16;
}

/* Taps, sums, a line, and the rest as seen on compiled kernels. */
static int64_t fitted_registers(const falt_grouped_shape *s) {
  const int64_t pieces = pieces_of(s), line = sets_of(s) * (pieces / 2) * 4 + pieces % 2 * 4;
  const int64_t merged = s->own_rows == s->rows ? 0 : s->rows == 8 ? 6 : 32, ways = s->rows % 16 == 8 && s->rows > 8;
  return s->taps[0] * pieces * 2 + live_of(s) * 8 + line + 36 + merged + ways * 8 + (s->finish ? 24 : 0);
}

static int64_t blocks_of(const falt_grouped_shape *s, const falt_machine *m, const falt_grouped_tile *t) {
  const int64_t by_registers = falt_blocks_by_quarters(t->warps_c * t->warps_p, fitted_registers(s));
  return falt_min(falt_min(by_registers, falt_blocks_by_shared(m, t->shared_bytes)), 8);
}

static int64_t band_products(const falt_grouped_shape *s, const falt_grouped_tile *t) {
  return t->height / t->bands * s->taps[0] * 2 * falt_ceil_div(pieces_of(s), 2);
}

const char *falt_grouped_refusal(const falt_grouped_shape *s) {
  return s->depth % 8 || s->rows % 8            ? "channels of a group do not come by 8"
         : fitted_registers(s) > MOST_REGISTERS ? "registers do not hold the taps"
                                                : NULL;
}

void falt_grouped_defines(falt_cuda_kernel *kernel, const falt_grouped_shape *s, const falt_grouped_tile *t) {
  const falt_cuda_named_define defines[] = {
      {"TAPS_R", s->taps[0]},    {"TAPS_S", s->taps[1]},  {"STRIDE_R", s->stride[0]}, {"STRIDE_S", s->stride[1]},
      {"DILATE_S", s->dilation}, {"DEPTH", s->depth / 8}, {"ROWS", s->rows},          {"OWN_DEPTH", s->own_depth},
      {"OWN_ROWS", s->own_rows}, {"TILE_H", t->height},   {"TILE_W", t->width},       {"BANDS", t->bands},
      {"WARPS_C", t->warps_c},   {"WARPS_P", t->warps_p}, {"STAGES", t->stages},      {"BLOCKS", t->blocks}};
  falt_cuda_defines(kernel, defines, sizeof defines / sizeof *defines);
}

/* ---- estimate */

/* All costs here are fitted to 54 timings of 12 layers on an H200. Blocks of fewer than 64 channels move parts of the
 * lines that memory has. */
static double memory_share(const falt_grouped_shape *s, const falt_grouped_tile *t) {
  if (t->warps_c >= 4 || 16 * t->warps_c >= s->results) return 0.9;
  return t->warps_c >= 2 ? 0.8 : 0.6;
}

/* Cycles of a multiprocessor for one tile of one block: of its tensor cores, of shared memory, of issue, of L2 copies;
 * or of the block's busiest warp alone, if other warps do not fill the time. */
static double tile_cycles(const falt_grouped_shape *s, const falt_grouped_tile *t) {
  const double all = (double)falt_ceil_div(t->width, 16) * t->bands, warps = t->warps_c * t->warps_p;
  const double mine = ceil(all / t->warps_p), items = mine * warps; /* items: as if all warps were as busy */
  const int64_t band = t->height / t->bands, pieces = pieces_of(s), loads = sets_of(s) * (pieces / 2) + pieces % 2;
  const double lines = (double)((band + live_of(s) - 1) * s->stride[0]), results = (double)band;
  const double products = results * (double)s->taps[0] * 2 * (double)falt_ceil_div(pieces, 2);
  const double walk = products + lines * ((double)loads + 2) + results * 60 + 80; /* instructions */
  const double copies = (double)(window_pixels(s, t) * chunks_of(s, t)), each = ceil(copies / (warps * FALT_WARP)) * 16;
  const double tensor = items * products * 9 / 4, shared = items * (lines * (double)loads * 4 + results * 6);
  const double issued = (items * walk + each * warps) / 4, copied = copies * 16 / (27 * memory_share(s, t));
  const double alone = (mine * walk + each) * 3.5 + (t->stages == 2 ? 600 : 1500 + copied);
  const double most = fmax(fmax(tensor, shared), fmax(issued, copied));
  return fmax(0.6 * most + 0.4 * (tensor + shared + issued + copied), alone / t->blocks);
}

static void estimate(const falt_grouped_shape *s, const falt_machine *m, falt_grouped_tile *t) {
  const double slots = (double)m->multiprocessors * t->blocks, all = (double)t->parts * (double)t->tiles;
  const double rounds = ceil(all / slots), most = fmin(rounds * t->blocks, ceil(all / m->multiprocessors));
  const double start = 1500 + 40 * (double)(s->taps[0] * pieces_of(s));
  const double compute = (most * tile_cycles(s, t) + start) / m->clock_hz;
  const double memory = s->bytes / (memory_share(s, t) * m->bytes_per_s);
  const double waits = (t->stages == 1 ? 0.25 : 0.08) / t->blocks; /* of a block for its window, and at its ends */
  t->seconds = (fmax(compute, memory) + 0.2 * fmin(compute, memory)) * (1 + waits) + 2.6e-6;
}

/* ---- tiles */

typedef struct visitor {
  const falt_grouped_shape *shape;
  const falt_machine *machine;
  falt_tile_search *search;
} visitor;

/* With all but its stages and blocks chosen. */
static void visit_stages(const visitor *v, falt_grouped_tile t) {
  const falt_grouped_shape *s = v->shape;
  t.parts = falt_ceil_div(s->results, 16 * t.warps_c);
  t.tiles = s->images * falt_ceil_div(s->out[0], t.height) * falt_ceil_div(s->out[1], t.width);
  if (t.tiles >= INT32_MAX / 2) return;
  for (t.stages = 1; t.stages <= 2; t.stages++) {
    const int64_t shared = shared_of(s, &t);
    if (shared > v->machine->arch->block_shared) break;
    t.shared_bytes = (int)shared;
    t.blocks = (int)blocks_of(s, v->machine, &t);
    if (t.blocks < 1) continue;
    t.grid = t.parts * falt_min(falt_max((int64_t)v->machine->multiprocessors * t.blocks / t.parts, 1), t.tiles);
    estimate(s, v->machine, &t);
    falt_tile_offer(v->search, &t, NULL, t.seconds);
  }
}

static void visit_warps(const visitor *v, falt_grouped_tile t) {
  const falt_grouped_shape *s = v->shape;
  const int64_t columns = falt_ceil_div(t.width, 16);
  for (t.warps_c = 1; t.warps_c <= MOST_WARPS; t.warps_c++) {
    const int64_t span = 16 * t.warps_c;
    if ((span % s->rows && s->rows % span && s->results > s->rows) || (t.warps_c > 1 && span - 16 >= s->results))
      continue;
    for (t.warps_p = 1; t.warps_p * t.warps_c <= MOST_WARPS && t.warps_p <= columns * t.bands; t.warps_p *= 2)
      visit_stages(v, t);
  }
}

static void visit_height(const visitor *v, falt_grouped_tile t) {
  for (t.bands = 1; t.bands <= 4; t.bands *= 2)
    if (t.height % t.bands == 0 && band_products(v->shape, &t) <= MOST_PRODUCTS) visit_warps(v, t);
}

void falt_grouped_each(const falt_grouped_shape *s, const falt_machine *m, falt_tile_search *search) {
  const visitor v = {s, m, search};
  const int64_t most = falt_ceil_div(s->out[1], MOST_PIXELS) + 63;
  for (int64_t width = MOST_PIXELS + 1; (width = falt_piece_below(s->out[1], most, width)) > 0;)
    for (int64_t height = MOST_HEIGHT + 1; (height = falt_piece_below(s->out[0], s->out[0], height)) > 0;) {
      if (height * width > MOST_PIXELS) continue;
      if (height * width < 16 && height < s->out[0]) break;
      visit_height(&v, (falt_grouped_tile){.height = (int)height, .width = (int)width});
    }
}

bool falt_grouped_choose(const falt_grouped_shape *s, const falt_machine *m, falt_grouped_tile *best) {
  falt_tile_search search = falt_tile_search_best(best, sizeof *best);
  if (!falt_grouped_refusal(s)) falt_grouped_each(s, m, &search);
  return search.found;
}
