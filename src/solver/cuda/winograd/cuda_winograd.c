/* Solver cuda-winograd: dense layers of 3 or 5 taps along one axis or two, stride 1, fprop and dgrad, in f32, f16 and
 * bf16, by Winograd's minimal filtering:
 *
 *     Y = A^T [ sum over c of (G w_c G^T) .* (B^T x_c B) ] A
 *
 * A. Lavin, S. Gray, "Fast Algorithms for Convolutional Neural Networks", 2016. Three kernels transform, and in f16 one
 * finds by what they scale; a child problem multiplies. The planner picks it where there are many channels. */
#include <math.h>
#include <stdlib.h>

#include "core/memory.h"
#include "solver/cuda/winograd/cuda_winograd.h"

/* The products are a layer of 1x1 taps with a group for each point of the transforms, and for each group of the
 * problem. Transformed inputs are its input and transformed filters its filter; or, swapped, the other way round: then
 * the tiles are packed for tensor cores in each execution, and not the filter. */

enum { MOST_TRIES = 4 };

typedef falt_cuda_winograd_form form;

typedef struct winograd_plan {
  falt_cuda_plan base;
  falt_plan *child;
  falt_cu_function input, transform, output;
  falt_cuda_winograd_finders finders;
  const form *form;
  bool swapped;
  int64_t pieces;    /* of the batch */
  int64_t matrices;  /* points of all groups */
  void *u;           /* the transformed filter in the GPU's memory, or NULL */
  void *values;      /* the same for a child that packs it when planning, until that is ready */
  float *magnitudes; /* f16: of its output channels, in the GPU's memory, if it is known */
  size_t u_at, v_at, m_at, largest_at[2], child_at;
  falt_cuda_winograd_args args;
} winograd_plan;

static const falt_problem *problem_of(const winograd_plan *plan) {
  return &plan->base.base.problem;
}

static falt_gpu *gpu_of(const winograd_plan *plan) {
  return plan->base.base.device->gpu;
}

/* Bytes of an element of the transforms of both factors. */
static size_t element_size(const winograd_plan *plan) {
  return falt_type_size(falt_cuda_winograd_type(problem_of(plan)));
}

/* ---- execute: lanes of a block are neighbours in one dimension, and the rest of its threads in another */

static int input_lanes(const winograd_plan *plan) {
  return llabs(plan->args.x_channel) == 1 ? 32 : 8;
}

static int output_lanes(const winograd_plan *plan) {
  return plan->swapped == (llabs(plan->args.y_axis[1]) == 1) ? 32 : 8;
}

static int64_t input_blocks(const winograd_plan *plan) {
  return falt_cuda_winograd_blocks(plan->args.v_channels, plan->args.v_tiles, input_lanes(plan), plan->args.groups);
}

/* Whether output channels are neighbours in the filter, and its kernel brings its taps into another order. */
static bool stages_filter(const winograd_plan *plan) {
  return llabs(plan->args.w_row) == 1 && llabs(plan->args.w_channel) != 1;
}

static int filter_lanes(const winograd_plan *plan) {
  return llabs(plan->args.w_row) < llabs(plan->args.w_channel) ? 8 : 32;
}

static int64_t filter_blocks(const winograd_plan *plan) {
  const falt_tensor *w = &problem_of(plan)->filter;
  const falt_cuda_winograd_args *a = &plan->args;
  const int64_t others = FALT_WINOGRAD_OTHERS(w->size[FALT_H] * w->size[FALT_W]);
  return stages_filter(plan)
             ? falt_ceil_div(a->v_channels, FALT_WINOGRAD_NEAR) * falt_ceil_div(a->u_rows, others) * a->groups
             : falt_cuda_winograd_blocks(a->v_channels, a->u_rows, filter_lanes(plan), a->groups);
}

static int64_t output_blocks(const winograd_plan *plan) {
  const int64_t tiles = plan->args.tiles, rows = plan->args.rows;
  return falt_cuda_winograd_blocks(plan->swapped ? tiles : rows, plan->swapped ? rows : tiles, output_lanes(plan),
                                   plan->args.groups);
}

/* The address of the tap that the first position of a window meets; dgrad meets them backwards. */
static void *first_tap(const winograd_plan *plan, char *filter) {
  const falt_tensor *w = &problem_of(plan)->filter;
  if (problem_of(plan)->operation == FALT_FORWARD) return filter;
  int64_t last = 0;
  for (int i = FALT_H; i <= FALT_W; i++) last += (w->size[i] - 1) * falt_cuda_stride(w, i);
  return filter + last * (int64_t)falt_type_size(w->type);
}

/* Transforms the filter at args->w, which begins at `filter`. */
static void start_filter(const winograd_plan *plan, const char *filter, falt_cuda_winograd_args *args,
                         float *magnitudes, void *stream) {
  const falt_problem *p = problem_of(plan);
  if (falt_cuda_winograd_scales(p))
    falt_cuda_winograd_find_rows(gpu_of(plan), &plan->finders, &p->filter, falt_igemm_roles_of(p).row, filter,
                                 magnitudes, stream);
  falt_cuda_winograd_start(gpu_of(plan), plan->transform, filter_blocks(plan), args, stream);
}

/* The magnitudes by which a piece's tiles are scaled. */
static void find_largest(const winograd_plan *plan, const falt_cuda_winograd_args *args, float *magnitudes,
                         void *stream) {
  falt_tensor source = *falt_igemm_roles_of(problem_of(plan)).source;
  if (!falt_cuda_winograd_scales(problem_of(plan))) return;
  source.size[FALT_N] = args->images;
  falt_cuda_winograd_find_largest(gpu_of(plan), &plan->finders, &source, args->x, args->fill, magnitudes, stream);
}

static void multiply(const winograd_plan *plan, const falt_operands *o, const falt_cuda_winograd_args *args) {
  falt_operands inner = {.input = plan->swapped ? args->u : args->v,
                         .filter = plan->swapped ? args->v : args->u,
                         .output = args->m,
                         .workspace = (char *)o->workspace + plan->child_at,
                         .stream = o->stream};
  falt_plan_run(plan->child, &inner);
}

/* Sets the operands of an execution's first piece. */
static void bind(const winograd_plan *plan, const falt_operands *o, falt_cuda_winograd_args *args) {
  const falt_problem *p = problem_of(plan);
  const falt_igemm_roles r = falt_igemm_roles_of(p);
  char *workspace = o->workspace;
  args->x = falt_cuda_element(falt_factor_data(p->operation, o, 0), r.source);
  args->y = falt_cuda_element(falt_result_data(p->operation, o), r.result);
  args->w = first_tap(plan, falt_cuda_plan_filter(&plan->base, o));
  if (p->has_residual) args->residual = falt_cuda_element(o->residual, &p->residual);
  falt_cuda_epilogue_bind(&args->epilogue, p, o);
  args->u = plan->u ? plan->u : workspace + plan->u_at;
  args->v = workspace + plan->v_at;
  args->m = (float *)(void *)(workspace + plan->m_at);
  args->largest[0] = (float *)(void *)(workspace + plan->largest_at[0]);
  args->largest[1] = plan->magnitudes ? plan->magnitudes : (float *)(void *)(workspace + plan->largest_at[1]);
}

/* Advances to the next piece's operands. */
static void advance(const falt_problem *p, int64_t images, falt_cuda_winograd_args *args) {
  const falt_igemm_roles r = falt_igemm_roles_of(p);
  args->x = (const char *)args->x + images * args->x_image * (int64_t)falt_type_size(r.source->type);
  args->y = (char *)args->y + images * args->y_image * (int64_t)falt_type_size(r.result->type);
  if (p->has_residual)
    args->residual = (const char *)args->residual + images * args->r_image * (int64_t)falt_type_size(p->residual.type);
}

static void execute(const falt_plan *base, const falt_operands *o) {
  const winograd_plan *plan = (const winograd_plan *)base;
  char *workspace = o->workspace;
  falt_cuda_winograd_args args = plan->args;
  bind(plan, o, &args);
  if (!base->packed)
    start_filter(plan, falt_cuda_plan_filter(&plan->base, o), &args, (float *)(void *)(workspace + plan->largest_at[1]),
                 o->stream);
  for (int64_t i = 0; i < plan->pieces; i++) {
    find_largest(plan, &args, (float *)(void *)(workspace + plan->largest_at[0]), o->stream);
    falt_cuda_winograd_start(gpu_of(plan), plan->input, input_blocks(plan), &args, o->stream);
    multiply(plan, o, &args);
    falt_cuda_winograd_start(gpu_of(plan), plan->output, output_blocks(plan), &args, o->stream);
    advance(&base->problem, args.images, &args);
  }
}

static void print(const falt_plan *base, falt_text *text) {
  const winograd_plan *plan = (const winograd_plan *)base;
  falt_text_add(text, "(cuda-winograd ");
  falt_cuda_winograd_print(plan->form, &base->problem, text);
  if (plan->swapped) falt_text_add(text, " swapped");
  if (plan->pieces > 1) falt_text_add(text, " pieces=%lld", (long long)plan->pieces);
  falt_text_add(text, " ");
  plan->child->table->print(plan->child, text);
  falt_text_add(text, ")");
}

static void destroy(falt_plan *base) {
  winograd_plan *plan = (winograd_plan *)base;
  falt_plan_destroy(&plan->child);
  falt_gpu_release(gpu_of(plan), plan->u);
  falt_gpu_release(gpu_of(plan), plan->magnitudes);
  falt_free(plan->values);
  falt_cuda_plan_destroy(base);
}

/* ---- ready */

static falt_status find_kernel(const winograd_plan *plan, const char *source, const char *entry, int lanes,
                               falt_cu_function *function) {
  const falt_problem *p = problem_of(plan);
  falt_cuda_kernel kernel = falt_cuda_winograd_kernel(p, plan->form, source, entry, lanes);
  if (function == &plan->input) falt_cuda_define(&kernel, "TILES_FIRST=0");
  if (function == &plan->transform) falt_cuda_define(&kernel, "STAGED=%d", stages_filter(plan));
  if (function == &plan->output) {
    falt_cuda_define(&kernel, "TILES_FIRST=%d", plan->swapped);
    falt_igemm_result_defines(p, falt_problem_result(p)->type, &kernel);
  }
  return falt_gpu_kernel(gpu_of(plan), &kernel, function);
}

/* Transforms a filter that is known. A child that packs it takes it from the host. */
static falt_status transform_filter(winograd_plan *plan) {
  const falt_cuda_winograd_args *a = &plan->args;
  const size_t bytes = (size_t)plan->matrices * (size_t)a->u_rows * (size_t)a->v_channels * element_size(plan);
  const falt_problem *p = problem_of(plan);
  const size_t magnitudes = falt_cuda_winograd_rows_bytes(&p->filter, falt_igemm_roles_of(p).row);
  falt_gpu *gpu = gpu_of(plan);
  FALT_TRY(falt_gpu_allocate(gpu, &plan->u, bytes));
  if (falt_cuda_winograd_scales(p)) FALT_TRY(falt_gpu_allocate(gpu, (void **)&plan->magnitudes, magnitudes));
  if (plan->base.base.device->described) return FALT_OK;
  char *filter = falt_cuda_plan_filter(&plan->base, &(falt_operands){0});
  falt_cuda_winograd_args args = *a;
  args.w = first_tap(plan, filter);
  args.u = plan->u;
  args.largest[1] = plan->magnitudes;
  start_filter(plan, filter, &args, plan->magnitudes, NULL);
  FALT_TRY(falt_gpu_trouble());
  FALT_TRY(falt_gpu_synchronize(gpu));
  return plan->values ? falt_gpu_copy_out(gpu, plan->values, plan->u, bytes) : FALT_OK;
}

static falt_status ready(falt_plan *base) {
  winograd_plan *plan = (winograd_plan *)base;
  FALT_TRY(find_kernel(plan, "cuda_winograd_input.cu", "falt_winograd_input", input_lanes(plan), &plan->input));
  FALT_TRY(find_kernel(plan, "cuda_winograd_filter.cu", "falt_winograd_filter", filter_lanes(plan), &plan->transform));
  FALT_TRY(find_kernel(plan, "cuda_winograd_output.cu", "falt_winograd_output", output_lanes(plan), &plan->output));
  FALT_TRY(falt_cuda_winograd_find_kernels(gpu_of(plan), &base->problem, &plan->finders));
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

static const char *refusal(const falt_ask *ask) {
  const falt_problem *p = ask->problem;
  if (!falt_reads_filter(p->operation)) return "it computes fprop and dgrad only";
  if (p->operation == FALT_BACKWARD_DATA && falt_igemm_folds(p))
    return "it takes no dgrad with a boundary that is not constant";
  return falt_cuda_winograd_refusal(ask);
}

/* ---- plan: arguments */

static void set_filter(falt_cuda_winograd_args *a, const falt_problem *p, const falt_igemm_roles *r) {
  a->w_group = falt_cuda_stride(&p->filter, FALT_G);
  a->w_row = falt_cuda_stride(&p->filter, r->row);
  a->w_channel = falt_cuda_stride(&p->filter, r->depth);
  for (int i = 0; i < 2; i++) {
    const int64_t stride = falt_cuda_stride(&p->filter, FALT_H + i);
    a->w_axis[i] = p->operation == FALT_FORWARD ? stride : -stride;
  }
}

/* What a form, its roles and the number of pieces decide; false if a launch cannot number it. */
static bool set_sizes(winograd_plan *plan, const form *f, bool swapped, int64_t pieces) {
  falt_cuda_winograd_args *a = &plan->args;
  plan->form = f;
  plan->swapped = swapped;
  plan->pieces = pieces;
  const falt_problem *p = problem_of(plan);
  const int64_t vector = falt_cuda_winograd_vector(p);
  plan->matrices = falt_cuda_winograd_points(f, p) * a->groups;
  if (!falt_cuda_winograd_set_tiles(a, f, p, p->input.size[FALT_N] / pieces)) return false;
  a->v_channels = (int)falt_round_up(a->channels, vector);
  a->u_rows = (int)(swapped ? a->rows : falt_round_up(a->rows, vector));
  a->v_tiles = (int)(swapped ? falt_round_up(a->tiles, vector) : a->tiles);
  a->v_matrix = (int64_t)a->v_tiles * a->v_channels;
  a->v_tile = a->v_channels;
  a->v_channel = 1;
  a->m_matrix = (int64_t)a->u_rows * a->v_tiles;
  a->m_row = swapped ? a->v_tiles : 1;
  a->m_column = swapped ? 1 : a->u_rows;
  return true;
}

/* ---- plan: the child */

static falt_problem inner_of(const winograd_plan *plan) {
  const falt_cuda_winograd_args *a = &plan->args;
  return falt_cuda_winograd_products(falt_cuda_winograd_type(problem_of(plan)), plan->matrices,
                                     plan->swapped ? a->u_rows : a->v_tiles, plan->swapped ? a->v_tiles : a->u_rows,
                                     a->v_channels);
}

/* ---- plan: the estimate */

/* The part of the rate of a copy that transforms reach, in f32 and in 16 bits, as measured on an H200: of the filter,
 * of the input, of the output; and of the output if its neighbours in m are none in y. */
typedef struct rates {
  double filter, input, output, crossed;
} rates;
static const rates word_rates = {0.8, 0.8, 0.8, 0.45}, half_rates = {0.7, 0.4, 0.45, 0.27};
static const double launching = 2.4e-6;

static double own_seconds(const winograd_plan *plan) {
  const falt_cuda_winograd_args *a = &plan->args;
  const falt_problem *p = problem_of(plan);
  const falt_igemm_roles r = falt_igemm_roles_of(p);
  const double size = (double)element_size(plan), pieces = (double)plan->pieces, matrices = (double)plan->matrices;
  const rates rate = size == 4 ? word_rates : half_rates;
  const double x = (double)falt_tensor_count(r.source) * size, w = (double)falt_tensor_count(&p->filter) * size;
  const double y = (double)falt_tensor_count(r.result) * (double)falt_type_size(r.result->type);
  const double u = matrices * a->u_rows * a->v_channels * size,
               v = matrices * a->v_tiles * a->v_channels * size * pieces;
  const double m = matrices * (double)(a->tiles * a->rows) * sizeof(float) * pieces;
  const double given = plan->base.base.packed ? 0 : 1, scales = falt_cuda_winograd_scales(p) ? 1 : 0;
  const double inputs = (x + v + scales * x) / rate.input;
  const double outputs = (m + y) / (output_lanes(plan) == 32 ? rate.output : rate.crossed);
  const double filters = given * (w + u + scales * w) / rate.filter;
  return (inputs + outputs + filters) / plan->base.base.device->limits.copy_bytes_per_s +
         launching * ((2 + 2 * scales) * pieces + (1 + scales) * given);
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

static void lay_memory(winograd_plan *plan, falt_memory_layout *all) {
  const falt_cuda_winograd_args *a = &plan->args;
  const size_t matrices = (size_t)plan->matrices, depth = matrices * (size_t)a->v_channels * element_size(plan);
  const bool scales = falt_cuda_winograd_scales(problem_of(plan)), given = !plan->base.base.packed;
  const size_t rows =
      falt_cuda_winograd_rows_bytes(&problem_of(plan)->filter, falt_igemm_roles_of(problem_of(plan)).row);
  plan->u_at = falt_place_part(all, given ? depth * (size_t)a->u_rows : 0);
  plan->v_at = falt_place_part(all, depth * (size_t)a->v_tiles);
  plan->m_at = falt_place_part(all, matrices * (size_t)a->m_matrix * sizeof(float));
  plan->largest_at[0] = falt_place_part(all, scales ? FALT_WINOGRAD_LARGEST * sizeof(float) : 0);
  plan->largest_at[1] = falt_place_part(all, scales && given ? rows : 0);
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
  const double excess =
      fmax(falt_cuda_winograd_error(plan->form, ask->problem, plan->args.channels), ask->budget->max_error);
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
  const falt_problem *p = problem_of(plan);
  const int64_t vector = falt_cuda_winograd_vector(p);
  int64_t points = 0;
  if (!plan->base.values) return true;
  for (int i = 0; i < FALT_CUDA_WINOGRAD_FORMS; i++)
    if (falt_cuda_winograd_applies(&falt_cuda_winograd_forms[i], p))
      points = falt_max(points, falt_cuda_winograd_points(&falt_cuda_winograd_forms[i], p));
  const size_t rows = (size_t)falt_round_up(a->rows, vector), depth = (size_t)falt_round_up(a->channels, vector);
  plan->values = falt_alloc((size_t)points * (size_t)a->groups * rows * depth * element_size(plan));
  return plan->values != NULL;
}

/* Of forms with a larger error than is allowed one is planned, so that the refusal can say its error. */
static bool choose_form(winograd_plan *plan, falt_ask *ask, choice *best) {
  if (!make_room(plan)) return falt_refuse_memory(ask) != NULL;
  for (int i = 0; i < FALT_CUDA_WINOGRAD_FORMS; i++) {
    const form *f = &falt_cuda_winograd_forms[i];
    if (!falt_cuda_winograd_applies(f, ask->problem)) continue;
    const bool allowed = falt_cuda_winograd_error(f, ask->problem, plan->args.channels) <= ask->budget->max_error;
    for (int swapped = 0; swapped < 2 && (allowed || !best->child); swapped++) try_pieces(plan, ask, f, swapped, best);
  }
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
  falt_cuda_winograd_set_source(&plan->args, &base->problem, r.source);
  set_filter(&plan->args, &base->problem, &r);
  falt_cuda_winograd_set_result(&plan->args, r.result, &base->problem.residual);
  plan->args.epilogue = falt_cuda_epilogue_of(&base->problem);
  if (!choose_form(plan, ask, &best)) return ask->reason;
  lay_memory(plan, &base->layout);
  plan->child_at = falt_place_child(&base->layout, plan->child);
  base->workspace = base->layout.total;
  base->cost = (falt_cost){best.seconds, falt_cuda_winograd_error(plan->form, &base->problem, plan->args.channels)};
  return NULL;
}

static const falt_plan_steps steps = {sizeof(winograd_plan), {execute, print, destroy, ready}, refusal, choose};

extern const falt_solver falt_solver_cuda_winograd;
const falt_solver falt_solver_cuda_winograd = {
    .name = "cuda-winograd", .device_kind = "cuda", .mixes = true, .plan = falt_cuda_plan_make, .steps = &steps};
