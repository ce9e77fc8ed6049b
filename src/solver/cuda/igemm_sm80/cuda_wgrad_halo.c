/* Solver cuda-wgrad-halo: wgrad on tensor cores (MMA) that loads each halo tile once for all taps. Applies to NHWC, f16
 * and bf16, zero padding. For layers with little other reuse: few channels, small groups, first layers. Split-K slices
 * of the pixels are added in a fixed order, so the output is deterministic. Unaligned operands use the fallback plan.
 * Kernel: cuda_wgrad_halo.cu. Tile search: cuda_wgrad_halo_tiles.c. */
#include "cuda/gpu.h"
#include "planner/planner.h"
#include "solver/cuda/common/cuda_igemm.h"
#include "solver/cuda/common/plan.h"
#include "solver/cuda/igemm_sm80/cuda_wgrad_halo_tiles.h"

enum { LEAST_CHANNELS = 16, MOST_RUN = 7 };

typedef struct wgrad_plan {
  falt_cuda_plan cuda;
  falt_cuda_wgrad_halo_args args;
  falt_cuda_igemm_wgrad_args sum_args;
  falt_wgrad_halo_shape shape;
  falt_wgrad_halo_tile tile;
  int merged;
} wgrad_plan;

/* ---- execute */

static void execute(const falt_plan *base, const falt_operands *o) {
  const wgrad_plan *plan = (const wgrad_plan *)base;
  const falt_problem *p = &base->problem;
  falt_cuda_wgrad_halo_args args = plan->args;
  args.y = falt_cuda_element(o->output, &p->output);
  args.x = falt_cuda_element(o->input, &p->input);
  args.partial = o->workspace;
  void *parameters[] = {&args};
  const falt_gpu_launch launch = {
      plan->cuda.function, plan->tile.parts, {32 * plan->tile.warps, 1}, plan->tile.shared_bytes, o->stream};
  const int blocks_yz[2] = {args.split_k, 1};
  falt_gpu_start_early(base->device->gpu, &launch, blocks_yz, parameters);
  falt_igemm_add_slices(base, plan->cuda.sum, &plan->sum_args, o);
}

static void print(const falt_plan *base, falt_text *text) {
  const wgrad_plan *plan = (const wgrad_plan *)base;
  const falt_wgrad_halo_tile *t = &plan->tile;
  falt_text_add(text, "(cuda-wgrad-halo %dx%d pixels=%dx%d taps=%d warps=%d columns=%d blocks=%d split-k=%lld",
                16 * t->mr * t->slabs, plan->shape.run ? t->channels : t->channels * t->slabs, t->height, t->width,
                t->taps_r, t->warps, t->per, t->blocks, (long long)t->split_k);
  if (plan->shape.run) falt_text_add(text, " run=%d", plan->shape.unit);
  if (plan->merged > 1) falt_text_add(text, " merged=%d", plan->merged);
  if (t->slabs > 1) falt_text_add(text, " slabs=%d", t->slabs);
  falt_text_add(text, ")");
}

/* ---- applicable */

static bool has_zero_ends(const falt_problem *p) {
  for (int i = 0; i < 3; i++)
    for (int side = 0; side < 2; side++)
      if (p->axis[i].boundary[side] != FALT_CONSTANT) return false;
  return p->boundary_value == 0;
}

static int merged_of(const falt_problem *p) {
  const int64_t k = p->output.size[FALT_C], c = p->input.size[FALT_C];
  return falt_igemm_merge(p, k < c ? k : c, LEAST_CHANNELS);
}

/* Pixels begin at vectors; of one group's the last vector need not be whole. */
static bool has_vectors(const falt_tensor *t, int merged) {
  const int64_t each = FALT_IGEMM_VECTOR / (int64_t)falt_type_size(t->type), channels = t->size[FALT_C] * merged;
  return (channels == 1 || falt_igemm_channel_stride(t) == 1) && (channels % each == 0 || t->size[FALT_G] == 1) &&
         falt_igemm_strides_divide(t, merged, each);
}

/* Whether rows of x are runs of elements: contiguous channels and contiguous pixels. */
static bool is_run(const falt_problem *p) {
  const falt_tensor *x = &p->input;
  const int64_t c = x->size[FALT_C];
  return p->filter.size[FALT_G] == 1 && c <= MOST_RUN && (c == 1 || x->stride[FALT_C] == 1) &&
         (x->size[FALT_W] == 1 || x->stride[FALT_W] == c) && (p->axis[2].dilation == 1 || p->filter.size[FALT_W] == 1);
}

/* The alignment in bytes that all rows have. */
static int run_unit(const falt_tensor *x) {
  int unit = FALT_IGEMM_VECTOR;
  for (int dim = 0; dim < FALT_DIMS; dim++)
    while (dim != FALT_W && dim != FALT_C && dim != FALT_G && falt_cuda_stride(x, dim) * 2 % unit) unit /= 2;
  return unit;
}

static const char *inapplicable(const falt_ask *ask) {
  const falt_problem *p = ask->problem;
  if (p->operation != FALT_BACKWARD_FILTER) return "it computes wgrad only";
  const char *why = falt_igemm_refusal(ask, p->output.type, p->input.type);
  if (why) return why;
  return !falt_type_is_half(p->input.type) || p->output.type != p->input.type
             ? "its operands are f16 or bf16, both the same"
         : !has_zero_ends(p) ? "it takes zero padding only"
         : !falt_igemm_small_planes(&p->input) || !falt_igemm_small_planes(&p->output)
             ? "rows or columns are too far apart"
         : !has_vectors(&p->output, merged_of(p)) || (!is_run(p) && !has_vectors(&p->input, merged_of(p)))
             ? "channels are not contiguous, or strides are not multiples of 16 bytes"
             : NULL;
}

/* ---- plan */

static void describe(wgrad_plan *plan, const falt_ask *ask) {
  const falt_problem *p = &plan->cuda.base.problem;
  const bool run = !has_vectors(&p->input, plan->merged);
  plan->shape = (falt_wgrad_halo_shape){.images = p->input.size[FALT_N],
                                        .groups = p->filter.size[FALT_G] / plan->merged,
                                        .rows = p->output.size[FALT_C] * plan->merged,
                                        .channels = p->input.size[FALT_C] * plan->merged,
                                        .biased = p->has_bias,
                                        .run = run,
                                        .unit = run ? run_unit(&p->input) : FALT_IGEMM_VECTOR,
                                        .bytes = falt_problem_bytes(p),
                                        .workspace = ask->budget->max_workspace};
  for (int i = 0; i < 3; i++) {
    plan->shape.out[i] = p->output.size[FALT_D + i];
    plan->shape.taps[i] = p->filter.size[FALT_D + i];
    plan->shape.stride[i] = p->axis[i].stride;
    plan->shape.dilation[i] = plan->shape.taps[i] > 1 ? p->axis[i].dilation : 1;
  }
}

static int bytes_along(const falt_tensor *t, int dim) {
  return (int)(falt_cuda_stride(t, dim) * (int64_t)falt_type_size(t->type));
}

static void set_args(wgrad_plan *plan) {
  const falt_problem *p = &plan->cuda.base.problem;
  const falt_tensor *x = &p->input, *y = &p->output;
  const falt_wgrad_halo_tile *t = &plan->tile;
  const falt_wgrad_halo_shape *s = &plan->shape;
  const int64_t size = (int64_t)falt_type_size(x->type);
  falt_cuda_wgrad_halo_args *a = &plan->args;
  int64_t parts[5];
  falt_wgrad_halo_parts(s, t, parts);
  *a = (falt_cuda_wgrad_halo_args){
      .y_image = falt_cuda_stride(y, FALT_N) * size,
      .y_plane = falt_cuda_stride(y, FALT_D) * size,
      .x_image = falt_cuda_stride(x, FALT_N) * size,
      .x_plane = falt_cuda_stride(x, FALT_D) * size,
      .y_row = bytes_along(y, FALT_H),
      .y_column = bytes_along(y, FALT_W),
      .y_group = bytes_along(y, FALT_G) * plan->merged,
      .x_row = bytes_along(x, FALT_H),
      .x_column = s->run ? (int)(s->channels * size) : bytes_along(x, FALT_W),
      .x_group = bytes_along(x, FALT_G) * plan->merged,
      .step = (int)s->stride[0],
      .first = (int)-p->axis[0].pad[0],
      .delta = (int)s->dilation[0],
      .pad = {(int)p->axis[1].pad[0], (int)p->axis[2].pad[0]},
      .tiles = {(int)falt_ceil_div(s->out[1], t->height), (int)falt_ceil_div(s->out[2], t->width)},
      .all_tiles = (int)falt_wgrad_halo_tiles(s, t),
      .slice_tiles = (int)t->slice_tiles,
      .split_k = (int)t->split_k,
      .rows = (int)s->rows,
      .channels = (int)s->channels,
      .columns = (int)falt_wgrad_halo_columns(s),
      .tap_rows = (int)s->taps[1]};
  for (int i = 0; i < 3; i++) {
    a->in[i] = (int)x->size[FALT_D + i];
    a->out[i] = (int)s->out[i];
  }
  for (int i = 0; i < 4; i++) a->parts[i] = (int)parts[i];
}

static falt_status ready(falt_plan *base) {
  wgrad_plan *plan = (wgrad_plan *)base;
  falt_cuda_kernel kernel = {
      .source = "cuda_wgrad_halo.cu", .entry = "falt_wgrad_halo", .shared_bytes = plan->tile.shared_bytes};
  const falt_cuda_kernel sum = falt_igemm_sum_kernel(&base->problem, "float");
  falt_cuda_define(&kernel, "KIND=%s", falt_cuda_products(base->problem.output.type, base->problem.input.type));
  falt_wgrad_halo_defines(&kernel, &plan->shape, &plan->tile);
  return falt_cuda_plan_ready(base, &kernel, &sum);
}

static const char *cut(wgrad_plan *plan, falt_ask *ask) {
  const falt_machine machine = falt_cuda_machine(ask->device);
  if (!falt_wgrad_halo_choose(&plan->shape, &machine, &plan->tile)) return "no tile fits the GPU";
  if (ask->budget->max_workspace >= 0 && plan->tile.workspace > ask->budget->max_workspace)
    return "it needs more workspace than is allowed";
  return falt_wgrad_halo_tiles(&plan->shape, &plan->tile) < INT32_MAX ? NULL
                                                                      : "it has more tiles than one launch can number";
}

static const char *choose(falt_plan *base, falt_ask *ask) {
  wgrad_plan *plan = (wgrad_plan *)base;
  plan->merged = merged_of(ask->problem);
  describe(plan, ask);
  const char *why = cut(plan, ask);
  if (why) return why;
  set_args(plan);
  plan->sum_args = falt_igemm_slices_of(&base->problem, plan->merged, plan->args.split_k, plan->args.columns);
  base->alignment = (falt_alignment){.input = plan->shape.unit, .output = FALT_IGEMM_VECTOR};
  base->workspace = (size_t)plan->tile.workspace;
  base->cost.seconds = plan->tile.seconds;
  return NULL;
}

static const falt_plan_steps steps = {
    sizeof(wgrad_plan), {execute, print, falt_cuda_plan_destroy, ready}, inapplicable, choose};

extern const falt_solver falt_solver_cuda_wgrad_halo;
const falt_solver falt_solver_cuda_wgrad_halo = {.name = "cuda-wgrad-halo",
                                                 .device_kind = "cuda",
                                                 .plan = falt_cuda_plan_make,
                                                 .steps = &steps,
                                                 .spreads = true,
                                                 .fallbacks = falt_cuda_fallbacks};
