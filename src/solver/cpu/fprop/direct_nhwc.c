/* Dense layers whose channels are adjacent in memory (NHWC), forward: vectors run along output channels.
 *
 *     y[p, k] = sum over taps j and channels c of  x[p*stride + j*dilation - pad, c] * w[k, c, j]
 *
 * A block of positions times channels stays in registers while the kernel goes through all (j, c): rows are addresses
 * of input pixels, one for each position and tap, and the filter is packed in panels of up to 4 vectors of channels. A
 * pixel outside is the address of another one, or of a row of the constant: no padded copy, no branch where sums are
 * formed. Positions are numbered over all rows and images, so blocks are full also where rows are short. Where pixels
 * outside are zeros and many, taps that all positions of a call read outside are left out (layer_inside.h).
 *
 * Groups that follow each other in memory share their lists, and where their channels are so few that several fit into
 * a vector they are multiplied side by side.
 *
 * With few input channels the taps of a row become one segment, S*C elements that lie together in the input, and at
 * the ends of rows in copies of them that go on (layer_slots.h). If channels are apart, pixels are gathered into the
 * scratch. */
#include <string.h>

#include "core/memory.h"
#include "solver/cpu/common/layer_inside.h"
#include "solver/cpu/common/layer_slots.h"
#include "solver/cpu/common/rows.h"

enum {
  FEW_CHANNELS = 16,
  BLOCK = 96,
  LARGE_BLOCK = 400,
  FOLDED_BLOCK = 384,
  WIDE_BLOCK = 120,
  MOST_SEGMENTS = 1 << 14
};
static const double LEAST_OUTSIDE = 0.0065;    /* of the taps, for each row of a call: calls of many are seldom full */
enum { SHORT_ROW = 64, MOST_SLOTS = 1 << 17 }; /* positions; elements */

/* Offsets into a worker's scratch. */
typedef struct scratch_map {
  size_t list, out, residual, constant, gathered, slots, tags, sums, taps, calls, which, jumps;
  falt_memory_layout parts;
} scratch_map;

typedef struct channels_plan {
  falt_plan base;
  falt_layer layer;
  bool folds;                       /* a segment is a row of taps rather than one */
  bool in_place;                    /* pixels are read where they lie */
  bool shares;                      /* lists serve all groups, which follow each other in memory */
  double inside_share;              /* of the taps of all positions */
  bool skips;                       /* those outside are left out */
  int64_t joined;                   /* the problem's groups in one of the plan's, side by side in a vector */
  int64_t segments, length;         /* elements of a segment */
  int64_t vectors;                  /* of a group's output channels */
  falt_layer_pieces panels;         /* of vectors */
  int64_t rows;                     /* positions of a kernel call, at most */
  int64_t spans, span, unit;        /* of positions that blocks do not cross, their size, and what blocks are cut in */
  falt_layer_pieces blocks, chunks; /* tasks: blocks of each span times chunks of the panels of all groups */
  falt_slots slots;                 /* of input rows, where rows of taps are segments */
  falt_inside inside;               /* where taps outside are left out */
  size_t group;                     /* floats of a group's packed filter */
  const float *values;              /* the filter, from planning until it is packed */
  float *packed;                    /* or NULL if the filter comes with each execution */
  size_t factors, filter;           /* offsets into the workspace */
  scratch_map at;                   /* in each worker's scratch */
} channels_plan;

/* ---- packing: panel by panel, one row of columns for each (tap, channel) */

static int64_t columns_before(const channels_plan *plan, int64_t panel) {
  return falt_layer_piece(&plan->panels, panel) * plan->layer.kernels->width;
}

typedef struct packing {
  const channels_plan *plan;
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
  const channels_plan *plan = pack->plan;
  const falt_layer *layer = &plan->layer;
  const int64_t g = index / plan->panels.count, panel = index % plan->panels.count;
  const int64_t k = columns_before(plan, panel), width = columns_before(plan, panel + 1) - k;
  const int64_t n = falt_min(width, layer->results - k), depth = layer->taps * layer->channels;
  const int64_t each = n / plan->joined;
  float *to = pack->packed + (size_t)g * plan->group + (size_t)(k * depth);
  if (n < width) memset(to, 0, (size_t)(width * depth) * sizeof *to);
  for (int64_t i = 0; i < plan->joined; i++) pack_columns(pack, g * plan->joined + i, k, each, width, to + i * each);
}

static void pack(const channels_plan *plan, const float *filter, float *packed) {
  packing p = {plan, filter, packed};
  falt_parallel_for(plan->base.device->threads, plan->layer.p.output.size[FALT_G] * plan->panels.count, pack_panel, &p);
}

/* ---- execute */

/* A pixel outside: shared lists are read from any group's first channel on. */
static int64_t constant_length(const channels_plan *plan) {
  const int64_t groups = plan->layer.p.output.size[FALT_G] * plan->joined;
  return plan->shares ? groups * plan->length : plan->length;
}

typedef struct execution {
  const channels_plan *plan;
  const falt_operands *operands;
  const float *packed, *factors;
} execution;

/* A block of positions and its list: for each segment the addresses of all positions. */
typedef struct task {
  const execution *run;
  const channels_plan *plan;
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
  const channels_plan *plan = t->plan;
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
  const channels_plan *plan = t->plan;
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
  const scratch_map *at = &t->plan->at;
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
  for (int64_t i = 0; i < constant_length(t->plan); i++) t->constant[i] = (float)layer->p.boundary_value;
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
  const channels_plan *plan = run->plan;
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

static void execute(const falt_plan *base, const falt_operands *operands) {
  const channels_plan *plan = (const channels_plan *)base;
  char *workspace = operands->workspace;
  float *factors = (float *)(void *)(workspace + plan->factors), *filter = (float *)(void *)(workspace + plan->filter);
  execution run = {plan, operands, plan->packed ? plan->packed : filter, factors};
  if (!plan->packed) pack(plan, operands->filter, filter);
  falt_layer_factors(&plan->layer, operands, factors);
  falt_rows_run(base->device,
                &(falt_row_job){.run = run_task,
                                .context = &run,
                                .tasks = plan->spans * plan->blocks.count * plan->chunks.count,
                                .scratch = plan->at.parts.total},
                workspace);
}

static void print(const falt_plan *base, falt_text *text) {
  const channels_plan *plan = (const channels_plan *)base;
  const falt_layer *layer = &plan->layer;
  falt_text_add(text, "(direct-nhwc %s %lldx%lld%s%s block=%lld threads=%d)", falt_isa_name(base->device->isa),
                (long long)plan->rows, (long long)(falt_layer_most(&plan->panels) * layer->kernels->width),
                plan->folds        ? " folded"
                : plan->joined > 1 ? " joined"
                : plan->skips      ? " inside"
                                   : "",
                plan->in_place ? "" : " gathered", (long long)(falt_layer_most(&plan->blocks) * plan->unit),
                falt_threads_count(base->device->threads));
}

static void destroy(falt_plan *plan) {
  falt_free(((channels_plan *)plan)->packed);
  falt_free(plan);
}

/* ---- applicable, besides what all layers must be */

/* Filters whose elements repeat one another may be far larger than memory, and whole vectors larger still. */
static bool can_be_packed(const channels_plan *plan) {
  const int64_t columns = plan->vectors * plan->layer.kernels->width, groups = plan->layer.p.output.size[FALT_G];
  int64_t floats, bytes;
  return falt_mul(columns * groups, plan->segments * plan->length, &floats) &&
         falt_mul(floats, (int64_t)sizeof(float), &bytes);
}

static const char *refusal(const channels_plan *plan) {
  return plan->segments > MOST_SEGMENTS ? "its filter has too many taps for a list of addresses"
         : !can_be_packed(plan)         ? "its packed filter exceeds 2^63 bytes"
                                        : NULL;
}

/* ---- estimate */

/* The multiply-adds that take as long as moving one element that is apart from its neighbours. */
static const double apart = 64;
/* Steps of the depth that take as long as beginning a block of sums and storing it. */
static const double leaving = 16;

static double estimate(const channels_plan *plan, const falt_device *device) {
  const falt_layer *layer = &plan->layer;
  const double lanes = (double)(plan->vectors * layer->kernels->width) / (double)layer->results;
  const double depth = (double)(plan->segments * plan->length);
  const double switches = 1 + 3 / (double)plan->length + leaving / depth; /* a segment's addresses are loaded */
  const double gathers = plan->in_place ? 0 : apart * (double)plan->chunks.count / (double)layer->results;
  const double results = falt_tensor_unit(&layer->p.output, FALT_C) ? 0 : apart / depth;
  const double work = plan->joined > 1 ? 1.5 : plan->skips ? plan->inside_share : 1;
  const double stretch = work * lanes * switches + gathers + results;
  const double filter = plan->base.packed ? 0 : 100 * (double)falt_tensor_count(&layer->p.filter);
  return falt_roofline(device, FALT_F32, falt_problem_flops(&layer->p) * stretch + filter,
                       falt_layer_share(falt_layer_most(&plan->panels)), falt_problem_bytes(&layer->p));
}

/* ---- plan */

/* So many pieces of a whole, or a few more, so that threads have equal shares. */
static int64_t even(int64_t pieces, int64_t whole, int64_t threads) {
  return pieces < threads ? pieces : falt_min(whole, falt_round_up(pieces, threads));
}

/* Blocks of a plane: what the taps of its rows read is in slots at once. Short rows, whose ends weigh, are copied whole
 * for all rows that read them, and blocks are whole rows; others are read in place but for their ends. False, and the
 * plan's blocks are as before, if slots would not stay in a cache. */
static bool set_slots(channels_plan *plan) {
  const falt_layer *layer = &plan->layer;
  const falt_tensor *y = &layer->p.output;
  const falt_axis *axis = &layer->p.axis[2];
  const int64_t width = y->size[FALT_W], height = y->size[FALT_H],
                threads = falt_threads_count(plan->base.device->threads);
  const bool ends = width > SHORT_ROW || (axis->pad[0] <= 0 && axis->pad[1] <= 0);
  const int64_t wanted = threads == 1 ? 1 : falt_ceil_div(4 * threads * width * height, layer->positions);
  int64_t lines = ends ? falt_ceil_div(BLOCK, width) + 1 : falt_min(height, FOLDED_BLOCK / width);
  while (!ends && lines > 1 && falt_ceil_div(height, lines) < wanted) lines--;
  plan->slots = falt_slots_for(layer, falt_min(width, BLOCK), lines, ends);
  if (plan->slots.count > MOST_SLOTS / plan->slots.size) return false;
  plan->unit = ends ? 1 : width;
  plan->span = width * height;
  plan->spans = layer->positions / plan->span;
  const int64_t units = plan->span / plan->unit, pieces = falt_ceil_div(plan->span, ends ? BLOCK : lines * width);
  plan->blocks = falt_layer_cut(units, plan->spans % threads == 0 ? pieces : even(pieces, units, threads));
  return true;
}

static void set_segments(channels_plan *plan) {
  const falt_layer *layer = &plan->layer;
  const falt_tensor *x = &layer->p.input;
  const int64_t s = layer->p.filter.size[FALT_W];
  plan->spans = plan->unit = 1;
  plan->span = layer->positions;
  plan->in_place = falt_tensor_unit(x, FALT_C);
  const bool together = plan->in_place && (x->stride[FALT_W] == layer->channels || x->size[FALT_W] == 1);
  plan->folds =
      s > 1 && layer->channels < FEW_CHANNELS && together && layer->p.axis[2].dilation == 1 && set_slots(plan);
  plan->segments = plan->folds ? layer->taps / s : layer->taps;
  plan->length = plan->folds ? s * layer->channels : layer->channels;
}

/* Whether so many taps lie outside that leaving them out is worth calls of their own. */
static void set_inside(channels_plan *plan) {
  plan->inside_share = plan->folds || plan->joined > 1 ? 1 : falt_inside_share(&plan->layer);
  plan->skips = 1 - plan->inside_share > LEAST_OUTSIDE * (double)plan->rows;
  if (plan->skips) falt_inside_init(&plan->inside, &plan->layer);
}

/* Whether the groups' channels follow each other. */
static bool are_adjacent(const falt_tensor *t) {
  return t->stride[FALT_C] == 1 && t->stride[FALT_G] == t->size[FALT_C];
}

static int64_t joinable(const channels_plan *plan) {
  const falt_layer *layer = &plan->layer;
  const falt_problem *p = &layer->p;
  const int64_t room = layer->kernels->width / falt_max(layer->channels, layer->results);
  int64_t count = falt_min(room, p->output.size[FALT_G]);
  if (!plan->shares || !are_adjacent(&p->output) || (p->has_residual && !are_adjacent(&p->residual))) return 1;
  while (count > 1 && p->output.size[FALT_G] % count > 0) count--;
  return falt_max(count, 1);
}

static void join(falt_tensor *t, int64_t count, bool channels) {
  t->size[FALT_G] /= count;
  t->stride[FALT_G] *= count;
  if (channels) t->size[FALT_C] *= count;
}

/* Groups that share lists, and those that share vectors become one whose rows still have one group's channels. */
static void set_groups(channels_plan *plan) {
  falt_problem *p = &plan->layer.p;
  plan->shares = plan->in_place && !plan->folds && (p->input.size[FALT_G] == 1 || are_adjacent(&p->input));
  plan->joined = joinable(plan);
  if (plan->joined == 1) return;
  join(&p->input, plan->joined, false);
  join(&p->output, plan->joined, true);
  join(&p->residual, plan->joined, true);
  plan->layer.results *= plan->joined;
}

static void set_panels(channels_plan *plan) {
  const falt_layer_kernels *kernels = plan->layer.kernels;
  plan->vectors = falt_ceil_div(plan->layer.results, kernels->width);
  plan->panels = falt_layer_cut(plan->vectors, falt_ceil_div(plan->vectors, kernels->vectors));
  plan->rows = plan->joined > 1 ? kernels->group_rows : kernels->rows[falt_layer_most(&plan->panels)];
  plan->group = (size_t)(plan->vectors * kernels->width) * (size_t)(plan->segments * plan->length);
}

/* Blocks so large that a filter which does not stay in the cache is read seldom, and so small that threads have enough
 * of them; chunks of panels where positions are too few. */
static void set_tasks(channels_plan *plan) {
  const int64_t panels = plan->layer.p.output.size[FALT_G] * plan->panels.count; /* of all groups */
  const int64_t threads = falt_threads_count(plan->base.device->threads), wanted = threads == 1 ? 1 : 4 * threads;
  const int64_t positions = plan->layer.positions;
  const bool stays = plan->group * sizeof(float) <= plan->base.device->caches.l2 / 2;
  int64_t block = stays ? BLOCK : LARGE_BLOCK;
  while (block >= 2 * BLOCK && falt_ceil_div(positions, block) * panels < wanted) block /= 2;
  if (!plan->in_place) block = falt_min(block, falt_max(1, (INT64_C(1) << 17) / (plan->segments * plan->length)));
  if (!plan->folds) plan->blocks = falt_layer_cut(positions, even(falt_ceil_div(positions, block), positions, threads));
  plan->chunks = falt_layer_cut(panels, falt_min(panels, falt_ceil_div(wanted, plan->spans * plan->blocks.count)));
}

static void lay_memory(channels_plan *plan) {
  const size_t block = (size_t)(falt_layer_most(&plan->blocks) * plan->unit), segments = (size_t)plan->segments;
  const size_t length = (size_t)plan->length, slots = plan->folds ? (size_t)plan->slots.count : 0;
  const size_t channels = (size_t)plan->layer.p.output.size[FALT_G] * (size_t)plan->layer.results; /* of all groups */
  scratch_map *at = &plan->at;
  at->list = falt_place_part(&at->parts, block * segments * sizeof(float *));
  at->out = falt_place_part(&at->parts, block * sizeof(int64_t));
  at->residual = falt_place_part(&at->parts, block * sizeof(int64_t));
  at->constant = falt_place_part(&at->parts, (size_t)constant_length(plan) * sizeof(float));
  at->gathered = falt_place_part(&at->parts, plan->in_place ? 0 : block * segments * length * sizeof(float));
  at->slots = falt_place_part(&at->parts, slots * (size_t)plan->slots.size * sizeof(float));
  at->tags = falt_place_part(&at->parts, slots * sizeof(falt_slot_tag));
  at->sums = falt_place_part(&at->parts, FALT_LAYER_ROWS * FALT_LAYER_WIDEST * sizeof(float));
  at->taps = falt_place_part(&at->parts, plan->skips ? block * sizeof(falt_box) : 0);
  at->calls = falt_place_part(&at->parts, plan->skips ? (block + 1) * sizeof(falt_inside_call) : 0);
  at->which = falt_place_part(&at->parts, plan->skips ? segments * sizeof(int32_t) : 0);
  at->jumps = falt_place_part(&at->parts, plan->skips ? segments * sizeof(falt_layer_jump) : 0);
  falt_memory_layout *all = &plan->base.layout;
  falt_rows_place(all, plan->base.device, &at->parts);
  plan->factors = falt_place_part(all, 2 * channels * sizeof(float));
  plan->filter = falt_place_part(
      all, plan->base.packed ? 0 : (size_t)plan->layer.p.output.size[FALT_G] * plan->group * sizeof(float));
  plan->base.workspace = all->total;
}

/* Packs a filter that is known: only for the plan that was chosen. */
static falt_status ready(falt_plan *base) {
  channels_plan *plan = (channels_plan *)base;
  if (!plan->values) return FALT_OK;
  FALT_TRY(falt_layer_room(&plan->packed, (size_t)plan->layer.p.output.size[FALT_G] * plan->group));
  pack(plan, plan->values, plan->packed);
  plan->values = NULL;
  return FALT_OK;
}

static falt_plan *plan_channels(const falt_solver *solver, falt_ask *ask) {
  static const falt_plan_table table = {execute, print, destroy, ready};
  falt_layer layer;
  const char *reason = falt_layer_init(&layer, ask->problem, ask->device->isa);
  if (reason) return falt_refuse(ask, "%s", reason);
  channels_plan *plan = falt_plan_new(sizeof *plan, &table, solver, ask);
  if (!plan) return NULL;
  plan->layer = layer;
  set_segments(plan);
  set_groups(plan);
  set_panels(plan);
  if ((reason = refusal(plan))) {
    destroy(&plan->base);
    return falt_refuse(ask, "%s", reason);
  }
  set_inside(plan);
  set_tasks(plan);
  plan->values = ask->filter_values;
  plan->base.packed = plan->values != NULL;
  lay_memory(plan);
  plan->base.cost.seconds = estimate(plan, ask->device);
  return &plan->base;
}

extern const falt_solver falt_solver_direct_nhwc;
const falt_solver falt_solver_direct_nhwc = {.name = "direct-nhwc", .device_kind = "cpu", .plan = plan_channels};
