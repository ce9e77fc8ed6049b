/* Solver cuda-depthwise-wgrad: depthwise wgrad, with the bias gradient, by direct sums in registers. Any layout,
 * stride, dilation and type. Split-K slices of the positions are added in a fixed order, so the output is
 * deterministic. Kernel: cuda_depthwise_wgrad.cu. Tile search: cuda_depthwise_tiles.c. */
#include "planner/planner.h"
#include "solver/cuda/common/cuda_igemm.h"
#include "solver/cuda/common/plan.h"
#include "solver/cuda/depthwise/cuda_depthwise.h"

typedef struct wgrad_plan {
  falt_cuda_plan cuda;
  falt_depthwise_cut wide, narrow; /* narrow: for any address */
  falt_cuda_depthwise_args args;
} wgrad_plan;

/* ---- execute */

static int channels_of_block(const falt_depthwise_cut *c) {
  return c->tile.lanes * (c->shape.inner ? c->tile.unit : 1);
}

static void execute(const falt_plan *base, const falt_operands *o) {
  const wgrad_plan *plan = (const wgrad_plan *)base;
  falt_cuda_depthwise_args args = falt_depthwise_bind(&plan->args, &base->problem, o);
  const falt_depthwise_cut *c = falt_depthwise_aligned(&args, &plan->wide) ? &plan->wide : &plan->narrow;
  args.tiles = (unsigned)c->tile.tiles;
  args.split_k = (unsigned)c->tile.split_k;
  void *parameters[] = {&args};
  const falt_gpu_launch launch = {
      c->function, falt_ceil_div(c->shape.channels, channels_of_block(c)), {c->tile.threads, 1}, 0, o->stream};
  const int blocks_yz[2] = {(int)c->tile.split_k, c->tile.parts * (int)c->shape.axis[0].taps};
  falt_depthwise_start(base, &launch, blocks_yz, parameters);
  if (c->tile.split_k > 1) falt_depthwise_add_slices(plan->cuda.sum, base, &args, o->stream);
}

static void print(const falt_plan *base, falt_text *text) {
  const wgrad_plan *plan = (const wgrad_plan *)base;
  falt_text_add(text, "(cuda-depthwise-wgrad ");
  falt_depthwise_print(&plan->wide, text);
  falt_text_add(text, " lanes=%d split-k=%lld)", plan->wide.tile.lanes, (long long)plan->wide.tile.split_k);
}

/* ---- applicable */

static const char *inapplicable(const falt_ask *ask) {
  if (ask->problem->operation != FALT_BACKWARD_FILTER) return "it computes wgrad only";
  return falt_depthwise_refusal(ask);
}

/* ---- ready */

static falt_status ready_cut(const wgrad_plan *plan, falt_depthwise_cut *c) {
  const falt_problem *p = &plan->cuda.base.problem;
  falt_cuda_kernel kernel = {.source = "cuda_depthwise_wgrad.cu", .entry = "falt_depthwise_wgrad"};
  falt_depthwise_defines(p, c, &kernel);
  falt_cuda_define(&kernel, "TYPE_W=%d", (int)p->filter.type);
  falt_cuda_define(&kernel, "LANES=%d", c->tile.lanes);
  falt_cuda_define(&kernel, "BIAS=%d", p->has_bias);
  falt_cuda_define(&kernel, "ALONE=%d", c->tile.split_k == 1);
  return falt_gpu_kernel(plan->cuda.base.device->gpu, &kernel, &c->function);
}

static falt_status ready(falt_plan *base) {
  wgrad_plan *plan = (wgrad_plan *)base;
  FALT_TRY(ready_cut(plan, &plan->wide));
  FALT_TRY(ready_cut(plan, &plan->narrow));
  return falt_depthwise_sum_kernel(base, &plan->cuda.sum);
}

/* ---- plan */

static const char *choose(falt_plan *base, falt_ask *ask) {
  wgrad_plan *plan = (wgrad_plan *)base;
  if (!falt_depthwise_cut_of(&plan->wide, ask, false) || !falt_depthwise_cut_of(&plan->narrow, ask, true))
    return "no tile fits the GPU";
  plan->args = falt_depthwise_args_of(&base->problem);
  const int64_t wide = plan->wide.tile.partial, narrow = plan->narrow.tile.partial;
  base->workspace = (size_t)(wide > narrow ? wide : narrow);
  base->cost.seconds = (plan->wide.tile.split_k > 1 ? 3.8e-6 : 2.2e-6) + plan->wide.tile.seconds;
  return NULL;
}

static const falt_plan_steps steps = {
    sizeof(wgrad_plan), {execute, print, falt_cuda_plan_destroy, ready}, inapplicable, choose};

extern const falt_solver falt_solver_cuda_depthwise_wgrad;
const falt_solver falt_solver_cuda_depthwise_wgrad = {
    .name = "cuda-depthwise-wgrad", .device_kind = "cuda", .plan = falt_cuda_plan_make, .steps = &steps};
