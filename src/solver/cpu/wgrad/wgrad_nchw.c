/* Solver wgrad-nchw: wgrad of dense and depthwise NCHW layers. Transposes x and dy to NHWC in the workspace, which
 * costs little more than a copy, and runs a plan for that layout. The planner takes it for depthwise layers and for
 * strides, where kernels along rows gather single elements. */
#include <math.h>

#include "solver/cpu/common/planes.h"
#include "solver/cpu/common/upconvert.h"
#include "solver/cpu/wgrad/wgrad.h"

enum { LEAST_CHANNELS = 2 /* of both tensors */ };

/* The gradient is a sum over the batch, so all images are transposed before the child runs. */
typedef struct nchw_plan {
  falt_parent parent;
  int channel;       /* the dimension that is transposed: FALT_G of depthwise layers, FALT_C of dense ones */
  falt_type type[2]; /* of the transposed x and dy */
  bool filter_moves; /* the child writes dw with adjacent channels (OHWI), which is transposed to OIHW */
  size_t input, output, filter, inner; /* offsets into the workspace; inner: the child's */
} nchw_plan;

/* ---- execute */

static falt_planes planes_of(const nchw_plan *plan, const falt_operands *operands, bool input) {
  const falt_problem *p = &plan->parent.base.problem;
  return (falt_planes){.planar = input ? &p->input : &p->output,
                       .data = input ? (void *)(uintptr_t)operands->input : operands->output,
                       .images = p->input.size[FALT_N],
                       .channel = plan->channel,
                       .type = plan->type[input ? 0 : 1],
                       .packed = (char *)operands->workspace + (input ? plan->input : plan->output)};
}

static falt_planes filter_of(const nchw_plan *plan, const falt_operands *operands) {
  const falt_tensor *w = &plan->parent.base.problem.filter;
  return (falt_planes){.planar = w,
                       .data = operands->filter,
                       .images = w->size[FALT_K],
                       .channel = FALT_C,
                       .type = w->type,
                       .packed = (char *)operands->workspace + plan->filter,
                       .back = true};
}

static void execute(const falt_plan *base, const falt_operands *operands) {
  const nchw_plan *plan = (const nchw_plan *)base;
  const falt_planes x = planes_of(plan, operands, true), y = planes_of(plan, operands, false);
  falt_operands inner = *operands;
  inner.workspace = (char *)operands->workspace + plan->inner;
  inner.input = x.packed;
  inner.output = y.packed;
  falt_planes_move(base->device, &x);
  falt_planes_move(base->device, &y);
  const falt_planes w = filter_of(plan, operands);
  if (plan->filter_moves) inner.filter = w.packed;
  if (!falt_cancelled()) falt_plan_run(plan->parent.child, &inner);
  if (plan->filter_moves) falt_planes_move(base->device, &w);
}

static void print(const falt_plan *base, falt_text *text) {
  falt_text_add(text, "(wgrad-nchw ");
  falt_parent_print(base, text);
}

/* ---- applicable */

static bool is_depthwise(const falt_problem *p) {
  return p->filter.size[FALT_C] == 1 && p->filter.size[FALT_K] == 1;
}

static const char *inapplicable(const falt_ask *ask) {
  const falt_problem *p = ask->problem;
  const int channel = is_depthwise(p) ? FALT_G : FALT_C;
  return p->operation != FALT_BACKWARD_FILTER                                        ? "only backward-filter"
         : !falt_type_fits_f32(p->input.type) || !falt_type_fits_f32(p->output.type) ? "f32 do not hold its elements"
         : p->accumulator != FALT_F32                                                ? "sums are not in f32"
         : channel == FALT_C && p->filter.size[FALT_G] != 1                          ? "it has groups"
         : p->input.size[channel] < LEAST_CHANNELS || p->output.size[channel] < LEAST_CHANNELS
             ? "too few channels to transpose"
         : p->has_residual                                                       ? "residuals are not transposed"
         : !falt_planes_adjacent(&p->input) || !falt_planes_adjacent(&p->output) ? "pixels are not adjacent in memory"
                                                                                 : NULL;
}

/* ---- estimate: the child reads its operands from the transposed tensors, which are written and read once more */

static double seconds_of(const falt_device *device, const falt_tensor *t, falt_type type, bool back) {
  enum { CACHED = 3 << 18 }; /* elements; of more, pieces of lines come from memory one by one */
  const double elements = (double)falt_tensor_count(t) * (falt_tensor_count(t) > CACHED ? 2 : 1);
  const double bytes = elements * (double)(falt_type_size(t->type) + falt_type_size(type));
  return falt_planes_seconds(device, t, type, back) + falt_roofline(device, FALT_F32, 0, 1, bytes);
}

/* ---- plan */

/* Whether taps are adjacent where channels could be. */
static bool moves_filter(const falt_problem *p) {
  return !is_depthwise(p) && falt_type_fits_f32(p->filter.type) && falt_planes_adjacent(&p->filter);
}

/* Of a child's plan, which is not kept. */
static double child_seconds(falt_ask *ask, const falt_problem *problem) {
  falt_plan *child = falt_plan_child(ask, problem, NULL);
  const double seconds = child ? child->cost.seconds : INFINITY;
  falt_plan_destroy(&child);
  return seconds;
}

/* Of the estimate with a filter that is moved: without is taken for a clear gain. */
static const double clear_gain = 0.9;

/* The child's filter: with adjacent channels, unless caches are far, so that moving what other threads have written
 * takes longer than storing runs of taps. */
static void set_filter(nchw_plan *plan, falt_ask *ask, falt_problem *inner) {
  const falt_tensor *w = &plan->parent.base.problem.filter;
  falt_problem moved = *inner;
  plan->filter_moves = moves_filter(&plan->parent.base.problem);
  if (plan->filter_moves) moved.filter = falt_planes_packed(w, w->size[FALT_K], w->type);
  falt_problem_canonical(&moved);
  falt_problem_canonical(inner);
  const bool chooses = !ask->budget->deterministic && falt_caches_are_far(ask->device); /* children sum differently */
  if (plan->filter_moves && w->type == FALT_F32 && chooses) {
    const double moving = child_seconds(ask, &moved) + seconds_of(ask->device, w, w->type, true);
    plan->filter_moves = child_seconds(ask, inner) >= clear_gain * moving;
  }
  if (plan->filter_moves) *inner = moved;
}

static const char *choose(falt_plan *base, falt_ask *ask) {
  nchw_plan *plan = (nchw_plan *)base;
  const falt_problem *p = ask->problem;
  const bool depthwise = is_depthwise(p);
  falt_problem inner = *p;
  plan->channel = depthwise ? FALT_G : FALT_C;
  plan->type[0] = depthwise ? falt_planes_kept(ask->device, p->input.type) : p->input.type;
  plan->type[1] = depthwise ? falt_planes_kept(ask->device, p->output.type) : p->output.type;
  inner.input = falt_planes_packed(&p->input, p->input.size[FALT_N], plan->type[0]);
  inner.output = falt_planes_packed(&p->output, p->output.size[FALT_N], plan->type[1]);
  set_filter(plan, ask, &inner);
  const char *why = falt_parent_adopt(&plan->parent, ask, &inner, ask->filter_values);
  if (why) return why;
  falt_memory_layout *all = &base->layout;
  plan->inner = falt_place_child(all, plan->parent.child);
  plan->input = falt_place_part(all, (size_t)falt_tensor_count(&p->input) * falt_type_size(plan->type[0]));
  plan->output = falt_place_part(all, (size_t)falt_tensor_count(&p->output) * falt_type_size(plan->type[1]));
  if (plan->filter_moves)
    plan->filter = falt_place_part(all, (size_t)falt_tensor_count(&p->filter) * falt_type_size(p->filter.type));
  base->workspace = all->total;
  base->cost.seconds += seconds_of(ask->device, &p->input, plan->type[0], false);
  base->cost.seconds += seconds_of(ask->device, &p->output, plan->type[1], false);
  if (!depthwise && p->input.type == FALT_F32)
    base->cost.seconds += falt_planes_loads(ask->device, p) + falt_loop_starts(ask->device, plan->filter_moves ? 3 : 2);
  if (plan->filter_moves) base->cost.seconds += seconds_of(ask->device, &p->filter, p->filter.type, true);
  return NULL;
}

static const falt_plan_steps steps = {
    sizeof(nchw_plan), {execute, print, falt_parent_destroy, falt_parent_ready}, inapplicable, choose};

extern const falt_solver falt_solver_wgrad_nchw;
const falt_solver falt_solver_wgrad_nchw = {
    .name = "wgrad-nchw", .device_kind = "cpu", .avx2 = 1.1, .plan = falt_plan_make, .steps = &steps};
