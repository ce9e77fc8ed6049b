/* Solvers dgrad-pixelfold and fprop-pixelfold: layers with few output channels, NHWC. `period` neighbouring pixels of
 * the output become one pixel with `period` times the channels, a view of the same memory; the filter is rewritten.
 *
 *     dgrad with a stride:   dx[m*stride + r, c] = dx'[m, (r, c)]     0 <= r < period = stride
 *     forward:               y[m*period + e, k]  = y'[m, (e, k)]      0 <= e < period
 */
#include <string.h>

#include "core/memory.h"
#include "planner/planner.h"

/* Three channels that would leave most of a vector empty become 6 or 48. The dgrad becomes one of a layer with stride 1
 * along the width, the transpose of "space to depth"; the forward layer gets `period` times the stride. The filters
 *
 *     w'[k, (r, c), j] = w[k, c, j*period + r + shift]          w'[(e, k), c, j] = w[k, c, j - e*stride]
 *
 * are small. They are written when planning if the values are known, else with each execution. They contain zeros where
 * no tap exists; the child's estimate includes these products. */

typedef struct fold_plan {
  falt_parent parent;
  int64_t period;
  falt_tensor folded; /* the filter of the child */
  int64_t pad;        /* the child's */
  size_t filter;      /* of the folded filter, an offset into the workspace; behind it scale and bias of all channels */
  size_t scale, bias;
} fold_plan;

/* ---- the child's problem */

static int64_t floor_div(int64_t a, int64_t b) {
  return a / b - (a % b < 0);
}

static bool is_forward(const falt_problem *p) {
  return p->operation == FALT_FORWARD;
}

/* Taps along the child's width, and its pad. */
static int64_t fold_taps(fold_plan *plan, const falt_problem *p) {
  const falt_axis *axis = &p->axis[2];
  const int64_t taps = p->filter.size[FALT_W];
  plan->pad = is_forward(p) ? axis->pad[0] : floor_div(axis->pad[0] + axis->stride - 1, axis->stride);
  return is_forward(p) ? taps + (plan->period - 1) * axis->stride
                       : floor_div(taps - 1 - axis->pad[0], axis->stride) + plan->pad + 1;
}

/* Dense, with contiguous channels. */
static falt_tensor fold_shape(const fold_plan *plan, const falt_problem *p, int64_t taps) {
  static const int outwards[] = {FALT_C, FALT_W, FALT_H, FALT_D, FALT_G, FALT_K};
  falt_tensor w = p->filter;
  w.size[is_forward(p) ? FALT_K : FALT_C] *= plan->period;
  w.size[FALT_W] = taps;
  falt_tensor_order(&w, outwards);
  return w;
}

static falt_problem folded_problem(const fold_plan *plan, const falt_problem *p) {
  falt_problem child = *p;
  falt_tensor *few = is_forward(p) ? &child.output : &child.input;
  falt_axis *axis = &child.axis[2];
  child.filter = plan->folded;
  few->size[FALT_C] *= plan->period;
  few->stride[FALT_C] = 1;
  few->size[FALT_W] /= plan->period;
  few->stride[FALT_W] *= plan->period;
  axis->stride = is_forward(p) ? axis->stride * plan->period : 1;
  axis->pad[0] = plan->pad;
  axis->pad[1] =
      (child.output.size[FALT_W] - 1) * axis->stride + plan->folded.size[FALT_W] - plan->pad - child.input.size[FALT_W];
  return child;
}

/* ---- the filter */

typedef struct folding {
  const fold_plan *plan;
  const char *from;
  char *to;
} folding;

static size_t filter_bytes(const fold_plan *plan) {
  return (size_t)falt_tensor_count(&plan->folded) * falt_type_size(plan->folded.type);
}

/* One row of taps of the child's output channel k, from that of channel k modulo K. */
static void fold_row(const folding *job, int64_t k, const char *from, char *to) {
  const falt_problem *p = &job->plan->parent.base.problem;
  const falt_tensor *w = &p->filter, *folded = &job->plan->folded;
  const size_t size = falt_type_size(w->type), pixel = (size_t)w->size[FALT_C] * size;
  const int64_t period = job->plan->period, channels = w->size[FALT_C], times = folded->size[FALT_C] / channels;
  const int64_t shift =
      is_forward(p) ? -(k / w->size[FALT_K]) * p->axis[2].stride : p->axis[2].pad[0] - job->plan->pad * period;
  memset(to, 0, (size_t)(folded->size[FALT_W] * times) * pixel);
  for (int64_t i = 0; i < folded->size[FALT_W] * times; i++, to += pixel) { /* (tap, pixel of a period) */
    const int64_t j = i + shift;
    if (j < 0 || j >= w->size[FALT_W]) continue;
    const char *tap = from + j * w->stride[FALT_W] * (int64_t)size;
    if (falt_tensor_unit(w, FALT_C)) {
      memcpy(to, tap, pixel);
      continue;
    }
    for (int64_t c = 0; c < channels; c++)
      memcpy(to + (size_t)c * size, tap + c * w->stride[FALT_C] * (int64_t)size, size);
  }
}

static void fold_channel(void *context, int64_t k) {
  const folding *job = context;
  const falt_tensor *from = &job->plan->parent.base.problem.filter, *to = &job->plan->folded;
  const int64_t size = (int64_t)falt_type_size(from->type);
  for (int64_t g = 0; g < from->size[FALT_G]; g++)
    for (int64_t t = 0; t < from->size[FALT_D]; t++)
      for (int64_t r = 0; r < from->size[FALT_H]; r++)
        fold_row(job, k, job->from + falt_tensor_at(from, k % from->size[FALT_K], g, 0, t, r, 0) * size,
                 job->to + falt_tensor_at(to, k, g, 0, t, r, 0) * size);
}

static void fold_filter(const fold_plan *plan, const void *from, void *to) {
  folding job = {plan, from, to};
  falt_parallel_for(plan->parent.base.device->threads, plan->folded.size[FALT_K], fold_channel, &job);
}

/* ---- execute */

/* Bytes of the scale or bias of a group. */
static size_t channel_bytes(const falt_problem *p) {
  return (size_t)p->filter.size[FALT_K] * falt_type_size(falt_type_real(p->output.type));
}

/* Values of a group's channels, once for each pixel of a period. */
static void *repeat(const fold_plan *plan, const void *values, void *memory) {
  const size_t bytes = channel_bytes(&plan->parent.base.problem);
  const char *from = values;
  char *to = memory;
  for (int64_t g = 0; g < plan->parent.base.problem.filter.size[FALT_G]; g++, from += bytes)
    for (int64_t e = 0; e < plan->period; e++, to += bytes) memcpy(to, from, bytes);
  return memory;
}

static void execute(const falt_plan *base, const falt_operands *operands) {
  const fold_plan *plan = (const fold_plan *)base;
  char *workspace = operands->workspace;
  falt_operands inner = *operands;
  if (!plan->parent.child->packed) {
    inner.filter = workspace + plan->filter;
    fold_filter(plan, operands->filter, inner.filter);
  }
  if (base->problem.has_scale) inner.scale = repeat(plan, operands->scale, workspace + plan->scale);
  if (base->problem.has_bias) inner.bias = repeat(plan, operands->bias, workspace + plan->bias);
  falt_plan_run(plan->parent.child, &inner);
}

static void print(const falt_plan *base, falt_text *text) {
  const fold_plan *plan = (const fold_plan *)base;
  falt_text_add(text, "(%s %lld ", base->solver->name, (long long)plan->period);
  falt_parent_print(base, text);
}

/* ---- applicable */

/* Whether pixels are contiguous, so that several can form one. */
static bool are_adjacent(const falt_tensor *t) {
  return falt_tensor_unit(t, FALT_C) && t->stride[FALT_W] == t->size[FALT_C];
}

static const char *refusal_data(const falt_problem *p) {
  const falt_axis *w = &p->axis[2];
  return p->operation != FALT_BACKWARD_DATA ? "only backward-data"
         : w->stride == 1                   ? "its stride along the width is 1: nothing to fold"
         : w->dilation != 1                 ? "taps are dilated along the width"
         : w->boundary[0] != FALT_CONSTANT || w->boundary[1] != FALT_CONSTANT
             ? "gradients beyond the boundary are added to elements inside"
         : !are_adjacent(&p->input)               ? "pixels of the input are not adjacent in memory"
         : p->input.size[FALT_W] % w->stride != 0 ? "the stride does not divide the width"
                                                  : NULL;
}

enum { LINE = 16 }; /* outputs that fill vectors */

/* Words of 4 bytes of a tap row over a number of pixels. */
static int64_t forward_words(const falt_problem *p, int64_t period) {
  const int64_t taps = p->filter.size[FALT_W] + (period - 1) * p->axis[2].stride;
  return falt_ceil_div(taps * p->input.size[FALT_C] * (int64_t)falt_type_size(p->input.type), 4);
}

/* The most pixels whose channels fit into a vector and which divide the width; two vectors if taps of narrow types
 * leave room for twice the pixels in the words that are multiplied anyway. */
static int64_t forward_period(const falt_problem *p) {
  int64_t period = LINE / falt_min(LINE, p->output.size[FALT_C]);
  const bool few = period * p->output.size[FALT_C] <= LINE;
  if (few && forward_words(p, 2 * period) == forward_words(p, period)) period *= 2;
  while (period > 1 && p->output.size[FALT_W] % period != 0) period--;
  return period;
}

static const char *refusal_forward(const falt_problem *p) {
  return p->operation != FALT_FORWARD  ? "only forward"
         : p->has_residual             ? "residuals are not folded"
         : p->axis[2].dilation != 1    ? "taps are dilated along the width"
         : p->filter.size[FALT_W] == 1 ? "of one tap folding makes as many zeros as pixels"
         : !are_adjacent(&p->output)   ? "pixels of the output are not adjacent in memory"
         : forward_period(p) == 1      ? "no number of pixels divides the width and fits into a vector"
         : p->input.size[FALT_C] == 1 && p->output.size[FALT_C] == 1 ? "one channel in and out is a filter"
                                                                     : NULL;
}

/* ---- plan */

/* The child, from the filter's values if they are known. */
static falt_plan *plan_child(fold_plan *plan, falt_ask *ask) {
  const falt_problem child = folded_problem(plan, ask->problem);
  if (!ask->filter_values) return falt_plan_child(ask, &child, NULL);
  plan->parent.values = falt_alloc(filter_bytes(plan));
  if (!plan->parent.values) return falt_refuse_memory(ask);
  fold_filter(plan, ask->filter_values, plan->parent.values);
  return falt_plan_child(ask, &child, plan->parent.values);
}

static void lay_memory(fold_plan *plan, const falt_problem *p) {
  const size_t channels = channel_bytes(p) * (size_t)(plan->period * plan->folded.size[FALT_G]);
  falt_memory_layout *all = &plan->parent.base.layout;
  falt_place_child(all, plan->parent.child);
  plan->filter = falt_place_part(all, plan->parent.child->packed ? 0 : filter_bytes(plan));
  plan->scale = falt_place_part(all, p->has_scale ? channels : 0);
  plan->bias = falt_place_part(all, p->has_bias ? channels : 0);
  plan->parent.base.workspace = all->total;
}

/* Operations in the time of moving one element of a channel that is apart from its neighbours. */
static const double apart = 400;

/* Seconds of folding a filter that is given with each execution, and of loading what other threads have folded. */
static double folding_time(const fold_plan *plan, const falt_device *device) {
  const double elements = (double)falt_tensor_count(&plan->folded), bytes = (double)filter_bytes(plan);
  const bool together = falt_tensor_unit(&plan->parent.base.problem.filter, FALT_C);
  if (plan->parent.child->packed) return 0;
  return falt_roofline(device, FALT_F32, together ? 0 : apart * elements, 1, 2 * bytes) +
         falt_load_written(device, bytes / (double)falt_threads_count(device->threads));
}

static falt_plan *plan_fold(const falt_solver *solver, falt_ask *ask, int64_t period) {
  static const falt_plan_table table = {
      .execute = execute, .print = print, .destroy = falt_parent_destroy, .ready = falt_parent_ready};
  fold_plan *plan = falt_plan_new(sizeof *plan, &table, solver, ask);
  if (!plan) return NULL;
  plan->period = period;
  plan->folded = fold_shape(plan, ask->problem, fold_taps(plan, ask->problem));
  plan->parent.child = plan_child(plan, ask);
  if (!plan->parent.child) {
    falt_parent_destroy(&plan->parent.base);
    return NULL;
  }
  plan->parent.base.packed = plan->parent.child->packed;
  lay_memory(plan, ask->problem);
  plan->parent.base.cost = plan->parent.child->cost;
  plan->parent.base.cost.seconds += folding_time(plan, ask->device);
  return &plan->parent.base;
}

static falt_plan *plan_data(const falt_solver *solver, falt_ask *ask) {
  const char *reason = refusal_data(ask->problem);
  return reason ? falt_refuse(ask, "%s", reason) : plan_fold(solver, ask, ask->problem->axis[2].stride);
}

static falt_plan *plan_forward(const falt_solver *solver, falt_ask *ask) {
  const char *reason = refusal_forward(ask->problem);
  return reason ? falt_refuse(ask, "%s", reason) : plan_fold(solver, ask, forward_period(ask->problem));
}

extern const falt_solver falt_solver_dgrad_pixelfold, falt_solver_fprop_pixelfold;
const falt_solver falt_solver_dgrad_pixelfold = {
    .name = "dgrad-pixelfold", .device_kind = "cpu", .plan = plan_data, .spreads = true};
const falt_solver falt_solver_fprop_pixelfold = {
    .name = "fprop-pixelfold", .device_kind = "cpu", .plan = plan_forward, .spreads = true};
