/* Solver cuda-pooling: maximum and average pooling and their gradients, 1D and 2D, at memory speed, with unrolled
 * windows of a few taps. cuda-generic computes 3D, long windows and f64. Kernel: cuda_pooling.cu. */
#include <math.h>

#include "core/memory.h"
#include "solver/cuda/common/cuda_filter.h"
#include "solver/cuda/common/plan.h"

enum {
  THREADS = 256,
  MOST_TAPS = 64,
  MOST_CELLS = 4,
  MOST_HELD = 140
}; /* held: registers for the elements that a gradient reads and writes */

typedef struct pooling_plan {
  falt_cuda_plan cuda;
  falt_cuda_pooling_args args;
  int rows, columns, vector; /* of a thread; vector: channels */
  bool last;
} pooling_plan;

/* ---- execute */

/* Elements of a vector: channels, or the elements of a row at which the windows of `columns` outputs start. */
static int64_t vector_of(const pooling_plan *plan, const falt_tensor *t) {
  const falt_problem *p = &plan->cuda.base.problem;
  if (plan->columns == 1) return plan->vector;
  return t == &p->input                              ? plan->columns * p->axis[2].stride
         : falt_operations[p->operation].is_gradient ? 1
                                                     : plan->columns;
}

static bool vectors_begin(const pooling_plan *plan, const void *data, const falt_tensor *t) {
  return (uintptr_t)data % ((size_t)vector_of(plan, t) * falt_type_size(t->type)) == 0;
}

static void execute(const falt_plan *base, const falt_operands *o) {
  const pooling_plan *plan = (const pooling_plan *)base;
  const falt_problem *p = &base->problem;
  falt_cuda_pooling_args args = plan->args;
  args.x.data = falt_cuda_element(o->input, &p->input);
  args.y.data = falt_cuda_element(o->output, &p->output);
  args.to = falt_cuda_element(falt_result_data(p->operation, o), falt_problem_result(p));
  args.aligned &= vectors_begin(plan, args.x.data, &p->input) && vectors_begin(plan, args.y.data, &p->output) &&
                  vectors_begin(plan, args.to, falt_problem_result(p));
  void *parameters[] = {&args};
  const falt_gpu_launch launch = {
      plan->cuda.function, falt_ceil_div(args.threads, THREADS), {THREADS, 1}, 0, o->stream};
  falt_gpu_start(base->device->gpu, &launch, parameters);
}

static void print(const falt_plan *base, falt_text *text) {
  const pooling_plan *plan = (const pooling_plan *)base;
  falt_text_add(text, "(cuda-pooling %dx%dx%d)", plan->rows, plan->columns, plan->vector);
}

/* ---- applicable */

/* Kernels count channels and positions on an axis in 32 bits. */
static bool small_axes(const falt_problem *p) {
  const int64_t most = INT64_C(1) << 28;
  for (int i = FALT_H; i <= FALT_W; i++) {
    const falt_axis *a = &p->axis[i - FALT_D];
    if (p->input.size[i] >= most || p->output.size[i] >= most || a->pad[0] >= most || a->pad[0] <= -most ||
        a->pad[1] >= most || a->pad[1] <= -most || a->stride > 64 || a->dilation > 64)
      return false;
  }
  return p->input.size[FALT_G] < most;
}

static const char *inapplicable(const falt_ask *ask) {
  const falt_problem *p = ask->problem;
  const int64_t *taps = p->filter.size;
  return !falt_is_pooling(p->operation) ? "it computes pooling only"
         : taps[FALT_D] != 1 || p->input.size[FALT_D] != 1 || p->output.size[FALT_D] != 1
             ? "it takes 1D and 2D problems only"
         : !falt_problem_fits_f32(p) ? "it computes in f32"
         : taps[FALT_H] > MOST_TAPS || taps[FALT_W] > MOST_TAPS || taps[FALT_H] * taps[FALT_W] > MOST_TAPS
             ? "a window has too many taps to be unrolled"
         : p->operation == FALT_BACKWARD_MAXPOOL && p->input.type != p->output.type
             ? "the gradient is of another type than the input"
         : !small_axes(p) ? "an axis is too long for its numbers"
                          : NULL;
}

/* ---- plan */

/* Registers for the elements that a gradient's thread writes and its windows read: a word holds two halves of
 * neighbouring channels, but one of neighbouring columns. */
static double held(const pooling_plan *plan) {
  const falt_problem *p = &plan->cuda.base.problem;
  double cell = 1, seen = 1;
  for (int i = 1; i < 3; i++) {
    const falt_axis *a = &p->axis[i];
    const double taps = (double)(p->filter.size[FALT_D + i] - 1) * (double)a->dilation, stride = (double)a->stride;
    cell *= stride;
    seen *= floor(taps / stride) * stride + taps + 1 + (i == 2 ? stride * (plan->columns - 1) : 0);
  }
  cell *= plan->columns * plan->vector;
  seen *= plan->vector * (plan->vector > 1 ? (double)falt_type_size(p->input.type) / 4 : 1);
  return p->operation == FALT_BACKWARD_MAXPOOL ? cell + seen : cell;
}

static bool fits_registers(const pooling_plan *plan) {
  return !falt_operations[plan->cuda.base.problem.operation].is_gradient || held(plan) <= MOST_HELD;
}

static bool lies_last(const falt_tensor *t) {
  return t->size[FALT_G] > 1 && t->stride[FALT_G] == 1;
}

/* Whether all vectors begin at a multiple of their size, if the first does. */
static bool allows(const falt_tensor *t, int along, int64_t vector) {
  for (int i = 0; i < FALT_DIMS; i++)
    if (i != along && t->size[i] > 1 && t->stride[i] % vector) return false;
  return falt_tensor_unit(t, along);
}

static bool channels_fit(const pooling_plan *plan) {
  const falt_problem *p = &plan->cuda.base.problem;
  return p->input.size[FALT_G] % plan->vector == 0 && allows(&p->input, FALT_G, plan->vector) &&
         allows(&p->output, FALT_G, plan->vector) && fits_registers(plan);
}

static bool columns_fit(const pooling_plan *plan) {
  const falt_problem *p = &plan->cuda.base.problem;
  const int64_t x = vector_of(plan, &p->input), y = vector_of(plan, &p->output);
  return (x & (x - 1)) == 0 && x * (int64_t)falt_type_size(p->input.type) <= 16 &&
         y * (int64_t)falt_type_size(p->output.type) <= 16 && allows(&p->input, FALT_W, x) &&
         allows(&p->output, FALT_W, y) && fits_registers(plan);
}

static void choose_vectors(pooling_plan *plan) {
  const falt_problem *p = &plan->cuda.base.problem;
  const int64_t bytes = falt_max((int64_t)falt_type_size(p->input.type), (int64_t)falt_type_size(p->output.type));
  plan->last = lies_last(&p->input) && lies_last(&p->output);
  plan->vector = plan->last ? (int)(16 / bytes) : 1;
  plan->columns = 1;
  while (plan->vector > 1 && !channels_fit(plan)) plan->vector /= 2;
  plan->columns = plan->last ? 1 : falt_operations[p->operation].is_gradient ? MOST_CELLS : 8;
  while (plan->columns > 1 && !columns_fit(plan)) plan->columns /= 2;
}

/* Rows of a thread: two share the lines of both windows. */
static int rows_of(const falt_problem *p) {
  return !falt_operations[p->operation].is_gradient && p->filter.size[FALT_H] > p->axis[1].stride &&
                 p->output.size[FALT_H] > 1
             ? 2
             : 1;
}

/* False if there are more threads than 32 bits count. */
static bool set_args(pooling_plan *plan) {
  const falt_problem *p = &plan->cuda.base.problem;
  falt_cuda_pooling_args *a = &plan->args;
  int64_t count[2];
  *a = (falt_cuda_pooling_args){.x = falt_cuda_tensor_of(&p->input),
                                .y = falt_cuda_tensor_of(&p->output),
                                .count_pad = p->count_pad,
                                .aligned = true};
  for (int i = 0; i < 2; i++) {
    const falt_axis *axis = &p->axis[1 + i];
    for (int side = 0; side < 2; side++) a->pad[i][side] = (int)axis->pad[side];
    count[i] = falt_operations[p->operation].is_gradient ? falt_ceil_div(p->input.size[FALT_H + i], axis->stride)
                                                         : p->output.size[FALT_H + i];
  }
  a->channels = (unsigned)(p->input.size[FALT_G] / plan->vector);
  a->rows = (unsigned)falt_ceil_div(count[0], plan->rows);
  a->columns = (unsigned)falt_ceil_div(count[1], plan->columns);
  const double threads = (double)a->channels * a->rows * a->columns * (double)p->input.size[FALT_N];
  a->threads = (unsigned)fmin(threads, 0x1p31);
  return threads < 0x1p31;
}

static falt_status ready(falt_plan *base) {
  pooling_plan *plan = (pooling_plan *)base;
  const falt_problem *p = &base->problem;
  falt_cuda_kernel kernel = {.source = "cuda_pooling.cu", .entry = "falt_pooling"};
  falt_cuda_define(&kernel, "OPERATION=%d", (int)p->operation);
  falt_cuda_define(&kernel, "ELEMENT_X=%s", falt_cuda_types[p->input.type].element);
  falt_cuda_define(&kernel, "ELEMENT_Y=%s", falt_cuda_types[p->output.type].element);
  falt_cuda_define(&kernel, "TYPE_X=%d", (int)p->input.type);
  falt_cuda_define(&kernel, "TYPE_Y=%d", (int)p->output.type);
  falt_cuda_define(&kernel, "SUM=float");
  falt_cuda_define(&kernel, "TINY=0");
  for (int i = 0; i < 2; i++) {
    const int64_t taps = p->filter.size[FALT_H + i];
    falt_cuda_define(&kernel, "TAPS_%c=%d", "RS"[i], (int)taps);
    falt_cuda_define(&kernel, "STRIDE_%c=%d", "HW"[i], (int)p -> axis[1 + i].stride);
    falt_cuda_define(&kernel, "DILATE_%c=%d", "RS"[i], taps > 1 ? (int)p->axis[1 + i].dilation : 1);
  }
  falt_cuda_define(&kernel, "PAD_R=%d", (int)p->axis[1].pad[0]);
  falt_cuda_define(&kernel, "PAD_S=%d", (int)p->axis[2].pad[0]);
  falt_cuda_define(&kernel, "ROWS=%d", plan->rows);
  falt_cuda_define(&kernel, "COLUMNS=%d", plan->columns);
  falt_cuda_define(&kernel, "WIDTH=%d", plan->vector);
  falt_cuda_define(&kernel, "LAST=%d", plan->last);
  return falt_cuda_plan_ready(base, &kernel, NULL);
}

/* Fractions of the copy bandwidth. */
static double estimate(const pooling_plan *plan, const falt_device *device) {
  const falt_problem *p = &plan->cuda.base.problem;
  const double share = p->operation == FALT_BACKWARD_MAXPOOL ? 0.2 : 0.6;
  return 2e-6 + falt_problem_bytes(p) / (share * device->limits.copy_bytes_per_s);
}

static const char *choose(falt_plan *base, falt_ask *ask) {
  pooling_plan *plan = (pooling_plan *)base;
  choose_vectors(plan);
  plan->rows = rows_of(&base->problem);
  if (!fits_registers(plan)) return "a gradient's windows do not fit a thread";
  if (!set_args(plan)) return "it has more threads than it can number";
  base->cost.seconds = estimate(plan, ask->device);
  return NULL;
}

static const falt_plan_steps steps = {
    sizeof(pooling_plan), {execute, print, falt_cuda_plan_destroy, ready}, inapplicable, choose};

extern const falt_solver falt_solver_cuda_pooling;
const falt_solver falt_solver_cuda_pooling = {
    .name = "cuda-pooling", .device_kind = "cuda", .plan = falt_cuda_plan_make, .steps = &steps};
