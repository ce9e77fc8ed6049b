/* Solver wgrad-rows: weight gradients of dense NHWC layers by GEMM on operands in place, stored directly to dw.
 *
 *     dw[k, j, c] = sum over positions p of  dy[p, k] * x[p*stride + j*dilation - pad, c],    db[k] = sum of dy[p, k]
 *
 * K. Goto and R. van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008. */
#include "solver/cpu/wgrad/wgrad_rows.h"

#include <math.h>

#include "core/memory.h"
#include "solver/cpu/common/layer_inside.h"
#include "solver/cpu/common/rows.h"

enum {
  MOST_CHUNK = 400,   /* positions */
  MOST_ROWS = 512,    /* of a task */
  FEW_ROWS = 48,      /* below, copying columns is not worth it */
  FEW_COLUMNS = 64,   /* the same for rows */
  SHORT_LINE = 12,    /* positions: beginning a line takes as long as one or two of them */
  LINE = 16,          /* elements */
  NEAR_COLUMNS = 384, /* elements between positions that are read in place: */
  NEAR_ROWS = 512     /* elements further apart share sets of the L1 cache */
};

static int64_t most_positions(const falt_wgrad_rows_plan *plan) {
  return plan->by_lines ? falt_layer_most(&plan->lines) * falt_layer_most(&plan->spans)
                        : falt_layer_most(&plan->chunks);
}

static void print(const falt_plan *base, falt_text *text) {
  const falt_wgrad_rows_plan *plan = (const falt_wgrad_rows_plan *)base;
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
/* Of loading operands: vectors of neighbouring channels are read, not single elements. */
static const double runs = 0.4, runs_beyond = 5;

static int64_t task_count(const falt_wgrad_rows_plan *plan) {
  return plan->layer.p.filter.size[FALT_G] * plan->rows.count * plan->columns.count;
}

/* The time of the tasks by that of perfectly balanced work. On 16 threads 33 or 36 tasks take little longer than 32:
 * threads that are done leave caches and clock to the others. Half of what equal cores would lose fits. */
static double waiting(const falt_wgrad_rows_plan *plan, const falt_device *device) {
  const double idle = falt_load_imbalance(device, task_count(plan));
  return falt_caches_are_far(device) ? sqrt(idle) : idle;
}

/* Seconds in which a thread loads the operands of its tasks: neighbouring tasks are columns of the same rows, and taps
 * share x. */
static double loading(const falt_wgrad_rows_plan *plan, const falt_device *device) {
  const double own = fmax(1, (double)task_count(plan) / (double)falt_threads_count(device->threads));
  const double across = fmin(own, (double)plan->columns.count), down = own / across;
  const double columns = across * (double)(falt_layer_most(&plan->columns) * plan->width);
  const double positions = sizeof(float) * (double)plan->layer.positions;
  const double x = positions * fmin((double)plan->layer.channels, columns);
  const double y = positions * down * (double)falt_layer_most(&plan->rows);
  const double bytes = x * (x + y < (double)device->caches.l2 ? 1 : down) + y;
  const bool alone = plan->layer.p.filter.size[FALT_G] == 1; /* groups are points of winograd-wgrad, read in order */
  return falt_wgrad_loading_f32(device, &plan->layer.p, bytes, (falt_wgrad_rate){runs, alone ? runs_beyond : runs});
}

static double estimate(const falt_wgrad_rows_plan *plan, const falt_device *device) {
  const falt_layer *layer = &plan->layer;
  const double lanes = (double)falt_round_up(layer->channels, layer->kernels->width) / (double)layer->channels;
  const double copies =
      near * ((plan->y_there ? 0 : (double)plan->columns.count / (double)(layer->taps * layer->channels)) +
              (plan->x_there ? 0 : (double)plan->rows.count / (double)layer->results));
  const double line = plan->by_lines ? 1 / (double)falt_layer_most(&plan->spans) : 0;
  const double inside = plan->by_lines && plan->skips ? falt_inside_share(layer) : 1;
  const double stretch = lanes * inside * (1 + leaving / (double)most_positions(plan) + line) + copies;
  return falt_roofline(device, FALT_F32, falt_problem_flops(&plan->base.problem) * stretch * waiting(plan, device),
                       falt_layer_share(plan->width / layer->kernels->width), falt_problem_bytes(&plan->base.problem)) +
         loading(plan, device);
}

/* ---- plan */

/* Whether an operand's pixels are in a cache. */
static bool stays(const falt_wgrad_rows_plan *plan, const falt_tensor *t) {
  const int64_t cached = 4 * (int64_t)plan->base.device->caches.l2 / (int64_t)sizeof(float);
  return plan->layer.positions <= cached / falt_max(1, t->stride[FALT_W]);
}

/* Several taps read x, from the second-level cache after the first: it is not copied for each of them. One tap's copy
 * is worth it where pixels are apart and come from memory. Kernels read rows of dy in place only at a positive step. */
static void set_places(falt_wgrad_rows_plan *plan) {
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
static void set_chunks(falt_wgrad_rows_plan *plan, int64_t fits) {
  const int64_t height = plan->layer.p.output.size[FALT_H], width = plan->layer.p.output.size[FALT_W];
  const int64_t lines = falt_max(1, falt_min((fits + width / 2) / width, FALT_WGRAD_ROWS_LINES));
  plan->chunks = falt_layer_cut(plan->layer.positions, falt_ceil_div(plan->layer.positions, fits));
  plan->lines = falt_layer_cut(height, falt_ceil_div(height, lines));
  plan->spans = falt_layer_cut(width, lines > 1 || 2 * width < 3 * fits ? 1 : falt_ceil_div(width, fits));
}

/* Blocks of dw, enough for the threads and large enough to pay for copying their rows and columns; chunks whose columns
 * fit into the L2 cache. */
static void set_tasks(falt_wgrad_rows_plan *plan) {
  const falt_layer *layer = &plan->layer;
  const int64_t threads = falt_threads_count(plan->base.device->threads), groups = layer->p.filter.size[FALT_G];
  const int64_t wanted = threads == 1 ? 1 : falt_ceil_div(2 * threads, groups), vector = layer->kernels->width;
  const int64_t vectors = falt_ceil_div(layer->channels, vector);
  plan->width = falt_ceil_div(vectors, falt_ceil_div(vectors, layer->kernels->vectors)) * vector;
  plan->block = layer->kernels->rows[plan->width / vector];
  plan->panels = falt_ceil_div(layer->channels, plan->width);
  const int64_t panels = layer->taps * plan->panels, bytes = plan->width * (int64_t)sizeof(float);
  const int64_t room = (int64_t)plan->base.device->caches.l2 / 2 / bytes; /* positions of one falt_wgrad_rows_panel */
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
  const bool doubled = plan->columns.size == 1 && plan->columns.larger > 0; /* some tasks take twice as long */
  if (doubled && falt_caches_are_far(plan->base.device)) plan->columns = falt_layer_cut(panels, panels);
  const int64_t held = shared ? plan->panels : falt_layer_most(&plan->columns); /* panels */
  set_chunks(plan, falt_max(1, falt_min(MOST_CHUNK, room / held)));
}

static void lay_memory(falt_wgrad_rows_plan *plan) {
  const size_t chunk = (size_t)most_positions(plan);
  const size_t columns = (size_t)(falt_layer_most(&plan->columns) * plan->width);
  plan->pitch = (falt_ceil_div(falt_layer_most(&plan->rows), LINE) | 1) * LINE;
  falt_place_part(&plan->scratch, plan->x_there ? 0 : chunk * columns * sizeof(float));
  plan->at_rows = falt_place_part(&plan->scratch, plan->y_there ? 0 : chunk * (size_t)plan->pitch * sizeof(float));
  plan->at_panels =
      falt_place_part(&plan->scratch, (size_t)falt_layer_most(&plan->columns) * sizeof(falt_wgrad_rows_panel));
  const falt_problem *p = &plan->layer.p;
  plan->x_step = plan->x_there ? p->axis[2].stride * p->input.stride[FALT_W] : plan->width;
  plan->x_line = p->axis[1].stride * p->input.stride[FALT_H];
  plan->y_step = plan->y_there ? p->output.stride[FALT_W] : plan->pitch;
  falt_rows_place(&plan->base.layout, plan->base.device, &plan->scratch);
  plan->base.workspace = plan->base.layout.total;
}

static const char *choose(falt_plan *base, falt_ask *ask) {
  falt_wgrad_rows_plan *plan = (falt_wgrad_rows_plan *)base;
  const char *why = falt_layer_init_gradient(&plan->layer, ask->problem, ask->device->isa);
  if (!why) why = refusal(&plan->layer);
  if (why) return why;
  set_places(plan);
  set_tasks(plan);
  lay_memory(plan);
  base->cost.seconds = estimate(plan, ask->device);
  return NULL;
}

static const falt_plan_steps steps = {
    sizeof(falt_wgrad_rows_plan), {falt_wgrad_rows_execute, print, falt_plan_free, NULL}, NULL, choose};

extern const falt_solver falt_solver_wgrad_rows;
const falt_solver falt_solver_wgrad_rows = {
    .name = "wgrad-rows", .device_kind = "cpu", .avx2 = 1.7, .plan = falt_plan_make, .steps = &steps};
