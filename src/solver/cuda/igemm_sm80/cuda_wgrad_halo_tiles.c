/* Tile search of cuda_wgrad_halo.cu: enumerates the tiles that fit, and keeps the one with the smallest estimated time.
 */
#include "solver/cuda/igemm_sm80/cuda_wgrad_halo_tiles.h"

#include <math.h>

#include "core/memory.h"

enum {
  MOST_WARPS = 16,
  MOST_PER = 9,
  MOST_SUMS = 136,
  MOST_PIXELS = 256,
  FEWEST_PIXELS = 32,
  MOST_SPLIT_K = 65535,
  STAGES = 2
};

/* ---- sizes, as the kernel has them */

static int across(const falt_wgrad_halo_shape *s, const falt_wgrad_halo_tile *t) {
  return s->run ? (int)falt_ceil_div(s->taps[2] * s->channels, 8) : t->channels / 16;
}

static int column_blocks(const falt_wgrad_halo_shape *s, const falt_wgrad_halo_tile *t) {
  return t->taps_r * (s->run ? 1 : (int)s->taps[2]) * across(s, t);
}

/* Whether a row of x is loaded once for all rows of taps. */
static bool is_rolling(const falt_wgrad_halo_shape *s, const falt_wgrad_halo_tile *t) {
  return !s->run && t->taps_r > s->stride[1] && s->dilation[1] == 1;
}

static int slices(const falt_wgrad_halo_tile *t) {
  return (t->height * t->width + 15) / 16;
}

static int64_t window_along(const falt_wgrad_halo_shape *s, int axis, int64_t tile, int64_t taps) {
  return (tile - 1) * s->stride[axis] + (taps - 1) * s->dilation[axis] + 1;
}

/* The source's part of a stage. */
static int64_t window_bytes(const falt_wgrad_halo_shape *s, const falt_wgrad_halo_tile *t) {
  const int64_t height = window_along(s, 1, t->height, t->taps_r), width = window_along(s, 2, t->width, s->taps[2]);
  if (!s->run) return height * width * (t->slabs * t->channels * 2 + 16);
  return height * (falt_ceil_div(width * s->channels * 2 + 2 * s->unit, 16) * 16);
}

/* Rows in pairs, and the elements behind them that the last pixel's unused columns read. */
static int64_t pairs_bytes(const falt_wgrad_halo_shape *s, const falt_wgrad_halo_tile *t) {
  if (!s->run) return 0;
  return ((window_along(s, 1, t->height, t->taps_r) - s->stride[1]) * window_along(s, 2, t->width, s->taps[2]) *
              s->channels +
          8) *
         4;
}

/* Where a tile's products find their factors. */
static int places_bytes(const falt_wgrad_halo_shape *s, const falt_wgrad_halo_tile *t) {
  return is_rolling(s, t) ? 0 : slices(t) * 16 * 8;
}

static int64_t shared_of(const falt_wgrad_halo_shape *s, const falt_wgrad_halo_tile *t) {
  return STAGES * (slices(t) * 16 * (t->slabs * t->mr * 32 + 16) + window_bytes(s, t)) + pairs_bytes(s, t);
}

/* Sums, a slice's rows, places of columns, and the rest as seen on compiled kernels. */
static int sums_of(const falt_wgrad_halo_shape *s, const falt_wgrad_halo_tile *t) {
  return t->per * t->mr * (s->run ? 4 : 8);
}

static int fitted_registers(const falt_wgrad_halo_shape *s, const falt_wgrad_halo_tile *t) {
  return sums_of(s, t) + 4 * t->mr * (is_rolling(s, t) ? t->taps_r : 1) + (s->biased ? 4 * t->mr + 80 : 48);
}

static int blocks_of(const falt_wgrad_halo_shape *s, const falt_machine *m, const falt_wgrad_halo_tile *t) {
  const int64_t by_registers = falt_blocks_by_quarters(t->warps, fitted_registers(s, t));
  return (int)falt_min(by_registers, falt_blocks_by_shared(m, t->shared_bytes + places_bytes(s, t)));
}

int64_t falt_wgrad_halo_tiles(const falt_wgrad_halo_shape *s, const falt_wgrad_halo_tile *t) {
  return s->images * s->out[0] * falt_ceil_div(s->out[1], t->height) * falt_ceil_div(s->out[2], t->width);
}

int64_t falt_wgrad_halo_columns(const falt_wgrad_halo_shape *s) {
  return s->taps[0] * s->taps[1] * s->taps[2] * s->channels + (s->biased ? 2 : 0);
}

void falt_wgrad_halo_parts(const falt_wgrad_halo_shape *s, const falt_wgrad_halo_tile *t, int64_t parts[5]) {
  parts[0] = s->taps[0];
  parts[1] = falt_ceil_div(s->taps[1], t->taps_r);
  parts[2] = s->run ? 1 : falt_ceil_div(s->channels, t->channels);
  parts[3] = falt_ceil_div(s->rows, 16 * t->mr);
  parts[4] = s->groups / t->slabs;
}

void falt_wgrad_halo_defines(falt_cuda_kernel *kernel, const falt_wgrad_halo_shape *s, const falt_wgrad_halo_tile *t) {
  const falt_cuda_named_define defines[] = {{"BIASED", s->biased},
                                            {"RUN", s->run},
                                            {"UNIT", s->unit},
                                            {"TAPS_R", t->taps_r},
                                            {"TAPS_S", s->taps[2]},
                                            {"STRIDE_R", s->stride[1]},
                                            {"STRIDE_S", s->stride[2]},
                                            {"DILATE_R", s->dilation[1]},
                                            {"DILATE_S", s->dilation[2]},
                                            {"TILE_H", t->height},
                                            {"TILE_W", t->width},
                                            {"MR", t->mr},
                                            {"CHANNELS", t->channels},
                                            {"SLABS", t->slabs},
                                            {"WARPS", t->warps},
                                            {"PER", t->per},
                                            {"BLOCKS", t->blocks}};
  falt_cuda_defines(kernel, defines, sizeof defines / sizeof *defines);
}

/* ---- estimate */

/* Cycles of the tensor cores for all products of a tile, the busiest quarter's. */
static double product_cycles(const falt_wgrad_halo_shape *s, const falt_machine *m, const falt_wgrad_halo_tile *t) {
  const double quarters = (t->warps * t->blocks + 3) / 4 * 4.0 / (t->warps * t->blocks);
  return quarters * slices(t) * t->warps * t->per * t->mr * (s->run ? 1 : 2) * 4096 / falt_mma_bytes(m, 2);
}

/* The cost of loading bytes if a block takes `part` of a pixel's `all` bytes: accesses of less than a 128-byte line
 * cost more. */
static double fetched(double bytes, double part, double all) {
  return bytes * (part >= fmin(128, all) ? 1 : part >= 64 ? 1.15 : 1.6);
}

/* Cycles of a multiprocessor for one tile of one block where a row of x is loaded once for all rows of taps: as fitted
 * to tiles measured on an H200. */
static double rolling_cycles(const falt_wgrad_halo_shape *s, const falt_machine *m, const falt_wgrad_halo_tile *t) {
  const double products = product_cycles(s, m, t), strips = (double)t->per / t->taps_r, pixels = slices(t) * 16;
  const double half = t->height / 2.0, conflicts = s->stride[2] % 2 ? 1 : 2;
  const double x_rows = ((half - 1) * (double)s->stride[1] + t->taps_r) / half; /* that are loaded for a row of y */
  const double loads = slices(t) * t->warps * 4 * (t->mr + strips * x_rows * conflicts); /* of shared memory */
  const double y = t->slabs * t->mr * 32, x = t->slabs * t->channels * 2, groups = (double)s->groups;
  const double window =
      (double)window_along(s, 1, t->height, t->taps_r) * (double)window_along(s, 2, t->width, s->taps[2]);
  const double copied = (fetched(pixels * y, y, groups * (double)s->rows * 2) +
                         fetched(window * x, x, groups * (double)s->channels * 2)) /
                        28;
  const double waited = t->blocks > 1 ? 300 : 1200; /* by all concurrent blocks */
  const double apart = waited + 14 * (pixels * y + window * x) / 16 / FALT_WARP / 4 / t->blocks;
  const double few = 0.6 / (t->warps * t->blocks); /* warps, which wait for their loads */
  return (fmax(fmax(products, loads), copied) + 0.3 * (products + loads) + apart) * (1 + few);
}

/* Cycles of a multiprocessor for one tile of one block: of its tensor cores, of shared memory, of issue, and of L2
 * copies. The measured time on an H200 is longer than the sum: by a fifth, for runs by far more. */
static double still_cycles(const falt_wgrad_halo_shape *s, const falt_machine *m, const falt_wgrad_halo_tile *t) {
  const double slice_products = (double)t->warps * t->per * t->mr * (s->run ? 1 : 2), all = slices(t);
  const double products = product_cycles(s, m, t);
  const double loads = all * t->warps * (t->mr * 4.0 + t->per * (s->run ? 2 : 4));
  const double y_bytes = all * 16 * t->slabs * t->mr * 32, x_bytes = (double)window_bytes(s, t);
  const double pieces = y_bytes / 16 + x_bytes / s->unit;
  const double issued = all * (slice_products + t->warps * (t->mr + t->per * (s->run ? 4 : 2) + 8)) +
                        14 * pieces / FALT_WARP + 3 * (double)pairs_bytes(s, t) / FALT_WARP;
  const double copied = (y_bytes + x_bytes) / 24, apart = (1200 + 14 * pieces / FALT_WARP / 4) / t->blocks;
  const double beside = 0.15 * (products + loads) + 0.3 * copied;
  const double few = s->run ? 0 : 0.6 / (t->warps * t->blocks); /* warps, which wait for their loads */
  return (fmax(fmax(products, loads), fmax(issued / 4, copied)) + beside + apart) * (1 + few) * (s->run ? 1.5 : 1);
}

/* Split-K slices such that the blocks fill the machine once or a few times, within the workspace. */
static void cut(const falt_wgrad_halo_shape *s, const falt_machine *m, falt_wgrad_halo_tile *t) {
  const int64_t tiles = falt_wgrad_halo_tiles(s, t), slots = (int64_t)m->multiprocessors * t->blocks;
  const int64_t bytes = s->groups * s->rows * falt_wgrad_halo_columns(s) * 4;
  const bool rolling = is_rolling(s, t);
  const double one = rolling ? rolling_cycles(s, m, t) : still_cycles(s, m, t);
  t->seconds = HUGE_VAL;
  for (int waves = 1; waves <= 4; waves++) {
    falt_wgrad_halo_tile cut = *t;
    int64_t split_k = falt_min(falt_min(slots * waves / t->parts, tiles), MOST_SPLIT_K);
    if (s->workspace >= 0) split_k = falt_min(split_k, s->workspace / bytes);
    if (split_k < 1) split_k = 1;
    cut.slice_tiles = falt_ceil_div(tiles, split_k);
    cut.split_k = falt_ceil_div(tiles, cut.slice_tiles);
    cut.workspace = cut.split_k * bytes;
    const double per = ceil((double)cut.split_k * (double)t->parts / (double)slots) * t->blocks;
    const double busy = fmin(per, ceil((double)cut.split_k * (double)t->parts / m->multiprocessors));
    const double compute = (busy * (double)cut.slice_tiles * one + 4000 * waves) / m->clock_hz;
    const double memory = s->bytes / (0.85 * m->bytes_per_s), sums = 2 * (double)cut.workspace / m->bytes_per_s;
    cut.seconds = fmax(compute, memory) + 0.2 * fmin(compute, memory) + sums + 2e-6;
    if (cut.seconds < t->seconds) *t = cut;
  }
}

/* ---- tiles */

typedef struct visitor {
  const falt_wgrad_halo_shape *shape;
  const falt_machine *machine;
  falt_tile_search *search;
} visitor;

/* With all but its pixels chosen. */
static void visit_pixels(const visitor *v, falt_wgrad_halo_tile t) {
  const falt_wgrad_halo_shape *s = v->shape;
  const bool rolling = is_rolling(s, &t);
  const int step = s->run || rolling ? 2 : 1;
  int64_t parts[5];
  int before = 0;
  falt_wgrad_halo_parts(s, &t, parts);
  t.parts = parts[0] * parts[1] * parts[2] * parts[3] * parts[4];
  for (int across = 1; across <= 64; across++) {
    t.width = (int)(rolling ? 8 * across : falt_ceil_div(s->out[2], across));
    if (t.width > MOST_PIXELS / step) continue;
    if (t.width == before || (rolling ? t.width >= s->out[2] + 8 : t.width * across > 2 * s->out[2])) break;
    before = t.width;
    for (t.height = step; t.height * t.width <= MOST_PIXELS; t.height += step) {
      if (t.height >= s->out[1] + step) break;
      if (t.height * t.width < FEWEST_PIXELS && t.height < s->out[1]) continue;
      const int64_t shared = shared_of(s, &t);
      if (shared + places_bytes(s, &t) > v->machine->arch->block_shared) break;
      t.shared_bytes = (int)shared;
      t.blocks = (int)falt_min(blocks_of(s, v->machine, &t), 8);
      if (t.blocks < 1) continue;
      cut(s, v->machine, &t);
      falt_tile_offer(v->search, &t, NULL, t.seconds);
    }
  }
}

static void visit_warps(const visitor *v, falt_wgrad_halo_tile t) {
  const int blocks = column_blocks(v->shape, &t);
  for (t.per = 1; t.per <= MOST_PER; t.per++) {
    t.warps = (blocks + t.per - 1) / t.per * t.slabs;
    if (t.warps > MOST_WARPS || sums_of(v->shape, &t) > MOST_SUMS) continue;
    if (is_rolling(v->shape, &t) && t.per % t.taps_r) continue;
    visit_pixels(v, t);
  }
}

/* Rows and channels of a group: several whole groups if they are small, else parts of one. */
static void visit_channels(const visitor *v, falt_wgrad_halo_tile t) {
  const falt_wgrad_halo_shape *s = v->shape;
  const int64_t by_rows = falt_ceil_div(s->rows, 16), by_channels = s->run ? 1 : falt_ceil_div(s->channels, 16);
  for (t.mr = 1; t.mr <= 4; t.mr *= 2) {
    if (t.mr > 1 && t.mr / 2 >= by_rows) break;
    for (int wide = 1; wide <= 4; wide *= 2) {
      if (wide > 1 && (s->run || wide / 2 >= by_channels)) break;
      t.channels = s->run ? (int)s->channels : 16 * wide;
      for (t.slabs = 1; t.slabs <= 4; t.slabs *= 2) {
        if (t.slabs > 1 && (s->run || by_rows > t.mr || by_channels > wide || s->groups % t.slabs)) break;
        visit_warps(v, t);
      }
    }
  }
}

void falt_wgrad_halo_each(const falt_wgrad_halo_shape *s, const falt_machine *m, falt_tile_search *search) {
  const visitor v = {s, m, search};
  for (int64_t taps = s->taps[1] + 1; (taps = falt_piece_below(s->taps[1], s->taps[1], taps)) > 0;)
    visit_channels(&v, (falt_wgrad_halo_tile){.taps_r = (int)taps});
}

bool falt_wgrad_halo_choose(const falt_wgrad_halo_shape *s, const falt_machine *m, falt_wgrad_halo_tile *best) {
  falt_tile_search search = falt_tile_search_best(best, sizeof *best);
  falt_wgrad_halo_each(s, m, &search);
  return search.found;
}
