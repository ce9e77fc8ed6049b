/* Solver cuda-depthwise-toeplitz: depthwise fprop and dgrad as Toeplitz products on tensor cores (MMA). Applies to f16
 * and bf16, 2D, stride 1, no dilation, zero padding. Dgrad is fprop with the taps reversed. Reads the filter in place.
 * Unaligned operands use the fallback plan. The planner picks it for many taps. Kernel: cuda_depthwise_toeplitz.cu.
 * Tile search: cuda_depthwise_toeplitz_tiles.c. */
#include "solver/cuda/depthwise/cuda_depthwise_toeplitz.h"
#include "cuda/gpu.h"
#include "planner/planner.h"
#include "solver/cuda/common/cuda_igemm.h"
#include "solver/cuda/common/plan.h"
#include "solver/cuda/depthwise/cuda_depthwise_toeplitz_tiles.h"

typedef struct toeplitz_plan {
  falt_cuda_plan cuda;
  falt_cuda_depthwise_args args;
  falt_depthwise_toeplitz_shape shape;
  falt_depthwise_toeplitz_tile tile;
  int64_t w_first; /* offset of the first tap in the order of use, in elements */
} toeplitz_plan;

typedef falt_igemm_roles roles;

/* ---- execute */

static void execute(const falt_plan *base, const falt_operands *o) {
  const toeplitz_plan *plan = (const toeplitz_plan *)base;
  falt_cuda_depthwise_args args = falt_depthwise_bind(&plan->args, &base->problem, o);
  args.w = falt_cuda_plan_filter(&plan->cuda, o) + plan->w_first * 2;
  void *parameters[] = {&args};
  const falt_gpu_launch launch = {
      plan->cuda.function, plan->tile.grid, {32 * plan->tile.warps, 1}, plan->tile.shared_bytes, o->stream};
  const int one[2] = {1, 1};
  falt_depthwise_start(base, &launch, one, parameters);
}

static void print(const falt_plan *base, falt_text *text) {
  const falt_depthwise_toeplitz_tile *t = &((const toeplitz_plan *)base)->tile;
  falt_text_add(text, "(cuda-depthwise-toeplitz channels=%d images=%d rows=%d segment=%d warps=%d stages=%d blocks=%d)",
                t->span, t->images, t->slab, t->segment, t->warps, t->stages, t->blocks);
}

/* ---- applicable */

static bool has_unit_steps(const falt_problem *p) {
  for (int i = 1; i < 3; i++)
    if (p->axis[i].stride != 1 || (p->axis[i].dilation != 1 && p->filter.size[FALT_D + i] > 1)) return false;
  return true;
}

/* The operands of the product. */
static bool are_halves(const falt_problem *p) {
  const falt_type type = falt_problem_factor(p, 0)->type;
  return falt_type_is_half(type) && type == falt_problem_factor(p, 1)->type;
}

const char *falt_depthwise_toeplitz_inapplicable(const falt_ask *ask) {
  const falt_problem *p = ask->problem;
  const char *why = falt_depthwise_refusal(ask);
  if (why) return why;
  return !are_halves(p)               ? "its operands are f16 or bf16, both the same"
         : p->accumulator != FALT_F32 ? "the accumulator is not f32"
         : !falt_cuda_is_flat(p)      ? "it takes 1D and 2D problems only"
         : !has_unit_steps(p)         ? "it takes neither strides nor dilations"
         : falt_igemm_folds(p) || (p->operation != FALT_BACKWARD_DATA && p->boundary_value != 0)
             ? "it takes zero padding only"
         : !falt_igemm_small_planes(&p->input) || !falt_igemm_small_planes(&p->output)
             ? "rows or columns are too far apart"
             : NULL;
}

static const char *inapplicable(const falt_ask *ask) {
  const falt_problem *p = ask->problem;
  if (!falt_reads_filter(p->operation)) return "it computes fprop and dgrad only";
  const char *why = falt_depthwise_toeplitz_inapplicable(ask);
  if (why) return why;
  return !falt_type_is_half(falt_igemm_roles_of(p).result->type) ? "its output is f16 or bf16"
         : p->operation == FALT_BACKWARD_DATA && p->filter.size[FALT_K] > 1
             ? "its dgrad does not sum over the channels of a group"
             : NULL;
}

/* ---- operands */

falt_alignment falt_depthwise_toeplitz_alignment(const falt_problem *p, const falt_depthwise_toeplitz_shape *s) {
  const int source = 2 * s->x_align, result = 2 * s->y_align;
  return p->operation == FALT_BACKWARD_DATA ? (falt_alignment){.input = result, .output = source}
                                            : (falt_alignment){.input = source, .output = result};
}

static int64_t channels_of(const falt_tensor *t) {
  return t->size[FALT_G] * t->size[FALT_C];
}

/* Whether channels are contiguous and the stride of pixels is a multiple of 16 bytes. */
static bool is_inner(const falt_problem *p, const falt_tensor *t) {
  return p->filter.size[FALT_K] == 1 && channels_of(t) % 8 == 0 && falt_igemm_channel_stride(t) == 1 &&
         falt_igemm_strides_divide(t, (int)t->size[FALT_G], 8);
}

/* Columns of one copy. */
static int alignment(const falt_tensor *t) {
  int align = 8;
  for (int dim = 0; dim < FALT_DIMS; dim++)
    while (dim != FALT_W && falt_cuda_stride(t, dim) % align) align /= 2;
  while (t->size[FALT_W] % align) align /= 2;
  return align;
}

const char *falt_depthwise_toeplitz_describe(const falt_problem *p, falt_depthwise_toeplitz_shape *s) {
  const bool data = p->operation == FALT_BACKWARD_DATA;
  const struct {
    const falt_tensor *source, *result;
  } r = {data ? &p->output : &p->input, data ? &p->input : &p->output};
  *s = (falt_depthwise_toeplitz_shape){.images = r.source->size[FALT_N],
                                       .channels = channels_of(r.result),
                                       .inner = is_inner(p, r.source) && is_inner(p, r.result),
                                       .x_align = 8,
                                       .y_align = 8,
                                       .finish = p->operation == FALT_FORWARD && !falt_epilogue_is_identity(p)};
  for (int i = 0; i < 2; i++) {
    const int64_t taps = p->filter.size[FALT_H + i], pad = p->axis[1 + i].pad[0];
    s->in[i] = r.source->size[FALT_H + i];
    s->out[i] = r.result->size[FALT_H + i];
    s->taps[i] = (int)taps;
    s->pad[i] = (int)(data ? taps - 1 - pad : pad);
  }
  if (s->inner) return falt_depthwise_toeplitz_refusal(s);
  if (!falt_tensor_unit(r.source, FALT_W) || !falt_tensor_unit(r.result, FALT_W))
    return "neither channels nor columns are contiguous";
  s->x_align = alignment(r.source);
  s->y_align = alignment(r.result);
  return falt_depthwise_toeplitz_refusal(s);
}

/* ---- arguments */

/* dgrad uses the taps in reverse order. */
static void set_args(toeplitz_plan *plan) {
  const falt_problem *p = &plan->cuda.base.problem;
  plan->args = falt_depthwise_args_of(p);
  plan->args.tiles = (unsigned)plan->tile.tiles;
  for (int i = 1; i < 3 && p->operation == FALT_BACKWARD_DATA; i++) {
    plan->w_first += plan->args.w_axis[i] * (p->filter.size[FALT_D + i] - 1);
    plan->args.w_axis[i] = -plan->args.w_axis[i];
  }
}

/* ---- ready */

static falt_status ready(falt_plan *base) {
  toeplitz_plan *plan = (toeplitz_plan *)base;
  const falt_problem *p = &base->problem;
  const falt_tensor *w = &p->filter;
  const roles r = falt_igemm_roles_of(p);
  falt_cuda_kernel kernel = {.source = "cuda_depthwise_toeplitz.cu",
                             .entry = "falt_depthwise_toeplitz",
                             .shared_bytes = plan->tile.shared_bytes};
  falt_cuda_define(&kernel, "KIND=%s", falt_cuda_products(r.source->type, w->type));
  falt_igemm_result_defines(p, r.result->type, &kernel);
  falt_cuda_define(&kernel, "FINISH=%d", plan->shape.finish);
  falt_cuda_define(&kernel, "MULTIPLE=%d", (int)w->size[FALT_K]);
  falt_cuda_define(&kernel, "X_R=%lld", (long long)falt_cuda_stride(r.source, FALT_H));
  falt_cuda_define(&kernel, "X_S=%lld", (long long)falt_cuda_stride(r.source, FALT_W));
  falt_cuda_define(&kernel, "Y_R=%lld", (long long)falt_cuda_stride(r.result, FALT_H));
  falt_cuda_define(&kernel, "Y_S=%lld", (long long)falt_cuda_stride(r.result, FALT_W));
  falt_depthwise_toeplitz_defines(&kernel, &plan->shape, &plan->tile);
  return falt_cuda_plan_ready(base, &kernel, NULL);
}

/* ---- plan */

static const char *choose(falt_plan *base, falt_ask *ask) {
  toeplitz_plan *plan = (toeplitz_plan *)base;
  const falt_machine machine = falt_cuda_machine(ask->device);
  const char *why = falt_depthwise_toeplitz_describe(&plan->cuda.base.problem, &plan->shape);
  if (why) return why;
  if (!falt_depthwise_toeplitz_choose(&plan->shape, &machine, &plan->tile)) return "no tile fits the GPU";
  plan->cuda.base.alignment = falt_depthwise_toeplitz_alignment(&plan->cuda.base.problem, &plan->shape);
  plan->cuda.base.cost.seconds = plan->tile.seconds;
  set_args(plan);
  return NULL;
}

static const falt_plan_steps steps = {
    sizeof(toeplitz_plan), {execute, print, falt_cuda_plan_destroy, ready}, inapplicable, choose};

extern const falt_solver falt_solver_cuda_depthwise_toeplitz;
const falt_solver falt_solver_cuda_depthwise_toeplitz = {.name = "cuda-depthwise-toeplitz",
                                                         .device_kind = "cuda",
                                                         .plan = falt_cuda_plan_make,
                                                         .steps = &steps,
                                                         .fallbacks = falt_cuda_depthwise_fallbacks};
