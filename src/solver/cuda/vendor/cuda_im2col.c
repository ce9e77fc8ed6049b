/* Solver cuda-im2col: layers by explicit im2col and cuBLAS GEMM, as a yardstick. Used only when named by --method.
 *
 *     col[(c, j), o] = x[n, g, c, o*stride + j*dilation - pad]        y = w col
 *
 * K. Chellapilla, S. Puri, P. Simard, "High Performance Convolutional Neural Networks for Document Processing", 2006.
 */
#include <limits.h>
#include <string.h>

#include "core/memory.h"
#include "cuda/cublas.h"
#include "solver/common/im2col.h"
#include "solver/cuda/common/cuda.h"
#include "solver/cuda/common/cuda_igemm.h"

/* Images are processed in bands whose matrices fit into the workspace. The filter is multiplied in place, so its taps
 * must be contiguous. */

enum { THREADS = 256, MOST_BYTES = 1 << 30 };

typedef struct im2col_plan {
  falt_plan base;
  falt_cublas *cublas;
  falt_cu_function function;
  void *filter;     /* in the GPU's memory, or NULL */
  int64_t images;   /* of a band */
  bool by_row;      /* outputs of a channel are contiguous, else the channels of a position */
  bool joined;      /* images' positions follow one another: one matrix for all */
  bool wide;        /* the matrices have more elements than 32 bits number */
  int64_t position; /* from one output of a channel to the next */
  falt_cuda_im2col_args args;
} im2col_plan;

static int64_t size_of(const im2col_plan *plan) {
  return (int64_t)falt_type_size(plan->base.problem.input.type);
}

/* ---- execute */

static void write_columns(const im2col_plan *plan, const falt_operands *o, int64_t first, int64_t images) {
  const falt_tensor *x = &plan->base.problem.input;
  falt_cuda_im2col_args a = plan->args;
  a.x.data = falt_cuda_element(o->input, x) + first * x->stride[FALT_N] * size_of(plan);
  a.columns = (char *)o->workspace + FALT_CUBLAS_WORKSPACE;
  a.images = (unsigned)images;
  a.count = a.positions * a.depth * a.groups * images;
  void *parameters[] = {&a};
  const falt_gpu_launch launch = {plan->function, falt_ceil_div(a.count, THREADS), {THREADS, 1}, 0, o->stream};
  falt_gpu_start(plan->base.device->gpu, &launch, parameters);
}

/* The product of one image, or of a band whose images are multiplied together. */
static falt_cublas_product product_of(const im2col_plan *plan, int64_t images) {
  const falt_problem *p = &plan->base.problem;
  const falt_cuda_im2col_args *a = &plan->args;
  const int64_t k = p->output.size[FALT_C], row = k > 1 ? p->filter.stride[FALT_K] : a->depth;
  const int64_t matrix = a->positions * a->depth, channel = k > 1 ? p->output.stride[FALT_C] : a->positions;
  const int64_t step = plan->position > k ? plan->position : k;
  const int64_t group[3] = {matrix * (plan->by_row ? 1 : images), p->filter.stride[FALT_G], p->output.stride[FALT_G]};
  if (plan->by_row)
    return (falt_cublas_product){.m = k,
                                 .n = a->positions,
                                 .k = a->depth,
                                 .row_a = row,
                                 .row_b = a->positions,
                                 .row_c = channel,
                                 .next_a = group[1],
                                 .next_b = group[0],
                                 .next_c = group[2],
                                 .count = a->groups};
  return (falt_cublas_product){.transposed = true,
                               .m = a->positions * (plan->joined ? images : 1),
                               .n = k,
                               .k = a->depth,
                               .row_a = a->depth,
                               .row_b = row,
                               .row_c = step,
                               .next_a = group[0],
                               .next_b = group[1],
                               .next_c = group[2],
                               .count = a->groups};
}

static void multiply(const im2col_plan *plan, const falt_operands *o, int64_t first, int64_t images) {
  const falt_problem *p = &plan->base.problem;
  const falt_cuda_im2col_args *a = &plan->args;
  falt_cublas_product product = product_of(plan, images);
  const char *columns = (const char *)o->workspace + FALT_CUBLAS_WORKSPACE;
  const char *filter = falt_cuda_element(plan->filter ? plan->filter : o->filter, &p->filter);
  char *y = falt_cuda_element(o->output, &p->output) + first * p->output.stride[FALT_N] * size_of(plan);
  const int64_t matrices = a->positions * a->depth * (plan->by_row ? a->groups : 1) * size_of(plan);
  const bool batched = plan->by_row && a->groups == 1;
  if (batched) {
    product.count = images;
    product.next_a = 0;
    product.next_b = a->positions * a->depth;
    product.next_c = p->output.stride[FALT_N];
  }
  const int64_t calls = batched || (!plan->by_row && plan->joined) ? 1 : images;
  for (int64_t i = 0; i < calls; i++) {
    product.a = plan->by_row ? filter : columns + i * matrices;
    product.b = plan->by_row ? columns + i * matrices : filter;
    product.c = y + i * p->output.stride[FALT_N] * size_of(plan);
    falt_cublas_multiply(plan->cublas, &product, o->workspace, o->stream);
  }
}

static void execute(const falt_plan *base, const falt_operands *o) {
  const im2col_plan *plan = (const im2col_plan *)base;
  const int64_t batch = base->problem.output.size[FALT_N];
  for (int64_t first = 0; first < batch; first += plan->images) {
    const int64_t images = falt_min(plan->images, batch - first);
    write_columns(plan, o, first, images);
    multiply(plan, o, first, images);
  }
}

static void print(const falt_plan *base, falt_text *text) {
  const im2col_plan *plan = (const im2col_plan *)base;
  falt_text_add(text, "(cuda-im2col images=%lld %s by cuBLAS %s)", (long long)plan->images,
                plan->by_row ? "rows" : "channels", falt_cublas_version());
}

static void destroy(falt_plan *base) {
  im2col_plan *plan = (im2col_plan *)base;
  falt_cublas_close(plan->cublas);
  falt_gpu_release(base->device->gpu, plan->filter);
  falt_free(plan);
}

/* ---- applicable */

static bool has_matrices(const falt_tensor *y) {
  const int64_t positions = falt_im2col_positions(y);
  if (!falt_im2col_is_even(y)) return false;
  if (falt_im2col_is_by_row(y)) return y->size[FALT_C] == 1 || y->stride[FALT_C] >= positions;
  return y->size[FALT_C] == 1 || y->stride[FALT_C] == 1;
}

static const char *refusal(const falt_problem *p) {
  const falt_type type = p->input.type, sum = falt_type_accumulator(type);
  const int64_t depth = falt_tensor_count(&p->filter) / p->filter.size[FALT_K] / p->filter.size[FALT_G];
  return p->operation != FALT_FORWARD                                                ? "only forward"
         : !falt_type_is_float(type)                                                 ? "only f16, bf16, f32 and f64"
         : p->filter.type != type || p->output.type != type || p->accumulator != sum ? "its types differ"
         : p->has_residual || !falt_epilogue_is_identity(p)                          ? "only sums, without an epilogue"
         : !has_matrices(&p->output) ? "neither positions nor channels of the output are contiguous"
         : !falt_im2col_taps_lie(&p->filter, true) && !falt_im2col_taps_lie(&p->filter, false)
             ? "taps do not lie together"
         : depth > INT_MAX || falt_im2col_positions(&p->output) > INT_MAX || p->output.size[FALT_G] > INT_MAX ||
                 p->output.size[FALT_N] > INT_MAX
             ? "its matrices are too large"
             : NULL;
}

/* ---- plan */

/* From one output of a channel to the next. */
static int64_t position_step(const falt_tensor *y) {
  for (int dim = FALT_W; dim >= FALT_D; dim--)
    if (y->size[dim] > 1) return y->stride[dim];
  return 1;
}

static void fill_args(im2col_plan *plan) {
  const falt_problem *p = &plan->base.problem;
  falt_cuda_im2col_args *a = &plan->args;
  a->x = falt_cuda_tensor_of(&p->input);
  for (int i = 0; i < 3; i++) {
    a->axis[i] = falt_cuda_axis_of(&p->axis[i]);
    a->out[i] = (unsigned)p->output.size[FALT_D + i];
    a->taps[i] = (unsigned)p->filter.size[FALT_D + i];
  }
  a->groups = (unsigned)p->input.size[FALT_G];
  a->channels = (unsigned)p->input.size[FALT_C];
  a->positions = falt_im2col_positions(&p->output);
  a->depth = (int64_t)a->channels * a->taps[0] * a->taps[1] * a->taps[2];
  falt_store(&a->fill, p->input.type, 0, p->boundary_value);
}

/* How many images' matrices fit; false if not one image's do. */
static bool choose_band(im2col_plan *plan, const falt_ask *ask) {
  const falt_cuda_im2col_args *a = &plan->args;
  const falt_tensor *y = &plan->base.problem.output;
  const double image = (double)a->positions * (double)a->depth * a->groups * (double)size_of(plan);
  const int64_t limit = ask->budget->max_workspace, given = limit < 0 ? MOST_BYTES : limit - FALT_CUBLAS_WORKSPACE;
  if (image > 0x1p40 || (limit >= 0 && image > (double)given)) return false;
  const int64_t fitting = (int64_t)((double)falt_min(given, MOST_BYTES) / image);
  plan->images = falt_max(falt_min(fitting, y->size[FALT_N]), 1);
  plan->wide = image / (double)size_of(plan) * (double)plan->images >= 0x1p31;
  plan->position = a->positions > 1 ? position_step(y) : y->stride[FALT_N];
  plan->by_row = falt_im2col_is_by_row(y) && (a->positions > 1 || y->stride[FALT_C] != 1);
  plan->joined = y->size[FALT_N] == 1 || y->stride[FALT_N] == a->positions * plan->position;
  plan->base.workspace = FALT_CUBLAS_WORKSPACE + (size_t)image * (size_t)plan->images;
  return true;
}

static falt_status open_plan(im2col_plan *plan, const falt_ask *ask) {
  const falt_tensor *w = &ask->problem->filter;
  plan->base.packed = ask->filter_values != NULL;
  FALT_TRY(falt_cublas_open(&plan->cublas, ask->device->gpu, ask->problem->input.type, ask->budget->allow_tf32));
  if (!ask->filter_values) return FALT_OK;
  return falt_cuda_upload(ask->device->gpu, &plan->filter, ask->filter_values,
                          (size_t)falt_tensor_span(w) * falt_type_size(w->type));
}

static falt_status ready(falt_plan *base) {
  im2col_plan *plan = (im2col_plan *)base;
  falt_cuda_kernel kernel = {.source = "cuda_im2col.cu", .entry = "falt_im2col"};
  falt_cuda_define(&kernel, "ELEMENT=%s", falt_cuda_bits((size_t)size_of(plan)));
  falt_cuda_define(&kernel, "INDEX=%s", plan->wide ? "unsigned long long" : "unsigned");
  falt_cuda_define(&kernel, "BY_ROW=%d", plan->by_row);
  falt_cuda_define(&kernel, "CHANNELS_FIRST=%d", falt_im2col_taps_lie(&base->problem.filter, true));
  return falt_gpu_kernel(base->device->gpu, &kernel, &plan->function);
}

static falt_plan *plan_im2col(const falt_solver *solver, falt_ask *ask) {
  static const falt_plan_table table = {execute, print, destroy, ready};
  const falt_problem *p = ask->problem;
  if (strcmp(ask->budget->method, solver->name) != 0)
    return falt_refuse(ask, "runs only when it is named as the method");
  const char *reason = refusal(p);
  if (reason) return falt_refuse(ask, "%s", reason);
  if (ask->device->described) return falt_refuse(ask, "cuBLAS needs the GPU itself");
  im2col_plan *plan = falt_plan_new(sizeof *plan, &table, solver, ask);
  if (!plan) return NULL;
  fill_args(plan);
  if (!choose_band(plan, ask)) {
    destroy(&plan->base);
    return falt_refuse(ask, "one image's matrix does not fit in the workspace");
  }
  const falt_status status = open_plan(plan, ask);
  if (status == FALT_OK) {
    const double columns = (double)plan->args.positions * (double)plan->args.depth * plan->args.groups *
                           (double)p->output.size[FALT_N] * (double)size_of(plan);
    plan->base.cost.seconds = 1e-5 + (falt_problem_bytes(p) + 2 * columns) / ask->device->limits.copy_bytes_per_s;
    if (p->input.type == FALT_F32 && ask->budget->allow_tf32) plan->base.cost.error = FALT_TF32_ERROR;
    return &plan->base;
  }
  destroy(&plan->base);
  return falt_cuda_refuse(ask, status);
}

extern const falt_solver falt_solver_cuda_im2col;
const falt_solver falt_solver_cuda_im2col = {
    .name = "cuda-im2col", .device_kind = "cuda", .plan = plan_im2col, .only_by_name = true};
