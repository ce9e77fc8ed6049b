/* Executes direct-nhwc: lists for each position and tap the address of its input pixel, and runs the kernels on these
 * lists (indirect convolution). */
#include "solver/cpu/common/rows.h"
#include "solver/cpu/fprop/direct_nhwc.h"

/* A pixel outside is the address of another pixel or of a row of the constant. Positions are numbered over all rows and
 * images, which keeps blocks full if rows are short. Tap rows at the ends of an input row are copied (layer_slots.h).
 * If many pixels outside are zeros, a call skips the taps that all its positions read outside (layer_inside.h).
 * Channels that are not adjacent are gathered into the scratch. */

/* ---- execute */

typedef struct execution {
  const falt_direct_nhwc_plan *plan;
  const falt_operands *operands;
  const void *packed;
  const void *factors;
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
  const void *input;      /* of the group that the lists are made for */
  const void **list;
  int64_t *out, *residual; /* elements of channel 0 of group 0, by position */
  void *constant, *gathered, *sums;
  void *panel; /* the part of one that is packed by this task */
  falt_slot_memory slots;
} task;

/* One segment of positions p, p + 1, ... of an output row: the tap that it begins with, and the input row. */
typedef struct segment_row {
  const void *row; /* NULL: the constant */
  int64_t index, t, r, s, taps;
  const falt_slot_row *results;
  int64_t p, ow, first; /* position in the block, in the output row, and where it begins to read */
} segment_row;

static const void *pixel(const task *t, const segment_row *l, int64_t w) {
  return falt_layer_at(t->layer, l->row, w * t->layer->p.input.stride[FALT_W]);
}

/* Gathers the elements that position i reads at `to`. */
static const void *gather(const task *t, const segment_row *l, int64_t i, void *to) {
  const falt_tensor *x = &t->layer->p.input;
  const int64_t w = falt_layer_source(t->layer, 2, l->ow + i, l->s);
  falt_layer_gather(w < 0 ? t->constant : pixel(t, l, w), w < 0 ? 1 : x->stride[FALT_C], t->layer->channels,
                    (int64_t)t->layer->kernels->lane_size, to);
  return to;
}

/* Position i if the tap is beyond an end of the row or is not read in place. */
static const void *find(const task *t, const segment_row *l, int64_t i) {
  const falt_direct_nhwc_plan *plan = t->plan;
  if (!l->row) return t->constant;
  const int64_t room = ((l->p + i) * plan->segments + l->index) * plan->length;
  if (!plan->in_place) return gather(t, l, i, falt_layer_at(t->layer, t->gathered, room));
  const int64_t w = falt_layer_source(t->layer, 2, l->ow + i, l->s);
  return w < 0 ? t->constant : pixel(t, l, w);
}

/* Positions [begin, end), equally spaced; `from` is what position 0 would read. */
static void set_addresses(const void **list, int64_t begin, int64_t end, const void *from, int64_t bytes) {
  const char *first = from;
  for (int64_t i = begin; i < end; i++) list[i] = first + i * bytes;
}

/* Positions [begin, end), where a row of taps hangs over an end. */
static void list_slot(const task *t, const segment_row *l, const void **list, int64_t begin, int64_t end) {
  const falt_slots *slots = &t->plan->slots;
  const void *slot = falt_slots_get(slots, &t->slots, t->layer, t->run->operands->input, l->results, l->t, l->r);
  set_addresses(list, begin, end, slot, slots->position_step * (int64_t)t->layer->kernels->lane_size);
}

/* Addresses of `count` positions: those inside are equally spaced. */
static void list_row(const task *t, segment_row *l, int64_t count) {
  const falt_tensor *x = &t->layer->p.input;
  const falt_axis *axis = &t->layer->p.axis[2];
  const int64_t first = l->first = l->ow * axis->stride + l->s * axis->dilation - axis->pad[0];
  const int64_t room = x->size[FALT_W] - l->taps - first, step = axis->stride * x->stride[FALT_W];
  int64_t begin = first >= 0 ? 0 : falt_min(count, falt_ceil_div(-first, axis->stride));
  int64_t end = room < 0 ? begin : falt_max(begin, falt_min(count, room / axis->stride + 1));
  const bool folds = t->plan->folds && l->row;
  if (!l->row || !t->plan->in_place || (folds && !t->plan->slots.ends)) begin = end = count;
  const void **list = t->list + l->index * t->positions + l->p;
  for (int64_t i = 0; i < begin && !folds; i++) list[i] = find(t, l, i);
  if (begin < end) set_addresses(list, begin, end, pixel(t, l, first), step * (int64_t)t->layer->kernels->lane_size);
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
      l.row = d < 0 || h < 0 ? NULL : falt_layer_at(t->layer, t->input, index);
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

/* Positions with the same inside taps. */
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
static void store_call(const task *t, int64_t begin, int64_t end, int64_t k, int64_t n, void *sums) {
  const falt_tensor *y = &t->layer->p.output, *z = &t->layer->p.residual;
  falt_layer_store(t->layer, t->run->operands,
                   &(falt_layer_block){.sums = sums,
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

/* Lists the taps of a part that a call sums by a panel of a number of columns; returns their number. */
static int64_t list_jumps(const task *t, const falt_box *taps, const falt_direct_nhwc_part *part, int64_t columns) {
  const int64_t listed = falt_inside_list(t->layer, taps, t->which);
  int64_t count = 0, next = part->tap;
  for (int64_t i = 0; i < listed; i++) {
    const int64_t tap = t->which[i];
    if (tap < part->tap || tap >= part->tap + part->taps) continue;
    t->jumps[count++] = (falt_layer_jump){(tap - next) * t->positions, (tap - next) * part->channels * columns};
    next = tap + 1;
  }
  return count;
}

/* One call of a kernel: positions [begin, end), columns [k, k + n) of a panel of `columns`, part of the depth. */
typedef struct kernel_call {
  int64_t index, begin, end, k, n, columns;
  const falt_direct_nhwc_part *part;
  const void *panel;            /* where the part begins */
  int64_t skip;                 /* elements between its rows */
  falt_direct_nhwc_source next; /* of the part that is packed after this one */
} kernel_call;

/* Where the sums of a row of the call are: in the output, or in the scratch until the epilogue. */
static void place_sums(const task *t, const kernel_call *c, bool straight, void **rows) {
  const falt_tensor *y = &t->layer->p.output;
  const int64_t size = (int64_t)t->layer->kernels->lane_size, *out = t->out + c->begin, count = c->end - c->begin;
  char *output = (char *)t->run->operands->output + (t->group * y->stride[FALT_G] + c->k * y->stride[FALT_C]) * size;
  char *sums = (char *)t->sums + (t->plan->parts > 1 ? c->begin * FALT_LAYER_WIDEST : 0) * size;
  for (int64_t m = 0; m < count; m++) rows[m] = straight ? output + out[m] * size : sums + m * FALT_LAYER_WIDEST * size;
}

static void run_call(const task *t, const kernel_call *c) {
  const falt_direct_nhwc_plan *plan = t->plan;
  const falt_direct_nhwc_source *next = &c->next;
  const falt_layer *layer = t->layer;
  const falt_direct_nhwc_part *part = c->part;
  const bool straight = layer->plain && falt_tensor_unit(&layer->p.output, FALT_C);
  void *rows[FALT_LAYER_ROWS];
  place_sums(t, c, straight, rows);
  (plan->joined > 1 ? layer->kernels->groups : layer->kernels->product)(&(falt_layer_product){
      .a = t->list + part->tap * t->positions + c->begin,
      .a_pitch = t->positions,
      .b = c->panel,
      .out = rows,
      .offset = (plan->shares ? t->group * layer->p.input.stride[FALT_G] : 0) + part->channel,
      .segments = plan->skips ? list_jumps(t, &t->calls[c->index].taps, part, c->columns) : part->taps,
      .jumps = plan->skips ? t->jumps : NULL,
      .depth = part->channels,
      .b_skip = c->skip,
      .n = c->n,
      .ahead =
          next->count > 0 ? falt_layer_at(layer, next->from, next->count * c->index / t->count * next->step) : NULL,
      .ahead_run = next->lines,
      .ahead_jump = next->step - next->lines * (int64_t)(64 / layer->kernels->lane_size),
      .results = (int)(layer->results / plan->joined),
      .rows = (int)(c->end - c->begin),
      .accumulate = part->index > 0});
  if (!straight && part->index + 1 == plan->parts) store_call(t, c->begin, c->end, c->k, c->n, rows[0]);
}

/* The source of the part behind part i: of this panel or the next one, unless this is the task's last of the group. */
static falt_direct_nhwc_source next_source(const task *t, int64_t panel, int64_t i, bool last) {
  const bool ends = i + 1 == t->plan->parts;
  if (ends && last) return (falt_direct_nhwc_source){.count = 0};
  const falt_direct_nhwc_part next = falt_direct_nhwc_part_of(t->plan, ends ? 0 : i + 1);
  return falt_direct_nhwc_source_of(t->plan, t->run->operands->filter, t->group, ends ? panel + 1 : panel, &next);
}

enum { FEW_CALLS = 2 }; /* that read a panel from the filter in place as fast as a copy would take */

/* The address of a part of a panel in the filter if kernels can read it in place, and the distance of its rows; else
 * NULL. */
static const void *part_in_place(const task *t, int64_t panel, const falt_direct_nhwc_part *part, int64_t *skip) {
  const falt_direct_nhwc_plan *plan = t->plan;
  const falt_tensor *w = &t->layer->p.filter;
  const int64_t k = falt_direct_nhwc_columns(plan, panel), end = falt_direct_nhwc_columns(plan, panel + 1);
  *skip = w->stride[FALT_C] - (end - k);
  if (w->stride[FALT_K] != 1 || part->taps != 1 || end > t->layer->results || *skip < 0) return NULL;
  return falt_layer_at(t->layer, t->run->operands->filter,
                       falt_layer_tap_at(w, part->tap) + falt_tensor_at(w, k, t->group, part->channel, 0, 0, 0));
}

/* All positions of the task by one panel, part by part: each part is packed into the cache before it is multiplied,
 * unless the whole filter is packed. */
static void run_panel(const task *t, int64_t panel, bool last) {
  const falt_direct_nhwc_plan *plan = t->plan;
  kernel_call c = {.k = falt_direct_nhwc_columns(plan, panel)};
  c.columns = falt_direct_nhwc_columns(plan, panel + 1) - c.k;
  c.n = falt_min(c.columns, t->layer->results - c.k);
  for (int64_t i = 0; i < plan->parts && !falt_cancelled(); i++) {
    const falt_direct_nhwc_part part = falt_direct_nhwc_part_of(plan, i);
    c.part = &part;
    if (plan->just_in_time && t->count <= FEW_CALLS && (c.panel = part_in_place(t, panel, &part, &c.skip))) {
      c.next = (falt_direct_nhwc_source){.count = 0};
    } else if (plan->just_in_time) {
      falt_direct_nhwc_pack_part(plan, t->run->operands->filter, t->group, panel, &part, t->panel);
      c.panel = t->panel;
      c.skip = 0;
      c.next = next_source(t, panel, i, last);
    } else {
      c.panel = falt_layer_at(t->layer, t->run->packed,
                              t->group * (int64_t)plan->group + c.k * plan->segments * plan->length);
    }
    for (c.index = c.end = 0; c.index < t->count && !falt_cancelled(); c.index++) {
      c.begin = plan->skips ? t->calls[c.index].begin : c.end; /* pieces follow each other */
      c.end = plan->skips ? c.begin + t->calls[c.index].count : falt_layer_piece(&t->pieces, c.index + 1);
      run_call(t, &c);
    }
  }
}

static void open_task(task *t, char *memory) {
  const falt_direct_nhwc_scratch *at = &t->plan->at;
  const falt_layer *layer = t->layer;
  t->list = (const void **)(void *)(memory + at->list);
  t->out = (int64_t *)(void *)(memory + at->out);
  t->residual = (int64_t *)(void *)(memory + at->residual);
  t->constant = memory + at->constant;
  t->gathered = memory + at->gathered;
  t->sums = memory + at->sums;
  t->panel = memory + at->panel;
  t->taps = (falt_box *)(void *)(memory + at->taps);
  t->calls = (falt_inside_call *)(void *)(memory + at->calls);
  t->which = (int32_t *)(void *)(memory + at->which);
  t->jumps = (falt_layer_jump *)(void *)(memory + at->jumps);
  t->slots = (falt_slot_memory){memory + at->slots, (falt_slot_tag *)(void *)(memory + at->tags)};
  if (t->plan->folds) falt_slots_open(&t->plan->slots, &t->slots);
  falt_layer_fill(layer->kernels, t->constant, falt_direct_nhwc_constant_length(t->plan), layer->p.boundary_value);
}

/* Makes the lists for a group, unless the present ones serve it too. */
static void enter_group(task *t, int64_t group, int64_t first, bool listed) {
  t->group = group;
  if (listed && t->plan->shares) return;
  const int64_t g = t->plan->shares ? 0 : group;
  t->input = falt_layer_at(t->layer, t->run->operands->input, falt_tensor_at(&t->layer->p.input, 0, g, 0, 0, 0, 0));
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
  for (int64_t i = begin; i < end && !falt_cancelled(); i++) {
    const int64_t group = i / plan->panels.count;
    if (group != t.group) enter_group(&t, group, first, i > begin);
    run_panel(&t, i % plan->panels.count, i + 1 == end || (i + 1) % plan->panels.count == 0);
  }
}

void falt_direct_nhwc_execute(const falt_plan *base, const falt_operands *operands) {
  const falt_direct_nhwc_plan *plan = (const falt_direct_nhwc_plan *)base;
  char *workspace = operands->workspace;
  void *factors = workspace + plan->factors, *filter = workspace + plan->filter;
  execution run = {plan, operands, plan->packed ? plan->packed : filter, factors};
  if (!plan->packed && !plan->just_in_time) falt_direct_nhwc_pack(plan, operands->filter, filter);
  falt_layer_factors(&plan->layer, operands, factors);
  const falt_row_job job = {run_task, &run, plan->spans * plan->blocks.count * plan->chunks.count,
                            plan->at.parts.total};
  falt_rows_run(base->device, &job, workspace);
}
