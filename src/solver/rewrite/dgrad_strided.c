/* Solver dgrad-strided: strided dgrad (transposed convolution) as one forward problem for each polyphase part of the
 * stride, without copies and without zero products. Outputs that no tap reaches are set to zero.
 *
 *     dx[i, c] = sum over k, o and j with o*stride + j*dilation - pad = i of  w[k, c, j] * dy[o, k]
 */
#include <string.h>

#include "core/memory.h"
#include "planner/backend.h"

/* Inputs i that are congruent modulo the stride have the same taps: every (stride/g)-th from some j0 on, where g =
 * gcd(stride, dilation). Tap j0 + q*stride/g of input i0 + m*stride reads output m + base - q*dilation/g. With the taps
 * in reverse order this is a forward problem of stride 1 and dilation dilation/g, from dy to every stride-th element of
 * dx. Its tensors are views with other strides. Its filter is w with its channels exchanged and its taps reversed, also
 * a view. A stride of 1 has one part, the correlation with the rotated filter. Along a circular axis of stride 1 it is
 * the circular one.
 *
 * V. Dumoulin, F. Visin, "A guide to convolution arithmetic for deep learning", 2016, chapter 4; W. Shi et al., "Is the
 * deconvolution layer the same as a convolutional layer?", 2016. */

enum { MOST_POLYPHASES = 256, PRINTED_POLYPHASES = 4 };

/* The inputs first, first + stride, ... of an axis: `count` of them. */
typedef struct polyphase {
  int64_t first, count;
  int64_t tap, taps; /* their first tap, and the number of their taps */
  int64_t base;      /* the output that `first` reads by `tap` */
} polyphase;

typedef struct strided_plan {
  falt_plan base;
  bool gaps;          /* some inputs have no tap */
  bool converts;      /* a filter that is given with each execution, to the order below */
  falt_tensor filter; /* of the children: the problem's, or OHWI in the workspace */
  size_t at;          /* where it is then */
  int count;
  falt_plan *child[MOST_POLYPHASES];
} strided_plan;

/* ---- one axis */

/* The polyphase part whose first tap is `tap` < tap_step; count is 0 if its inputs are beyond the axis. */
static polyphase polyphase_of(const falt_problem *p, int a, int64_t tap) {
  const falt_axis *axis = &p->axis[a];
  const int64_t size = p->input.size[FALT_D + a], taps = p->filter.size[FALT_D + a];
  const int64_t met = tap * axis->dilation - axis->pad[0], rest = met % axis->stride;
  polyphase f = {.first = rest < 0 ? rest + axis->stride : rest, .tap = tap};
  f.count = f.first < size ? falt_ceil_div(size - f.first, axis->stride) : 0;
  f.taps = falt_ceil_div(taps - tap, falt_axis_tap_step(axis));
  f.base = (f.first - met) / axis->stride;
  return f;
}

/* Polyphases of an axis that have a tap, those beyond the axis included. */
static int64_t polyphase_count(const falt_problem *p, int a) {
  return falt_min(falt_axis_tap_step(&p->axis[a]), p->filter.size[FALT_D + a]);
}

/* ---- the inner problems */

static void set_axis(falt_problem *inner, const falt_problem *p, int a, const polyphase *f) {
  const int dim = FALT_D + a;
  const falt_axis *axis = &p->axis[a];
  const int64_t step = falt_axis_tap_step(axis);
  falt_axis *to = &inner->axis[a];
  to->stride = 1;
  to->dilation = axis->dilation / (axis->stride / step);
  to->pad[0] = (f->taps - 1) * to->dilation - f->base;
  to->pad[1] = f->count - 1 + falt_extent(to, f->taps) - to->pad[0] - p->output.size[dim];
  to->boundary[0] = to->boundary[1] = falt_problem_axis_is_circular(p, a) ? FALT_WRAP : FALT_CONSTANT;
  inner->filter.offset += p->filter.stride[dim] * (f->tap + (f->taps - 1) * step);
  inner->filter.stride[dim] = -p->filter.stride[dim] * step;
  inner->filter.size[dim] = f->taps;
  inner->output.offset += p->input.stride[dim] * f->first;
  inner->output.stride[dim] = p->input.stride[dim] * axis->stride;
  inner->output.size[dim] = f->count;
}

static falt_problem inner_problem(const falt_problem *p, const polyphase at[3]) {
  falt_problem inner = *p;
  inner.operation = FALT_FORWARD;
  inner.rank = 0;
  inner.boundary_value = 0;
  inner.input = p->output;
  inner.output = p->input;
  inner.filter.size[FALT_K] = p->filter.size[FALT_C];
  inner.filter.stride[FALT_K] = p->filter.stride[FALT_C];
  inner.filter.size[FALT_C] = p->filter.size[FALT_K];
  inner.filter.stride[FALT_C] = p->filter.stride[FALT_K];
  for (int a = 0; a < 3; a++) set_axis(&inner, p, a, &at[a]);
  return inner;
}

/* ---- inputs without taps: all are cleared before the polyphase parts write theirs */

typedef struct clearing {
  const falt_tensor *x;
  char *data;
  int64_t size; /* bytes of an element */
} clearing;

static void clear_row(char *to, int64_t step, int64_t count, int64_t size) {
  if (step == 1) {
    memset(to, 0, (size_t)(count * size));
    return;
  }
  for (int64_t i = 0; i < count; i++) memset(to + i * step * size, 0, (size_t)size);
}

/* Whether pixels of a row are adjacent, as in NCHW. */
static bool has_planes(const falt_tensor *x) {
  return x->stride[FALT_W] == 1 && x->size[FALT_W] > 1;
}

/* One row of one image, all its channels. */
static void clear_pixels(void *context, int64_t index) {
  const clearing *job = context;
  const falt_tensor *x = job->x;
  const int64_t h = index % x->size[FALT_H], rest = index / x->size[FALT_H];
  for (int64_t g = 0; g < x->size[FALT_G]; g++) {
    char *to = job->data + falt_tensor_at(x, rest / x->size[FALT_D], g, 0, rest % x->size[FALT_D], h, 0) * job->size;
    for (int64_t i = 0; i < x->size[FALT_W]; i++, to += x->stride[FALT_W] * job->size)
      clear_row(to, x->size[FALT_C] == 1 ? 1 : x->stride[FALT_C], x->size[FALT_C], job->size);
  }
}

/* All rows of one channel of one image: no other task writes their cache lines. */
static void clear_plane(void *context, int64_t index) {
  const clearing *job = context;
  const falt_tensor *x = job->x;
  const int64_t c = index % x->size[FALT_C], rest = index / x->size[FALT_C];
  for (int64_t d = 0; d < x->size[FALT_D]; d++)
    for (int64_t h = 0; h < x->size[FALT_H]; h++)
      clear_row(job->data + falt_tensor_at(x, rest / x->size[FALT_G], rest % x->size[FALT_G], c, d, h, 0) * job->size,
                1, x->size[FALT_W], job->size);
}

static void clear(const falt_device *device, clearing *job) {
  const int64_t *size = job->x->size, images = size[FALT_N];
  if (has_planes(job->x))
    falt_parallel_for(device->threads, images * size[FALT_G] * size[FALT_C], clear_plane, job);
  else
    falt_parallel_for(device->threads, images * size[FALT_D] * size[FALT_H], clear_pixels, job);
}

/* ---- the filter: where taps are adjacent, each polyphase part would gather single elements from all of its cache
 * lines */

/* Whether there are polyphase parts that take some of adjacent taps, of a filter that is not known. */
static bool should_convert(const falt_ask *ask, int64_t polyphases) {
  const falt_tensor *w = &ask->problem->filter;
  return !ask->filter_values && ask->budget->max_workspace < 0 && polyphases > 1 && w->type == FALT_F32 &&
         falt_tensor_tap_step(w) == 1 && w->size[FALT_C] > 1 && w->size[FALT_K] > 1;
}

static falt_tensor converted(const falt_tensor *from) {
  static const int outwards[] = {FALT_C, FALT_W, FALT_H, FALT_D, FALT_K, FALT_G};
  falt_tensor w = *from;
  falt_tensor_order(&w, outwards);
  return w;
}

/* ---- execute */

static void execute(const falt_plan *base, const falt_operands *operands) {
  const strided_plan *plan = (const strided_plan *)base;
  const falt_tensor *x = &base->problem.input;
  falt_operands inner = {.input = operands->output,
                         .filter = operands->filter,
                         .output = operands->input,
                         .workspace = operands->workspace,
                         .stream = operands->stream};
  if (plan->converts) {
    void *const filter = (char *)operands->workspace + plan->at;
    falt_backend_of(base->device)
        ->reorder_filter(base->device, &base->problem.filter, operands->filter, &plan->filter, filter);
    inner.filter = filter;
  }
  clearing job = {x, operands->input, (int64_t)falt_type_size(x->type)};
  if (plan->gaps) clear(base->device, &job);
  for (int i = 0; i < plan->count && !falt_cancelled(); i++) {
    const falt_progress_range all = falt_progress_enter((double)i / plan->count, (double)(i + 1) / plan->count);
    falt_plan_run_shared(plan->child[i], &inner);
    falt_progress_leave(all);
  }
}

static void print(const falt_plan *base, falt_text *text) {
  const strided_plan *plan = (const strided_plan *)base;
  falt_text_add(text, "(dgrad-strided %d%s", plan->count, plan->converts ? " ohwi" : "");
  for (int i = 0; i < plan->count && i < PRINTED_POLYPHASES; i++) {
    falt_text_add(text, " ");
    plan->child[i]->table->print(plan->child[i], text);
  }
  falt_text_add(text, plan->count > PRINTED_POLYPHASES ? " ...)" : ")");
}

static void destroy(falt_plan *base) {
  strided_plan *plan = (strided_plan *)base;
  for (int i = 0; i < plan->count; i++) falt_plan_destroy(&plan->child[i]);
  falt_free(plan);
}

static falt_status ready(falt_plan *base) {
  strided_plan *plan = (strided_plan *)base;
  for (int i = 0; i < plan->count; i++) FALT_TRY(falt_plan_ready(plan->child[i]));
  return FALT_OK;
}

/* ---- applicable */

static bool folds(const falt_problem *p) {
  for (int a = 0; a < 3; a++)
    if (falt_problem_axis_folds(p, a) && !falt_problem_axis_is_circular(p, a)) return true;
  return false;
}

static const char *inapplicable(const falt_ask *ask) {
  const falt_problem *p = ask->problem;
  return p->operation != FALT_BACKWARD_DATA ? "only backward-data"
         : folds(p)                         ? "gradients beyond the boundary are added to elements inside"
         : polyphase_count(p, 0) > MOST_POLYPHASES || polyphase_count(p, 1) > MOST_POLYPHASES ||
                 polyphase_count(p, 2) > MOST_POLYPHASES ||
                 polyphase_count(p, 0) * polyphase_count(p, 1) * polyphase_count(p, 2) > MOST_POLYPHASES
             ? "its strides make more than 256 polyphase parts"
             : NULL;
}

/* ---- plan */

static bool add_child(strided_plan *plan, falt_ask *ask, const polyphase at[3]) {
  falt_problem outer = *ask->problem;
  outer.filter = plan->filter;
  const falt_problem inner = inner_problem(&outer, at);
  falt_plan *child = falt_plan_child(ask, &inner, ask->filter_values);
  if (!child) return false;
  plan->child[plan->count++] = child;
  plan->base.packed = plan->base.packed && child->packed;
  plan->base.cost.seconds += child->cost.seconds;
  plan->base.cost.error = child->cost.error > plan->base.cost.error ? child->cost.error : plan->base.cost.error;
  if (child->workspace > plan->base.workspace) plan->base.workspace = child->workspace;
  return true;
}

static void add_conversion(strided_plan *plan) {
  const double each = 40, elements = (double)falt_tensor_count(&plan->filter); /* operations in its time */
  plan->at = (size_t)falt_round_up((int64_t)plan->base.workspace, FALT_ALIGN);
  plan->base.workspace = plan->at + (size_t)falt_tensor_count(&plan->filter) * sizeof(float);
  plan->base.cost.seconds += falt_roofline(plan->base.device, FALT_F32, each * elements, 1, 8 * elements);
}

/* The cost of all polyphase parts, each with its own roofline, plus the bytes to clear. */
static const char *choose(falt_plan *base, falt_ask *ask) {
  strided_plan *plan = (strided_plan *)base;
  const falt_problem *p = ask->problem;
  const int64_t counts[3] = {polyphase_count(p, 0), polyphase_count(p, 1), polyphase_count(p, 2)};
  double inputs = 0;
  plan->base.packed = ask->filter_values != NULL;
  plan->converts = should_convert(ask, counts[0] * counts[1] * counts[2]);
  plan->filter = plan->converts ? converted(&p->filter) : p->filter;
  for (int64_t i = 0; i < counts[0] * counts[1] * counts[2]; i++) {
    const polyphase at[3] = {polyphase_of(p, 0, i / counts[2] / counts[1]),
                             polyphase_of(p, 1, i / counts[2] % counts[1]), polyphase_of(p, 2, i % counts[2])};
    if (!at[0].count || !at[1].count || !at[2].count) continue;
    if (!add_child(plan, ask, at)) return ask->reason;
    inputs += (double)at[0].count * (double)at[1].count * (double)at[2].count;
  }
  if (plan->converts) add_conversion(plan);
  const int64_t *size = p->input.size;
  plan->gaps = inputs < (double)size[FALT_D] * (double)size[FALT_H] * (double)size[FALT_W];
  if (plan->gaps)
    plan->base.cost.seconds += falt_roofline(
        ask->device, FALT_F32, 0, 1, (double)falt_tensor_count(&p->input) * (double)falt_type_size(p->input.type));
  return NULL;
}

static const falt_plan_steps steps = {sizeof(strided_plan), {execute, print, destroy, ready}, inapplicable, choose};

extern const falt_solver falt_solver_dgrad_strided;
const falt_solver falt_solver_dgrad_strided = {
    .name = "dgrad-strided", .device_kind = "cpu", .plan = falt_plan_make, .steps = &steps};
