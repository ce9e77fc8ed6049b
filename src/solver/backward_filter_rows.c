/* Gradients of dense layers' filters whose input channels are adjacent: products of matrices as they lie.
 *
 *     dw[k, j, c] = sum over positions p of  dy[p, k] * x[p*stride + j*dilation - pad, c],    db[k] = sum of dy[p, k]
 *
 * Rows are output channels, broadcast, and columns are (tap, input channel), along vectors. So rows of sums are rows of
 * the gradient, and blocks of registers are stored where they belong: nothing is turned, and no sum waits elsewhere. A
 * task owns a block of dw. Rows of dw are written one after the other, some at a time over all its columns: where
 * positions are few the memory of dw is what is waited for, and each of its pages is met once. Positions are taken in
 * chunks whose operands stay in the second-level cache. They are read in place where positions are evenly apart, not
 * further than a page; else, and where they come from memory, chunks are copied, x as panels of columns with what the
 * boundary puts there (K. Goto and R. van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008).
 *
 * Each sum is one chain of multiply-adds in the order of positions: results do not depend on the number of threads. */
#include "core/memory.h"
#include "solver/filter_rows.h"
#include "solver/layer.h"

enum {
  MOST_CHUNK = 400,   /* positions */
  MOST_ROWS = 512,    /* of a task */
  FEW_ROWS = 48,      /* below, copying columns is not worth it */
  FEW_COLUMNS = 64,   /* the same of rows */
  LINE = 16,          /* elements */
  NEAR_COLUMNS = 256, /* elements between positions that are read where they lie: */
  NEAR_ROWS = 512     /* what is further apart meets in the same sets of the first-level cache */
};

typedef struct rows_plan {
  falt_plan base;
  falt_layer layer;          /* the forward one */
  bool x_there, y_there;     /* read in place */
  int64_t width, block;      /* columns of a panel, and rows of a block of registers */
  int64_t pitch;             /* of the copy of dy: an odd number of lines */
  falt_layer_pieces chunks;  /* of positions */
  falt_layer_pieces rows;    /* of a group's output channels; a task's */
  int64_t panels;            /* of a tap */
  falt_layer_pieces columns; /* of the panels of all taps; a task's */
  size_t at_rows, scratch;
} rows_plan;

typedef struct execution {
  const rows_plan *plan;
  const falt_operands *operands;
} execution;

/* A chunk of an operand: elements from position to position, and from panel to panel. */
typedef struct chunk_part {
  const float *at;
  int64_t step, panel;
} chunk_part;

typedef struct task {
  const rows_plan *plan;
  const falt_layer *layer;
  const falt_operands *operands;
  int64_t group;
  int64_t row, rows;    /* output channels */
  int64_t panel, end;   /* columns */
  int64_t first, count; /* positions of the chunk */
  chunk_part x, y;
  float *panels, *copy;
} task;

/* ---- operands in */

/* Columns of a panel: a tap and some input channels. */
typedef struct panel_columns {
  int64_t t, r, s;
  int64_t channel, count;
} panel_columns;

static panel_columns columns_at(const rows_plan *plan, int64_t panel) {
  const int64_t *taps = plan->layer.p.filter.size, tap = panel / plan->panels, rest = tap / taps[FALT_W];
  panel_columns c = {rest / taps[FALT_H], rest % taps[FALT_H], tap % taps[FALT_W], panel % plan->panels * plan->width,
                     0};
  c.count = falt_min(plan->width, plan->layer.channels - c.channel);
  return c;
}

/* n channels of pixels u, u + stride, ... of an input row, which may lie outside it; row NULL: the constant. */
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

static void copy_panel(const task *t, int64_t panel, float *to) {
  const panel_columns c = columns_at(t->plan, panel);
  const falt_tensor *x = &t->layer->p.input;
  const falt_axis *axis = &t->layer->p.axis[2];
  falt_layer_point at = falt_layer_point_at(t->layer, t->first);
  for (int64_t p = 0, count; p < t->count; p += count) {
    const int64_t d = falt_layer_source(t->layer, 0, at.at[0], c.t), h = falt_layer_source(t->layer, 1, at.at[1], c.r);
    const int64_t row = falt_tensor_at(x, at.n, t->group, c.channel, d, h, 0);
    count = falt_layer_run(t->layer, &at, t->count - p);
    copy_pixels(t, d < 0 || h < 0 ? NULL : (const float *)t->operands->input + row,
                at.at[2] * axis->stride + c.s * axis->dilation - axis->pad[0], count, c.count, to + p * t->plan->width);
    falt_layer_advance(t->layer, &at, count);
  }
}

static void copy_rows(const task *t) {
  const falt_tensor *y = &t->layer->p.output;
  falt_layer_point at = falt_layer_point_at(t->layer, t->first);
  for (int64_t p = 0, count; p < t->count; p += count) {
    count = falt_layer_run(t->layer, &at, t->count - p);
    const int64_t from = falt_tensor_at(y, at.n, t->group, t->row, at.at[0], at.at[1], at.at[2]);
    t->layer->kernels->copy(&(falt_layer_copy){.from = (const float *)t->operands->output + from,
                                               .step = 1,
                                               .from_pitch = y->stride[FALT_W],
                                               .to = t->copy + p * t->plan->pitch,
                                               .to_pitch = t->plan->pitch,
                                               .n = t->rows,
                                               .count = count});
    falt_layer_advance(t->layer, &at, count);
  }
}

static void bring(task *t) {
  const rows_plan *plan = t->plan;
  const falt_tensor *x = &t->layer->p.input, *y = &t->layer->p.output;
  const float *input = t->operands->input, *output = t->operands->output;
  const falt_layer_point at = falt_layer_point_at(t->layer, t->first);
  t->x = (chunk_part){t->panels, plan->width, t->count * plan->width};
  t->y = (chunk_part){t->copy, plan->pitch, 0};
  if (plan->x_there)
    t->x = (chunk_part){input + falt_tensor_at(x, 0, t->group, t->panel * plan->width, 0, 0, t->first),
                        x->stride[FALT_W], plan->width};
  else
    for (int64_t i = t->panel; i < t->end; i++) copy_panel(t, i, t->panels + (i - t->panel) * t->x.panel);
  if (plan->y_there)
    t->y = (chunk_part){output + falt_tensor_at(y, at.n, t->group, t->row, at.at[0], at.at[1], at.at[2]),
                        y->stride[FALT_W], 0};
  else
    copy_rows(t);
}

/* ---- sums */

/* Rows [row, row + rows) of the task by all its columns. */
static void add_rows(const task *t, int64_t row, int64_t rows) {
  const falt_layer_kernels *kernels = t->layer->kernels;
  const falt_tensor *w = &t->layer->p.filter;
  const float *a[FALT_LAYER_ROWS], *b = t->x.at;
  float *out[FALT_LAYER_ROWS];
  for (int64_t m = 0; m < rows; m++) a[m] = t->y.at + row + m;
  for (int64_t panel = t->panel; panel < t->end; panel++, b += t->x.panel) {
    const panel_columns c = columns_at(t->plan, panel);
    for (int64_t m = 0; m < rows; m++)
      out[m] = (float *)t->operands->filter + falt_tensor_at(w, t->row + row + m, t->group, c.channel, c.t, c.r, c.s);
    kernels->product(&(falt_layer_product){.a = a,
                                           .b = b,
                                           .out = out,
                                           .segments = 1,
                                           .depth = t->count,
                                           .n = c.count,
                                           .skip = t->y.step - 1,
                                           .b_skip = t->x.step - falt_round_up(c.count, kernels->width),
                                           .rows = (int)rows,
                                           .accumulate = t->first > 0});
  }
}

static void add_bias(const task *t) {
  float *bias = (float *)t->operands->bias + t->group * t->layer->results + t->row;
  for (int64_t p = 0; p < t->count; p++)
    for (int64_t k = 0; k < t->rows; k++) bias[k] = (t->first + p > 0 ? bias[k] : 0) + t->y.at[p * t->y.step + k];
}

static void run_task(void *context, int64_t index, void *scratch) {
  const execution *run = context;
  const rows_plan *plan = run->plan;
  const int64_t columns = index % plan->columns.count, rest = index / plan->columns.count;
  const int64_t rows = rest % plan->rows.count;
  task t = {.plan = plan, .layer = &plan->layer, .operands = run->operands, .group = rest / plan->rows.count};
  t.row = falt_layer_piece(&plan->rows, rows);
  t.rows = falt_layer_piece(&plan->rows, rows + 1) - t.row;
  t.panel = falt_layer_piece(&plan->columns, columns);
  t.end = falt_layer_piece(&plan->columns, columns + 1);
  t.panels = scratch;
  t.copy = (float *)(void *)((char *)scratch + plan->at_rows);
  const falt_layer_pieces blocks = falt_layer_cut(t.rows, falt_ceil_div(t.rows, plan->block));
  for (int64_t i = 0; i < plan->chunks.count; i++) {
    t.first = falt_layer_piece(&plan->chunks, i);
    t.count = falt_layer_piece(&plan->chunks, i + 1) - t.first;
    bring(&t);
    if (columns == 0 && plan->base.problem.has_bias) add_bias(&t);
    for (int64_t block = 0; block < blocks.count; block++) {
      const int64_t row = falt_layer_piece(&blocks, block);
      add_rows(&t, row, falt_layer_piece(&blocks, block + 1) - row);
    }
  }
}

static void execute(const falt_plan *base, const falt_operands *operands) {
  const rows_plan *plan = (const rows_plan *)base;
  execution run = {plan, operands};
  falt_rows_run(base->device,
                &(falt_row_job){.run = run_task,
                                .context = &run,
                                .tasks = plan->layer.p.filter.size[FALT_G] * plan->rows.count * plan->columns.count,
                                .scratch = plan->scratch},
                operands->workspace);
}

static void print(const falt_plan *base, falt_text *text) {
  const rows_plan *plan = (const rows_plan *)base;
  falt_text_add(text, "(outer-rows %s %lldx%lld chunk=%lld tasks=%lldx%lld threads=%d)",
                falt_isa_name(base->device->isa), (long long)plan->block, (long long)plan->width,
                (long long)falt_layer_most(&plan->chunks), (long long)plan->rows.count, (long long)plan->columns.count,
                falt_threads_count(base->device->threads));
}

static void destroy(falt_plan *plan) {
  falt_free(plan);
}

/* ---- applicable, besides what all layers must be */

/* Whether the tap of every output of an axis lies inside. */
static bool lies_inside(const falt_problem *p, int axis) {
  const falt_axis *a = &p->axis[axis];
  const int64_t last = (p->output.size[FALT_D + axis] - 1) * a->stride;
  return a->pad[0] == 0 && last < p->input.size[FALT_D + axis];
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
  const int64_t threads = falt_threads_count(device->threads);
  const double idle = (double)(threads * falt_ceil_div(tasks, threads)) / (double)tasks;
  const double copies =
      near * ((plan->y_there ? 0 : (double)plan->columns.count / (double)(layer->taps * layer->channels)) +
              (plan->x_there ? 0 : (double)plan->rows.count / (double)layer->results));
  const double stretch = lanes * (1 + leaving / (double)falt_layer_most(&plan->chunks)) + copies;
  return falt_roofline(device, FALT_F32, falt_problem_flops(&plan->base.problem) * stretch * idle,
                       falt_layer_share(plan->width / layer->kernels->width), falt_problem_bytes(&plan->base.problem));
}

/* ---- plan */

/* Whether pixels that are evenly apart are near each other and in a cache, so that copies are not worth it. */
static bool stay(const rows_plan *plan, const falt_tensor *t, int64_t near_by) {
  const int64_t cached = 4 * (int64_t)plan->base.device->caches.l2 / (int64_t)sizeof(float);
  return t->stride[FALT_W] <= near_by && plan->layer.positions <= cached / falt_max(1, t->stride[FALT_W]);
}

static void set_places(rows_plan *plan) {
  const falt_layer *layer = &plan->layer;
  const falt_problem *p = &layer->p;
  const bool lie = lies_inside(p, 0) && lies_inside(p, 1) && lies_inside(p, 2) && p->axis[2].stride == 1;
  plan->x_there = layer->taps == 1 && lie && p->output.size[FALT_W] == layer->positions &&
                  layer->channels % layer->kernels->width == 0 && stay(plan, &p->input, NEAR_COLUMNS);
  plan->y_there = layer->together == layer->positions && stay(plan, &p->output, NEAR_ROWS);
}

/* Blocks of dw, as many as threads want and no smaller than what pays for copying its rows and columns; chunks whose
 * columns stay in the second-level cache. */
static void set_tasks(rows_plan *plan) {
  const falt_layer *layer = &plan->layer;
  const int64_t threads = falt_threads_count(plan->base.device->threads), groups = layer->p.filter.size[FALT_G];
  const int64_t wanted = threads == 1 ? 1 : falt_ceil_div(2 * threads, groups), vector = layer->kernels->width;
  const int64_t vectors = falt_ceil_div(layer->channels, vector);
  plan->width = falt_ceil_div(vectors, falt_ceil_div(vectors, layer->kernels->vectors)) * vector;
  plan->block = layer->kernels->rows[plan->width / vector];
  plan->panels = falt_ceil_div(layer->channels, plan->width);
  const int64_t panels = layer->taps * plan->panels, panel = plan->width * (int64_t)sizeof(float);
  const int64_t room = (int64_t)plan->base.device->caches.l2 / 2 / panel; /* positions of one panel */
  const int64_t large = falt_max(1, room / falt_min(MOST_CHUNK, layer->positions));
  const int64_t few = falt_min(wanted, falt_ceil_div(layer->results, FEW_ROWS));
  const int64_t even = few > threads ? few / threads * threads : few;
  const int64_t rows = falt_max(falt_ceil_div(layer->results, MOST_ROWS), even);
  const int64_t pay = falt_ceil_div(panels * plan->width, FEW_COLUMNS);
  const int64_t columns = falt_max(falt_ceil_div(panels, large), falt_min(falt_ceil_div(wanted, rows), pay));
  plan->rows = falt_layer_cut(layer->results, rows);
  plan->columns = falt_layer_cut(panels, falt_min(panels, columns));
  const int64_t fits = falt_max(1, falt_min(MOST_CHUNK, room / falt_layer_most(&plan->columns)));
  plan->chunks = falt_layer_cut(layer->positions, falt_ceil_div(layer->positions, fits));
}

static void lay_memory(rows_plan *plan) {
  const size_t chunk = (size_t)falt_layer_most(&plan->chunks);
  const size_t columns = (size_t)(falt_layer_most(&plan->columns) * plan->width);
  plan->pitch = (falt_ceil_div(falt_layer_most(&plan->rows), LINE) | 1) * LINE;
  falt_place(&plan->scratch, plan->x_there ? 0 : chunk * columns * sizeof(float));
  plan->at_rows = falt_place(&plan->scratch, plan->y_there ? 0 : chunk * (size_t)plan->pitch * sizeof(float));
  plan->base.workspace = falt_rows_workspace(plan->base.device, plan->scratch);
}

static falt_plan *plan_rows(const falt_solver *solver, falt_ask *ask) {
  static const falt_plan_table table = {.execute = execute, .print = print, .destroy = destroy};
  falt_layer layer;
  const char *reason = falt_layer_init_gradient(&layer, ask->problem, ask->device->isa);
  if (!reason) reason = refusal(&layer);
  if (reason) return falt_refuse(ask, "%s", reason);
  rows_plan *plan = falt_plan_new(sizeof *plan, &table, solver, ask);
  if (!plan) return NULL;
  plan->layer = layer;
  set_places(plan);
  set_tasks(plan);
  lay_memory(plan);
  plan->base.cost.seconds = estimate(plan, ask->device);
  return &plan->base;
}

extern const falt_solver falt_solver_outer_rows;
const falt_solver falt_solver_outer_rows = {.name = "outer-rows", .device_kind = "cpu", .plan = plan_rows};
