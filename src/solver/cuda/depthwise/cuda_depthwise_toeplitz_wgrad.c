/* Solver cuda-depthwise-toeplitz-wgrad: depthwise wgrad on tensor cores. Applies to f16 and bf16, 2D, stride 1, zero
 * padding, without a bias gradient. Kernels: cuda_depthwise_toeplitz_wgrad.cu for NCHW, cuda_depthwise_diagonals.cu for
 * NHWC (sm_90a). Split-K slices of the images are added in a fixed order, so the output is deterministic. Unaligned
 * operands use the fallback plan. */
#include "cuda/gpu.h"
#include "planner/planner.h"
#include "solver/cuda/common/cuda_igemm.h"
#include "solver/cuda/common/plan.h"
#include "solver/cuda/depthwise/cuda_depthwise_toeplitz.h"

typedef struct wgrad_plan {
  falt_cuda_plan cuda;
  falt_cuda_depthwise_args args;
  falt_depthwise_toeplitz_shape shape;
  falt_depthwise_toeplitz_wgrad_tile tile;
} wgrad_plan;

/* ---- execute */

static void execute(const falt_plan *base, const falt_operands *o) {
  const wgrad_plan *plan = (const wgrad_plan *)base;
  falt_cuda_depthwise_args args = falt_depthwise_bind(&plan->args, &base->problem, o);
  void *parameters[] = {&args};
  const int64_t parts = falt_ceil_div(plan->shape.channels, plan->tile.span);
  const falt_gpu_launch launch = {
      plan->cuda.function, parts, {32 * plan->tile.warps, 1}, plan->tile.shared_bytes, o->stream};
  const int blocks_yz[2] = {(int)plan->tile.split_k, 1};
  falt_depthwise_start(base, &launch, blocks_yz, parameters);
  falt_depthwise_add_slices(plan->cuda.sum, base, &args, o->stream);
}

static void print(const falt_plan *base, falt_text *text) {
  const falt_depthwise_toeplitz_wgrad_tile *t = &((const wgrad_plan *)base)->tile;
  if (((const wgrad_plan *)base)->shape.inner)
    falt_text_add(text, "(cuda-depthwise-toeplitz-wgrad channels=%d rows=%d blocks=%d split-k=%lld)", t->span, t->slab,
                  t->blocks, (long long)t->split_k);
  else
    falt_text_add(text, "(cuda-depthwise-toeplitz-wgrad images=%d warps=%d blocks=%d split-k=%lld)", t->images,
                  t->warps, t->blocks, (long long)t->split_k);
}

/* ---- applicable */

static const char *inapplicable(const falt_ask *ask) {
  const falt_problem *p = ask->problem;
  if (p->operation != FALT_BACKWARD_FILTER) return "it computes wgrad only";
  const char *why = falt_depthwise_toeplitz_inapplicable(ask);
  return why ? why : p->has_bias ? "it has no bias gradient" : NULL;
}

/* ---- ready */

static falt_status ready(falt_plan *base) {
  wgrad_plan *plan = (wgrad_plan *)base;
  const falt_problem *p = &base->problem;
  const char *type = falt_type_name(p->input.type);
  falt_cuda_kernel kernel = {
      .source = plan->shape.inner ? "cuda_depthwise_diagonals.cu" : "cuda_depthwise_toeplitz_wgrad.cu",
      .entry = plan->shape.inner ? "falt_depthwise_diagonals" : "falt_depthwise_toeplitz_wgrad",
      .shared_bytes = plan->tile.shared_bytes};
  falt_cuda_define(&kernel, "PAIR=\"%s.%s\"", type, type);
  falt_cuda_define(&kernel, "KIND=%s", falt_cuda_products(p->input.type, p->output.type));
  falt_cuda_define(&kernel, "MULTIPLE=%d", (int)p->filter.size[FALT_K]);
  falt_cuda_define(&kernel, "X_R=%d", (int)falt_cuda_stride(&p->input, FALT_H));
  falt_cuda_define(&kernel, "X_S=%d", (int)falt_cuda_stride(&p->input, FALT_W));
  falt_cuda_define(&kernel, "Y_R=%d", (int)falt_cuda_stride(&p->output, FALT_H));
  falt_cuda_define(&kernel, "Y_S=%d", (int)falt_cuda_stride(&p->output, FALT_W));
  falt_depthwise_toeplitz_wgrad_defines(&kernel, &plan->shape, &plan->tile);
  FALT_TRY(falt_gpu_kernel(base->device->gpu, &kernel, &plan->cuda.function));
  return falt_depthwise_sum_kernel(base, &plan->cuda.sum);
}

/* ---- plan */

static const char *choose(falt_plan *base, falt_ask *ask) {
  wgrad_plan *plan = (wgrad_plan *)base;
  const falt_machine machine = falt_cuda_machine(ask->device);
  const char *why = falt_depthwise_toeplitz_describe(&plan->cuda.base.problem, &plan->shape);
  if (why) return why;
  if (!falt_depthwise_toeplitz_wgrad_choose(&plan->shape, &machine, ask->budget->max_workspace, &plan->tile))
    return "no tile fits the GPU and the workspace";
  plan->args = falt_depthwise_args_of(&plan->cuda.base.problem);
  plan->args.split_k = (unsigned)plan->tile.split_k;
  plan->cuda.base.workspace = (size_t)plan->tile.partial;
  plan->cuda.base.cost.seconds = plan->tile.seconds;
  plan->cuda.base.alignment = falt_depthwise_toeplitz_alignment(&plan->cuda.base.problem, &plan->shape);
  return NULL;
}

static const falt_plan_steps steps = {
    sizeof(wgrad_plan), {execute, print, falt_cuda_plan_destroy, ready}, inapplicable, choose};

extern const falt_solver falt_solver_cuda_depthwise_toeplitz_wgrad;
const falt_solver falt_solver_cuda_depthwise_toeplitz_wgrad = {.name = "cuda-depthwise-toeplitz-wgrad",
                                                               .device_kind = "cuda",
                                                               .plan = falt_cuda_plan_make,
                                                               .steps = &steps,
                                                               .fallbacks = falt_cuda_depthwise_fallbacks};
