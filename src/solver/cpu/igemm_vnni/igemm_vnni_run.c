/* Executes igemm-vnni: a task lists the tiles of its block of positions, multiplies them by the panels of the filter,
 * pair by pair, and stores the outputs through the epilogue. */
#include <math.h>
#include <string.h>

#include "solver/cpu/common/rows.h"
#include "solver/cpu/igemm_vnni/igemm_vnni.h"

/* ---- outputs */

typedef struct target {
  int64_t k, channel;    /* of the first column, in its group and in G*K numbering */
  int64_t out, residual; /* elements from group 0, channel 0 to the first column */
} target;

static target target_of(const falt_tiles_task *t, int64_t panel) {
  const falt_tensor *y = &t->layer->p.output, *z = &t->layer->p.residual;
  const int64_t k = panel * COLUMNS;
  return (target){k, t->group * t->layer->results + k, t->group * y->stride[FALT_G] + k * y->stride[FALT_C],
                  t->group * z->stride[FALT_G] + k * z->stride[FALT_C]};
}

static int rows_of(const falt_tiles_task *t, int64_t tile) {
  return tile < t->count ? t->tiles[tile].count : 0;
}

static falt_tiles_finish finish_of(const falt_tiles_task *t, int64_t tile, int64_t panel, const void *sums) {
  const falt_layer *layer = t->layer;
  const falt_problem *p = &layer->p;
  const falt_operands *operands = t->run->operands;
  const target to = target_of(t, panel);
  const int count = rows_of(t, tile), second = rows_of(t, tile + 1);
  const float *scale = t->run->factors + to.channel;
  const bool transposed = t->plan->transposed;
  const int64_t out = to.out + (transposed ? t->out[tile * ROWS] : 0);
  const char *residual = p->has_residual ? operands->residual : NULL;
  if (residual)
    residual += (to.residual + (transposed ? t->residual[tile * ROWS] : 0)) * (int64_t)falt_type_size(p->residual.type);
  return (falt_tiles_finish){.sums = sums,
                             .whole = t->plan->kind <= FALT_TILES_S8,
                             .plain = layer->plain,
                             .type = p->output.type,
                             .out = (char *)operands->output + out * (int64_t)falt_type_size(p->output.type),
                             .at = transposed ? t->row_out : t->out + tile * ROWS,
                             .residual_type = p->residual.type,
                             .residual = residual,
                             .residual_at = transposed ? t->row_residual : t->residual + tile * ROWS,
                             .scale = scale,
                             .offset = scale + p->output.size[FALT_G] * layer->results,
                             .by_row = transposed,
                             .rows = {count, second},
                             .ahead = {rows_of(t, tile + PAIR), rows_of(t, tile + PAIR + 1)},
                             .n = transposed ? count + second : (int)falt_tiles_columns(t->plan, panel),
                             .curve = layer->curve,
                             .slope = (float)p->act_a,
                             .low = (float)layer->low,
                             .high = (float)layer->high};
}

/* In f64, for values that do not fit into the kernels' f32. */
static void store_singly(const falt_tiles_task *t, const falt_tiles_finish *f, int64_t panel) {
  const falt_problem *p = &t->layer->p;
  const falt_operands *operands = t->run->operands;
  const float *scale = operands->scale, *bias = operands->bias;
  const target to = target_of(t, panel);
  for (int m = 0; m < FALT_TILES_ROWS; m++)
    for (int i = 0; i < f->n && m % ROWS < f->rows[m / ROWS]; i++) {
      const int at = m * COLUMNS + i;
      double y = f->whole ? ((const int32_t *)f->sums)[at] : ((const float *)f->sums)[at];
      y *= p->has_scale ? p->alpha * (double)scale[to.channel + i] : p->alpha;
      y += p->has_bias ? p->beta + (double)bias[to.channel + i] : p->beta;
      if (p->has_residual)
        y += falt_load(operands->residual, p->residual.type,
                       f->residual_at[m] + to.residual + i * p->residual.stride[FALT_C]);
      falt_store(operands->output, p->output.type, f->at[m] + to.out + i * p->output.stride[FALT_C],
                 falt_activate(p, y));
    }
}

/* ---- sums of halves that are no numbers */

/* The sum at a position and channel of the task's group as f32 form it. */
static float sum_of(const falt_tiles_task *t, const falt_layer_point *at, int64_t k) {
  const falt_problem *p = &t->layer->p;
  const falt_tensor *x = &p->input, *w = &p->filter;
  float sum = 0;
  for (int64_t tap = 0; tap < t->layer->taps; tap++) {
    const int64_t s = tap % w->size[FALT_W], r = tap / w->size[FALT_W] % w->size[FALT_H],
                  j = tap / w->size[FALT_W] / w->size[FALT_H];
    const int64_t d = falt_layer_source(t->layer, 0, at->at[0], j), h = falt_layer_source(t->layer, 1, at->at[1], r);
    const int64_t v = falt_layer_source(t->layer, 2, at->at[2], s);
    for (int64_t c = 0; c < t->layer->channels; c++) {
      const bool inside = d >= 0 && h >= 0 && v >= 0;
      const double value =
          inside ? falt_load(t->run->operands->input, x->type, falt_tensor_at(x, at->n, t->group, c, d, h, v))
                 : p->boundary_value;
      sum += (float)value * falt_tiles_weight(t, k, tap, c);
    }
  }
  return sum;
}

/* An infinity times the small half of a number, which may be 0, is none: such sums are formed again. */
static void mend(const falt_tiles_task *t, const falt_tiles_finish *f, int64_t tile, int64_t panel) {
  float *sums = (float *)(void *)t->sums;
  for (int m = 0; m < FALT_TILES_ROWS; m++)
    for (int i = 0; i < f->n && m % ROWS < f->rows[m / ROWS]; i++) {
      if (!isnan(sums[m * COLUMNS + i])) continue;
      falt_layer_point at = t->tiles[tile + m / ROWS].at;
      for (int left = m % ROWS, run; left > 0; left -= run) {
        run = (int)falt_layer_run(t->layer, &at, left);
        falt_layer_advance(t->layer, &at, run);
      }
      sums[m * COLUMNS + i] = sum_of(t, &at, panel * COLUMNS + i);
    }
}

/* ---- tasks */

/* A pair of tiles by panels [begin, end). */
static falt_tiles_product product_of(const falt_tiles_task *t, int64_t tile, int64_t begin, int64_t end) {
  const falt_tiles_plan *plan = t->plan;
  const bool alone = t->count - tile == 1 || (plan->transposed && t->tiles[tile + 1].count == 0);
  const falt_problem *p = &t->layer->p;
  return (falt_tiles_product){.kind = plan->kind,
                              .transposed = plan->transposed,
                              .a = t->list + tile * falt_tiles_listed(plan),
                              .b = t->packed + (size_t)(t->group * plan->panels + begin - t->from) * plan->panel,
                              .panels = end - begin,
                              .pitch = (int64_t)plan->panel,
                              .segments = falt_tiles_listed(plan),
                              .pieces = plan->transposed ? 1 : plan->pieces,
                              .groups = (int)plan->groups,
                              .whole = plan->transposed ? falt_tiles_listed(plan) - plan->segments : 0,
                              .tiles = alone ? 1 : PAIR,
                              .rows = (int)plan->rows,
                              .distance = plan->zipped ? plan->pitch : GROUP,
                              .near = (end - begin) * (int64_t)plan->panel <= NEAR,
                              .columns = falt_min(t->layer->results, end * COLUMNS) - begin * COLUMNS,
                              .apart = COLUMNS * (plan->transposed ? p->output.stride[FALT_C] : 1),
                              .residual_apart = COLUMNS * (plan->transposed ? p->residual.stride[FALT_C] : 1)};
}

static void run_pair(const falt_tiles_task *t, int64_t tile, int64_t begin, int64_t end, falt_tiles_flow *flow) {
  falt_tiles_product call = product_of(t, tile, begin, end);
  const falt_tiles_finish first = finish_of(t, tile, begin, NULL);
  call.finish = &first;
  t->plan->kernels->product(&call, flow);
}

/* The same where sums are looked at first. */
static void run_singly(const falt_tiles_task *t, int64_t tile, int64_t begin, int64_t end, falt_tiles_flow *flow) {
  for (int64_t panel = begin; panel < end; panel++) {
    const falt_tiles_product call = product_of(t, tile, panel, panel + 1);
    t->plan->kernels->product(&call, flow);
    const falt_tiles_finish f = finish_of(t, tile, panel, flow->sums);
    if (t->plan->split && !t->plan->kernels->numbers(flow->sums, f.rows, f.n)) mend(t, &f, tile, panel);
    if (t->plan->vectors)
      t->plan->kernels->finish(&f);
    else
      store_singly(t, &f, panel);
  }
}

/* Panels of the task's group, packed where they are not. */
static void bring_panels(falt_tiles_task *t, int64_t begin, int64_t end) {
  const falt_tiles_plan *plan = t->plan;
  const int64_t first = t->group * plan->panels;
  t->packed = t->run->packed;
  t->from = 0;
  if (t->packed) return;
  falt_tiles_pack(plan, t->run->operands->filter, first + begin, first + end, t->panels, t->packing);
  t->packed = t->panels;
  t->from = first + begin;
}

/* Panels [begin, end) of the task's group. */
static void run_panels(falt_tiles_task *t, int64_t begin, int64_t end) {
  falt_tiles_flow flow = {.sums = t->sums};
  const bool flows = t->plan->vectors && !t->plan->split;
  for (int64_t first = begin, last; first < end; first = last) {
    last = falt_min(first + t->plan->near, end);
    bring_panels(t, first, last);
    for (int64_t tile = 0; tile < t->count && !falt_cancelled(); tile += PAIR)
      (flows ? run_pair : run_singly)(t, tile, first, last, &flow);
  }
  t->plan->kernels->flush(&flow);
}

/* The constant as a pixel of a tile. */
static void set_constant(const falt_tiles_task *t) {
  const falt_tiles_plan *plan = t->plan;
  const falt_problem *p = &t->layer->p;
  uint16_t half;
  if (p->boundary_value == 0) {
    memset(t->constant, 0, (size_t)(t->layer->channels * plan->element));
    return;
  }
  falt_store(&half, FALT_F16, 0, p->boundary_value);
  for (int64_t i = 0; i < t->layer->channels; i++)
    if (plan->split)
      plan->kernels->upconvert(&(falt_tiles_upconvert){&half, FALT_F16, true, t->constant + i * plan->element, 1, 1});
    else
      falt_store(t->constant, plan->kind == FALT_TILES_F32 ? FALT_F32 : p->input.type, i, p->boundary_value);
}

static void open_task(falt_tiles_task *t, char *memory) {
  const falt_tiles_map *at = &t->plan->at;
  t->list = (falt_tile_rows *)(void *)(memory + at->list);
  t->tiles = (falt_tiles_tile *)(void *)(memory + at->tiles);
  t->out = (int64_t *)(void *)(memory + at->out);
  t->residual = (int64_t *)(void *)(memory + at->residual);
  t->constant = memory + at->constant;
  t->lines = memory + at->lines;
  t->copies = memory + at->copies;
  t->filled = memory + at->filled;
  t->sums = memory + at->sums;
  t->panels = memory + at->panels;
  t->packing = memory + at->packing;
  for (int64_t m = 0; m < FALT_TILES_ROWS; m++) {
    t->row_out[m] = m * t->layer->p.output.stride[FALT_C];
    t->row_residual[m] = m * t->layer->p.residual.stride[FALT_C];
  }
  set_constant(t);
}

static void run_task(void *context, int64_t index, void *scratch) {
  const falt_tiles_run *run = context;
  const falt_tiles_plan *plan = run->plan;
  falt_tiles_task t = {.run = run, .plan = plan, .layer = &plan->layer};
  const int64_t chunk = index % plan->chunks.count, block = index / plan->chunks.count;
  const int64_t begin = falt_layer_piece(&plan->chunks, chunk), end = falt_layer_piece(&plan->chunks, chunk + 1);
  t.part = falt_layer_piece(&plan->blocks, block);
  t.parts = falt_layer_piece(&plan->blocks, block + 1) - t.part;
  open_task(&t, scratch);
  plan->kernels->open((int)plan->rows);
  for (int64_t i = begin, next; i < end && !falt_cancelled(); i = next) {
    const int64_t group = i / plan->panels;
    next = falt_min(end, (group + 1) * plan->panels);
    falt_tiles_list(&t, group);
    run_panels(&t, i - group * plan->panels, next - group * plan->panels);
  }
  plan->kernels->close();
}

void falt_tiles_execute(const falt_plan *base, const falt_operands *operands) {
  const falt_tiles_plan *plan = (const falt_tiles_plan *)base;
  char *workspace = operands->workspace, *filter = workspace + plan->filter;
  float *factors = (float *)(void *)(workspace + plan->factors);
  falt_tiles_run run = {plan, operands, plan->packed ? plan->packed : plan->in_time ? NULL : filter, factors};
  if (!plan->packed && !plan->in_time)
    falt_tiles_pack_all(plan, operands->filter, filter, workspace, plan->at.parts.total, plan->at.packing);
  falt_layer_factors(&plan->layer, operands, factors);
  const falt_row_job job = {run_task, &run, plan->blocks.count * plan->chunks.count, plan->at.parts.total};
  falt_rows_run(base->device, &job, workspace);
}
