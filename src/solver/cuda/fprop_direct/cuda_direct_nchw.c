/* Solver cuda-direct-nchw: fprop of layers with few input channels by direct convolution in registers, with the max
 * pooling that follows. 2D, f32 accumulators. For layers too small for tensor cores, whose tiles need many channels and
 * many filters. Kernel: cuda_direct_nchw.cu. Tile search: cuda_direct_nchw_tiles.c. */
#include <math.h>

#include "core/memory.h"
#include "solver/cuda/common/cuda.h"
#include "solver/cuda/common/cuda_filter.h"
#include "solver/cuda/common/plan.h"
#include "solver/cuda/fprop_direct/cuda_direct_nchw_tiles.h"

typedef struct layer_plan {
  falt_cuda_plan cuda;
  falt_cuda_direct_nchw_args args;
  falt_direct_nchw_tile tile;
  bool x_last, y_last;
  int run, vector; /* contiguous outputs of one store */
} layer_plan;

/* ---- execute */

static void execute(const falt_plan *base, const falt_operands *o) {
  const layer_plan *plan = (const layer_plan *)base;
  const falt_problem *p = &base->problem;
  falt_cuda_direct_nchw_args args = plan->args;
  args.x.data = falt_cuda_element(o->input, &p->input);
  args.w.data = falt_cuda_plan_filter(&plan->cuda, o);
  args.y.data = falt_cuda_element(o->output, &p->output);
  args.aligned &= (uintptr_t)args.y.data % ((size_t)plan->vector * falt_type_size(p->output.type)) == 0;
  falt_cuda_epilogue_bind(&args.epilogue, p, o);
  args.kept = plan->cuda.filter != NULL;
  void *parameters[] = {&args};
  const falt_direct_nchw_tile *t = &plan->tile;
  const int64_t blocks = p->input.size[FALT_N] * p->filter.size[FALT_G] * t->tiles[0] * t->tiles[1] * t->filter_tiles;
  const falt_gpu_launch launch = {
      plan->cuda.function, blocks, {t->across * t->down * t->groups, 1}, t->shared_bytes, o->stream};
  const int one[2] = {1, 1};
  falt_gpu_start_early(base->device->gpu, &launch, one, parameters);
}

static void print(const falt_plan *base, falt_text *text) {
  const falt_direct_nchw_tile *t = &((const layer_plan *)base)->tile;
  falt_text_add(text, "(cuda-direct-nchw %dx%dx%d threads=%dx%dx%d shared=%d)", t->rows, t->columns, t->filters,
                t->down, t->across, t->groups, t->shared_bytes);
}

/* ---- applicable */

/* Kernels count rows, columns and channels in 32 bits, taps and steps in far less. */
static bool small_axes(const falt_problem *p) {
  const int64_t most = INT64_C(1) << 24;
  for (int i = FALT_H; i <= FALT_W; i++) {
    const falt_axis *a = &p->axis[i - FALT_D];
    if (a->stride > 64 || a->dilation > 64 || p->filter.size[i] > 64 || a->pad[0] >= most || a->pad[0] <= -most ||
        p->input.size[i] >= most || p->output.size[i] >= most)
      return false;
  }
  return p->filter.size[FALT_C] <= 64 && p->filter.size[FALT_K] < most && p->filter.size[FALT_G] < most &&
         p->input.size[FALT_N] < most;
}

/* Sums of integers must be exact. */
static bool exact_enough(const falt_problem *p) {
  const double bound = falt_cuda_bound(p);
  return isinf(bound) || bound < 0x1p24;
}

static const char *inapplicable(const falt_ask *ask) {
  const falt_problem *p = ask->problem;
  return p->operation != FALT_FORWARD                          ? "it computes forward layers only"
         : !falt_cuda_is_flat(p) || p->pool[0] != 1            ? "it takes 1D and 2D problems only"
         : falt_problem_has_f64(p)                             ? "its sums are f32"
         : p->input.type == FALT_S32                           ? "s32 does not fit its sums"
         : !falt_cuda_finishes_in_float(p) || !exact_enough(p) ? "outputs would not be exact"
         : p->has_residual                                     ? "residuals are not added here"
         : p->pool[1] * p->pool[2] > 16                        ? "a pooling window has over 16 elements"
         : !small_axes(p) ? "an axis, a stride or the taps are too long for its tiles"
                          : NULL;
}

/* ---- plan */

static bool is_last(const falt_tensor *t) {
  return t->size[FALT_C] > 1 && t->stride[FALT_C] == 1;
}

/* Whether all runs begin at a multiple of `elements`, if the first does. */
static bool runs_aligned(const falt_tensor *t, int along, int64_t elements) {
  for (int i = 0; i < FALT_DIMS; i++)
    if (i != along && falt_cuda_stride(t, i) % elements) return false;
  return falt_tensor_unit(t, along);
}

static int alignment(const falt_tensor *t, int along) {
  int align = 16;
  while (align > 1 && !runs_aligned(t, along, align)) align /= 2;
  return align;
}

static bool choose_tile(layer_plan *plan) {
  const falt_problem *p = &plan->cuda.base.problem;
  falt_direct_nchw_problem layer = {.channels = (int)p->filter.size[FALT_C],
                                    .out = {p->output.size[FALT_H], p->output.size[FALT_W]},
                                    .filters = p->filter.size[FALT_K],
                                    .batch = p->input.size[FALT_N] * p->filter.size[FALT_G],
                                    .x_bytes = (int)falt_type_size(p->input.type),
                                    .y_bytes = (int)falt_type_size(p->output.type),
                                    .y_align = alignment(&p->output, plan->y_last ? FALT_C : FALT_W),
                                    .y_last = plan->y_last};
  for (int i = 0; i < 2; i++) {
    layer.taps[i] = (int)p->filter.size[FALT_H + i];
    layer.stride[i] = (int)p->axis[1 + i].stride;
    layer.dilation[i] = layer.taps[i] > 1 ? (int)p->axis[1 + i].dilation : 1;
    layer.pool[i] = (int)p->pool[1 + i];
  }
  const falt_machine machine = falt_cuda_machine(plan->cuda.base.device);
  return falt_direct_nchw_choose(&layer, &machine, &plan->tile);
}

static void set_args(layer_plan *plan) {
  const falt_problem *p = &plan->cuda.base.problem;
  const falt_direct_nchw_tile *t = &plan->tile;
  plan->run = plan->y_last ? t->filters : t->columns / (int)p->pool[2];
  plan->vector = (int)falt_min(plan->run, 16 / (int64_t)falt_type_size(p->output.type));
  plan->args =
      (falt_cuda_direct_nchw_args){.x = falt_cuda_tensor_of(&p->input),
                                   .w = falt_cuda_tensor_of(&p->filter),
                                   .y = falt_cuda_tensor_of(&p->output),
                                   .filters = (int)p->filter.size[FALT_K],
                                   .groups = (int)p->filter.size[FALT_G],
                                   .aligned = runs_aligned(&p->output, plan->y_last ? FALT_C : FALT_W, plan->vector),
                                   .fill = (float)p->boundary_value,
                                   .epilogue = falt_cuda_epilogue_of(p)};
  for (int i = 0; i < 2; i++) {
    const falt_axis *a = &p->axis[1 + i];
    plan->args.in[i] = (int)p->input.size[FALT_H + i];
    plan->args.out[i] = (int)p->output.size[FALT_H + i];
    plan->args.pad[i] = (int)a->pad[0];
    for (int side = 0; side < 2; side++) plan->args.boundary[i][side] = (int)a->boundary[side];
  }
}

static bool folds(const falt_problem *p) {
  for (int i = 1; i < 3; i++)
    if (p->axis[i].boundary[0] != FALT_CONSTANT || p->axis[i].boundary[1] != FALT_CONSTANT) return true;
  return false;
}

static void add_axes(falt_cuda_kernel *kernel, const falt_problem *p) {
  for (int i = 0; i < 2; i++) {
    const falt_axis *a = &p->axis[1 + i];
    const int64_t taps = p->filter.size[FALT_H + i];
    falt_cuda_define(kernel, "TAPS_%c=%d", "RS"[i], (int)taps);
    falt_cuda_define(kernel, "STRIDE_%c=%d", "HW"[i], (int)a -> stride);
    falt_cuda_define(kernel, "DILATE_%c=%d", "RS"[i], taps > 1 ? (int)a->dilation : 1);
    falt_cuda_define(kernel, "POOL_%c=%d", "HW"[i], (int)p -> pool[1 + i]);
  }
  falt_cuda_define(kernel, "CHANNELS=%d", (int)p->filter.size[FALT_C]);
}

static void add_types(falt_cuda_kernel *kernel, const falt_problem *p) {
  falt_cuda_define(kernel, "ELEMENT_X=%s", falt_cuda_types[p->input.type].element);
  falt_cuda_define(kernel, "ELEMENT_Y=%s", falt_cuda_types[p->output.type].element);
  falt_cuda_define(kernel, "TYPE_X=%d", (int)p->input.type);
  falt_cuda_define(kernel, "TYPE_Y=%d", (int)p->output.type);
  falt_cuda_define(kernel, "TYPE_W=%d", (int)p->filter.type);
  falt_cuda_define(kernel, "SUM=float");
  falt_cuda_define(kernel, "TINY=0");
  falt_cuda_define(kernel, "ACTIVATION=%d", (int)p->activation);
}

static falt_status ready(falt_plan *base) {
  layer_plan *plan = (layer_plan *)base;
  falt_cuda_kernel kernel = {.source = "cuda_direct_nchw.cu", .entry = "falt_direct_nchw"};
  add_axes(&kernel, &base->problem);
  add_types(&kernel, &base->problem);
  falt_cuda_define(&kernel, "FOLD=%d", folds(&base->problem));
  falt_cuda_define(&kernel, "X_LAST=%d", plan->x_last);
  falt_cuda_define(&kernel, "Y_LAST=%d", plan->y_last);
  falt_direct_nchw_defines(&kernel, &plan->tile);
  return falt_cuda_plan_ready(base, &kernel, NULL);
}

static const char *choose(falt_plan *base, falt_ask *ask) {
  layer_plan *plan = (layer_plan *)base;
  plan->x_last = is_last(&ask->problem->input);
  plan->y_last = is_last(&ask->problem->output);
  if (!choose_tile(plan)) return plan->tile.rejected;
  set_args(plan);
  base->cost.seconds = 2e-6 + plan->tile.seconds;
  return NULL;
}

static const falt_plan_steps steps = {
    sizeof(layer_plan), {execute, print, falt_cuda_plan_destroy, ready}, inapplicable, choose};

extern const falt_solver falt_solver_cuda_direct_nchw;
const falt_solver falt_solver_cuda_direct_nchw = {
    .name = "cuda-direct-nchw", .device_kind = "cuda", .plan = falt_cuda_plan_make, .steps = &steps, .pools = true};
