/* Solver cuda-winograd: dense f32 layers of 3x3 taps and stride 1, fprop and dgrad, by Winograd's minimal filtering,
 * F(2,3) or F(4,3) along both axes.
 *
 *     Y = A^T [ sum over c of (G w_c G^T) .* (B^T x_c B) ] A
 *
 * A. Lavin, S. Gray, "Fast Algorithms for Convolutional Neural Networks", 2016. Three kernels transform inputs, filters
 * and outputs; the products are a child problem. The planner picks it where there are many channels. */
#include <math.h>
#include <stdlib.h>

#include "core/memory.h"
#include "solver/cuda/common/cuda_igemm.h"
#include "solver/cuda/common/plan.h"
#include "solver/cuda/winograd/cuda_winograd_args.h"

/* The products are a layer of 1x1 taps with a group for each point of the transforms, and for each group of the
 * problem. Transformed inputs are its input and transformed filters its filter; or, swapped, the other way round: then
 * the tiles are packed for tensor cores in each execution, and not the filter. */

enum { THREADS = 128, VECTOR = 4, MOST_PIECES = 1 << 30, MOST_TRIES = 4 };

typedef struct form {
  const char *name;
  int pairs;              /* of the points */
  double error;           /* in 2^-24 of the largest input times the sum of the filter's magnitudes */
  int64_t least_channels; /* from which on it is below that of a sum in sequence, and counts as rounding */
} form;
static const form forms[] = {{"F(2,3)", 1, 4, 96}, {"F(4,3)", 2, 12, 512}}; /* docs/internals/cuda-winograd.md */
enum { FORMS = sizeof forms / sizeof *forms };

typedef struct winograd_plan {
  falt_cuda_plan base;
  falt_plan *child;
  falt_cu_function input, transform, output;
  const form *form;
  bool swapped;
  int64_t pieces;           /* of the batch */
  int64_t points, matrices; /* matrices: points of all groups */
  void *u;                  /* the transformed filter in the GPU's memory, or NULL */
  float *values;            /* the same for a child that packs it when planning, until that is ready */
  size_t u_at, v_at, m_at, child_at;
  falt_cuda_winograd_args args;
} winograd_plan;

static const falt_problem *problem_of(const winograd_plan *plan) {
  return &plan->base.base.problem;
}

static falt_gpu *gpu_of(const winograd_plan *plan) {
  return plan->base.base.device->gpu;
}

/* ---- execute: lanes of a block are neighbours in one dimension, and the rest of its threads in another */

static int input_lanes(const winograd_plan *plan) {
  return llabs(plan->args.x_channel) == 1 ? 32 : 8;
}

static int filter_lanes(const winograd_plan *plan) {
  return llabs(plan->args.w_row) < llabs(plan->args.w_channel) ? 8 : 32;
}

static int output_lanes(const winograd_plan *plan) {
  return plan->swapped == (llabs(plan->args.y_axis[1]) == 1) ? 32 : 8;
}

static int64_t blocks_of(int64_t near, int64_t far, int lanes, int64_t groups) {
  return falt_ceil_div(near, lanes) * falt_ceil_div(far, THREADS / lanes) * groups;
}

static int64_t input_blocks(const winograd_plan *plan) {
  return blocks_of(plan->args.depth, plan->args.v_rows, input_lanes(plan), plan->args.groups);
}

static int64_t filter_blocks(const winograd_plan *plan) {
  return blocks_of(plan->args.depth, plan->args.u_rows, filter_lanes(plan), plan->args.groups);
}

static int64_t output_blocks(const winograd_plan *plan) {
  const int64_t tiles = plan->args.tiles, rows = plan->args.rows;
  return blocks_of(plan->swapped ? tiles : rows, plan->swapped ? rows : tiles, output_lanes(plan), plan->args.groups);
}

static void start(const winograd_plan *plan, falt_cu_function function, int64_t blocks, falt_cuda_winograd_args *args,
                  void *stream) {
  static const int one[2] = {1, 1};
  void *parameters[] = {args};
  const falt_gpu_launch launch = {function, blocks, {THREADS, 1}, 0, stream};
  falt_gpu_start_early(gpu_of(plan), &launch, one, parameters);
}

/* The address of the tap that the first position of a window meets; dgrad meets them backwards. */
static const float *first_tap(const winograd_plan *plan, const char *filter) {
  const falt_problem *p = problem_of(plan);
  const int64_t last = 2 * (falt_igemm_stride(&p->filter, FALT_H) + falt_igemm_stride(&p->filter, FALT_W));
  return (const float *)(const void *)filter + (p->operation == FALT_FORWARD ? 0 : last);
}

static void multiply(const winograd_plan *plan, const falt_operands *o, const falt_cuda_winograd_args *args) {
  falt_operands inner = {.input = plan->swapped ? args->u : args->v,
                         .filter = plan->swapped ? args->v : args->u,
                         .output = args->m,
                         .workspace = (char *)o->workspace + plan->child_at,
                         .stream = o->stream};
  falt_plan_run(plan->child, &inner);
}

static void execute(const falt_plan *base, const falt_operands *o) {
  const winograd_plan *plan = (const winograd_plan *)base;
  const falt_problem *p = &base->problem;
  const falt_igemm_roles r = falt_igemm_roles_of(p);
  char *workspace = o->workspace;
  falt_cuda_winograd_args args = plan->args;
  args.x = (const float *)(const void *)falt_cuda_element(falt_factor_data(p->operation, o, 0), r.source);
  args.y = (float *)(void *)falt_cuda_element(falt_result_data(p->operation, o), r.result);
  args.w = first_tap(plan, falt_cuda_plan_filter(&plan->base, o));
  if (p->has_residual) args.residual = (const float *)(const void *)falt_cuda_element(o->residual, &p->residual);
  if (p->has_bias) args.epilogue.bias = o->bias;
  if (p->has_scale) args.epilogue.scale = o->scale;
  args.u = plan->u ? plan->u : (float *)(void *)(workspace + plan->u_at);
  args.v = (float *)(void *)(workspace + plan->v_at);
  args.m = (float *)(void *)(workspace + plan->m_at);
  if (!base->packed) start(plan, plan->transform, filter_blocks(plan), &args, o->stream);
  const int64_t images = r.source->size[FALT_N] / plan->pieces;
  for (int64_t i = 0; i < plan->pieces; i++) {
    start(plan, plan->input, input_blocks(plan), &args, o->stream);
    multiply(plan, o, &args);
    start(plan, plan->output, output_blocks(plan), &args, o->stream);
    args.x += images * args.x_image;
    args.y += images * args.y_image;
    if (p->has_residual) args.residual += images * args.r_image;
  }
}

static void print(const falt_plan *base, falt_text *text) {
  const winograd_plan *plan = (const winograd_plan *)base;
  falt_text_add(text, "(cuda-winograd %s%s", plan->form->name, plan->swapped ? " swapped" : "");
  if (plan->pieces > 1) falt_text_add(text, " pieces=%lld", (long long)plan->pieces);
  falt_text_add(text, " ");
  plan->child->table->print(plan->child, text);
  falt_text_add(text, ")");
}

static void destroy(falt_plan *base) {
  winograd_plan *plan = (winograd_plan *)base;
  falt_plan_destroy(&plan->child);
  falt_gpu_release(gpu_of(plan), plan->u);
  falt_free(plan->values);
  falt_cuda_plan_destroy(base);
}

/* ---- ready */

static falt_status find_kernel(const winograd_plan *plan, const char *source, const char *entry, int lanes,
                               falt_cu_function *function) {
  const falt_problem *p = problem_of(plan);
  falt_cuda_kernel kernel = {.source = source, .entry = entry};
  falt_cuda_define(&kernel, "PAIRS=%d", plan->form->pairs);
  falt_cuda_define(&kernel, "LANES=%d", lanes);
  falt_cuda_define(&kernel, "FOLD=%d", p->operation == FALT_FORWARD && falt_igemm_folds(p));
  if (function == &plan->output) {
    falt_cuda_define(&kernel, "TILES_FIRST=%d", plan->swapped);
    falt_igemm_result_defines(p, FALT_F32, &kernel);
  }
  return falt_gpu_kernel(gpu_of(plan), &kernel, function);
}

/* Transforms a filter that is known. A child that packs it takes it from the host. */
static falt_status transform_filter(winograd_plan *plan) {
  const size_t bytes = (size_t)plan->matrices * (size_t)plan->args.u_rows * (size_t)plan->args.depth * sizeof(float);
  falt_gpu *gpu = gpu_of(plan);
  FALT_TRY(falt_gpu_allocate(gpu, &plan->u, bytes));
  if (plan->base.base.device->described) return FALT_OK;
  falt_cuda_winograd_args args = plan->args;
  args.w = first_tap(plan, falt_cuda_plan_filter(&plan->base, &(falt_operands){0}));
  args.u = plan->u;
  start(plan, plan->transform, filter_blocks(plan), &args, NULL);
  FALT_TRY(falt_gpu_trouble());
  FALT_TRY(falt_gpu_synchronize(gpu));
  return plan->values ? falt_gpu_copy_out(gpu, plan->values, plan->u, bytes) : FALT_OK;
}

static falt_status ready(falt_plan *base) {
  winograd_plan *plan = (winograd_plan *)base;
  FALT_TRY(find_kernel(plan, "cuda_winograd_input.cu", "falt_winograd_input", input_lanes(plan), &plan->input));
  FALT_TRY(find_kernel(plan, "cuda_winograd_filter.cu", "falt_winograd_filter", filter_lanes(plan), &plan->transform));
  FALT_TRY(find_kernel(plan, "cuda_winograd_output.cu", "falt_winograd_output", output_lanes(plan), &plan->output));
  FALT_TRY(falt_cuda_plan_keep_filter(&plan->base));
  if (base->packed) FALT_TRY(transform_filter(plan));
  FALT_TRY(falt_plan_ready(plan->child));
  if (!plan->values) return FALT_OK;
  falt_gpu_release(gpu_of(plan), plan->u);
  falt_free(plan->values);
  plan->u = plan->values = NULL;
  return FALT_OK;
}

/* ---- applicable */

static bool has_steps(const falt_axis *axis) {
  return axis->stride != 1 || axis->dilation != 1;
}

static bool is_flat(const falt_problem *p) {
  return p->filter.size[FALT_D] == 1 && p->axis[0].stride == 1 && p->axis[0].pad[0] == 0 &&
         p->input.size[FALT_D] == p->output.size[FALT_D];
}

/* Kernels count positions, channels and planes in 32 bits. */
static bool small_sizes(const falt_problem *p) {
  const int64_t most = INT64_C(1) << 28;
  for (int i = FALT_G; i < FALT_DIMS; i++) {
    if (p->input.size[i] >= most || p->output.size[i] >= most) return false;
    if (i >= FALT_D && llabs(p->axis[i - FALT_D].pad[0]) >= most) return false;
  }
  return true;
}

static const char *refusal(const falt_ask *ask) {
  const falt_problem *p = ask->problem;
  const bool pools = p->pool[0] > 1 || p->pool[1] > 1 || p->pool[2] > 1;
  return !falt_reads_filter(p->operation)                  ? "it computes fprop and dgrad only"
         : p->factors || pools                             ? "it computes layers of dense taps without pooling"
         : !falt_problem_is_f32(p)                         ? "only f32"
         : p->has_residual && p->residual.type != FALT_F32 ? "only f32"
         : p->filter.size[FALT_H] != 3 || p->filter.size[FALT_W] != 3 ? "only filters of 3x3 taps"
         : has_steps(&p->axis[1]) || has_steps(&p->axis[2])           ? "only a stride and dilation of 1"
         : !is_flat(p)                                                ? "more than one tap, or padding, along the depth"
         : p->operation == FALT_BACKWARD_DATA && falt_igemm_folds(p)
             ? "it takes no dgrad with a boundary that is not constant"
         : ask->budget->allow_tf32 ? "its transforms would amplify the errors of tf32, which is allowed"
         : !small_sizes(p)         ? "an axis or the channels are too long"
                                   : NULL;
}

/* ---- plan: arguments */

static void set_source(falt_cuda_winograd_args *a, const falt_problem *p, const falt_tensor *x) {
  a->x_image = falt_igemm_stride(x, FALT_N);
  a->x_plane = falt_igemm_stride(x, FALT_D);
  a->x_group = falt_igemm_stride(x, FALT_G);
  a->x_channel = falt_igemm_stride(x, FALT_C);
  a->channels = (int)x->size[FALT_C];
  a->groups = (int)x->size[FALT_G];
  a->planes = (int)x->size[FALT_D];
  for (int i = 0; i < 2; i++) {
    const falt_axis *axis = &p->axis[1 + i];
    a->x_axis[i] = falt_igemm_stride(x, FALT_H + i);
    a->in[i] = (int)x->size[FALT_H + i];
    a->pad[i] = (int)(p->operation == FALT_FORWARD ? axis->pad[0] : 2 - axis->pad[0]);
    for (int side = 0; side < 2; side++) a->boundary[i][side] = (int)axis->boundary[side];
  }
  a->filled = p->operation == FALT_FORWARD;
  a->fill = a->filled ? (float)p->boundary_value : 0;
}

static void set_filter(falt_cuda_winograd_args *a, const falt_problem *p, const falt_igemm_roles *r) {
  a->w_group = falt_igemm_stride(&p->filter, FALT_G);
  a->w_row = falt_igemm_stride(&p->filter, r->row);
  a->w_channel = falt_igemm_stride(&p->filter, r->depth);
  for (int i = 0; i < 2; i++) {
    const int64_t stride = falt_igemm_stride(&p->filter, FALT_H + i);
    a->w_axis[i] = p->operation == FALT_FORWARD ? stride : -stride;
  }
}

static void set_result(falt_cuda_winograd_args *a, const falt_tensor *y, const falt_tensor *z) {
  a->y_image = falt_igemm_stride(y, FALT_N);
  a->y_plane = falt_igemm_stride(y, FALT_D);
  a->y_group = falt_igemm_stride(y, FALT_G);
  a->y_channel = falt_igemm_stride(y, FALT_C);
  a->r_image = falt_igemm_stride(z, FALT_N);
  a->r_plane = falt_igemm_stride(z, FALT_D);
  a->r_group = falt_igemm_stride(z, FALT_G);
  a->r_channel = falt_igemm_stride(z, FALT_C);
  a->rows = (int)y->size[FALT_C];
  for (int i = 0; i < 2; i++) {
    a->y_axis[i] = falt_igemm_stride(y, FALT_H + i);
    a->r_axis[i] = falt_igemm_stride(z, FALT_H + i);
    a->out[i] = (int)y->size[FALT_H + i];
  }
}

/* What a form, its roles and the number of pieces decide; false if a launch cannot number it. */
static bool set_sizes(winograd_plan *plan, const form *f, bool swapped, int64_t pieces) {
  falt_cuda_winograd_args *a = &plan->args;
  const falt_problem *p = problem_of(plan);
  const int outputs = 2 * f->pairs;
  plan->form = f;
  plan->swapped = swapped;
  plan->pieces = pieces;
  plan->points = (int64_t)(outputs + 2) * (outputs + 2);
  plan->matrices = plan->points * a->groups;
  for (int i = 0; i < 2; i++) a->tile[i] = (int)falt_ceil_div(a->out[i], outputs);
  a->depth = (int)falt_round_up(a->channels, VECTOR);
  a->u_rows = (int)(swapped ? a->rows : falt_round_up(a->rows, VECTOR));
  const double tiles = (double)(p->input.size[FALT_N] / pieces) * a->planes * a->tile[0] * a->tile[1];
  const double most = fmax(tiles, a->u_rows) * fmax(a->depth, a->u_rows) * a->groups;
  if (tiles >= 0x1p28 || most >= 0x1p31 * 8) return false;
  a->tiles = (int64_t)tiles;
  a->v_rows = (int)(swapped ? falt_round_up(a->tiles, VECTOR) : a->tiles);
  a->m_matrix = swapped ? (int64_t)a->rows * a->v_rows : a->tiles * a->u_rows;
  a->m_tile = swapped ? 1 : a->u_rows;
  a->m_row = swapped ? a->v_rows : 1;
  return true;
}

/* ---- plan: the child */

static void set_matrices(falt_tensor *t, int row_dim, int64_t rows, int64_t depth_dim, int64_t depth, int64_t groups) {
  t->size[row_dim] = rows;
  t->size[FALT_G] = groups;
  t->size[depth_dim] = depth;
  t->stride[row_dim] = depth;
  t->stride[FALT_G] = rows * depth;
}

static falt_problem inner_of(const winograd_plan *plan) {
  const falt_cuda_winograd_args *a = &plan->args;
  const int64_t near = plan->swapped ? a->v_rows : a->u_rows, far = plan->swapped ? a->u_rows : a->v_rows;
  falt_problem inner;
  falt_problem_default(&inner);
  inner.space = 1;
  set_matrices(&inner.input, FALT_W, far, FALT_C, a->depth, plan->matrices);
  set_matrices(&inner.filter, FALT_K, near, FALT_C, a->depth, plan->matrices);
  set_matrices(&inner.output, FALT_W, far, FALT_C, near, plan->matrices);
  falt_problem_canonical(&inner);
  return inner;
}

/* ---- plan: the estimate */

/* The part of the rate of a copy that transforms are expected to reach, and the seconds of a launch. */
static const double transforming = 0.8, launching = 2.4e-6;

static double own_seconds(const winograd_plan *plan) {
  const falt_cuda_winograd_args *a = &plan->args;
  const double size = sizeof(float), pieces = (double)plan->pieces, matrices = (double)plan->matrices;
  const double u = matrices * a->u_rows * a->depth * size, v = matrices * a->v_rows * a->depth * size * pieces;
  const double m = matrices * (double)(a->tiles * a->rows) * size * pieces, given = plan->base.base.packed ? 0 : 1;
  const double bytes = falt_problem_bytes(problem_of(plan)) + v + m + given * u;
  return bytes / (transforming * plan->base.base.device->limits.copy_bytes_per_s) + launching * (2 * pieces + given);
}

/* ---- plan: the choice */

/* Bytes of a piece's transforms: batches are cut so that they stay below. */
enum { MOST_BYTES = 1 << 30 };

typedef struct choice {
  const form *form;
  bool swapped;
  int64_t pieces;
  double seconds, excess; /* excess: the error beyond the budget's */
  falt_plan *child;
} choice;

static double error_of(const winograd_plan *plan, const form *f) {
  return plan->args.channels < f->least_channels ? ldexp(f->error, -24) : 0;
}

static void lay_memory(winograd_plan *plan, falt_memory_layout *all) {
  const falt_cuda_winograd_args *a = &plan->args;
  const size_t matrices = (size_t)plan->matrices * sizeof(float), depth = (size_t)a->depth;
  plan->u_at = falt_place_part(all, plan->base.base.packed ? 0 : matrices * (size_t)a->u_rows * depth);
  plan->v_at = falt_place_part(all, matrices * (size_t)a->v_rows * depth);
  plan->m_at = falt_place_part(all, matrices * (size_t)a->m_matrix);
}

/* The bytes of its own workspace for the number of pieces that is set. */
static int64_t own_bytes(winograd_plan *plan) {
  falt_memory_layout all = {0};
  lay_memory(plan, &all);
  return (int64_t)all.total;
}

/* Takes the child for what is set, if the whole is better than the best one. */
static bool try_child(winograd_plan *plan, falt_ask *ask, choice *best) {
  const int64_t most = ask->budget->max_workspace, own = own_bytes(plan);
  const falt_child_terms terms = {falt_cuda_products_solvers, most < 0 ? most : most - own, .own_gaps = true};
  if (most >= 0 && own > most) return falt_refuse(ask, "its transforms need more workspace than is allowed") != NULL;
  const falt_problem inner = inner_of(plan);
  const void *values = plan->base.values && !plan->swapped ? plan->values : NULL;
  falt_plan *child = falt_plan_child_with(ask, &inner, values, &terms);
  if (!child) return false;
  const double excess = fmax(error_of(plan, plan->form), ask->budget->max_error);
  const double seconds = own_seconds(plan) + (double)plan->pieces * child->cost.seconds;
  if (best->child && (excess > best->excess || (excess == best->excess && seconds >= best->seconds))) {
    falt_plan_destroy(&child);
    return true;
  }
  falt_plan_destroy(&best->child);
  *best = (choice){plan->form, plan->swapped, plan->pieces, seconds, excess, child};
  return true;
}

/* As few pieces as the workspace allows. */
static void try_pieces(winograd_plan *plan, falt_ask *ask, const form *f, bool swapped, choice *best) {
  const int64_t images = ask->problem->input.size[FALT_N], most = ask->budget->max_workspace;
  int tries = 0;
  for (int64_t pieces = 1; pieces <= images && tries < MOST_TRIES; pieces++) {
    if (images % pieces) continue;
    if (!set_sizes(plan, f, swapped, pieces)) {
      falt_refuse(ask, "its tiles or its channels are more than one launch can number");
      continue;
    }
    const int64_t bytes = own_bytes(plan);
    if (pieces < images && (bytes > MOST_BYTES || (most >= 0 && bytes > most))) continue;
    if (try_child(plan, ask, best)) return;
    tries++;
  }
}

/* The values of the transformed filter for a child that packs them are written when the plan is made ready. */
static bool make_room(winograd_plan *plan) {
  const falt_cuda_winograd_args *a = &plan->args;
  if (!plan->base.values) return true;
  const size_t rows = (size_t)falt_round_up(a->rows, VECTOR), depth = (size_t)falt_round_up(a->channels, VECTOR);
  const size_t points = 36;
  plan->values = falt_alloc(points * (size_t)a->groups * rows * depth * sizeof(float));
  return plan->values != NULL;
}

static bool choose_form(winograd_plan *plan, falt_ask *ask, choice *best) {
  if (!make_room(plan)) return falt_refuse_memory(ask) != NULL;
  for (int i = 0; i < FORMS; i++)
    for (int swapped = 0; swapped < 2; swapped++) try_pieces(plan, ask, &forms[i], swapped, best);
  if (!best->child) return false;
  set_sizes(plan, best->form, best->swapped, best->pieces);
  plan->child = best->child;
  if (plan->swapped) {
    falt_free(plan->values);
    plan->values = NULL;
  }
  return true;
}

/* ---- plan */

static const char *choose(falt_plan *base, falt_ask *ask) {
  winograd_plan *plan = (winograd_plan *)base;
  const falt_igemm_roles r = falt_igemm_roles_of(&base->problem);
  choice best = {0};
  set_source(&plan->args, &base->problem, r.source);
  set_filter(&plan->args, &base->problem, &r);
  set_result(&plan->args, r.result, &base->problem.residual);
  plan->args.epilogue = falt_cuda_epilogue_of(&base->problem);
  if (!choose_form(plan, ask, &best)) return ask->reason;
  lay_memory(plan, &base->layout);
  plan->child_at = falt_place_child(&base->layout, plan->child);
  base->workspace = base->layout.total;
  base->cost = (falt_cost){.seconds = best.seconds, .error = error_of(plan, plan->form)};
  return NULL;
}

static falt_plan *plan_winograd(const falt_solver *solver, falt_ask *ask) {
  static const falt_cuda_steps steps = {sizeof(winograd_plan), {execute, print, destroy, ready}, refusal, choose};
  return falt_cuda_plan_make(&steps, solver, ask);
}

extern const falt_solver falt_solver_cuda_winograd;
const falt_solver falt_solver_cuda_winograd = {
    .name = "cuda-winograd", .device_kind = "cuda", .mixes = true, .plan = plan_winograd};
