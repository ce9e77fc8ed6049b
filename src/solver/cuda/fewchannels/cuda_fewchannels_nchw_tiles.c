/* Tile search of cuda_fewchannels_nchw.cu: enumerates all shapes, rejects the illegal ones with a reason, and keeps the
 * one with the smallest estimated time. */
#include "solver/cuda/fewchannels/cuda_fewchannels_nchw_tiles.h"

#include <math.h>

#include "core/memory.h"

enum { WARPS = FALT_STRIPS_THREADS / 32, STRIP = 64, MOST_REGISTERS = 255, MOST_BLOCKS = 8 };

/* ---- sizes, as the kernel has them */

/* Of four slots. */
static int64_t groups_of(const falt_fewchannels_nchw_problem *p) {
  return falt_ceil_div(p->channels * p->taps[0], 4);
}

/* Products of a row of taps and four slots. */
static int64_t pieces_of(const falt_fewchannels_nchw_problem *p) {
  return falt_ceil_div(p->taps[2] + 1, 4);
}

static int64_t row_words(const falt_fewchannels_nchw_problem *p) {
  return groups_of(p) * (3 + 2 * pieces_of(p));
}

static int64_t beside_of(const falt_fewchannels_nchw_problem *p) {
  return 2 * (3 + 2 * pieces_of(p)) - 8;
}

/* Of a thread: the filter, rows of x and the next one, sums, and the rest as seen on compiled kernels. */
static int64_t fitted_registers(const falt_fewchannels_nchw_problem *p, const falt_fewchannels_nchw_tile *t) {
  const int64_t filter = 4 * t->eights * p->taps[1] * groups_of(p) * pieces_of(p);
  const int64_t rows = p->taps[1] * row_words(p) + groups_of(p) * (4 + beside_of(p));
  const int64_t sums = p->inner ? 18 * t->eights : 16 + 2 * t->eights;
  return filter + rows + sums + 36 + 24 * pieces_of(p) + 3 * groups_of(p) + 14 * p->extras;
}

/* ---- one tile */

static const char *fit(const falt_fewchannels_nchw_problem *p, falt_fewchannels_nchw_tile *t) {
  const int64_t registers = fitted_registers(p, t);
  if (p->pad < 0 || p->pad > beside_of(p)) return "columns begin too far from the first";
  if (registers > MOST_REGISTERS) return "registers have no room for the filter and the rows that an output reads";
  t->blocks = (int)falt_min(MOST_BLOCKS, falt_blocks_by_registers(FALT_STRIPS_THREADS, registers));
  return NULL;
}

static const char *count(const falt_fewchannels_nchw_problem *p, const falt_machine *m, falt_fewchannels_nchw_tile *t) {
  t->walks = (int)falt_ceil_div(p->out[1], t->walk);
  t->strips = (int)falt_ceil_div(p->out[2], STRIP);
  t->result_tiles = (int)falt_ceil_div(p->results, 8 * t->eights);
  t->items = (int64_t)t->walks * t->strips;
  if (t->items * t->result_tiles > INT32_MAX / p->images / p->out[0] / 2)
    return "it has more rows than one launch can number";
  t->items *= p->images * p->out[0];
  const int64_t most = falt_max(1, (int64_t)m->multiprocessors * t->blocks / t->result_tiles);
  t->grid = falt_min(falt_ceil_div(t->items, WARPS), most) * t->result_tiles;
  return NULL;
}

/* Issue slots of a warp for a row: loads and their elements, products, outputs; and the additional cost of stores of
 * less than 16 bytes, which write parts of sectors. Measured on an H200. */
static double row_slots(const falt_fewchannels_nchw_problem *p, const falt_fewchannels_nchw_tile *t) {
  const double products = 4.0 * (double)(p->taps[1] * groups_of(p) * pieces_of(p));
  const int whole = p->inner ? 2 * t->eights : 8;
  const double parts = p->unit < whole ? 400.0 * (whole / p->unit - 1) : 0;
  return 60 + 50 * (double)groups_of(p) + t->eights * (115 + 1.8 * products + parts);
}

/* A warp's row waits for its loads and products, and for the other warps of its quarter of a multiprocessor. */
static void estimate(const falt_fewchannels_nchw_problem *p, const falt_machine *m, falt_fewchannels_nchw_tile *t) {
  const double warps = (double)t->grid / t->result_tiles * WARPS, walks = ceil((double)t->items / warps);
  const double beside = fmin(t->blocks, ceil((double)t->grid / m->multiprocessors)); /* blocks of a multiprocessor */
  const double rows = walks * (double)(t->walk + p->taps[1] - 1);
  const double taps = 8.0 * (double)(t->eights * p->taps[1] * groups_of(p) * pieces_of(p)); /* that a lane loads */
  const double compute = (rows * (1300 + beside * row_slots(p, t)) + 1500 + 50 * taps) / m->clock_hz;
  const double read = (double)(p->images * p->channels * p->in[0] * p->in[1] * p->in[2]) * 2;
  const double written = (double)(p->images * p->results * p->out[0] * p->out[1]) * (double)p->out[2] * 2;
  const double memory = (read + written) / (0.9 * m->bytes_per_s);
  t->seconds = sqrt(sqrt(pow(compute, 4) + pow(memory, 4))) + 1e-6;
}

static void visit_tile(const falt_fewchannels_nchw_problem *p, const falt_machine *m, falt_fewchannels_nchw_tile t,
                       falt_tile_search *search) {
  t.rejected = fit(p, &t);
  if (!t.rejected) t.rejected = count(p, m, &t);
  if (!t.rejected) estimate(p, m, &t);
  falt_tile_offer(search, &t, t.rejected, t.seconds);
}

static void visit_walks(const falt_fewchannels_nchw_problem *p, const falt_machine *m, falt_fewchannels_nchw_tile t,
                        falt_tile_search *search) {
  enum { MOST_WALKS = 64 };
  for (int64_t walk = p->out[1] + 1; (walk = falt_piece_below(p->out[1], MOST_WALKS, walk)) > 0;) {
    t.walk = (int)walk;
    visit_tile(p, m, t, search);
  }
}

void falt_fewchannels_nchw_each(const falt_fewchannels_nchw_problem *p, const falt_machine *m,
                                falt_tile_search *search) {
  for (int eights = 1; eights <= 2; eights *= 2)
    visit_walks(p, m, (falt_fewchannels_nchw_tile){.eights = eights}, search);
}

bool falt_fewchannels_nchw_choose(const falt_fewchannels_nchw_problem *problem, const falt_machine *machine,
                                  falt_fewchannels_nchw_tile *best) {
  falt_tile_search search = falt_tile_search_best(best, sizeof *best);
  falt_fewchannels_nchw_each(problem, machine, &search);
  return search.found;
}

void falt_fewchannels_nchw_defines(falt_cuda_kernel *kernel, const falt_fewchannels_nchw_problem *p,
                                   const falt_fewchannels_nchw_tile *t) {
  const falt_cuda_named_define defines[] = {{"CHANNELS", p->channels}, {"PLANES", p->taps[0]}, {"TAPS_R", p->taps[1]},
                                            {"TAPS_S", p->taps[2]},    {"PAD", p->pad},        {"INNER", p->inner},
                                            {"EIGHTS", t->eights},     {"BLOCKS", t->blocks}};
  falt_cuda_defines(kernel, defines, sizeof defines / sizeof *defines);
}
