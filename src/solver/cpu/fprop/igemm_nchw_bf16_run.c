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
  const uint16_t *rows;               /* of the first group, unless tasks pack them */
  int64_t row_step, pair_step, group; /* elements from row to row, from pair of tiles to pair, from group to group */
  const float *factors;
} execution;

typedef struct task {
  const execution *run;
  const falt_nchw_bf16_plan *plan;
  const falt_layer *layer;
  int64_t group, first_pair, last_pair;
  const uint16_t *rows; /* the first of the chunk */
  char *panel;
  uint32_t *inside; /* for each axis and tap along it: whether column i is inside the input, bit i */
  uint32_t *keep;   /* the same for each tap, and none */
  int64_t out[FALT_TILES_ROWS], residual[FALT_TILES_ROWS]; /* of the rows of two tiles */
} task;

/* Positions [first, first + count) of a line, of which `at` is the first. */
typedef struct columns {
  falt_layer_point at;
  int count;
} columns;

/* ---- the filter */

/* Rows of a pair of tiles, of which the filter has the first `count` from `from` on. */
typedef struct pair_rows {
  const falt_nchw_bf16_plan *plan;
  const uint16_t *from;
  int64_t count;
  uint16_t *to;
} pair_rows;

static void copy_rows(const pair_rows *r) {
  const int64_t size = sizeof *r->to;
  r->plan->kernels->spread(&(falt_tiles_spread){.from = (const char *)r->from,
                                                .to = (char *)r->to,
                                                .step = r->plan->layer.p.filter.stride[FALT_K] * size,
                                                .pitch = r->plan->pieces * FALT_TILE_BYTES,
                                                .bytes = r->plan->depth * size,
                                                .count = r->count,
                                                .parts = 1});
}

static void transpose_rows(const pair_rows *r) {
  const falt_nchw_bf16_plan *plan = r->plan;
  const int64_t step = plan->layer.p.filter.stride[FALT_C];
  for (int64_t c = 0; c < plan->depth; c += PIECE) {
    const void *list[PIECE];
    for (int64_t i = 0; i < PIECE; i++) list[i] = c + i < plan->depth ? r->from + (c + i) * step : zeros;
    plan->kernels->transpose_rows(
        &(falt_tiles_square){list, (char *)(r->to + c), plan->pieces * FALT_TILE_BYTES, (int)r->count});
  }
}

/* Taps from number `first` on that loads of 16 elements have together; returns where a load begins. */
static int64_t find_together(const falt_nchw_bf16_plan *plan, int64_t first, falt_tiles_taps *call) {
  enum { SPAN = 16 };
  const falt_tensor *w = &plan->layer.p.filter;
  int64_t low = falt_layer_tap_at(w, first), high = low;
  call->count = 0;
  for (int64_t tap = first; tap < plan->layer.taps && call->count < FALT_TILES_MOST_TAPS; tap++) {
    const int64_t at = falt_layer_tap_at(w, tap), from = falt_min(low, at), to = falt_max(high, at);
    if (to - from >= SPAN) break;
    low = from;
    high = to;
    call->count++;
  }
  call->span = (int)(high - low + 1);
  for (int i = 0; i < call->count; i++) call->at[i] = (int)(falt_layer_tap_at(w, first + i) - low);
  return low;
}

/* Fetches what the rows have in two channels: lines that the hardware does not foresee. */
static void fetch_channels(const pair_rows *r, const falt_tiles_taps *call, int64_t channel) {
  enum { FAR = 4096 };
  const int64_t reach = r->count * call->apart, step = r->plan->layer.p.filter.stride[FALT_C];
  for (int j = 0; j < 2 && channel + j < r->plan->layer.channels && reach > 0 && reach <= FAR; j++)
    for (int64_t i = 0; i < reach; i += FALT_TILE_BYTES)
      __builtin_prefetch((const char *)(r->from + (channel + j) * step) + i);
}

/* Two channels at a time as columns of tiles, which become rows in the end. */
static void gather_rows(const pair_rows *r) {
  enum { GROUP = 2, GROUPS = PIECE / GROUP /* of elements, and of a tile's */, AHEAD = 8 /* channels */ };
  const falt_nchw_bf16_plan *plan = r->plan;
  const falt_tensor *w = &plan->layer.p.filter;
  falt_tiles_taps call = {.apart = w->stride[FALT_K] * (int64_t)sizeof *r->to, .n = (int)r->count};
  memset(r->to + (plan->pieces - 1) * FALT_TILE, 0, 2 * FALT_TILE); /* the last piece */
  for (int64_t tap = 0; tap < plan->layer.taps; tap += call.count) {
    const int64_t low = find_together(plan, tap, &call);
    for (int64_t channel = 0; channel < plan->channels; channel += GROUP) {
      const uint16_t *from = r->from + low + channel * w->stride[FALT_C];
      fetch_channels(r, &call, channel + AHEAD);
      call.rows[0] = (const char *)from;
      call.rows[1] = channel + 1 < plan->layer.channels ? (const char *)(from + w->stride[FALT_C]) : NULL;
      for (int i = 0; i < call.count; i++) {
        const uint64_t group = (uint64_t)((tap + i) * plan->channels + channel) / GROUP;
        call.to[i] = (char *)r->to + group / GROUPS * 2 * FALT_TILE + group % GROUPS * FALT_TILE_BYTES;
      }
      plan->kernels->taps(&call);
    }
  }
  for (int64_t tile = 0; tile < 2 * plan->pieces; tile++)
    if (tile % 2 * ROWS < r->count) plan->kernels->flip((char *)r->to + tile * FALT_TILE);
}

/* Where rows begin, from the filter's first tap: at the tap that is first in memory. */
static int64_t first_in_memory(const falt_nchw_bf16_plan *plan) {
  return plan->backwards ? falt_layer_tap_at(&plan->layer.p.filter, plan->layer.taps - 1) : 0;
}

/* The rows of a pair of tiles; those beyond the filter's are zeros. */
static void pack_pair(const falt_nchw_bf16_plan *plan, const void *filter, int64_t group, int64_t pair, uint16_t *to) {
  static void (*const ways[])(const pair_rows *) = {copy_rows, transpose_rows, gather_rows};
  const falt_tensor *w = &plan->layer.p.filter;
  const int64_t row = 2 * pair * plan->tile_rows, count = falt_min(2 * plan->tile_rows, plan->layer.results - row);
  if (count < 2 * plan->tile_rows) memset(to, 0, (size_t)falt_nchw_bf16_pair(plan) * sizeof *to);
  ways[plan->packing](&(pair_rows){
      plan, (const uint16_t *)filter + falt_tensor_at(w, row, group, 0, 0, 0, 0) + first_in_memory(plan), count, to});
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
  pack_pair(p->plan, p->filter, group, pair,
            p->packed + group * falt_nchw_bf16_packed(p->plan) + pair * falt_nchw_bf16_pair(p->plan));
}

void falt_nchw_bf16_pack(const falt_nchw_bf16_plan *plan, const void *filter, uint16_t *packed) {
  packing p = {plan, filter, packed};
  falt_parallel_for(plan->base.device->threads, falt_nchw_bf16_groups(plan) * falt_nchw_bf16_pairs(plan), pack_task,
                    &p);
}

/* ---- the input */

/* From the first tap to another one, in elements of the input. */
static int64_t tap_distance(const falt_nchw_bf16_plan *plan, int64_t tap) {
  const int64_t *taps = plan->layer.p.filter.size, row = tap / taps[FALT_W];
  const int64_t at[3] = {row / taps[FALT_H], row % taps[FALT_H], tap % taps[FALT_W]};
  int64_t distance = 0;
  for (int a = 0; a < 3; a++) distance += at[a] * plan->layer.p.axis[a].dilation * plan->step[a];
  return distance;
}

void falt_nchw_bf16_order(const falt_nchw_bf16_plan *plan) {
  const falt_layer *layer = &plan->layer;
  const int64_t taps = layer->taps;
  for (int64_t i = 0; i < falt_nchw_bf16_row(plan); i++) {
    const int64_t place = plan->taps_inner ? i % taps : i / plan->channels;
    const int64_t channel = plan->taps_inner ? i / taps : i % plan->channels;
    const int64_t tap = plan->backwards ? taps - 1 - place : place;
    const bool inside = i < plan->depth && channel < layer->channels;
    plan->offset[i] = inside ? channel * layer->p.input.stride[FALT_C] + tap_distance(plan, tap) : 0;
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
  for (int a = 0; a < 3; a++) from += (c->at.at[a] * axis[a].stride - axis[a].pad[0]) * plan->step[a];
  falt_tiles_kept call = {.from = (const void *)((uintptr_t)t->run->operands->input + (uintptr_t)from * 2),
                          .offset = plan->offset,
                          .mask = plan->tap,
                          .keep = t->keep,
                          .to = t->panel,
                          .n = c->count,
                          .apart = (int)plan->apart};
  find_inside(t, c);
  for (int64_t piece = 0; piece < plan->pieces; piece++) {
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
static void list_rows(const task *t, int64_t pair, falt_tile_rows list[2]) {
  const falt_nchw_bf16_plan *plan = t->plan;
  const bool gathered = plan->packing == FALT_ROWS_GATHERED;
  const int64_t size = sizeof *t->rows, row = gathered ? PIECE : t->run->row_step;
  const int64_t next = gathered ? 2 * FALT_TILE : FALT_TILE_BYTES;
  const uint16_t *first = t->rows + (pair - t->first_pair) * t->run->pair_step;
  for (int i = 0; i < 2; i++)
    list[i] = (falt_tile_rows){(const char *)(first + i * plan->tile_rows * row), row * size, next};
}

/* The panel by the rows of a pair of tiles. */
static void multiply(const task *t, int64_t pair, const columns *c, falt_tiles_flow *flow) {
  const falt_nchw_bf16_plan *plan = t->plan;
  const falt_tiles_finish finish = finish_of(t, pair, c);
  falt_tile_rows list[2];
  list_rows(t, pair, list);
  plan->kernels->product(
      &(falt_tiles_product){.kind = FALT_TILES_BF16,
                            .a = list,
                            .b = t->panel,
                            .panels = 1,
                            .segments = 1,
                            .pieces = plan->pieces,
                            .groups = (int)falt_ceil_div(plan->depth - (plan->pieces - 1) * PIECE, 2),
                            .tiles = (int)falt_min(2, plan->tiles - 2 * pair),
                            .rows = (int)plan->tile_rows,
                            .distance = 4,
                            .columns = c->count,
                            .near = plan->pieces * 2 * FALT_TILE <= NEAR,
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
  t->rows = t->plan->own_rows ? room : run->rows + t->group * run->group + t->first_pair * run->pair_step;
  for (int64_t pair = t->first_pair; pair < t->last_pair && t->plan->own_rows && !falt_cancelled(); pair++)
    pack_pair(t->plan, run->operands->filter, t->group, pair, room + (pair - t->first_pair) * run->pair_step);
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
  if (falt_nchw_bf16_packs_all(plan)) falt_nchw_bf16_pack(plan, operands->filter, room);
  run.rows = plan->packed     ? plan->packed
             : plan->in_place ? (const uint16_t *)operands->filter + w->offset + first_in_memory(plan)
                              : room;
  run.row_step = plan->in_place ? w->stride[FALT_K] : falt_nchw_bf16_row(plan);
  run.pair_step = plan->in_place ? 2 * plan->tile_rows * run.row_step : falt_nchw_bf16_pair(plan);
  run.group = plan->in_place ? w->stride[FALT_G] : falt_nchw_bf16_packed(plan);
  falt_layer_factors(&plan->layer, operands, factors);
  const falt_row_job job = {run_task, &run, falt_nchw_bf16_tasks(plan), plan->at.parts.total};
  falt_rows_run(base->device, &job, workspace);
}
