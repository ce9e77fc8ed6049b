/* Tile search of cuda_separable_25d.cu. Estimate: the larger of issue time and memory time plus a part of the smaller
 * one, for one wave of warps that fills the GPU. */
#include "solver/cuda/filter/cuda_separable_25d_tiles.h"

#include <math.h>

#include "core/memory.h"

enum {
  PARTS = 4,         /* of a multiprocessor */
  MOST_WARPS = 32,   /* of a multiprocessor that are of use */
  WARPS = 4,         /* of a block */
  AHEAD = 3,         /* more lines in flight are slower: fewer stay together in memory's pages */
  WORD = 16,         /* bytes of the largest word, and of the largest copy */
  LEAST_COPY = 4,    /* bytes */
  MOST_WIDTH = 32,   /* bytes of a lane's columns */
  SECTOR = 32,       /* bytes that memory takes at least */
  STATIC = 48 << 10, /* bytes of shared memory of a block */
  MOST_REGISTERS = 224,
  MOST_BODY = 2400, /* multiply-adds unrolled: beyond, the instruction cache misses */
  MOST_PARTS = 256  /* of a column */
};

enum { PLANE, ROW, COLUMN };

/* Measured on an H200: the fraction of issue slots that many warps fill, and that few miss; the reached fraction of
 * memory's rate; the fraction of the shorter time that is not hidden; of lines that warps read more than once, the
 * fraction from memory. */
static const double issue_share = 0.8, squared_warps = 40, memory_share = 0.88, shorter_share = 0.15, halo_share = 0.3;

/* ---- work */

/* Bytes of a word of a lane's columns; words of these, and of the rest of its window. */
static int64_t word_of(const falt_tile_problem *p, const falt_separable_25d *m) {
  return falt_min((int64_t)m->width * p->x_bytes, WORD);
}

static int64_t own_of(const falt_tile_problem *p, const falt_separable_25d *m) {
  return m->width * p->x_bytes / word_of(p, m);
}

static int64_t beyond_of(const falt_tile_problem *p, const falt_separable_25d *m) {
  return falt_ceil_div((p->taps[COLUMN] - 1) * (int64_t)p->pixel * p->x_bytes, word_of(p, m)) + 1;
}

/* Bytes of a warp's line in shared memory; words smaller than a copy begin and end with a whole one. */
static int64_t line_of(const falt_tile_problem *p, const falt_separable_25d *m) {
  const int64_t own = own_of(p, m), word = word_of(p, m);
  return (FALT_WARP + falt_ceil_div(beyond_of(p, m), own)) * (own | 1) * word + (word < WORD ? 2 * WORD : 0);
}

/* Instructions that convert elements of a lane's window. */
static int64_t converted_of(const falt_tile_problem *p, const falt_separable_25d *m) {
  return p->converts ? m->width + (p->taps[COLUMN] - 1) * (int64_t)p->pixel : 0;
}

/* Multiply-adds of a lane at a line. */
static int64_t body_of(const falt_tile_problem *p, const falt_separable_25d *m) {
  return (int64_t)m->width * p->terms * (p->taps[ROW] + p->taps[COLUMN]);
}

/* Registers: accumulators and the rest. A kernel with fewer registers is possible but slower. */
static int fitted_registers(const falt_tile_problem *p, const falt_separable_25d *m) {
  return (p->taps[ROW] + p->terms) * m->width + 48;
}

static const char *reason(const falt_tile_problem *p, const falt_separable_25d *m) {
  if (p->taps[PLANE] > 1) return "the filter has planes";
  if (p->taps[ROW] < 2) return "the filter is one row";
  if (p->x_bytes > 4 || p->sum_bytes != 4) return "elements or sums are wider than f32";
  if (p->x_align * p->x_bytes < LEAST_COPY) return "rows of narrow elements are not aligned to 4 bytes";
  if (fitted_registers(p, m) > MOST_REGISTERS) return "its sums need more registers than a thread has";
  if (body_of(p, m) > MOST_BODY) return "its unrolled taps are more instructions than the cache holds";
  if (line_of(p, m) * (AHEAD + 2) * WARPS > STATIC) return "its lines need more shared memory than a block has";
  return NULL;
}

/* ---- estimate */

/* Warp instructions for a line. A line of 4 columns a lane is copied by 16 bytes; smaller copies are more. */
static double issue_of(const falt_tile_problem *p, const falt_separable_25d *m) {
  const double loads = (double)(own_of(p, m) + beyond_of(p, m)), stores = p->y_bytes < 4 ? 3.0 * m->width : 0;
  const double copies = (double)line_of(p, m) / FALT_WARP * (1.0 / m->copy - 1.0 / WORD);
  return (double)(body_of(p, m) + converted_of(p, m)) + loads + stores + (double)m->width / m->y_vector + 4 * copies +
         8.0 * (double)own_of(p, m) + 54;
}

/* Bytes that take as long as an output whose store fills only parts of sectors. Of f32 they have not been measured. */
static double written_of(const falt_tile_problem *p, const falt_separable_25d *m) {
  const double touched = falt_min(m->width * (int64_t)p->y_bytes, SECTOR); /* sectors, by a store of a warp */
  const double parts = p->y_bytes < 4 ? SECTOR / 2.0 * touched / (FALT_WARP * m->y_vector) : 0;
  return fmax(p->y_bytes, parts);
}

static double seconds_of(const falt_tile_problem *p, const falt_machine *machine, const falt_separable_25d *m) {
  const double warps = (double)(m->across * m->down * m->planes), steps = m->rows + p->taps[ROW] - 1;
  const double resident = (double)machine->multiprocessors * m->blocks * m->warps, rounds = ceil(warps / resident);
  const double filled = fmin(warps, resident) / machine->multiprocessors,
               missed = 1 + squared_warps / (filled * filled);
  const double clock = machine->flops / 256 / machine->multiprocessors;
  const double issue = rounds * steps * issue_of(p, m) * filled / PARTS * missed / (issue_share * clock);
  const double results = (double)p->out[ROW] * (double)p->out[COLUMN] * (double)m->planes;
  const double read = p->x_bytes * (1 + halo_share * (steps / m->rows - 1));
  const double memory = results * (written_of(p, m) + read) / (memory_share * machine->bytes_per_s) * missed;
  return fmax(issue, memory) + shorter_share * fmin(issue, memory);
}

/* ---- enumeration */

/* The largest power of two that divides `of`, `most` at most. */
static int divisor_of(int of, int most) {
  int divisor = 1;
  while (divisor < most && of % (2 * divisor) == 0) divisor *= 2;
  return divisor;
}

static void complete(const falt_tile_problem *p, falt_separable_25d *m) {
  m->registers = (fitted_registers(p, m) + 7) / 8 * 8;
  m->copy = divisor_of(p->x_align * p->x_bytes, WORD);
  m->y_vector = divisor_of(p->y_align, (int)falt_min(m->width, WORD / p->y_bytes));
  m->ahead = AHEAD;
  m->warps = WARPS;
  m->blocks = (int)falt_min(MOST_WARPS / m->warps, falt_blocks_by_quarters(m->warps, m->registers));
  m->across = falt_ceil_div(p->out[COLUMN], (int64_t)FALT_WARP * m->width);
  m->planes = p->batch * p->out[PLANE];
}

/* As many parts of the columns as serve best: more even out the multiprocessors' work, fewer repeat less. */
static void estimate(const falt_tile_problem *p, const falt_machine *machine, falt_separable_25d *m) {
  falt_separable_25d best;
  falt_tile_search search = falt_tile_search_best(&best, sizeof best);
  for (int64_t rows = p->out[ROW] + 1; (rows = falt_piece_below(p->out[ROW], MOST_PARTS, rows)) > 0;) {
    m->rows = (int)rows;
    m->down = falt_ceil_div(p->out[ROW], rows);
    m->seconds = seconds_of(p, machine, m);
    falt_tile_offer(&search, m, NULL, m->seconds);
  }
  *m = best;
}

void falt_separable_25d_each(const falt_tile_problem *p, const falt_machine *machine, falt_tile_search *search) {
  for (int width = 4; width <= 16 && width * p->x_bytes <= MOST_WIDTH; width *= 2) {
    falt_separable_25d blocked = {.width = width};
    blocked.rejected = reason(p, &blocked);
    if (!blocked.rejected) {
      complete(p, &blocked);
      estimate(p, machine, &blocked);
    }
    falt_tile_offer(search, &blocked, blocked.rejected, blocked.seconds);
  }
}

bool falt_separable_25d_choose(const falt_tile_problem *problem, const falt_machine *machine,
                               falt_separable_25d *best) {
  falt_tile_search search = falt_tile_search_best(best, sizeof *best);
  falt_separable_25d_each(problem, machine, &search);
  return search.found;
}

void falt_separable_25d_defines(falt_cuda_kernel *kernel, const falt_tile_problem *p, const falt_separable_25d *m) {
  falt_cuda_define(kernel, "PIXEL=%d", p->pixel);
  falt_cuda_define(kernel, "THREAD=%d", m->width);
  falt_cuda_define(kernel, "COPY_X=%d", m->copy);
  falt_cuda_define(kernel, "VECTOR_Y=%d", m->y_vector);
  falt_cuda_define(kernel, "AHEAD=%d", m->ahead);
  falt_cuda_define(kernel, "WARPS=%d", m->warps);
  falt_cuda_define(kernel, "BLOCKS=%d", m->blocks);
}
