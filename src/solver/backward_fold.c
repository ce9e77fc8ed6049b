/* Gradients of inputs with few channels and a stride: a period of pixels becomes one pixel of more channels.
 *
 *     dx[m*stride + r, c] = dx'[m, (r, c)]        0 <= r < stride
 *     w'[k, (r, c), e]    = w[k, c, (e - pad')*stride + r + pad], or 0 where that is no tap
 *
 * Where pixels lie side by side along the width (NHWC), `stride` of them are a view of the same memory with stride*C
 * channels, and dx' is the gradient of a layer whose stride along the width is 1: the transpose of the "space to depth"
 * by which first layers of few channels are run. Three channels that would leave most of a vector empty become 6 or
 * 48. The filter, which is small, is written anew, when planning if its values are known by then; the zeros in it are
 * the price, and the child's estimate counts them. */
#include <string.h>

#include "core/memory.h"
#include "planner/planner.h"

typedef struct fold_plan {
  falt_plan base;
  falt_plan *child;
  falt_tensor folded; /* the filter of the child */
  float *values;      /* its elements if they are known, from planning until the child is ready */
  int64_t pad;        /* the child's */
  size_t filter;      /* of the folded filter, an offset into the workspace */
} fold_plan;

/* ---- the child's problem */

static int64_t floor_div(int64_t a, int64_t b) {
  return a / b - (a % b < 0);
}

/* Taps along the child's width; *pad is its pad. */
static int64_t folded_taps(const falt_problem *p, int64_t *pad) {
  const falt_axis *axis = &p->axis[2];
  *pad = floor_div(axis->pad[0] + axis->stride - 1, axis->stride);
  return floor_div(p->filter.size[FALT_W] - 1 - axis->pad[0], axis->stride) + *pad + 1;
}

/* Dense, channels innermost. */
static falt_tensor folded_filter(const falt_problem *p, int64_t taps) {
  static const int outwards[] = {FALT_C, FALT_W, FALT_H, FALT_D, FALT_G, FALT_K};
  falt_tensor w = p->filter;
  w.size[FALT_C] *= p->axis[2].stride;
  w.size[FALT_W] = taps;
  w.offset = 0;
  int64_t stride = 1;
  for (int i = 0; i < FALT_DIMS; i++) {
    w.stride[outwards[i]] = stride;
    stride *= w.size[outwards[i]];
  }
  return w;
}

static falt_problem folded_problem(const falt_problem *p, const falt_tensor *filter, int64_t pad) {
  falt_problem child = *p;
  const int64_t period = p->axis[2].stride;
  child.filter = *filter;
  child.input.size[FALT_C] *= period;
  child.input.stride[FALT_C] = 1;
  child.input.size[FALT_W] /= period;
  child.input.stride[FALT_W] *= period;
  child.axis[2].stride = 1;
  child.axis[2].pad[0] = pad;
  child.axis[2].pad[1] = p->output.size[FALT_W] - 1 + filter->size[FALT_W] - pad - child.input.size[FALT_W];
  return child;
}

/* ---- the filter */

typedef struct folding {
  const fold_plan *plan;
  const float *from;
  float *to;
} folding;

/* One row of taps of an output channel and group. */
static void fold_row(const folding *job, const float *from, float *to) {
  const falt_problem *p = &job->plan->base.problem;
  const int64_t period = p->axis[2].stride, channels = p->filter.size[FALT_C];
  const int64_t taps = job->plan->folded.size[FALT_W];
  int64_t j = p->axis[2].pad[0] - job->plan->pad * period; /* taps in the order of (e, r) */
  for (int64_t i = 0; i < taps * period; i++, j++, to += channels) {
    const bool is_tap = j >= 0 && j < p->filter.size[FALT_W];
    for (int64_t c = 0; c < channels; c++)
      to[c] = is_tap ? from[j * p->filter.stride[FALT_W] + c * p->filter.stride[FALT_C]] : 0;
  }
}

static void fold_channel(void *context, int64_t k) {
  const folding *job = context;
  const falt_tensor *from = &job->plan->base.problem.filter, *to = &job->plan->folded;
  for (int64_t g = 0; g < from->size[FALT_G]; g++)
    for (int64_t t = 0; t < from->size[FALT_D]; t++)
      for (int64_t r = 0; r < from->size[FALT_H]; r++)
        fold_row(job, job->from + falt_tensor_at(from, k, g, 0, t, r, 0),
                 job->to + falt_tensor_at(to, k, g, 0, t, r, 0));
}

static void fold_filter(const fold_plan *plan, const void *from, float *to) {
  folding job = {plan, from, to};
  falt_parallel_for(plan->base.device->threads, plan->folded.size[FALT_K], fold_channel, &job);
}

/* ---- execute */

static void execute(const falt_plan *base, const falt_operands *operands) {
  const fold_plan *plan = (const fold_plan *)base;
  falt_operands inner = *operands;
  if (!plan->child->packed) {
    inner.filter = (char *)operands->workspace + plan->filter;
    fold_filter(plan, operands->filter, inner.filter);
  }
  plan->child->table->execute(plan->child, &inner);
}

static void print(const falt_plan *base, falt_text *text) {
  const fold_plan *plan = (const fold_plan *)base;
  falt_text_add(text, "(fold %lld ", (long long)base->problem.axis[2].stride);
  plan->child->table->print(plan->child, text);
  falt_text_add(text, ")");
}

static void destroy(falt_plan *base) {
  fold_plan *plan = (fold_plan *)base;
  falt_plan_destroy(&plan->child);
  falt_free(plan->values);
  falt_free(plan);
}

static falt_status ready(falt_plan *base) {
  fold_plan *plan = (fold_plan *)base;
  FALT_TRY(falt_plan_ready(plan->child));
  falt_free(plan->values);
  plan->values = NULL;
  return FALT_OK;
}

/* ---- applicable */

static const char *refusal(const falt_problem *p) {
  const falt_axis *w = &p->axis[2];
  return p->operation != FALT_BACKWARD_DATA ? "only backward-data"
         : p->filter.type != FALT_F32       ? "only filters in f32"
         : w->stride == 1                   ? "its stride along the width is 1: nothing to fold"
         : w->dilation != 1                 ? "taps are dilated along the width"
         : w->boundary[0] != FALT_CONSTANT || w->boundary[1] != FALT_CONSTANT
             ? "gradients of elements beyond the boundary fold back onto those inside"
         : !falt_tensor_unit(&p->input, FALT_C) || p->input.stride[FALT_W] != p->input.size[FALT_C]
             ? "pixels of the input are not adjacent in memory"
         : p->input.size[FALT_W] % w->stride != 0 ? "the stride does not divide the width"
                                                  : NULL;
}

/* ---- plan */

/* The child, from the filter's values if they are known. */
static falt_plan *plan_child(fold_plan *plan, falt_ask *ask) {
  const falt_problem child = folded_problem(ask->problem, &plan->folded, plan->pad);
  if (!ask->filter_values) return falt_plan_child(ask, &child, NULL);
  plan->values = falt_alloc((size_t)falt_tensor_count(&plan->folded) * sizeof *plan->values);
  if (!plan->values) return falt_refuse_memory(ask);
  fold_filter(plan, ask->filter_values, plan->values);
  return falt_plan_child(ask, &child, plan->values);
}

static falt_plan *plan_fold(const falt_solver *solver, falt_ask *ask) {
  static const falt_plan_table table = {.execute = execute, .print = print, .destroy = destroy, .ready = ready};
  const char *reason = refusal(ask->problem);
  if (reason) return falt_refuse(ask, "%s", reason);
  fold_plan *plan = falt_plan_new(sizeof *plan, &table, solver, ask);
  if (!plan) return NULL;
  plan->folded = folded_filter(ask->problem, folded_taps(ask->problem, &plan->pad));
  plan->child = plan_child(plan, ask);
  if (!plan->child) {
    destroy(&plan->base);
    return NULL;
  }
  const double bytes = plan->child->packed ? 0 : 2 * (double)falt_tensor_count(&plan->folded) * sizeof(float);
  plan->base.packed = plan->child->packed;
  plan->filter = (plan->child->workspace + FALT_ALIGN - 1) / FALT_ALIGN * FALT_ALIGN;
  plan->base.workspace = plan->child->packed ? plan->child->workspace : plan->filter + (size_t)bytes / 2;
  plan->base.cost = plan->child->cost;
  plan->base.cost.seconds += bytes > 0 ? falt_roofline(ask->device, FALT_F32, 0, 1, bytes) : 0;
  return &plan->base;
}

extern const falt_solver falt_solver_fold;
const falt_solver falt_solver_fold = {.name = "fold", .device_kind = "cpu", .plan = plan_fold};
