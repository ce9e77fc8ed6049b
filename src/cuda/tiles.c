/* The estimate: a multiprocessor issues four warp instructions a clock, multiply-adds at full rate and vector loads at
 * a quarter, and the whole GPU moves so many bytes; the largest of the three counts, stretched by what the sweep
 * repeats, by the share of the last wave of blocks that stays idle, and by too few warps to hide memory's latency. */
#include "cuda/tiles.h"

#include <stddef.h>

enum {
  MOST_REGISTERS = 200,  /* of a thread, as estimated; the machine has 255 */
  FILE_REGISTERS = 65536, /* of a multiprocessor */
  MOST_BODY = 4096,      /* multiply-adds unrolled: beyond, the instruction cache misses */
  GOOD_BODY = 1600,      /* up to here, unrolling saves the moves of the partial sums */
  WARPS_NEEDED = 20      /* to hide latency */
};

static int larger(int a, int b) {
  return a > b ? a : b;
}

static int smaller(int a, int b) {
  return a < b ? a : b;
}

static int64_t pieces(int64_t whole, int64_t piece) {
  return (whole + piece - 1) / piece;
}

/* Elements that one load may take: at most 16 bytes, within a thread's width, as rows are aligned. */
static int vector_of(int width, int align, int bytes) {
  int vector = 16 / bytes;
  while (vector > 1 && (width % vector || align % vector)) vector /= 2;
  return vector;
}

static int loads_of(const falt_tile_problem *p, const falt_tile *t) {
  const int window = t->width + (p->taps[2] - 1) * p->pixel, rest = (p->pad * p->pixel) % t->x_vector;
  const int shift = rest > 0 ? t->x_vector - rest : -rest;
  return (int)pieces(shift + window, t->x_vector);
}

/* Multiply-adds of a thread for one plane. */
static int64_t body_of(const falt_tile_problem *p, const falt_tile *t) {
  return (int64_t)p->taps[0] * p->taps[1] * p->taps[2] * t->rows * t->width;
}

static int registers_of(const falt_tile_problem *p, const falt_tile *t) {
  const int words = p->sum_bytes / 4, sums = p->taps[0] * t->rows * t->width * words;
  const int window = (t->width + (p->taps[2] - 1) * p->pixel) * words;
  const int raw = loads_of(p, t) * (int)pieces(t->x_vector * p->x_bytes, 4);
  return sums + window + raw + 24;
}

static const char *reason(const falt_tile_problem *p, const falt_tile *t) {
  if (t->registers > MOST_REGISTERS) return "its sums and window need more registers than a thread has";
  if (body_of(p, t) > MOST_BODY) return "its unrolled taps are more instructions than the cache holds";
  if (t->rows > 1 && !t->linear && t->rows > 2 * p->out[1]) return "the image has fewer rows";
  if (t->steps > 16 && t->steps >= 2 * p->out[0]) return "the sweep is longer than the image";
  return NULL;
}

/* ---- estimate */

static int64_t blocks_of(const falt_tile_problem *p, const falt_tile *t) {
  const int64_t width = (int64_t)t->width * t->block[0] * (t->linear ? t->rows : 1);
  const int64_t height = t->linear ? 1 : (int64_t)t->rows * t->block[1];
  return pieces(p->out[2], width) * pieces(p->out[1], height) * pieces(p->out[0], t->steps) * p->batch;
}

static double waste_of_last_wave(double blocks, double slots) {
  const double waves = blocks / slots, whole = (double)pieces((int64_t)blocks, (int64_t)slots);
  return whole / waves;
}

static void estimate(const falt_tile_problem *p, const falt_tile_machine *m, falt_tile *t) {
  const double results = (double)p->out[0] * (double)p->out[1] * (double)p->out[2] * (double)p->batch;
  const double threads = t->block[0] * t->block[1], blocks = (double)blocks_of(p, t);
  const double slots = (double)m->multiprocessors * t->blocks;
  const int steps = (int)(t->steps < p->out[0] ? t->steps : p->out[0]);
  const double repeated = (double)(steps + p->taps[0] - 1) / steps;
  const int lines = t->linear ? t->rows : t->rows + p->taps[1] - 1;
  const double body = (double)body_of(p, t);
  const double moves = t->unroll < p->taps[0] ? (double)(p->taps[0] - 1) * t->rows * t->width / t->unroll : 0;
  const double convert = p->x_bytes < 4 ? 2.0 * lines * (t->width + (p->taps[2] - 1) * p->pixel) : 0;
  const double issue = body * (p->sum_bytes / 4) + moves + convert + 6.0 * lines * loads_of(p, t) + 2.0 * t->rows * t->width + 10;
  const double compute = results / (t->rows * t->width) * repeated * issue * 2 / m->flops;
  const double memory = results * (p->x_bytes + p->y_bytes) / m->bytes_per_s;
  const double warps = t->blocks * threads / 32;
  const double hidden = warps < WARPS_NEEDED ? warps / WARPS_NEEDED : 1;
  const double larger_of = compute > memory ? compute : memory;
  const double together = larger_of + 0.15 * (compute > memory ? memory : compute);
  t->seconds = together / hidden * waste_of_last_wave(blocks, slots);
}

/* ---- enumeration */

static void complete(const falt_tile_problem *p, falt_tile *t) {
  t->x_vector = vector_of(t->width, p->x_align, p->x_bytes);
  t->y_vector = vector_of(t->width, p->y_align, p->y_bytes);
  t->registers = registers_of(p, t);
  const int64_t body = body_of(p, t) > 0 ? body_of(p, t) : 1;
  t->unroll = smaller(p->taps[0], larger(1, (int)(GOOD_BODY / body)));
  if (p->taps[0] == 1) t->unroll = 1;
  const int threads = t->block[0] * t->block[1];
  t->blocks = larger(1, smaller(2048 / threads, FILE_REGISTERS / (threads * larger(32, (t->registers + 7) / 8 * 8))));
}

void falt_tiles_each(const falt_tile_problem *p, const falt_tile_machine *m,
                     void (*visit)(void *context, const falt_tile *tile), void *context) {
  static const int widths[] = {2, 4, 8, 16}, rows[] = {1, 2, 4, 8}, steps[] = {8, 16, 32, 64, 128, 256};
  static const int blocks[][2] = {{128, 1}, {64, 2}, {32, 4}};
  const bool linear = p->taps[0] == 1 && p->taps[1] == 1 && p->out[0] == 1 && p->out[1] == 1;
  const bool flat = p->taps[0] == 1 && p->out[0] == 1; /* no sweep */
  for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
      for (size_t s = 0; s < (flat ? 1 : sizeof steps / sizeof *steps); s++)
        for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++) {
          falt_tile tile = {.width = widths[w], .rows = rows[r], .steps = flat ? 1 : steps[s], .linear = linear};
          tile.block[0] = blocks[b][0];
          tile.block[1] = blocks[b][1];
          if (linear && tile.block[1] > 1) continue;
          if (!linear && p->out[1] == 1 && (tile.rows > 1 || tile.block[1] > 1)) continue;
          complete(p, &tile);
          tile.rejected = reason(p, &tile);
          if (!tile.rejected) estimate(p, m, &tile);
          visit(context, &tile);
        }
}

typedef struct choice {
  falt_tile best;
  bool found, seen;
} choice;

static void compare(void *context, const falt_tile *tile) {
  choice *c = context;
  const bool better = tile->rejected ? !c->found && !c->seen : !c->found || tile->seconds < c->best.seconds;
  if (better) c->best = *tile;
  c->found |= !tile->rejected;
  c->seen = true;
}

bool falt_tiles_choose(const falt_tile_problem *problem, const falt_tile_machine *machine, falt_tile *best) {
  choice c = {.found = false};
  falt_tiles_each(problem, machine, compare, &c);
  *best = c.best;
  return c.found;
}
