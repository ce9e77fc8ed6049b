/* Tile search of cuda_rows.cu. Estimate: the largest of issue time, shared memory time and memory time plus a part of
 * the others. It grows if the last wave of blocks is not full. */
#include "solver/cuda/filter/cuda_rows_tiles.h"

#include <math.h>

#include "core/memory.h"

enum {
  WARPS = 2, /* of a block */
  WORD = 16, /* bytes */
  MOST_BLOCKS = 16,
  MOST_BODY = 2400, /* multiply-adds unrolled: beyond, the instruction cache misses */
  WARPS_NEEDED = 20 /* to hide latency */
};

enum { PLANE, ROW, COLUMN };

/* Measured on an H200: the issued fraction of the clock's instructions, the reached fraction of memory's rate, and the
 * fraction of the shorter time that is not hidden. */
static const double issue_share = 0.85, memory_share = 0.935, shorter_share = 0.05;

static int64_t window_of(const falt_tile_problem *p, const falt_row *r) {
  return r->width + p->taps[COLUMN] - 1;
}

static int64_t body_of(const falt_tile_problem *p, const falt_row *r) {
  return (int64_t)p->taps[COLUMN] * r->width;
}

/* ---- legal */

static const char *reason(const falt_tile_problem *p, const falt_row *r) {
  if (p->taps[PLANE] > 1 || p->taps[ROW] > 1) return "the filter has taps across rows";
  if (p->stride[PLANE] > 1 || p->stride[ROW] > 1 || p->stride[COLUMN] > 1) return "a stride is not 1";
  if (p->pixel > 1 || p->dilation[COLUMN] > 1) return "its taps along a row are not contiguous";
  if (body_of(p, r) > MOST_BODY) return "its unrolled taps are more instructions than the cache holds";
  if (r->width * smaller(p->x_bytes, p->y_bytes) < WORD) return "a lane's elements are less than a word";
  return NULL;
}

/* ---- estimate */

/* Words of 16 bytes that a lane reads from shared memory, and of outputs. */
static double words_in(const falt_tile_problem *p, const falt_row *r) {
  return ceil((double)window_of(p, r) * p->x_bytes / WORD);
}

static double words_out(const falt_tile_problem *p, const falt_row *r) {
  return (double)r->width * p->y_bytes / WORD;
}

/* Elements of a lane that are loaded one by one with a test each: at ends of rows, or everywhere. */
static double asked_of(const falt_tile_problem *p, const falt_row *r) {
  const double warps = ceil((double)p->out[COLUMN] / (FALT_WARP * r->width));
  const double all = r->width + (double)window_of(p, r) / FALT_WARP;
  return p->x_align * p->x_bytes < WORD || p->y_align * p->y_bytes < WORD ? all : all * fmin(1, 2 / warps);
}

static double issue_of(const falt_tile_problem *p, const falt_row *r) {
  const double convert = p->converts ? 1.5 * (double)window_of(p, r) : 0;
  const double out = p->y_bytes < 4 ? 3 : p->converts ? 1 : 0;
  return (double)body_of(p, r) * (p->sum_bytes / 4) + convert + out * r->width + 2 * words_in(p, r) +
         4 * words_out(p, r) + 20 * asked_of(p, r) + 130;
}

/* Cycles of shared memory for a warp: a word of each lane takes four. */
static double shared_of(const falt_tile_problem *p, const falt_row *r) {
  const double staged = ((double)r->width + (double)window_of(p, r) / FALT_WARP) * p->x_bytes / WORD;
  return 4 * (staged + words_in(p, r) + 2 * words_out(p, r));
}

static double seconds_of(const falt_tile_problem *p, const falt_machine *m, const falt_row *r) {
  const double blocks = (double)(r->across * r->lines), clocks = m->flops / 256; /* of all multiprocessors */
  const double issue = blocks * WARPS / 4 * issue_of(p, r) / issue_share, shared = blocks * WARPS * shared_of(p, r);
  const double results = (double)p->out[COLUMN] * (double)r->lines;
  const double memory = results * (p->x_bytes + p->y_bytes) / (memory_share * m->bytes_per_s);
  const double compute = fmax(issue, shared) / clocks, longer = fmax(compute, memory), shorter = fmin(compute, memory);
  const double hidden = fmin(1, (double)r->blocks * WARPS / WARPS_NEEDED);
  const double waves = blocks / ((double)m->multiprocessors * r->blocks);
  return (longer + shorter_share * shorter) / hidden * (1 + 0.3 / fmax(waves, 0.1));
}

/* ---- enumeration */

/* Registers: accumulators, partial sums for many taps, and the rest as compiled. */
static int fitted_registers(const falt_tile_problem *p, const falt_row *r) {
  enum { CHAIN = 128 }; /* cuda_rows.cu's */
  const int parts = p->sum_bytes == 4 && p->taps[COLUMN] > CHAIN ? r->width : 0;
  return r->width * (p->sum_bytes / 4) + parts + 48;
}

static void complete(const falt_tile_problem *p, falt_row *r) {
  r->warps = WARPS;
  r->blocks = (int)falt_min(MOST_BLOCKS, falt_blocks_by_registers(FALT_WARP * WARPS, fitted_registers(p, r)));
  r->across = falt_ceil_div(p->out[COLUMN], (int64_t)FALT_WARP * WARPS * r->width);
  r->lines = p->batch * p->out[PLANE] * p->out[ROW];
}

void falt_rows_each(const falt_tile_problem *p, const falt_machine *m, falt_tile_search *search) {
  for (int width = 4; width <= 16; width *= 2) {
    falt_row row = {.width = width};
    row.rejected = reason(p, &row);
    if (!row.rejected) {
      complete(p, &row);
      row.seconds = seconds_of(p, m, &row);
    }
    falt_tile_offer(search, &row, row.rejected, row.seconds);
  }
}

bool falt_rows_choose(const falt_tile_problem *problem, const falt_machine *machine, falt_row *best) {
  falt_tile_search search = falt_tile_search_best(best, sizeof *best);
  falt_rows_each(problem, machine, &search);
  return search.found;
}

void falt_row_defines(falt_cuda_kernel *kernel, const falt_tile_problem *p, const falt_row *r) {
  falt_cuda_define(kernel, "PIXEL=%d", p->pixel);
  falt_cuda_define(kernel, "THREAD=%d", r->width);
  falt_cuda_define(kernel, "WARPS=%d", r->warps);
  falt_cuda_define(kernel, "BLOCKS=%d", r->blocks);
}
