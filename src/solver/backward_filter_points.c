/* Gradients of filters of one tap with adjacent channels (1x1 layers): a product of two matrices as they lie.
 *
 *     dw[k, c] = sum over positions p of  dy[p, k] * x[p*stride, c],    db[k] = sum over positions p of dy[p, k]
 *
 * Rows are output channels, broadcast, and columns are input channels, along vectors. So rows of sums are rows of the
 * gradient, and blocks of registers are stored where they belong: nothing is turned, and no sum waits elsewhere. A task
 * owns a block of dw. Rows of dw are written one after the other, some at a time over all its columns: where positions
 * are few the memory of dw is what is waited for, and each of its pages is met once. Positions are taken in chunks
 * whose operands stay in the second-level cache. They are read in place where positions are evenly apart, not further
 * than a page; else, and where they come from memory, chunks are copied, x as panels of columns (K. Goto and R. van de
 * Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008).
 *
 * Each sum is one chain of multiply-adds in the order of positions: results do not depend on the number of threads. */
#include "core/memory.h"
#include "solver/filter_rows.h"
#include "solver/layer.h"

enum {
  MOST_CHUNK = 400,  /* positions */
  MOST_ROWS = 512,   /* of a task */
  FEW_ROWS = 48,     /* below, copying columns is not worth it */
  FEW_COLUMNS = 256, /* the same of rows */
  LINE = 16,         /* elements */
  PAGE = 1024        /* the same */
};

typedef struct points_plan {
  falt_plan base;
  falt_layer layer;          /* the forward one */
  bool x_there, y_there;     /* read in place */
  int64_t width, block;      /* columns of a panel, and rows of a block of registers */
  int64_t pitch;             /* of the copy of dy: an odd number of lines */
  falt_layer_pieces chunks;  /* of positions */
  falt_layer_pieces rows;    /* of a group's output channels; a task's */
  falt_layer_pieces columns; /* of the panels of a group's input channels; a task's */
  size_t at_rows, scratch;
} points_plan;

typedef struct execution {
  const points_plan *plan;
  const falt_operands *operands;
} execution;

/* A chunk of an operand: elements from position to position, and from panel to panel. */
typedef struct chunk_part {
  const float *at;
  int64_t step, panel;
} chunk_part;

typedef struct task {
  const points_plan *plan;
  const falt_layer *layer;
  const falt_operands *operands;
  int64_t group;
  int64_t row, rows;       /* output channels */
  int64_t column, columns; /* input channels */
  int64_t first, count;    /* positions of the chunk */
  chunk_part x, y;
  float *panels, *copy;
} task;

/* ---- operands in */

/* Position by position, so that long runs of channels are read. */
static void copy_columns(const task *t) {
  const falt_tensor *x = &t->layer->p.input;
  const falt_axis *axis = t->layer->p.axis;
  const int64_t width = t->plan->width, whole = t->columns / width, rest = t->columns % width;
  falt_layer_point at = falt_layer_point_at(t->layer, t->first);
  for (int64_t p = 0; p < t->count; p++, falt_layer_advance(t->layer, &at, 1)) {
    const float *from =
        (const float *)t->operands->input + falt_tensor_at(x, at.n, t->group, t->column, at.at[0] * axis[0].stride,
                                                           at.at[1] * axis[1].stride, at.at[2] * axis[2].stride);
    falt_layer_copy copy = {from, t->panels + p * width, 1, width, t->count * width, width, whole};
    if (whole > 0) t->layer->kernels->copy(&copy);
    copy = (falt_layer_copy){from + whole * width, copy.to + whole * copy.to_pitch, 1, 0, 0, rest, 1};
    if (rest > 0) t->layer->kernels->copy(&copy);
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
  const points_plan *plan = t->plan;
  const falt_tensor *x = &t->layer->p.input, *y = &t->layer->p.output;
  const float *input = t->operands->input, *output = t->operands->output;
  t->x = (chunk_part){t->panels, plan->width, t->count * plan->width};
  t->y = (chunk_part){t->copy, plan->pitch, 0};
  if (plan->x_there)
    t->x =
        (chunk_part){input + falt_tensor_at(x, 0, t->group, t->column, 0, 0, t->first), x->stride[FALT_W], plan->width};
  else
    copy_columns(t);
  if (plan->y_there)
    t->y = (chunk_part){output + falt_tensor_at(y, 0, t->group, t->row, 0, 0, t->first), y->stride[FALT_W], 0};
  else
    copy_rows(t);
}

/* ---- sums */

/* Rows [row, row + rows) of the task by all its columns. */
static void add_rows(const task *t, int64_t row, int64_t rows) {
  const int64_t width = t->plan->width;
  const falt_layer_kernels *kernels = t->layer->kernels;
  const float *a[FALT_LAYER_ROWS], *b = t->x.at;
  float *out[FALT_LAYER_ROWS];
  for (int64_t m = 0; m < rows; m++) {
    a[m] = t->y.at + row + m;
    out[m] = (float *)t->operands->filter +
             falt_tensor_at(&t->layer->p.filter, t->row + row + m, t->group, t->column, 0, 0, 0);
  }
  for (int64_t column = 0; column < t->columns; column += width, b += t->x.panel) {
    const int64_t n = falt_min(width, t->columns - column);
    kernels->product(&(falt_layer_product){.a = a,
                                           .b = b,
                                           .out = out,
                                           .segments = 1,
                                           .depth = t->count,
                                           .n = n,
                                           .skip = t->y.step - 1,
                                           .b_skip = t->x.step - falt_round_up(n, kernels->width),
                                           .rows = (int)rows,
                                           .accumulate = t->first > 0});
    for (int64_t m = 0; m < rows; m++) out[m] += width;
  }
}

static void add_bias(const task *t) {
  float *bias = (float *)t->operands->bias + t->group * t->layer->results + t->row;
  for (int64_t p = 0; p < t->count; p++)
    for (int64_t k = 0; k < t->rows; k++) bias[k] = (t->first + p > 0 ? bias[k] : 0) + t->y.at[p * t->y.step + k];
}

static void run_task(void *context, int64_t index, void *scratch) {
  const execution *run = context;
  const points_plan *plan = run->plan;
  const int64_t columns = index % plan->columns.count, rest = index / plan->columns.count;
  const int64_t rows = rest % plan->rows.count;
  task t = {.plan = plan, .layer = &plan->layer, .operands = run->operands, .group = rest / plan->rows.count};
  t.row = falt_layer_piece(&plan->rows, rows);
  t.rows = falt_layer_piece(&plan->rows, rows + 1) - t.row;
  t.column = falt_layer_piece(&plan->columns, columns) * plan->width;
  t.columns = falt_min(plan->layer.channels, falt_layer_piece(&plan->columns, columns + 1) * plan->width) - t.column;
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
  const points_plan *plan = (const points_plan *)base;
  execution run = {plan, operands};
  falt_rows_run(base->device,
                &(falt_row_job){.run = run_task,
                                .context = &run,
                                .tasks = plan->layer.p.filter.size[FALT_G] * plan->rows.count * plan->columns.count,
                                .scratch = plan->scratch},
                operands->workspace);
}

static void print(const falt_plan *base, falt_text *text) {
  const points_plan *plan = (const points_plan *)base;
  falt_text_add(text, "(points %s %lldx%lld chunk=%lld tasks=%lldx%lld threads=%d)", falt_isa_name(base->device->isa),
                (long long)plan->block, (long long)plan->width, (long long)falt_layer_most(&plan->chunks),
                (long long)plan->rows.count, (long long)plan->columns.count, falt_threads_count(base->device->threads));
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
  return layer->taps != 1 ? "only filters of one tap"
         : !falt_tensor_unit(&p->input, FALT_C) || !falt_tensor_unit(&p->output, FALT_C) ||
                 !falt_tensor_unit(&p->filter, FALT_C)
             ? "channels are not adjacent"
         : !lies_inside(p, 0) || !lies_inside(p, 1) || !lies_inside(p, 2) ? "positions lie outside the input"
                                                                          : NULL;
}

/* ---- estimate */

/* Multiply-adds that take as long as copying an element, for each task that copies it; steps of the depth that take as
 * long as beginning and storing a block of sums. */
static const double near = 2, leaving = 12;

static double estimate(const points_plan *plan, const falt_device *device) {
  const falt_layer *layer = &plan->layer;
  const double lanes = (double)falt_round_up(layer->channels, layer->kernels->width) / (double)layer->channels;
  const int64_t tasks = layer->p.filter.size[FALT_G] * plan->rows.count * plan->columns.count;
  const int64_t threads = falt_threads_count(device->threads);
  const double idle = (double)(threads * falt_ceil_div(tasks, threads)) / (double)tasks;
  const double copies = near * ((plan->y_there ? 0 : (double)plan->columns.count / (double)layer->channels) +
                                (plan->x_there ? 0 : (double)plan->rows.count / (double)layer->results));
  const double stretch = lanes * (1 + leaving / (double)falt_layer_most(&plan->chunks)) + copies;
  return falt_roofline(device, FALT_F32, falt_problem_flops(&plan->base.problem) * stretch * idle,
                       falt_layer_share(plan->width / layer->kernels->width), falt_problem_bytes(&plan->base.problem));
}

/* ---- plan */

/* Whether positions are evenly apart, near each other and in a cache, so that copies are not worth it. */
static bool stay(const points_plan *plan, const falt_tensor *t) {
  const falt_problem *p = &plan->layer.p;
  const int64_t bytes = plan->layer.positions * t->stride[FALT_W] * (int64_t)sizeof(float);
  return p->output.size[FALT_W] == plan->layer.positions && p->axis[2].stride == 1 && t->stride[FALT_W] <= PAGE &&
         bytes <= 4 * (int64_t)plan->base.device->caches.l2;
}

/* Blocks of dw, as many as threads want and no smaller than what pays for copying its rows and columns; chunks whose
 * columns stay in the second-level cache. */
static void set_tasks(points_plan *plan) {
  const falt_layer *layer = &plan->layer;
  const int64_t threads = falt_threads_count(plan->base.device->threads), groups = layer->p.filter.size[FALT_G];
  const int64_t wanted = threads == 1 ? 1 : falt_ceil_div(2 * threads, groups), vector = layer->kernels->width;
  const int64_t vectors = falt_ceil_div(layer->channels, vector);
  plan->width = falt_ceil_div(vectors, falt_ceil_div(vectors, layer->kernels->vectors)) * vector;
  plan->block = layer->kernels->rows[plan->width / vector];
  const int64_t panels = falt_ceil_div(layer->channels, plan->width), large = falt_ceil_div(layer->results, MOST_ROWS);
  const int64_t most = falt_max(large, falt_min(wanted, falt_ceil_div(layer->results, FEW_ROWS)));
  const int64_t columns = falt_min(falt_ceil_div(wanted, most), falt_ceil_div(layer->channels, FEW_COLUMNS));
  plan->rows = falt_layer_cut(layer->results, most);
  plan->columns = falt_layer_cut(panels, falt_min(panels, columns));
  const int64_t row = falt_layer_most(&plan->columns) * plan->width * (int64_t)sizeof(float);
  const int64_t fits = falt_max(1, falt_min(MOST_CHUNK, (int64_t)plan->base.device->caches.l2 / 2 / row));
  plan->chunks = falt_layer_cut(layer->positions, falt_ceil_div(layer->positions, fits));
}

static void lay_memory(points_plan *plan) {
  const size_t chunk = (size_t)falt_layer_most(&plan->chunks);
  const size_t columns = (size_t)(falt_layer_most(&plan->columns) * plan->width);
  plan->pitch = (falt_ceil_div(falt_layer_most(&plan->rows), LINE) | 1) * LINE;
  falt_place(&plan->scratch, plan->x_there ? 0 : chunk * columns * sizeof(float));
  plan->at_rows = falt_place(&plan->scratch, plan->y_there ? 0 : chunk * (size_t)plan->pitch * sizeof(float));
  plan->base.workspace = falt_rows_workspace(plan->base.device, plan->scratch);
}

static falt_plan *plan_points(const falt_solver *solver, falt_ask *ask) {
  static const falt_plan_table table = {.execute = execute, .print = print, .destroy = destroy};
  falt_problem forward = *ask->problem;
  falt_layer layer;
  forward.operation = FALT_FORWARD;
  forward.has_bias = false;
  if (ask->problem->operation != FALT_BACKWARD_FILTER) return falt_refuse(ask, "only backward-filter");
  const char *reason = falt_layer_init(&layer, &forward, ask->device->isa);
  if (!reason) reason = refusal(&layer);
  if (reason) return falt_refuse(ask, "%s", reason);
  points_plan *plan = falt_plan_new(sizeof *plan, &table, solver, ask);
  if (!plan) return NULL;
  plan->layer = layer;
  plan->x_there = stay(plan, &layer.p.input) && layer.channels % layer.kernels->width == 0;
  plan->y_there = stay(plan, &layer.p.output);
  set_tasks(plan);
  lay_memory(plan);
  plan->base.cost.seconds = estimate(plan, ask->device);
  return &plan->base;
}

extern const falt_solver falt_solver_points;
const falt_solver falt_solver_points = {.name = "points", .device_kind = "cpu", .plan = plan_points};
