/* Solver igemm-nchw: fprop of dense NCHW layers as implicit GEMM, with vectors along positions.
 *
 *     y[k, p] = sum over channels c and taps j of  w[k, c, j] * x[c, p*stride + j*dilation - pad]
 */
#include "solver/cpu/fprop/igemm_nchw.h"

#include "core/memory.h"
#include "solver/cpu/common/rows.h"

/* The transpose of direct-nhwc on the same kernel: rows are the filter's output channels, and the panel is the input.
 * Rows are read in place if the filter is dense, or if it has one tap and rows are adjacent, as for backward-data:
 * then the elements of a row are a stride apart, and a cache line has one element of 16 rows. A panel holds, for
 * up to 4 vectors of positions, one row of columns for each (c, j): the operand as im2col writes it, but only as much
 * as a cache holds. Positions are numbered over all rows and images, so panels are full also if rows are short, and
 * boundaries cost nothing after packing. Packing a panel takes one copy for each element, shared by all output
 * channels. If the depth is too long for the cache, it is cut into spans of channels, and the accumulators wait in the
 * scratch. */

static const int64_t MOST_TAPS = 1 << 16;
enum {
  PACKED_ROWS = 24, /* of one call; a multiple of most kernels' rows */
  LINE = FALT_IGEMM_NCHW_LINE,
  WAY = 1 << 17 /* bytes of one way of a second-level cache */
};

/* Whether rows in memory have the packed layout. */
static bool is_dense(const falt_tensor *w) {
  static const int outwards[] = {FALT_W, FALT_H, FALT_D, FALT_C};
  int64_t stride = 1;
  for (int i = 0; i < 4; i++) {
    if (w->size[outwards[i]] > 1 && w->stride[outwards[i]] != stride) return false;
    stride *= w->size[outwards[i]];
  }
  return true;
}

/* Whether the lines of a strip of rows, a stride apart, stay in so many bytes of the second-level cache: where the
 * stride is a multiple of a power of two, they share so many fewer of its sets. */
bool falt_igemm_nchw_lines_stay(const falt_layer *layer, int64_t bytes_apart, size_t room) {
  const int64_t apart = falt_min(bytes_apart & -bytes_apart, WAY), line = LINE * (int64_t)sizeof(float);
  return layer->channels * falt_max(apart, line) <= (int64_t)room;
}

/* The stride of the elements of a filter row if kernels read rows in place; 0 if the filter is packed first. With a
 * single panel each cache line is read by a few consecutive calls only. */
static int64_t place_step(const falt_layer *layer, const falt_device *device) {
  const falt_tensor *w = &layer->p.filter;
  const int64_t step = w->stride[FALT_C];
  const bool adjacent = layer->taps == 1 && w->stride[FALT_K] == 1 && step > 0;
  const bool once = layer->positions <= layer->kernels->vectors * layer->kernels->width;
  const bool pays =
      adjacent && (once || falt_igemm_nchw_lines_stay(layer, step * (int64_t)sizeof(float), device->caches.l2 / 2));
  return is_dense(w) ? 1 : pays ? step : 0;
}

/* ---- execute */

typedef struct execution {
  const falt_igemm_nchw_plan *plan;
  const falt_operands *operands;
  const float *filter;                           /* element (g, k) begins a row */
  int64_t filter_row, filter_step, filter_group; /* strides: of rows, of a row's elements, of groups */
  const float *factors;
} execution;

/* Output channels [row, row + rows) of a panel's positions. */
typedef struct task {
  const execution *run;
  const falt_igemm_nchw_plan *plan;
  const falt_layer *layer;
  int64_t group, first, positions; /* of the panel */
  int64_t pitch;                   /* its columns: whole vectors */
  int64_t row, rows;
  int64_t channel, channels; /* the span that the panel holds */
  float *panel, *sums;
  const float *filter; /* its first row, unless rows are packed for each call */
  int64_t filter_row, filter_step;
  float *packed; /* rows that are packed just in time: [packed_row, packed_end) */
  int64_t packed_row, packed_end;
} task;

/* A row of positions and one tap of it: columns [0, count) at `to` in the panel's first row for that tap. */
typedef struct piece {
  const float *from; /* the input row in the span's first channel, or NULL: the constant */
  float *to;
  int64_t first, step, count; /* column i reads position first + i*step */
} piece;

static void copy_columns(const task *t, const piece *p, int64_t begin, int64_t end, int64_t position) {
  const falt_tensor *x = &t->layer->p.input;
  t->layer->kernels->copy(&(falt_layer_copy){.from = p->from + position * x->stride[FALT_W],
                                             .step = p->step * x->stride[FALT_W],
                                             .from_pitch = x->stride[FALT_C],
                                             .to = p->to + begin,
                                             .to_pitch = t->layer->taps * t->pitch,
                                             .n = end - begin,
                                             .count = t->channels});
}

static void fill_columns(const task *t, const piece *p, int64_t begin, int64_t end) {
  const float value = (float)t->layer->p.boundary_value;
  float *to = p->to;
  for (int64_t c = 0; c < t->channels; c++, to += t->layer->taps * t->pitch)
    for (int64_t i = begin; i < end; i++) to[i] = value;
}

/* Columns at the ends of the input's rows. */
static void bring_outside(const task *t, const piece *p, int64_t begin, int64_t end) {
  const falt_axis *axis = &t->layer->p.axis[2];
  const int64_t size = t->layer->p.input.size[FALT_W];
  for (int64_t i = begin; i < end; i++) {
    const int64_t position = falt_axis_map(axis, size, p->first + i * p->step);
    if (position < 0)
      fill_columns(t, p, i, i + 1);
    else
      copy_columns(t, p, i, i + 1, position);
  }
}

static void bring_piece(const task *t, const piece *p) {
  const int64_t size = t->layer->p.input.size[FALT_W];
  if (!p->from) {
    fill_columns(t, p, 0, p->count);
    return;
  }
  const int64_t begin = p->first >= 0 ? 0 : falt_min(p->count, falt_ceil_div(-p->first, p->step));
  const int64_t inside = p->first < size ? falt_ceil_div(size - p->first, p->step) : 0;
  const int64_t end = falt_max(begin, falt_min(p->count, inside));
  bring_outside(t, p, 0, begin);
  if (begin < end) copy_columns(t, p, begin, end, p->first + begin * p->step);
  bring_outside(t, p, end, p->count);
}

/* Packs all taps of positions in one output row to the panel's columns from `column` on. */
static void bring_row(const task *t, const falt_layer_point *at, int64_t column, int64_t count) {
  const falt_tensor *x = &t->layer->p.input, *w = &t->layer->p.filter;
  const falt_axis *axis = &t->layer->p.axis[2];
  const float *input = (const float *)t->run->operands->input + falt_tensor_at(x, at->n, t->group, t->channel, 0, 0, 0);
  const int64_t next = t->plan->backwards ? -t->pitch : t->pitch; /* to the panel's row of the next tap */
  piece p = {.to = t->panel + column, .step = axis->stride, .count = count};
  if (t->plan->backwards) p.to += (t->layer->taps - 1) * t->pitch;
  for (int64_t j = 0; j < w->size[FALT_D]; j++) {
    const int64_t d = falt_layer_source(t->layer, 0, at->at[0], j);
    for (int64_t r = 0; r < w->size[FALT_H]; r++) {
      const int64_t h = falt_layer_source(t->layer, 1, at->at[1], r);
      p.from = d < 0 || h < 0 ? NULL : input + d * x->stride[FALT_D] + h * x->stride[FALT_H];
      p.first = at->at[2] * axis->stride - axis->pad[0];
      for (int64_t s = 0; s < w->size[FALT_W]; s++, p.first += axis->dilation, p.to += next) bring_piece(t, &p);
    }
  }
}

/* The panel for the task's span of channels; columns beyond the positions are multiplied too, and thrown away. */
static void bring_panel(const task *t) {
  falt_layer_point at = falt_layer_point_at(t->layer, t->first);
  for (int64_t column = 0, count; column < t->positions; column += count) {
    count = falt_layer_run(t->layer, &at, t->positions - column);
    bring_row(t, &at, column, count);
    falt_layer_advance(t->layer, &at, count);
  }
  for (int64_t j = 0; j < t->channels * t->layer->taps; j++)
    for (int64_t i = t->positions; i < t->pitch; i++) t->panel[j * t->pitch + i] = 0;
}

/* ---- sums */

/* Lines of the filter to be packed next: the kernel prefetches an equal part of them in each of its calls. */
static void fetch_ahead(const task *t, int64_t row, falt_layer_product *call) {
  const falt_tensor *w = &t->layer->p.filter;
  const int64_t rows = falt_min(PACKED_ROWS, t->rows - t->packed_end), calls = PACKED_ROWS / t->plan->rows;
  if (rows <= 0 || w->stride[FALT_K] != t->layer->taps) return;
  const falt_igemm_nchw_part next = {t->group, t->row + t->packed_end, rows, t->channel, t->channels};
  const int64_t first = t->channels * falt_min((row - t->packed_row) / t->plan->rows, calls) / calls;
  call->ahead = falt_igemm_nchw_source(t->plan, t->run->operands->filter, &next) + first * w->stride[FALT_C];
  call->ahead_run = falt_ceil_div(rows * t->layer->taps, LINE);
  call->ahead_jump = w->stride[FALT_C] - call->ahead_run * LINE;
}

/* Sees to it that rows [row, row + rows) of the task are packed. */
static void pack_rows(task *t, int64_t row, int64_t rows) {
  if (row + rows <= t->packed_end) return;
  t->packed_row = row;
  t->packed_end = falt_min(t->rows, row + PACKED_ROWS / rows * rows);
  const falt_igemm_nchw_part part = {t->group, t->row + row, t->packed_end - row, t->channel, t->channels};
  falt_igemm_nchw_pack_part(t->plan, t->run->operands->filter, &part, t->packed, t->channels * t->layer->taps);
}

static void multiply(task *t, int64_t row, int rows, void *const *out) {
  const bool packs = t->plan->just_in_time;
  const int64_t depth = t->channels * t->layer->taps, pitch = packs ? depth : t->filter_row;
  const int64_t step = packs ? 1 : t->filter_step;
  const void *a[FALT_LAYER_ROWS];
  if (packs) pack_rows(t, row, rows);
  const float *first =
      packs ? t->packed + (row - t->packed_row) * pitch : t->filter + row * pitch + t->channel * t->layer->taps * step;
  for (int m = 0; m < rows; m++) a[m] = first + m * pitch;
  falt_layer_product call = {.a = a,
                             .b = t->panel,
                             .out = out,
                             .segments = 1,
                             .depth = depth,
                             .skip = step - 1,
                             .n = t->positions,
                             .rows = rows,
                             .accumulate = t->channel > 0};
  if (packs) fetch_ahead(t, row, &call);
  t->layer->kernels->product(&call);
}

/* Finished sums of `rows` output channels, to the output. */
static void store_rows(const task *t, int64_t row, int rows, float *sums) {
  falt_layer_store_rows(t->layer, t->run->operands,
                        &(falt_layer_rows){.sums = sums,
                                           .pitch = t->pitch,
                                           .first = t->first,
                                           .count = t->positions,
                                           .group = t->group,
                                           .channel = t->row + row,
                                           .rows = rows,
                                           .factors = t->run->factors});
}

/* Whether kernels may write sums directly to the output: without epilogue, and contiguous. */
static bool writes_results(const task *t) {
  return t->layer->plain && t->layer->p.output.stride[FALT_W] == 1 &&
         falt_layer_together(t->layer, t->first, t->positions) == t->positions;
}

static void run_rows(task *t, int64_t row, int rows, bool straight) {
  const bool first = t->channel == 0, last = t->channel + t->channels == t->layer->channels;
  const falt_layer_point at = falt_layer_point_at(t->layer, t->first);
  float *sums = t->sums + (first && last ? 0 : row * t->pitch);
  void *out[FALT_LAYER_ROWS];
  for (int m = 0; m < rows; m++)
    out[m] = straight
                 ? (float *)t->run->operands->output + falt_tensor_at(&t->layer->p.output, at.n, t->group,
                                                                      t->row + row + m, at.at[0], at.at[1], at.at[2])
                 : sums + m * t->pitch;
  multiply(t, row, rows, out);
  if (last && !straight) store_rows(t, row, rows, sums);
}

static void run_panel(task *t, int64_t panel) {
  const falt_layer_pieces *panels = &t->plan->panels;
  const int64_t width = t->layer->kernels->width;
  t->first = falt_layer_even(panels, panel) * width;
  t->pitch = falt_layer_even(panels, panel + 1) * width - t->first;
  t->positions = falt_min(t->pitch, t->layer->positions - t->first);
  const bool straight = writes_results(t);
  const int64_t most = t->layer->kernels->rows[t->pitch / width];
  const falt_layer_pieces calls = falt_layer_cut(t->rows, falt_ceil_div(t->rows, most));
  for (t->channel = 0; t->channel < t->layer->channels; t->channel += t->channels) {
    t->channels = falt_min(t->plan->span, t->layer->channels - t->channel);
    t->packed_end = 0;
    bring_panel(t);
    for (int64_t call = 0; call < calls.count && !falt_cancelled(); call++) {
      const int64_t row = falt_layer_piece(&calls, call);
      run_rows(t, row, (int)(falt_layer_piece(&calls, call + 1) - row), straight);
    }
  }
}

/* The rows of the task: where all tasks have them, or packed for this one alone. */
static void set_filter(task *t) {
  const execution *run = t->run;
  t->filter = run->filter + t->group * run->filter_group + t->row * run->filter_row;
  t->filter_row = run->filter_row;
  t->filter_step = run->filter_step;
  if (!t->plan->own_rows) return;
  falt_igemm_nchw_pack_rows(t->plan, run->operands->filter, t->group, t->row, t->rows, t->packed);
  t->filter = t->packed;
}

static void run_task(void *context, int64_t index, void *scratch) {
  const execution *run = context;
  const falt_igemm_nchw_plan *plan = run->plan;
  const int64_t band = index % plan->bands.count, rest = index / plan->bands.count;
  const int64_t chunk = rest % plan->chunks.count; /* neighbouring tasks multiply the same rows */
  task t = {.run = run, .plan = plan, .layer = &plan->layer, .group = rest / plan->chunks.count};
  t.row = falt_layer_piece(&plan->chunks, chunk);
  t.rows = falt_layer_piece(&plan->chunks, chunk + 1) - t.row;
  t.panel = (float *)(void *)((char *)scratch + plan->at.panel);
  t.sums = (float *)(void *)((char *)scratch + plan->at.sums);
  t.packed = (float *)(void *)((char *)scratch + plan->at.rows);
  set_filter(&t);
  for (int64_t i = falt_layer_piece(&plan->bands, band); i < falt_layer_piece(&plan->bands, band + 1); i++)
    run_panel(&t, i);
}

static void execute(const falt_plan *base, const falt_operands *operands) {
  const falt_igemm_nchw_plan *plan = (const falt_igemm_nchw_plan *)base;
  const falt_layer *layer = &plan->layer;
  const falt_tensor *w = &layer->p.filter;
  char *workspace = operands->workspace;
  float *factors = (float *)(void *)(workspace + plan->factors), *room = (float *)(void *)(workspace + plan->filter);
  const bool given = plan->step > 0 && !plan->packed;
  execution run = {.plan = plan, .operands = operands, .factors = factors};
  if (falt_igemm_nchw_packs_all(plan)) falt_igemm_nchw_pack(plan, operands->filter, room);
  run.filter = given ? (const float *)operands->filter + w->offset : plan->packed ? plan->packed : room;
  run.filter_row = given ? w->stride[FALT_K] : plan->depth;
  run.filter_step = given ? plan->step : 1;
  run.filter_group = given ? w->stride[FALT_G] : layer->results * plan->depth;
  falt_layer_factors(layer, operands, factors);
  const falt_row_job job = {run_task, &run, falt_igemm_nchw_tasks(plan), plan->at.parts.total};
  falt_rows_run(base->device, &job, workspace);
}

static void print(const falt_plan *base, falt_text *text) {
  const falt_igemm_nchw_plan *plan = (const falt_igemm_nchw_plan *)base;
  const int64_t columns = falt_layer_most(&plan->panels) * plan->layer.kernels->width;
  falt_text_add(text, "(igemm-nchw %s %lldx%lld%s span=%lld threads=%d)", falt_isa_name(base->device->isa),
                (long long)plan->rows, (long long)columns, plan->just_in_time || plan->own_rows ? " just-in-time" : "",
                (long long)plan->span, falt_threads_count(base->device->threads));
}

static void destroy(falt_plan *plan) {
  falt_free(((falt_igemm_nchw_plan *)plan)->packed);
  falt_free(plan);
}

/* ---- plan */

static void lay_memory(falt_igemm_nchw_plan *plan) {
  const falt_layer *layer = &plan->layer;
  const size_t columns = (size_t)(falt_layer_most(&plan->panels) * layer->kernels->width);
  const size_t channels = (size_t)layer->p.output.size[FALT_G] * (size_t)layer->results; /* of all groups */
  const size_t row = columns * (size_t)layer->taps * sizeof(float);
  /* Of the widest panel, whatever the threads: a span begins a chain of multiply-adds. */
  const size_t widest = (size_t)(layer->kernels->vectors * layer->kernels->width * layer->taps) * sizeof(float);
  plan->span = falt_max(1, falt_min(layer->channels, (int64_t)(plan->base.device->caches.l2 / 2 / widest)));
  const bool waits = plan->span < layer->channels;
  plan->at.panel = falt_place_part(&plan->at.parts, (size_t)plan->span * row);
  plan->at.sums = falt_place_part(
      &plan->at.parts, (size_t)(waits ? falt_layer_most(&plan->chunks) : FALT_LAYER_ROWS) * columns * sizeof(float));
  const size_t rows = plan->just_in_time ? (size_t)(PACKED_ROWS * plan->span * layer->taps)
                      : plan->own_rows   ? (size_t)(falt_layer_most(&plan->chunks) * plan->depth)
                                         : 0;
  plan->at.rows = falt_place_part(&plan->at.parts, rows * sizeof(float));
  falt_memory_layout *all = &plan->base.layout;
  falt_rows_place(all, plan->base.device, &plan->at.parts);
  plan->factors = falt_place_part(all, 2 * channels * sizeof(float));
  plan->filter =
      falt_place_part(all, falt_igemm_nchw_packs_all(plan) ? channels * (size_t)plan->depth * sizeof(float) : 0);
  plan->base.workspace = all->total;
}

/* Packs a filter that is known: only for the plan that was chosen. */
static falt_status ready(falt_plan *base) {
  falt_igemm_nchw_plan *plan = (falt_igemm_nchw_plan *)base;
  if (!plan->values) return FALT_OK;
  FALT_TRY(
      falt_layer_room(&plan->packed, (size_t)(plan->layer.p.output.size[FALT_G] * plan->layer.results * plan->depth)));
  falt_igemm_nchw_pack(plan, plan->values, plan->packed);
  plan->values = NULL;
  return FALT_OK;
}

static falt_plan *plan_igemm(const falt_solver *solver, falt_ask *ask) {
  static const falt_plan_table table = {execute, print, destroy, ready};
  falt_layer layer;
  const char *reason = falt_layer_init(&layer, ask->problem, ask->device->isa);
  if (reason) return falt_refuse(ask, "%s", reason);
  if (layer.taps > MOST_TAPS) return falt_refuse(ask, "a panel of all its taps does not fit into a cache");
  falt_igemm_nchw_plan *plan = falt_plan_new(sizeof *plan, &table, solver, ask);
  if (!plan) return NULL;
  plan->layer = layer;
  plan->depth = layer.channels * layer.taps;
  plan->step = place_step(&layer, ask->device);
  plan->tap_step = falt_tensor_tap_step(&layer.p.filter);
  plan->backwards = layer.taps > 1 && plan->tap_step == -1;
  plan->values = ask->filter_values;
  plan->base.packed = plan->values != NULL;
  falt_igemm_nchw_cut(plan);
  lay_memory(plan);
  return &plan->base;
}

extern const falt_solver falt_solver_igemm_nchw;
const falt_solver falt_solver_igemm_nchw = {
    .name = "igemm-nchw", .device_kind = "cpu", .avx2 = 1.2, .plan = plan_igemm};
