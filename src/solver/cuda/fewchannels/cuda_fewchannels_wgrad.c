/* Solver cuda-fewchannels-wgrad: wgrad of layers with at most 8 input channels by wgmma (sm_90a). Applies to f16 and
 * bf16, one group, 2D, any layout of x, NHWC dy. Copies each input row to shared memory once for all taps. Split-K
 * slices of the pixels are added in a fixed order. Unaligned operands use the fallback plan. Kernel:
 * cuda_fewchannels_wgrad.cu. Tile search: cuda_fewchannels_wgrad_tiles.c. */
#include "solver/cuda/common/cuda_igemm.h"
#include "solver/cuda/common/cuda_maps.h"
#include "solver/cuda/common/plan.h"
#include "solver/cuda/fewchannels/cuda_fewchannels.h"

typedef struct wgrad_plan {
  falt_cuda_plan cuda;
  falt_fewchannels_wgrad_problem layer;
  falt_fewchannels_wgrad_tile tile;
  falt_cuda_fewchannels_wgrad_args args;
  falt_cuda_igemm_wgrad_args sum_args;
} wgrad_plan;

/* ---- execute */

static void execute(const falt_plan *base, const falt_operands *o) {
  const wgrad_plan *plan = (const wgrad_plan *)base;
  const falt_problem *p = &base->problem;
  const falt_fewchannels_wgrad_tile *t = &plan->tile;
  falt_cuda_fewchannels_wgrad_args a = plan->args;
  const falt_gpu_map dy = falt_fewchannels_nhwc_rows_of(&p->output, o->output, 64, t->layer.width, t->layer.paired);
  falt_gpu_encode(base->device->gpu, &dy, &a.layer.map);
  a.layer.x = falt_cuda_element(o->input, &p->input);
  a.sums = o->workspace;
  void *parameters[] = {&a};
  const falt_gpu_launch launch = {
      plan->cuda.function, t->layer.grid, {falt_fewchannels_wgrad_threads(t), 1}, t->shared_bytes, o->stream};
  const int one[2] = {1, 1};
  falt_gpu_start_early(base->device->gpu, &launch, one, parameters);
  falt_igemm_add_slices(base, plan->cuda.sum, &plan->sum_args, o);
}

static void print(const falt_plan *base, falt_text *text) {
  const falt_fewchannels_wgrad_tile *t = &((const wgrad_plan *)base)->tile;
  const falt_fewchannels_nhwc_tile *l = &t->layer;
  falt_text_add(text,
                "(cuda-fewchannels-wgrad pixels=%dx%d channels=%d taps=%d stages=%d batches=%d walk=%d split-k=%lld)",
                l->rows, l->width * l->paired, l->parts * 64 / l->paired, t->taps, t->stages, l->batches, l->walk,
                (long long)t->split_k);
}

/* ---- applicable */

static const char *inapplicable(const falt_ask *ask) {
  const falt_problem *p = ask->problem;
  if (p->operation != FALT_BACKWARD_FILTER) return "it computes wgrad only";
  const char *why = falt_igemm_refusal(ask, p->output.type, p->input.type);
  if (!why) why = falt_fewchannels_nhwc_refusal(ask, p->output.type);
  if (why) return why;
  return !falt_gpu_has_maps(ask->device->gpu) ? "the driver is older than CUDA 12"
         : !falt_map_takes(&p->output, FALT_C)
             ? "the output's channels are not contiguous, or strides are not multiples of 16 bytes"
             : NULL;
}

/* ---- plan */

static falt_status ready(falt_plan *base) {
  wgrad_plan *plan = (wgrad_plan *)base;
  const falt_problem *p = &base->problem;
  const char *type = falt_type_name(p->input.type);
  uint16_t one;
  falt_cuda_kernel kernel = {.source = "cuda_fewchannels_wgrad.cu",
                             .entry = "falt_fewchannels_wgrad",
                             .shared_bytes = plan->tile.shared_bytes};
  const falt_cuda_kernel sum = falt_igemm_sum_kernel(p, "float");
  falt_store(&one, p->input.type, 0, 1);
  falt_cuda_define(&kernel, "PAIR=\"%s.%s\"", type, type);
  falt_cuda_define(&kernel, "BEYOND=%#x", p->has_bias ? one : 0u);
  falt_fewchannels_wgrad_defines(&kernel, &plan->layer, &plan->tile);
  return falt_cuda_plan_ready(base, &kernel, &sum);
}

static const char *choose(falt_plan *base, falt_ask *ask) {
  wgrad_plan *plan = (wgrad_plan *)base;
  const falt_problem *p = &base->problem;
  const falt_machine machine = falt_cuda_machine(ask->device);
  plan->layer =
      (falt_fewchannels_wgrad_problem){falt_fewchannels_nhwc_layer_of(p), p->has_bias, ask->budget->max_workspace};
  if (!falt_fewchannels_wgrad_choose(&plan->layer, &machine, &plan->tile)) return plan->tile.rejected;
  const falt_fewchannels_wgrad_tile *t = &plan->tile;
  const int columns = (int)falt_fewchannels_wgrad_columns(&plan->layer);
  plan->args =
      (falt_cuda_fewchannels_wgrad_args){.layer = falt_fewchannels_nhwc_args_of(p, &plan->layer.layer, &t->layer),
                                         .tap_parts = t->layer.tap_parts,
                                         .columns = columns};
  plan->sum_args = falt_igemm_slices_of(p, 1, (int)t->split_k, columns);
  base->cost.seconds = t->seconds;
  base->workspace = t->workspace;
  base->alignment.output = FALT_MAP_ALIGN;
  return NULL;
}

static const falt_plan_steps steps = {
    sizeof(wgrad_plan), {execute, print, falt_cuda_plan_destroy, ready}, inapplicable, choose};

extern const falt_solver falt_solver_cuda_fewchannels_wgrad;
const falt_solver falt_solver_cuda_fewchannels_wgrad = {.name = "cuda-fewchannels-wgrad",
                                                        .device_kind = "cuda",
                                                        .plan = falt_cuda_plan_make,
                                                        .steps = &steps,
                                                        .spreads = true,
                                                        .fallbacks = falt_cuda_fallbacks};
