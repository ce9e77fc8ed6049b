/* Executes wgrad: a task owns a block of rows (tap, input channel) and a panel of columns (output channels), and sums
 * over the positions, chunk by chunk. The chunk's panel of dy is packed once and stays in a cache; between chunks the
 * accumulators are in the L2 cache. NHWC: a list has the address of each position's pixel for a tap. NCHW: the kernel
 * of forward layers reads x in place, or a copy of it at the ends of rows. */
#include <string.h>

#include "solver/cpu/common/rows.h"
#include "solver/cpu/wgrad/wgrad.h"

/* ---- the part of the gradient that a task owns */

typedef struct part {
  const falt_wgrad_plan *plan;
  const falt_layer *layer;
  int64_t index; /* of all parts */
  int64_t group;
  int64_t channel, channels, pitch; /* columns: output channels, and whole vectors of them */
  int64_t row, rows;
} part;

static part part_at(const falt_wgrad_plan *plan, int64_t index) {
  const int64_t block = index % plan->blocks.count, rest = index / plan->blocks.count;
  const int64_t panel = rest % plan->panels.count, width = plan->layer.kernels->width;
  part own = {.plan = plan, .layer = &plan->layer, .index = index, .group = rest / plan->panels.count};
  own.channel = falt_layer_piece(&plan->panels, panel) * width;
  own.pitch = falt_layer_piece(&plan->panels, panel + 1) * width - own.channel;
  own.channels = falt_min(own.pitch, plan->layer.results - own.channel);
  const int64_t first = falt_layer_piece(&plan->blocks, block), unit = falt_wgrad_unit(plan);
  own.row = first * unit;
  own.rows = (falt_layer_piece(&plan->blocks, block + 1) - first) * unit;
  return own;
}

/* ---- outputs out */

/* Input channels [c, c + count) of a tap. */
static void store_tap(const part *own, float *filter, int64_t tap, int64_t c, int64_t count, const float *sums) {
  const falt_tensor *w = &own->layer->p.filter;
  const int64_t s = tap % w->size[FALT_W], rest = tap / w->size[FALT_W];
  const int64_t r = rest % w->size[FALT_H], t = rest / w->size[FALT_H];
  const int64_t k_step = w->stride[FALT_K], c_step = w->stride[FALT_C];
  float *to = filter + falt_tensor_at(w, own->channel, own->group, c, t, r, s);
  if (c_step == 1) {
    own->plan->kernels->transpose(&(falt_transpose){
        .from = sums, .to = to, .from_pitch = own->pitch, .to_pitch = k_step, .n = count, .count = own->channels});
    return;
  }
  for (int64_t k = 0, n; k < own->channels; k += n) { /* a few rows of outputs at a time, as lines and pages are few */
    n = falt_min(8, own->channels - k);
    for (int64_t i = 0; i < count; i++)
      for (int64_t m = k; m < k + n; m++) to[m * k_step + i * c_step] = sums[i * own->pitch + m];
  }
}

/* All taps of the block's channels: runs of taps, for as many output channels as a transpose takes. */
static void store_runs(const part *own, float *filter, const float *sums) {
  const falt_tensor *w = &own->layer->p.filter;
  const int64_t taps = own->layer->taps, channels = own->rows / taps, width = own->layer->kernels->width;
  const int64_t c_step = w->stride[FALT_C], k_step = w->stride[FALT_K];
  float *to = filter + falt_tensor_at(w, own->channel, own->group, own->row / taps, 0, 0, 0);
  for (int64_t k = 0; k < own->channels; k += width)
    for (int64_t c = 0; c < channels; c++)
      own->layer->kernels->copy(&(falt_layer_copy){.from = sums + c * own->pitch + k,
                                                   .step = channels * own->pitch,
                                                   .from_pitch = 1,
                                                   .to = to + k * k_step + c * c_step,
                                                   .to_pitch = k_step,
                                                   .n = taps,
                                                   .count = falt_min(width, own->channels - k)});
}

static void store(const part *own, const falt_operands *operands, const float *sums) {
  if (own->plan->by_channels) {
    store_runs(own, operands->filter, sums);
    return;
  }
  const int64_t weights = own->layer->taps * own->layer->channels, end = own->row + own->rows;
  for (int64_t row = own->row, count; row < end; row += count, sums += count * own->pitch) {
    const int64_t c = row % own->layer->channels;
    count = row < weights ? falt_min(own->layer->channels - c, falt_min(end, weights) - row) : 1;
    if (row < weights)
      store_tap(own, operands->filter, row / own->layer->channels, c, count, sums);
    else
      memcpy((float *)operands->bias + own->group * own->layer->results + own->channel, sums,
             (size_t)own->channels * sizeof *sums);
  }
}

/* ---- execute */

typedef struct execution {
  const falt_wgrad_plan *plan;
  const falt_operands *operands;
  float *partial;
} execution;

typedef struct task {
  part own;
  const float *input, *output; /* the output of the group's first channel of the part */
  int64_t first, count;        /* positions of the chunk */
  int64_t ahead, end;          /* positions sent for, and the end of the slice */
  bool accumulate;             /* an earlier chunk left sums */
  float *panel, *rows, *constant, *ones, *sums;
  const float **list;
} task;

/* The chunk's output gradients, a row of columns for each position. Columns beyond the channels stay zero. */
static void bring_panel(const task *t) {
  const part *own = &t->own;
  const falt_tensor *y = &own->layer->p.output;
  const int64_t along = y->stride[FALT_W], across = y->stride[FALT_C];
  for (int64_t p = 0, count; p < t->count; p += count) {
    const falt_layer_point at = falt_layer_point_at(own->layer, t->first + p);
    const float *from = t->output + falt_tensor_at(y, at.n, own->group, own->channel, at.at[0], at.at[1], at.at[2]);
    float *to = t->panel + p * own->pitch;
    count = falt_layer_together(own->layer, t->first + p, t->count - p);
    if (along == 1 && !falt_tensor_unit(y, FALT_C))
      own->plan->kernels->transpose(&(falt_transpose){
          .from = from, .to = to, .from_pitch = across, .to_pitch = own->pitch, .n = own->channels, .count = count});
    else
      own->layer->kernels->copy(&(falt_layer_copy){.from = from,
                                                   .step = own->channels == 1 ? 1 : across,
                                                   .from_pitch = along,
                                                   .to = to,
                                                   .to_pitch = own->pitch,
                                                   .n = own->channels,
                                                   .count = count});
  }
}

/* Sends for as much of the next chunk's panel as `rows` of this one's sums leave time for, where channels are near. */
static void fetch_ahead(task *t, int64_t rows) {
  enum { LINE = 16 };
  const part *own = &t->own;
  const falt_tensor *y = &own->layer->p.output;
  if (t->ahead == t->end || !falt_tensor_unit(y, FALT_C)) return;
  const falt_layer_point at = falt_layer_point_at(own->layer, t->ahead);
  const float *from = t->output + falt_tensor_at(y, at.n, own->group, own->channel, at.at[0], at.at[1], at.at[2]);
  const int64_t share = falt_min(t->end - t->ahead, falt_ceil_div(own->plan->chunk * rows, own->rows));
  const int64_t count = falt_layer_together(own->layer, t->ahead, share);
  for (int64_t p = 0; p < count; p++, from += y->stride[FALT_W])
    for (int64_t k = 0; k < own->channels; k += LINE) __builtin_prefetch(from + k, 0, 2);
  t->ahead += count;
}

/* ---- rows: the input of a segment for the chunk's positions, in pieces of one output row */

typedef struct piece {
  int64_t at, count; /* positions of the chunk */
  const float *row;  /* of the input, in the group's first channel; NULL: the constant */
  int64_t u;         /* position i reads u + i*stride of it */
  bool inside;
} piece;

typedef struct segment {
  int64_t t, r, s;
} segment;

static segment segment_at(const falt_wgrad_plan *plan, int64_t index) {
  const falt_tensor *w = &plan->layer.p.filter;
  segment at = {.s = plan->folds ? 0 : index % w->size[FALT_W]};
  if (!plan->folds) index /= w->size[FALT_W];
  at.r = index % w->size[FALT_H];
  at.t = index / w->size[FALT_H];
  return at;
}

typedef void (*take_piece)(const task *t, const piece *p, int64_t first, int64_t rows);

/* Splits positions of one output row into those before, inside and after the input's row. */
static void cut_piece(const task *t, piece p, take_piece take, int64_t first, int64_t rows) {
  const falt_problem *q = &t->own.layer->p;
  const int64_t stride = q->axis[2].stride, taps = t->own.plan->folds ? q->filter.size[FALT_W] : 1;
  const int64_t room = q->input.size[FALT_W] - taps - p.u;
  const int64_t begin = p.u >= 0 ? 0 : falt_min(p.count, falt_ceil_div(-p.u, stride));
  const int64_t end = room < 0 ? begin : falt_max(begin, falt_min(p.count, room / stride + 1));
  const int64_t cuts[] = {0, p.row ? begin : p.count, p.row ? end : p.count, p.count};
  for (int i = 0; i < 3; i++)
    if (cuts[i] < cuts[i + 1])
      take(t,
           &(piece){.at = p.at + cuts[i],
                    .count = cuts[i + 1] - cuts[i],
                    .row = p.row,
                    .u = p.u + cuts[i] * stride,
                    .inside = i == 1},
           first, rows);
}

/* Rows [first, first + rows) of a segment. */
static void bring_segment(const task *t, int64_t index, take_piece take, int64_t first, int64_t rows) {
  const falt_layer *layer = t->own.layer;
  const falt_tensor *x = &layer->p.input;
  const falt_axis *axis = &layer->p.axis[2];
  const segment tap = segment_at(t->own.plan, index);
  falt_layer_point at = falt_layer_point_at(layer, t->first);
  for (int64_t p = 0, count; p < t->count; p += count) {
    const int64_t d = falt_layer_source(layer, 0, at.at[0], tap.t), h = falt_layer_source(layer, 1, at.at[1], tap.r);
    const int64_t row = at.n * x->stride[FALT_N] + d * x->stride[FALT_D] + h * x->stride[FALT_H];
    count = falt_layer_run(layer, &at, t->count - p);
    const int64_t u = at.at[2] * axis->stride + tap.s * axis->dilation - axis->pad[0];
    cut_piece(t, (piece){.at = p, .count = count, .row = d < 0 || h < 0 ? NULL : t->input + row, .u = u}, take, first,
              rows);
    falt_layer_advance(layer, &at, count);
  }
}

/* The element of the group's first channel at u of an input row, or NULL for the constant. */
static const float *element(const task *t, const float *row, int64_t u) {
  const falt_tensor *x = &t->own.layer->p.input;
  const int64_t w = row ? falt_axis_map(&t->own.layer->p.axis[2], x->size[FALT_W], u) : -1;
  return w < 0 ? NULL : row + w * x->stride[FALT_W];
}

/* Gathers pixels of a tap row at the input's ends. */
static const float *gather(const task *t, const piece *p, int64_t i) {
  const int64_t channels = t->own.layer->channels, u = p->u + i * t->own.layer->p.axis[2].stride;
  float *to = t->rows + (p->at + i) * t->own.plan->length;
  for (int64_t s = 0; s < t->own.layer->p.filter.size[FALT_W]; s++) {
    const float *from = element(t, p->row, u + s);
    memcpy(to + s * channels, from ? from : t->constant, (size_t)channels * sizeof *to);
  }
  return to;
}

/* Addresses of pixels; `first` and `rows` do not matter. */
static void list_piece(const task *t, const piece *p, int64_t first, int64_t rows) {
  const falt_problem *q = &t->own.layer->p;
  const int64_t stride = q->axis[2].stride, step = q->input.stride[FALT_W];
  const float **list = t->list + p->at;
  (void)first;
  (void)rows;
  for (int64_t i = 0; i < p->count; i++) {
    if (!p->row) {
      list[i] = t->constant;
    } else if (p->inside) {
      list[i] = p->row + (p->u + i * stride) * step;
    } else if (t->own.plan->folds) {
      list[i] = gather(t, p, i);
    } else {
      const float *from = element(t, p->row, p->u + i * stride);
      list[i] = from ? from : t->constant;
    }
  }
}

/* Copies of channels, a row of positions for each. */
static void copy_piece(const task *t, const piece *p, int64_t first, int64_t rows) {
  const falt_layer *layer = t->own.layer;
  const falt_tensor *x = &layer->p.input;
  const int64_t chunk = t->own.plan->chunk, stride = layer->p.axis[2].stride;
  falt_layer_copy copy = {.step = stride * x->stride[FALT_W],
                          .from_pitch = x->stride[FALT_C],
                          .to_pitch = chunk,
                          .n = p->inside ? p->count : 1,
                          .count = rows};
  for (int64_t i = 0; i < p->count; i += copy.n) {
    const float *from = element(t, p->row, p->u + i * stride);
    float *to = t->rows + p->at + i;
    for (int64_t j = 0; !from && j < rows; j++) to[j * chunk] = *t->constant;
    if (!from) continue;
    copy.to = to;
    copy.from = from + first * x->stride[FALT_C];
    layer->kernels->copy(&copy);
  }
}

/* ---- sums */

/* Rows whose element m is at list[p][first + m] for position p. */
static void add_listed(task *t, int64_t first, int64_t rows, float *sums) {
  const falt_wgrad_plan *plan = t->own.plan;
  const int vectors = (int)(t->own.pitch / plan->layer.kernels->width);
  const falt_layer_pieces calls = falt_layer_cut(rows, falt_ceil_div(rows, plan->kernels->rows[vectors]));
  for (int64_t i = 0; i < calls.count; i++) {
    const int64_t row = falt_layer_piece(&calls, i), end = falt_layer_piece(&calls, i + 1);
    fetch_ahead(t, end - row);
    plan->kernels->outer(&(falt_outer){.a = t->list,
                                       .first = first + row,
                                       .b = t->panel,
                                       .out = sums + row * t->own.pitch,
                                       .depth = t->count,
                                       .rows = (int)(end - row),
                                       .vectors = vectors,
                                       .accumulate = t->accumulate});
  }
}

/* Rows whose element p is at from[row*pitch + p*step]. */
static void add_apart(task *t, const float *from, int64_t pitch, int64_t step, int64_t rows, float *sums) {
  const falt_wgrad_plan *plan = t->own.plan;
  const falt_layer_kernels *kernels = plan->layer.kernels;
  const int64_t most = kernels->rows[t->own.pitch / kernels->width];
  const falt_layer_pieces calls = falt_layer_cut(rows, falt_ceil_div(rows, most));
  for (int64_t i = 0; i < calls.count; i++) {
    const int64_t row = falt_layer_piece(&calls, i), end = falt_layer_piece(&calls, i + 1);
    const void *a[FALT_LAYER_ROWS];
    void *out[FALT_LAYER_ROWS];
    for (int64_t m = row; m < end; m++) {
      a[m - row] = from + m * pitch;
      out[m - row] = sums + m * t->own.pitch;
    }
    fetch_ahead(t, end - row);
    kernels->product(&(falt_layer_product){.a = a,
                                           .b = t->panel,
                                           .out = out,
                                           .segments = 1,
                                           .depth = t->count,
                                           .n = t->own.pitch,
                                           .skip = step - 1,
                                           .rows = (int)(end - row),
                                           .accumulate = t->accumulate});
  }
}

static void add_bias(task *t, float *sums) {
  for (int64_t p = 0; p < t->count; p++) t->list[p] = t->ones;
  add_listed(t, 0, 1, sums);
}

/* The address at which a chunk of one output row starts to read channel 0, if it is inside and kernels can read it in
 * place, which requires a positive step; else NULL. */
static const float *inside_row(const task *t, int64_t index) {
  const falt_layer *layer = t->own.layer;
  const falt_tensor *x = &layer->p.input;
  const segment tap = segment_at(t->own.plan, index);
  const falt_layer_point at = falt_layer_point_at(layer, t->first);
  const int64_t d = falt_layer_source(layer, 0, at.at[0], tap.t), h = falt_layer_source(layer, 1, at.at[1], tap.r);
  const falt_axis *axis = &layer->p.axis[2];
  const int64_t u = at.at[2] * axis->stride + tap.s * axis->dilation - axis->pad[0];
  const bool inside = d >= 0 && h >= 0 && u >= 0 && u + (t->count - 1) * axis->stride < x->size[FALT_W];
  if (!inside || x->stride[FALT_W] <= 0 || falt_layer_run(layer, &at, t->count) < t->count) return NULL;
  return t->input + at.n * x->stride[FALT_N] + d * x->stride[FALT_D] + h * x->stride[FALT_H] + u * x->stride[FALT_W];
}

static void add_segment(task *t, int64_t index, int64_t first, int64_t rows, float *sums) {
  const falt_tensor *x = &t->own.layer->p.input;
  const int64_t stride = t->own.layer->p.axis[2].stride;
  if (t->own.plan->in_place) {
    bring_segment(t, index, list_piece, first, rows);
    add_listed(t, first, rows, sums);
    return;
  }
  const float *there = inside_row(t, index);
  if (there) {
    add_apart(t, there + first * x->stride[FALT_C], x->stride[FALT_C], stride * x->stride[FALT_W], rows, sums);
    return;
  }
  for (int64_t row = 0, count; row < rows; row += count) {
    count = falt_min(FALT_WGRAD_PACKED_ROWS, rows - row);
    bring_segment(t, index, copy_piece, first + row, count);
    add_apart(t, t->rows, t->own.plan->chunk, 1, count, sums + row * t->own.pitch);
  }
}

static void add_taps(task *t) {
  const int64_t taps = t->own.layer->taps, channels = t->own.rows / taps, first = t->own.row / taps;
  for (int64_t tap = 0; tap < taps && !falt_cancelled(); tap++)
    add_segment(t, tap, first, channels, t->sums + tap * channels * t->own.pitch);
}

static void add_chunk(task *t) {
  const falt_wgrad_plan *plan = t->own.plan;
  const int64_t end = t->own.row + t->own.rows;
  float *sums = t->sums;
  bring_panel(t);
  if (plan->by_channels) {
    add_taps(t);
    return;
  }
  for (int64_t row = t->own.row, count; row < end && !falt_cancelled(); row += count, sums += count * t->own.pitch) {
    const int64_t index = row / plan->length, first = row % plan->length;
    count = index < plan->segments ? falt_min(plan->length - first, end - row) : 1;
    if (index < plan->segments)
      add_segment(t, index, first, count, sums);
    else
      add_bias(t, sums);
  }
}

static void run_task(void *context, int64_t index, void *scratch) {
  const execution *run = context;
  const falt_wgrad_plan *plan = run->plan;
  char *memory = scratch;
  task t = {.own = part_at(plan, index / plan->slices.count)};
  const int64_t slice = index % plan->slices.count;
  t.end = falt_layer_piece(&plan->slices, slice + 1);
  t.input = (const float *)run->operands->input + falt_tensor_at(&plan->layer.p.input, 0, t.own.group, 0, 0, 0, 0);
  t.output = run->operands->output;
  t.panel = (float *)(void *)(memory + plan->at.panel);
  t.list = (const float **)(void *)(memory + plan->at.list);
  t.rows = (float *)(void *)(memory + plan->at.rows);
  t.constant = (float *)(void *)(memory + plan->at.constant);
  t.ones = (float *)(void *)(memory + plan->at.ones);
  t.sums =
      plan->slices.count > 1 ? run->partial + (size_t)index * plan->block : (float *)(void *)(memory + plan->at.sums);
  for (int64_t i = 0; i < plan->length; i++) t.constant[i] = (float)plan->layer.p.boundary_value;
  *t.ones = 1;
  if (t.own.channels < t.own.pitch) memset(t.panel, 0, (size_t)(plan->chunk * t.own.pitch) * sizeof *t.panel);
  for (t.first = falt_layer_piece(&plan->slices, slice); t.first < t.end && !falt_cancelled(); t.first += t.count) {
    t.count = falt_min(plan->chunk, t.end - t.first);
    t.ahead = t.first + t.count;
    add_chunk(&t);
    t.accumulate = true;
  }
  if (plan->slices.count == 1) store(&t.own, run->operands, t.sums);
}

/* Adds the slices of some rows of a part. */
static void join(void *context, int64_t index) {
  const execution *run = context;
  const falt_wgrad_plan *plan = run->plan;
  part own = part_at(plan, index / plan->joins);
  float *sums = run->partial + (size_t)(own.index * plan->slices.count) * plan->block;
  if (plan->joins > 1) {
    const falt_layer_pieces cut = falt_layer_cut(own.rows, plan->joins);
    const int64_t first = falt_layer_piece(&cut, index % plan->joins);
    own.rows = falt_layer_piece(&cut, index % plan->joins + 1) - first;
    own.row += first;
    sums += first * own.pitch;
  }
  for (int64_t slice = 1; slice < plan->slices.count; slice++) {
    const float *more = sums + (size_t)slice * plan->block;
    for (int64_t i = 0; i < own.rows * own.pitch; i++) sums[i] += more[i];
  }
  store(&own, run->operands, sums);
}

void falt_wgrad_execute(const falt_plan *base, const falt_operands *operands) {
  const falt_wgrad_plan *plan = (const falt_wgrad_plan *)base;
  execution run = {plan, operands, (float *)(void *)((char *)operands->workspace + plan->partial)};
  const falt_row_job job = {run_task, &run, falt_wgrad_parts(plan) * plan->slices.count, plan->at.parts.total};
  falt_rows_run(base->device, &job, operands->workspace);
  if (plan->slices.count > 1)
    falt_parallel_for(base->device->threads, falt_wgrad_parts(plan) * plan->joins, join, &run);
}
