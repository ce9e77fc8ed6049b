/* Solver inner-product: layers of few outputs for each weight, such as fully connected layers; the time is that of
 * reading the filter.
 *
 *     y[k, p] = dot product of w[k, :] and the patch of x that output p reads
 *
 * The filter is read in place and in its own type: where rows w[k, :] are adjacent in memory as dot products, where
 * columns w[:, i] are, as in gradients of such layers, as sums of columns times an element of the patch. Patches are
 * gathered in the order of a filter row. */
#include <string.h>

#include "core/memory.h"
#include "solver/cpu/common/layer.h"
#include "solver/cpu/common/upconvert.h"
#include "solver/cpu/fprop/inner_product_kernels.h"

enum {
  MOST_OUTPUTS = FALT_INNER_COLUMNS, /* positions of a group: each filter row is read once */
  UNIT = FALT_LAYER_WIDEST,          /* results of sums of columns that are stored at once */
  MOST_UNITS = 128,                  /* of a task: pages of each column, and sums in the second-level cache */
  COLUMNS = 1 << 12,                 /* of the filter in a sum of its own: no chain of roundings is long */
  TASK = 1 << 16                     /* multiply-adds of a task: less is not worth waking a thread for */
};

enum { INPUT, OUTPUT, RESIDUAL, OPERANDS };

typedef struct inner_plan {
  falt_plan base;
  falt_layer layer; /* of the operands in f32 */
  void (*dots)(const falt_inner_dots *call);
  void (*axpys)(const falt_inner_axpys *call);
  bool columns;            /* adjacent in memory */
  int order[4];            /* the filter's dimensions, the innermost first */
  int64_t step;            /* distance of elements of a filter row */
  int64_t depth;           /* elements of a filter row */
  int block;               /* results of which tasks are made */
  falt_layer_pieces tasks; /* of blocks of results, in a group */
  falt_tensor wide[OPERANDS];
  size_t room[OPERANDS];                 /* operands in f32, where they are not */
  size_t patches, sums, totals, factors; /* totals: of columns */
  const void *values;                    /* a known filter, until it is copied */
  void *filter;                          /* the copy, or NULL */
} inner_plan;

static const falt_tensor *tensor_of(const falt_problem *p, int operand) {
  return operand == INPUT ? &p->input : operand == OUTPUT ? &p->output : &p->residual;
}

static bool is_narrow(const falt_problem *p, int operand) {
  return (operand != RESIDUAL || p->has_residual) && tensor_of(p, operand)->type != FALT_F32;
}

/* ---- execute */

typedef struct execution {
  const inner_plan *plan;
  falt_operands operands; /* input, output and residual in f32 */
  float *patches, *sums, *totals;
  const float *factors;
} execution;

/* One dimension of a patch after the other, from the outermost: `index` of the filter's dimensions are set. */
static void gather(const execution *run, const falt_layer_point *at, int64_t g, int64_t index[4], int level,
                   float **to) {
  const falt_layer *layer = &run->plan->layer;
  const falt_tensor *x = &layer->p.input, *w = &layer->p.filter;
  const int dim = run->plan->order[level];
  if (level > 0) {
    int64_t *i = &index[dim - FALT_C];
    for (*i = 0; *i < w->size[dim] && !falt_cancelled(); ++*i) gather(run, at, g, index, level - 1, to);
    return;
  }
  int64_t source[3];
  for (int axis = 0; axis < 3; axis++) source[axis] = falt_layer_source(layer, axis, at->at[axis], index[1 + axis]);
  const float *from = run->operands.input;
  for (int64_t i = 0; i < w->size[dim]; i++) {
    if (dim != FALT_C) source[dim - FALT_D] = falt_layer_source(layer, dim - FALT_D, at->at[dim - FALT_D], i);
    const bool outside = source[0] < 0 || source[1] < 0 || source[2] < 0;
    const int64_t c = dim == FALT_C ? i : index[0];
    (*to)[i] = outside ? (float)layer->p.boundary_value
                       : from[falt_tensor_at(x, at->n, g, c, source[0], source[1], source[2])];
  }
  *to += w->size[dim];
}

static void gather_task(void *context, int64_t index) {
  const execution *run = context;
  const falt_layer *layer = &run->plan->layer;
  const falt_layer_point at = falt_layer_point_at(layer, index % layer->positions);
  int64_t within[4] = {0};
  float *to = run->patches + index * run->plan->depth;
  gather(run, &at, index / layer->positions, within, 3, &to);
}

static void run_rows(const execution *run, int64_t g, int64_t k, int rows) {
  const inner_plan *plan = run->plan;
  const falt_layer *layer = &plan->layer;
  const falt_tensor *w = &plan->base.problem.filter;
  const int64_t size = (int64_t)falt_type_size(w->type);
  float *sums = run->sums + (g * layer->results + k) * MOST_OUTPUTS;
  falt_inner_dots call = {.patches = run->patches + g * layer->positions * plan->depth,
                          .sums = sums,
                          .pitch = MOST_OUTPUTS,
                          .n = plan->depth,
                          .count = rows,
                          .columns = (int)layer->positions};
  for (int m = 0; m < rows; m++)
    call.rows[m] = (const char *)run->operands.filter + falt_tensor_at(w, k + m, g, 0, 0, 0, 0) * size;
  plan->dots(&call);
  falt_layer_store_rows(layer, &run->operands,
                        &(falt_layer_rows){.sums = sums,
                                           .pitch = MOST_OUTPUTS,
                                           .count = layer->positions,
                                           .group = g,
                                           .channel = k,
                                           .rows = rows,
                                           .factors = run->factors});
}

static void store_columns(const execution *run, int64_t g, int64_t k, int64_t n, float *sums, int64_t pitch) {
  const falt_layer *layer = &run->plan->layer;
  const falt_tensor *y = &layer->p.output, *z = &layer->p.residual;
  int64_t out[MOST_OUTPUTS], residual[MOST_OUTPUTS];
  for (int64_t j = 0; j < layer->positions; j++) {
    const falt_layer_point at = falt_layer_point_at(layer, j);
    out[j] = falt_tensor_at(y, at.n, g, k, at.at[0], at.at[1], at.at[2]);
    residual[j] = falt_tensor_at(z, at.n, g, k, at.at[0], at.at[1], at.at[2]);
  }
  falt_layer_store(layer, &run->operands,
                   &(falt_layer_block){.sums = sums,
                                       .pitch = pitch,
                                       .n = n,
                                       .rows = (int)layer->positions,
                                       .out = out,
                                       .residual = residual,
                                       .out_step = y->stride[FALT_C],
                                       .residual_step = z->stride[FALT_C],
                                       .channel = g * layer->results + k,
                                       .factors = run->factors});
}

static void run_columns(const execution *run, int64_t g, int64_t k, int64_t n) {
  const inner_plan *plan = run->plan;
  const falt_layer *layer = &plan->layer;
  const falt_tensor *w = &plan->base.problem.filter;
  const int64_t size = (int64_t)falt_type_size(w->type), first = falt_tensor_at(w, k, g, 0, 0, 0, 0);
  const int64_t at = (g * layer->results + k) * MOST_OUTPUTS, count = layer->positions * n;
  float *sums = run->sums + at, *totals = run->totals + at;
  memset(totals, 0, (size_t)count * sizeof *totals);
  for (int64_t i = 0; i < plan->depth && !falt_cancelled(); i += COLUMNS) {
    memset(sums, 0, (size_t)count * sizeof *sums);
    plan->axpys(&(falt_inner_axpys){.rows = (const char *)run->operands.filter + (first + i * plan->step) * size,
                                    .patches = run->patches + g * layer->positions * plan->depth + i,
                                    .sums = sums,
                                    .step = plan->step,
                                    .pitch = plan->depth,
                                    .count = falt_min(COLUMNS, plan->depth - i),
                                    .n = n,
                                    .columns = (int)layer->positions});
    for (int64_t j = 0; j < count; j++) totals[j] += sums[j];
  }
  for (int64_t i = 0; i < n; i += UNIT) store_columns(run, g, k + i, falt_min(UNIT, n - i), totals + i, n);
}

static void run_task(void *context, int64_t index) {
  const execution *run = context;
  const inner_plan *plan = run->plan;
  const int64_t piece = index % plan->tasks.count, g = index / plan->tasks.count, results = plan->layer.results;
  const int64_t begin = falt_layer_piece(&plan->tasks, piece) * plan->block;
  const int64_t end = falt_min(results, falt_layer_piece(&plan->tasks, piece + 1) * plan->block);
  if (plan->columns) {
    run_columns(run, g, begin, end - begin);
    return;
  }
  for (int64_t k = begin; k < end && !falt_cancelled(); k += FALT_INNER_ROWS)
    run_rows(run, g, k, (int)falt_min(FALT_INNER_ROWS, end - k));
}

static void execute(const falt_plan *base, const falt_operands *operands) {
  const inner_plan *plan = (const inner_plan *)base;
  const falt_problem *p = &base->problem;
  const falt_device *device = base->device;
  const int64_t groups = p->output.size[FALT_G];
  char *workspace = operands->workspace;
  float *room[OPERANDS], *factors = (float *)(void *)(workspace + plan->factors);
  execution run = {plan,
                   *operands,
                   (float *)(void *)(workspace + plan->patches),
                   (float *)(void *)(workspace + plan->sums),
                   (float *)(void *)(workspace + plan->totals),
                   factors};
  if (plan->filter) run.operands.filter = plan->filter;
  for (int i = 0; i < OPERANDS; i++) room[i] = (float *)(void *)(workspace + plan->room[i]);
  if (is_narrow(p, INPUT)) {
    falt_upconvert(device, &p->input, operands->input, &plan->wide[INPUT], room[INPUT]);
    run.operands.input = room[INPUT];
  }
  if (is_narrow(p, RESIDUAL)) {
    falt_upconvert(device, &p->residual, operands->residual, &plan->wide[RESIDUAL], room[RESIDUAL]);
    run.operands.residual = room[RESIDUAL];
  }
  if (is_narrow(p, OUTPUT)) run.operands.output = room[OUTPUT];
  falt_layer_factors(&plan->layer, operands, factors);
  falt_parallel_for(device->threads, groups * plan->layer.positions, gather_task, &run);
  falt_parallel_for(device->threads, groups * plan->tasks.count, run_task, &run);
  if (is_narrow(p, OUTPUT)) falt_downconvert(device, &plan->wide[OUTPUT], room[OUTPUT], &p->output, operands->output);
}

static falt_status ready(falt_plan *base) {
  inner_plan *plan = (inner_plan *)base;
  return falt_plan_copy_filter(base, &plan->values, &plan->filter);
}

static void destroy(falt_plan *base) {
  falt_free(((inner_plan *)base)->filter);
  falt_plan_free(base);
}

static void print(const falt_plan *base, falt_text *text) {
  const inner_plan *plan = (const inner_plan *)base;
  falt_text_add(text, "(inner-product %s%s outputs=%lld threads=%d)", plan->columns ? "columns " : "",
                falt_isa_name(base->device->isa), (long long)plan->layer.positions,
                falt_threads_count(base->device->threads));
}

/* ---- applicable */

static bool is_float(falt_type type) {
  return type == FALT_F32 || type == FALT_BF16 || type == FALT_F16;
}

/* Whether the elements of each filter row are `step` apart, in the order of some dimensions. */
static bool find_order(const falt_tensor *w, int64_t step, int order[4]) {
  int64_t next = step;
  bool taken[4] = {false};
  for (int level = 0; level < 4; level++) {
    int found = -1;
    for (int i = 0; i < 4 && found < 0; i++)
      if (!taken[i] && (w->size[FALT_C + i] == 1 || w->stride[FALT_C + i] == next)) found = i;
    if (found < 0) return false;
    taken[found] = true;
    order[level] = FALT_C + found;
    if (!falt_mul(next, w->size[FALT_C + found], &next)) return false;
  }
  return true;
}

/* Rows that are adjacent, or columns that are, whose rows have one step. */
static bool find_walk(inner_plan *plan) {
  const falt_tensor *w = &plan->layer.p.filter;
  plan->step = 1;
  if (find_order(w, 1, plan->order)) return true;
  if (w->stride[FALT_K] != 1) return false;
  plan->columns = true;
  plan->step = INT64_MAX;
  for (int dim = FALT_C; dim < FALT_DIMS; dim++)
    if (w->size[dim] > 1) plan->step = falt_min(plan->step, w->stride[dim]);
  return plan->step >= w->size[FALT_K] && find_order(w, plan->step, plan->order);
}

static const char *refusal(const falt_problem *p) {
  const bool floats = is_float(p->input.type) && is_float(p->filter.type) && is_float(p->output.type);
  return p->operation != FALT_FORWARD                                  ? "only forward"
         : !floats || (p->has_residual && !is_float(p->residual.type)) ? "only f32, bf16 and f16"
         : p->accumulator == FALT_F64                                  ? "it has no f64 sums"
         : falt_problem_pools(p)                                       ? "it does not pool"
                                                                       : NULL;
}

/* ---- plan */

/* The layer of the operands in f32; the filter keeps its strides. */
static const char *upconvert(inner_plan *plan, const falt_ask *ask, size_t bytes[OPERANDS]) {
  falt_problem wide = *ask->problem;
  falt_tensor *const tensors[OPERANDS] = {&wide.input, &wide.output, &wide.residual};
  for (int i = 0; i < OPERANDS; i++) {
    bytes[i] = 0;
    if (!is_narrow(ask->problem, i)) continue;
    if (!falt_upconvert_shape(&plan->wide[i], tensors[i], &bytes[i])) return "its operands are too large";
    *tensors[i] = plan->wide[i];
  }
  wide.filter.type = FALT_F32;
  return falt_layer_init(&plan->layer, &wide, ask->device->isa);
}

/* Fractions of the multiply-add peak with one output and with several, by the loads of a multiply-add; the operations
 * that gathering an element takes. Measured with AVX-512. */
static const double one_output = 0.3, several_outputs = 0.5, gathered = 20;

static double estimate(const inner_plan *plan, const falt_device *device) {
  const falt_problem *p = &plan->base.problem;
  const double patches = (double)p->output.size[FALT_G] * (double)plan->layer.positions * (double)plan->depth;
  const double share = plan->layer.positions == 1 ? one_output : several_outputs;
  double flops = falt_problem_flops(p) / share + gathered * patches;
  for (int i = 0; i < OPERANDS; i++)
    if (is_narrow(p, i)) flops += (i == OUTPUT ? falt_downconvert_flops : falt_upconvert_flops)(tensor_of(p, i));
  return falt_roofline(device, FALT_F32, flops, 1, falt_problem_bytes(p));
}

/* False if the patches' size overflows: groups may share one filter. */
static bool lay_memory(inner_plan *plan, const size_t bytes[OPERANDS]) {
  const falt_layer *layer = &plan->layer;
  const int64_t groups = layer->p.output.size[FALT_G];
  int64_t patches, channels, sums;
  falt_memory_layout *all = &plan->base.layout;
  if (!falt_mul(plan->depth, groups * layer->positions, &patches) || !falt_mul(patches, sizeof(float), &patches) ||
      !falt_mul(groups, layer->results, &channels) || !falt_mul(channels, MOST_OUTPUTS * sizeof(float), &sums))
    return false;
  for (int i = 0; i < OPERANDS; i++) plan->room[i] = falt_place_part(all, bytes[i]);
  plan->patches = falt_place_part(all, (size_t)patches);
  plan->sums = falt_place_part(all, (size_t)sums);
  plan->totals = falt_place_part(all, plan->columns ? (size_t)sums : 0);
  plan->factors = falt_place_part(all, 2 * (size_t)channels * sizeof(float));
  plan->base.workspace = all->total;
  return true;
}

static void set_tasks(inner_plan *plan) {
  const falt_layer *layer = &plan->layer;
  plan->block = plan->columns ? UNIT : FALT_INNER_ROWS;
  const int64_t blocks = falt_ceil_div(layer->results, plan->block);
  const double work = (double)layer->results * (double)plan->depth * (double)layer->positions;
  const int64_t threads = falt_threads_count(plan->base.device->threads), worth = 1 + (int64_t)(work / TASK);
  const int64_t wanted = plan->columns ? threads : 4 * threads; /* long pieces of columns are read faster */
  const int64_t least = plan->columns ? falt_ceil_div(blocks, MOST_UNITS) : 1;
  plan->tasks = falt_layer_cut(blocks, falt_min(blocks, falt_max(least, falt_min(wanted, worth))));
}

static falt_plan *plan_inner(const falt_solver *solver, falt_ask *ask) {
  static const falt_plan_table table = {execute, print, destroy, ready};
  size_t bytes[OPERANDS];
  const char *reason = refusal(ask->problem);
  if (reason) return falt_refuse(ask, "%s", reason);
  inner_plan *plan = falt_plan_new(sizeof *plan, &table, solver, ask);
  if (!plan) return NULL;
  reason = upconvert(plan, ask, bytes);
  if (!reason && plan->layer.positions > MOST_OUTPUTS) reason = "too many outputs read each filter row";
  if (!reason && !find_walk(plan)) reason = "neither rows nor columns of the filter are adjacent in memory";
  plan->depth = plan->layer.channels * plan->layer.taps;
  if (!reason && !lay_memory(plan, bytes)) reason = "its patches are too large";
  if (reason) {
    falt_free(plan);
    return falt_refuse(ask, "%s", reason);
  }
  const falt_inner_kernels *kernels = falt_inner_kernels_for(ask->device->isa);
  const falt_type type = ask->problem->filter.type;
  const int which = type == FALT_F32 ? FALT_INNER_F32 : type == FALT_BF16 ? FALT_INNER_BF16 : FALT_INNER_F16;
  plan->dots = kernels->dots[which];
  plan->axpys = kernels->axpys[which];
  set_tasks(plan);
  plan->values = ask->filter_values;
  plan->base.packed = plan->values != NULL;
  plan->base.cost.seconds = estimate(plan, ask->device);
  return &plan->base;
}

extern const falt_solver falt_solver_inner_product;
const falt_solver falt_solver_inner_product = {.name = "inner-product", .device_kind = "cpu", .plan = plan_inner};
