/* Executes wgrad-rows. */
#include "solver/cpu/common/layer_inside.h"
#include "solver/cpu/common/rows.h"
#include "solver/cpu/wgrad/wgrad_rows.h"

/* Rows are output channels, which are broadcast. Columns are (tap, input channel), along vectors. So rows of sums are
 * rows of dw, and register blocks are stored to their final place: nothing is transposed or buffered. A task owns a
 * block of dw and writes some of its rows at a time over all columns: with few positions the memory of dw is the
 * bottleneck, and each of its pages is visited once. Positions are processed in chunks whose operands stay in the L2
 * cache. Operands are read in place if positions are equally spaced by at most a page. Otherwise, and if they come from
 * memory, chunks are copied: x as panels of columns with its boundary.
 *
 * Chunks are lines of a plane, unless these are short. A tap reads inside the input at neighbouring positions of
 * neighbouring lines. If the constant is zero, only these are copied and multiplied, line by line. Then nothing is
 * outside, and x may be read in place. Other chunks are positions in order, across the ends of lines and planes; a tap
 * skips the outside positions at both ends.
 *
 * Each sum is a chain of multiply-adds for each chunk, in the order of positions: outputs do not depend on the number
 * of threads. */

typedef struct execution {
  const falt_wgrad_rows_plan *plan;
  const falt_operands *operands;
} execution;

typedef struct task {
  const falt_wgrad_rows_plan *plan;
  const falt_layer *layer;
  const falt_operands *operands;
  int64_t group;
  int64_t row, rows;           /* output channels */
  int64_t first_panel, count;  /* columns */
  int64_t first, lines, width; /* the chunk: its first position, its lines and their length; one line, unless by lines
                                */
  falt_layer_point at;         /* of the first position */
  falt_wgrad_rows_panel *panels;
  const float *y; /* the chunk's rows */
  float *x_copy, *y_copy;
} task;

/* ---- what taps read inside */

/* Of `count` neighbours along an axis from output o on, the range from the first to the last whose tap j is inside. */
static void cut_axis(const task *t, int axis, int64_t o, int64_t count, int64_t j, int64_t *begin, int64_t *inside) {
  *begin = 0;
  while (*begin < count && falt_layer_source(t->layer, axis, o + *begin, j) < 0) ++*begin;
  while (*begin < count && falt_layer_source(t->layer, axis, o + count - 1, j) < 0) count--;
  *inside = count - *begin;
}

static bool row_lies_inside(const task *t, const falt_layer_point *at, const falt_wgrad_rows_panel *c) {
  return falt_layer_source(t->layer, 0, at->at[0], c->t) >= 0 && falt_layer_source(t->layer, 1, at->at[1], c->r) >= 0;
}

/* Positions in order, without the rows at both ends that are outside. */
static falt_wgrad_rows_reach reach_in_order(const task *t, const falt_wgrad_rows_panel *c) {
  falt_wgrad_rows_reach in = {0, 1, 0, t->width};
  for (int64_t run; in.count > 0; in.begin += run, in.count -= run) {
    const falt_layer_point at = falt_layer_point_at(t->layer, t->first + in.begin);
    if (row_lies_inside(t, &at, c)) break;
    run = falt_layer_run(t->layer, &at, in.count);
  }
  for (int64_t run; in.count > 0; in.count -= run) {
    const falt_layer_point at = falt_layer_point_at(t->layer, t->first + in.begin + in.count - 1);
    if (row_lies_inside(t, &at, c)) break;
    run = falt_min(in.count, at.at[2] + 1);
  }
  return in;
}

static falt_wgrad_rows_reach reach_of(const task *t, const falt_wgrad_rows_panel *c) {
  falt_wgrad_rows_reach in = {0, t->lines, 0, t->width};
  if (!t->plan->skips) return in;
  if (!t->plan->by_lines) return reach_in_order(t, c);
  if (falt_layer_source(t->layer, 0, t->at.at[0], c->t) < 0) return (falt_wgrad_rows_reach){0};
  cut_axis(t, 1, t->at.at[1], t->lines, c->r, &in.line, &in.lines);
  cut_axis(t, 2, t->at.at[2], t->width, c->s, &in.begin, &in.count);
  return in;
}

/* ---- operands in */

/* n channels of pixels u, u + stride, ... of an input row, which may be outside it; row NULL: the constant. */
static void copy_pixels(const task *t, const float *row, int64_t u, int64_t count, int64_t n, float *to) {
  const falt_tensor *x = &t->layer->p.input;
  const falt_axis *axis = &t->layer->p.axis[2];
  const int64_t size = x->size[FALT_W], width = t->plan->width;
  for (int64_t run; count > 0; count -= run, to += run * width, u += run * axis->stride) {
    const bool inside = row && u >= 0 && u < size;
    const int64_t w = inside ? u : row ? falt_axis_map(axis, size, u) : -1;
    run = inside ? falt_min(count, (size - 1 - u) / axis->stride + 1) : 1;
    if (w >= 0)
      t->layer->kernels->copy(&(falt_layer_copy){.from = row + w * x->stride[FALT_W],
                                                 .step = 1,
                                                 .from_pitch = axis->stride * x->stride[FALT_W],
                                                 .to = to,
                                                 .to_pitch = width,
                                                 .n = n,
                                                 .count = run});
    else
      for (int64_t i = 0; i < n; i++) to[i] = (float)t->layer->p.boundary_value;
  }
}

/* What positions [first, first + count) read. */
static void copy_columns(const task *t, const falt_wgrad_rows_panel *c, int64_t first, int64_t count, float *to) {
  const falt_tensor *x = &t->layer->p.input;
  const falt_axis *axis = &t->layer->p.axis[2];
  falt_layer_point at = falt_layer_point_at(t->layer, first);
  for (int64_t run; count > 0; count -= run, to += run * t->plan->width) {
    const int64_t d = falt_layer_source(t->layer, 0, at.at[0], c->t),
                  h = falt_layer_source(t->layer, 1, at.at[1], c->r);
    const int64_t row = falt_tensor_at(x, at.n, t->group, c->channel, d, h, 0);
    run = falt_layer_run(t->layer, &at, count);
    copy_pixels(t, d < 0 || h < 0 ? NULL : (const float *)t->operands->input + row,
                at.at[2] * axis->stride + c->s * axis->dilation - axis->pad[0], run, c->count, to);
    falt_layer_advance(t->layer, &at, run);
  }
}

static void copy_panel(const task *t, const falt_wgrad_rows_panel *c, float *to) {
  for (int64_t i = 0; i < c->in.lines; i++, to += c->in.count * t->plan->width)
    copy_columns(t, c, t->first + (c->in.line + i) * t->width + c->in.begin, c->in.count, to);
}

/* The address of the first inside pixel of a tap. */
static const float *pixel_of(const task *t, const falt_wgrad_rows_panel *c) {
  const int64_t *o = t->at.at, d = falt_layer_source(t->layer, 0, o[0], c->t),
                h = falt_layer_source(t->layer, 1, o[1] + c->in.line, c->r),
                w = falt_layer_source(t->layer, 2, o[2] + c->in.begin, c->s);
  return (const float *)t->operands->input + falt_tensor_at(&t->layer->p.input, t->at.n, t->group, c->channel, d, h, w);
}

static falt_wgrad_rows_panel panel_at(const task *t, int64_t index) {
  const falt_wgrad_rows_plan *plan = t->plan;
  const int64_t *taps = plan->layer.p.filter.size, tap = index / plan->panels, rest = tap / taps[FALT_W];
  falt_wgrad_rows_panel c = {.t = rest / taps[FALT_H], .r = rest % taps[FALT_H], .s = tap % taps[FALT_W]};
  c.channel = index % plan->panels * plan->width;
  c.count = falt_min(plan->width, plan->layer.channels - c.channel);
  c.out = falt_tensor_at(&plan->layer.p.filter, t->row, t->group, c.channel, c.t, c.r, c.s);
  c.in = reach_of(t, &c);
  if (c.in.lines <= 0 || c.in.count <= 0) c.in = (falt_wgrad_rows_reach){0};
  return c;
}

static void bring_panels(task *t) {
  float *to = t->x_copy;
  for (int64_t i = 0; i < t->count; i++) {
    falt_wgrad_rows_panel *c = &t->panels[i];
    *c = panel_at(t, t->first_panel + i);
    c->x = to;
    if (c->in.lines == 0) continue;
    if (t->plan->x_there)
      c->x = pixel_of(t, c);
    else
      copy_panel(t, c, to);
    if (!t->plan->x_there) to += c->in.lines * c->in.count * t->plan->width;
  }
}

static void copy_rows(const task *t) {
  const falt_tensor *y = &t->layer->p.output;
  const int64_t positions = t->lines * t->width;
  falt_layer_point at = t->at;
  for (int64_t p = 0, count; p < positions; p += count) {
    count = falt_layer_run(t->layer, &at, positions - p);
    const int64_t from = falt_tensor_at(y, at.n, t->group, t->row, at.at[0], at.at[1], at.at[2]);
    t->layer->kernels->copy(&(falt_layer_copy){.from = (const float *)t->operands->output + from,
                                               .step = 1,
                                               .from_pitch = y->stride[FALT_W],
                                               .to = t->y_copy + p * t->plan->pitch,
                                               .to_pitch = t->plan->pitch,
                                               .n = t->rows,
                                               .count = count});
    falt_layer_advance(t->layer, &at, count);
  }
}

static void bring(task *t) {
  const falt_tensor *y = &t->layer->p.output;
  bring_panels(t);
  t->y = t->y_copy;
  if (t->plan->y_there)
    t->y = (const float *)t->operands->output +
           falt_tensor_at(y, t->at.n, t->group, t->row, t->at.at[0], t->at.at[1], t->at.at[2]);
  else
    copy_rows(t);
}

/* ---- sums */

/* Where rows [row, row + rows) of dy begin, line by line. */
static void list_rows(const task *t, const falt_wgrad_rows_reach *in, int64_t row, int64_t rows, const void **list) {
  for (int64_t i = 0; i < in->lines; i++)
    for (int64_t m = 0; m < rows; m++)
      list[i * rows + m] = t->y + ((in->line + i) * t->width + in->begin) * t->plan->y_step + row + m;
}

static bool are_equal(const falt_wgrad_rows_reach *a, const falt_wgrad_rows_reach *b) {
  return a->line == b->line && a->lines == b->lines && a->begin == b->begin && a->count == b->count;
}

/* Rows [row, row + rows) of the task by all its columns. */
static void add_rows(const task *t, int64_t row, int64_t rows) {
  const falt_wgrad_rows_plan *plan = t->plan;
  const falt_layer_kernels *kernels = t->layer->kernels;
  const int64_t down = t->layer->p.filter.stride[FALT_K];
  const void *a[FALT_WGRAD_ROWS_LINES * FALT_LAYER_ROWS];
  falt_layer_jump jumps[FALT_WGRAD_ROWS_LINES] = {{0, 0}};
  void *out[FALT_LAYER_ROWS];
  for (int64_t i = 0; i < t->count; i++) {
    const falt_wgrad_rows_panel *c = &t->panels[i];
    if (c->in.lines == 0 && t->first > 0) continue;
    if (i == 0 || !are_equal(&c->in, &c[-1].in)) {
      list_rows(t, &c->in, row, rows, a);
      for (int64_t l = 1; l < c->in.lines; l++) jumps[l].b = plan->x_line - c->in.count * plan->x_step;
    }
    for (int64_t m = 0; m < rows; m++) out[m] = (float *)t->operands->filter + c->out + (row + m) * down;
    kernels->product(&(falt_layer_product){.a = a,
                                           .a_pitch = rows,
                                           .b = c->x,
                                           .out = out,
                                           .segments = c->in.lines,
                                           .depth = c->in.count,
                                           .n = c->count,
                                           .skip = plan->y_step - 1,
                                           .b_skip = plan->x_step - falt_round_up(c->count, kernels->width),
                                           .jumps = plan->x_there ? jumps : NULL,
                                           .rows = (int)rows,
                                           .accumulate = t->first > 0});
  }
}

static void add_bias(const task *t) {
  float *bias = (float *)t->operands->bias + t->group * t->layer->results + t->row;
  for (int64_t k = 0; k < t->rows; k += FALT_LAYER_WIDEST) {
    const int64_t n = falt_min(FALT_LAYER_WIDEST, t->rows - k);
    float sum[FALT_LAYER_WIDEST] = {0};
    for (int64_t p = 0; p < t->lines * t->width; p++)
      for (int64_t i = 0; i < n; i++) sum[i] += t->y[p * t->plan->y_step + k + i];
    for (int64_t i = 0; i < n; i++) bias[k + i] = (t->first > 0 ? bias[k + i] : 0) + sum[i];
  }
}

static int64_t chunk_count(const falt_wgrad_rows_plan *plan) {
  const int64_t *size = plan->layer.p.output.size;
  return plan->by_lines ? size[FALT_N] * size[FALT_D] * plan->lines.count * plan->spans.count : plan->chunks.count;
}

static void set_chunk(task *t, int64_t i) {
  const falt_wgrad_rows_plan *plan = t->plan;
  const int64_t *size = plan->layer.p.output.size;
  if (plan->by_lines) {
    const int64_t span = i % plan->spans.count, band = i / plan->spans.count, plane = band / plan->lines.count;
    const int64_t line = falt_layer_piece(&plan->lines, band % plan->lines.count);
    const int64_t along = falt_layer_piece(&plan->spans, span);
    t->first = (plane * size[FALT_H] + line) * size[FALT_W] + along;
    t->lines = falt_layer_piece(&plan->lines, band % plan->lines.count + 1) - line;
    t->width = falt_layer_piece(&plan->spans, span + 1) - along;
  } else {
    t->first = falt_layer_piece(&plan->chunks, i);
    t->lines = 1;
    t->width = falt_layer_piece(&plan->chunks, i + 1) - t->first;
  }
  t->at = falt_layer_point_at(t->layer, t->first);
}

static void run_task(void *context, int64_t index, void *scratch) {
  const execution *run = context;
  const falt_wgrad_rows_plan *plan = run->plan;
  const int64_t columns = index % plan->columns.count, rest = index / plan->columns.count;
  const int64_t rows = rest % plan->rows.count, chunks = chunk_count(plan);
  task t = {.plan = plan, .layer = &plan->layer, .operands = run->operands, .group = rest / plan->rows.count};
  t.row = falt_layer_piece(&plan->rows, rows);
  t.rows = falt_layer_piece(&plan->rows, rows + 1) - t.row;
  t.first_panel = falt_layer_piece(&plan->columns, columns);
  t.count = falt_layer_piece(&plan->columns, columns + 1) - t.first_panel;
  t.x_copy = scratch;
  t.y_copy = (float *)(void *)((char *)scratch + plan->at_rows);
  t.panels = (falt_wgrad_rows_panel *)(void *)((char *)scratch + plan->at_panels);
  const falt_layer_pieces blocks = falt_layer_cut(t.rows, falt_ceil_div(t.rows, plan->block));
  for (int64_t i = 0; i < chunks && !falt_cancelled(); i++) {
    set_chunk(&t, i);
    bring(&t);
    if (columns == 0 && plan->base.problem.has_bias) add_bias(&t);
    for (int64_t block = 0; block < blocks.count && !falt_cancelled(); block++) {
      const int64_t row = falt_layer_piece(&blocks, block);
      add_rows(&t, row, falt_layer_piece(&blocks, block + 1) - row);
    }
  }
}

void falt_wgrad_rows_execute(const falt_plan *base, const falt_operands *operands) {
  const falt_wgrad_rows_plan *plan = (const falt_wgrad_rows_plan *)base;
  execution run = {plan, operands};
  const falt_row_job job = {run_task, &run, plan->layer.p.filter.size[FALT_G] * plan->rows.count * plan->columns.count,
                            plan->scratch.total};
  falt_rows_run(base->device, &job, operands->workspace);
}
