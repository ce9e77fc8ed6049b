/* Tile search of cuda_fewchannels_nhwc.cu: enumerates all shapes, rejects the illegal ones with a reason, and keeps the
 * one with the smallest estimated time. */
#include <math.h>

#include "core/memory.h"
#include "solver/cuda/fewchannels/cuda_fewchannels_tiles.h"

enum { MOST_CONSUMERS = 2, MOST_WALKS = 128, FETCHED = 128, MOST_FETCHED = 24 };
enum { REGISTERS_BESIDE = 56 }; /* of a thread that multiplies, as seen on compiled kernels */

/* ---- sizes, as the kernel has them */

/* Pieces of 16 bytes from an output's run to the next one's. */
static int64_t spread_of(const falt_fewchannels_nhwc_problem *p, const falt_fewchannels_nhwc_tile *t) {
  return p->stride[1] * t->paired * t->pixel / 8;
}

int64_t falt_fewchannels_nhwc_fewest_pieces(const falt_fewchannels_nhwc_problem *p,
                                            const falt_fewchannels_nhwc_tile *t) {
  const int64_t reach = (p->taps[1] - 1) * p->dilation[1] + (t->paired - 1) * p->stride[1] + 1;
  return falt_ceil_div(reach * t->pixel, 8);
}

/* Pieces of a run, two a product. */
static int64_t pieces_of(const falt_fewchannels_nhwc_problem *p, const falt_fewchannels_nhwc_tile *t) {
  const int64_t spread = spread_of(p, t);
  return falt_round_up(falt_fewchannels_nhwc_fewest_pieces(p, t), spread % 2 ? 2 * spread : 2);
}

static int64_t products_of(const falt_fewchannels_nhwc_problem *p, const falt_fewchannels_nhwc_tile *t) {
  return p->taps[0] * t->pieces / 2;
}

int64_t falt_fewchannels_nhwc_row_pieces(const falt_fewchannels_nhwc_problem *p, const falt_fewchannels_nhwc_tile *t) {
  const int64_t spread = spread_of(p, t);
  return spread * (t->width + (t->pieces - 1) / spread);
}

int64_t falt_fewchannels_nhwc_ahead(const falt_fewchannels_nhwc_problem *p, const falt_fewchannels_nhwc_tile *t) {
  return ((t->rows - 1) * p->stride[0] + (p->taps[0] - 1) * p->dilation[0]) / (t->rows * p->stride[0]);
}

static int64_t staged_bytes(const falt_fewchannels_nhwc_problem *p, const falt_fewchannels_nhwc_tile *t) {
  const int tile = t->width * t->paired, span = 64 / t->paired;
  return p->planar ? span * (tile * 2 + 16) : tile * (span * 2 + 16);
}

int falt_fewchannels_nhwc_threads(const falt_fewchannels_nhwc_tile *t) {
  return 128 * (t->rows * t->parts + 1);
}

/* ---- one tile */

/* Registers of a thread that multiplies, as the kernel divides them. */
static int64_t consumer_registers(const falt_fewchannels_nhwc_tile *t) {
  return t->rows * t->parts == 1 ? 240 : 224;
}

static const char *fit(const falt_fewchannels_nhwc_problem *p, const falt_machine *m, falt_fewchannels_nhwc_tile *t) {
  const int64_t batch_bytes = falt_fewchannels_nhwc_row_pieces(p, t) * 16 * t->rows * p->stride[0] + 16;
  const int64_t beside = t->rows * t->parts * staged_bytes(p, t);
  if (4 * products_of(p, t) + t->width / 2 + REGISTERS_BESIDE > consumer_registers(t))
    return "registers have no room for the filter and the sums";
  if (beside + 2 * batch_bytes > m->arch->block_shared)
    return "the rows that an output reads do not fit into shared memory";
  t->batches = (int)falt_min((m->arch->block_shared - beside) / batch_bytes, falt_fewchannels_nhwc_ahead(p, t) + 4);
  t->shared_bytes = (int)(t->batches * batch_bytes + beside);
  return t->batches < falt_fewchannels_nhwc_ahead(p, t) + 2
             ? "the rows that an output reads do not fit into shared memory"
             : NULL;
}

const char *falt_fewchannels_nhwc_count(const falt_fewchannels_nhwc_problem *p, const falt_machine *m,
                                        falt_fewchannels_nhwc_tile *t) {
  t->walks = (int)falt_ceil_div(p->out[0], t->walk);
  t->column_tiles = (int)falt_ceil_div(p->out[1], t->width * t->paired);
  t->result_tiles = (int)falt_ceil_div(p->results, t->parts * 64 / t->paired) * t->tap_parts;
  t->items = (int64_t)t->walks * t->column_tiles;
  if (t->result_tiles > m->multiprocessors) return "it has more channels than blocks run at once";
  if (t->items > INT32_MAX / p->images) return "it has more rows than one launch can number";
  t->items *= p->images;
  t->grid = falt_min(t->items, m->multiprocessors / t->result_tiles) * t->result_tiles;
  return NULL;
}

/* As many as registers hold and divide a batch. */
int64_t falt_fewchannels_nhwc_at_once(const falt_fewchannels_nhwc_problem *p, const falt_fewchannels_nhwc_tile *t) {
  const int64_t row = falt_ceil_div(falt_fewchannels_nhwc_row_pieces(p, t), FETCHED) * (8 / t->pixel) * p->channels;
  int64_t rows = t->rows * p->stride[0];
  while (rows > 1 && ((t->rows * p->stride[0]) % rows || rows * row > MOST_FETCHED)) rows--;
  return rows;
}

/* Cycles of a multiprocessor for a batch: of the tensor cores, of rows in flight, and the rest as measured on an
 * H200. */
static double batch_cycles(const falt_fewchannels_nhwc_problem *p, const falt_fewchannels_nhwc_tile *t) {
  const double multiplied = (double)products_of(p, t) * t->width / 2 * t->rows * t->parts;
  const double fetches = (double)(t->rows * p->stride[0]) / (double)falt_fewchannels_nhwc_at_once(p, t);
  return multiplied + 1200 * fetches + 700;
}

static void estimate(const falt_fewchannels_nhwc_problem *p, const falt_machine *m, falt_fewchannels_nhwc_tile *t) {
  const double walks = ceil((double)t->items * t->result_tiles / (double)t->grid);
  const double batches = (double)(falt_ceil_div(t->walk, t->rows) + falt_fewchannels_nhwc_ahead(p, t));
  const double starting = 4000 + 1500 * (double)products_of(p, t);
  const double compute = (walks * batches * batch_cycles(p, t) + starting) / m->clock_hz;
  const double read = (double)(t->items * t->walk) * (double)(p->stride[0] * p->stride[1]) * t->width * t->paired *
                      (double)p->channels * 2 * t->result_tiles;
  const double written = (double)(p->images * p->out[0] * p->out[1]) * (double)p->results * 2;
  const double memory = (read + written) / (0.85 * m->bytes_per_s);
  t->seconds = fmax(compute, memory) + 0.1 * fmin(compute, memory) + 2e-6;
}

static void visit_tile(const falt_fewchannels_nhwc_problem *p, const falt_machine *m, falt_fewchannels_nhwc_tile t,
                       falt_tile_search *search) {
  t.rejected = fit(p, m, &t);
  if (!t.rejected) t.rejected = falt_fewchannels_nhwc_count(p, m, &t);
  if (!t.rejected) estimate(p, m, &t);
  falt_tile_offer(search, &t, t.rejected, t.seconds);
}

bool falt_fewchannels_nhwc_next_walk(const falt_fewchannels_nhwc_problem *p, falt_fewchannels_nhwc_tile *t) {
  for (int64_t walks = t->walks + 1; walks <= MOST_WALKS && walks <= p->out[0]; walks++) {
    const int walk = (int)falt_round_up(falt_ceil_div(p->out[0], walks), t->rows);
    t->walks = (int)walks;
    if (walk == t->walk) continue;
    t->walk = walk;
    return true;
  }
  return false;
}

void falt_fewchannels_nhwc_each(const falt_fewchannels_nhwc_problem *p, const falt_machine *m,
                                falt_tile_search *search) {
  static const int widths[] = {16, 32, 56, 64, 112, 128}; /* of wgmma_rows.cuh */
  falt_fewchannels_nhwc_tile t = {.pixel = p->channels <= 4 ? 4 : 8, .tap_parts = 1};
  t.paired = p->stride[1] * t.pixel % 8 ? 2 : 1;
  t.pieces = (int)pieces_of(p, &t);
  t.parts = (int)falt_min(falt_ceil_div(p->results * t.paired, 64), MOST_CONSUMERS); /* x is read for few blocks */
  for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
    for (t.rows = 1; t.rows * t.parts <= MOST_CONSUMERS; t.rows++) {
      t.width = widths[i];
      t.walk = t.walks = 0;
      while (falt_fewchannels_nhwc_next_walk(p, &t)) visit_tile(p, m, t, search);
    }
}

bool falt_fewchannels_nhwc_choose(const falt_fewchannels_nhwc_problem *problem, const falt_machine *machine,
                                  falt_fewchannels_nhwc_tile *best) {
  falt_tile_search search = falt_tile_search_best(best, sizeof *best);
  falt_fewchannels_nhwc_each(problem, machine, &search);
  return search.found;
}

void falt_fewchannels_nhwc_defines(falt_cuda_kernel *kernel, const falt_fewchannels_nhwc_problem *p,
                                   const falt_fewchannels_nhwc_tile *t) {
  const falt_cuda_named_define defines[] = {
      {"CHANNELS", p->channels},    {"PIXEL", t->pixel},          {"TAPS_R", p->taps[0]},
      {"TAPS_S", p->taps[1]},       {"STRIDE_R", p->stride[0]},   {"STRIDE_S", p->stride[1]},
      {"DILATE_R", p->dilation[0]}, {"DILATE_S", p->dilation[1]}, {"PAIRED", t->paired},
      {"PIECES", t->pieces},        {"WIDTH", t->width},          {"ROWS", t->rows},
      {"PARTS", t->parts},          {"BATCHES", t->batches},      {"MIRRORED", t->mirrored},
      {"PLANAR", p->planar}};
  falt_cuda_defines(kernel, defines, sizeof defines / sizeof *defines);
}
