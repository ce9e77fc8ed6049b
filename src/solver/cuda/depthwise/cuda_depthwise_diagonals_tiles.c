/* Tile search of cuda_depthwise_diagonals.cu: a tile is a few rows of x. Enumerates the tiles that fit, and keeps the
 * one with the smallest estimated time. */
#include <math.h>

#include "core/memory.h"
#include "solver/cuda/depthwise/cuda_depthwise_toeplitz_tiles.h"

enum { PIXEL = 16, MOST_TAPS = 8, MOST_SPLIT_K = 65535, BLOCK_THREADS = 128, REGISTERS = 80 };

typedef falt_depthwise_toeplitz_shape shape;
typedef falt_depthwise_toeplitz_wgrad_tile tile;

/* ---- sizes, as the kernel has them */

/* Rows and columns of x that are multiplied with dy; pixels of a row with the zeros behind it; tap rows of a product.
 */
typedef struct sizes {
  int64_t height, width, pitch, down;
} sizes;

static sizes sizes_of(const shape *s) {
  const int64_t reach[2] = {s->taps[0] - 1 - s->pad[0], s->taps[1] - 1 - s->pad[1]};
  sizes z = {.height = falt_min(s->in[0], s->out[0] + reach[0]), .width = falt_min(s->in[1], s->out[1] + reach[1])};
  z.pitch = falt_max(z.width + s->pad[1], s->out[1] + reach[1]);
  z.down = s->taps[0] <= 3 ? 3 : s->taps[0] <= 5 ? 5 : s->taps[0] <= 7 ? 7 : 8;
  return z;
}

static int64_t steps_of(const sizes *z, const tile *t) {
  return falt_ceil_div(t->slab * z->pitch, 16);
}

/* The blocks of an operand overlap, and products read inside the planes. Memory checkers assume the full size of all
 * blocks: with few pixels that ends beyond the last plane, in bytes that are never read. */
static int64_t shared_of(const shape *s, const sizes *z, const tile *t) {
  const int64_t octets = t->span / 8, run = 16 * steps_of(z, t), of_y = s->pad[1] + run + 8;
  const int64_t plane = falt_round_up((of_y + run + (z->down - 1) * z->pitch) * PIXEL, 128) + 128 / octets;
  const int64_t last = run - 16, apart = falt_max(last + 8 * 16, of_y + last + z->down * 16);
  return (octets - 1) * plane + falt_max(plane, apart * PIXEL);
}

/* ---- estimate */

/* Fitted to 6 timings of 3 layers on an H200, where a product takes twice the cycles of its operands' 128 bytes each.
 * The blocks of a multiprocessor multiply alternately; a single block waits for its tiles. */
static void estimate(const shape *s, const falt_machine *m, const sizes *z, tile *t) {
  const int64_t tiles = s->images * falt_ceil_div(z->height, t->slab), parts = falt_ceil_div(s->channels, t->span);
  const double step = 53 + 1.9 * (double)z->down, rounds = ceil((double)tiles / (double)t->split_k);
  const double passes = ceil((double)(parts * t->split_k) / m->multiprocessors) * rounds * t->span / 8;
  const double compute = passes * (double)steps_of(z, t) * step / m->clock_hz * (t->blocks > 1 ? 1 : 1.6);
  const double again = (double)(t->slab + s->taps[0] - 1) / t->slab; /* that rows of dy are fetched */
  const double planes = (double)s->images * (double)s->channels, in = (double)(s->in[0] * s->in[1]);
  const double bytes = 2 * planes * (in + (double)(s->out[0] * s->out[1]) * again) + 4 * (double)t->partial;
  t->seconds = fmax(compute, bytes / (0.85 * m->bytes_per_s)) + 7e-6;
}

/* ---- tiles */

typedef struct visitor {
  const shape *shape;
  const falt_machine *machine;
  const sizes *sizes;
  int64_t workspace;
  falt_tile_search *search;
} visitor;

/* All blocks run concurrently. */
static void visit_blocks(const visitor *v, tile t) {
  const shape *s = v->shape;
  const int64_t shared = shared_of(s, v->sizes, &t), parts = falt_ceil_div(s->channels, t.span);
  const int64_t tiles = s->images * falt_ceil_div(v->sizes->height, t.slab);
  if (shared > v->machine->arch->block_shared || parts > MOST_SPLIT_K || tiles >= INT32_MAX / 2) return;
  t.warps = t.span / 2;
  t.shared_bytes = (int)shared;
  t.blocks = (int)falt_min(falt_blocks_by_shared(v->machine, shared),
                           falt_blocks_by_registers(BLOCK_THREADS * t.span / 8, REGISTERS));
  const int64_t most = falt_min(falt_min(tiles, MOST_SPLIT_K), v->machine->multiprocessors * t.blocks / parts);
  if (!falt_depthwise_toeplitz_wgrad_slice(s, v->workspace, most, &t)) return;
  estimate(s, v->machine, v->sizes, &t);
  falt_tile_offer(v->search, &t, NULL, t.seconds);
}

static void visit_slabs(const visitor *v, tile t) {
  const int64_t height = v->sizes->height;
  for (int64_t slab = height + 1; (slab = falt_piece_below(height, height, slab)) > 0;) {
    if (slab < 4 && slab < height) return;
    t.slab = (int)slab;
    visit_blocks(v, t);
  }
}

void falt_depthwise_diagonals_each(const shape *s, const falt_machine *m, int64_t workspace, falt_tile_search *search) {
  const sizes z = sizes_of(s);
  const visitor v = {s, m, &z, workspace, search};
  if (falt_depthwise_toeplitz_refusal(s) || !m->arch->wgmma || s->taps[0] > MOST_TAPS || s->taps[1] > MOST_TAPS) return;
  visit_slabs(&v, (tile){.images = 1, .span = s->channels > 8 ? 16 : 8});
}
