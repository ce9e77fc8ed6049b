/* Solver wgrad-rows: weight gradients of dense NHWC layers by GEMM on operands in place, stored directly to dw.
 *
 *     dw[k, j, c] = sum over positions p of  dy[p, k] * x[p*stride + j*dilation - pad, c],    db[k] = sum of dy[p, k]
 *
 * K. Goto and R. van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008. */
#include "core/memory.h"
#include "solver/cpu/common/layer_inside.h"
#include "solver/cpu/common/rows.h"

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

enum {
  MOST_CHUNK = 400,   /* positions */
  MOST_ROWS = 512,    /* of a task */
  FEW_ROWS = 48,      /* below, copying columns is not worth it */
  FEW_COLUMNS = 64,   /* the same for rows */
  SHORT_LINE = 12,    /* positions: beginning a line takes as long as one or two of them */
  MOST_LINES = 32,    /* of a chunk */
  LINE = 16,          /* elements */
  NEAR_COLUMNS = 384, /* elements between positions that are read in place: */
  NEAR_ROWS = 512     /* elements further apart share sets of the L1 cache */
};

typedef struct rows_plan {
  falt_plan base;
  falt_layer layer;          /* the forward one */
  bool x_there, y_there;     /* read in place */
  int64_t width, block;      /* columns of a panel, and rows of a block of registers */
  int64_t pitch;             /* of the copy of dy: an odd number of lines */
  bool skips;                /* what taps read outside is left out */
  bool by_lines;             /* chunks are lines of a plane, or spans of one */
  falt_layer_pieces lines;   /* of a plane; a chunk's */
  falt_layer_pieces spans;   /* of a line's positions; a chunk's */
  falt_layer_pieces chunks;  /* of positions, unless by lines */
  falt_layer_pieces rows;    /* of a group's output channels; a task's */
  int64_t panels;            /* of a tap */
  falt_layer_pieces columns; /* of the panels of all taps; a task's */
  int64_t x_step, x_line;    /* elements from position to position, and from line to line if x is read in place */
  int64_t y_step;            /* from position to position */
  size_t at_rows, at_panels;
  falt_memory_layout scratch;
} rows_plan;

typedef struct execution {
  const rows_plan *plan;
  const falt_operands *operands;
} execution;

/* Positions of a chunk that a tap reads inside: [begin, begin + count) of some of its lines. */
typedef struct reach {
  int64_t line, lines, begin, count;
} reach;

/* A panel of columns: some input channels at a tap, and their elements in the chunk. */
typedef struct panel {
  int64_t t, r, s, channel, count;
  int64_t out; /* element of the gradient, in the task's first row */
  reach in;
  const float *x;
} panel;

typedef struct task {
  const rows_plan *plan;
  const falt_layer *layer;
  const falt_operands *operands;
  int64_t group;
  int64_t row, rows;           /* output channels */
  int64_t first_panel, count;  /* columns */
  int64_t first, lines, width; /* the chunk: its first position, its lines and their length; one line, unless by lines
                                */
  falt_layer_point at;         /* of the first position */
  panel *panels;
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

static bool row_lies_inside(const task *t, const falt_layer_point *at, const panel *c) {
  return falt_layer_source(t->layer, 0, at->at[0], c->t) >= 0 && falt_layer_source(t->layer, 1, at->at[1], c->r) >= 0;
}

/* Positions in order, without the rows at both ends that are outside. */
static reach reach_in_order(const task *t, const panel *c) {
  reach in = {0, 1, 0, t->width};
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

static reach reach_of(const task *t, const panel *c) {
  reach in = {0, t->lines, 0, t->width};
  if (!t->plan->skips) return in;
  if (!t->plan->by_lines) return reach_in_order(t, c);
  if (falt_layer_source(t->layer, 0, t->at.at[0], c->t) < 0) return (reach){0};
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
static void copy_columns(const task *t, const panel *c, int64_t first, int64_t count, float *to) {
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

static void copy_panel(const task *t, const panel *c, float *to) {
  for (int64_t i = 0; i < c->in.lines; i++, to += c->in.count * t->plan->width)
    copy_columns(t, c, t->first + (c->in.line + i) * t->width + c->in.begin, c->in.count, to);
}

/* The address of the first inside pixel of a tap. */
static const float *pixel_of(const task *t, const panel *c) {
  const int64_t *o = t->at.at, d = falt_layer_source(t->layer, 0, o[0], c->t),
                h = falt_layer_source(t->layer, 1, o[1] + c->in.line, c->r),
                w = falt_layer_source(t->layer, 2, o[2] + c->in.begin, c->s);
  return (const float *)t->operands->input + falt_tensor_at(&t->layer->p.input, t->at.n, t->group, c->channel, d, h, w);
}

static panel panel_at(const task *t, int64_t index) {
  const rows_plan *plan = t->plan;
  const int64_t *taps = plan->layer.p.filter.size, tap = index / plan->panels, rest = tap / taps[FALT_W];
  panel c = {.t = rest / taps[FALT_H], .r = rest % taps[FALT_H], .s = tap % taps[FALT_W]};
  c.channel = index % plan->panels * plan->width;
  c.count = falt_min(plan->width, plan->layer.channels - c.channel);
  c.out = falt_tensor_at(&plan->layer.p.filter, t->row, t->group, c.channel, c.t, c.r, c.s);
  c.in = reach_of(t, &c);
  if (c.in.lines <= 0 || c.in.count <= 0) c.in = (reach){0};
  return c;
}

static void bring_panels(task *t) {
  float *to = t->x_copy;
  for (int64_t i = 0; i < t->count; i++) {
    panel *c = &t->panels[i];
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
static void list_rows(const task *t, const reach *in, int64_t row, int64_t rows, const void **list) {
  for (int64_t i = 0; i < in->lines; i++)
    for (int64_t m = 0; m < rows; m++)
      list[i * rows + m] = t->y + ((in->line + i) * t->width + in->begin) * t->plan->y_step + row + m;
}

static bool are_equal(const reach *a, const reach *b) {
  return a->line == b->line && a->lines == b->lines && a->begin == b->begin && a->count == b->count;
}

/* Rows [row, row + rows) of the task by all its columns. */
static void add_rows(const task *t, int64_t row, int64_t rows) {
  const rows_plan *plan = t->plan;
  const falt_layer_kernels *kernels = t->layer->kernels;
  const int64_t down = t->layer->p.filter.stride[FALT_K];
  const void *a[MOST_LINES * FALT_LAYER_ROWS];
  falt_layer_jump jumps[MOST_LINES] = {{0, 0}};
  void *out[FALT_LAYER_ROWS];
  for (int64_t i = 0; i < t->count; i++) {
    const panel *c = &t->panels[i];
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

static int64_t chunk_count(const rows_plan *plan) {
  const int64_t *size = plan->layer.p.output.size;
  return plan->by_lines ? size[FALT_N] * size[FALT_D] * plan->lines.count * plan->spans.count : plan->chunks.count;
}

static void set_chunk(task *t, int64_t i) {
  const rows_plan *plan = t->plan;
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
  const rows_plan *plan = run->plan;
  const int64_t columns = index % plan->columns.count, rest = index / plan->columns.count;
  const int64_t rows = rest % plan->rows.count, chunks = chunk_count(plan);
  task t = {.plan = plan, .layer = &plan->layer, .operands = run->operands, .group = rest / plan->rows.count};
  t.row = falt_layer_piece(&plan->rows, rows);
  t.rows = falt_layer_piece(&plan->rows, rows + 1) - t.row;
  t.first_panel = falt_layer_piece(&plan->columns, columns);
  t.count = falt_layer_piece(&plan->columns, columns + 1) - t.first_panel;
  t.x_copy = scratch;
  t.y_copy = (float *)(void *)((char *)scratch + plan->at_rows);
  t.panels = (panel *)(void *)((char *)scratch + plan->at_panels);
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

static void execute(const falt_plan *base, const falt_operands *operands) {
  const rows_plan *plan = (const rows_plan *)base;
  execution run = {plan, operands};
  const falt_row_job job = {run_task, &run, plan->layer.p.filter.size[FALT_G] * plan->rows.count * plan->columns.count,
                            plan->scratch.total};
  falt_rows_run(base->device, &job, operands->workspace);
}

static int64_t most_positions(const rows_plan *plan) {
  return plan->by_lines ? falt_layer_most(&plan->lines) * falt_layer_most(&plan->spans)
                        : falt_layer_most(&plan->chunks);
}

static void print(const falt_plan *base, falt_text *text) {
  const rows_plan *plan = (const rows_plan *)base;
  falt_text_add(text, "(wgrad-rows %s %lldx%lld%s chunk=%lld tasks=%lldx%lld threads=%d)",
                falt_isa_name(base->device->isa), (long long)plan->block, (long long)plan->width,
                plan->x_there ? " there" : "", (long long)most_positions(plan), (long long)plan->rows.count,
                (long long)plan->columns.count, falt_threads_count(base->device->threads));
}

/* ---- applicable, in addition to the conditions of all layers */

/* Whether nothing is read outside along an axis, or zeros that may be left out. */
static bool reads_inside(const falt_problem *p, int axis) {
  const falt_axis *a = &p->axis[axis];
  const int dim = FALT_D + axis;
  int64_t begin, end;
  falt_axis_interior(a, p->input.size[dim], p->filter.size[dim], p->output.size[dim], &begin, &end);
  return (begin == 0 && end == p->output.size[dim]) ||
         (p->boundary_value == 0 && a->boundary[0] == FALT_CONSTANT && a->boundary[1] == FALT_CONSTANT);
}

static const char *refusal(const falt_layer *layer) {
  const falt_problem *p = &layer->p;
  return !falt_tensor_unit(&p->input, FALT_C) || !falt_tensor_unit(&p->output, FALT_C) ||
                 !falt_tensor_unit(&p->filter, FALT_C)
             ? "channels are not adjacent"
             : NULL;
}

/* ---- estimate */

/* Multiply-adds that take as long as copying an element, for each task that copies it; steps of the depth that take as
 * long as beginning and storing a block of sums. */
static const double near = 5, leaving = 12;

static double estimate(const rows_plan *plan, const falt_device *device) {
  const falt_layer *layer = &plan->layer;
  const double lanes = (double)falt_round_up(layer->channels, layer->kernels->width) / (double)layer->channels;
  const int64_t tasks = layer->p.filter.size[FALT_G] * plan->rows.count * plan->columns.count;
  const double idle = falt_load_imbalance(device, tasks);
  const double copies =
      near * ((plan->y_there ? 0 : (double)plan->columns.count / (double)(layer->taps * layer->channels)) +
              (plan->x_there ? 0 : (double)plan->rows.count / (double)layer->results));
  const double line = plan->by_lines ? 1 / (double)falt_layer_most(&plan->spans) : 0;
  const double inside = plan->by_lines && plan->skips ? falt_inside_share(layer) : 1;
  const double stretch = lanes * inside * (1 + leaving / (double)most_positions(plan) + line) + copies;
  return falt_roofline(device, FALT_F32, falt_problem_flops(&plan->base.problem) * stretch * idle,
                       falt_layer_share(plan->width / layer->kernels->width), falt_problem_bytes(&plan->base.problem));
}

/* ---- plan */

/* Whether an operand's pixels are in a cache. */
static bool stays(const rows_plan *plan, const falt_tensor *t) {
  const int64_t cached = 4 * (int64_t)plan->base.device->caches.l2 / (int64_t)sizeof(float);
  return plan->layer.positions <= cached / falt_max(1, t->stride[FALT_W]);
}

/* Several taps read x, from the second-level cache after the first: it is not copied for each of them. One tap's copy
 * is worth it where pixels are apart and come from memory. Kernels read rows of dy in place only at a positive step. */
static void set_places(rows_plan *plan) {
  const falt_layer *layer = &plan->layer;
  const falt_problem *p = &layer->p;
  const int64_t y_step = p->output.stride[FALT_W];
  plan->skips = p->boundary_value == 0;
  plan->by_lines = p->output.size[FALT_W] >= SHORT_LINE;
  plan->x_there =
      plan->by_lines && reads_inside(p, 0) && reads_inside(p, 1) && reads_inside(p, 2) &&
      layer->channels % layer->kernels->width == 0 &&
      (layer->taps > 1 || p->axis[2].stride * p->input.stride[FALT_W] <= NEAR_COLUMNS || stays(plan, &p->input));
  plan->y_there = layer->together == layer->positions && y_step > 0 && y_step <= NEAR_ROWS && stays(plan, &p->output);
}

/* Approximate positions of a chunk. */
static void set_chunks(rows_plan *plan, int64_t fits) {
  const int64_t height = plan->layer.p.output.size[FALT_H], width = plan->layer.p.output.size[FALT_W];
  const int64_t lines = falt_max(1, falt_min((fits + width / 2) / width, MOST_LINES));
  plan->chunks = falt_layer_cut(plan->layer.positions, falt_ceil_div(plan->layer.positions, fits));
  plan->lines = falt_layer_cut(height, falt_ceil_div(height, lines));
  plan->spans = falt_layer_cut(width, lines > 1 || 2 * width < 3 * fits ? 1 : falt_ceil_div(width, fits));
}

/* Blocks of dw, enough for the threads and large enough to pay for copying their rows and columns; chunks whose columns
 * fit into the L2 cache. */
static void set_tasks(rows_plan *plan) {
  const falt_layer *layer = &plan->layer;
  const int64_t threads = falt_threads_count(plan->base.device->threads), groups = layer->p.filter.size[FALT_G];
  const int64_t wanted = threads == 1 ? 1 : falt_ceil_div(2 * threads, groups), vector = layer->kernels->width;
  const int64_t vectors = falt_ceil_div(layer->channels, vector);
  plan->width = falt_ceil_div(vectors, falt_ceil_div(vectors, layer->kernels->vectors)) * vector;
  plan->block = layer->kernels->rows[plan->width / vector];
  plan->panels = falt_ceil_div(layer->channels, plan->width);
  const int64_t panels = layer->taps * plan->panels, bytes = plan->width * (int64_t)sizeof(float);
  const int64_t room = (int64_t)plan->base.device->caches.l2 / 2 / bytes;           /* positions of one panel */
  const int64_t large = falt_max(1, room / falt_min(MOST_CHUNK, layer->positions)); /* panels */
  const int64_t few = falt_min(wanted, falt_ceil_div(layer->results, plan->x_there ? 2 * plan->block : FEW_ROWS));
  const int64_t even = few > threads ? few / threads * threads : few;
  const int64_t rows = falt_max(falt_ceil_div(layer->results, MOST_ROWS), even);
  const int64_t pay = falt_ceil_div(panels * plan->width, FEW_COLUMNS);
  const bool shared = plan->x_there && layer->taps > 1; /* by the taps */
  const int64_t fit = shared ? 1 : falt_ceil_div(panels, large);
  const int64_t columns = falt_max(fit, falt_min(falt_ceil_div(wanted, rows), pay));
  plan->rows = falt_layer_cut(layer->results, rows);
  plan->columns = falt_layer_cut(panels, falt_min(panels, columns));
  const int64_t held = shared ? plan->panels : falt_layer_most(&plan->columns); /* panels */
  set_chunks(plan, falt_max(1, falt_min(MOST_CHUNK, room / held)));
}

static void lay_memory(rows_plan *plan) {
  const size_t chunk = (size_t)most_positions(plan);
  const size_t columns = (size_t)(falt_layer_most(&plan->columns) * plan->width);
  plan->pitch = (falt_ceil_div(falt_layer_most(&plan->rows), LINE) | 1) * LINE;
  falt_place_part(&plan->scratch, plan->x_there ? 0 : chunk * columns * sizeof(float));
  plan->at_rows = falt_place_part(&plan->scratch, plan->y_there ? 0 : chunk * (size_t)plan->pitch * sizeof(float));
  plan->at_panels = falt_place_part(&plan->scratch, (size_t)falt_layer_most(&plan->columns) * sizeof(panel));
  const falt_problem *p = &plan->layer.p;
  plan->x_step = plan->x_there ? p->axis[2].stride * p->input.stride[FALT_W] : plan->width;
  plan->x_line = p->axis[1].stride * p->input.stride[FALT_H];
  plan->y_step = plan->y_there ? p->output.stride[FALT_W] : plan->pitch;
  falt_rows_place(&plan->base.layout, plan->base.device, &plan->scratch);
  plan->base.workspace = plan->base.layout.total;
}

static const char *choose(falt_plan *base, falt_ask *ask) {
  rows_plan *plan = (rows_plan *)base;
  const char *why = falt_layer_init_gradient(&plan->layer, ask->problem, ask->device->isa);
  if (!why) why = refusal(&plan->layer);
  if (why) return why;
  set_places(plan);
  set_tasks(plan);
  lay_memory(plan);
  base->cost.seconds = estimate(plan, ask->device);
  return NULL;
}

static const falt_plan_steps steps = {sizeof(rows_plan), {execute, print, falt_plan_free, NULL}, NULL, choose};

extern const falt_solver falt_solver_wgrad_rows;
const falt_solver falt_solver_wgrad_rows = {
    .name = "wgrad-rows", .device_kind = "cpu", .avx2 = 1.7, .plan = falt_plan_make, .steps = &steps};
