/* Solver cuda-wgrad-sm90-nchw: wgrad with wgmma (sm_90a) from NCHW operands, without a layout conversion. Applies to
 * dense layers, f16 and bf16, 3x3 taps in each plane, unit strides, output as large as the input. Split-K slices of the
 * pixels are added in a fixed order. Unaligned operands use the fallback plan. Kernel: cuda_wgrad_sm90_nchw.cu. Tile
 * search: cuda_wgrad_sm90_nchw_tiles.c. */
#include "cuda/gpu.h"
#include "planner/planner.h"
#include "solver/cuda/common/cuda.h"
#include "solver/cuda/common/cuda_igemm.h"
#include "solver/cuda/common/cuda_maps.h"
#include "solver/cuda/common/plan.h"
#include "solver/cuda/igemm_sm90/cuda_wgrad_sm90_nchw_args.h"
#include "solver/cuda/igemm_sm90/cuda_wgrad_sm90_nchw_tiles.h"

typedef struct wgrad_plan {
  falt_cuda_plan cuda;
  falt_wgrad_sm90_nchw_problem layer;
  falt_wgrad_sm90_tile tile;
  falt_cuda_wgrad_sm90_nchw_args args;
} wgrad_plan;

enum { THREADS = 512 };

/* ---- execute */

static void execute(const falt_plan *base, const falt_operands *o) {
  const wgrad_plan *plan = (const wgrad_plan *)base;
  const falt_wgrad_sm90_tile *t = &plan->tile;
  const falt_problem *p = &base->problem;
  falt_cuda_wgrad_sm90_nchw_args a = plan->args;
  a.x.data = falt_cuda_element(o->input, &p->input);
  a.y.data = falt_cuda_element(o->output, &p->output);
  a.sums = o->workspace;
  void *parameters[] = {&a};
  const falt_gpu_launch launch = {plan->cuda.function, t->grid, {THREADS, 1}, t->shared_bytes, o->stream};
  falt_gpu_start(base->device->gpu, &launch, parameters);
  falt_map_add_sums(plan->cuda.sum, base, o, (falt_map_sums){t->split_k, a.rows, t->columns, a.tap_columns});
}

static void print(const falt_plan *base, falt_text *text) {
  const falt_wgrad_sm90_tile *t = &((const wgrad_plan *)base)->tile;
  falt_text_add(text, "(cuda-wgrad-sm90-nchw rows=%d stages=%d split-k=%d)", t->height, t->stages, t->split_k);
}

/* ---- applicable */

/* The most bytes, up to 16, that divide a tensor's rows and all distances between them; 0: its pixels are not
 * contiguous. */
static int unit_of(const falt_tensor *t) {
  const int bytes = (int)falt_type_size(t->type);
  const int64_t ways = t->size[FALT_W] | falt_igemm_unit(t, FALT_W, 16 / bytes);
  return t->stride[FALT_W] != 1 && t->size[FALT_W] > 1 ? 0 : (int)(ways & -ways) * bytes;
}

static bool keeps_size(const falt_problem *p) {
  for (int i = 0; i < 3; i++)
    if (p->axis[i].stride != 1 || p->input.size[FALT_D + i] != p->output.size[FALT_D + i]) return false;
  return true;
}

static bool has_three_taps(const falt_problem *p) {
  for (int i = 1; i < 3; i++)
    if (p->filter.size[FALT_D + i] != 3 || p->axis[i].dilation != 1 || p->axis[i].pad[0] != 1) return false;
  return true;
}

static const char *inapplicable(const falt_ask *ask) {
  const falt_problem *p = ask->problem;
  if (p->operation != FALT_BACKWARD_FILTER) return "it computes wgrad only";
  const char *why = falt_map_type_refusal(ask, p->output.type, p->input.type);
  if (why) return why;
  return !keeps_size(p)                                ? "it takes outputs as large as the input only"
         : !has_three_taps(p)                          ? "a plane of its filter has 3 x 3 taps about the middle"
         : !unit_of(&p->input) || !unit_of(&p->output) ? "its pixels are not contiguous"
         : p->has_bias                                 ? "it has no bias gradient"
                                                       : NULL;
}

/* ---- plan */

static void describe(wgrad_plan *plan, const falt_ask *ask) {
  const falt_problem *p = &plan->cuda.base.problem;
  plan->layer = (falt_wgrad_sm90_nchw_problem){.images = p->input.size[FALT_N],
                                               .depth = p->input.size[FALT_D],
                                               .height = p->input.size[FALT_H],
                                               .width = p->input.size[FALT_W],
                                               .channels = p->input.size[FALT_C],
                                               .results = p->output.size[FALT_C],
                                               .taps = p->filter.size[FALT_D],
                                               .dilation = p->filter.size[FALT_D] > 1 ? p->axis[0].dilation : 1,
                                               .pad = p->axis[0].pad[0],
                                               .unit = (int)falt_min(unit_of(&p->input), unit_of(&p->output)),
                                               .workspace = ask->budget->max_workspace};
}

static falt_cuda_planar_tensor tensor_of(const falt_tensor *t) {
  return (falt_cuda_planar_tensor){
      .image = t->stride[FALT_N], .channel = t->stride[FALT_C], .plane = t->stride[FALT_D], .row = t->stride[FALT_H]};
}

static void fill_args(wgrad_plan *plan) {
  const falt_problem *p = &plan->cuda.base.problem;
  const falt_wgrad_sm90_nchw_problem *l = &plan->layer;
  const falt_wgrad_sm90_tile *t = &plan->tile;
  plan->args = (falt_cuda_wgrad_sm90_nchw_args){.x = tensor_of(&p->input),
                                                .y = tensor_of(&p->output),
                                                .rows = (int)l->results,
                                                .columns = (int)l->channels,
                                                .tap_columns = t->column_tiles * FALT_PLANES_SPAN,
                                                .row_tiles = t->row_tiles,
                                                .column_tiles = t->column_tiles,
                                                .images = (int)l->images,
                                                .depth = (int)l->depth,
                                                .height = (int)l->height,
                                                .taps_d = (int)l->taps,
                                                .dilation = (int)l->dilation,
                                                .pad = (int)l->pad,
                                                .stages = t->items,
                                                .split_k = t->split_k};
}

static falt_status ready(falt_plan *base) {
  wgrad_plan *plan = (wgrad_plan *)base;
  falt_cuda_kernel kernel = {
      .source = "cuda_wgrad_sm90_nchw.cu", .entry = "falt_wgrad_sm90_nchw", .shared_bytes = plan->tile.shared_bytes};
  const falt_cuda_kernel sum = {.source = "cuda_igemm_sm90_sum.cu", .entry = "falt_igemm_sm90_sum"};
  const char *type = falt_type_name(base->problem.input.type);
  falt_cuda_define(&kernel, "PAIR=\"%s.%s\"", type, type);
  falt_cuda_define(&kernel, "WIDTH=%d", (int)plan->layer.width);
  falt_cuda_define(&kernel, "UNIT=%d", plan->layer.unit);
  falt_cuda_define(&kernel, "ROWS=%d", plan->tile.height);
  falt_cuda_define(&kernel, "STAGES=%d", plan->tile.stages);
  return falt_cuda_plan_ready(base, &kernel, &sum);
}

/* The steps of cuda-wgrad-sm90-halo, for a problem and arguments of other types. */
static const char *choose(falt_plan *base, falt_ask *ask) {
  wgrad_plan *plan = (wgrad_plan *)base;
  const falt_machine machine = falt_cuda_machine(ask->device);
  describe(plan, ask);
  const char *why = falt_wgrad_sm90_nchw_refusal(&plan->layer);
  if (why) return why;
  if (!falt_wgrad_sm90_nchw_choose(&plan->layer, &machine, &plan->tile)) return "no tile fits";
  fill_args(plan);
  base->cost.seconds = plan->tile.seconds;
  base->workspace = plan->tile.workspace;
  base->alignment = (falt_alignment){.input = FALT_MAP_ALIGN, .output = FALT_MAP_ALIGN};
  return NULL;
}

static const falt_plan_steps steps = {
    sizeof(wgrad_plan), {execute, print, falt_cuda_plan_destroy, ready}, inapplicable, choose};

extern const falt_solver falt_solver_cuda_wgrad_sm90_nchw;
const falt_solver falt_solver_cuda_wgrad_sm90_nchw = {.name = "cuda-wgrad-sm90-nchw",
                                                      .device_kind = "cuda",
                                                      .plan = falt_cuda_plan_make,
                                                      .steps = &steps,
                                                      .spreads = true,
                                                      .fallbacks = falt_cuda_fallbacks};
