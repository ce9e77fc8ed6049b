/* Solver cuda-igemm-sm90-halo: fprop and dgrad with wgmma and TMA (sm_90a) that load each halo tile of a plane once for
 * all taps. Applies to dense NHWC layers of few channels, f16 and bf16, 2D and 3D, without dilation. Dgrad is fprop
 * with the filter rotated; with a stride, a step of dx is one pixel of that layer (falt_igemm_sm90_halo_axis). In 2D
 * the rows are the planes, and images take the rows' place. The output may be NCHW. Unaligned operands use the fallback
 * plan. Kernel: cuda_igemm_sm90_halo.cu. Tile search: cuda_igemm_sm90_halo_tiles.c. */
#include "cuda/gpu.h"
#include "planner/planner.h"
#include "solver/cuda/common/cuda.h"
#include "solver/cuda/common/cuda_maps.h"
#include "solver/cuda/common/plan.h"
#include "solver/cuda/igemm_sm90/cuda_igemm_sm90_halo_args.h"
#include "solver/cuda/igemm_sm90/cuda_igemm_sm90_halo_tiles.h"

enum { VECTOR = 8 };

typedef struct halo_plan {
  falt_cuda_plan cuda;
  falt_igemm_sm90_halo_problem layer;
  falt_igemm_sm90_halo_tile tile;
  int dims[4]; /* dimensions of tensors for planes, rows, columns and images */
  falt_igemm_sm90_halo_axis axis[3];
  bool planar, whole; /* as cuda_igemm_sm90_halo.cu's parameters */
  falt_cuda_igemm_sm90_halo_args args;
} halo_plan;

static const falt_tensor *source_of(const falt_problem *p) {
  return falt_problem_factor(p, 0);
}

/* ---- execute */

/* The source's pixels, a tile's window of them at a time. */
static falt_gpu_map windows_of(const halo_plan *plan, void *data) {
  const falt_tensor *t = source_of(&plan->cuda.base.problem);
  const falt_igemm_sm90_halo_tile *tile = &plan->tile;
  const int dims[5] = {FALT_C, plan->dims[2], plan->dims[1], plan->dims[0], plan->dims[3]};
  falt_gpu_map m = {.type = t->type, .rank = 5, .data = data};
  for (int i = 0; i < 5; i++) falt_map_dimension(&m, i, t, dims[i]);
  m.box[0] = (uint32_t)tile->pixel / 2;
  m.box[1] = (uint32_t)(falt_igemm_sm90_halo_tile_width(tile) + plan->layer.taps[2] - 1);
  m.box[2] = (uint32_t)(falt_igemm_sm90_halo_tile_height(tile) + plan->layer.taps[1] - 1);
  return m;
}

/* Where its planar output's boxes go: 16 pixels of two rows. */
static falt_gpu_map boxes_of(const halo_plan *plan, void *data) {
  const falt_tensor *t = falt_problem_result(&plan->cuda.base.problem);
  const int dims[5] = {FALT_W, FALT_C, plan->dims[1], plan->dims[0], plan->dims[3]};
  falt_gpu_map m = {.type = t->type, .rank = 5, .data = data};
  for (int i = 0; i < 5; i++) falt_map_dimension(&m, i, t, dims[i]);
  m.box[0] = 16;
  m.box[1] = (uint32_t)plan->tile.channels;
  m.box[2] = 2;
  return m;
}

/* The first pixel of the first step, where an output would have it. */
static void *first_step(const halo_plan *plan, void *data, const falt_tensor *t) {
  int64_t shift = 0;
  for (int i = 0; i < 3; i++) shift += plan->axis[i].shift * t->stride[plan->dims[i]];
  return (char *)falt_cuda_element(data, t) - shift * (int64_t)falt_type_size(t->type);
}

static void execute(const falt_plan *base, const falt_operands *o) {
  const halo_plan *plan = (const halo_plan *)base;
  const falt_problem *p = &base->problem;
  falt_cuda_igemm_sm90_halo_args a = plan->args;
  void *filter = plan->cuda.filter ? plan->cuda.filter : o->filter;
  const falt_gpu_map map = windows_of(plan, falt_cuda_element(falt_factor_data(p->operation, o, 0), source_of(p)));
  falt_gpu_encode(base->device->gpu, &map, &a.source);
  a.x = map.data;
  if (plan->layer.boxed) {
    const falt_gpu_map boxes =
        boxes_of(plan, falt_cuda_element(falt_result_data(p->operation, o), falt_problem_result(p)));
    falt_gpu_encode(base->device->gpu, &boxes, &a.result);
  }
  a.filter = falt_cuda_element(filter, &p->filter);
  a.kept = plan->cuda.filter != NULL;
  a.w_lines = a.w_lines && falt_map_aligned(filter, &p->filter);
  a.y = first_step(plan, falt_result_data(p->operation, o), falt_problem_result(p));
  if (p->has_residual) a.residual = first_step(plan, o->residual, &p->residual);
  falt_cuda_epilogue_bind(&a.epilogue, p, o);
  void *parameters[] = {&a};
  const falt_gpu_launch launch = {
      plan->cuda.function, plan->tile.grid, {128 * (plan->tile.consumers + 1), 1}, plan->tile.shared_bytes, o->stream};
  const int one[2] = {1, 1};
  falt_gpu_start_early(base->device->gpu, &launch, one, parameters);
}

static void print(const falt_plan *base, falt_text *text) {
  const halo_plan *plan = (const halo_plan *)base;
  const falt_igemm_sm90_halo_tile *t = &plan->tile;
  falt_text_add(text, "(cuda-igemm-sm90-halo %dx%d pixels=%dx%d warpgroups=%d stages=%d walk=%d", t->channels,
                (int)plan->layer.taps[0], falt_igemm_sm90_halo_tile_height(t), falt_igemm_sm90_halo_tile_width(t),
                t->consumers, t->stages, t->walk);
  if (plan->layer.boxed) falt_text_add(text, " planar");
  falt_text_add(text, ")");
}

/* ---- applicable */

static bool has_plain_taps(const falt_problem *p) {
  for (int i = 0; i < 3; i++)
    if ((p->operation == FALT_FORWARD && p->axis[i].stride > 1 && p->output.size[FALT_D + i] > 1) ||
        (p->axis[i].dilation > 1 && p->filter.size[FALT_D + i] > 1))
      return false;
  return true;
}

/* Neighbouring pixels of the output that form one pixel of the layer. */
static int64_t step_of(const falt_problem *p, int axis) {
  return p->operation == FALT_BACKWARD_DATA && p->output.size[FALT_D + axis] > 1 ? p->axis[axis].stride : 1;
}

static bool is_scattered(const falt_problem *p) {
  return step_of(p, 0) * step_of(p, 1) * step_of(p, 2) > 1 || falt_problem_result(p)->size[FALT_C] % VECTOR;
}

/* Whether its rows begin where sectors of memory, of 32 bytes, do. */
static bool has_sectors(const falt_tensor *t) {
  int64_t all = t->offset;
  for (int i = 0; i < FALT_DIMS; i++)
    if (i != FALT_W && t->size[i] > 1) all |= t->stride[i];
  return all * (int64_t)falt_type_size(t->type) % 32 == 0;
}

/* Whether outputs leave by whole runs of channels, or by boxes of pixels, of which TMA writes 16 bytes at
 * least, beyond a row's last pixel too. */
static const char *result_refusal(const falt_problem *p) {
  const falt_tensor *y = falt_problem_result(p);
  if (!falt_map_takes(y, FALT_C))
    return falt_type_size(y->type) != 2 ? "NCHW output is f16 or bf16"
           : p->has_residual            ? "NCHW output has no residual"
           : !falt_map_takes(y, FALT_W) ? "neither channels nor pixels of the output are contiguous"
           : y->size[FALT_W] % VECTOR   ? "rows of the output are not multiples of 16 bytes"
                                        : NULL;
  return p->has_residual && !falt_map_takes(&p->residual, FALT_C) ? "the residual does not have the output's layout"
                                                                  : NULL;
}

static const char *inapplicable(const falt_ask *ask) {
  const falt_problem *p = ask->problem;
  if (!falt_reads_filter(p->operation)) return "it computes fprop and dgrad only";
  const char *why = falt_map_type_refusal(ask, source_of(p)->type, p->filter.type);
  if (why) return why;
  return !has_plain_taps(p) ? "it takes no dilations, and strides in dgrad only"
         : !falt_map_takes(source_of(p), FALT_C)
             ? "channels are not contiguous, or strides are not multiples of 16 bytes"
         : is_scattered(p) ? NULL
                           : result_refusal(p);
}

/* ---- plan */

static falt_igemm_sm90_halo_axis axis_of(const falt_problem *p, int dim) {
  if (dim == FALT_N) return (falt_igemm_sm90_halo_axis){.step = 1, .taps = 1};
  const int64_t taps = p->filter.size[dim], pad = p->axis[dim - FALT_D].pad[0];
  return p->operation == FALT_FORWARD ? (falt_igemm_sm90_halo_axis){.step = 1, .taps = taps, .corner = -pad}
                                      : falt_igemm_sm90_halo_axis_of(step_of(p, dim - FALT_D), taps, pad);
}

/* The offset of a layer's output from the first pixel of its step. */
static int64_t place_of(const halo_plan *plan, int64_t result) {
  const falt_tensor *y = falt_problem_result(&plan->cuda.base.problem);
  const falt_igemm_sm90_halo_axis *a = plan->axis;
  const int64_t inner = plan->planar ? a[0].step * a[1].step * a[2].step : y->size[FALT_C];
  const int64_t pixel = plan->planar ? result % inner : result / inner;
  return (plan->planar ? result / inner : result % inner) * y->stride[FALT_C] +
         pixel / (a[1].step * a[2].step) * y->stride[plan->dims[0]] +
         pixel / a[2].step % a[1].step * y->stride[plan->dims[1]] + pixel % a[2].step * y->stride[plan->dims[2]];
}

/* Whether outputs 2i and 2i + 1 are always one word. */
static bool has_pairs(const halo_plan *plan) {
  const falt_tensor *y = falt_problem_result(&plan->cuda.base.problem);
  const falt_igemm_sm90_halo_problem *l = &plan->layer;
  if (!plan->whole || l->results % 2 || y->offset % 2 || (l->images > 1 && y->stride[plan->dims[3]] % 2)) return false;
  for (int i = 0; i < 3; i++)
    if (l->out[i] > 1 && plan->axis[i].step * y->stride[plan->dims[i]] % 2) return false;
  for (int64_t i = 0; i < l->results; i += 2)
    if (place_of(plan, i) % 2 || place_of(plan, i + 1) != place_of(plan, i) + 1) return false;
  return true;
}

/* 3D: planes of depth; 2D: rows are the planes, and images take the rows' place. */
static void describe(halo_plan *plan, bool flat) {
  const falt_problem *p = &plan->cuda.base.problem;
  const falt_tensor *from = source_of(p), *to = falt_problem_result(p);
  const int dims[2][4] = {{FALT_D, FALT_H, FALT_W, FALT_N}, {FALT_H, FALT_N, FALT_W, FALT_D}};
  falt_igemm_sm90_halo_problem *l = &plan->layer;
  *l = (falt_igemm_sm90_halo_problem){.channels = from->size[FALT_C],
                                      .results = to->size[FALT_C],
                                      .images = from->size[dims[flat][3]],
                                      .y_bytes = (int)falt_type_size(to->type),
                                      .residual = p->has_residual};
  plan->whole = true;
  plan->planar = is_scattered(p) ? to->stride[FALT_C] > to->stride[FALT_W] : !falt_map_takes(to, FALT_C);
  l->boxed = plan->planar && !is_scattered(p);
  l->sectors = has_sectors(to);
  for (int i = 0; i < 4; i++) plan->dims[i] = dims[flat][i];
  for (int i = 0; i < 3; i++) {
    const int dim = plan->dims[i];
    const falt_igemm_sm90_halo_axis a = plan->axis[i] = axis_of(p, dim);
    l->taps[i] = a.taps;
    l->in[i] = from->size[dim];
    l->out[i] = falt_ceil_div(to->size[dim] + a.shift, a.step);
    l->corner[i] = a.corner;
    l->results *= a.step;
    plan->whole = plan->whole && a.shift == 0 && to->size[dim] % a.step == 0;
  }
  if (is_scattered(p)) l->scattered = has_pairs(plan) ? 2 : 1;
}

/* Images have other tile shapes as volumes than as one plane of rows; the faster of both. */
static const char *choose(halo_plan *plan, const falt_machine *machine) {
  const char *why = NULL;
  halo_plan best = {.tile = {.channels = 0}};
  for (int flat = 0; flat <= falt_cuda_is_flat(&plan->cuda.base.problem); flat++) {
    describe(plan, flat);
    const char *refusal = falt_igemm_sm90_halo_refusal(&plan->layer);
    if (refusal) why = refusal;
    if (refusal || !falt_igemm_sm90_halo_choose(&plan->layer, machine, &plan->tile)) continue;
    if (best.tile.channels == 0 || plan->tile.seconds < best.tile.seconds) best = *plan;
  }
  if (best.tile.channels == 0) return why ? why : "no tile fits";
  *plan = best;
  return NULL;
}

/* All arguments except the operands. */
static void fill_args(halo_plan *plan) {
  const falt_problem *p = &plan->cuda.base.problem;
  const falt_igemm_sm90_halo_tile *t = &plan->tile;
  const falt_igemm_sm90_halo_problem *l = &plan->layer;
  const falt_tensor *y = falt_problem_result(p), *r = &p->residual;
  falt_cuda_igemm_sm90_halo_args *a = &plan->args;
  const falt_tensor *w = &p->filter, *x = source_of(p);
  const bool forward = p->operation == FALT_FORWARD;
  *a = (falt_cuda_igemm_sm90_halo_args){.epilogue = falt_cuda_epilogue_of(p),
                                        .w_result = w->stride[forward ? FALT_K : FALT_C],
                                        .w_channel = w->stride[forward ? FALT_C : FALT_K],
                                        .w_lines = forward && falt_map_takes(w, FALT_C) && l->channels % VECTOR == 0,
                                        .x_image = x->stride[plan->dims[3]],
                                        .y_image = y->stride[plan->dims[3]],
                                        .r_image = r->stride[plan->dims[3]],
                                        .y_channel = y->stride[FALT_C],
                                        .r_channel = r->stride[FALT_C],
                                        .channels = (int)l->channels,
                                        .results = (int)l->results,
                                        .tiles = {t->tiles[0], t->tiles[1]},
                                        .walk = t->walk,
                                        .walks = t->walks,
                                        .column_tiles = t->column_tiles,
                                        .items = (int)t->items};
  for (int i = 0; i < 3; i++) {
    const int dim = plan->dims[i];
    const falt_igemm_sm90_halo_axis *axis = &plan->axis[i];
    a->w_axis[i] = dim == FALT_N ? 0 : w->stride[dim];
    a->w_taps[i] = dim == FALT_N ? 1 : (int)w->size[dim];
    a->w_first[i] = (int)axis->first;
    a->w_pace[i] = forward ? 1 : -(int)axis->step;
    a->x_axis[i] = x->stride[dim];
    a->y_spot[i] = y->stride[dim];
    a->y_axis[i] = axis->step * y->stride[dim];
    a->r_axis[i] = axis->step * r->stride[dim];
    a->in[i] = (int)l->in[i];
    a->out[i] = (int)l->out[i];
    a->corner[i] = (int)l->corner[i];
    a->size[i] = (int)y->size[dim];
    a->shift[i] = (int)axis->shift;
  }
}

static void add_defines(const halo_plan *plan, falt_cuda_kernel *kernel) {
  const falt_problem *p = &plan->cuda.base.problem;
  const falt_igemm_sm90_halo_tile *t = &plan->tile;
  const falt_cuda_named_define defines[] = {{"TYPE_X", (int)p->filter.type},
                                            {"TYPE_Y", (int)falt_problem_result(p)->type},
                                            {"ACTIVATION", p->operation == FALT_FORWARD ? (int)p->activation : 0},
                                            {"SCALED", p->has_scale},
                                            {"BIASED", p->has_bias},
                                            {"RESIDUAL", p->has_residual},
                                            {"TAPS_D", (int)plan->layer.taps[0]},
                                            {"TAPS_H", (int)plan->layer.taps[1]},
                                            {"TAPS_W", (int)plan->layer.taps[2]},
                                            {"STEP_D", (int)plan->axis[0].step},
                                            {"STEP_H", (int)plan->axis[1].step},
                                            {"STEP_W", (int)plan->axis[2].step},
                                            {"SCATTERED", plan->layer.scattered > 0},
                                            {"OUTPUTS", (int)falt_problem_result(p)->size[FALT_C]},
                                            {"PLANAR", plan->planar},
                                            {"PAIRED", plan->layer.scattered == 2},
                                            {"WHOLE", plan->whole},
                                            {"PIXEL", t->pixel},
                                            {"PIECES", t->pieces},
                                            {"CHANNELS", t->channels},
                                            {"COLUMNS", t->columns},
                                            {"CONSUMERS", t->consumers},
                                            {"BLOCKS", t->blocks},
                                            {"BLOCKS_W", t->blocks_w},
                                            {"STAGES", t->stages}};
  const char *type = falt_type_name(p->filter.type);
  falt_cuda_define(kernel, "PAIR=\"%s.%s\"", type, type);
  falt_cuda_defines(kernel, defines, sizeof defines / sizeof *defines);
}

/* Scattered outputs are words, or anywhere. */
static falt_alignment alignment_of(const halo_plan *plan) {
  const falt_problem *p = &plan->cuda.base.problem;
  const int scattered = plan->layer.scattered * (int)falt_type_size(falt_problem_result(p)->type);
  const int result = scattered ? scattered : FALT_MAP_ALIGN, residual = p->has_residual ? result : 0;
  return p->operation == FALT_FORWARD
             ? (falt_alignment){.input = FALT_MAP_ALIGN, .output = result, .residual = residual}
             : (falt_alignment){.input = result, .output = FALT_MAP_ALIGN, .residual = residual};
}

static falt_status ready(falt_plan *base) {
  halo_plan *plan = (halo_plan *)base;
  falt_cuda_kernel kernel = {
      .source = "cuda_igemm_sm90_halo.cu", .entry = "falt_igemm_sm90_halo", .shared_bytes = plan->tile.shared_bytes};
  add_defines(plan, &kernel);
  return falt_cuda_plan_ready(base, &kernel, NULL);
}

static const char *fill(falt_plan *base, falt_ask *ask) {
  halo_plan *plan = (halo_plan *)base;
  const falt_machine machine = falt_cuda_machine(ask->device);
  const char *why = choose(plan, &machine);
  if (why) return why;
  fill_args(plan);
  base->cost.seconds = plan->tile.seconds;
  base->alignment = alignment_of(plan);
  return NULL;
}

static const falt_plan_steps steps = {
    sizeof(halo_plan), {execute, print, falt_cuda_plan_destroy, ready}, inapplicable, fill};

extern const falt_solver falt_solver_cuda_igemm_sm90_halo;
const falt_solver falt_solver_cuda_igemm_sm90_halo = {.name = "cuda-igemm-sm90-halo",
                                                      .device_kind = "cuda",
                                                      .plan = falt_cuda_plan_make,
                                                      .steps = &steps,
                                                      .fallbacks = falt_cuda_fallbacks};
