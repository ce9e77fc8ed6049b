/* Solver cuda-depthwise: depthwise layers, fprop and dgrad, by direct convolution at memory speed. Any layout, stride,
 * dilation and type. For NHWC the filter is repacked with contiguous channels: when planning if its values are known,
 * else before each execution in the workspace. Without workspace the kernel reads the filter in place. Kernel:
 * cuda_depthwise.cu. Tile search: cuda_depthwise_tiles.c. */
#include "solver/cuda/depthwise/cuda_depthwise.h"
#include "planner/planner.h"
#include "solver/cuda/common/cuda_igemm.h"
#include "solver/cuda/common/plan.h"

typedef struct depthwise_plan {
  falt_cuda_plan cuda;             /* its filter is packed if there is `pack` */
  falt_depthwise_cut wide, narrow; /* narrow: for any address */
  falt_cu_function pack;           /* NULL: the filter is read in place */
  falt_cuda_depthwise_args args, pack_args;
  int64_t packed_bytes;
} depthwise_plan;

/* ---- execute */

static void start_pack(const falt_plan *base, const void *from, void *to, void *stream) {
  const depthwise_plan *plan = (const depthwise_plan *)base;
  falt_cuda_depthwise_args args = plan->pack_args;
  args.w = from;
  args.y = to;
  void *parameters[] = {&args};
  const falt_gpu_launch launch = {plan->pack, falt_ceil_div(args.tiles, 256), {256, 1}, 0, stream};
  const int one[2] = {1, 1};
  falt_gpu_start_early(plan->cuda.base.device->gpu, &launch, one, parameters);
}

static const void *filter_of(const depthwise_plan *plan, const falt_operands *o) {
  const falt_tensor *w = &plan->cuda.base.problem.filter;
  if (!plan->pack) return falt_cuda_plan_filter(&plan->cuda, o);
  if (plan->cuda.filter) return plan->cuda.filter;
  const void *given = falt_cuda_element(o->filter, w);
  start_pack(&plan->cuda.base, given, o->workspace, o->stream);
  return o->workspace;
}

/* The kernel's EARLY. The wait takes a block a third of a microsecond, which many short blocks pay again and again. If
 * blocks follow each other, taps and first lines are loaded together. */
static int early_of(const depthwise_plan *plan, const falt_depthwise_cut *c) {
  const int64_t slots = (int64_t)falt_gpu_about(plan->cuda.base.device->gpu)->multiprocessors * c->tile.blocks;
  const int64_t blocks = falt_ceil_div(c->tile.tiles, c->tile.threads);
  if (!falt_depthwise_is_short(&plan->cuda.base) || blocks > 3 * slots) return 0;
  return plan->cuda.base.packed && blocks <= slots ? 2 : 1;
}

static void execute(const falt_plan *base, const falt_operands *o) {
  const depthwise_plan *plan = (const depthwise_plan *)base;
  falt_cuda_depthwise_args args = falt_depthwise_bind(&plan->args, &base->problem, o);
  args.w = filter_of(plan, o);
  const falt_depthwise_cut *c = falt_depthwise_aligned(&args, &plan->wide) ? &plan->wide : &plan->narrow;
  args.tiles = (unsigned)c->tile.tiles;
  void *parameters[] = {&args};
  const falt_gpu_launch launch = {
      c->function, falt_ceil_div(c->tile.tiles, c->tile.threads), {c->tile.threads, 1}, 0, o->stream};
  const int one[2] = {1, 1};
  if (early_of(plan, c))
    falt_gpu_start_early(base->device->gpu, &launch, one, parameters);
  else
    falt_gpu_start(base->device->gpu, &launch, parameters);
}

static void print(const falt_plan *base, falt_text *text) {
  const depthwise_plan *plan = (const depthwise_plan *)base;
  falt_text_add(text, "(cuda-depthwise ");
  falt_depthwise_print(&plan->wide, text);
  falt_text_add(text, ")");
}

/* ---- applicable */

static const char *inapplicable(const falt_ask *ask) {
  const falt_operation operation = ask->problem->operation;
  if (!falt_reads_filter(operation)) return "it computes fprop and dgrad only";
  return falt_depthwise_refusal(ask);
}

/* ---- ready */

static falt_status ready_cut(const depthwise_plan *plan, falt_depthwise_cut *c) {
  const falt_problem *p = &plan->cuda.base.problem;
  falt_cuda_kernel kernel = {.source = "cuda_depthwise.cu", .entry = "falt_depthwise"};
  falt_depthwise_defines(p, c, &kernel);
  falt_cuda_define(&kernel, "TYPE_W=%d", (int)(plan->pack ? falt_depthwise_sum_type(p) : p->filter.type));
  falt_cuda_define(&kernel, "W_WORDS=%d", plan->pack != NULL);
  falt_cuda_define(&kernel, "UNIT_Y=%d", c->tile.y_unit);
  falt_cuda_define(&kernel, "FINISH=%d", c->shape.finish);
  falt_cuda_define(&kernel, "EARLY=%d", early_of(plan, c));
  falt_cuda_define(&kernel, "TYPE_R=%d", p->has_residual ? (int)p->residual.type : -1);
  falt_cuda_define(&kernel, "ACTIVATION=%d", (int)(p->operation == FALT_FORWARD ? p->activation : FALT_IDENTITY));
  return falt_gpu_kernel(plan->cuda.base.device->gpu, &kernel, &c->function);
}

static falt_status ready_pack(depthwise_plan *plan) {
  const falt_problem *p = &plan->cuda.base.problem;
  falt_cuda_kernel kernel = {.source = "cuda_depthwise_pack.cu", .entry = "falt_depthwise_pack"};
  falt_cuda_define(&kernel, "TYPE_W=%d", (int)p->filter.type);
  falt_cuda_define(&kernel, "SUM=%s", falt_depthwise_sum(p));
  falt_cuda_define(&kernel, "TAPS_R=%d", (int)p->filter.size[FALT_H]);
  falt_cuda_define(&kernel, "TAPS_S=%d", (int)p->filter.size[FALT_W]);
  falt_cuda_define(&kernel, "CHANNELS=%lld", (long long)(p->filter.size[FALT_G] * p->filter.size[FALT_K]));
  falt_cuda_define(&kernel, "MULTIPLE=%d", (int)p->filter.size[FALT_K]);
  return falt_gpu_kernel(plan->cuda.base.device->gpu, &kernel, &plan->pack);
}

static falt_status ready(falt_plan *base) {
  depthwise_plan *plan = (depthwise_plan *)base;
  if (plan->packed_bytes) FALT_TRY(ready_pack(plan));
  FALT_TRY(ready_cut(plan, &plan->wide));
  FALT_TRY(ready_cut(plan, &plan->narrow));
  return plan->pack ? falt_cuda_plan_pack_filter(&plan->cuda, plan->packed_bytes, start_pack)
                    : falt_cuda_plan_keep_filter(&plan->cuda);
}

/* ---- plan */

static int64_t weights_of(const falt_problem *p) {
  return falt_tensor_count(&p->filter);
}

/* Packed taps have contiguous channels. */
static void set_args(depthwise_plan *plan) {
  const falt_problem *p = &plan->cuda.base.problem;
  const int64_t *w = p->filter.size;
  plan->args = plan->pack_args = falt_depthwise_args_of(p);
  if (!plan->packed_bytes) return;
  plan->pack_args.tiles = (unsigned)weights_of(p);
  plan->args.w_channel = w[FALT_K];
  plan->args.w_next = 1;
  plan->args.w_axis[2] = w[FALT_G] * w[FALT_K];
  plan->args.w_axis[1] = plan->args.w_axis[2] * w[FALT_W];
  plan->args.w_axis[0] = plan->args.w_axis[1] * w[FALT_H];
}

static const char *choose(falt_plan *base, falt_ask *ask) {
  depthwise_plan *plan = (depthwise_plan *)base;
  const int64_t bytes = weights_of(&base->problem) * (int64_t)falt_type_size(falt_depthwise_sum_type(&base->problem));
  const bool room = ask->filter_values || ask->budget->max_workspace < 0 || bytes <= ask->budget->max_workspace;
  if (!falt_depthwise_cut_of(&plan->wide, ask, false) || !falt_depthwise_cut_of(&plan->narrow, ask, true))
    return "no tile fits the GPU";
  plan->packed_bytes = plan->wide.shape.inner && room ? bytes : 0;
  base->workspace = plan->cuda.values ? 0 : (size_t)plan->packed_bytes;
  base->cost.seconds = 2e-6 + plan->wide.tile.seconds + (base->workspace ? 2e-6 : 0);
  set_args(plan);
  return NULL;
}

static const falt_plan_steps steps = {
    sizeof(depthwise_plan), {execute, print, falt_cuda_plan_destroy, ready}, inapplicable, choose};

extern const falt_solver falt_solver_cuda_depthwise;
const falt_solver falt_solver_cuda_depthwise = {
    .name = "cuda-depthwise", .device_kind = "cuda", .plan = falt_cuda_plan_make, .steps = &steps};
