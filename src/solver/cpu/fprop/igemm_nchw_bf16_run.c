/* Executes igemm-nchw-bf16: a task packs a panel of positions, multiplies it by its rows of the filter, and goes on
 * with the next panel. Nothing is shared with other tasks. */
#include <string.h>

#include "solver/common/tasks.h"
#include "solver/cpu/fprop/igemm_nchw_bf16.h"

enum {
  PIECE = FALT_NCHW_BF16_PIECE,
  COLUMNS = FALT_TILES_COLUMNS,
  ROWS = FALT_TILE_ROWS,
  SUMS = 2 * FALT_TILES_ROWS * COLUMNS,
  NEAR = 16384 /* bytes of a panel that stays in the first-level cache beside rows */
};

static const uint16_t zeros[PIECE];

typedef struct execution {
  const falt_nchw_bf16_plan *plan;
  const falt_operands *operands;
  const uint16_t *rows;    /* of the first group, unless tasks pack them */
  int64_t row_step, group; /* elements from row to row, from group to group */
  const float *factors;
} execution;

typedef struct task {
  const execution *run;
  const falt_nchw_bf16_plan *plan;
  const falt_layer *layer;
  int64_t group, first_pair, last_pair;
  const uint16_t *rows; /* the first of the chunk */
  char *panel;
  falt_tile_rows *list; /* of each segment two tiles */
  uint32_t *inside;     /* for each axis and tap along it: whether column i is inside the input, bit i */
  uint32_t *keep;       /* the same for each tap, and none */
  int64_t out[FALT_TILES_ROWS], residual[FALT_TILES_ROWS]; /* of the rows of two tiles */
  float *sums;
} task;

/* Positions [first, first + count) of a line, of which `at` is the first. */
typedef struct columns {
  falt_layer_point at;
  int count;
} columns;

/* ---- the filter */

/* Rows of two tiles, the last one perhaps of one. */
static int64_t rows_of_pair(const falt_nchw_bf16_plan *plan, int64_t pair) {
  return falt_min(2, plan->tiles - 2 * pair) * plan->tile_rows;
}

/* Fetches what the next segment reads of `count` rows: lines in many pages, which the hardware does not foresee. */
static void fetch_segment(const falt_nchw_bf16_plan *plan, const uint16_t *from, int64_t count, int64_t segment) {
  enum { LINE = 32 /* elements */, FAR = 2048 };
  const falt_nchw_bf16_rows *rows = &plan->rows;
  const int64_t reach = count * plan->layer.p.filter.stride[FALT_K], first = segment * FALT_NCHW_BF16_BLOCK;
  if (segment == plan->segments || reach < 0 || reach > FAR) return;
  for (int64_t part = first; part < falt_min(first + FALT_NCHW_BF16_BLOCK, rows->outer); part++)
    for (int64_t i = 0; i < reach; i += LINE) __builtin_prefetch(from + part * rows->apart + i);
}

/* `count` rows of a segment, where adjacent elements are of one row. */
static void copy_rows(const falt_nchw_bf16_plan *plan, const uint16_t *from, int64_t count, int64_t segment,
                      uint16_t *to) {
  const falt_nchw_bf16_rows *rows = &plan->rows;
  const int64_t size = sizeof *to, first = segment * FALT_NCHW_BF16_BLOCK;
  const int64_t left = rows->outer - first, parts = plan->segments > 1 ? falt_min(FALT_NCHW_BF16_BLOCK, left) : left;
  const int64_t pitch = plan->pieces * FALT_TILE_BYTES;
  fetch_segment(plan, from, count, segment + 1);
  if (parts * rows->inner <= (plan->pieces - 1) * PIECE) memset(to, 0, (size_t)(count * pitch));
  plan->kernels->spread(&(falt_tiles_spread){.from = (const char *)(from + first * rows->apart),
                                             .to = (char *)to,
                                             .step = plan->layer.p.filter.stride[FALT_K] * size,
                                             .pitch = pitch,
                                             .bytes = rows->inner * size,
                                             .count = count,
                                             .parts = parts,
                                             .apart = rows->apart * size});
}

/* The same where adjacent elements are of neighbouring rows; one segment. */
static void transpose_rows(const falt_nchw_bf16_plan *plan, const uint16_t *from, int64_t count, uint16_t *to) {
  const int64_t step = plan->layer.p.filter.stride[FALT_C];
  for (int64_t c = 0; c < plan->depth; c += PIECE) {
    const void *list[PIECE];
    for (int64_t i = 0; i < PIECE; i++) list[i] = c + i < plan->depth ? from + (c + i) * step : zeros;
    plan->kernels->transpose_rows(
        &(falt_tiles_square){list, (char *)(to + c), plan->pieces * FALT_TILE_BYTES, (int)count});
  }
}

/* The rows of a pair of tiles; those beyond the filter's are zeros. */
static void pack_pair(const falt_nchw_bf16_plan *plan, const void *filter, int64_t group, int64_t pair, uint16_t *to) {
  const falt_tensor *w = &plan->layer.p.filter;
  const int64_t row = 2 * pair * plan->tile_rows, count = rows_of_pair(plan, pair);
  const int64_t real = falt_min(count, plan->layer.results - row), width = plan->pieces * PIECE;
  const int64_t last = plan->rows.backwards ? falt_layer_tap_at(w, plan->layer.taps - 1) : 0;
  const uint16_t *from = (const uint16_t *)filter + falt_tensor_at(w, row, group, 0, 0, 0, 0) + last;
  for (int64_t segment = 0; segment < plan->segments; segment++, to += count * width) {
    if (plan->rows.transposed)
      transpose_rows(plan, from, real, to);
    else
      copy_rows(plan, from, real, segment, to);
    memset(to + real * width, 0, (size_t)((count - real) * width) * sizeof *to);
  }
}

typedef struct packing {
  const falt_nchw_bf16_plan *plan;
  const void *filter;
  uint16_t *packed;
} packing;

static void pack_task(void *context, int64_t index) {
  const packing *p = context;
  const int64_t pairs = falt_nchw_bf16_pairs(p->plan), pair = index % pairs, group = index / pairs;
  if (falt_cancelled()) return;
  pack_pair(
      p->plan, p->filter, group, pair,
      p->packed + group * falt_nchw_bf16_packed(p->plan) + 2 * pair * p->plan->tile_rows * falt_nchw_bf16_row(p->plan));
}

void falt_nchw_bf16_pack(const falt_nchw_bf16_plan *plan, const void *filter, uint16_t *packed) {
  packing p = {plan, filter, packed};
  falt_parallel_for(plan->base.device->threads, falt_nchw_bf16_groups(plan) * falt_nchw_bf16_pairs(plan), pack_task,
                    &p);
}

/* ---- the input */

/* From the first tap to another one, in elements of the input. */
static int64_t tap_distance(const falt_layer *layer, int64_t tap) {
  const int64_t *taps = layer->p.filter.size, *stride = layer->p.input.stride, row = tap / taps[FALT_W];
  const falt_axis *axis = layer->p.axis;
  return row / taps[FALT_H] * axis[0].dilation * stride[FALT_D] +
         row % taps[FALT_H] * axis[1].dilation * stride[FALT_H] +
         tap % taps[FALT_W] * axis[2].dilation * stride[FALT_W];
}

void falt_nchw_bf16_order(const falt_nchw_bf16_plan *plan) {
  const falt_layer *layer = &plan->layer;
  const int64_t taps = layer->taps, channels = layer->channels;
  for (int64_t i = 0; i < falt_nchw_bf16_row(plan); i++) {
    const int64_t place = plan->rows.taps_inner ? i % taps : i / channels;
    const int64_t channel = plan->rows.taps_inner ? i / taps : i % channels;
    const int64_t tap = plan->rows.backwards ? taps - 1 - place : place;
    const bool inside = i < plan->depth;
    plan->offset[i] = inside ? channel * layer->p.input.stride[FALT_C] + tap_distance(layer, tap) : 0;
    plan->tap[i] = (int32_t)(inside ? tap : taps);
  }
}

/* Bits [begin, end). */
static uint32_t bits(int64_t begin, int64_t end) {
  return begin < end ? (uint32_t)((UINT64_C(1) << end) - (UINT64_C(1) << begin)) : 0;
}

/* Of `count` columns from column `first` on, which are neighbours of one row from position `at` on, those that are
 * inside the input at each tap along an axis. */
static void add_inside(const falt_layer *layer, int axis, int64_t at, int64_t first, int64_t count, uint32_t *inside) {
  const falt_axis *a = &layer->p.axis[axis];
  const int64_t size = layer->p.input.size[FALT_D + axis];
  for (int64_t j = 0; j < layer->p.filter.size[FALT_D + axis]; j++) {
    const int64_t u = at * a->stride + j * a->dilation - a->pad[0];
    if (axis < 2) {
      inside[j] |= u >= 0 && u < size ? bits(first, first + count) : 0;
      continue;
    }
    const int64_t begin = u >= 0 ? 0 : falt_ceil_div(-u, a->stride);
    const int64_t end = u >= size ? 0 : falt_min(count, (size - 1 - u) / a->stride + 1);
    inside[j] |= bits(first + falt_min(begin, count), first + end);
  }
}

/* Which columns each tap reads inside the input, and none behind the depth: `keep`. */
static void find_inside(const task *t, const columns *c) {
  const falt_layer *layer = t->layer;
  const int64_t *taps = &layer->p.filter.size[FALT_D];
  uint32_t *const inside[3] = {t->inside, t->inside + taps[0], t->inside + taps[0] + taps[1]};
  falt_layer_point point = c->at;
  memset(t->inside, 0, (size_t)(taps[0] + taps[1] + taps[2]) * sizeof *t->inside);
  for (int64_t i = 0, run; i < c->count; i += run) {
    run = falt_layer_run(layer, &point, c->count - i);
    for (int a = 0; a < 3; a++) add_inside(layer, a, point.at[a], i, run, inside[a]);
    falt_layer_advance(layer, &point, run);
  }
  uint32_t *keep = t->keep;
  for (int64_t d = 0; d < taps[0]; d++)
    for (int64_t h = 0; h < taps[1]; h++)
      for (int64_t w = 0; w < taps[2]; w++) *keep++ = inside[0][d] & inside[1][h] & inside[2][w];
  *keep = 0;
}

/* Packs the columns: each pair of depth elements becomes a row of a tile. */
static void pack_panel(const task *t, const columns *c) {
  const falt_nchw_bf16_plan *plan = t->plan;
  const falt_tensor *x = &t->layer->p.input;
  const falt_axis *axis = t->layer->p.axis;
  int64_t from = falt_tensor_at(x, c->at.n, t->group, 0, 0, 0, 0);
  for (int a = 0; a < 3; a++) from += (c->at.at[a] * axis[a].stride - axis[a].pad[0]) * x->stride[FALT_D + a];
  falt_tiles_kept call = {.from = (const void *)((uintptr_t)t->run->operands->input + (uintptr_t)from * 2),
                          .offset = plan->offset,
                          .mask = plan->tap,
                          .keep = t->keep,
                          .to = t->panel,
                          .n = c->count,
                          .apart = (int)axis[2].stride};
  find_inside(t, c);
  for (int64_t piece = 0; piece < plan->segments * plan->pieces; piece++) {
    plan->kernels->pair_kept(&call);
    call.offset += PIECE;
    call.mask += PIECE;
    call.to += falt_ceil_div(c->count, ROWS) * FALT_TILE;
  }
}

/* ---- sums */

static int rows_from(const falt_nchw_bf16_plan *plan, int64_t tile) {
  return (int)falt_max(0, falt_min(plan->tile_rows, plan->layer.results - tile * plan->tile_rows));
}

static falt_tiles_finish finish_of(const task *t, int64_t pair, const columns *c) {
  const falt_problem *p = &t->layer->p;
  const falt_operands *operands = t->run->operands;
  const falt_tensor *y = &p->output, *z = &p->residual;
  const int64_t k = 2 * pair * t->plan->tile_rows, *at = c->at.at;
  const int64_t out = falt_tensor_at(y, c->at.n, t->group, k, at[0], at[1], at[2]);
  const int64_t residual = p->has_residual ? falt_tensor_at(z, c->at.n, t->group, k, at[0], at[1], at[2]) : 0;
  const float *scale = t->run->factors + t->group * t->layer->results + k;
  return (falt_tiles_finish){
      .plain = t->layer->plain,
      .type = y->type,
      .out = (char *)operands->output + out * (int64_t)falt_type_size(y->type),
      .at = t->out,
      .residual_type = z->type,
      .residual =
          p->has_residual ? (const char *)operands->residual + residual * (int64_t)falt_type_size(z->type) : NULL,
      .residual_at = t->residual,
      .scale = scale,
      .offset = scale + falt_nchw_bf16_groups(t->plan) * t->layer->results,
      .by_row = true,
      .rows = {rows_from(t->plan, 2 * pair), rows_from(t->plan, 2 * pair + 1)},
      .n = c->count,
      .curve = t->layer->curve,
      .slope = (float)p->act_a,
      .low = (float)t->layer->low,
      .high = (float)t->layer->high};
}

/* The tiles of a pair: in the caller's filter, or packed. */
static void list_rows(const task *t, int64_t pair) {
  const falt_nchw_bf16_plan *plan = t->plan;
  const int64_t size = sizeof *t->rows, first = 2 * (pair - t->first_pair) * plan->tile_rows;
  const int64_t step = plan->in_place ? t->run->row_step : plan->pieces * PIECE;
  const uint16_t *segment = t->rows + first * t->run->row_step;
  for (int64_t s = 0; s < plan->segments; s++, segment += rows_of_pair(plan, pair) * step)
    for (int i = 0; i < 2; i++)
      t->list[2 * s + i] =
          (falt_tile_rows){(const char *)(segment + i * plan->tile_rows * step), step * size, FALT_TILE_BYTES};
}

/* The panel by the rows of a pair of tiles. */
static void multiply(const task *t, int64_t pair, const columns *c, falt_tiles_flow *flow) {
  const falt_nchw_bf16_plan *plan = t->plan;
  const falt_tiles_finish finish = finish_of(t, pair, c);
  const int64_t last = plan->segments > 1 ? PIECE : plan->depth - (plan->pieces - 1) * PIECE;
  list_rows(t, pair);
  plan->kernels->product(&(falt_tiles_product){.kind = FALT_TILES_BF16,
                                               .a = t->list,
                                               .b = t->panel,
                                               .panels = 1,
                                               .segments = plan->segments,
                                               .pieces = plan->pieces,
                                               .groups = (int)falt_ceil_div(last, 2),
                                               .tiles = (int)falt_min(2, plan->tiles - 2 * pair),
                                               .rows = (int)plan->tile_rows,
                                               .distance = 4,
                                               .columns = c->count,
                                               .near = plan->segments * plan->pieces * 2 * FALT_TILE <= NEAR,
                                               .finish = &finish},
                         flow);
}

static void run_panel(const task *t, int64_t panel, falt_tiles_flow *flow) {
  const falt_nchw_bf16_plan *plan = t->plan;
  const int64_t line = panel / plan->panels, first = panel % plan->panels * COLUMNS;
  const columns c = {.at = falt_layer_point_at(t->layer, line * plan->length + first),
                     .count = (int)falt_min(COLUMNS, plan->length - first)};
  pack_panel(t, &c);
  for (int64_t pair = t->first_pair; pair < t->last_pair; pair++) multiply(t, pair, &c, flow);
}

/* The rows of the chunk: where all tasks have them, or packed for this one. */
static void bring_rows(task *t, uint16_t *room) {
  const execution *run = t->run;
  const int64_t pair_size = 2 * t->plan->tile_rows * falt_nchw_bf16_row(t->plan);
  if (!t->plan->own_rows) {
    t->rows = run->rows + t->group * run->group + 2 * t->first_pair * t->plan->tile_rows * run->row_step;
    return;
  }
  t->rows = room;
  for (int64_t pair = t->first_pair; pair < t->last_pair && !falt_cancelled(); pair++, room += pair_size)
    pack_pair(t->plan, run->operands->filter, t->group, pair, room);
}

static void run_task(void *context, int64_t index, void *scratch) {
  const execution *run = context;
  const falt_nchw_bf16_plan *plan = run->plan;
  const int64_t band = index % plan->bands.count, rest = index / plan->bands.count, chunk = rest % plan->chunks.count;
  const int64_t begin = falt_layer_piece(&plan->bands, band), end = falt_layer_piece(&plan->bands, band + 1);
  char *memory = scratch;
  _Alignas(64) float sums[SUMS];
  falt_tiles_flow flow = {.sums = sums};
  task t = {.run = run, .plan = plan, .layer = &plan->layer, .group = rest / plan->chunks.count};
  t.first_pair = falt_layer_piece(&plan->chunks, chunk);
  t.last_pair = falt_layer_piece(&plan->chunks, chunk + 1);
  t.panel = memory + plan->at.panel;
  t.list = (falt_tile_rows *)(void *)(memory + plan->at.list);
  t.inside = (uint32_t *)(void *)(memory + plan->at.inside);
  t.keep = (uint32_t *)(void *)(memory + plan->at.keep);
  for (int64_t i = 0; i < FALT_TILES_ROWS; i++) {
    const int64_t row = i / ROWS * plan->tile_rows + i % ROWS;
    t.out[i] = row * plan->layer.p.output.stride[FALT_C];
    t.residual[i] = row * plan->layer.p.residual.stride[FALT_C];
  }
  bring_rows(&t, (uint16_t *)(void *)(memory + plan->at.rows));
  plan->kernels->open((int)plan->tile_rows);
  for (int64_t panel = begin; panel < end && !falt_cancelled(); panel++) run_panel(&t, panel, &flow);
  plan->kernels->flush(&flow);
  plan->kernels->close();
}

void falt_nchw_bf16_execute(const falt_plan *base, const falt_operands *operands) {
  const falt_nchw_bf16_plan *plan = (const falt_nchw_bf16_plan *)base;
  const falt_tensor *w = &plan->layer.p.filter;
  char *workspace = operands->workspace;
  float *factors = (float *)(void *)(workspace + plan->factors);
  uint16_t *room = (uint16_t *)(void *)(workspace + plan->filter);
  execution run = {.plan = plan, .operands = operands, .factors = factors};
  if (!plan->packed && !plan->in_place && !plan->own_rows) falt_nchw_bf16_pack(plan, operands->filter, room);
  run.rows = plan->packed ? plan->packed : plan->in_place ? (const uint16_t *)operands->filter + w->offset : room;
  run.row_step = plan->in_place ? w->stride[FALT_K] : falt_nchw_bf16_row(plan);
  run.group = plan->in_place ? w->stride[FALT_G] : falt_nchw_bf16_packed(plan);
  falt_layer_factors(&plan->layer, operands, factors);
  const falt_row_job job = {run_task, &run, falt_nchw_bf16_tasks(plan), plan->at.parts.total};
  falt_rows_run(base->device, &job, workspace);
}
