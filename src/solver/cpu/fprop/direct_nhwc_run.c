/* Runs direct-nhwc: packs the filter, lists for each position and tap the address of its input pixel, and calls the
 * kernels on these lists. A pixel outside is the address of another pixel or of a row of the constant. Positions are
 * numbered over all rows and images, which keeps blocks full where rows are short. Rows of taps at the ends of an input
 * row are copied (layer_slots.h). Where many pixels outside are zeros, a call leaves out the taps that all its
 * positions read outside (layer_inside.h). Channels that are apart are gathered into the scratch. */
#include <string.h>

#include "solver/cpu/common/rows.h"
#include "solver/cpu/fprop/direct_nhwc.h"

/* ---- packing */

static int64_t columns_before(const falt_direct_nhwc_plan *plan, int64_t panel) {
  return falt_layer_piece(&plan->panels, panel) * plan->layer.kernels->width;
}

typedef struct packing {
  const falt_direct_nhwc_plan *plan;
  const float *filter;
  float *packed;
} packing;

/* Rows of columns [k, k + n) of a group of the problem. */
static void pack_columns(const packing *pack, int64_t g, int64_t k, int64_t n, int64_t width, float *to) {
  const falt_layer *layer = &pack->plan->layer;
  const falt_tensor *w = &layer->p.filter;
  for (int64_t t = 0; t < w->size[FALT_D]; t++)
    for (int64_t r = 0; r < w->size[FALT_H]; r++)
      for (int64_t s = 0; s < w->size[FALT_W]; s++, to += layer->channels * width)
        layer->kernels->copy(&(falt_layer_copy){.from = pack->filter + falt_tensor_at(w, k, g, 0, t, r, s),
                                                .step = w->stride[FALT_K],
                                                .from_pitch = w->stride[FALT_C],
                                                .to = to,
                                                .to_pitch = width,
                                                .n = n,
                                                .count = layer->channels});
}

static void pack_panel(void *context, int64_t index) {
  const packing *pack = context;
  const falt_direct_nhwc_plan *plan = pack->plan;
  const falt_layer *layer = &plan->layer;
  const int64_t g = index / plan->panels.count, panel = index % plan->panels.count;
  const int64_t k = columns_before(plan, panel), width = columns_before(plan, panel + 1) - k;
  const int64_t n = falt_min(width, layer->results - k), depth = layer->taps * layer->channels;
  const int64_t each = n / plan->joined;
  float *to = pack->packed + (size_t)g * plan->group + (size_t)(k * depth);
  if (n < width) memset(to, 0, (size_t)(width * depth) * sizeof *to);
  for (int64_t i = 0; i < plan->joined; i++) pack_columns(pack, g * plan->joined + i, k, each, width, to + i * each);
}

void falt_direct_nhwc_pack(const falt_direct_nhwc_plan *plan, const float *filter, float *packed) {
  packing p = {plan, filter, packed};
  falt_parallel_for(plan->base.device->threads, plan->layer.p.output.size[FALT_G] * plan->panels.count, pack_panel, &p);
}

/* ---- execute */

typedef struct execution {
  const falt_direct_nhwc_plan *plan;
  const falt_operands *operands;
  const float *packed, *factors;
} execution;

/* A block of positions and its list: for each segment the addresses of all positions. */
typedef struct task {
  const execution *run;
  const falt_direct_nhwc_plan *plan;
  const falt_layer *layer;
  int64_t group, positions;
  falt_layer_pieces pieces; /* of the positions: calls, unless taps outside are left out */
  int64_t count;            /* of calls */
  falt_inside_call *calls;
  falt_box *taps;         /* of positions, in the order of the list */
  int32_t *which;         /* taps of a call */
  falt_layer_jump *jumps; /* to them */
  const float *input;     /* of the group that the lists are made for */
  const float **list;
  int64_t *out, *residual; /* elements of channel 0 of group 0, by position */
  float *constant, *gathered, *sums;
  falt_slot_memory slots;
} task;

/* One segment of positions p, p + 1, ... of an output row: the tap that it begins with, and the input row. */
typedef struct segment_row {
  const float *row; /* NULL: the constant */
  int64_t index, t, r, s, taps;
  const falt_slot_row *results;
  int64_t p, ow, first; /* position in the block, in the output row, and where it begins to read */
} segment_row;

/* What position i reads, brought together at `to`. */
static const float *gather(const task *t, const segment_row *l, int64_t i, float *to) {
  const falt_tensor *x = &t->layer->p.input;
  const int64_t w = falt_layer_source(t->layer, 2, l->ow + i, l->s);
  const float *from = w < 0 ? t->constant : l->row + w * x->stride[FALT_W];
  const int64_t step = w < 0 ? 1 : x->stride[FALT_C];
  for (int64_t c = 0; c < t->layer->channels; c++) to[c] = from[c * step];
  return to;
}

/* Position i, where the tap lies beyond an end of the row or is not read in place. */
static const float *find(const task *t, const segment_row *l, int64_t i) {
  const falt_direct_nhwc_plan *plan = t->plan;
  if (!l->row) return t->constant;
  if (!plan->in_place) return gather(t, l, i, t->gathered + ((l->p + i) * plan->segments + l->index) * plan->length);
  const int64_t w = falt_layer_source(t->layer, 2, l->ow + i, l->s);
  return w < 0 ? t->constant : l->row + w * t->layer->p.input.stride[FALT_W];
}

/* Positions [begin, end), where a row of taps hangs over an end. */
static void list_slot(const task *t, const segment_row *l, const float **list, int64_t begin, int64_t end) {
  const falt_slots *slots = &t->plan->slots;
  const float *slot = falt_slots_get(slots, &t->slots, t->layer, t->run->operands->input, l->results, l->t, l->r);
  for (int64_t i = begin; i < end; i++) list[i] = slot + i * slots->position_step;
}

/* Addresses of `count` positions: those that lie inside are evenly apart. */
static void list_row(const task *t, segment_row *l, int64_t count) {
  const falt_tensor *x = &t->layer->p.input;
  const falt_axis *axis = &t->layer->p.axis[2];
  const int64_t first = l->first = l->ow * axis->stride + l->s * axis->dilation - axis->pad[0];
  const int64_t room = x->size[FALT_W] - l->taps - first, step = axis->stride * x->stride[FALT_W];
  int64_t begin = first >= 0 ? 0 : falt_min(count, falt_ceil_div(-first, axis->stride));
  int64_t end = room < 0 ? begin : falt_max(begin, falt_min(count, room / axis->stride + 1));
  const bool folds = t->plan->folds && l->row;
  if (!l->row || !t->plan->in_place || (folds && !t->plan->slots.ends)) begin = end = count;
  const float **list = t->list + l->index * t->positions + l->p;
  for (int64_t i = 0; i < begin && !folds; i++) list[i] = find(t, l, i);
  for (int64_t i = begin; i < end; i++) list[i] = l->row + first * x->stride[FALT_W] + i * step;
  for (int64_t i = end; i < count && !folds; i++) list[i] = find(t, l, i);
  if (folds && begin > 0) list_slot(t, l, list, 0, begin);
  if (folds && end < count) list_slot(t, l, list, end, count);
}

/* All segments of positions [p, p + count) of an output row. */
static void list_run(const task *t, const falt_layer_point *at, int64_t line, int64_t p, int64_t count) {
  const falt_tensor *x = &t->layer->p.input, *w = &t->layer->p.filter;
  const falt_slot_row results = {at->n, t->group, at->at[0], at->at[1], at->at[2], line};
  segment_row l = {.taps = t->plan->folds ? w->size[FALT_W] : 1, .p = p, .ow = at->at[2], .results = &results};
  for (int64_t j = 0; j < w->size[FALT_D]; j++) {
    const int64_t d = falt_layer_source(t->layer, 0, at->at[0], j);
    for (int64_t r = 0; r < w->size[FALT_H]; r++) {
      const int64_t h = falt_layer_source(t->layer, 1, at->at[1], r);
      const int64_t index = at->n * x->stride[FALT_N] + d * x->stride[FALT_D] + h * x->stride[FALT_H];
      l.row = d < 0 || h < 0 ? NULL : t->input + index;
      l.t = j;
      l.r = r;
      for (l.s = 0; l.s < w->size[FALT_W]; l.s += l.taps, l.index++) list_row(t, &l, count);
    }
  }
}

static void list_results(const task *t, const falt_layer_point *at, int64_t p, int64_t count) {
  const falt_tensor *y = &t->layer->p.output, *z = &t->layer->p.residual;
  const int64_t out = falt_tensor_at(y, at->n, 0, 0, at->at[0], at->at[1], at->at[2]);
  const int64_t residual = falt_tensor_at(z, at->n, 0, 0, at->at[0], at->at[1], at->at[2]);
  for (int64_t i = 0; i < count; i++) {
    t->out[p + i] = out + i * y->stride[FALT_W];
    t->residual[p + i] = residual + i * z->stride[FALT_W];
  }
}

/* Positions whose taps inside are the same. */
typedef struct listing {
  const task *task;
  int64_t p;
} listing;

static void list_inside(void *context, const falt_layer_point *at, int64_t count, const falt_box *taps) {
  listing *l = context;
  list_run(l->task, at, 0, l->p, count);
  list_results(l->task, at, l->p, count);
  for (int64_t i = 0; i < count; i++) l->task->taps[l->p++] = *taps;
}

static void list_block(task *t, int64_t first) {
  if (t->plan->skips) {
    falt_inside_walk(&t->plan->inside, t->layer, first, t->positions, list_inside, &(listing){t, 0});
    t->count = falt_inside_cut(t->taps, t->positions, t->plan->rows, t->calls);
    return;
  }
  falt_layer_point at = falt_layer_point_at(t->layer, first);
  for (int64_t p = 0, line = 0, count; p < t->positions; p += count, line++) {
    count = falt_layer_run(t->layer, &at, t->positions - p);
    list_run(t, &at, line, p, count);
    list_results(t, &at, p, count);
    falt_layer_advance(t->layer, &at, count);
  }
}

/* Sums of rows [begin, end) of the positions, columns [k, k + n), through the epilogue. */
static void store_call(const task *t, int64_t begin, int64_t end, int64_t k, int64_t n) {
  const falt_tensor *y = &t->layer->p.output, *z = &t->layer->p.residual;
  falt_layer_store(t->layer, t->run->operands,
                   &(falt_layer_block){.sums = t->sums,
                                       .pitch = FALT_LAYER_WIDEST,
                                       .n = n,
                                       .rows = (int)(end - begin),
                                       .out = t->out + begin,
                                       .residual = t->residual + begin,
                                       .out_shift = t->group * y->stride[FALT_G] + k * y->stride[FALT_C],
                                       .residual_shift = t->group * z->stride[FALT_G] + k * z->stride[FALT_C],
                                       .out_step = y->stride[FALT_C],
                                       .residual_step = z->stride[FALT_C],
                                       .channel = t->group * t->layer->results + k,
                                       .factors = t->run->factors});
}

/* Lists the taps that a call sums by a panel of so many columns; returns how many. */
static int64_t list_jumps(const task *t, const falt_box *taps, int64_t columns) {
  const int64_t count = falt_inside_list(t->layer, taps, t->which);
  for (int64_t i = 0; i < count; i++) {
    const int64_t out = t->which[i] - (i > 0 ? t->which[i - 1] + 1 : 0);
    t->jumps[i] = (falt_layer_jump){out * t->positions, out * t->plan->length * columns};
  }
  return count;
}

static void run_call(const task *t, int64_t call, int64_t panel) {
  const falt_direct_nhwc_plan *plan = t->plan;
  const falt_layer *layer = t->layer;
  const bool skips = plan->skips;
  const int64_t begin = skips ? t->calls[call].begin : falt_layer_piece(&t->pieces, call);
  const int64_t end = skips ? begin + t->calls[call].count : falt_layer_piece(&t->pieces, call + 1);
  const int64_t k = columns_before(plan, panel), n = falt_min(columns_before(plan, panel + 1), layer->results) - k;
  const falt_tensor *y = &layer->p.output;
  const bool straight = layer->plain && falt_tensor_unit(y, FALT_C);
  float *output = (float *)t->run->operands->output + t->group * y->stride[FALT_G] + k * y->stride[FALT_C];
  float *rows[FALT_LAYER_ROWS];
  for (int64_t m = 0; m < end - begin; m++)
    rows[m] = straight ? output + t->out[begin + m] : t->sums + m * FALT_LAYER_WIDEST;
  (plan->joined > 1 ? layer->kernels->groups : layer->kernels->product)(&(falt_layer_product){
      .a = t->list + begin,
      .a_pitch = t->positions,
      .b = t->run->packed + (size_t)t->group * plan->group + (size_t)(k * plan->segments * plan->length),
      .out = rows,
      .offset = plan->shares ? t->group * layer->p.input.stride[FALT_G] : 0,
      .segments = skips ? list_jumps(t, &t->calls[call].taps, columns_before(plan, panel + 1) - k) : plan->segments,
      .jumps = skips ? t->jumps : NULL,
      .depth = plan->length,
      .n = n,
      .results = (int)(layer->results / plan->joined),
      .rows = (int)(end - begin)});
  if (!straight) store_call(t, begin, end, k, n);
}

static void open_task(task *t, char *memory) {
  const falt_direct_nhwc_scratch *at = &t->plan->at;
  const falt_layer *layer = t->layer;
  t->list = (const float **)(void *)(memory + at->list);
  t->out = (int64_t *)(void *)(memory + at->out);
  t->residual = (int64_t *)(void *)(memory + at->residual);
  t->constant = (float *)(void *)(memory + at->constant);
  t->gathered = (float *)(void *)(memory + at->gathered);
  t->sums = (float *)(void *)(memory + at->sums);
  t->taps = (falt_box *)(void *)(memory + at->taps);
  t->calls = (falt_inside_call *)(void *)(memory + at->calls);
  t->which = (int32_t *)(void *)(memory + at->which);
  t->jumps = (falt_layer_jump *)(void *)(memory + at->jumps);
  t->slots = (falt_slot_memory){(float *)(void *)(memory + at->slots), (falt_slot_tag *)(void *)(memory + at->tags)};
  if (t->plan->folds) falt_slots_open(&t->plan->slots, &t->slots);
  for (int64_t i = 0; i < falt_direct_nhwc_constant_length(t->plan); i++)
    t->constant[i] = (float)layer->p.boundary_value;
}

/* The lists for a group, unless those that are there serve it too. */
static void turn_to_group(task *t, int64_t group, int64_t first, bool listed) {
  t->group = group;
  if (listed && t->plan->shares) return;
  const int64_t g = t->plan->shares ? 0 : group;
  t->input = (const float *)t->run->operands->input + falt_tensor_at(&t->layer->p.input, 0, g, 0, 0, 0, 0);
  list_block(t, first);
}

static void run_task(void *context, int64_t index, void *scratch) {
  const execution *run = context;
  const falt_direct_nhwc_plan *plan = run->plan;
  task t = {.run = run, .plan = plan, .layer = &plan->layer, .group = -1};
  const int64_t chunk = index % plan->chunks.count, block = index / plan->chunks.count;
  const int64_t begin_unit = falt_layer_piece(&plan->blocks, block % plan->blocks.count);
  const int64_t first = block / plan->blocks.count * plan->span + begin_unit * plan->unit;
  t.positions = (falt_layer_piece(&plan->blocks, block % plan->blocks.count + 1) - begin_unit) * plan->unit;
  const int64_t begin = falt_layer_piece(&plan->chunks, chunk), end = falt_layer_piece(&plan->chunks, chunk + 1);
  t.pieces = falt_layer_cut(t.positions, falt_ceil_div(t.positions, plan->rows));
  t.count = t.pieces.count;
  open_task(&t, scratch);
  for (int64_t i = begin; i < end; i++) {
    const int64_t group = i / plan->panels.count;
    if (group != t.group) turn_to_group(&t, group, first, i > begin);
    for (int64_t call = 0; call < t.count && !falt_cancelled(); call++) run_call(&t, call, i % plan->panels.count);
  }
}

void falt_direct_nhwc_execute(const falt_plan *base, const falt_operands *operands) {
  const falt_direct_nhwc_plan *plan = (const falt_direct_nhwc_plan *)base;
  char *workspace = operands->workspace;
  float *factors = (float *)(void *)(workspace + plan->factors), *filter = (float *)(void *)(workspace + plan->filter);
  execution run = {plan, operands, plan->packed ? plan->packed : filter, factors};
  if (!plan->packed) falt_direct_nhwc_pack(plan, operands->filter, filter);
  falt_layer_factors(&plan->layer, operands, factors);
  falt_rows_run(base->device,
                &(falt_row_job){.run = run_task,
                                .context = &run,
                                .tasks = plan->spans * plan->blocks.count * plan->chunks.count,
                                .scratch = plan->at.parts.total},
                workspace);
}
