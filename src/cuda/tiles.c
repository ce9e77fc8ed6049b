/* The estimate: instructions over the rate at which they are issued, bytes over bandwidth; the larger of the two and a
 * part of the other, stretched by what a sweep repeats, by the last wave of blocks, and by too few warps to hide
 * memory's latency. */
#include "cuda/tiles.h"

#include <stddef.h>

enum {
  MOST_REGISTERS = 200,   /* of a thread, as estimated; the machine has 255 */
  FILE_REGISTERS = 65536, /* of a multiprocessor */
  MOST_BODY = 4096,       /* multiply-adds unrolled: beyond, the instruction cache misses */
  GOOD_BODY = 1600,       /* up to here, unrolling saves the moves of the partial sums */
  LEAST_SKIP = 81,        /* direct.cu's SKIP */
  MOST_TABLE = 16,        /* direct.cu's TABLE */
  WARPS_NEEDED = 16       /* to hide latency */
};

/* Shares as measured on an H200: of the clock's multiply-adds, and of the rows between sweeps that come from memory. */
static const double issue_share = 0.7, halo_share = 0.2;

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

static bool skips(const falt_tile_problem *p) {
  return p->taps[0] * p->taps[1] * p->taps[2] >= LEAST_SKIP;
}

/* Sums, a window, what is loaded (the next line too where a thread has one row), and where a row's end finds elements.
 */
static int registers_of(const falt_tile_problem *p, const falt_tile *t) {
  const int words = p->sum_bytes / 4, sums = p->taps[0] * t->rows * t->width * words;
  const int elements = t->width + (p->taps[2] - 1) * p->pixel;
  const int raw = loads_of(p, t) * (int)pieces(t->x_vector * p->x_bytes, 4);
  const bool ahead = skips(p) && t->rows == 1 && p->taps[1] == 1;
  return sums + elements * words + (ahead ? 2 : 1) * raw + (elements <= MOST_TABLE ? elements : 0) + 24;
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

/* Warp instructions of a thread for one plane, multiply-adds apart. */
static double overhead_of(const falt_tile_problem *p, const falt_tile *t) {
  const int lines = t->linear ? t->rows : t->rows + p->taps[1] - 1;
  const double moves = (double)(p->taps[0] - 1) * t->rows * t->width / t->unroll;
  const double convert = p->x_bytes < 4 ? 1.5 * lines * (t->width + (p->taps[2] - 1) * p->pixel) : 0;
  const double spread = (double)pieces((int64_t)t->width * p->x_bytes, 16); /* lanes apart: more cache lines a load */
  return moves + convert + 5.0 * lines * loads_of(p, t) * spread + 3.0 * t->rows * t->width + 12;
}

/* Threads over those that have results. */
static double idle_of(const falt_tile_problem *p, const falt_tile *t) {
  const int64_t width = (int64_t)t->width * t->block[0] * (t->linear ? t->rows : 1);
  const int64_t height = t->linear ? 1 : (int64_t)t->rows * t->block[1];
  return (double)(pieces(p->out[2], width) * width) / (double)p->out[2] * (double)(pieces(p->out[1], height) * height) /
         (double)p->out[1];
}

static void estimate(const falt_tile_problem *p, const falt_tile_machine *m, falt_tile *t) {
  const double results = (double)p->out[0] * (double)p->out[1] * (double)p->out[2] * (double)p->batch;
  const double blocks = (double)blocks_of(p, t), slots = (double)m->multiprocessors * t->blocks;
  const double steps = (double)(t->steps < p->out[0] ? t->steps : p->out[0]), halo = (p->taps[0] - 1) / steps;
  const double body = (double)body_of(p, t) * (p->sum_bytes / 4) * (skips(p) ? 1 : 1 + halo);
  const double issue = body + overhead_of(p, t) * (1 + halo);
  const double compute = results / (t->rows * t->width) * issue * 2 / (m->flops * issue_share);
  const double across = t->linear ? 0 : (double)(p->taps[1] - 1) / (t->rows * t->block[1]);
  const double memory = results * (p->y_bytes + p->x_bytes * (1 + halo_share * (halo + across))) / m->bytes_per_s;
  const double warps = (double)t->blocks * t->block[0] * t->block[1] / 32 / idle_of(p, t);
  const double hidden = warps < WARPS_NEEDED ? warps / WARPS_NEEDED : 1;
  const double longer = compute > memory ? compute : memory, shorter = compute > memory ? memory : compute;
  t->seconds = (longer + 0.2 * shorter) / hidden * (1 + 0.5 * slots / blocks); /* the last wave is half empty */
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
  static const int widths[] = {2, 4, 8, 16}, rows[] = {1, 2, 4, 8}, steps[] = {16, 32, 64, 128};
  static const int blocks[][2] = {{128, 1}, {64, 1}, {32, 1}, {64, 2}, {32, 4}};
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
