/* Solver cuda-generic: every problem on a GPU by its definition, one thread an output (one block an output for wgrad).
 * Follows the reference line by line; integer sums are exact. The planner picks it where nothing else applies. */
#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "cuda/device/args.h"
#include "cuda/gpu.h"
#include "planner/planner.h"
#include "solver/cuda/common/cuda.h"

enum { THREADS = 256 };

typedef struct generic_plan {
  falt_plan base;
  falt_cu_function function, bias;
  void *filter; /* in the GPU's memory, or NULL */
  falt_cuda_generic_args args;
  int64_t blocks;
  bool channels_fastest;
  const char *sum;
} generic_plan;

/* ---- arguments */

static falt_cuda_generic_args args_of(const falt_problem *p) {
  const falt_tensor residual = falt_operand_tensor(p, FALT_RESIDUAL);
  falt_cuda_generic_args a = {.residual = falt_cuda_tensor_of(&residual),
                              .x = falt_cuda_tensor_of(&p->input),
                              .w = falt_cuda_tensor_of(&p->filter),
                              .y = falt_cuda_tensor_of(&p->output),
                              .epilogue = falt_cuda_epilogue_of(p),
                              .boundary_value = p->boundary_value,
                              .count_pad = p->count_pad,
                              .factors = p->factors,
                              .pool = {p->pool[0], p->pool[1], p->pool[2]}};
  for (int i = 0; i < 3; i++) a.axis[i] = falt_cuda_axis_of(&p->axis[i]);
  return a;
}

/* ---- execute */

static void execute(const falt_plan *base, const falt_operands *o) {
  const generic_plan *plan = (const generic_plan *)base;
  const falt_problem *p = &base->problem;
  falt_cuda_generic_args args = plan->args;
  args.x.data = falt_cuda_element(o->input, &p->input);
  args.w.data = plan->filter ? plan->filter : o->filter;
  if (!p->factors) args.w.data = falt_cuda_element(args.w.data, &p->filter);
  args.y.data = falt_cuda_element(o->output, &p->output);
  if (p->has_residual) args.residual.data = falt_cuda_element(o->residual, &p->residual);
  if (p->operation == FALT_BACKWARD_MAXPOOL) args.residual.data = falt_cuda_element(o->residual, &p->input);
  falt_cuda_epilogue_bind(&args.epilogue, p, o);
  void *parameters[] = {&args};
  falt_gpu_launch launch = {plan->function, plan->blocks, {THREADS, 1}, 0, o->stream};
  falt_gpu_start(base->device->gpu, &launch, parameters);
  if (!plan->bias) return;
  launch.function = plan->bias;
  launch.blocks = p->output.size[FALT_G] * p->output.size[FALT_C];
  falt_gpu_start(base->device->gpu, &launch, parameters);
}

static void print(const falt_plan *base, falt_text *text) {
  const generic_plan *plan = (const generic_plan *)base;
  falt_text_add(text, "(cuda-generic %s %s)", plan->sum, plan->channels_fastest ? "channels" : "columns");
}

static void destroy(falt_plan *base) {
  falt_gpu_release(base->device->gpu, ((generic_plan *)base)->filter);
  falt_free(base);
}

/* ---- plan: applies to every problem whose outputs one launch can number */

static int64_t magnitude(int64_t a) {
  return a < 0 ? -a : a;
}

/* Whether neighbouring channels are closer in memory than neighbouring columns. */
static bool has_channels_fastest(const falt_tensor *t) {
  const int channel = t->size[FALT_C] > 1 ? FALT_C : FALT_G;
  if (t->size[channel] == 1) return false;
  return t->size[FALT_W] == 1 || magnitude(t->stride[channel]) < magnitude(t->stride[FALT_W]);
}

/* A filter's gradient has a block for each output, all else a thread. */
static bool count_blocks(generic_plan *plan) {
  const falt_problem *p = &plan->base.problem;
  const int64_t results = falt_tensor_count(falt_problem_result(p));
  plan->blocks = p->operation == FALT_BACKWARD_FILTER ? results : falt_ceil_div(results, THREADS);
  return plan->blocks <= INT32_MAX;
}

static const char *real_of(const falt_problem *p) {
  return falt_problem_fits_f32(p) ? "float" : "double";
}

static falt_status ready(falt_plan *base) {
  generic_plan *plan = (generic_plan *)base;
  const falt_problem *p = &plan->base.problem;
  const bool filter = p->operation == FALT_BACKWARD_FILTER;
  falt_cuda_kernel kernel = {.source = "cuda_generic.cu", .entry = filter ? "falt_generic_filter" : "falt_generic"};
  falt_cuda_define(&kernel, "OPERATION=%d", (int)p->operation);
  falt_cuda_define(&kernel, "SUM=%s", plan->sum);
  falt_cuda_define(&kernel, "REAL=%s", real_of(p));
  falt_cuda_define(&kernel, "INDEX=%s", plan->blocks < (1 << 23) ? "unsigned" : "unsigned long long");
  falt_cuda_define(&kernel, "POOLED=%d", falt_problem_pools(p));
  falt_cuda_define(&kernel, "FACTORS=%d", p->factors > 0);
  falt_cuda_define(&kernel, "CHANNELS_FASTEST=%d", plan->channels_fastest);
  FALT_TRY(falt_gpu_kernel(plan->base.device->gpu, &kernel, &plan->function));
  if (!filter || !p->has_bias) return FALT_OK;
  kernel.entry = "falt_generic_bias";
  return falt_gpu_kernel(plan->base.device->gpu, &kernel, &plan->bias);
}

/* Fractions of the peak measured on an H200: 64-bit indices, boundaries and types cost tens of instructions a
 * multiply-add or comparison, and the gradient of max pooling searches every window again for every element. */
static double share_of(const falt_problem *p) {
  switch (p->operation) {
    case FALT_MAXPOOL:
    case FALT_AVGPOOL:
    case FALT_BACKWARD_AVGPOOL:
      return 0.0026;
    case FALT_BACKWARD_MAXPOOL:
      return 0.00014;
    default:
      return falt_problem_pools(p) ? 0.0028 : 0.02;
  }
}

/* Seconds that a thread waits for its sequential products, as measured there. */
static double waits_of(const falt_problem *p) {
  const bool data = p->operation == FALT_BACKWARD_DATA;
  if (p->operation != FALT_FORWARD && !data) return 0;
  return (double)falt_problem_depth(p) * (data ? 0.5e-6 : 0.22e-6);
}

/* wgrad distributes an output's products over the threads of a block, whose reduction and addresses cost as much as a
 * round of products. */
static double blocks_seconds(const falt_problem *p, const falt_device *device, double products) {
  const falt_tensor *y = &p->output;
  const double positions = (double)(falt_tensor_count(y) / (y->size[FALT_G] * y->size[FALT_C]));
  const double rounds = ceil(positions / THREADS), alone = 0.7e-6 + 1.2e-6 * rounds;
  const double blocks = (double)falt_tensor_count(&p->filter) / falt_gpu_about(device->gpu)->multiprocessors;
  const double busy = blocks * 0.6e-6 + products;
  return sqrt(alone * alone + busy * busy);
}

static double estimate(const falt_problem *p, const falt_device *device) {
  const double all = falt_roofline(device, FALT_F32, falt_problem_flops(p), share_of(p), falt_problem_bytes(p));
  return 2e-6 + (p->operation == FALT_BACKWARD_FILTER ? blocks_seconds(p, device, all) : waits_of(p) + all);
}

/* Factors are multiplied for every tap, which takes as long as so many taps more. */
static double estimate_of(const falt_problem *p, const falt_device *device) {
  falt_problem dense = *p;
  dense.factors = 0;
  return estimate(&dense, device) * (1 + 3 * p->factors);
}

static falt_plan *plan_generic(const falt_solver *solver, falt_ask *ask) {
  static const falt_plan_table table = {execute, print, destroy, ready};
  const falt_problem *p = ask->problem;
  generic_plan *plan = falt_plan_new(sizeof *plan, &table, solver, ask);
  if (!plan) return NULL;
  plan->args = args_of(p);
  plan->sum = falt_cuda_sum(p, real_of(p));
  plan->channels_fastest = has_channels_fastest(falt_problem_result(p));
  plan->base.cost.seconds = estimate_of(p, ask->device);
  plan->base.packed = ask->filter_values && falt_reads_filter(p->operation);
  falt_status status = FALT_OK;
  if (!count_blocks(plan)) {
    falt_refuse(ask, "the output has more elements than one launch can number");
    status = FALT_NO_SOLVER;
  } else if (plan->base.packed) {
    const size_t bytes = (size_t)falt_problem_filter_elements(p) * falt_type_size(p->filter.type);
    status = falt_cuda_upload(ask->device->gpu, &plan->filter, ask->filter_values, bytes);
    if (status != FALT_OK) falt_cuda_refuse(ask, status);
  }
  if (status == FALT_OK) return &plan->base;
  destroy(&plan->base);
  return NULL;
}

extern const falt_solver falt_solver_cuda_generic;
const falt_solver falt_solver_cuda_generic = {
    .name = "cuda-generic", .device_kind = "cuda", .plan = plan_generic, .takes_factors = true, .pools = true};
