/* Gradients of dense layers' filters in tiles, bf16:
 *
 *     dw[k, c, j] = sum over positions p of  x[p*stride + j*dilation - pad, c] * dy[p, k]
 *
 * Positions are the depth of the product, so that both operands lie the wrong way round in memory with adjacent
 * channels. x is turned once for all taps: the positions of a channel become a row of memory, line after line, those of
 * each residue modulo the strides by themselves, and a tap is a shift of the address. For that the lines of dy are as
 * far apart as those of x, with zeros between them; dy is interleaved by pairs of positions, as panels are (E.
 * Georganas et al., "Harnessing Deep Learning via a Single Building Block", 2020). Sums are f32 and stay in the tiles
 * over all positions of a block of planes; blocks follow each other in the same order for any number of threads.
 *
 * Zeros meet elements that do not belong to them. Where such an element is not finite the sum is no number, and formed
 * again. */
#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "cpu/layer_tiles.h"
#include "cpu/outer.h"
#include "solver/filter_rows.h"
#include "solver/layer.h"

enum {
  ROWS = FALT_TILE_ROWS,
  COLUMNS = FALT_TILES_COLUMNS,
  TILE = FALT_TILE,
  CHUNK = 32 /* positions */,
  SQUARE = FALT_TILES_ROWS * COLUMNS
};
enum { MOST_PARTS = 64, MOST_PHASES = 16, LEAST_SPAN = 256 /* positions */, ROOM = 3 };

typedef struct tiles_plan {
  falt_plan base;
  falt_layer layer; /* of the forward problem */
  const falt_tiles_kernels *kernels;
  const falt_outer_kernels *outer;
  int64_t lines, line_cuts;                 /* of a plane's results in a part, and cuts of a plane by lines */
  int64_t span, span_cuts;                  /* of their positions */
  int64_t parts, blocks, all;               /* parts of a block, at most; blocks; all parts */
  int64_t phases[2];                        /* by height and width */
  int64_t height, width;                    /* lines of x of a phase, and positions of a line */
  int64_t chunks, reach, pitch;             /* of a part's dy; chunks of a phase of x, and bytes of its channel */
  int64_t tiles;                            /* of input channels */
  int64_t panels;                           /* of output channels */
  size_t turned, paired, sums, zeros, ones; /* offsets into the workspace */
  size_t x_part, y_panel;                   /* bytes of a part's x, of a block's panel of dy */
} tiles_plan;

static int64_t group_count(const tiles_plan *plan) {
  return plan->layer.p.filter.size[FALT_G];
}
/* Tiles of rows of a group: of each tap its channels, and one for the bias. */
static int64_t tile_count(const tiles_plan *plan) {
  return plan->layer.taps * plan->tiles + plan->base.problem.has_bias;
}
static int64_t pair_count(const tiles_plan *plan) {
  return falt_ceil_div(tile_count(plan), 2);
}

/* ---- execute */

typedef struct execution {
  const tiles_plan *plan;
  const falt_operands *operands;
  int64_t first, parts; /* of the block */
  char *turned, *paired;
  float *sums;
  const char *zeros, *ones;
} execution;

/* Lines of a plane from one on, and some of their positions. */
typedef struct part {
  falt_layer_point at;
  int64_t lines, width;
} part;

static part part_at(const execution *run, int64_t i) {
  const tiles_plan *plan = run->plan;
  const int64_t *size = plan->layer.p.output.size, index = run->first + i, cut = index / plan->span_cuts;
  const int64_t plane = cut / plan->line_cuts;
  part p = {.at = {plane / size[FALT_D],
                   {plane % size[FALT_D], cut % plan->line_cuts * plan->lines, index % plan->span_cuts * plan->span}}};
  p.lines = falt_min(plan->lines, size[FALT_H] - p.at.at[1]);
  p.width = falt_min(plan->span, size[FALT_W] - p.at.at[2]);
  return p;
}

/* ---- x, turned: for each part, tap of the depth and phase a matrix of channels by positions */

static int64_t phase_count(const tiles_plan *plan) {
  return plan->phases[0] * plan->phases[1];
}

static char *turned_at(const execution *run, int64_t i, int64_t j, int64_t phase) {
  const tiles_plan *plan = run->plan;
  const int64_t rows = group_count(plan) * plan->tiles * ROWS * plan->pitch;
  return run->turned + (size_t)i * plan->x_part + (size_t)((j * phase_count(plan) + phase) * rows);
}

/* The pixel of group 0 at a position of a phase, which is CHUNK*chunk + m; zeros beyond all lines. */
static const void *pixel_at(const execution *run, const part *p, int64_t j, int64_t phase, int64_t position) {
  const tiles_plan *plan = run->plan;
  const falt_tensor *x = &plan->layer.p.input;
  const falt_axis *axis = plan->layer.p.axis;
  const int64_t line = position / plan->width, along = position % plan->width;
  if (line >= plan->height) return run->zeros;
  const int64_t v = (p->at.at[1] + line) * axis[1].stride + phase / plan->phases[1] - axis[1].pad[0];
  const int64_t u = (p->at.at[2] + along) * axis[2].stride + phase % plan->phases[1] - axis[2].pad[0];
  const int64_t d = falt_layer_source(&plan->layer, 0, p->at.at[0], j);
  const int64_t h = v >= 0 && v < x->size[FALT_H] ? v : falt_axis_map(&axis[1], x->size[FALT_H], v);
  const int64_t w = u >= 0 && u < x->size[FALT_W] ? u : falt_axis_map(&axis[2], x->size[FALT_W], u);
  if (d < 0 || h < 0 || w < 0) return NULL;
  return (const uint16_t *)run->operands->input + falt_tensor_at(x, p->at.n, 0, 0, d, h, w);
}

/* One chunk of positions of all channels. */
static void turn_x(void *context, int64_t index) {
  const execution *run = context;
  const tiles_plan *plan = run->plan;
  const int64_t chunk = index % plan->reach, rest = index / plan->reach, phase = rest % phase_count(plan);
  const int64_t depth = plan->layer.p.filter.size[FALT_D], j = rest / phase_count(plan) % depth;
  const int64_t i = rest / phase_count(plan) / depth, channels = plan->layer.channels;
  const part p = part_at(run, i);
  const void *pixels[CHUNK], *rows[CHUNK];
  for (int m = 0; m < CHUNK; m++) pixels[m] = pixel_at(run, &p, j, phase, chunk * CHUNK + m);
  char *to = turned_at(run, i, j, phase) + chunk * FALT_TILE_BYTES;
  for (int64_t g = 0; g < group_count(plan); g++, to += plan->tiles * ROWS * plan->pitch)
    for (int64_t c = 0; c < channels; c += CHUNK) {
      const int64_t at = g * plan->layer.p.input.stride[FALT_G] + c;
      for (int m = 0; m < CHUNK; m++) /* the constant is 0 */
        rows[m] = !pixels[m] || pixels[m] == run->zeros ? run->zeros : (const void *)((const uint16_t *)pixels[m] + at);
      plan->kernels->turn(
          &(falt_tiles_turn){rows, to + c * plan->pitch, plan->pitch, (int)falt_min(CHUNK, channels - c)});
    }
}

/* ---- dy, as panels: the chunks of all parts of a block */

static void pair_y(void *context, int64_t index) {
  const execution *run = context;
  const tiles_plan *plan = run->plan;
  const falt_tensor *y = &plan->layer.p.output;
  const int64_t chunk = index % plan->chunks, i = index / plan->chunks;
  const part p = part_at(run, i);
  const uint16_t *pixels[CHUNK];
  for (int m = 0; m < CHUNK; m++) {
    const int64_t line = (chunk * CHUNK + m) / plan->width, along = (chunk * CHUNK + m) % plan->width;
    const bool inside = line < p.lines && along < p.width;
    const int64_t at = falt_tensor_at(y, p.at.n, 0, 0, p.at.at[0], p.at.at[1] + line, p.at.at[2] + along);
    pixels[m] = inside ? (const uint16_t *)run->operands->output + at : NULL;
  }
  for (int64_t panel = 0; panel < group_count(plan) * plan->panels; panel++) {
    const void *rows[CHUNK];
    const int64_t k = panel % plan->panels * COLUMNS, n = falt_min(COLUMNS, plan->layer.results - k);
    const int64_t at = panel / plan->panels * y->stride[FALT_G] + k;
    for (int m = 0; m < CHUNK; m++) rows[m] = pixels[m] ? (const void *)(pixels[m] + at) : run->zeros;
    plan->kernels->pair(&(falt_tiles_turn){
        rows, run->paired + (size_t)panel * plan->y_panel + (size_t)(index * falt_ceil_div(n, ROWS) * TILE), 0,
        (int)n});
  }
}

/* ---- results out */

/* The sum of one weight, from its definition. */
static float sum_of(const execution *run, int64_t g, int64_t k, int64_t c, int64_t tap) {
  const falt_layer *layer = &run->plan->layer;
  const falt_problem *p = &layer->p;
  const int64_t *taps = p->filter.size, s = tap % taps[FALT_W], rest = tap / taps[FALT_W];
  float sum = 0;
  for (int64_t i = 0; i < layer->positions; i++) {
    const falt_layer_point at = falt_layer_point_at(layer, i);
    const int64_t d = falt_layer_source(layer, 0, at.at[0], rest / taps[FALT_H]);
    const int64_t h = falt_layer_source(layer, 1, at.at[1], rest % taps[FALT_H]);
    const int64_t w = falt_layer_source(layer, 2, at.at[2], s);
    const int64_t y = falt_tensor_at(&p->output, at.n, g, k, at.at[0], at.at[1], at.at[2]);
    const int64_t x = falt_tensor_at(&p->input, at.n, g, c, d, h, w);
    const double value = d < 0 || h < 0 || w < 0 ? 0 : falt_load(run->operands->input, p->input.type, x);
    sum += (float)value * (float)falt_load(run->operands->output, p->output.type, y);
  }
  return sum;
}

/* A tile's sums by a panel: turned, then narrowed. */
static void store_tile(const execution *run, int64_t g, int64_t tile, int64_t panel, const float *sums) {
  const tiles_plan *plan = run->plan;
  const falt_tensor *w = &plan->layer.p.filter;
  const int64_t *taps = w->size, tap = tile / plan->tiles, s = tap % taps[FALT_W], rest = tap / taps[FALT_W];
  const int64_t c = tile % plan->tiles * ROWS, n = falt_min(ROWS, plan->layer.channels - c);
  const int64_t k = panel * COLUMNS, count = falt_min(COLUMNS, plan->layer.results - k);
  _Alignas(64) float square[SQUARE];
  int64_t at[FALT_TILES_ROWS];
  if (tap == plan->layer.taps) {
    memcpy((float *)run->operands->bias + g * plan->layer.results + k, sums, (size_t)count * sizeof *sums);
    return;
  }
  plan->outer->turn(
      &(falt_turn){.from = sums, .to = square, .from_pitch = COLUMNS, .to_pitch = COLUMNS, .n = n, .count = count});
  for (int64_t m = 0; m < count; m++) at[m] = m * w->stride[FALT_K];
  const int rows[2] = {(int)falt_min(ROWS, count), (int)falt_max(0, count - ROWS)};
  if (!plan->kernels->numbers(square, rows, (int)n))
    for (int64_t i = 0; i < count * n; i++) {
      float *sum = &square[i / n * COLUMNS + i % n];
      if (isnan(*sum)) *sum = sum_of(run, g, k + i / n, c + i % n, tap);
    }
  const int64_t to = falt_tensor_at(w, k, g, c, rest / taps[FALT_H], rest % taps[FALT_H], s);
  char *filter = (char *)run->operands->filter + to * (int64_t)falt_type_size(w->type);
  if (falt_tensor_unit(w, FALT_C)) {
    plan->kernels->finish(&(falt_tiles_finish){.sums = square,
                                               .plain = true,
                                               .type = w->type,
                                               .out = filter,
                                               .at = at,
                                               .rows = {rows[0], rows[1]},
                                               .n = (int)n});
    return;
  }
  for (int64_t i = 0; i < count * n; i++)
    falt_store(filter, w->type, at[i / n] + i % n * w->stride[FALT_C], (double)square[i / n * COLUMNS + i % n]);
}

/* The sums of a pair of tiles and a panel. */
static void store_pair(const execution *run, int64_t g, int64_t pair, int64_t panel, const float *sums) {
  for (int64_t t = 0; t < 2 && 2 * pair + t < tile_count(run->plan); t++)
    store_tile(run, g, 2 * pair + t, panel, sums + t * ROWS * COLUMNS);
}

/* ---- sums */

/* Where a tile's rows lie: 16 channels at a tap, or ones. */
static falt_tile_rows rows_of(const execution *run, int64_t i, int64_t group, int64_t tile) {
  const tiles_plan *plan = run->plan;
  const falt_axis *axis = plan->layer.p.axis;
  const int64_t *taps = plan->layer.p.filter.size, tap = tile / plan->tiles;
  if (tap == plan->layer.taps) return (falt_tile_rows){run->ones, 0, 0};
  const int64_t s = tap % taps[FALT_W] * axis[2].dilation, rest = tap / taps[FALT_W];
  const int64_t r = rest % taps[FALT_H] * axis[1].dilation, j = rest / taps[FALT_H];
  const int64_t phase = r % axis[1].stride * plan->phases[1] + s % axis[2].stride;
  const int64_t shift = r / axis[1].stride * plan->width + s / axis[2].stride;
  const int64_t row = (group * plan->tiles + tile % plan->tiles) * ROWS;
  return (falt_tile_rows){turned_at(run, i, j, phase) + row * plan->pitch + 2 * shift, plan->pitch, FALT_TILE_BYTES};
}

/* The sums of a pair of tiles and a panel are a square. */
static float *square_at(const execution *run, int64_t g, int64_t pair, int64_t panel) {
  const tiles_plan *plan = run->plan;
  return run->sums + ((g * pair_count(plan) + pair) * plan->panels + panel) * SQUARE;
}

/* A pair of tiles of rows of a group by all its panels. Sums of the only block are results. */
static void multiply(void *context, int64_t index) {
  const execution *run = context;
  const tiles_plan *plan = run->plan;
  const int64_t group = index / pair_count(plan), pair = index % pair_count(plan);
  _Alignas(64) float room[2 * SQUARE];
  falt_tile_rows list[2 * MOST_PARTS];
  int64_t at[FALT_TILES_ROWS];
  falt_tiles_flow flow = {.sums = room};
  const int tiles = (int)falt_min(2, tile_count(plan) - 2 * pair);
  for (int64_t i = 0; i < run->parts; i++)
    for (int t = 0; t < tiles; t++) list[2 * i + t] = rows_of(run, i, group, 2 * pair + t);
  for (int m = 0; m < FALT_TILES_ROWS; m++) at[m] = m * COLUMNS;
  const falt_tiles_finish finish = {.plain = true,
                                    .adds = run->first > 0,
                                    .type = FALT_F32,
                                    .out = plan->blocks > 1 ? square_at(run, group, pair, 0) : NULL,
                                    .at = at,
                                    .rows = {ROWS, tiles > 1 ? ROWS : 0}};
  falt_tiles_product call = {.kind = FALT_TILES_BF16,
                             .a = list,
                             .b = run->paired + (size_t)(group * plan->panels) * plan->y_panel,
                             .panels = plan->panels,
                             .pitch = (int64_t)plan->y_panel,
                             .segments = run->parts,
                             .pieces = plan->chunks,
                             .tiles = tiles,
                             .rows = ROWS,
                             .columns = plan->layer.results,
                             .apart = SQUARE,
                             .finish = &finish};
  plan->kernels->open(ROWS);
  if (plan->blocks > 1) {
    plan->kernels->product(&call, &flow);
  } else {
    call.panels = 1;
    call.finish = NULL;
    for (int64_t panel = 0; panel < plan->panels; panel++, call.b += call.pitch, call.columns -= COLUMNS) {
      plan->kernels->product(&call, &flow);
      store_pair(run, group, pair, panel, room);
    }
  }
  plan->kernels->flush(&flow);
  plan->kernels->close();
}

/* All sums of a pair, after the last block. */
static void store_sums(void *context, int64_t index) {
  const execution *run = context;
  const int64_t group = index / pair_count(run->plan), pair = index % pair_count(run->plan);
  for (int64_t panel = 0; panel < run->plan->panels; panel++)
    store_pair(run, group, pair, panel, square_at(run, group, pair, panel));
}

static void execute(const falt_plan *base, const falt_operands *operands) {
  const tiles_plan *plan = (const tiles_plan *)base;
  char *workspace = operands->workspace;
  falt_threads *threads = base->device->threads;
  execution run = {.plan = plan,
                   .operands = operands,
                   .turned = workspace + plan->turned,
                   .paired = workspace + plan->paired,
                   .sums = (float *)(void *)(workspace + plan->sums),
                   .zeros = workspace + plan->zeros,
                   .ones = workspace + plan->ones};
  memset(workspace + plan->zeros, 0, FALT_TILE_BYTES);
  for (int i = 0; i < CHUNK; i++) falt_store(workspace + plan->ones, FALT_BF16, i, 1);
  for (run.first = 0; run.first < plan->all; run.first += run.parts) {
    run.parts = falt_min(plan->parts, plan->all - run.first);
    const int64_t matrices = run.parts * plan->layer.p.filter.size[FALT_D] * phase_count(plan);
    falt_parallel_for(threads, matrices * plan->reach, turn_x, &run);
    falt_parallel_for(threads, run.parts * plan->chunks, pair_y, &run);
    falt_parallel_for(threads, group_count(plan) * pair_count(plan), multiply, &run);
  }
  if (plan->blocks > 1) falt_parallel_for(threads, group_count(plan) * pair_count(plan), store_sums, &run);
}

static void print(const falt_plan *base, falt_text *text) {
  const tiles_plan *plan = (const tiles_plan *)base;
  falt_text_add(text, "(outer-tiles %s lines=%lld parts=%lld blocks=%lld threads=%d)", falt_isa_name(base->device->isa),
                (long long)plan->lines, (long long)plan->parts, (long long)plan->blocks,
                falt_threads_count(base->device->threads));
}

static void destroy(falt_plan *plan) {
  falt_free(plan);
}

/* ---- applicable, besides what all layers must be */

static bool is_result(falt_type type) {
  return type == FALT_F16 || type == FALT_BF16 || type == FALT_F32;
}

static bool meets_constant(const falt_problem *p) {
  for (int a = 0; a < 3; a++)
    if (p->axis[a].boundary[0] == FALT_CONSTANT || p->axis[a].boundary[1] == FALT_CONSTANT) return true;
  return false;
}

static const char *refusal(const falt_problem *p) {
  return p->operation != FALT_BACKWARD_FILTER                        ? "only backward-filter"
         : p->input.type != FALT_BF16 || p->output.type != FALT_BF16 ? "only bf16"
         : p->accumulator != FALT_F32                                ? "sums are f32"
         : !is_result(p->filter.type)                                ? "only filters in bf16, f16 or f32"
         : !falt_tensor_unit(&p->input, FALT_C)                      ? "the input's channels are not adjacent"
         : !falt_tensor_unit(&p->output, FALT_C)                     ? "the output's channels are not adjacent"
         : p->boundary_value != 0 && meets_constant(p)               ? "only a constant of zero"
         : p->axis[1].stride * p->axis[2].stride > MOST_PHASES       ? "its strides have too many residues"
                                                                     : NULL;
}

/* ---- estimate */

/* Share of the multiply-add peak, and what else takes time, in f32 operations of vectors at that peak. */
static const double share = 0.6, per_turned = 16, per_paired = 8, per_sum = 24, per_result = 100;

static double estimate(const tiles_plan *plan, const falt_device *device) {
  const falt_layer *layer = &plan->layer;
  const double groups = (double)group_count(plan), parts = (double)plan->all;
  const double rows = (double)(tile_count(plan) * ROWS), columns = (double)falt_round_up(layer->results, ROWS);
  const double products =
      2 * groups * parts * rows * columns * (double)(plan->chunks * CHUNK) / plan->kernels->speed[FALT_TILES_BF16];
  const double turned = parts * (double)plan->x_part / 2 * per_turned;
  const double paired = parts * groups * columns * (double)(plan->chunks * CHUNK) * per_paired;
  const double sums = groups * rows * columns * (double)plan->blocks * per_sum;
  const double results = (double)falt_tensor_count(&layer->p.filter) * per_result;
  return falt_roofline(device, FALT_F32, products + turned + paired + sums + results, share,
                       falt_problem_bytes(&plan->base.problem));
}

/* ---- plan */

static void set_geometry(tiles_plan *plan, int64_t lines, int64_t span) {
  const falt_problem *p = &plan->layer.p;
  const falt_axis *axis = p->axis;
  const int64_t *taps = p->filter.size;
  const int64_t down = (taps[FALT_H] - 1) * axis[1].dilation / axis[1].stride;
  const int64_t along = (taps[FALT_W] - 1) * axis[2].dilation / axis[2].stride;
  plan->lines = lines;
  plan->span = span;
  plan->line_cuts = falt_ceil_div(p->output.size[FALT_H], lines);
  plan->span_cuts = falt_ceil_div(p->output.size[FALT_W], span);
  plan->phases[0] = taps[FALT_H] == 1 ? 1 : axis[1].stride;
  plan->phases[1] = taps[FALT_W] == 1 ? 1 : axis[2].stride;
  plan->height = lines + down;
  plan->width = span + along;
  plan->chunks = falt_ceil_div((lines - 1) * plan->width + span, CHUNK);
  plan->reach = falt_ceil_div(plan->chunks * CHUNK + down * plan->width + along, CHUNK);
  plan->pitch = (plan->reach | 1) * FALT_TILE_BYTES; /* odd: rows of a tile fall into sets of their own */
  plan->tiles = falt_ceil_div(plan->layer.channels, ROWS);
  plan->panels = falt_ceil_div(plan->layer.results, COLUMNS);
  plan->x_part = (size_t)(taps[FALT_D] * phase_count(plan) * group_count(plan) * plan->tiles * ROWS * plan->pitch);
}

static int64_t part_bytes(const tiles_plan *plan) {
  return (int64_t)plan->x_part + group_count(plan) * plan->panels * plan->chunks * 2 * TILE;
}

/* Parts that stay in the second-level cache, by the problem alone: the order of sums must not depend on threads. */
static void set_parts(tiles_plan *plan) {
  const int64_t *size = plan->layer.p.output.size, room = (int64_t)plan->base.device->caches.l2 * ROOM / 4;
  set_geometry(plan, size[FALT_H], size[FALT_W]);
  while (plan->lines > 1 && part_bytes(plan) > room) set_geometry(plan, falt_ceil_div(plan->lines, 2), plan->span);
  while (plan->span > LEAST_SPAN && part_bytes(plan) > room)
    set_geometry(plan, plan->lines, falt_round_up(falt_ceil_div(plan->span, 2), CHUNK));
  plan->all = size[FALT_N] * size[FALT_D] * plan->line_cuts * plan->span_cuts;
  plan->parts = falt_max(1, falt_min(falt_min(MOST_PARTS, plan->all), room / part_bytes(plan)));
  plan->blocks = falt_ceil_div(plan->all, plan->parts);
  plan->y_panel = (size_t)(plan->parts * plan->chunks * 2 * TILE);
}

static void lay_memory(tiles_plan *plan) {
  const size_t groups = (size_t)group_count(plan);
  size_t total = 0;
  plan->turned = falt_place(&total, (size_t)plan->parts * plan->x_part);
  plan->paired = falt_place(&total, groups * (size_t)plan->panels * plan->y_panel);
  plan->sums = falt_place(
      &total, plan->blocks > 1 ? groups * (size_t)(pair_count(plan) * plan->panels) * SQUARE * sizeof(float) : 0);
  plan->zeros = falt_place(&total, FALT_TILE_BYTES);
  plan->ones = falt_place(&total, FALT_TILE_BYTES);
  plan->base.workspace = total;
}

static falt_plan *plan_tiles(const falt_solver *solver, falt_ask *ask) {
  static const falt_plan_table table = {.execute = execute, .print = print, .destroy = destroy};
  falt_problem forward = *ask->problem;
  falt_layer layer;
  const char *reason = refusal(ask->problem);
  forward.operation = FALT_FORWARD;
  forward.has_bias = false;
  if (!reason) reason = falt_layer_shape(&layer, &forward, ask->device->isa);
  if (reason) return falt_refuse(ask, "%s", reason);
  tiles_plan *plan = falt_plan_new(sizeof *plan, &table, solver, ask);
  if (!plan) return NULL;
  plan->layer = layer;
  plan->kernels = falt_tiles_kernels_for(ask->device->isa);
  plan->outer = falt_outer_kernels_for(ask->device->isa);
  set_parts(plan);
  lay_memory(plan);
  plan->base.cost.seconds = estimate(plan, ask->device);
  return &plan->base;
}

extern const falt_solver falt_solver_outer_tiles;
const falt_solver falt_solver_outer_tiles = {.name = "outer-tiles", .device_kind = "cpu", .plan = plan_tiles};
