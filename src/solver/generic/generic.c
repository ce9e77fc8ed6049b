/* Solver generic: every problem but filters as factors on CPUs without workspace, at moderate speed. The planner picks
 * it where nothing else applies. Vectors run along the dimension that is adjacent in memory. solver/generic/generic.h
 * describes the parts. */
#include "solver/generic/generic.h"

#include <math.h>
#include <string.h>

/* With max pooling, a run of the solver for each place in the window, with the window's stride, updates the same
 * output.
 *
 * Sums run in f32 or f64 lanes by the problem's types. An integer problem runs in the narrowest lane that holds every
 * partial sum exactly, so its output is exact. Each output is summed by one thread, in an order that depends only on
 * the problem and the instruction set. */

/* ---- lanes */

/* Terms of a sum from which it is in f64: batches, of few terms in the worst case, are added one after another. */
enum { LONG_SUM = 1 << 15 };

static int lane_of(const falt_problem *p) {
  const double bound = falt_problem_sum_bound(p);
  if (isfinite(bound) && p->operation == FALT_FORWARD)
    return bound < 0x1p24 ? FALT_GENERIC_F32 : bound < 0x1p53 ? FALT_GENERIC_F64 : FALT_GENERIC_WIDE;
  if (isfinite(bound)) return bound < 0x1p24 && p->operation == FALT_MAXPOOL ? FALT_GENERIC_F32 : FALT_GENERIC_F64;
  const bool many = p->operation != FALT_BACKWARD_FILTER && falt_problem_depth(p) > LONG_SUM;
  return many || falt_problem_has_f64(p) ? FALT_GENERIC_F64 : FALT_GENERIC_F32;
}

/* ---- versions */

static int64_t magnitude(int64_t a) {
  return a < 0 ? -a : a;
}

/* Makes the axis with the closest elements the width. The order of axes matters only for the first maximum in the
 * gradient of max pooling. */
static void exchange_axes(falt_problem *p) {
  const bool reads_rows = p->operation == FALT_BACKWARD_FILTER || falt_problem_result(p)->size[FALT_W] > 1;
  const falt_tensor *y = reads_rows ? &p->input : falt_problem_result(p);
  int best = 2;
  if (p->operation == FALT_BACKWARD_MAXPOOL) return;
  for (int a = 1; a >= 0; a--) {
    const bool longer = y->size[FALT_D + a] > 1;
    const bool closer = magnitude(y->stride[FALT_D + a]) < magnitude(y->stride[FALT_D + best]);
    if (longer && (closer || y->size[FALT_D + best] == 1)) best = a;
  }
  if (best == 2) return;
  falt_tensor *const tensors[] = {&p->input, &p->filter, &p->output, &p->residual};
  for (int i = 0; i < 4; i++) {
    int64_t *const lists[] = {tensors[i]->size, tensors[i]->stride};
    for (int l = 0; l < 2; l++) {
      const int64_t kept = lists[l][FALT_W];
      lists[l][FALT_W] = lists[l][FALT_D + best];
      lists[l][FALT_D + best] = kept;
    }
  }
  const falt_axis kept = p->axis[2];
  p->axis[2] = p->axis[best];
  p->axis[best] = kept;
  const int64_t pool = p->pool[2];
  p->pool[2] = p->pool[best];
  p->pool[best] = pool;
}

static falt_generic_way way_of(const falt_problem *p) {
  const bool filter = p->operation == FALT_BACKWARD_FILTER;
  const falt_tensor *y = filter ? &p->output : falt_problem_result(p);
  const int64_t k = y->size[FALT_C], c = falt_problem_factor(p, 0)->size[FALT_C];
  const bool short_rows = y->size[FALT_W] < 8;
  const bool rows = falt_tensor_unit(y, FALT_W) && falt_tensor_unit(&p->input, FALT_W) && !short_rows;
  const int64_t channels = filter ? falt_max(k, c) : k;
  if (rows) return FALT_GENERIC_ROWS;
  if (channels >= 8 && y->stride[FALT_C] == 1) return FALT_GENERIC_CHANNELS;
  if (y->size[FALT_G] >= 8 && magnitude(y->stride[FALT_G]) <= falt_max(k, 1)) return FALT_GENERIC_GROUPS;
  if (channels >= 8 && short_rows) return FALT_GENERIC_CHANNELS;
  return y->size[FALT_G] >= 8 && short_rows ? FALT_GENERIC_GROUPS : FALT_GENERIC_ROWS;
}

/* ---- execute */

static void (*const maps[])(const falt_generic_run *) = {falt_generic_map_rows, falt_generic_map_channels,
                                                         falt_generic_map_groups};

/* One place of the windows after the other. */
static void execute_pooled(const falt_generic_run *run) {
  const int64_t *pool = run->plan->p.pool;
  for (int64_t q = 0; q < pool[0] * pool[1] * pool[2]; q++) {
    const int64_t place[3] = {q / pool[2] / pool[1], q / pool[2] % pool[1], q % pool[2]};
    falt_generic_plan plan = *run->plan;
    falt_generic_run one = *run;
    for (int i = 0; i < 3; i++) {
      plan.p.axis[i].pad[0] -= place[i] * plan.p.axis[i].stride;
      plan.p.axis[i].stride *= pool[i];
    }
    one.plan = &plan;
    one.merges = q > 0;
    maps[plan.way](&one);
  }
}

static void execute(const falt_plan *base, const falt_operands *operands) {
  static void (*const filters[])(const falt_generic_run *) = {falt_generic_filter_rows, falt_generic_filter_channels,
                                                              falt_generic_filter_groups};
  const falt_generic_plan *plan = (const falt_generic_plan *)base;
  const falt_generic_run run = {.plan = plan,
                                .operands = operands,
                                .source = falt_factor_data(plan->p.operation, operands, 0),
                                .filter = plan->filter ? plan->filter : operands->filter,
                                .result = falt_result_data(plan->p.operation, operands)};
  if (falt_problem_pools(&plan->p))
    execute_pooled(&run);
  else if (plan->p.operation == FALT_BACKWARD_MAXPOOL && plan->way == FALT_GENERIC_ROWS)
    falt_generic_maxima_rows(&run);
  else
    (plan->p.operation == FALT_BACKWARD_FILTER ? filters : maps)[plan->way](&run);
  if (plan->p.operation == FALT_BACKWARD_FILTER && plan->p.has_bias) falt_generic_bias(&run);
}

static void print(const falt_plan *base, falt_text *text) {
  static const char *const ways[] = {"rows", "channels", "groups"}, *const lanes[] = {"f32", "f64", "wide"};
  const falt_generic_plan *plan = (const falt_generic_plan *)base;
  falt_text_add(text, "(generic %s %s %s)", ways[plan->way], lanes[plan->lane_index], falt_isa_name(base->device->isa));
}

static void destroy(falt_plan *plan) {
  falt_free(((falt_generic_plan *)plan)->filter);
  falt_free(plan);
}

/* ---- plan: applies to everything */

/* Fraction of the multiply-add peak that each version reaches, measured with AVX-512 on layers of 28 x 28 to 56 x 56.
 */
static const double shares[FALT_OPERATION_COUNT][3] = {
    [FALT_FORWARD] = {0.2, 0.25, 0.05},
    [FALT_BACKWARD_DATA] = {0.3, 0.4, 0.05},
    [FALT_BACKWARD_FILTER] = {0.1, 0.5, 0.03},
    [FALT_MAXPOOL] = {0.02, 0.015, 0.015},
    [FALT_AVGPOOL] = {0.015, 0.015, 0.015},
    [FALT_BACKWARD_MAXPOOL] = {0.003, 0.001, 0.001},
    [FALT_BACKWARD_AVGPOOL] = {0.002, 0.005, 0.005},
};

/* The cost of gathering a position's channels for a tap, in operations: as much for many channels as for few. */
static double gathering(const falt_generic_plan *plan, double flops) {
  const falt_tensor *w = &plan->p.filter;
  const double k = (double)w->size[FALT_K], c = (double)w->size[FALT_C];
  if (plan->way != FALT_GENERIC_CHANNELS || falt_is_pooling(plan->p.operation)) return 0;
  return flops / (2 * k * c) * (1000 + 40 * (k + c));
}

/* The cost of loading the weights beyond the fractions above, in operations at the peak: each tile of positions loads
 * all weights, and fewer positions than measured share them. */
static double loading(const falt_generic_plan *plan) {
  enum { TILE = 64, ADJACENT = 64, APART = 700 };
  const falt_tensor *result = &plan->result;
  if (plan->way != FALT_GENERIC_CHANNELS || !falt_reads_filter(plan->p.operation)) return 0;
  const int64_t positions = result->size[FALT_N] * result->size[FALT_D] * result->size[FALT_H] * result->size[FALT_W];
  const double empty = 1 - (double)falt_min(positions, TILE) / TILE;
  return empty * (plan->filter_out == 1 ? ADJACENT : APART) * (double)falt_tensor_count(&plan->p.filter);
}

/* Multiply-adds at the peak that take as long as storing all values, as their epilogue in doubles, with curves one by
 * one, and as storing a weight gradient from sums of columns. */
static double finishing(const falt_generic_plan *plan) {
  enum { STORE = 25, PASS = 175, CURVE = 6000, GRADIENT = 400 };
  const falt_problem *p = &plan->p;
  const bool clips = p->activation == FALT_IDENTITY || p->activation == FALT_RELU || p->activation == FALT_RELU6 ||
                     p->activation == FALT_CLIP;
  if (p->operation == FALT_BACKWARD_FILTER && plan->way == FALT_GENERIC_CHANNELS)
    return GRADIENT * (double)falt_tensor_count(&p->filter);
  if (p->operation != FALT_FORWARD) return 0;
  double values = (double)falt_tensor_count(&p->output);
  if (falt_epilogue_is_identity(p) && !falt_problem_pools(p)) return STORE * values;
  for (int i = 0; i < 3; i++) values *= (double)p->pool[i];
  return values * (clips ? PASS : CURVE);
}

/* Rows are shared by so many output channels in the fractions above: of maps, and of weight gradients. */
enum { SHARING = 12, SHARING_GRADIENT = 4 };

static bool shares_rows(const falt_generic_plan *plan) {
  const bool gradient = plan->p.operation == FALT_BACKWARD_FILTER;
  return plan->way != FALT_GENERIC_ROWS || falt_is_pooling(plan->p.operation) ||
         plan->p.filter.size[gradient || !plan->gathers ? FALT_K : FALT_C] >= (gradient ? SHARING_GRADIENT : SHARING);
}

/* The cost of preparing source rows where few output channels share them, in operations at the peak: for a row and a
 * tap across rows, for an element of these, for a channel. Measured with AVX-512 on depthwise layers. */
static double preparing(const falt_generic_plan *plan) {
  static const double map[3] = {3000, 15, 0}, weights[3] = {5800, 60, 58000};
  const falt_problem *p = &plan->p;
  const bool gradient = p->operation == FALT_BACKWARD_FILTER, data = p->operation == FALT_BACKWARD_DATA;
  const falt_tensor *over = gradient ? &p->output : &plan->result;
  const double *cost = gradient ? weights : map;
  const double channels = (double)over->size[FALT_G] * (double)plan->in_channels;
  double rows = channels * (double)over->size[FALT_N];
  if (shares_rows(plan)) return 0;
  for (int a = 0; a < 2; a++)
    rows *=
        (double)over->size[FALT_D + a] * (double)p->filter.size[FALT_D + a] / (data ? (double)p->axis[a].stride : 1);
  const double views = gradient ? 1 : (double)p->axis[2].stride; /* a row for each polyphase part */
  return rows * (views * cost[0] + cost[1] * (double)over->size[FALT_W]) + channels * cost[2];
}

/* How much longer sums take whose rows are gathered for each tap: outputs of one row are a stride apart. */
static double gathered_rows(const falt_generic_plan *plan, const falt_device *device) {
  const int64_t stride = plan->p.axis[2].stride;
  if (stride == 1) return 1;
  if (shares_rows(plan)) return device->isa == FALT_ISA_AVX2 ? 2 : 1;
  return stride == 2 ? 3.3 : 7;
}

static double estimate(const falt_generic_plan *plan, const falt_device *device) {
  const falt_problem *p = &plan->p;
  const double flops = falt_problem_flops(p);
  const falt_type type = plan->lane_index == FALT_GENERIC_F32 ? FALT_F32 : FALT_F64;
  double share = shares[p->operation][plan->way];
  if (plan->lane_index == FALT_GENERIC_WIDE) share /= 8;
  const bool gradient = p->operation == FALT_BACKWARD_FILTER;
  if (plan->way == FALT_GENERIC_ROWS && gradient && shares_rows(plan) && p->filter.size[FALT_K] < 16)
    share *= (double)p->filter.size[FALT_K] / 16;                        /* few outputs share an input row */
  if (p->operation == FALT_FORWARD && !shares_rows(plan)) share *= 1.75; /* without the rows */
  if (plan->way == FALT_GENERIC_ROWS && magnitude(plan->source.stride[FALT_W]) * p->pool[2] > 1) share /= 4;
  if (plan->way == FALT_GENERIC_ROWS && p->operation == FALT_BACKWARD_DATA && p->axis[2].stride > 1)
    share /= 2; /* a pass for each polyphase part of a row, whose results are not adjacent */
  if (plan->way == FALT_GENERIC_ROWS && p->operation == FALT_FORWARD) share /= gathered_rows(plan, device);
  if (plan->way == FALT_GENERIC_GROUPS && plan->out_channels > 1) share /= 3;
  if (plan->way == FALT_GENERIC_GROUPS && falt_caches_are_far(device)) share /= 2; /* depthwise, 16 threads */
  const double more = gathering(plan, flops) + share * (finishing(plan) + loading(plan) + preparing(plan));
  return falt_roofline(device, type, flops + more, share, falt_problem_bytes(p));
}

/* Copies a filter that is known: only for the plan that was chosen. */
static falt_status ready(falt_plan *base) {
  falt_generic_plan *plan = (falt_generic_plan *)base;
  return falt_plan_copy_filter(base, &plan->values, &plan->filter);
}

static void set_roles(falt_generic_plan *plan) {
  const falt_problem *p = &plan->p;
  const int64_t *stride = p->filter.stride;
  plan->gathers = falt_problem_result(p) == &p->input;
  plan->source = *falt_problem_factor(p, 0);
  plan->result = *falt_problem_result(p);
  plan->out_channels = plan->result.size[FALT_C];
  plan->in_channels = plan->source.size[FALT_C];
  plan->filter_out = stride[plan->gathers ? FALT_C : FALT_K];
  plan->filter_in = stride[plan->gathers ? FALT_K : FALT_C];
  if (p->operation == FALT_FORWARD || p->operation == FALT_BACKWARD_FILTER) plan->fill = p->boundary_value;
  if (p->operation == FALT_MAXPOOL) plan->fill = -INFINITY;
}

static falt_plan *plan_generic(const falt_solver *solver, falt_ask *ask) {
  static const falt_plan_table table = {execute, print, destroy, ready};
  falt_generic_plan *plan = falt_plan_new(sizeof *plan, &table, solver, ask);
  if (!plan) return NULL;
  plan->p = *ask->problem;
  exchange_axes(&plan->p);
  plan->way = way_of(&plan->p);
  plan->lane_index = lane_of(&plan->p);
  plan->lane = falt_generic_kernels_for(ask->device->isa)->lane[plan->lane_index];
  plan->convert = falt_filter_kernels_for(ask->device->isa);
  for (int type = 0; type < FALT_TYPE_COUNT; type++) plan->type_size[type] = falt_type_size((falt_type)type);
  set_roles(plan);
  plan->base.packed = ask->filter_values && falt_reads_filter(plan->p.operation);
  plan->values = plan->base.packed ? ask->filter_values : NULL;
  plan->base.cost.seconds = estimate(plan, ask->device);
  return &plan->base;
}

extern const falt_solver falt_solver_generic;
const falt_solver falt_solver_generic = {.name = "generic", .device_kind = "cpu", .plan = plan_generic, .pools = true};
