/* Solver cudnn: layers and their gradients by cuDNN, NVIDIA's library, as a yardstick. Used only when named by
 * --method. src/cuda/cudnn.c describes the layer and selects an engine: the first that cuDNN's heuristics propose, or
 * with tuning time the fastest measured one. 1D layers run as 2D layers of one row. Unaligned operands have an engine
 * of their own. */
#include "cuda/cudnn.h"

#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "solver/common/im2col.h"
#include "solver/cuda/common/cuda.h"
#include "solver/cuda/common/cuda_igemm.h"

enum { ALIGNED = 16 };

typedef struct cudnn_plan {
  falt_plan base;
  falt_cudnn *aligned, *any; /* any: NULL where cuDNN has no engine for it */
  void *filter;              /* in the GPU's memory, or NULL */
} cudnn_plan;

/* ---- execute */

static void execute(const falt_plan *base, const falt_operands *o) {
  const cudnn_plan *plan = (const cudnn_plan *)base;
  const falt_problem *p = &base->problem;
  void *const data[FALT_CUDNN_TENSORS] = {
      [FALT_CUDNN_X] = falt_cuda_element(o->input, &p->input),
      [FALT_CUDNN_W] = falt_cuda_element(plan->filter ? plan->filter : o->filter, &p->filter),
      [FALT_CUDNN_Y] = falt_cuda_element(o->output, &p->output)};
  uintptr_t bits = 0;
  for (int i = 0; i < FALT_CUDNN_TENSORS; i++) bits |= (uintptr_t)data[i];
  falt_cudnn *cudnn = bits % ALIGNED ? plan->any : plan->aligned;
  if (cudnn)
    falt_cudnn_run(cudnn, data, o->workspace, o->stream);
  else
    falt_gpu_fail(FALT_INVALID_ARGUMENT, "cudnn: has an engine for operands that 16 bytes divide only; align them");
}

static void print(const falt_plan *base, falt_text *text) {
  const cudnn_plan *plan = (const cudnn_plan *)base;
  falt_text_add(text, "(cudnn engine=%d", falt_cudnn_engine(plan->aligned));
  if (falt_cudnn_measured(plan->aligned)) falt_text_add(text, " of=%d", falt_cudnn_measured(plan->aligned));
  falt_text_add(text, " by cuDNN %s)", falt_cudnn_version());
}

static void destroy(falt_plan *base) {
  cudnn_plan *plan = (cudnn_plan *)base;
  falt_cudnn_free(plan->aligned);
  falt_cudnn_free(plan->any);
  falt_gpu_release(base->device->gpu, plan->filter);
  falt_free(plan);
}

/* ---- applicable */

/* Groups and their channels as one dimension of the library's. */
static bool has_one_channel_axis(const falt_tensor *t) {
  return t->size[FALT_G] == 1 || t->size[FALT_C] == 1 || t->stride[FALT_G] == t->size[FALT_C] * t->stride[FALT_C];
}

/* cuDNN reads filters in its own two orders and ignores their strides. */
static bool has_known_filter(const falt_tensor *w) {
  const int64_t taps = falt_tensor_count(w) / w->size[FALT_K] / w->size[FALT_G];
  return (w->size[FALT_K] == 1 || w->stride[FALT_K] == taps) &&
         (w->size[FALT_G] == 1 || w->stride[FALT_G] == w->size[FALT_K] * taps) &&
         (falt_im2col_taps_lie(w, true) || falt_im2col_taps_lie(w, false));
}

static bool goes_forward(const falt_tensor *t) {
  for (int i = 0; i < FALT_DIMS; i++)
    if (t->size[i] > 1 && t->stride[i] <= 0) return false;
  return true;
}

/* Pads behind the last element: equal to those before it if that gives the output size, which more engines support;
 * else zero or the windows' reach. Negative: windows end before the input does. */
static int64_t pad_after(const falt_problem *p, int axis) {
  const falt_axis *a = &p->axis[axis];
  const int64_t in = p->input.size[FALT_D + axis], out = p->output.size[FALT_D + axis];
  const int64_t extent = falt_extent(a, p->filter.size[FALT_D + axis]);
  const int64_t tries[] = {a->pad[0], 0};
  for (int i = 0; i < 2; i++) {
    const int64_t room = in + a->pad[0] + tries[i] - extent;
    if (room >= 0 && room / a->stride + 1 == out) return tries[i];
  }
  return (out - 1) * a->stride + extent - in - a->pad[0];
}

static bool has_plain_ends(const falt_problem *p) {
  for (int i = 0; i < 3; i++) {
    const falt_axis *a = &p->axis[i];
    const int64_t after = pad_after(p, i);
    if (a->pad[0] < 0 || after < 0) return false;
    if ((a->pad[0] > 0 && a->boundary[0] != FALT_CONSTANT) || (after > 0 && a->boundary[1] != FALT_CONSTANT))
      return false;
    if ((a->pad[0] > 0 || after > 0) && p->boundary_value != 0) return false;
  }
  return true;
}

/* A window may lie wholly in padding: engine 40 of cuDNN 9.14 gave infinity for the gradient of such a layer. */
static bool has_empty_windows(const falt_problem *p) {
  for (int i = 0; i < 3; i++) {
    const int64_t extent = falt_extent(&p->axis[i], p->filter.size[FALT_D + i]);
    if (p->axis[i].pad[0] >= extent || pad_after(p, i) >= extent) return true;
  }
  return false;
}

static const char *refusal(const falt_problem *p) {
  const falt_type type = p->input.type;
  return falt_is_pooling(p->operation)                      ? "only layers and their gradients"
         : !falt_type_is_float(type)                        ? "only f16, bf16, f32 and f64"
         : p->filter.type != type || p->output.type != type ? "its types differ"
         : p->accumulator != falt_type_accumulator(type)    ? "its sums are not of the layer's type or f32"
         : p->has_residual || p->has_bias || !falt_epilogue_is_identity(p) ? "only sums, without an epilogue"
         : !has_plain_ends(p)                                              ? "it takes zero padding only"
         : has_empty_windows(p)                                            ? "windows lie wholly in padding"
         : !goes_forward(&p->input) || !goes_forward(&p->filter) || !goes_forward(&p->output)
             ? "it walks no array backwards or in place"
         : !has_one_channel_axis(&p->input) || !has_one_channel_axis(&p->output)
             ? "groups do not follow one another as channels do"
         : !has_known_filter(&p->filter) ? "the filter's layout is neither oihw nor ohwi"
                                         : NULL;
}

/* ---- estimate */

/* The fraction of the MMA or memory rate that cuDNN reaches on most layers. */
static double estimate(const falt_ask *ask) {
  const falt_limits *l = &ask->device->limits;
  const falt_problem *p = ask->problem;
  const falt_type type = p->input.type;
  const double peak = type == FALT_F64                        ? l->f64_flops
                      : type == FALT_F32 || l->f16_flops <= 0 ? l->f32_flops
                                                              : l->f16_flops;
  return 5e-6 + fmax(falt_problem_flops(p) / (0.7 * peak), falt_problem_bytes(p) / l->copy_bytes_per_s);
}

/* ---- plan */

/* Dimensions of one element get the stride that they would have in a dense array: cuDNN tells layouts by strides. */
static void fill_strides(falt_cudnn_tensor *t, bool channels_last) {
  static const int orders[2][5] = {{4, 3, 2, 1, 0}, {1, 4, 3, 2, 0}};
  int64_t next = 1;
  for (int i = 0; i < 5; i++) {
    const int dim = orders[channels_last][i];
    if (t->size[dim] == 1) t->stride[dim] = next;
    next = t->stride[dim] * t->size[dim];
  }
}

/* Dimension 0 is batch or outputs of all groups, 1 channels of all groups (of a filter, of one). */
static falt_cudnn_tensor describe(const falt_tensor *t, bool is_filter, bool channels_last, int alignment) {
  falt_cudnn_tensor made = {.alignment = alignment};
  const int merged = is_filter ? FALT_K : FALT_C, alone = is_filter ? FALT_C : FALT_N;
  const int64_t size = t->size[merged] * t->size[FALT_G], stride = t->stride[t->size[merged] > 1 ? merged : FALT_G];
  for (int i = 2; i < 5; i++) {
    made.size[i] = t->size[FALT_D + i - 2];
    made.stride[i] = t->stride[FALT_D + i - 2];
  }
  made.size[is_filter ? 0 : 1] = size;
  made.stride[is_filter ? 0 : 1] = stride;
  made.size[is_filter ? 1 : 0] = t->size[alone];
  made.stride[is_filter ? 1 : 0] = t->stride[alone];
  fill_strides(&made, channels_last);
  return made;
}

static bool is_channels_last(const falt_tensor *t) {
  return t->size[FALT_C] * t->size[FALT_G] > 1 && t->stride[t->size[FALT_C] > 1 ? FALT_C : FALT_G] == 1;
}

static falt_cudnn_layer layer_of(const falt_ask *ask, int alignment) {
  static const falt_cudnn_operation operations[] = {[FALT_FORWARD] = FALT_CUDNN_FORWARD,
                                                    [FALT_BACKWARD_DATA] = FALT_CUDNN_DATA,
                                                    [FALT_BACKWARD_FILTER] = FALT_CUDNN_FILTER};
  const falt_problem *p = ask->problem;
  const bool last = is_channels_last(&p->input) || is_channels_last(&p->output);
  falt_cudnn_layer made = {.operation = operations[p->operation],
                           .type = p->input.type,
                           .axes = p->space == 3 ? 3 : 2,
                           .allow_tf32 = ask->budget->allow_tf32,
                           .deterministic = ask->budget->deterministic,
                           .max_workspace = ask->budget->max_workspace};
  made.tensor[FALT_CUDNN_X] = describe(&p->input, false, last, alignment);
  made.tensor[FALT_CUDNN_W] = describe(&p->filter, true, last, alignment);
  made.tensor[FALT_CUDNN_Y] = describe(&p->output, false, last, alignment);
  for (int i = 0; i < 3; i++) {
    made.stride[i] = p->axis[i].stride;
    made.dilation[i] = p->axis[i].dilation;
    made.before[i] = p->axis[i].pad[0];
    made.after[i] = pad_after(p, i);
  }
  return made;
}

static falt_status choose(cudnn_plan *plan, const falt_ask *ask) {
  falt_gpu *gpu = ask->device->gpu;
  falt_cudnn_layer layer = layer_of(ask, ALIGNED);
  layer.seconds = ask->budget->tune_seconds;
  FALT_TRY(falt_cudnn_make(&plan->aligned, gpu, &layer));
  layer = layer_of(ask, (int)falt_type_size(ask->problem->input.type));
  if (falt_cudnn_make(&plan->any, gpu, &layer) != FALT_OK) plan->any = NULL;
  plan->base.workspace = falt_cudnn_workspace(plan->aligned);
  if (plan->any && falt_cudnn_workspace(plan->any) > plan->base.workspace)
    plan->base.workspace = falt_cudnn_workspace(plan->any);
  return FALT_OK;
}

static falt_status take_filter(cudnn_plan *plan, const falt_ask *ask) {
  const falt_tensor *w = &ask->problem->filter;
  plan->base.packed = ask->filter_values && ask->problem->operation != FALT_BACKWARD_FILTER;
  if (!plan->base.packed) return FALT_OK;
  return falt_cuda_upload(ask->device->gpu, &plan->filter, ask->filter_values,
                          (size_t)falt_tensor_span(w) * falt_type_size(w->type));
}

static falt_plan *plan_cudnn(const falt_solver *solver, falt_ask *ask) {
  static const falt_plan_table table = {.execute = execute, .print = print, .destroy = destroy};
  const falt_problem *p = ask->problem;
  if (strcmp(ask->budget->method, solver->name) != 0)
    return falt_refuse(ask, "runs only when it is named as the method");
  const char *reason = refusal(p);
  if (reason) return falt_refuse(ask, "%s", reason);
  if (ask->budget->no_transforms)
    return falt_refuse(ask, "cuDNN may transform its input, and the budget has no transforms");
  if (ask->device->described) return falt_refuse(ask, "cuDNN needs the GPU itself");
  cudnn_plan *plan = falt_plan_new(sizeof *plan, &table, solver, ask);
  if (!plan) return NULL;
  falt_status status = choose(plan, ask);
  if (status == FALT_OK) status = take_filter(plan, ask);
  plan->base.cost.seconds = estimate(ask);
  if (p->input.type == FALT_F32 && ask->budget->allow_tf32) plan->base.cost.error = FALT_TF32_ERROR;
  if (status == FALT_OK) return &plan->base;
  destroy(&plan->base);
  return falt_cuda_refuse(ask, status);
}

extern const falt_solver falt_solver_cudnn;
const falt_solver falt_solver_cudnn = {
    .name = "cudnn", .device_kind = "cuda", .plan = plan_cudnn, .only_by_name = true};
