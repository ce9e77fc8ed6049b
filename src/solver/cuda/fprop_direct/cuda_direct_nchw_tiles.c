/* Tile search of cuda_direct_nchw.cu. Estimate: the cycles of the busiest multiprocessor (warp instructions, shared
 * memory reads, and latency that few warps cannot hide) or the memory time, whichever is longer. */
#include "solver/cuda/fprop_direct/cuda_direct_nchw_tiles.h"

#include <math.h>

#include "core/memory.h"

enum {
  MOST_THREADS = 512,   /* of a block */
  ALL_THREADS = 2048,   /* of a multiprocessor, of */
  ALL_BLOCKS = 32,      /* so many blocks */
  MOST_REGISTERS = 200, /* of a thread, as estimated */
  MOST_COLUMNS = 4,     /* of a thread, before pooling, if one window has not more */
  LEAST_REGISTERS = 40, /* that indices need */
  SKEW = 4,             /* floats between rows of taps */
  MOST_TAPS = 4096      /* of a filter, in all channels: staging is not overlapped */
};

/* Fitted to measured tiles on an H200: cycles of an instruction and of a read of shared memory among many warps, and of
 * an instruction of a single warp; of an element's copy to shared memory, of a single output store because its run is
 * not aligned, and of an exposed read; the fraction of the copy bandwidth; the fraction of the shorter of both times
 * that the longer does not hide; the cost of a launch beyond that of an empty kernel. */
static const double issue_cycles = 1.5, port_cycles = 1.9, alone_cycles = 3.4, stage_cycles = 95, store_cycles = 45,
                    read_cycles = 32;
static const double memory_share = 0.55, shown_share = 0.4, start_seconds = 0.7e-6;

static int threads_of(const falt_direct_nchw_tile *t) {
  return t->across * t->down * t->groups;
}

static int64_t taps_of(const falt_direct_nchw_problem *p) {
  return (int64_t)p->channels * p->taps[0] * p->taps[1];
}

/* Outputs of a block along an axis, before pooling; inputs that they read. */
static int64_t span(const falt_direct_nchw_tile *t, int axis) {
  return axis == 0 ? (int64_t)t->down * t->rows : (int64_t)t->across * t->columns;
}

static int64_t reach(const falt_direct_nchw_problem *p, int axis, int64_t results) {
  return (results - 1) * p->stride[axis] + (int64_t)(p->taps[axis] - 1) * p->dilation[axis] + 1;
}

/* ---- shared memory */

/* A line is stored by residues; the next line that threads of a warp read starts at the bank after the last one of the
 * previous line. */
static void lay_out(const falt_direct_nchw_problem *p, falt_direct_nchw_tile *t) {
  enum { BANKS = 32 };
  const int64_t polyphases = (int64_t)t->columns * p->stride[1],
                slots = falt_ceil_div(reach(p, 1, span(t, 1)), polyphases), line = (int64_t)t->rows * p->stride[0];
  int64_t pitch = polyphases * slots;
  for (int64_t more = 0; more < BANKS && t->across < BANKS; more++)
    if (line * (pitch + more) % BANKS == t->across) {
      pitch += more;
      break;
    }
  const double bytes = 4.0 * ((double)taps_of(p) * (t->groups * t->filters + SKEW) +
                              (double)p->channels * (double)reach(p, 0, span(t, 0)) * (double)pitch);
  t->slots = (int)falt_min(slots, INT32_MAX);
  t->pitch = (int)falt_min(pitch, INT32_MAX);
  t->shared_bytes = bytes < INT32_MAX ? (int)bytes : INT32_MAX;
}

/* ---- estimate */

static int window_of(const falt_direct_nchw_problem *p, const falt_direct_nchw_tile *t) {
  const int64_t whole = reach(p, 1, t->columns), single = (int64_t)t->columns * p->taps[1];
  return (int)falt_min(falt_min(whole, single), 1024);
}

static int fitted_registers(const falt_direct_nchw_problem *p, const falt_direct_nchw_tile *t) {
  return LEAST_REGISTERS + t->rows * t->columns * t->filters + t->rows * window_of(p, t) + 3 * t->filters;
}

/* Blocks that a multiprocessor holds. */
static int64_t residents(const falt_machine *m, const falt_direct_nchw_tile *t) {
  const int threads = (int)falt_ceil_div(threads_of(t), FALT_WARP) * FALT_WARP;
  const int64_t by_registers = falt_blocks_by_registers(threads, t->registers);
  const int64_t by_shared = falt_blocks_by_shared(m, t->shared_bytes);
  return falt_min(falt_min(by_registers, by_shared), falt_min(ALL_THREADS / threads, ALL_BLOCKS));
}

static double blocks_of(const falt_direct_nchw_problem *p, const falt_direct_nchw_tile *t) {
  return (double)p->batch * (double)t->tiles[0] * (double)t->tiles[1] * (double)t->filter_tiles;
}

/* Elements that a block stages of the image. */
static double staged_of(const falt_direct_nchw_problem *p, const falt_direct_nchw_tile *t) {
  return (double)p->channels * (double)reach(p, 0, span(t, 0)) * (double)reach(p, 1, span(t, 1));
}

/* Instructions of one warp, its reads of shared memory, and cycles of waiting for them if nobody else works. */
typedef struct work {
  double issue, port, chain;
} work;

/* Outputs that are contiguous. */
static int run_of(const falt_direct_nchw_problem *p, const falt_direct_nchw_tile *t) {
  return p->y_last ? t->filters : t->columns / p->pool[1];
}

static work work_of(const falt_direct_nchw_problem *p, const falt_direct_nchw_tile *t) {
  const double lines = (double)p->channels * p->taps[0], fours = (double)p->taps[1] * t->filters / 4;
  const double products = (double)p->taps[1] * t->rows * t->columns * t->filters;
  const double window = (double)t->rows * window_of(p, t);
  const double staged = (staged_of(p, t) + (double)taps_of(p) * t->groups * t->filters) / threads_of(t);
  const double single = run_of(p, t) <= p->y_align ? 0 : (double)t->rows * t->columns * t->filters;
  return (work){.issue = lines * (products + window + fours) + staged * stage_cycles + single * store_cycles,
                .port = lines * (window + 2 * fours) + 2 * staged,
                .chain = lines * read_cycles};
}

static double seconds_of(const falt_direct_nchw_problem *p, const falt_machine *m, const falt_direct_nchw_tile *t) {
  const double clock = m->flops / (m->multiprocessors * 256.0);
  const double blocks = blocks_of(p, t), here = ceil(blocks / m->multiprocessors);
  const double warps = (double)falt_ceil_div(threads_of(t), FALT_WARP), waves = ceil(here / (double)residents(m, t));
  const work w = work_of(p, t);
  const double together = fmax(ceil(here * warps / 4) * w.issue * issue_cycles, here * warps * w.port * port_cycles);
  const double compute = fmax(together, waves * (w.issue * alone_cycles + w.chain)) / clock;
  const double results = (double)p->batch * (double)p->out[0] * (double)p->out[1] * (double)p->filters;
  const double bytes = blocks * staged_of(p, t) * p->x_bytes / 2 + results * p->y_bytes;
  const double memory = bytes / (memory_share * m->bytes_per_s);
  return start_seconds + fmax(compute, memory) + shown_share * fmin(compute, memory);
}

/* ---- which tiles */

static const char *flaw(const falt_direct_nchw_problem *p, const falt_machine *m, const falt_direct_nchw_tile *t) {
  return taps_of(p) > MOST_TAPS                    ? "a filter has too many taps for tiles of all channels"
         : t->registers > MOST_REGISTERS           ? "a thread's window does not fit its registers"
         : t->shared_bytes > m->arch->block_shared ? "all channels of a tile do not fit in shared memory"
         : residents(m, t) < 1                     ? "a block does not fit on a multiprocessor"
         : blocks_of(p, t) > (double)INT32_MAX     ? "the images have more blocks than one launch can number"
                                                   : NULL;
}

static void judge(const falt_direct_nchw_problem *p, const falt_machine *m, falt_direct_nchw_tile *t) {
  for (int a = 0; a < 2; a++) t->tiles[a] = falt_ceil_div(p->out[a], span(t, a) / p->pool[a]);
  t->filter_tiles = falt_ceil_div(p->filters, (int64_t)t->groups * t->filters);
  lay_out(p, t);
  t->registers = fitted_registers(p, t);
  t->rejected = flaw(p, m, t);
  t->seconds = t->rejected ? INFINITY : seconds_of(p, m, t);
}

/* Threads of a block: as many as cover the image, or an even part of it. */
static void each_block(const falt_direct_nchw_problem *p, const falt_machine *m, const falt_direct_nchw_tile *thread,
                       falt_tile_search *search) {
  enum { PARTS = 6 };
  static const int groups[] = {1, 2, 4, 8};
  const int64_t across = falt_ceil_div(p->out[1], thread->columns / p->pool[1]),
                down = falt_ceil_div(p->out[0], thread->rows / p->pool[0]);
  for (int i = 0; i < PARTS; i++)
    for (int k = 0; k < PARTS; k++)
      for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
        falt_direct_nchw_tile t = *thread;
        t.across = (int)falt_ceil_div(falt_min(across, 32), INT64_C(1) << i);
        t.down = (int)falt_ceil_div(falt_min(down, 32), INT64_C(1) << k);
        t.groups = groups[g];
        if (threads_of(&t) > MOST_THREADS) continue;
        if (g > 0 && (int64_t)groups[g - 1] * t.filters >= p->filters) continue;
        judge(p, m, &t);
        falt_tile_offer(search, &t, t.rejected, t.seconds);
      }
}

void falt_direct_nchw_each(const falt_direct_nchw_problem *p, const falt_machine *m, falt_tile_search *search) {
  static const int windows[][2] = {{1, 1}, {1, 2}, {2, 1}, {2, 2}, {1, 4}, {2, 4}}, filters[] = {4, 8, 16};
  for (size_t i = 0; i < sizeof windows / sizeof *windows; i++)
    for (size_t f = 0; f < sizeof filters / sizeof *filters; f++) {
      falt_direct_nchw_tile t = {
          .rows = windows[i][0] * p->pool[0], .columns = windows[i][1] * p->pool[1], .filters = filters[f]};
      if ((f > 0 && filters[f - 1] >= p->filters) || (t.columns > MOST_COLUMNS && windows[i][1] > 1)) continue;
      each_block(p, m, &t, search);
    }
}

bool falt_direct_nchw_choose(const falt_direct_nchw_problem *p, const falt_machine *m, falt_direct_nchw_tile *best) {
  falt_tile_search search = falt_tile_search_best(best, sizeof *best);
  falt_direct_nchw_each(p, m, &search);
  if (!search.seen) best->rejected = "no tile was considered";
  return search.found;
}

void falt_direct_nchw_defines(falt_cuda_kernel *kernel, const falt_direct_nchw_tile *t) {
  const falt_cuda_named_define defines[] = {{"ROWS", t->rows},
                                            {"COLUMNS", t->columns},
                                            {"FILTERS", t->filters},
                                            {"ACROSS", t->across},
                                            {"DOWN", t->down},
                                            {"GROUPS", t->groups},
                                            {"SLOTS", t->slots},
                                            {"PITCH", t->pitch},
                                            {"TILES_H", (int)t->tiles[0]},
                                            {"TILES_W", (int)t->tiles[1]},
                                            {"FILTER_TILES", (int)t->filter_tiles}};
  falt_cuda_defines(kernel, defines, sizeof defines / sizeof *defines);
  kernel->shared_bytes = t->shared_bytes;
}
