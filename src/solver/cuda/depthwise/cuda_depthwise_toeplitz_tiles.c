/* Tile search of cuda_depthwise_toeplitz.cu: enumerates the tiles that fit, and keeps the one with the smallest
 * estimated time. */
#include "solver/cuda/depthwise/cuda_depthwise_toeplitz_tiles.h"

#include <math.h>

#include "core/memory.h"

enum {
  MOST_REGISTERS = 232,
  MOST_PIXELS = 7,      /* pairs of them that a thread has in flight; nine were slower */
  MOST_PRODUCTS = 1024, /* of a walk, which the compiler unrolls */
  MOST_SEGMENT = 32,    /* rows: a bit each in a word */
  MOST_COLUMNS = 8192,
  MOST_TAPS = 64
};

typedef falt_depthwise_toeplitz_shape shape;
typedef falt_depthwise_toeplitz_tile tile;

/* ---- sizes, as the kernel has them */

typedef struct columns {
  int64_t windows, leading, octets, width, pitch; /* of a row; zeros before it; of a window; columns that windows read;
                                                   * bytes */
} columns;

static columns columns_of(const shape *s) {
  columns c = {.windows = falt_ceil_div(s->out[1], 8), .leading = falt_round_up(s->pad[1], 4)};
  c.leading -= 8 * falt_max(0, c.leading / 8 - c.windows + 1);
  c.octets = falt_min(falt_ceil_div(7 + s->taps[1] + c.leading - s->pad[1], 8), falt_ceil_div(s->in[1] + c.leading, 8));
  const int64_t needed = 8 * (c.windows - 1 + c.octets) - c.leading;
  c.width = falt_min(s->in[1], needed);
  c.pitch = falt_ceil_div(falt_max(c.width + c.leading, needed), 8) * 16;
  return c;
}

/* Of a slab. */
typedef struct rows {
  int64_t segments, reach, count; /* reach: rows that a segment reads */
} rows;

static rows rows_of(const shape *s, const tile *t) {
  rows r = {.segments = falt_ceil_div(t->slab, t->segment), .reach = t->segment + s->taps[0] - 1};
  if (r.segments == 1 && t->slab >= s->out[0])
    r.reach = falt_min(r.reach, s->pad[0] + s->in[0]) - s->pad[0]; /* without the zeros around an image */
  r.count = (r.segments - 1) * t->segment + r.reach;
  return r;
}

static int64_t continued_at(int64_t bytes, int64_t windows) {
  return bytes + ((windows * 16 - bytes) % 128 + 128) % 128;
}

static int64_t channels_bytes(const tile *t, int64_t bytes) {
  return t->span * bytes + (t->span < 8 ? 0 : 128);
}

/* Groups of 16 windows that a channel has in a tile. */
static int64_t groups_of(const shape *s, const tile *t) {
  return falt_ceil_div(t->images * rows_of(s, t).segments * columns_of(s).windows, 16);
}

/* Whether outputs take the place of pixels. */
static bool is_in_place(const shape *s, const tile *t) {
  const rows r = rows_of(s, t);
  return s->inner && groups_of(s, t) == 1 && (s->out[1] + 1) / 2 <= (columns_of(s).width + 1) / 2 &&
         r.segments * t->segment <= r.count;
}

static int64_t shared_of(const shape *s, const tile *t) {
  const columns c = columns_of(s);
  const rows r = rows_of(s, t);
  const int64_t skew = continued_at(t->segment * c.pitch, c.windows) - t->segment * c.pitch;
  const int64_t image = continued_at(r.count * c.pitch + r.count / t->segment * skew, r.segments * c.windows);
  const int64_t stage = channels_bytes(t, t->images * image) + c.octets * 16;
  const int64_t results = channels_bytes(t, t->segment * continued_at(groups_of(s, t) * 256, c.windows));
  return t->stages * stage + (is_in_place(s, t) ? 0 : results);
}

/* Pairs of pixels that a thread has in flight where channels are contiguous. */
static int64_t pixels_of(const shape *s, const tile *t) {
  if (!s->inner) return 0;
  const int64_t across = falt_ceil_div(columns_of(s).width, 2) * t->span / 8, together = FALT_WARP * t->warps / across;
  return together ? falt_ceil_div(t->images * rows_of(s, t).count, together) : INT32_MAX;
}

/* Channels of a warp whose Toeplitz matrices stay in registers. */
static int64_t kept_of(const shape *s, const tile *t) {
  const int64_t each = t->span == 1 ? 1 : t->span / t->warps, words = s->taps[0] * columns_of(s).octets;
  return each * words <= 32 ? each : 1;
}

/* Registers: Toeplitz matrices, accumulators of open rows, a row, outputs to be stored; or pixels in flight; the rest
 * as seen on compiled kernels. */
static int64_t fitted_registers(const shape *s, const tile *t) {
  const int64_t octets = columns_of(s).octets, met = falt_min(s->taps[0], rows_of(s, t).reach + t->segment - 1);
  const int64_t summed = falt_min(t->segment, s->taps[0]);
  const int64_t waiting = is_in_place(s, t) ? (t->segment - summed) * 5 / 2 : 0;
  const int64_t kept = (kept_of(s, t) - 1) * s->taps[0] * octets;
  const int64_t walk = met * octets * 8 / 5 + summed * 4 + 2 * octets + waiting + kept + (s->finish ? 8 : 0);
  return (s->inner ? 26 : 36) + falt_max(walk, 8 * pixels_of(s, t) + 20);
}

static int64_t products_of(const shape *s, const tile *t) {
  return t->segment * falt_min(s->taps[0], rows_of(s, t).reach) * falt_ceil_div(columns_of(s).octets, 2);
}

static int blocks_of(const shape *s, const falt_machine *m, const tile *t) {
  const int64_t by_registers = falt_blocks_by_quarters(t->warps, fitted_registers(s, t));
  return (int)falt_min(falt_min(by_registers, falt_blocks_by_shared(m, t->shared_bytes)), 16);
}

const char *falt_depthwise_toeplitz_refusal(const shape *s) {
  for (int i = 0; i < 2; i++)
    if (s->pad[i] < 0 || s->pad[i] >= s->taps[i] || s->taps[i] > MOST_TAPS)
      return "pads are negative or as long as the taps, or there are too many of these";
  return s->in[1] > MOST_COLUMNS || s->out[1] > MOST_COLUMNS ? "rows are too long" : NULL;
}

void falt_depthwise_toeplitz_defines(falt_cuda_kernel *kernel, const shape *s, const tile *t) {
  const falt_cuda_named_define defines[] = {
      {"TAPS_R", s->taps[0]}, {"TAPS_S", s->taps[1]}, {"PAD_R", s->pad[0]},      {"PAD_S", s->pad[1]},
      {"IN_H", s->in[0]},     {"IN_W", s->in[1]},     {"OUT_H", s->out[0]},      {"OUT_W", s->out[1]},
      {"INNER", s->inner},    {"BATCH", s->images},   {"CHANNELS", s->channels}, {"UNIT_Y", s->y_align},
      {"SPAN", t->span},      {"IMAGES", t->images},  {"SLAB", t->slab},         {"SEGMENT", t->segment},
      {"WARPS", t->warps},    {"STAGES", t->stages},  {"BLOCKS", t->blocks}};
  falt_cuda_defines(kernel, defines, sizeof defines / sizeof *defines);
  falt_cuda_define(kernel, "UNIT_X=%d", (int)(columns_of(s).leading % 8 ? falt_min(s->x_align, 4) : s->x_align));
}

/* ---- estimate */

/* Products of a walk: each row of windows with each of its tap rows. */
static double walk_products(const shape *s, const tile *t) {
  const rows r = rows_of(s, t);
  const int64_t top = r.segments == 1 && t->slab >= s->out[0] ? s->pad[0] : 0;
  int64_t met = 0;
  for (int64_t i = top; i < top + r.reach; i++)
    met += falt_min(i, t->segment - 1) - falt_max(i - s->taps[0] + 1, 0) + 1;
  return (double)met * (double)columns_of(s).octets / 2;
}

/* Instructions of all warps that move a tile in and out. */
static double copy_instructions(const shape *s, const tile *t) {
  const double in = (double)(t->images * rows_of(s, t).count * s->in[1] * t->span);
  const double out = (double)(t->images * t->slab * s->out[1] * t->span);
  if (s->inner) return (in + out) / 16 / FALT_WARP * 50;
  return (in / (double)falt_min(s->x_align, 4) + out / s->y_align) * 20 / FALT_WARP;
}

static double memory_seconds(const shape *s, const falt_machine *m, const tile *t) {
  const double twice = t->slab < s->out[0] ? (double)rows_of(s, t).count / t->slab - 1 : 0; /* rows of several slabs */
  const double in = (double)(s->in[0] * s->in[1]) * (1 + twice / 2), out = (double)(s->out[0] * s->out[1]);
  return 2 * (double)s->images * (double)s->channels * (in + out) / (0.85 * m->bytes_per_s);
}

/* Fitted to 67 timings of 12 layers on an H200. At most three fifths of the issue slots are used. Pieces of 16 or 32
 * bytes take as many requests to memory as those of 64. In NHWC the loads and stores of a block do not overlap, which
 * costs time for single images. */
static void estimate(const shape *s, const falt_machine *m, tile *t) {
  const double products = walk_products(s, t), groups = (double)groups_of(s, t) * t->span;
  const bool known = t->span == 1 || kept_of(s, t) == t->span / t->warps; /* bands are not loaded for each tile */
  const double walk = products * 1.1 + (double)rows_of(s, t).reach + t->segment * 8.0 + (known ? 60 : 200);
  const double issue = (groups * walk + copy_instructions(s, t)) / 0.6, tensor = groups * products * 5;
  const double rounds = ceil((double)t->tiles / (double)t->grid) * (double)t->grid;
  const double idle = s->inner ? 1 : (double)falt_round_up(groups_of(s, t), t->warps) / groups;
  const double busy = fmin(1, 0.3 + t->warps * t->blocks / 24.0);
  const double compute = rounds / m->multiprocessors * fmax(issue, tensor) * idle / busy / 4 / m->clock_hz;
  const double memory = memory_seconds(s, m, t);
  const double transposed = !s->inner       ? 1
                            : t->span == 8  ? 2.5
                            : t->span == 16 ? 1.32
                                            : 1.04,
               alone = s->inner ? 7.3e-6 : 4e-6;
  const double waits = 0.88 + 0.06 * t->stages + 0.06 / t->warps + (s->inner ? 0.1 : 0.2 / t->blocks);
  t->seconds = (fmax(compute, memory) + 0.4 * fmin(compute, memory)) * transposed * waits + alone;
}

/* ---- tiles */

typedef struct visitor {
  const shape *shape;
  const falt_machine *machine;
  falt_tile_search *search;
} visitor;

/* With all but its stages, warps and blocks chosen. */
static void visit_warps(const visitor *v, tile t) {
  const shape *s = v->shape;
  const int64_t work = groups_of(s, &t);
  t.parts = falt_ceil_div(s->channels, t.span);
  const double tiles =
      (double)t.parts * (double)falt_ceil_div(s->images, t.images) * (double)falt_ceil_div(s->out[0], t.slab);
  if (tiles >= INT32_MAX / 2) return;
  t.tiles = (int64_t)tiles;
  for (t.stages = 1; t.stages <= (s->inner ? 1 : 2); t.stages++)
    for (t.warps = s->inner ? 8 : 1;
         t.warps <= (s->inner ? falt_min(t.span, 16) : 8) && (s->inner || t.warps / 2 < work); t.warps *= 2) {
      const int64_t shared = shared_of(s, &t);
      if (shared > v->machine->arch->block_shared) return;
      t.shared_bytes = (int)shared;
      t.blocks = blocks_of(s, v->machine, &t);
      if (t.blocks < 1 || fitted_registers(s, &t) > MOST_REGISTERS || pixels_of(s, &t) > MOST_PIXELS) continue;
      t.grid = falt_min(t.tiles, (int64_t)v->machine->multiprocessors * t.blocks);
      if (s->inner && t.grid > t.parts) t.grid -= t.grid % t.parts; /* a block keeps its channels */
      estimate(s, v->machine, &t);
      falt_tile_offer(v->search, &t, NULL, t.seconds);
    }
}

static void visit_images(const visitor *v, tile t) {
  for (t.images = 1; t.images <= 128 && (t.images == 1 || t.images / 2 < v->shape->images); t.images *= 2)
    visit_warps(v, t);
}

/* Slabs of whole segments; several images only where one is not cut. */
static void visit_slabs(const visitor *v, tile t) {
  const shape *s = v->shape;
  const int64_t segments = falt_ceil_div(s->out[0], t.segment);
  if (products_of(s, &t) > MOST_PRODUCTS) return;
  for (int64_t count = segments + 1; (count = falt_piece_below(segments, segments, count)) > 0;) {
    t.slab = (int)falt_min(count * t.segment, s->out[0]);
    if (count == segments)
      visit_images(v, t);
    else if (count <= 64)
      t.images = 1, visit_warps(v, t);
  }
}

void falt_depthwise_toeplitz_each(const shape *s, const falt_machine *m, falt_tile_search *search) {
  const visitor v = {s, m, search};
  if (falt_depthwise_toeplitz_refusal(s)) return;
  for (int64_t segment = MOST_SEGMENT + 1; (segment = falt_piece_below(s->out[0], s->out[0], segment)) > 0;) {
    if (segment < 4 && segment < s->out[0]) break;
    for (int span = s->inner ? 8 : 1; span <= (s->inner ? 32 : 1); span *= 2)
      visit_slabs(&v, (tile){.segment = (int)segment, .slab = (int)segment, .span = span});
  }
}

bool falt_depthwise_toeplitz_choose(const shape *s, const falt_machine *m, tile *best) {
  falt_tile_search search = falt_tile_search_best(best, sizeof *best);
  falt_depthwise_toeplitz_each(s, m, &search);
  return search.found;
}
