/* Solver cuda-igemm-sm90: fprop, dgrad and wgrad as implicit GEMM with wgmma and TMA (sm_90a). Applies to dense layers
 * of f16 and bf16, NHWC, 1D to 3D. The output may be NCHW, and so may operands that a single tap reads: the input of
 * 1x1 layers, and dy of wgrad. A forward layer of one tap may have groups. Reads the filter in place, with its channels
 * outermost or innermost. Unaligned operands use the fallback plan. Kernel: cuda_igemm_sm90.cu. TMA boxes:
 * cuda_igemm_sm90_kernel.c. Tile search: cuda_igemm_sm90_tiles.c. */
#include <string.h>

#include "cuda/gpu.h"
#include "planner/planner.h"
#include "solver/cuda/common/cuda.h"
#include "solver/cuda/common/cuda_maps.h"
#include "solver/cuda/common/plan.h"
#include "solver/cuda/igemm_sm90/cuda_igemm_sm90.h"

enum { LINE = 128 };

typedef struct igemm_plan {
  falt_cuda_plan cuda;
  falt_problem view; /* falt_igemm_sm90_view */
  falt_igemm_sm90_problem layer;
  falt_igemm_sm90_polyphase polyphases[FALT_IGEMM_SM90_POLYPHASES];
  falt_igemm_sm90_work work;
  falt_igemm_sm90_tile tile;
  int planar; /* pixels that are stored as one where they are contiguous; 0: channels do */
  int lines;  /* factors that are read by lines of pixels, as these are contiguous */
} igemm_plan;

/* The kernel's arguments, in their order. */
typedef struct launch_args {
  falt_cuda_igemm_sm90_args args;
  falt_cuda_igemm_sm90_polyphase polyphase[FALT_IGEMM_SM90_POLYPHASES];
} launch_args;

/* ---- maps */

/* A tensor's pixels, `pixels` of them and a line of channels at a time. */
static falt_gpu_map pixels_of(const igemm_plan *plan, const falt_tensor *t, void *data, int pixels) {
  const int axes = plan->layer.axes;
  falt_gpu_map m = {.type = t->type, .rank = axes + 2, .data = data, .pixels = (uint32_t)pixels};
  falt_map_dimension(&m, 0, t, FALT_C);
  for (int i = 0; i < axes; i++) falt_map_dimension(&m, 1 + i, t, FALT_W - i);
  falt_map_dimension(&m, axes + 1, t, FALT_N);
  m.box[0] = (uint32_t)(LINE / falt_type_size(t->type));
  return m;
}

/* The source of a polyphase part. */
static falt_gpu_map source_of(const igemm_plan *plan, const falt_igemm_sm90_polyphase *polyphase, const falt_tensor *t,
                              void *data, int pixels) {
  if (plan->layer.grouped) return falt_map_rows(t, data, pixels);
  falt_gpu_map m = pixels_of(plan, t, data, pixels);
  for (int i = 0; i < plan->layer.axes; i++) {
    m.lower[i] = polyphase->axis[2 - i].corner;
    m.upper[i] = polyphase->last[2 - i];
    m.pace[1 + i] = (uint32_t)polyphase->axis[2 - i].stride;
  }
  return m;
}

/* The output of a polyphase part, 64 pixels at a time. */
static falt_gpu_map results_of(const igemm_plan *plan, const falt_igemm_sm90_polyphase *polyphase, const falt_tensor *t,
                               void *data) {
  if (plan->layer.grouped) return falt_map_rows(t, data, 64);
  falt_gpu_map m = pixels_of(plan, t, data, 64);
  int64_t first = 0;
  for (int i = 0; i < 3; i++)
    if (polyphase->first[i] > 0) first += polyphase->first[i] * t->stride[FALT_D + i];
  m.data = (char *)data + first * (int64_t)falt_type_size(t->type);
  for (int i = 0; i < plan->layer.axes; i++) {
    m.size[1 + i] = (uint64_t)polyphase->axis[2 - i].pixels;
    m.stride[1 + i] *= m.size[1 + i] > 1 ? (uint64_t)polyphase->pace[2 - i] : 1;
  }
  return m;
}

/* The same for an NCHW tensor. */
static falt_cuda_lines lines_of(const igemm_plan *plan, const falt_igemm_sm90_polyphase *polyphase,
                                const falt_tensor *t, void *data) {
  const falt_gpu_map m = results_of(plan, polyphase, t, data);
  const int64_t size = (int64_t)falt_type_size(t->type);
  falt_cuda_lines l = {.data = m.data, .channel = t->stride[FALT_C], .stride = {0, 0, 0, t->stride[FALT_N]}};
  for (int i = 0; i < plan->layer.axes; i++) l.stride[i] = (int64_t)m.stride[1 + i] / size;
  return l;
}

/* The filter: its contiguous dimension, the taps, or groups of one tap, the other channels. */
static falt_gpu_map filter_of(const igemm_plan *plan, void *data) {
  const falt_tensor *w = &plan->view.filter;
  const falt_igemm_sm90_problem *layer = &plan->layer;
  const bool outputs_first = layer->transposed == (layer->operation == FALT_IGEMM_SM90_FORWARD);
  const int inner = outputs_first ? FALT_K : FALT_C, outer = outputs_first ? FALT_C : FALT_K;
  const int dims[5] = {inner, layer->grouped ? FALT_G : FALT_W, FALT_H, FALT_D, outer};
  falt_gpu_map m = {.type = w->type, .rank = 5, .data = data};
  for (int i = 0; i < 5; i++) falt_map_dimension(&m, i, w, dims[i]);
  m.box[0] = FALT_IGEMM_SM90_SPAN;
  m.box[4] = layer->transposed ? FALT_IGEMM_SM90_SPAN : (uint32_t)(plan->tile.columns / plan->tile.cluster);
  return m;
}

/* ---- execute */

static void encode(const igemm_plan *plan, falt_gpu_map map, void *to) {
  falt_gpu_encode(plan->cuda.base.device->gpu, &map, to);
}

static void fill_args(const igemm_plan *plan, const falt_operands *o, falt_cuda_igemm_sm90_args *a) {
  const falt_igemm_sm90_tile *t = &plan->tile;
  const falt_problem *p = &plan->view;
  const int64_t summed = plan->layer.operation == FALT_IGEMM_SM90_DATA ? plan->layer.results : plan->layer.channels;
  const int64_t pixels = falt_igemm_sm90_pixels(falt_igemm_sm90_numbered(p));
  *a = (falt_cuda_igemm_sm90_args){.epilogue = falt_cuda_epilogue_of(p),
                                   .sums = o->workspace,
                                   .clusters_work = t->work,
                                   .channels = (int)plan->layer.channels,
                                   .rows = (int)plan->work.rows[0],
                                   .columns = (int)plan->work.columns,
                                   .column_tiles = (int)falt_ceil_div(plan->work.columns, t->columns),
                                   .span_blocks = (int)falt_ceil_div(summed, FALT_IGEMM_SM90_SPAN),
                                   .place_tiles = (int)t->place,
                                   .places = (int)t->places,
                                   .split_k = t->split_k,
                                   .steps = (int)plan->work.steps[0],
                                   .image_pixels = (int)pixels,
                                   .image_rows = (int)falt_round_up(pixels, FALT_IGEMM_SM90_SPAN),
                                   .kept = plan->cuda.filter != NULL};
  falt_cuda_epilogue_bind(&a->epilogue, p, o);
}

/* The advance of a number of pixels along each axis of a polyphase part, and in images. */
static void fill_span(const igemm_plan *plan, int pixels, falt_cuda_igemm_sm90_polyphase *to) {
  const int axes = plan->layer.axes;
  for (int i = 0; i < axes; i++) {
    to->span[i] = pixels % to->axis[2 - i].pixels;
    pixels /= to->axis[2 - i].pixels;
  }
  to->span[axes] = pixels;
}

static void fill_polyphase(const igemm_plan *plan, const falt_igemm_sm90_polyphase *from,
                           falt_cuda_igemm_sm90_polyphase *to) {
  const int64_t group = (int64_t)falt_igemm_sm90_rows(&plan->tile) * plan->tile.cluster;
  const int64_t image = from->axis[0].pixels * from->axis[1].pixels * from->axis[2].pixels;
  const int64_t images = plan->layer.grouped ? 1 : plan->layer.batch;
  const int64_t pixels = images * (plan->lines ? falt_round_up(image, FALT_IGEMM_SM90_SPAN) : image);
  const bool by_filter = plan->layer.operation == FALT_IGEMM_SM90_FILTER;
  memcpy(to->axis, from->axis, sizeof to->axis);
  fill_span(plan, FALT_IGEMM_SM90_SPAN, to);
  to->pixels = (int)pixels;
  to->row_tiles = (int)falt_ceil_div(by_filter ? plan->work.rows[0] : pixels, group) * plan->tile.cluster;
}

/* Whether an NCHW output is stored as boxes, as its source is loaded: an image must be a multiple of 16 bytes, because
 * TMA writes no less, beyond the last pixel too. */
static bool by_boxes(const igemm_plan *plan) {
  const falt_problem *p = &plan->view;
  return plan->layer.operation != FALT_IGEMM_SM90_FILTER && plan->lines == 1 && plan->planar == 8 &&
         plan->layer.y_bytes == 2 && plan->tile.cluster_k == 1 && falt_igemm_sm90_has_boxes(falt_problem_result(p)) &&
         (!p->has_residual || falt_igemm_sm90_has_boxes(&p->residual));
}

/* Whether outputs are stored by their strides, not by TMA. */
static bool by_lines(const igemm_plan *plan) {
  return (plan->planar && !by_boxes(plan)) || plan->tile.cluster_k > 1 || plan->tile.rows || plan->tile.whole;
}

/* Forward and backward data: from x to y, from dy to dx, polyphase part by polyphase part. */
static void fill_data(const igemm_plan *plan, const falt_operands *o, launch_args *l) {
  const falt_problem *p = &plan->view;
  const falt_tensor *from = falt_problem_factor(p, 0), *to = falt_problem_result(p);
  void *source = falt_cuda_element(falt_factor_data(p->operation, o, 0), from),
       *out = falt_cuda_element(falt_result_data(p->operation, o), to);
  for (int i = 0; i < plan->work.polyphases; i++) {
    fill_polyphase(plan, &plan->polyphases[i], &l->polyphase[i]);
    encode(plan,
           plan->lines ? falt_map_planes(from, source, FALT_IGEMM_SM90_SPAN)
                       : source_of(plan, &plan->polyphases[i], from, source, falt_igemm_sm90_rows(&plan->tile)),
           &l->polyphase[i].source);
    if (by_lines(plan))
      l->polyphase[i].lines = lines_of(plan, &plan->polyphases[i], to, out);
    else
      encode(plan,
             plan->planar ? falt_map_planes(to, out, FALT_IGEMM_SM90_SPAN)
                          : results_of(plan, &plan->polyphases[i], to, out),
             &l->polyphase[i].out);
  }
  for (int i = plan->work.polyphases; i < plan->work.polyphases + plan->work.zeros; i++) {
    fill_polyphase(plan, &plan->polyphases[i], &l->polyphase[i]);
    l->polyphase[i].lines = lines_of(plan, &plan->polyphases[i], to, out);
  }
  encode(plan, filter_of(plan, falt_cuda_plan_filter(&plan->cuda, o)), &l->args.other);
  if (!p->has_residual) return;
  void *residual = falt_cuda_element(o->residual, &p->residual);
  if (by_lines(plan))
    l->args.residual_lines = lines_of(plan, plan->polyphases, &p->residual, residual);
  else
    encode(plan,
           plan->planar ? falt_map_planes(&p->residual, residual, FALT_IGEMM_SM90_SPAN)
                        : results_of(plan, plan->polyphases, &p->residual, residual),
           &l->args.residual);
}

/* The filter's taps in the place of pixels, its output channels in that of images. */
static falt_cuda_lines taps_of(const falt_tensor *w, int axes, void *data) {
  falt_cuda_lines l = {.data = data, .channel = w->stride[FALT_C], .stride = {0, 0, 0, w->stride[FALT_K]}};
  for (int i = 0; i < axes; i++) l.stride[i] = w->stride[FALT_W - i];
  return l;
}

static void fill_filter(const igemm_plan *plan, const falt_operands *o, launch_args *l) {
  const falt_problem *p = &plan->view;
  fill_polyphase(plan, plan->polyphases, l->polyphase);
  void *input = falt_cuda_element(o->input, &p->input), *output = falt_cuda_element(o->output, &p->output);
  encode(plan,
         plan->lines == 2 ? falt_map_planes(&p->input, input, FALT_IGEMM_SM90_SPAN)
                          : source_of(plan, plan->polyphases, &p->input, input, FALT_IGEMM_SM90_SPAN),
         &l->polyphase->source);
  encode(plan,
         plan->lines ? falt_map_planes(&p->output, output, FALT_IGEMM_SM90_SPAN)
                     : pixels_of(plan, &p->output, output, FALT_IGEMM_SM90_SPAN),
         &l->args.other);
  if (!plan->tile.workspace)
    l->polyphase->lines = taps_of(&p->filter, plan->layer.axes, falt_cuda_element(o->filter, &p->filter));
}

static void execute(const falt_plan *base, const falt_operands *o) {
  const igemm_plan *plan = (const igemm_plan *)base;
  const falt_igemm_sm90_tile *t = &plan->tile;
  launch_args l;
  fill_args(plan, o, &l.args);
  if (plan->layer.operation == FALT_IGEMM_SM90_FILTER)
    fill_filter(plan, o, &l);
  else
    fill_data(plan, o, &l);
  void *parameters[] = {&l.args, l.polyphase};
  const falt_gpu_launch launch = {plan->cuda.function,
                                  t->clusters * t->cluster * t->cluster_k,
                                  {128 * (t->consumers + 1), 1},
                                  t->shared_bytes,
                                  o->stream};
  const int one[2] = {1, 1};
  falt_gpu_start_early(base->device->gpu, &launch, one, parameters);
  if (t->workspace)
    falt_map_add_sums(
        plan->cuda.sum, base, o,
        (falt_map_sums){t->split_k, plan->work.rows[0], plan->work.columns,
                        (int)falt_ceil_div(plan->layer.channels, FALT_IGEMM_SM90_SPAN) * FALT_IGEMM_SM90_SPAN});
}

static void print(const falt_plan *base, falt_text *text) {
  const igemm_plan *plan = (const igemm_plan *)base;
  const falt_igemm_sm90_tile *t = &plan->tile;
  falt_text_add(text, "(cuda-igemm-sm90 %dx%d%s%s stages=%d cluster=%d", falt_igemm_sm90_rows(t), t->columns,
                t->swapped ? " swapped" : "", t->pingpong ? " pingpong" : "", t->stages, t->cluster);
  if (plan->layer.grouped) falt_text_add(text, " groups=%d", (int)plan->layer.batch);
  if (t->rows) falt_text_add(text, " rows");
  if (t->whole) falt_text_add(text, " whole");
  if (t->cluster_k > 1) falt_text_add(text, " cluster-k=%d", t->cluster_k);
  if (t->resident) falt_text_add(text, " resident=%d", t->resident);
  if (plan->lines) falt_text_add(text, " lines=%d", plan->lines);
  if (by_boxes(plan)) falt_text_add(text, " boxes");
  if (plan->planar) falt_text_add(text, " planar=%d", plan->planar);
  if (plan->work.polyphases > 1) falt_text_add(text, " polyphases=%d", plan->work.polyphases);
  if (plan->work.zeros) falt_text_add(text, " zeros=%d", plan->work.zeros);
  if (t->workspace) falt_text_add(text, " split-k=%d", t->split_k);
  falt_text_add(text, ")");
}

/* ---- plan */

static void add_defines(const igemm_plan *plan, falt_cuda_kernel *kernel) {
  const falt_problem *p = &plan->view;
  const falt_igemm_sm90_tile *t = &plan->tile;
  const bool forward = p->operation == FALT_FORWARD, by_filter = p->operation == FALT_BACKWARD_FILTER;
  const falt_cuda_named_define defines[] = {
      {"OPERATION", (int)plan->layer.operation},
      {"AXES", plan->layer.axes},
      {"TYPE_Y", t->workspace ? (int)FALT_F32 : (int)falt_problem_result(p)->type},
      {"ACTIVATION", forward ? (int)p->activation : 0},
      {"SCALED", p->has_scale},
      {"BIASED", p->has_bias},
      {"RESIDUAL", p->has_residual},
      {"TRANSPOSED_B", by_filter ? plan->lines < 2 : plan->layer.transposed},
      {"CONSUMERS", t->consumers},
      {"WG_ROWS", t->wg_rows},
      {"COLUMNS", t->columns},
      {"SWAPPED", t->swapped},
      {"PINGPONG", t->pingpong},
      {"STAGES", t->stages},
      {"BUFFERS", t->buffers},
      {"CLUSTER", t->cluster},
      {"RESIDENT", t->resident},
      {"POLYPHASES", plan->work.polyphases},
      {"ZEROS", plan->work.zeros},
      {"CLUSTER_K", t->cluster_k},
      {"OVER", t->over},
      {"KEEPS", t->workspace > 0},
      {"PLANAR", plan->planar},
      {"BY_ROWS", t->rows},
      {"WHOLE", t->whole ? (int)plan->layer.y_bytes * (int)plan->work.columns : 0},
      {"SUMMED", plan->work.summed},
      {"BOXED", by_boxes(plan)},
      {"LINES", plan->lines},
      {"GROUPED", plan->layer.grouped}};
  const char *type = falt_type_name(falt_problem_factor(p, 0)->type);
  falt_cuda_define(kernel, "PAIR=\"%s.%s\"", type, type);
  falt_cuda_defines(kernel, defines, sizeof defines / sizeof *defines);
}

static falt_status ready(falt_plan *base) {
  igemm_plan *plan = (igemm_plan *)base;
  falt_cuda_kernel kernel = {
      .source = "cuda_igemm_sm90.cu", .entry = "falt_igemm_sm90", .shared_bytes = plan->tile.shared_bytes};
  const falt_cuda_kernel sum = {.source = "cuda_igemm_sm90_sum.cu", .entry = "falt_igemm_sm90_sum"};
  add_defines(plan, &kernel);
  return falt_cuda_plan_ready(base, &kernel, plan->tile.workspace ? &sum : NULL);
}

static falt_alignment alignment_of(const igemm_plan *plan, const falt_ask *ask) {
  const bool by_filter = plan->layer.operation == FALT_IGEMM_SM90_FILTER;
  const bool any_filter = by_filter ? plan->tile.workspace || plan->planar : ask->filter_values != NULL;
  return (falt_alignment){.input = FALT_MAP_ALIGN,
                          .filter = any_filter ? 0 : FALT_MAP_ALIGN,
                          .output = FALT_MAP_ALIGN,
                          .residual = ask->problem->has_residual ? FALT_MAP_ALIGN : 0};
}

static const char *choose(falt_plan *base, falt_ask *ask) {
  igemm_plan *plan = (igemm_plan *)base;
  const falt_machine machine = falt_cuda_machine(ask->device);
  int count;
  const char *why = falt_igemm_sm90_view(ask->problem, &plan->view);
  if (why) return why;
  falt_igemm_sm90_describe(&plan->view, &plan->layer);
  plan->layer.workspace = ask->budget->max_workspace;
  plan->planar = falt_igemm_sm90_planar(&plan->view);
  plan->lines = falt_igemm_sm90_lines(&plan->view);
  why = falt_igemm_sm90_polyphases(&plan->layer, plan->polyphases, &count);
  if (why) return why;
  plan->work = falt_igemm_sm90_work_of(&plan->layer, plan->polyphases, count);
  if (!falt_igemm_sm90_choose(&plan->layer, &plan->work, &machine, &plan->tile)) return "no tile fits";
  base->cost.seconds = plan->tile.seconds;
  base->workspace = plan->tile.workspace;
  base->alignment = alignment_of(plan, ask);
  return NULL;
}

static const falt_plan_steps steps = {
    sizeof(igemm_plan), {execute, print, falt_cuda_plan_destroy, ready}, falt_igemm_sm90_refusal, choose};

extern const falt_solver falt_solver_cuda_igemm_sm90;
const falt_solver falt_solver_cuda_igemm_sm90 = {.name = "cuda-igemm-sm90",
                                                 .device_kind = "cuda",
                                                 .plan = falt_cuda_plan_make,
                                                 .steps = &steps,
                                                 .fallbacks = falt_cuda_fallbacks};
