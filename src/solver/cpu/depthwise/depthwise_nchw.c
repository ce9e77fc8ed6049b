/* Solver depthwise-nchw: NCHW depthwise layers, fprop and dgrad. Transposes a few images to NHWC in the
 * workspace, runs an NHWC plan, and transposes its output back. 16-bit elements stay narrow, others become f32. */
#include "solver/cpu/common/planes.h"
#include "solver/cpu/common/upconvert.h"

/* Kernels along channels take a fraction of the time of kernels along rows where rows are short, and a transpose in
 * registers costs little more than a copy. The images of one step are so few that both tensors stay in the caches. */

enum {
  PIECE = 3 << 18, /* elements of the images that are transposed at a time, if one has not more */
  LEAST_CHANNELS = 8
};

typedef struct nchw_plan {
  falt_parent parent;
  int64_t images, pieces;
  size_t source, result, inner; /* offsets into the workspace; inner: the child's */
} nchw_plan;

/* ---- tensors */

static falt_tensor *source_of(falt_problem *p) {
  return p->operation == FALT_FORWARD ? &p->input : &p->output;
}

static falt_tensor *result_of(falt_problem *p) {
  return p->operation == FALT_FORWARD ? &p->output : &p->input;
}

/* The type of a transposed tensor. */
static falt_type kept(const nchw_plan *plan, const falt_tensor *planar) {
  return falt_planes_kept(plan->parent.base.device, planar->type);
}

static falt_problem inner_problem(const nchw_plan *plan) {
  falt_problem inner = plan->parent.base.problem;
  inner.input = falt_planes_packed(&inner.input, plan->images, kept(plan, &inner.input));
  inner.output = falt_planes_packed(&inner.output, plan->images, kept(plan, &inner.output));
  inner.accumulator = FALT_F32;
  falt_problem_canonical(&inner);
  return inner;
}

/* ---- execute */

/* Both tensors between their planes and the workspace. */
static falt_planes planes_of(const nchw_plan *plan, const falt_tensor *planar, const void *data, void *packed,
                             bool back) {
  return (falt_planes){.planar = planar,
                       .data = (void *)(uintptr_t)data,
                       .images = plan->images,
                       .channel = FALT_G,
                       .type = kept(plan, planar),
                       .packed = packed,
                       .back = back};
}

static void execute(const falt_plan *base, const falt_operands *operands) {
  const nchw_plan *plan = (const nchw_plan *)base;
  const bool forward = base->problem.operation == FALT_FORWARD;
  falt_problem p = base->problem;
  char *workspace = operands->workspace, *source = workspace + plan->source, *result = workspace + plan->result;
  falt_operands inner = *operands;
  inner.workspace = workspace + plan->inner;
  inner.input = forward ? source : result;
  inner.output = forward ? result : source;
  falt_planes_run(plan->parent.child, &inner,
                  planes_of(plan, source_of(&p), forward ? operands->input : operands->output, source, false),
                  planes_of(plan, result_of(&p), forward ? operands->output : operands->input, result, true));
}

static void print(const falt_plan *base, falt_text *text) {
  falt_text_add(text, "(depthwise-nchw images=%lld ", (long long)((const nchw_plan *)base)->images);
  falt_parent_print(base, text);
}

/* ---- applicable */

static const char *refusal(falt_problem *p) {
  const bool maps = p->operation == FALT_FORWARD || p->operation == FALT_BACKWARD_DATA;
  return !maps                                                        ? "only forward and backward-data"
         : !falt_problem_is_f32(p) && falt_upconvert_refusal(p)       ? falt_upconvert_refusal(p)
         : p->filter.size[FALT_C] != 1 || p->filter.size[FALT_K] != 1 ? "a group has more than one channel in or out"
         : p->filter.size[FALT_G] < LEAST_CHANNELS                    ? "too few channels for vectors"
         : p->has_residual                                            ? "residuals are not transposed"
         : falt_problem_pools(p)                                      ? "it does not pool"
         : !falt_planes_adjacent(source_of(p)) || !falt_planes_adjacent(result_of(p))
             ? "pixels are not adjacent in memory"
             : NULL;
}

/* ---- plan */

/* As many images as stay in the caches, and divide the batch. */
static void set_pieces(nchw_plan *plan) {
  falt_problem p = plan->parent.base.problem;
  const int64_t batch = p.input.size[FALT_N];
  const int64_t image =
      p.filter.size[FALT_G] * falt_max(1, falt_planes_pixels(&p.input) + falt_planes_pixels(&p.output));
  plan->images = falt_max(1, falt_min(batch, PIECE / image));
  while (batch % plan->images) plan->images--;
  plan->pieces = batch / plan->images;
}

static size_t bytes_of(const nchw_plan *plan, const falt_tensor *t) {
  return (size_t)(plan->images * t->size[FALT_G] * falt_planes_pixels(t)) * falt_type_size(kept(plan, t));
}

/* Of the transposed tensors' way to memory and back, where one image leaves the caches. */
static double memory_seconds(const nchw_plan *plan, const falt_device *device, falt_problem *p) {
  const double bytes = (double)bytes_of(plan, source_of(p)) + (double)bytes_of(plan, result_of(p));
  if (bytes <= 2.0 * PIECE * sizeof(float)) return 0;
  return (double)plan->pieces * falt_roofline(device, FALT_F32, 0, 1, 2 * bytes);
}

static const char *inapplicable(const falt_ask *ask) {
  falt_problem p = *ask->problem;
  return refusal(&p);
}

static const char *choose(falt_plan *base, falt_ask *ask) {
  nchw_plan *plan = (nchw_plan *)base;
  falt_problem p = *ask->problem;
  set_pieces(plan);
  const falt_problem inner = inner_problem(plan);
  const char *why = falt_parent_adopt(&plan->parent, ask, &inner, ask->filter_values);
  if (why) return why;
  falt_memory_layout *all = &plan->parent.base.layout;
  plan->inner = falt_place_child(all, plan->parent.child);
  plan->source = falt_place_part(all, bytes_of(plan, source_of(&p)));
  plan->result = falt_place_part(all, bytes_of(plan, result_of(&p)));
  plan->parent.base.workspace = all->total;
  plan->parent.base.cost.seconds *= (double)plan->pieces;
  const falt_tensor *source = source_of(&p), *result = result_of(&p);
  plan->parent.base.cost.seconds += falt_planes_seconds(ask->device, source, kept(plan, source), false);
  plan->parent.base.cost.seconds += falt_planes_seconds(ask->device, result, kept(plan, result), true);
  plan->parent.base.cost.seconds += memory_seconds(plan, ask->device, &p);
  return NULL;
}

static const falt_plan_steps steps = {
    sizeof(nchw_plan), {execute, print, falt_parent_destroy, falt_parent_ready}, inapplicable, choose};

extern const falt_solver falt_solver_depthwise_nchw;
const falt_solver falt_solver_depthwise_nchw = {
    .name = "depthwise-nchw", .device_kind = "cpu", .avx2 = 1.3, .plan = falt_plan_make, .steps = &steps};
