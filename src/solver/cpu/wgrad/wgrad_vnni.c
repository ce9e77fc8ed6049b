/* Solver wgrad-vnni: weight gradients of dense bf16 layers in VNNI order, by AMX if there is one.
 *
 *     dw[k, c, j] = sum over positions p of  x[p*stride + j*dilation - pad, c] * dy[p, k]
 *
 * E. Georganas et al., "Harnessing Deep Learning via a Single Building Block", 2020. */
#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "solver/cpu/wgrad/wgrad.h"
#include "solver/cpu/wgrad/wgrad_vnni.h"

/* Positions are the depth of the product, so operands with adjacent channels are in the wrong order. x is transposed
 * once for all taps: the positions of a channel become a row of memory, line after line, separately for each residue
 * modulo the strides, and a tap is an address offset. For that the lines of dy have the pitch of those of x, with zeros
 * between them. dy is interleaved by pairs of positions, as panels are. With few channels the rows are those of all
 * taps along the width, which leaves fewer rows of a tile empty. NCHW operands have such rows already: x is copied line
 * by line, and two neighbours of dy are a pair in place. The vector kernels broadcast a pair of positions from any
 * address. With few adjacent channels a line is written once as pairs of an element and the next position's, and the
 * rows of all taps start in it. Accumulators are f32 and stay in the tiles over all positions of a block of planes.
 * Blocks follow each other in the same order for any number of threads.
 *
 * With one tap the operands have the same role. If the filter's input channels are adjacent, they are exchanged: rows
 * are output channels then, and the sums have the order of dw, otherwise they are transposed.
 *
 * Padding zeros are multiplied by unrelated elements. If such an element is not finite, the sum is NaN and is
 * recomputed. */

enum { MOST_POLYPHASES = 16, LEAST_SPAN = 256 /* positions */, ROOM = 3 };

/* Shifts of x: all taps, or all rows of taps. */
static int64_t shift_count(const falt_outer_tiles_plan *plan) {
  return plan->layer.taps / plan->layer.p.filter.size[FALT_W] * plan->along;
}
/* Tiles of rows of a group: of each shift its rows, and one for the bias. */
static int64_t tile_count(const falt_outer_tiles_plan *plan) {
  return shift_count(plan) * plan->tiles + plan->base.problem.has_bias;
}

/* The tap and channel of a row of a shift. */
typedef struct weight {
  int64_t tap, c;
} weight;

static weight weight_of(const falt_outer_tiles_plan *plan, int64_t shift, int64_t row) {
  const int64_t channels = plan->layer.channels, taps = plan->layer.p.filter.size[FALT_W];
  return plan->windows ? (weight){shift * taps + row / channels, row % channels} : (weight){shift, row};
}
static int64_t weight_at(const falt_outer_tiles_plan *plan, int64_t g, int64_t k, weight w) {
  const falt_tensor *filter = &plan->layer.p.filter;
  const int64_t *taps = filter->size, rest = w.tap / taps[FALT_W];
  return falt_tensor_at(filter, k, g, w.c, rest / taps[FALT_H], rest % taps[FALT_H], w.tap % taps[FALT_W]);
}
/* Pairs of positions of a segment. */
static int64_t groups_of(const falt_outer_tiles_plan *plan) {
  return falt_ceil_div((plan->spaced ? 0 : (plan->lines - 1) * plan->width) + plan->span, 2);
}
/* Ones for the bias, as far as a piece reaches. */
static int64_t ones_of(const falt_outer_tiles_plan *plan) {
  return (ROWS - 1) * plan->distance / 2 + 2;
}
static int64_t pair_count(const falt_outer_tiles_plan *plan) {
  return falt_ceil_div(tile_count(plan), 2);
}
/* Tasks that multiply a block. */
static int64_t task_count(const falt_outer_tiles_plan *plan) {
  return falt_outer_tiles_groups(plan) * pair_count(plan) * plan->chunks_of_panels.count;
}

/* ---- execute: outputs out */

/* The sum of one weight, from its definition. */
static float sum_of(const falt_outer_tiles_run *run, int64_t g, int64_t k, weight by) {
  const falt_layer *layer = &run->plan->layer;
  const falt_problem *p = &layer->p;
  const int64_t *taps = p->filter.size, s = by.tap % taps[FALT_W], rest = by.tap / taps[FALT_W];
  float sum = 0;
  for (int64_t i = 0; i < layer->positions; i++) {
    const falt_layer_point at = falt_layer_point_at(layer, i);
    const int64_t d = falt_layer_source(layer, 0, at.at[0], rest / taps[FALT_H]);
    const int64_t h = falt_layer_source(layer, 1, at.at[1], rest % taps[FALT_H]);
    const int64_t w = falt_layer_source(layer, 2, at.at[2], s);
    const int64_t y = falt_tensor_at(&p->output, at.n, g, k, at.at[0], at.at[1], at.at[2]);
    const int64_t x = falt_tensor_at(&p->input, at.n, g, by.c, d, h, w);
    const double value = d < 0 || h < 0 || w < 0 ? 0 : falt_load(run->operands->input, p->input.type, x);
    sum += (float)value * (float)falt_load(run->operands->output, p->output.type, y);
  }
  return sum;
}

/* Stores n outputs of each of `count` output channels, `pitch` bytes apart, to dw. */
static void scatter(const falt_outer_tiles_run *run, int64_t g, int64_t shift, int64_t row, int64_t n, int64_t k,
                    int64_t count, const char *from, int64_t pitch) {
  const falt_outer_tiles_plan *plan = run->plan;
  const size_t size = falt_type_size(plan->layer.p.filter.type);
  const int64_t step = plan->layer.p.filter.stride[FALT_K];
  for (int64_t i = 0; i < n; i++) {
    char *to = (char *)run->operands->filter + weight_at(plan, g, k, weight_of(plan, shift, row + i)) * (int64_t)size;
    const char *result = from + i * (int64_t)size;
    for (int64_t m = 0; m < count; m++, result += pitch, to += step * (int64_t)size) memcpy(to, result, size);
  }
}

/* Whether outputs of neighbouring rows are neighbours in the filter. */
static bool rows_adjacent(const falt_outer_tiles_plan *plan) {
  const falt_tensor *w = &plan->layer.p.filter;
  return falt_tensor_unit(w, FALT_C) &&
         (!plan->windows || w->size[FALT_W] == 1 || w->stride[FALT_W] == plan->layer.channels);
}

/* A tile's sums by a panel: transposed, then converted. Zeros of exchanged operands are multiplied by zeros only. */
static void store_tile(const falt_outer_tiles_run *run, int64_t g, int64_t tile, int64_t panel, const float *sums) {
  const falt_outer_tiles_plan *plan = run->plan;
  const falt_tensor *w = &plan->layer.p.filter;
  const int64_t shift = tile / plan->tiles, row = tile % plan->tiles * plan->rows;
  const int64_t n = falt_min(plan->rows, plan->length - row);
  const int64_t k = panel * COLUMNS, count = falt_min(COLUMNS, plan->layer.results - k);
  const bool adjacent = rows_adjacent(plan);
  const int64_t size = (int64_t)falt_type_size(w->type);
  _Alignas(64) float square[SQUARE], narrow[SQUARE];
  int64_t at[FALT_TILES_ROWS];
  if (shift == shift_count(plan)) {
    memcpy((float *)run->operands->bias + g * plan->layer.results + k, sums, (size_t)count * sizeof *sums);
    return;
  }
  char *filter = (char *)run->operands->filter + weight_at(plan, g, k, weight_of(plan, shift, row)) * size;
  if (plan->exchanged) {
    for (int64_t m = 0; m < n; m++) at[m] = m * w->stride[FALT_C];
    plan->kernels->finish(&(falt_tiles_finish){
        .sums = sums, .plain = true, .type = w->type, .out = filter, .at = at, .rows = {(int)n}, .n = (int)count});
    return;
  }
  plan->outer->transpose(&(falt_transpose){
      .from = sums, .to = square, .from_pitch = COLUMNS, .to_pitch = COLUMNS, .n = n, .count = count});
  for (int64_t m = 0; m < count; m++) at[m] = m * (adjacent ? w->stride[FALT_K] : COLUMNS);
  const int rows[2] = {(int)falt_min(ROWS, count), (int)falt_max(0, count - ROWS)};
  if (!plan->kernels->numbers(square, rows, (int)n))
    for (int64_t i = 0; i < count * n; i++) {
      float *sum = &square[i / n * COLUMNS + i % n];
      if (isnan(*sum)) *sum = sum_of(run, g, k + i / n, weight_of(plan, shift, row + i % n));
    }
  plan->kernels->finish(&(falt_tiles_finish){.sums = square,
                                             .plain = true,
                                             .type = w->type,
                                             .out = adjacent ? filter : (char *)narrow,
                                             .at = at,
                                             .rows = {rows[0], rows[1]},
                                             .n = (int)n});
  if (!adjacent) scatter(run, g, shift, row, n, k, count, (const char *)narrow, COLUMNS * size);
}

/* The sums of a pair of tiles and a panel. */
static void store_pair(const falt_outer_tiles_run *run, int64_t g, int64_t pair, int64_t panel, const float *sums) {
  for (int64_t t = 0; t < 2 && 2 * pair + t < tile_count(run->plan); t++)
    store_tile(run, g, 2 * pair + t, panel, sums + t * ROWS * COLUMNS);
}

/* ---- execute: sums */

/* The addresses of a tile's rows in a segment: channels at a tap, or ones. */
static falt_tile_rows rows_of(const falt_outer_tiles_run *run, int64_t segment, int64_t group, int64_t tile) {
  const falt_outer_tiles_plan *plan = run->plan;
  const falt_axis *axis = plan->layer.p.axis;
  const int64_t *taps = plan->layer.p.filter.size, at = tile / plan->tiles, i = segment / plan->segments;
  if (at == shift_count(plan)) return (falt_tile_rows){run->ones, 0, 0};
  const int64_t s = at % plan->along * axis[2].dilation, rest = at / plan->along;
  const int64_t r = rest % taps[FALT_H] * axis[1].dilation, j = rest / taps[FALT_H];
  const int64_t polyphase = r % axis[1].stride * plan->polyphases[1] + s % axis[2].stride;
  const int64_t shift = r / axis[1].stride * plan->width + s / axis[2].stride;
  const int64_t row = (group * plan->tiles + tile % plan->tiles) * plan->rows;
  if (plan->spaced) {
    const int64_t line = segment % plan->segments + r / axis[1].stride;
    return (falt_tile_rows){falt_outer_tiles_transposed(run, i, j, polyphase) + line * plan->pitch + row * PAIR_BYTES,
                            PAIR_BYTES, ROWS * plan->distance};
  }
  return (falt_tile_rows){falt_outer_tiles_transposed(run, i, j, polyphase) + row * plan->pitch + 2 * shift,
                          plan->pitch, FALT_TILE_BYTES};
}

/* The sums of a pair of tiles and a panel are a square. */
static float *square_at(const falt_outer_tiles_run *run, int64_t g, int64_t pair, int64_t panel) {
  const falt_outer_tiles_plan *plan = run->plan;
  return run->sums + ((g * pair_count(plan) + pair) * plan->panels + panel) * SQUARE;
}

/* A pair of tiles of rows of a group by a chunk of its panels. Sums of the only block are outputs. */
static void multiply(void *context, int64_t index) {
  const falt_outer_tiles_run *run = context;
  const falt_outer_tiles_plan *plan = run->plan;
  const falt_layer_pieces *chunks = &plan->chunks_of_panels;
  const int64_t chunk = index % chunks->count, square = index / chunks->count;
  const int64_t group = square / pair_count(plan), pair = square % pair_count(plan);
  const int64_t begin = falt_layer_piece(chunks, chunk), end = falt_layer_piece(chunks, chunk + 1);
  _Alignas(64) float room[2 * SQUARE];
  falt_tile_rows list[2 * MOST_SEGMENTS];
  int64_t at[FALT_TILES_ROWS];
  falt_tiles_flow flow = {.sums = room};
  const int tiles = (int)falt_min(2, tile_count(plan) - 2 * pair);
  const int64_t segments = run->parts * plan->segments, pieces = plan->chunks / plan->segments;
  for (int64_t i = 0; i < segments; i++)
    for (int t = 0; t < tiles; t++) list[2 * i + t] = rows_of(run, i, group, 2 * pair + t);
  for (int m = 0; m < FALT_TILES_ROWS; m++) at[m] = m * COLUMNS;
  const falt_tiles_finish finish = {.plain = true,
                                    .adds = run->first > 0,
                                    .type = FALT_F32,
                                    .out = plan->blocks > 1 ? square_at(run, group, pair, begin) : NULL,
                                    .at = at,
                                    .rows = {(int)plan->rows, tiles > 1 ? (int)plan->rows : 0}};
  falt_tiles_product call = {.kind = FALT_TILES_BF16,
                             .a = list,
                             .b = run->paired + (size_t)(group * plan->panels + begin) * plan->y_panel,
                             .panels = end - begin,
                             .pitch = (int64_t)plan->y_panel,
                             .segments = segments,
                             .pieces = pieces,
                             .groups = (int)(groups_of(plan) - (pieces - 1) * ROWS),
                             .distance = plan->distance,
                             .tiles = tiles,
                             .rows = (int)plan->rows,
                             .columns = falt_min(plan->layer.results, end * COLUMNS) - begin * COLUMNS,
                             .apart = SQUARE,
                             .finish = &finish};
  plan->kernels->open((int)plan->rows);
  if (plan->blocks > 1) {
    plan->kernels->product(&call, &flow);
  } else {
    call.panels = 1;
    call.finish = NULL;
    for (int64_t panel = begin; panel < end && !falt_cancelled();
         panel++, call.b += call.pitch, call.columns -= COLUMNS) {
      plan->kernels->product(&call, &flow);
      store_pair(run, group, pair, panel, room);
    }
  }
  plan->kernels->flush(&flow);
  plan->kernels->close();
}

/* The sums of a pair and a panel, after the last block. */
static void store_square(void *context, int64_t index) {
  const falt_outer_tiles_run *run = context;
  const int64_t pairs = pair_count(run->plan), panel = index % run->plan->panels, square = index / run->plan->panels;
  store_pair(run, square / pairs, square % pairs, panel, square_at(run, square / pairs, square % pairs, panel));
}

static void execute(const falt_plan *base, const falt_operands *operands) {
  const falt_outer_tiles_plan *plan = (const falt_outer_tiles_plan *)base;
  char *workspace = operands->workspace;
  falt_threads *threads = base->device->threads;
  falt_operands exchanged = *operands;
  exchanged.input = operands->output;
  exchanged.output = (void *)operands->input;
  falt_outer_tiles_run run = {.plan = plan,
                              .operands = plan->exchanged ? &exchanged : operands,
                              .transposed = workspace + plan->transposed,
                              .paired = workspace + plan->paired,
                              .sums = (float *)(void *)(workspace + plan->sums),
                              .zeros = workspace + plan->zeros,
                              .ones = workspace + plan->ones};
  memset(workspace + plan->zeros, 0, FALT_TILE_BYTES);
  for (int64_t i = 0; i < ones_of(plan); i++) falt_store(workspace + plan->ones, FALT_BF16, i, 1);
  for (run.first = 0; run.first < plan->all && !falt_cancelled(); run.first += run.parts) {
    run.parts = falt_min(plan->parts, plan->all - run.first);
    falt_progress_range all =
        falt_progress_enter((double)run.first / (double)plan->all, (double)(run.first + run.parts) / (double)plan->all);
    falt_outer_tiles_bring(&run);
    falt_parallel_for(threads, task_count(plan), multiply, &run);
    falt_progress_leave(all);
  }
  const int64_t squares = falt_outer_tiles_groups(plan) * pair_count(plan) * plan->panels;
  if (plan->blocks > 1) falt_parallel_for(threads, squares, store_square, &run);
}

static void print(const falt_plan *base, falt_text *text) {
  const falt_outer_tiles_plan *plan = (const falt_outer_tiles_plan *)base;
  falt_text_add(text, "(wgrad-vnni %s%s lines=%lld parts=%lld blocks=%lld threads=%d)",
                falt_isa_name(base->device->isa), plan->exchanged ? " exchanged" : "", (long long)plan->lines,
                (long long)plan->parts, (long long)plan->blocks, falt_threads_count(base->device->threads));
}

/* ---- applicable, in addition to the conditions of all layers */

static bool meets_constant(const falt_problem *p) {
  for (int a = 0; a < 3; a++)
    if (p->axis[a].boundary[0] == FALT_CONSTANT || p->axis[a].boundary[1] == FALT_CONSTANT) return true;
  return false;
}

static const char *refusal(const falt_problem *p) {
  return p->operation != FALT_BACKWARD_FILTER                                ? "only backward-filter"
         : p->input.type != FALT_BF16 || p->output.type != FALT_BF16         ? "only bf16"
         : p->accumulator != FALT_F32                                        ? "sums are f32"
         : !falt_type_is_float(p->filter.type) || p->filter.type == FALT_F64 ? "only filters in bf16, f16 or f32"
         : p->boundary_value != 0 && meets_constant(p)                       ? "only a constant of zero"
                                                                             : NULL;
}

/* Of the computed layer, whose width may be the problem's height. */
static const char *refusal_of_layer(const falt_outer_tiles_plan *plan) {
  if (!falt_wgrad_is_contiguous(&plan->layer.p.input)) return "neither channels nor pixels of the input are adjacent";
  if (!falt_wgrad_is_contiguous(&plan->layer.p.output)) return "neither channels nor pixels of the output are adjacent";
  return plan->polyphases[0] > MOST_POLYPHASES || plan->polyphases[1] > MOST_POLYPHASES ||
                 falt_outer_tiles_polyphases(plan) > MOST_POLYPHASES
             ? "its strides have too many residues"
             : NULL;
}

/* ---- estimate */

/* Fraction of the multiply-add peak, and overheads, in f32 operations of vectors at that peak; measured for AMX and for
 * vectors. AVX2 transposes and pairs element by element, at two cycles each. */
typedef struct expense {
  double share, sum, result, transposed, paired;
} expense;
static const expense by_matrix = {0.6, 24, 40, 16, 8}, by_vectors = {0.85, 12, 40, 16, 8},
                     by_avx2 = {0.85, 12, 40, 64, 64};
static const double per_spaced = 2, per_apart_line = 100; /* of lines with a stride, element by element */
static const double far_cost = 1.35; /* factor where caches are far, from 59 layers on 16 threads */
static const double per_apart[] = {[FALT_APART_NEAR] = 360, [FALT_APART_FAR] = 1860};

/* Seconds in which a thread loads, block by block, what all threads have prepared for its tasks: panels of dy, and rows
 * of x at each tap. */
static double loading(const falt_outer_tiles_plan *plan, const falt_device *device, double depth) {
  const double groups = (double)falt_outer_tiles_groups(plan), parts = (double)plan->parts;
  const double tasks = ceil((double)task_count(plan) / (double)falt_threads_count(device->threads));
  const double y = groups * (double)plan->panels * (double)plan->y_panel, x = parts * (double)plan->x_part;
  const double panels = tasks * y / (groups * (double)plan->chunks_of_panels.count);
  const double rows = tasks * parts * depth * FALT_TILES_ROWS * sizeof(uint16_t);
  return falt_wgrad_loading(device, &plan->base.problem, (double)plan->blocks * (fmin(y, panels) + fmin(x, rows)));
}

static double estimate(const falt_outer_tiles_plan *plan, const falt_device *device) {
  const falt_layer *layer = &plan->layer;
  const expense *by = plan->kernels->together > 1 ? &by_matrix : device->isa == FALT_ISA_AVX2 ? &by_avx2 : &by_vectors;
  const double groups = (double)falt_outer_tiles_groups(plan), parts = (double)plan->all;
  const double rows = (double)(tile_count(plan) * plan->rows), columns = (double)falt_round_up(layer->results, ROWS);
  const double depth = 2 * (double)(plan->segments * falt_round_up(groups_of(plan), plan->kernels->together));
  const double speed = falt_halves_speed(device, plan->kernels->speed[FALT_TILES_BF16]);
  const double products = 2 * groups * parts * rows * columns * depth / speed;
  const double each = plan->spaced                                   ? per_spaced
                      : plan->x_lines && layer->p.axis[2].stride > 1 ? per_apart_line
                                                                     : by->transposed;
  const double transposed = parts * (double)plan->x_part / 2 * each *
                            falt_load_imbalance(device, falt_outer_tiles_x_tasks(plan, plan->parts));
  const double paired = parts * groups * columns * (double)(plan->chunks * CHUNK) * by->paired *
                        falt_load_imbalance(device, falt_outer_tiles_y_tasks(plan, plan->parts));
  const double sums = groups * rows * columns * (double)plan->blocks * by->sum;
  const double results = (double)falt_tensor_count(&layer->p.filter) *
                         (by->result + per_apart[falt_wgrad_apart(&layer->p.filter, device)]);
  const double balanced = products * falt_far_imbalance(device, task_count(plan));
  const double work = balanced + transposed + paired + sums + results, far = falt_caches_are_far(device) ? far_cost : 1;
  return far * (falt_roofline(device, FALT_F32, work, by->share, falt_problem_bytes(&plan->base.problem)) +
                loading(plan, device, depth) + falt_loop_starts(device, 3 * plan->blocks - (plan->blocks == 1)));
}

/* ---- plan */

/* Whether one tap reads inside at every position, for outputs whose rows input channels fill. */
static bool can_exchange(const falt_problem *p) {
  return falt_wgrad_is_pointwise(p) && !p->has_bias && falt_tensor_unit(&p->filter, FALT_C) &&
         p->input.size[FALT_C] % ROWS == 0 && (falt_tensor_unit(&p->input, FALT_C) || p->axis[2].stride == 1);
}

static falt_problem exchange(const falt_problem *p) {
  falt_problem e = *p;
  e.input = p->output;
  e.output = p->input;
  e.filter.size[FALT_K] = p->filter.size[FALT_C];
  e.filter.size[FALT_C] = p->filter.size[FALT_K];
  e.filter.stride[FALT_K] = p->filter.stride[FALT_C];
  e.filter.stride[FALT_C] = p->filter.stride[FALT_K];
  for (int a = 0; a < 3; a++) {
    e.output.size[FALT_D + a] = p->output.size[FALT_D + a];
    e.output.stride[FALT_D + a] *= p->axis[a].stride;
    e.axis[a] = (falt_axis){.stride = 1, .dilation = 1};
  }
  return e;
}

/* Lines of positions as the rows of the product, with zeros between those of dy. */
static void set_transposed(falt_outer_tiles_plan *plan) {
  const falt_axis *axis = plan->layer.p.axis;
  const int64_t along = (plan->along - 1) * axis[2].dilation / axis[2].stride;
  plan->segments = 1;
  plan->distance = PAIR_BYTES;
  plan->width = plan->span + along;
  plan->chunks = falt_ceil_div((plan->lines - 1) * plan->width + plan->span, CHUNK);
  plan->reach = falt_ceil_div(plan->chunks * CHUNK + (plan->height - plan->lines) * plan->width + along, CHUNK);
  plan->pitch = (plan->reach | 1) * FALT_TILE_BYTES; /* odd: rows of a tile fall into sets of their own */
  plan->matrix = (size_t)(falt_outer_tiles_groups(plan) * plan->tiles * plan->rows * plan->pitch);
}

/* Lines of pairs of elements, a position apart; the elements themselves follow each line. */
static void set_spaced(falt_outer_tiles_plan *plan) {
  const int64_t channels = plan->layer.channels, stride = plan->layer.p.axis[2].stride * channels;
  plan->segments = plan->lines;
  plan->width = falt_round_up(plan->span, CHUNK);
  plan->chunks = plan->lines * plan->width / CHUNK;
  plan->distance = 2 * stride * PAIR_BYTES;
  plan->pairs = (falt_round_up(plan->span, 2) - 2) * stride + plan->length;
  plan->pitch = falt_round_up(plan->pairs * PAIR_BYTES + (plan->pairs + stride) * PAIR_BYTES / 2, FALT_TILE_BYTES);
  plan->matrix = (size_t)(plan->height * plan->pitch);
}

static void set_geometry(falt_outer_tiles_plan *plan, int64_t lines, int64_t span) {
  const falt_problem *p = &plan->layer.p;
  const int64_t *taps = p->filter.size;
  plan->lines = lines;
  plan->span = span;
  plan->line_cuts = falt_ceil_div(p->output.size[FALT_H], lines);
  plan->span_cuts = falt_ceil_div(p->output.size[FALT_W], span);
  plan->height = lines + (taps[FALT_H] - 1) * p->axis[1].dilation / p->axis[1].stride;
  (plan->spaced ? set_spaced : set_transposed)(plan);
  plan->x_part = (size_t)(taps[FALT_D] * falt_outer_tiles_polyphases(plan)) * plan->matrix;
}

static int64_t part_bytes(const falt_outer_tiles_plan *plan) {
  return (int64_t)plan->x_part + falt_outer_tiles_groups(plan) * plan->panels * plan->chunks * 2 * TILE;
}

/* Lines of pairs are for positions that share cache lines. Rows of tiles: those of all taps of the width together if
 * that gives fewer tiles. A matrix unit takes as long for a tile of few rows, because it reads all of them; vectors
 * have tiles of equal rows. */
static void set_rows(falt_outer_tiles_plan *plan) {
  const falt_problem *p = &plan->layer.p;
  const int64_t taps = p->filter.size[FALT_W], channels = plan->layer.channels;
  plan->windows =
      taps * channels <= MOST_LENGTH && falt_ceil_div(taps * channels, ROWS) < taps * falt_ceil_div(channels, ROWS);
  plan->along = plan->windows ? 1 : taps;
  plan->length = plan->windows ? taps * channels : channels;
  plan->tiles = falt_ceil_div(plan->length, ROWS);
  plan->rows = plan->kernels->together > 1 ? ROWS : falt_ceil_div(plan->length, plan->tiles);
  plan->polyphases[0] = p->filter.size[FALT_H] == 1 ? 1 : p->axis[1].stride;
  plan->polyphases[1] = plan->along == 1 ? 1 : p->axis[2].stride;
  plan->panels = falt_ceil_div(plan->layer.results, COLUMNS);
  plan->x_lines = !falt_tensor_unit(&p->input, FALT_C);
  plan->spaced = plan->windows && plan->kernels->together == 1 && !plan->x_lines && p->filter.size[FALT_G] == 1 &&
                 p->input.stride[FALT_W] == channels && p->axis[2].dilation == 1 &&
                 p->axis[2].stride <= falt_min(taps, FALT_TILE_BYTES / (2 * PAIR_BYTES) / channels);
  plan->y_lines = !falt_tensor_unit(&p->output, FALT_C);
}

/* Parts that stay in the second-level cache, by the problem alone: the order of sums must not depend on threads. */
static void set_parts(falt_outer_tiles_plan *plan) {
  const int64_t *size = plan->layer.p.output.size, room = (int64_t)plan->base.device->caches.l2 * ROOM / 4;
  set_geometry(plan, plan->spaced ? falt_min(MOST_SEGMENTS, size[FALT_H]) : size[FALT_H], size[FALT_W]);
  while (plan->lines > 1 && part_bytes(plan) > room) set_geometry(plan, falt_ceil_div(plan->lines, 2), plan->span);
  while (plan->span > LEAST_SPAN && part_bytes(plan) > room)
    set_geometry(plan, plan->lines, falt_round_up(falt_ceil_div(plan->span, 2), CHUNK));
  plan->all = size[FALT_N] * size[FALT_D] * plan->line_cuts * plan->span_cuts;
  plan->parts = falt_max(1, falt_min(falt_min(MOST_SEGMENTS / plan->segments, plan->all), room / part_bytes(plan)));
  plan->blocks = falt_ceil_div(plan->all, plan->parts);
  plan->y_panel = (size_t)(plan->parts * plan->chunks * 2 * TILE);
  const int64_t wanted = 4 * falt_threads_count(plan->base.device->threads);
  const int64_t chunks = falt_ceil_div(wanted, falt_outer_tiles_groups(plan) * pair_count(plan));
  plan->chunks_of_panels = falt_layer_cut(plan->panels, falt_min(plan->panels, chunks));
}

static void lay_memory(falt_outer_tiles_plan *plan) {
  const size_t groups = (size_t)falt_outer_tiles_groups(plan);
  falt_memory_layout *all = &plan->base.layout;
  plan->transposed = falt_place_part(all, (size_t)plan->parts * plan->x_part);
  plan->paired = falt_place_part(all, groups * (size_t)plan->panels * plan->y_panel);
  plan->sums = falt_place_part(
      all, plan->blocks > 1 ? groups * (size_t)(pair_count(plan) * plan->panels) * SQUARE * sizeof(float) : 0);
  plan->zeros = falt_place_part(all, FALT_TILE_BYTES);
  plan->ones = falt_place_part(all, (size_t)ones_of(plan) * sizeof(uint16_t));
  plan->base.workspace = all->total;
}

static falt_plan *plan_wgrad_vnni(const falt_solver *solver, falt_ask *ask) {
  static const falt_plan_table table = {.execute = execute, .print = print, .destroy = falt_plan_free};
  falt_problem forward = *ask->problem;
  falt_layer layer;
  const char *reason = refusal(ask->problem);
  const bool exchanged = !reason && can_exchange(ask->problem);
  if (exchanged) forward = exchange(ask->problem);
  forward.operation = FALT_FORWARD;
  forward.has_bias = false;
  if (!reason) reason = falt_layer_shape(&layer, &forward, ask->device->isa);
  if (reason) return falt_refuse(ask, "%s", reason);
  falt_outer_tiles_plan *plan = falt_plan_new(sizeof *plan, &table, solver, ask);
  if (!plan) return NULL;
  plan->layer = layer;
  plan->exchanged = exchanged;
  plan->kernels = falt_tiles_kernels_for(ask->device->isa);
  plan->outer = falt_outer_kernels_for(ask->device->isa);
  set_rows(plan);
  if ((reason = refusal_of_layer(plan))) {
    falt_free(plan);
    return falt_refuse(ask, "%s", reason);
  }
  set_parts(plan);
  lay_memory(plan);
  plan->base.cost.seconds = estimate(plan, ask->device);
  return &plan->base;
}

extern const falt_solver falt_solver_wgrad_vnni;
const falt_solver falt_solver_wgrad_vnni = {.name = "wgrad-vnni", .device_kind = "cpu", .plan = plan_wgrad_vnni};
