/* Dense layers of few channels whose channels lie side by side, in 16-bit floats, on GPUs with wgmma (sm_90a): forward
 * and gradients by the data, which are the same layer with the filter turned round. Each pixel is fetched once for all
 * taps of a plane, each plane once for all planes of results. src/cuda/kernels/planes.cu has the algorithm,
 * src/cuda/planes_tiles.c chooses how it is cut. In 2D the rows are the planes, and the images stand in the rows'
 * place. Operands whose addresses the copy engine cannot take go to another solver's plan, made beside this one. */
#include "core/memory.h"
#include "cuda/gpu.h"
#include "cuda/kernels/planes_args.h"
#include "cuda/planes.h"
#include "planner/planner.h"
#include "solver/cuda.h"
#include "solver/cuda_maps.h"

enum { VECTOR = 8 };

typedef struct planes_plan {
  falt_plan base;
  falt_cu_function function;
  falt_planes_problem layer;
  falt_planes_tile tile;
  int dims[4]; /* of tensors: those that are planes, rows, columns and images */
  falt_cuda_planes_args args;
  void *filter;      /* in the GPU's memory, or NULL */
  falt_plan *others; /* for operands that are not aligned */
} planes_plan;

static const falt_tensor *source_of(const falt_problem *p) {
  return p->operation == FALT_FORWARD ? &p->input : &p->output;
}

/* ---- execute */

/* The source's pixels, a tile's window of them at a time. */
static falt_gpu_map windows_of(const planes_plan *plan, void *data) {
  const falt_tensor *t = source_of(&plan->base.problem);
  const falt_planes_tile *tile = &plan->tile;
  const int dims[5] = {FALT_C, plan->dims[2], plan->dims[1], plan->dims[0], plan->dims[3]};
  falt_gpu_map m = {.type = t->type, .rank = 5, .data = data};
  for (int i = 0; i < 5; i++) falt_map_dimension(&m, i, t, dims[i]);
  m.box[0] = (uint32_t)tile->pixel / 2;
  m.box[1] = (uint32_t)(falt_planes_tile_width(tile) + plan->layer.taps[2] - 1);
  m.box[2] = (uint32_t)(falt_planes_tile_height(tile) + plan->layer.taps[1] - 1);
  return m;
}

/* Of gradients the filter is turned round: its last tap meets the lowest position. */
static void set_filter(const planes_plan *plan, void *data, falt_cuda_planes_args *a) {
  const falt_problem *p = &plan->base.problem;
  const falt_tensor *w = &p->filter;
  const bool forward = p->operation == FALT_FORWARD;
  int64_t first = 0;
  a->w_result = w->stride[forward ? FALT_K : FALT_C];
  a->w_channel = w->stride[forward ? FALT_C : FALT_K];
  for (int i = 0; i < 3; i++) {
    const int64_t stride = plan->layer.taps[i] > 1 ? w->stride[plan->dims[i]] : 0;
    a->w_axis[i] = forward ? stride : -stride;
    if (!forward) first += (plan->layer.taps[i] - 1) * stride;
  }
  a->filter = (char *)falt_map_element(data, w) + first * (int64_t)falt_type_size(w->type);
  a->w_lines = forward && falt_map_takes(w, FALT_C) && plan->layer.channels % VECTOR == 0 && falt_map_aligned(data, w);
}

static bool all_aligned(const planes_plan *plan, const falt_operands *o) {
  const falt_problem *p = &plan->base.problem;
  return falt_map_aligned(o->input, &p->input) && falt_map_aligned(o->output, &p->output) &&
         (!p->has_residual || falt_map_aligned(o->residual, &p->residual));
}

static void execute(const falt_plan *base, const falt_operands *o) {
  const planes_plan *plan = (const planes_plan *)base;
  const falt_problem *p = &base->problem;
  const bool forward = p->operation == FALT_FORWARD;
  falt_cuda_planes_args a = plan->args;
  if (!all_aligned(plan, o)) {
    plan->others->table->execute(plan->others, o);
    return;
  }
  const falt_gpu_map map = windows_of(plan, falt_map_element(forward ? o->input : o->output, source_of(p)));
  falt_gpu_encode(base->device->gpu, &map, &a.source);
  set_filter(plan, plan->filter ? plan->filter : o->filter, &a);
  a.y = falt_map_element(forward ? o->output : o->input, falt_problem_result(p));
  if (p->has_residual) a.residual = falt_map_element(o->residual, &p->residual);
  if (p->has_scale) a.epilogue.scale = o->scale;
  if (p->has_bias) a.epilogue.bias = o->bias;
  void *parameters[] = {&a};
  const falt_gpu_launch launch = {
      plan->function, plan->tile.grid, {128 * (plan->tile.consumers + 1), 1}, plan->tile.shared_bytes, o->stream};
  falt_gpu_start(base->device->gpu, &launch, parameters);
}

static void print(const falt_plan *base, falt_text *text) {
  const planes_plan *plan = (const planes_plan *)base;
  const falt_planes_tile *t = &plan->tile;
  falt_text_add(text, "(cuda-planes %dx%d pixels=%dx%d warpgroups=%d stages=%d walk=%d)", t->channels,
                (int)plan->layer.taps[0], falt_planes_tile_height(t), falt_planes_tile_width(t), t->consumers,
                t->stages, t->walk);
}

static void destroy(falt_plan *base) {
  planes_plan *plan = (planes_plan *)base;
  if (plan->others) plan->others->table->destroy(plan->others);
  falt_gpu_release(base->device->gpu, plan->filter);
  falt_free(plan);
}

/* ---- applicable */

static bool has_plain_taps(const falt_problem *p) {
  for (int i = 0; i < 3; i++)
    if ((p->axis[i].stride > 1 && p->output.size[FALT_D + i] > 1) ||
        (p->axis[i].dilation > 1 && p->filter.size[FALT_D + i] > 1))
      return false;
  return true;
}

static const char *inapplicable(const falt_ask *ask) {
  const falt_problem *p = ask->problem;
  if (p->operation > FALT_BACKWARD_DATA) return "it computes layers and their gradients by the data";
  const char *why = falt_map_refusal(ask, source_of(p)->type, p->filter.type);
  if (why) return why;
  return !has_plain_taps(p)                              ? "it takes no strides and no dilations"
         : falt_problem_result(p)->size[FALT_C] % VECTOR ? "8 does not divide the channels of its results"
                                                         : NULL;
}

/* ---- plan */

/* Planes of depth; where there is but one, rows, and images in their place. */
static void describe(planes_plan *plan) {
  const falt_problem *p = &plan->base.problem;
  const falt_tensor *from = source_of(p), *to = falt_problem_result(p);
  const bool forward = p->operation == FALT_FORWARD;
  const bool flat =
      from->size[FALT_D] == 1 && to->size[FALT_D] == 1 && p->filter.size[FALT_D] == 1 && p->axis[0].pad[0] == 0;
  const int dims[2][4] = {{FALT_D, FALT_H, FALT_W, FALT_N}, {FALT_H, FALT_N, FALT_W, FALT_D}};
  falt_planes_problem *l = &plan->layer;
  *l = (falt_planes_problem){.channels = from->size[FALT_C],
                             .results = to->size[FALT_C],
                             .images = from->size[dims[flat][3]],
                             .y_bytes = (int)falt_type_size(to->type),
                             .residual = p->has_residual};
  for (int i = 0; i < 4; i++) plan->dims[i] = dims[flat][i];
  for (int i = 0; i < 3; i++) {
    const int dim = plan->dims[i];
    const int64_t pad = dim == FALT_N ? 0 : p->axis[dim - FALT_D].pad[0];
    l->taps[i] = dim == FALT_N ? 1 : p->filter.size[dim];
    l->in[i] = from->size[dim];
    l->out[i] = to->size[dim];
    l->corner[i] = forward ? -pad : pad - (l->taps[i] - 1);
  }
}

/* All but what stands with the operands. */
static void fill_args(planes_plan *plan) {
  const falt_problem *p = &plan->base.problem;
  const falt_planes_tile *t = &plan->tile;
  const falt_planes_problem *l = &plan->layer;
  const falt_tensor *y = falt_problem_result(p), *r = &p->residual;
  falt_cuda_planes_args *a = &plan->args;
  *a = (falt_cuda_planes_args){.epilogue = falt_cuda_epilogue_of(p),
                               .y_image = y->stride[plan->dims[3]],
                               .r_image = r->stride[plan->dims[3]],
                               .channels = (int)l->channels,
                               .results = (int)l->results,
                               .planes = (int)l->in[0],
                               .tiles = {t->tiles[0], t->tiles[1]},
                               .walk = t->walk,
                               .walks = t->walks,
                               .column_tiles = t->column_tiles,
                               .items = (int)t->items};
  for (int i = 0; i < 3; i++) {
    a->y_axis[i] = y->stride[plan->dims[i]];
    a->r_axis[i] = r->stride[plan->dims[i]];
    a->out[i] = (int)l->out[i];
    a->corner[i] = (int)l->corner[i];
  }
}

static void add_holes(const planes_plan *plan, falt_cuda_kernel *kernel) {
  const falt_problem *p = &plan->base.problem;
  const falt_planes_tile *t = &plan->tile;
  const struct {
    const char *name;
    int value;
  } holes[] = {{"TYPE_Y", (int)falt_problem_result(p)->type},
               {"ACTIVATION", p->operation == FALT_FORWARD ? (int)p->activation : 0},
               {"SCALED", p->has_scale},
               {"BIASED", p->has_bias},
               {"RESIDUAL", p->has_residual},
               {"TAPS_D", (int)plan->layer.taps[0]},
               {"TAPS_H", (int)plan->layer.taps[1]},
               {"TAPS_W", (int)plan->layer.taps[2]},
               {"PIXEL", t->pixel},
               {"CHANNELS", t->channels},
               {"CONSUMERS", t->consumers},
               {"BLOCKS", t->blocks},
               {"BLOCKS_W", t->blocks_w},
               {"STAGES", t->stages}};
  const char *type = p->filter.type == FALT_F16 ? "f16" : "bf16";
  falt_cuda_hole(kernel, "PAIR=\"%s.%s\"", type, type);
  for (size_t i = 0; i < sizeof holes / sizeof *holes; i++)
    falt_cuda_hole(kernel, "%s=%d", holes[i].name, holes[i].value);
}

static falt_status ready(falt_plan *base) {
  planes_plan *plan = (planes_plan *)base;
  falt_cuda_kernel kernel = {.source = "planes.cu", .entry = "falt_planes", .shared_bytes = plan->tile.shared_bytes};
  add_holes(plan, &kernel);
  FALT_TRY(falt_gpu_kernel(base->device->gpu, &kernel, &plan->function));
  return falt_plan_ready(plan->others);
}

static falt_plan *plan_planes(const falt_solver *solver, falt_ask *ask) {
  static const falt_plan_table table = {execute, print, destroy, ready};
  const char *why = inapplicable(ask);
  if (why) return falt_refuse(ask, "%s", why);
  planes_plan *plan = falt_plan_new(sizeof *plan, &table, solver, ask);
  if (!plan) return NULL;
  const falt_planes_machine machine = falt_map_machine(ask);
  describe(plan);
  why = falt_planes_refusal(&plan->layer);
  if (!why && !falt_planes_choose(&plan->layer, &machine, &plan->tile)) why = "no tile fits";
  if (why) {
    destroy(&plan->base);
    return falt_refuse(ask, "%s", why);
  }
  fill_args(plan);
  plan->base.cost.seconds = plan->tile.seconds;
  return falt_map_finish(ask, &plan->base, &plan->others, &plan->filter);
}

extern const falt_solver falt_solver_cuda_planes;
const falt_solver falt_solver_cuda_planes = {.name = "cuda-planes", .device_kind = "cuda", .plan = plan_planes};
