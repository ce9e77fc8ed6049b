/* Tile search of cuda_depthwise_toeplitz_wgrad.cu: enumerates the tiles that fit, and keeps the one with the smallest
 * estimated time. */
#include <math.h>

#include "core/memory.h"
#include "solver/cuda/depthwise/cuda_depthwise_toeplitz_tiles.h"

enum { MOST_REGISTERS = 200, MOST_SPLIT_K = 65535 };

typedef falt_depthwise_toeplitz_shape shape;
typedef falt_depthwise_toeplitz_wgrad_tile tile;

/* ---- sizes, as the kernel has them */

typedef struct sizes {
  int64_t sets[2];       /* products for all taps, along rows and columns */
  int64_t octets, pairs; /* of a row of y; of an image's rows of x */
  int64_t x_image, y_image;
} sizes;

static sizes sizes_of(const shape *s) {
  const int64_t *in = s->in, *out = s->out;
  const int64_t leading = falt_round_up(s->pad[1], 4), width = falt_min(in[1], out[1] + s->taps[1] - 1 - s->pad[1]);
  const int64_t height = falt_min(in[0], out[0] + s->taps[0] - 1 - s->pad[0]);
  sizes z = {.sets = {falt_ceil_div(s->taps[0] + 1, 8), falt_ceil_div(s->taps[1], 8)},
             .octets = falt_ceil_div(out[1], 8),
             .pairs = falt_ceil_div(height, 2)};
  const int64_t met = 8 * z.octets + 8 * z.sets[1] + leading - s->pad[1] + 1;
  const int64_t above = falt_max(0, 8 * z.sets[0] - 2 - s->pad[0]),
                below = falt_max(0, 2 * z.pairs + s->pad[0] - out[0]);
  z.x_image = 2 * z.pairs * falt_ceil_div(falt_max(leading + width, met), 8) * 16;
  z.y_image = (above + out[0] + below) * (z.octets | 1) * 16;
  return z;
}

static int64_t shared_of(const sizes *z, const tile *t) {
  return 2 * (falt_round_up(t->images * z->x_image + 16, 128) + 64) + t->images * z->y_image + 64;
}

/* Registers: accumulators, fragments; the rest as seen on compiled kernels. */
static int64_t fitted_registers(const sizes *z) {
  return 8 * z->sets[0] * z->sets[1] + 4 * z->sets[0] + 40;
}

/* ---- estimate */

/* Wavefronts of shared memory: of products and copies. */
static double wavefronts_of(const shape *s, const sizes *z) {
  const double octets = (double)z->octets, x = (double)z->x_image / 128, y = (double)z->y_image / 128;
  const double products = (double)z->pairs * octets * (2.0 * (double)z->sets[1] + (double)z->sets[0]);
  return products + x * (2 + 3) + y * (8.0 / s->y_align > 1 ? 2 : 1);
}

/* Instructions of all warps. */
static double instructions_of(const shape *s, const sizes *z) {
  const double steps = ceil((double)z->octets / 2), sets = (double)(z->sets[0] * z->sets[1]);
  const double products = (double)z->pairs * (steps * (sets + 4.5 * (double)z->sets[1] + (double)z->sets[0]) + 20);
  const double copies =
      (double)(s->in[0] * s->in[1]) / (double)falt_min(s->x_align, 4) + (double)(s->out[0] * s->out[1]) / s->y_align;
  return products + copies * 20 / FALT_WARP + (double)z->x_image / 16 / FALT_WARP * 14;
}

/* Fitted to 15 timings of 6 layers on an H200. */
static void estimate(const shape *s, const falt_machine *m, const sizes *z, tile *t) {
  const double planes = (double)s->images * (double)s->channels, sms = m->multiprocessors;
  const double steps = ceil((double)s->images / (double)(t->images * t->split_k)) * (double)(t->images * t->split_k);
  const double waves = (double)s->channels * (double)t->split_k / (sms * t->blocks);
  const double uneven = steps / (double)s->images * (waves > 1 ? ceil(waves) / waves * 0.5 + 0.5 : 1 / waves);
  const double idle = (double)falt_round_up(t->images * z->pairs, t->warps) / (double)(t->images * z->pairs);
  const double busy = fmin(1, 0.4 + t->warps * t->blocks / 40.0);
  const double cycles = fmax(wavefronts_of(s, z), instructions_of(s, z) / 2.4) * idle / busy;
  const double compute = planes / sms * cycles / m->clock_hz;
  const double bytes = 2 * planes * (double)(s->in[0] * s->in[1] + s->out[0] * s->out[1]);
  const double memory = bytes / (0.85 * m->bytes_per_s) + 4 * (double)t->partial / m->bytes_per_s;
  t->seconds = 1.14 * (fmax(compute, memory) + 0.3 * fmin(compute, memory)) * uneven + 5e-6;
}

/* ---- tiles */

typedef struct visitor {
  const shape *shape;
  const falt_machine *machine;
  const sizes *sizes;
  int64_t workspace;
  falt_tile_search *search;
} visitor;

bool falt_depthwise_toeplitz_wgrad_slice(const shape *s, int64_t workspace, int64_t most, tile *t) {
  const int64_t sums = (int64_t)s->taps[0] * s->taps[1] * s->channels * 4;
  t->split_k = falt_max(1, most);
  if (workspace >= 0) t->split_k = falt_min(t->split_k, workspace / sums);
  t->partial = t->split_k * sums;
  return t->split_k > 0;
}

/* Blocks of all split-K slices run in one or two rounds. */
static void visit_splits(const visitor *v, tile t) {
  const shape *s = v->shape;
  const int64_t slots = (int64_t)v->machine->multiprocessors * t.blocks;
  const int64_t most = falt_min(MOST_SPLIT_K, falt_ceil_div(s->images, t.images));
  for (int rounds = 1; rounds <= 2; rounds++) {
    if (!falt_depthwise_toeplitz_wgrad_slice(s, v->workspace, falt_min(most, rounds * slots / s->channels), &t)) return;
    estimate(s, v->machine, v->sizes, &t);
    falt_tile_offer(v->search, &t, NULL, t.seconds);
  }
}

static void visit_blocks(const visitor *v, tile t) {
  const int64_t by_registers = falt_blocks_by_quarters(t.warps, fitted_registers(v->sizes));
  t.blocks = (int)falt_min(falt_min(by_registers, falt_blocks_by_shared(v->machine, t.shared_bytes + 1024)), 16);
  if (t.blocks > 0) visit_splits(v, t);
}

void falt_depthwise_toeplitz_wgrad_each(const shape *s, const falt_machine *m, int64_t workspace,
                                        falt_tile_search *search) {
  if (falt_depthwise_toeplitz_refusal(s) || s->inner || s->channels >= INT32_MAX) return;
  const sizes z = sizes_of(s);
  const visitor v = {s, m, &z, workspace, search};
  tile t = {.span = 1, .images = 1, .slab = (int)s->in[0], .warps = 4}; /* two and eight were slower */
  if (fitted_registers(&z) > MOST_REGISTERS) return;
  for (; t.images <= 64 && (t.images == 1 || t.images / 2 < s->images); t.images *= 2) {
    const int64_t shared = shared_of(&z, &t);
    if (shared + 1024 > m->arch->block_shared) break;
    t.shared_bytes = (int)shared;
    visit_blocks(&v, t);
  }
}

bool falt_depthwise_toeplitz_wgrad_choose(const shape *s, const falt_machine *m, int64_t workspace, tile *best) {
  falt_tile_search search = falt_tile_search_best(best, sizeof *best);
  (s->inner ? falt_depthwise_diagonals_each : falt_depthwise_toeplitz_wgrad_each)(s, m, workspace, &search);
  return search.found;
}

void falt_depthwise_toeplitz_wgrad_defines(falt_cuda_kernel *kernel, const shape *s, const tile *t) {
  const falt_cuda_named_define defines[] = {
      {"TAPS_R", s->taps[0]}, {"TAPS_S", s->taps[1]},    {"PAD_R", s->pad[0]}, {"PAD_S", s->pad[1]},
      {"IN_H", s->in[0]},     {"IN_W", s->in[1]},        {"OUT_H", s->out[0]}, {"OUT_W", s->out[1]},
      {"BATCH", s->images},   {"CHANNELS", s->channels}, {"SPAN", t->span},    {"IMAGES", t->images},
      {"SLAB", t->slab},      {"UNIT_Y", s->y_align},    {"WARPS", t->warps},  {"BLOCKS", t->blocks}};
  const int64_t leading = falt_round_up(s->pad[1], 4);
  falt_cuda_defines(kernel, defines, sizeof defines / sizeof *defines);
  falt_cuda_define(kernel, "UNIT_X=%d", (int)(leading % 8 ? falt_min(s->x_align, 4) : s->x_align));
}
