/* Solver cuda-fewchannels-nchw: fprop of layers with few input channels, from NCHW input. Applies to f16 and bf16, one
 * group, 1D to 3D, unit strides and dilations of rows and columns, at most 16 tap planes. Loads input rows from memory
 * directly into MMA fragments. Needs no workspace and no alignment, and reads the filter in place. Kernel:
 * cuda_fewchannels_nchw.cu. Tile search: cuda_fewchannels_nchw_tiles.c. */
#include "planner/planner.h"
#include "solver/cuda/common/cuda_igemm.h"
#include "solver/cuda/common/plan.h"
#include "solver/cuda/fewchannels/cuda_fewchannels_nchw_args.h"
#include "solver/cuda/fewchannels/cuda_fewchannels_nchw_tiles.h"

enum { MOST_SLOTS = 16, MOST_TAPS = 8 };

typedef struct fewchannels_plan {
  falt_cuda_plan cuda;
  falt_fewchannels_nchw_problem layer;
  falt_fewchannels_nchw_tile tile;
  falt_cuda_fewchannels_nchw_args args;
  int unit[2]; /* contiguous elements of x of one load, of y of one store */
} fewchannels_plan;

/* ---- execute */

static bool aligned(const void *data, int unit) {
  return (uintptr_t)data % (uintptr_t)(2 * unit) == 0;
}

static void execute(const falt_plan *base, const falt_operands *o) {
  const fewchannels_plan *plan = (const fewchannels_plan *)base;
  const falt_problem *p = &base->problem;
  falt_cuda_fewchannels_nchw_args a = plan->args;
  a.x = falt_cuda_element(o->input, &p->input);
  a.w = falt_cuda_plan_filter(&plan->cuda, o);
  a.y = falt_cuda_element(o->output, &p->output);
  a.x_aligned = aligned(a.x, plan->unit[0]);
  a.y_aligned = aligned(a.y, plan->unit[1]);
  if (p->has_residual) a.residual = falt_cuda_element(o->residual, &p->residual);
  falt_cuda_epilogue_bind(&a.epilogue, p, o);
  void *parameters[] = {&a};
  const falt_gpu_launch launch = {plan->cuda.function, plan->tile.grid, {FALT_STRIPS_THREADS, 1}, 0, o->stream};
  const int one[2] = {1, 1};
  falt_gpu_start_early(base->device->gpu, &launch, one, parameters);
}

static void print(const falt_plan *base, falt_text *text) {
  const falt_fewchannels_nchw_tile *t = &((const fewchannels_plan *)base)->tile;
  falt_text_add(text, "(cuda-fewchannels-nchw channels=%d%s walk=%d blocks=%d)", 8 * t->eights,
                ((const fewchannels_plan *)base)->layer.inner ? " innermost" : "", t->walk, t->blocks);
}

/* ---- applicable */

static bool has_plain_rows(const falt_problem *p) {
  for (int i = 1; i < 3; i++)
    if ((p->axis[i].stride > 1 && p->output.size[FALT_D + i] > 1) ||
        (p->axis[i].dilation > 1 && p->filter.size[FALT_D + i] > 1) || p->filter.size[FALT_D + i] > MOST_TAPS)
      return false;
  return true;
}

static bool has_lines(const falt_tensor *t, int dim) {
  return t->size[dim] == 1 || t->stride[dim] == 1;
}

static const char *inapplicable(const falt_ask *ask) {
  const falt_problem *p = ask->problem;
  if (p->operation != FALT_FORWARD) return "it computes fprop only";
  const char *why = falt_igemm_refusal(ask, p->input.type, p->filter.type);
  if (why) return why;
  return !falt_type_is_half(p->input.type) || p->filter.type != p->input.type
             ? "its operands are f16 or bf16, both the same"
         : !falt_type_is_half(p->output.type) ? "its output is f16 or bf16"
         : p->filter.size[FALT_G] != 1        ? "it takes one group of channels"
         : p->input.size[FALT_C] > MOST_SLOTS || p->input.size[FALT_C] * p->filter.size[FALT_D] > MOST_SLOTS
             ? "it sums 16 planes of taps at most"
         : !has_plain_rows(p)            ? "it takes no strides or dilations of rows and columns, and 8 taps at most"
         : !has_lines(&p->input, FALT_W) ? "columns are not contiguous"
         : !has_lines(&p->output, FALT_W) && !has_lines(&p->output, FALT_C)
             ? "neither columns nor channels of the output are contiguous"
             : NULL;
}

/* ---- plan */

static void describe(fewchannels_plan *plan) {
  const falt_problem *p = &plan->cuda.base.problem;
  falt_fewchannels_nchw_problem *l = &plan->layer;
  *l = (falt_fewchannels_nchw_problem){
      .images = p->input.size[FALT_N],
      .channels = p->input.size[FALT_C],
      .results = p->output.size[FALT_C],
      .pad = p->axis[2].pad[0],
      .inner = !has_lines(&p->output, FALT_W),
      .extras = p->has_residual + (p->activation != FALT_IDENTITY) + falt_igemm_folds(p)};
  l->unit = falt_igemm_unit(&p->output, l->inner ? FALT_C : FALT_W, 8);
  for (int i = 0; i < 3; i++) {
    l->taps[i] = p->filter.size[FALT_D + i];
    l->in[i] = p->input.size[FALT_D + i];
    l->out[i] = p->output.size[FALT_D + i];
  }
}

static void fill_args(fewchannels_plan *plan) {
  const falt_problem *p = &plan->cuda.base.problem;
  const falt_tensor *x = &p->input, *y = &p->output, *w = &p->filter, *r = &p->residual;
  const falt_fewchannels_nchw_tile *t = &plan->tile;
  falt_cuda_fewchannels_nchw_args *a = &plan->args;
  *a = (falt_cuda_fewchannels_nchw_args){.epilogue = falt_cuda_epilogue_of(p),
                                         .x_image = falt_cuda_stride(x, FALT_N),
                                         .x_channel = falt_cuda_stride(x, FALT_C),
                                         .y_image = falt_cuda_stride(y, FALT_N),
                                         .y_channel = falt_cuda_stride(y, FALT_C),
                                         .w_result = falt_cuda_stride(w, FALT_K),
                                         .w_channel = falt_cuda_stride(w, FALT_C),
                                         .stride = (int)p->axis[0].stride,
                                         .dilation = (int)p->axis[0].dilation,
                                         .results = (int)plan->layer.results,
                                         .result_tiles = t->result_tiles,
                                         .strips = t->strips,
                                         .walk = t->walk,
                                         .walks = t->walks,
                                         .items = (int)t->items};
  if (p->has_residual) a->r_image = falt_cuda_stride(r, FALT_N), a->r_channel = falt_cuda_stride(r, FALT_C);
  falt_store(&a->fill, x->type, 0, p->boundary_value);
  for (int i = 0; i < 3; i++) {
    const int dim = FALT_D + i;
    if (i < 2) a->x_axis[i] = falt_cuda_stride(x, dim);
    a->y_axis[i] = falt_cuda_stride(y, dim);
    if (p->has_residual) a->r_axis[i] = falt_cuda_stride(r, dim);
    a->w_axis[i] = falt_cuda_stride(w, dim);
    a->in[i] = (int)x->size[dim];
    a->out[i] = (int)y->size[dim];
    a->pad[i] = (int)p->axis[i].pad[0];
    for (int side = 0; side < 2; side++) a->boundary[i][side] = (int)p->axis[i].boundary[side];
  }
}

static falt_status ready(falt_plan *base) {
  fewchannels_plan *plan = (fewchannels_plan *)base;
  const falt_problem *p = &base->problem;
  const falt_tensor *w = &p->filter;
  falt_cuda_kernel kernel = {.source = "cuda_fewchannels_nchw.cu", .entry = "falt_fewchannels_nchw"};
  falt_cuda_define(&kernel, "KIND=%s", falt_cuda_products(p->input.type, w->type));
  falt_cuda_define(&kernel, "TYPE_X=%d", (int)w->type);
  falt_cuda_define(&kernel, "FOLD=%d", falt_igemm_folds(p));
  falt_cuda_define(&kernel, "UNIT_X=%d", plan->unit[0]);
  falt_cuda_define(&kernel, "UNIT_Y=%d", plan->unit[1]);
  falt_igemm_result_defines(p, p->output.type, &kernel);
  falt_fewchannels_nchw_defines(&kernel, &plan->layer, &plan->tile);
  return falt_cuda_plan_ready(base, &kernel, NULL);
}

static const char *choose(falt_plan *base, falt_ask *ask) {
  fewchannels_plan *plan = (fewchannels_plan *)base;
  const falt_machine machine = falt_cuda_machine(ask->device);
  describe(plan);
  if (!falt_fewchannels_nchw_choose(&plan->layer, &machine, &plan->tile)) return plan->tile.rejected;
  fill_args(plan);
  plan->unit[0] = falt_igemm_unit(&ask->problem->input, FALT_W, 8);
  plan->unit[1] = plan->layer.inner ? (int)falt_min(plan->layer.unit, 2 * plan->tile.eights) : plan->layer.unit;
  base->cost.seconds = plan->tile.seconds;
  return NULL;
}

static const falt_plan_steps steps = {
    sizeof(fewchannels_plan), {execute, print, falt_cuda_plan_destroy, ready}, inapplicable, choose};

extern const falt_solver falt_solver_cuda_fewchannels_nchw;
const falt_solver falt_solver_cuda_fewchannels_nchw = {
    .name = "cuda-fewchannels-nchw", .device_kind = "cuda", .plan = falt_cuda_plan_make, .steps = &steps};
