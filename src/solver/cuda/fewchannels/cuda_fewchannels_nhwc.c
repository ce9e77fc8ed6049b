/* Solver cuda-fewchannels-nhwc: fprop of layers with at most 8 input channels by wgmma (sm_90a), for example the first
 * layer of a network. Applies to f16 and bf16, one group, 2D, any input layout. Copies each input row to shared memory
 * once for all taps and output channels. Needs no workspace and no alignment, and reads the filter in place. Kernel:
 * cuda_fewchannels_nhwc.cu. Tile search: cuda_fewchannels_nhwc_tiles.c. */
#include "solver/cuda/common/cuda_igemm.h"
#include "solver/cuda/common/cuda_maps.h"
#include "solver/cuda/common/plan.h"
#include "solver/cuda/fewchannels/cuda_fewchannels.h"

enum { MOST_CHANNELS = 8, MOST_TAPS = 32, MOST_STRIDE = 8, MOST_DILATION = 8 };

typedef struct fewchannels_plan {
  falt_cuda_plan cuda;
  falt_fewchannels_nhwc_problem layer;
  falt_fewchannels_nhwc_tile tile;
  falt_cuda_fewchannels_nhwc_args args;
  int unit;   /* contiguous elements of y of one store, if it is aligned */
  bool boxed; /* TMA stores them */
} fewchannels_plan;

/* ---- execute */

falt_gpu_map falt_fewchannels_nhwc_rows_of(const falt_tensor *t, void *data, int channels, int pixels, int pace) {
  static const int dims[5] = {FALT_C, FALT_W, FALT_H, FALT_D, FALT_N};
  falt_gpu_map m = {.type = t->type, .rank = 5, .data = falt_cuda_element(data, t)};
  for (int i = 0; i < 5; i++) falt_map_dimension(&m, i, t, dims[i]);
  m.box[0] = (uint32_t)channels;
  m.box[1] = (uint32_t)(pixels * pace);
  m.pace[1] = (uint32_t)pace;
  return m;
}

static void execute(const falt_plan *base, const falt_operands *o) {
  const fewchannels_plan *plan = (const fewchannels_plan *)base;
  const falt_problem *p = &base->problem;
  falt_cuda_fewchannels_nhwc_args a = plan->args;
  a.x = falt_cuda_element(o->input, &p->input);
  a.w = falt_cuda_plan_filter(&plan->cuda, o);
  a.y = falt_cuda_element(o->output, &p->output);
  a.aligned = (uintptr_t)a.y % (uintptr_t)(2 * plan->unit) == 0;
  if (plan->boxed && a.aligned) {
    const falt_fewchannels_nhwc_tile *t = &plan->tile;
    const falt_gpu_map y =
        falt_fewchannels_nhwc_rows_of(&p->output, o->output, 64 / t->paired, t->width * t->paired, 1);
    falt_gpu_encode(base->device->gpu, &y, &a.map);
  }
  falt_cuda_epilogue_bind(&a.epilogue, p, o);
  void *parameters[] = {&a};
  const falt_gpu_launch launch = {plan->cuda.function,
                                  plan->tile.grid,
                                  {falt_fewchannels_nhwc_threads(&plan->tile), 1},
                                  plan->tile.shared_bytes,
                                  o->stream};
  falt_gpu_start(base->device->gpu, &launch, parameters);
}

static void print(const falt_plan *base, falt_text *text) {
  const falt_fewchannels_nhwc_tile *t = &((const fewchannels_plan *)base)->tile;
  falt_text_add(text, "(cuda-fewchannels-nhwc pixels=%dx%d channels=%d rows=%d batches=%d walk=%d)", t->rows,
                t->width * t->paired, t->parts * 64 / t->paired, t->rows, t->batches, t->walk);
}

/* ---- applicable */

static bool small_steps(const falt_problem *p) {
  for (int i = 1; i < 3; i++)
    if (p->filter.size[FALT_D + i] > MOST_TAPS || p->axis[i].stride > MOST_STRIDE ||
        p->axis[i].dilation > MOST_DILATION)
      return false;
  return true;
}

/* Offsets within a row of the input and within the filter fit into 32 bits. */
static bool small_ways(const falt_problem *p) {
  const int64_t w = falt_cuda_stride(&p->input, FALT_W), c = falt_cuda_stride(&p->input, FALT_C);
  return w < INT32_MAX && w > -INT32_MAX && c < INT32_MAX / MOST_CHANNELS && c > -INT32_MAX / MOST_CHANNELS &&
         falt_tensor_span(&p->filter) < INT32_MAX / 4;
}

const char *falt_fewchannels_nhwc_refusal(const falt_ask *ask, falt_type other) {
  const falt_problem *p = ask->problem;
  return !falt_gpu_about(ask->device->gpu)->architecture->wgmma        ? "the GPU has no wgmma (sm_90a has)"
         : !falt_type_is_half(p->input.type) || other != p->input.type ? "its operands are f16 or bf16, both the same"
         : !falt_cuda_is_flat(p)                                       ? "it takes 1D and 2D problems only"
         : p->filter.size[FALT_G] != 1                                 ? "it takes one group of channels"
         : p->input.size[FALT_C] > MOST_CHANNELS                       ? "it sums 8 channels at most"
         : !small_steps(p)                                             ? "taps, strides or dilations are too large"
         : !small_ways(p)                                              ? "elements are too far apart"
                                                                       : NULL;
}

static const char *inapplicable(const falt_ask *ask) {
  const falt_problem *p = ask->problem;
  if (p->operation != FALT_FORWARD) return "it computes fprop only";
  const char *why = falt_igemm_refusal(ask, p->input.type, p->filter.type);
  if (!why) why = falt_fewchannels_nhwc_refusal(ask, p->filter.type);
  if (why) return why;
  return !falt_type_is_half(p->output.type) ? "its output is f16 or bf16"
         : p->has_residual                  ? "residuals are not fused here"
                                            : NULL;
}

/* ---- plan */

falt_fewchannels_nhwc_problem falt_fewchannels_nhwc_layer_of(const falt_problem *p) {
  falt_fewchannels_nhwc_problem l = {.images = p->input.size[FALT_N],
                                     .channels = p->input.size[FALT_C],
                                     .results = p->output.size[FALT_C],
                                     .planar = falt_cuda_stride(&p->output, FALT_C) != 1};
  for (int i = 0; i < 2; i++) {
    const int dim = FALT_H + i;
    l.taps[i] = p->filter.size[dim];
    l.stride[i] = p->axis[1 + i].stride;
    l.dilation[i] = l.taps[i] > 1 ? p->axis[1 + i].dilation : 1;
    l.in[i] = p->input.size[dim];
    l.out[i] = p->output.size[dim];
  }
  return l;
}

/* As many neighbouring outputs as divide their line and all distances between lines. */
static int unit_of(const fewchannels_plan *plan) {
  const falt_tensor *y = &plan->cuda.base.problem.output;
  const int inner = plan->layer.planar ? FALT_W : FALT_C;
  const int64_t all = y->size[inner] | falt_igemm_unit(y, inner, 8);
  return y->size[inner] > 1 && y->stride[inner] != 1 ? 1 : (int)(all & -all);
}

falt_cuda_fewchannels_nhwc_args falt_fewchannels_nhwc_args_of(const falt_problem *p,
                                                              const falt_fewchannels_nhwc_problem *l,
                                                              const falt_fewchannels_nhwc_tile *t) {
  const falt_tensor *x = &p->input;
  falt_cuda_fewchannels_nhwc_args a = {.x_image = falt_cuda_stride(x, FALT_N),
                                       .x_row = falt_cuda_stride(x, FALT_H),
                                       .x_column = (int)falt_cuda_stride(x, FALT_W),
                                       .x_channel = (int)falt_cuda_stride(x, FALT_C),
                                       .results = (int)l->results,
                                       .tap_rows = (int)l->taps[0],
                                       .result_tiles = t->result_tiles,
                                       .column_tiles = t->column_tiles,
                                       .walk = t->walk,
                                       .walks = t->walks,
                                       .items = (int)t->items};
  falt_store(&a.fill, x->type, 0, p->boundary_value);
  for (int i = 0; i < 2; i++) {
    const falt_axis *axis = &p->axis[1 + i];
    a.in[i] = (int)l->in[i];
    a.out[i] = (int)l->out[i];
    a.pad[i] = (int)axis->pad[0];
    for (int side = 0; side < 2; side++) a.boundary[i][side] = (int)axis->boundary[side];
  }
  return a;
}

static void fill_args(fewchannels_plan *plan) {
  const falt_problem *p = &plan->cuda.base.problem;
  const falt_tensor *y = &p->output, *w = &p->filter;
  falt_cuda_fewchannels_nhwc_args *a = &plan->args;
  *a = falt_fewchannels_nhwc_args_of(p, &plan->layer, &plan->tile);
  a->epilogue = falt_cuda_epilogue_of(p);
  a->w_result = (int)falt_cuda_stride(w, FALT_K);
  a->w_channel = (int)falt_cuda_stride(w, FALT_C);
  a->y_image = falt_cuda_stride(y, FALT_N);
  a->y_channel = falt_cuda_stride(y, FALT_C);
  for (int i = 0; i < 2; i++) {
    a->w_axis[i] = (int)falt_cuda_stride(w, FALT_H + i);
    a->y_axis[i] = falt_cuda_stride(y, FALT_H + i);
  }
}

static falt_status ready(falt_plan *base) {
  fewchannels_plan *plan = (fewchannels_plan *)base;
  const falt_problem *p = &base->problem;
  const falt_tensor *w = &p->filter;
  falt_cuda_kernel kernel = {
      .source = "cuda_fewchannels_nhwc.cu", .entry = "falt_fewchannels_nhwc", .shared_bytes = plan->tile.shared_bytes};
  const char *type = falt_type_name(w->type);
  falt_cuda_define(&kernel, "PAIR=\"%s.%s\"", type, type);
  falt_cuda_define(&kernel, "TYPE_X=%d", (int)w->type);
  falt_cuda_define(&kernel, "TYPE_Y=%d", (int)p->output.type);
  falt_cuda_define(&kernel, "ACTIVATION=%d", (int)p->activation);
  falt_cuda_define(&kernel, "SCALED=%d", p->has_scale);
  falt_cuda_define(&kernel, "BIASED=%d", p->has_bias);
  falt_cuda_define(&kernel, "UNIT=%d", plan->unit);
  falt_cuda_define(&kernel, "BOXED=%d", plan->boxed);
  falt_cuda_define(&kernel, "BEYOND=0");
  falt_fewchannels_nhwc_defines(&kernel, &plan->layer, &plan->tile);
  return falt_cuda_plan_ready(base, &kernel, NULL);
}

static const char *choose(falt_plan *base, falt_ask *ask) {
  fewchannels_plan *plan = (fewchannels_plan *)base;
  const falt_machine machine = falt_cuda_machine(ask->device);
  plan->layer = falt_fewchannels_nhwc_layer_of(&base->problem);
  if (!falt_fewchannels_nhwc_choose(&plan->layer, &machine, &plan->tile)) return plan->tile.rejected;
  fill_args(plan);
  plan->unit = unit_of(plan);
  plan->boxed = plan->unit == 8 && !plan->layer.planar && falt_gpu_has_maps(ask->device->gpu) &&
                falt_map_takes(&ask->problem->output, FALT_C);
  base->cost.seconds = plan->tile.seconds;
  return NULL;
}

static const falt_plan_steps steps = {
    sizeof(fewchannels_plan), {execute, print, falt_cuda_plan_destroy, ready}, inapplicable, choose};

extern const falt_solver falt_solver_cuda_fewchannels_nhwc;
const falt_solver falt_solver_cuda_fewchannels_nhwc = {
    .name = "cuda-fewchannels-nhwc", .device_kind = "cuda", .plan = falt_cuda_plan_make, .steps = &steps};
