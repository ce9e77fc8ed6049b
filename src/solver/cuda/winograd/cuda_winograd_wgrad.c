/* Solver cuda-winograd-wgrad: wgrad of dense layers of 3 or 5 taps along one axis or two, stride 1, in f32, f16 and
 * bf16, by cuda-winograd's transposes:
 *
 *     dW = G^T [ sum over tiles of (A dY A^T) .* (B^T X B) ] G
 *
 * A. Lavin, S. Gray, "Fast Algorithms for Convolutional Neural Networks", 2016. Three kernels transform, and in f16 one
 * finds by what they scale; a child problem multiplies. The planner picks it where there are many channels on small
 * planes. */
#include <math.h>

#include "core/memory.h"
#include "solver/cuda/winograd/cuda_winograd.h"

/* The child's input are the transforms of x and its filter those of dy; or, swapped, the other way round: the filter is
 * packed for tensor cores in each execution. Tiles, the sums' depth, are contiguous in both. */

typedef struct wgrad_plan {
  falt_cuda_plan base;
  falt_plan *child;
  falt_cu_function input, gradient, result;
  falt_cuda_winograd_finders finders;
  const falt_cuda_winograd_form *form;
  bool swapped;
  int64_t matrices; /* points of all groups */
  size_t v_at, d_at, m_at, largest_at, child_at;
  falt_cuda_winograd_args args;
} wgrad_plan;

/* ---- execute */

/* Lanes of a block are neighbours in one dimension, and the rest of its threads in another. */
static int source_lanes(const wgrad_plan *plan) {
  return plan->args.x_axis[1] == 1 ? 32 : 8;
}

static int gradient_lanes(const wgrad_plan *plan) {
  return plan->args.y_axis[1] == 1 ? 32 : 8;
}

/* Blocks of the last kernel: as it covers pairs. */
static int64_t result_blocks(const falt_problem *p, const falt_cuda_winograd_args *a, bool swapped) {
  const int64_t taps = p->filter.size[FALT_H] * p->filter.size[FALT_W];
  const int64_t near = swapped ? a->channels : a->rows, far = swapped ? a->rows : a->channels;
  return falt_ceil_div(near, FALT_WINOGRAD_NEAR) * falt_ceil_div(far, FALT_WINOGRAD_OTHERS(taps)) * a->groups;
}

static falt_gpu *gpu_of(const wgrad_plan *plan) {
  return plan->base.base.device->gpu;
}

static float *largest_of(const wgrad_plan *plan, const falt_operands *o, int operand) {
  char *workspace = o->workspace;
  return (float *)(void *)(workspace + plan->largest_at) + (size_t)operand * FALT_WINOGRAD_LARGEST;
}

static void bind(const wgrad_plan *plan, const falt_operands *o, falt_cuda_winograd_args *args) {
  const falt_problem *p = &plan->base.base.problem;
  char *workspace = o->workspace;
  args->x = falt_cuda_element(o->input, &p->input);
  args->y = falt_cuda_element(o->output, &p->output);
  args->w = falt_cuda_element(o->filter, &p->filter);
  args->v = workspace + plan->v_at;
  args->d = workspace + plan->d_at;
  args->m = (float *)(void *)(workspace + plan->m_at);
  for (int i = 0; i < 2; i++) args->largest[i] = largest_of(plan, o, i);
}

/* The magnitudes by which tiles of x and of dy are scaled. */
static void find_largest(const wgrad_plan *plan, const falt_operands *o, const falt_cuda_winograd_args *args) {
  const falt_problem *p = &plan->base.base.problem;
  if (!falt_cuda_winograd_scales(p)) return;
  falt_cuda_winograd_find_largest(gpu_of(plan), &plan->finders, &p->input, args->x, args->fill, largest_of(plan, o, 0),
                                  o->stream);
  falt_cuda_winograd_find_largest(gpu_of(plan), &plan->finders, &p->output, args->y, 0, largest_of(plan, o, 1),
                                  o->stream);
}

static void start(const wgrad_plan *plan, falt_cu_function function, int64_t near, int64_t far, int lanes,
                  falt_cuda_winograd_args *args, void *stream) {
  falt_cuda_winograd_start(gpu_of(plan), function, falt_cuda_winograd_blocks(near, far, lanes, args->groups), args,
                           stream);
}

static void execute(const falt_plan *base, const falt_operands *o) {
  const wgrad_plan *plan = (const wgrad_plan *)base;
  falt_cuda_winograd_args args = plan->args, *a = &args;
  bind(plan, o, a);
  find_largest(plan, o, a);
  start(plan, plan->input, a->v_tiles, a->v_channels, source_lanes(plan), a, o->stream);
  start(plan, plan->gradient, a->v_tiles, a->u_rows, gradient_lanes(plan), a, o->stream);
  falt_operands inner = {.input = plan->swapped ? a->d : a->v,
                         .filter = plan->swapped ? a->v : a->d,
                         .output = a->m,
                         .workspace = (char *)o->workspace + plan->child_at,
                         .stream = o->stream};
  falt_plan_run(plan->child, &inner);
  falt_cuda_winograd_start(gpu_of(plan), plan->result, result_blocks(&base->problem, a, plan->swapped), a, o->stream);
}

static void print(const falt_plan *base, falt_text *text) {
  const wgrad_plan *plan = (const wgrad_plan *)base;
  falt_text_add(text, "(cuda-winograd-wgrad ");
  falt_cuda_winograd_print(plan->form, &base->problem, text);
  falt_text_add(text, plan->swapped ? " swapped " : " ");
  plan->child->table->print(plan->child, text);
  falt_text_add(text, ")");
}

static void destroy(falt_plan *base) {
  falt_plan_destroy(&((wgrad_plan *)base)->child);
  falt_cuda_plan_destroy(base);
}

static falt_status ready(falt_plan *base) {
  wgrad_plan *plan = (wgrad_plan *)base;
  const falt_problem *p = &base->problem;
  falt_gpu *gpu = base->device->gpu;
  falt_cuda_kernel input =
      falt_cuda_winograd_kernel(p, plan->form, "cuda_winograd_input.cu", "falt_winograd_input", source_lanes(plan));
  falt_cuda_kernel gradient = falt_cuda_winograd_kernel(p, plan->form, "cuda_winograd_gradient.cu",
                                                        "falt_winograd_gradient", gradient_lanes(plan));
  falt_cuda_kernel result =
      falt_cuda_winograd_kernel(p, plan->form, "cuda_winograd_wgrad.cu", "falt_winograd_wgrad", 32);
  falt_cuda_define(&input, "TILES_FIRST=1");
  falt_cuda_define(&result, "ROWS_FIRST=%d", !plan->swapped);
  falt_cuda_define(&result, "CHANNELS_LAST=%d", falt_tensor_unit(&p->filter, FALT_C));
  falt_cuda_define(&result, "TYPE_Y=%d", (int)p->filter.type);
  FALT_TRY(falt_cuda_winograd_find_kernels(gpu, p, &plan->finders));
  FALT_TRY(falt_gpu_kernel(gpu, &input, &plan->input));
  FALT_TRY(falt_gpu_kernel(gpu, &gradient, &plan->gradient));
  FALT_TRY(falt_gpu_kernel(gpu, &result, &plan->result));
  return falt_plan_ready(plan->child);
}

/* ---- applicable */

static const char *refusal(const falt_ask *ask) {
  const falt_problem *p = ask->problem;
  return p->operation != FALT_BACKWARD_FILTER ? "it computes wgrad only"
         : p->has_bias                        ? "it computes no gradient of the bias"
                                              : falt_cuda_winograd_refusal(ask);
}

/* ---- plan */

/* Bytes of its transforms, at most: the batch is not cut. */
#define MOST_BYTES ((size_t)1 << 32)

typedef struct choice {
  falt_plan *child;
  const falt_cuda_winograd_form *form;
  bool swapped;
  double seconds, excess; /* excess: the error beyond the budget's */
} choice;

/* What a form and its roles decide; false if a launch cannot number it. */
static bool set_sizes(wgrad_plan *plan, const falt_cuda_winograd_form *f, bool swapped) {
  falt_cuda_winograd_args *a = &plan->args;
  const falt_problem *p = &plan->base.base.problem;
  const int64_t vector = falt_cuda_winograd_vector(p);
  plan->form = f;
  plan->swapped = swapped;
  plan->matrices = falt_cuda_winograd_points(f, p) * a->groups;
  if (!falt_cuda_winograd_set_tiles(a, f, p, p->input.size[FALT_N])) return false;
  a->v_tiles = (int)falt_round_up(a->tiles, vector);
  a->v_channels = (int)(swapped ? falt_round_up(a->channels, vector) : a->channels);
  a->u_rows = (int)(swapped ? a->rows : falt_round_up(a->rows, vector));
  a->v_matrix = (int64_t)a->v_tiles * a->v_channels;
  a->v_tile = 1;
  a->v_channel = a->v_tiles;
  a->m_matrix = (int64_t)a->u_rows * a->v_channels;
  a->m_row = swapped ? a->v_channels : 1;
  a->m_column = swapped ? 1 : a->u_rows;
  return true;
}

static void lay_memory(wgrad_plan *plan, falt_memory_layout *all) {
  const falt_cuda_winograd_args *a = &plan->args;
  const falt_problem *p = &plan->base.base.problem;
  const size_t matrices = (size_t)plan->matrices, size = matrices * falt_type_size(falt_cuda_winograd_type(p));
  plan->v_at = falt_place_part(all, size * (size_t)a->v_matrix);
  plan->d_at = falt_place_part(all, size * (size_t)a->u_rows * (size_t)a->v_tiles);
  plan->m_at = falt_place_part(all, matrices * (size_t)a->m_matrix * sizeof(float));
  plan->largest_at =
      falt_place_part(all, falt_cuda_winograd_scales(p) ? (size_t)2 * FALT_WINOGRAD_LARGEST * sizeof(float) : 0);
}

/* Each transform is written once and read by the product; the products are written by it and read once. The part of the
 * rate of a copy is as measured on an H200: 16-bit tiles of NHWC leave by 16 bytes. */
static double own_seconds(const wgrad_plan *plan, size_t bytes) {
  const falt_problem *p = &plan->base.base.problem;
  const double rate = falt_cuda_winograd_type(p) == FALT_F32 ? 0.55 : 0.35, launching = 2.4e-6;
  const double all = falt_problem_bytes(p) + (double)bytes, launches = falt_cuda_winograd_scales(p) ? 7 : 3;
  return all / (rate * plan->base.base.device->limits.copy_bytes_per_s) + launches * launching;
}

/* Takes the child for a form and its roles, if the whole is better than the best one. */
static void try_child(wgrad_plan *plan, falt_ask *ask, choice *best) {
  const falt_cuda_winograd_args *a = &plan->args;
  const int64_t most = ask->budget->max_workspace;
  falt_memory_layout all = {0};
  lay_memory(plan, &all);
  if (all.total > MOST_BYTES || (most >= 0 && all.total > (size_t)most)) {
    falt_refuse(ask, "its transforms need more workspace than is allowed");
    return;
  }
  const falt_child_terms terms = {falt_cuda_products_solvers, most < 0 ? most : most - (int64_t)all.total,
                                  .own_gaps = true};
  const falt_problem inner = falt_cuda_winograd_products(falt_cuda_winograd_type(ask->problem), plan->matrices,
                                                         plan->swapped ? a->u_rows : a->v_channels,
                                                         plan->swapped ? a->v_channels : a->u_rows, a->v_tiles);
  falt_plan *child = falt_plan_child_with(ask, &inner, NULL, &terms);
  if (!child) return;
  const double excess = fmax(falt_cuda_winograd_error(plan->form, ask->problem, a->tiles), ask->budget->max_error);
  const double seconds = own_seconds(plan, all.total) + child->cost.seconds;
  if (best->child && (excess > best->excess || (excess == best->excess && seconds >= best->seconds))) {
    falt_plan_destroy(&child);
    return;
  }
  falt_plan_destroy(&best->child);
  *best = (choice){child, plan->form, plan->swapped, seconds, excess};
}

/* Of forms with a larger error than is allowed one is planned, so that the refusal can say its error. */
static void try_form(wgrad_plan *plan, falt_ask *ask, const falt_cuda_winograd_form *f, choice *best) {
  if (!falt_cuda_winograd_applies(f, ask->problem)) return;
  for (int swapped = 0; swapped < 2; swapped++) {
    if (!set_sizes(plan, f, swapped)) continue;
    const double error = falt_cuda_winograd_error(f, ask->problem, plan->args.tiles);
    if (error <= ask->budget->max_error || !best->child) try_child(plan, ask, best);
  }
}

static void set_filter(falt_cuda_winograd_args *a, const falt_tensor *w) {
  a->w_group = falt_cuda_stride(w, FALT_G);
  a->w_row = falt_cuda_stride(w, FALT_K);
  a->w_channel = falt_cuda_stride(w, FALT_C);
  for (int i = 0; i < 2; i++) a->w_axis[i] = falt_cuda_stride(w, FALT_H + i);
}

static const char *choose(falt_plan *base, falt_ask *ask) {
  wgrad_plan *plan = (wgrad_plan *)base;
  const falt_problem *p = &base->problem;
  choice best = {0};
  falt_cuda_winograd_set_source(&plan->args, p, &p->input);
  falt_cuda_winograd_set_result(&plan->args, &p->output, &p->residual);
  set_filter(&plan->args, &p->filter);
  falt_refuse(ask, "its tiles or its channels are more than one launch can number");
  for (int i = 0; i < FALT_CUDA_WINOGRAD_FORMS; i++) try_form(plan, ask, &falt_cuda_winograd_forms[i], &best);
  if (!best.child) return ask->reason;
  set_sizes(plan, best.form, best.swapped);
  plan->child = best.child;
  lay_memory(plan, &base->layout);
  plan->child_at = falt_place_child(&base->layout, plan->child);
  base->workspace = base->layout.total;
  base->cost = (falt_cost){best.seconds, falt_cuda_winograd_error(plan->form, p, plan->args.tiles)};
  return NULL;
}

static const falt_plan_steps steps = {sizeof(wgrad_plan), {execute, print, destroy, ready}, refusal, choose};

extern const falt_solver falt_solver_cuda_winograd_wgrad;
const falt_solver falt_solver_cuda_winograd_wgrad = {
    .name = "cuda-winograd-wgrad", .device_kind = "cuda", .mixes = true, .plan = falt_cuda_plan_make, .steps = &steps};
