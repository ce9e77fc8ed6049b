/* Solver cuda-wgrad-sm90-halo: wgrad with wgmma and TMA (sm_90a) that loads each halo tile of a plane once for all
 * taps. Applies to dense NHWC layers, f16 and bf16, without strides and bias gradient. It pays for about 64 channels,
 * where loads tap by tap are the bottleneck. Split-K slices of the pixels are added in a fixed order. Unaligned
 * operands use the fallback plan. Kernel: cuda_wgrad_sm90_halo.cu. Tile search: cuda_wgrad_sm90_halo_tiles.c. */
#include "cuda/gpu.h"
#include "planner/planner.h"
#include "solver/cuda/common/cuda.h"
#include "solver/cuda/common/cuda_maps.h"
#include "solver/cuda/common/plan.h"
#include "solver/cuda/igemm_sm90/cuda_igemm_sm90_halo_args.h"
#include "solver/cuda/igemm_sm90/cuda_igemm_sm90_halo_tiles.h"

typedef struct wgrad_plan {
  falt_cuda_plan cuda;
  falt_wgrad_sm90_halo_problem layer;
  falt_wgrad_sm90_tile tile;
  falt_cuda_wgrad_sm90_halo_args args;
} wgrad_plan;

/* ---- execute */

/* The descriptor of a tensor in boxes of rows, columns and a span of channels. */
static falt_gpu_map boxes_of(const falt_tensor *t, void *data, int64_t height, int64_t width) {
  static const int dims[5] = {FALT_C, FALT_W, FALT_H, FALT_D, FALT_N};
  falt_gpu_map m = {.type = t->type, .rank = 5, .data = falt_cuda_element(data, t)};
  for (int i = 0; i < 5; i++) falt_map_dimension(&m, i, t, dims[i]);
  m.box[0] = FALT_PLANES_SPAN;
  m.box[1] = (uint32_t)width;
  m.box[2] = (uint32_t)height;
  return m;
}

static void execute(const falt_plan *base, const falt_operands *o) {
  const wgrad_plan *plan = (const wgrad_plan *)base;
  const falt_wgrad_sm90_halo_problem *l = &plan->layer;
  const falt_wgrad_sm90_tile *t = &plan->tile;
  const falt_problem *p = &base->problem;
  falt_cuda_wgrad_sm90_halo_args a = plan->args;
  const falt_gpu_map y = boxes_of(&p->output, o->output, t->height, t->width);
  const falt_gpu_map x = boxes_of(&p->input, o->input, t->height + (l->taps[1] - 1) * l->dilation[1],
                                  t->width + (l->taps[2] - 1) * l->dilation[2]);
  falt_gpu_encode(base->device->gpu, &x, &a.x);
  falt_gpu_encode(base->device->gpu, &y, &a.y);
  a.sums = o->workspace;
  void *parameters[] = {&a};
  const falt_gpu_launch launch = {
      plan->cuda.function, t->grid, {128 * ((int)l->taps[1] + 1), 1}, t->shared_bytes, o->stream};
  const int one[2] = {1, 1};
  falt_gpu_start_early(base->device->gpu, &launch, one, parameters);
  falt_map_add_sums(plan->cuda.sum, base, o, (falt_map_sums){t->split_k, a.rows, t->columns, a.tap_columns});
}

static void print(const falt_plan *base, falt_text *text) {
  const wgrad_plan *plan = (const wgrad_plan *)base;
  const falt_wgrad_sm90_tile *t = &plan->tile;
  falt_text_add(text, "(cuda-wgrad-sm90-halo pixels=%dx%d stages=%d split-k=%d)", t->height, t->width, t->stages,
                t->split_k);
}

/* ---- applicable */

static bool has_strides(const falt_problem *p) {
  for (int i = 0; i < 3; i++)
    if (p->axis[i].stride > 1 && p->output.size[FALT_D + i] > 1) return true;
  return false;
}

static const char *inapplicable(const falt_ask *ask) {
  const falt_problem *p = ask->problem;
  if (p->operation != FALT_BACKWARD_FILTER) return "it computes wgrad only";
  const char *why = falt_map_refusal(ask, p->output.type, p->input.type);
  if (why) return why;
  return has_strides(p) ? "it takes no strides" : p->has_bias ? "it has no bias gradient" : NULL;
}

/* ---- plan */

static void describe(wgrad_plan *plan, const falt_ask *ask) {
  const falt_problem *p = &plan->cuda.base.problem;
  falt_wgrad_sm90_halo_problem *l = &plan->layer;
  *l = (falt_wgrad_sm90_halo_problem){.images = p->input.size[FALT_N],
                                      .channels = p->input.size[FALT_C],
                                      .results = p->output.size[FALT_C],
                                      .workspace = ask->budget->max_workspace};
  for (int i = 0; i < 3; i++) {
    l->taps[i] = p->filter.size[FALT_D + i];
    l->dilation[i] = l->taps[i] > 1 ? p->axis[i].dilation : 1;
    l->in[i] = p->input.size[FALT_D + i];
    l->out[i] = p->output.size[FALT_D + i];
    l->corner[i] = -p->axis[i].pad[0];
  }
}

static void fill_args(wgrad_plan *plan) {
  const falt_wgrad_sm90_halo_problem *l = &plan->layer;
  const falt_wgrad_sm90_tile *t = &plan->tile;
  falt_cuda_wgrad_sm90_halo_args *a = &plan->args;
  *a = (falt_cuda_wgrad_sm90_halo_args){.rows = (int)l->results,
                                        .tap_columns = t->column_tiles * FALT_PLANES_SPAN,
                                        .row_tiles = t->row_tiles,
                                        .column_tiles = t->column_tiles,
                                        .items = t->items,
                                        .split_k = t->split_k,
                                        .dilation = (int)l->dilation[0]};
  for (int i = 0; i < 3; i++) {
    a->tiles[i] = t->tiles[i];
    a->corner[i] = (int)l->corner[i];
  }
}

static falt_status ready(falt_plan *base) {
  wgrad_plan *plan = (wgrad_plan *)base;
  const falt_wgrad_sm90_halo_problem *l = &plan->layer;
  const falt_wgrad_sm90_tile *t = &plan->tile;
  falt_cuda_kernel kernel = {
      .source = "cuda_wgrad_sm90_halo.cu", .entry = "falt_wgrad_sm90_halo", .shared_bytes = t->shared_bytes};
  const falt_cuda_kernel sum = {.source = "cuda_igemm_sm90_sum.cu", .entry = "falt_igemm_sm90_sum"};
  const char *type = falt_type_name(base->problem.input.type);
  falt_cuda_define(&kernel, "PAIR=\"%s.%s\"", type, type);
  for (int i = 0; i < 3; i++) falt_cuda_define(&kernel, "TAPS_%c=%d", "DHW"[i], (int)l -> taps[i]);
  for (int i = 1; i < 3; i++) falt_cuda_define(&kernel, "DILATION_%c=%d", "DHW"[i], (int)l -> dilation[i]);
  falt_cuda_define(&kernel, "TILE_H=%d", t->height);
  falt_cuda_define(&kernel, "TILE_W=%d", t->width);
  falt_cuda_define(&kernel, "STAGES=%d", t->stages);
  return falt_cuda_plan_ready(base, &kernel, &sum);
}

/* cuda-wgrad-sm90-nchw has the same steps, for a problem and arguments of other types. */
static const char *choose(falt_plan *base, falt_ask *ask) {
  wgrad_plan *plan = (wgrad_plan *)base;
  const falt_machine machine = falt_cuda_machine(ask->device);
  describe(plan, ask);
  const char *why = falt_wgrad_sm90_halo_refusal(&plan->layer);
  if (why) return why;
  if (!falt_wgrad_sm90_halo_choose(&plan->layer, &machine, &plan->tile)) return "no tile fits";
  fill_args(plan);
  base->cost.seconds = plan->tile.seconds;
  base->workspace = plan->tile.workspace;
  base->alignment = (falt_alignment){.input = FALT_MAP_ALIGN, .output = FALT_MAP_ALIGN};
  return NULL;
}

static const falt_plan_steps steps = {
    sizeof(wgrad_plan), {execute, print, falt_cuda_plan_destroy, ready}, inapplicable, choose};

extern const falt_solver falt_solver_cuda_wgrad_sm90_halo;
const falt_solver falt_solver_cuda_wgrad_sm90_halo = {.name = "cuda-wgrad-sm90-halo",
                                                      .device_kind = "cuda",
                                                      .plan = falt_cuda_plan_make,
                                                      .steps = &steps,
                                                      .spreads = true,
                                                      .fallbacks = falt_cuda_fallbacks};
