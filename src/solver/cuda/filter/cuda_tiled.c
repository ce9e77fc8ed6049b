/* Solver cuda-tiled: filters of many taps from tiles in shared memory. One input and one output channel a group, any
 * stride, dilation, number of taps and epilogue; taps may be given with each execution. Interleaved channels with one
 * filter make a row longer and its taps farther apart; other dimensions are a batch. Kernel: cuda_tiled.cu. Tile
 * search: cuda_tiled_tiles.c. */
#include <math.h>

#include "core/memory.h"
#include "cuda/device/args.h"
#include "cuda/gpu.h"
#include "planner/planner.h"
#include "solver/cuda/common/cuda.h"
#include "solver/cuda/common/cuda_filter.h"
#include "solver/cuda/common/plan.h"
#include "solver/cuda/filter/cuda_tiled_tiles.h"

typedef struct tiled_plan {
  falt_cuda_plan cuda;
  falt_cuda_tiled_args args;
  falt_tiled block;
  int64_t blocks;
  int pixel, epilogue; /* epilogue: cuda_tiled.cu's EPILOGUE */
  bool wide;           /* sums in double */
  bool x_aligned, y_aligned;
} tiled_plan;

/* ---- execute */

static bool aligned(const void *data, const falt_tensor *t, int elements) {
  return (uintptr_t)data % (falt_type_size(t->type) * (uintptr_t)elements) == 0;
}

static void execute(const falt_plan *base, const falt_operands *o) {
  const tiled_plan *plan = (const tiled_plan *)base;
  const falt_problem *p = &base->problem;
  falt_cuda_tiled_args args = plan->args;
  args.x = falt_cuda_element(o->input, &p->input);
  args.y = falt_cuda_element(o->output, &p->output);
  args.w = falt_cuda_plan_filter(&plan->cuda, o);
  args.x_aligned = plan->x_aligned && aligned(args.x, &p->input, 4);
  args.y_aligned = plan->y_aligned && aligned(args.y, &p->output, 4);
  if (p->has_residual) args.residual.data = falt_cuda_element(o->residual, &p->residual);
  falt_cuda_epilogue_bind(&args.epilogue, p, o);
  void *parameters[] = {&args};
  const falt_gpu_launch launch = {plan->cuda.function,
                                  plan->blocks,
                                  {plan->block.lanes * plan->block.lines, 1},
                                  plan->block.shared_bytes,
                                  o->stream};
  falt_gpu_start(base->device->gpu, &launch, parameters);
}

static void print(const falt_plan *base, falt_text *text) {
  const tiled_plan *plan = (const tiled_plan *)base;
  const falt_tiled *b = &plan->block;
  falt_text_add(text, "(cuda-tiled %dx%dx%d*%d%s threads=%dx%d window=%d band=%dx%d shared=%d buffers=%d%s)", b->depth,
                b->rows, b->groups, b->group, b->dense ? "" : " spread", b->lines, b->lanes,
                b->chunk ? b->chunk : b->rest, b->band[0], b->band[1], b->shared_bytes, b->buffers,
                plan->wide ? " f64" : "");
}

/* ---- applicable */

static bool interleaved(const falt_problem *p) {
  return falt_cuda_one_filter(p) && falt_cuda_interleaved(p);
}

/* Kernels count rows, columns and blocks in 32 bits. */
static bool small_axes(const falt_problem *p) {
  const int64_t channels = interleaved(p) ? p->input.size[FALT_G] : 1, most = (INT64_C(1) << 30) / channels;
  for (int i = FALT_D; i < FALT_DIMS; i++) {
    const falt_axis *a = &p->axis[i - FALT_D];
    if (a->stride >= most || a->dilation >= most || p->filter.size[i] >= most || a->pad[0] >= most ||
        a->pad[0] <= -most || p->input.size[i] >= most || p->output.size[i] >= most)
      return false;
    const int64_t taps = p->filter.size[i], reach = (taps - 1) * a->dilation;
    if (reach >= most || (p->output.size[i] + 4096) * a->stride >= most) return false;
  }
  return p->output.size[FALT_K] * p->output.size[FALT_G] < most;
}

static bool needs_double(const falt_problem *p) {
  const double bound = falt_cuda_bound(p);
  return !falt_problem_fits_f32(p) || (!isinf(bound) && bound >= 0x1p24);
}

/* Sums of integers must be exact. */
static bool exact_enough(const falt_problem *p) {
  const double bound = falt_cuda_bound(p);
  return isinf(bound) || bound < 0x1p53;
}

static const char *inapplicable(const falt_ask *ask) {
  const falt_problem *p = ask->problem;
  const bool columns = falt_tensor_unit(&p->input, FALT_W) && falt_tensor_unit(&p->output, FALT_W);
  return p->operation != FALT_FORWARD             ? "it computes forward filters only"
         : p->filter.size[FALT_C] != 1            ? "it sums over one channel only"
         : !exact_enough(p)                       ? "sums of integers would not be exact"
         : !interleaved(p) && !columns            ? "columns are not contiguous"
         : !small_axes(p)                         ? "an axis is longer than 2^30 elements"
         : p->boundary_value != p->boundary_value ? "the constant is not a number"
                                                  : NULL;
}

/* ---- plan */

static void set_filter_args(tiled_plan *plan) {
  const falt_problem *p = &plan->cuda.base.problem;
  const falt_tensor *w = &p->filter;
  falt_cuda_tiled_args *a = &plan->args;
  for (int i = 0; i < 3; i++) {
    a->w_tap[i] = falt_cuda_stride(w, FALT_D + i);
    a->taps[i] = (int)w->size[FALT_D + i];
    a->pad[i] = (int)p->axis[i].pad[0] * (i == 2 ? plan->pixel : 1);
    for (int side = 0; side < 2; side++) a->boundary[i][side] = (int)p->axis[i].boundary[side];
  }
  a->w_batch[0] = falt_cuda_stride(w, FALT_G) * (int64_t)falt_type_size(w->type);
  a->w_batch[1] = falt_cuda_stride(w, FALT_K) * (int64_t)falt_type_size(w->type);
}

static void set_args(tiled_plan *plan) {
  const falt_problem *p = &plan->cuda.base.problem;
  const falt_tensor *x = &p->input, *y = &p->output;
  const bool planar = plan->pixel == 1;
  plan->args = (falt_cuda_tiled_args){
      .x_row = falt_cuda_stride(x, FALT_H),
      .x_plane = falt_cuda_stride(x, FALT_D),
      .x_batch = {falt_cuda_stride(x, FALT_N), planar ? falt_cuda_stride(x, FALT_G) : 0},
      .y_row = falt_cuda_stride(y, FALT_H),
      .y_plane = falt_cuda_stride(y, FALT_D),
      .y_batch = {falt_cuda_stride(y, FALT_N), planar ? falt_cuda_stride(y, FALT_G) : 0, falt_cuda_stride(y, FALT_C)},
      .in_columns = (int)x->size[FALT_W] * plan->pixel,
      .in_rows = (int)x->size[FALT_H],
      .in_planes = (int)x->size[FALT_D],
      .out_columns = (int)y->size[FALT_W] * plan->pixel,
      .out_rows = (int)y->size[FALT_H],
      .out_planes = (int)y->size[FALT_D],
      .batch = {(int)y->size[FALT_C], planar ? (int)y->size[FALT_G] : 1},
      .fill = p->boundary_value,
      .epilogue = falt_cuda_epilogue_of(p),
      .residual = falt_cuda_tensor_of(&p->residual)};
  set_filter_args(plan);
}

/* Whether all lines start at a multiple of `elements`, if the first does. */
static bool lines_aligned(const falt_tensor *t, int64_t elements) {
  for (int i = 0; i < FALT_DIMS; i++)
    if (i != FALT_W && t->size[i] > 1 && !(i == FALT_G && t->stride[i] == 1) && t->stride[i] % elements) return false;
  return true;
}

static bool choose_block(tiled_plan *plan) {
  const falt_problem *p = &plan->cuda.base.problem;
  const falt_cuda_tiled_args *a = &plan->args;
  const falt_machine machine = falt_cuda_machine(plan->cuda.base.device);
  falt_tiled_problem blocks = {.out = {a->out_planes, a->out_rows, a->out_columns},
                               .batch = p->input.size[FALT_N] * a->batch[0] * a->batch[1],
                               .pixel = plan->pixel,
                               .x_bytes = (int)falt_type_size(p->input.type),
                               .y_bytes = (int)falt_type_size(p->output.type),
                               .sum_bytes = plan->wide ? 8 : 4,
                               .pad = a->pad[2],
                               .epilogue = plan->epilogue,
                               .unaligned = !plan->x_aligned};
  for (int i = 0; i < 3; i++) {
    blocks.taps[i] = a->taps[i];
    blocks.stride[i] = (int)p->axis[i].stride;
    blocks.dilation[i] = a->taps[i] > 1 ? (int)p->axis[i].dilation : 1;
  }
  return falt_tiled_choose(&blocks, &machine, &plan->block);
}

static bool count_blocks(tiled_plan *plan) {
  falt_cuda_tiled_args *a = &plan->args;
  const falt_tiled *b = &plan->block;
  a->column_blocks = (int)falt_ceil_div(a->out_columns, (int64_t)b->lanes * b->groups * b->group);
  a->row_blocks = (int)falt_ceil_div(a->out_rows, (int64_t)b->lines * b->rows);
  a->plane_blocks = (int)falt_ceil_div(a->out_planes, b->walk ? b->walk : b->depth);
  a->walk = b->walk;
  a->tile_elements = b->tile_elements;
  a->buffer_elements = b->buffer_elements;
  const double blocks = (double)a->column_blocks * a->row_blocks * a->plane_blocks * a->batch[0] * a->batch[1] *
                        (double)plan->cuda.base.problem.input.size[FALT_N];
  plan->blocks = (int64_t)blocks;
  return blocks <= INT32_MAX;
}

static void add_types(falt_cuda_kernel *kernel, const tiled_plan *plan) {
  const falt_problem *p = &plan->cuda.base.problem;
  falt_cuda_define(kernel, "ELEMENT_X=%s", falt_cuda_types[p->input.type].element);
  falt_cuda_define(kernel, "ELEMENT_Y=%s", falt_cuda_types[p->output.type].element);
  falt_cuda_define(kernel, "TYPE_X=%d", (int)p->input.type);
  falt_cuda_define(kernel, "TYPE_Y=%d", (int)p->output.type);
  falt_cuda_define(kernel, "TYPE_W=%d", (int)p->filter.type);
  falt_cuda_define(kernel, "SUM=%s", plan->wide ? "double" : "float");
  falt_cuda_define(kernel, "PIXEL=%d", plan->pixel);
  falt_cuda_define(kernel, "EPILOGUE=%d", plan->epilogue);
  for (int i = 0; i < 3; i++) falt_cuda_define(kernel, "STRIDE_%c=%d", "TRS"[i], (int)p -> axis[i].stride);
  for (int i = 0; i < 2; i++)
    falt_cuda_define(kernel, "DILATE_%c=%d", "TR"[i], plan -> args.taps[i] > 1 ? (int)p->axis[i].dilation : 1);
}

static void add_block(falt_cuda_kernel *kernel, const falt_tiled *b) {
  const falt_cuda_named_define defines[] = {
      {"DEPTH", b->depth},    {"ROWS", b->rows},       {"GROUPS", b->groups},     {"GROUP", b->group},
      {"SPREAD", b->spread},  {"LANES", b->lanes},     {"LINES", b->lines},       {"CHUNK", b->chunk},
      {"REST", b->rest},      {"SPACE", b->space},     {"NEXT_TAP", b->next_tap}, {"NEXT_RESULT", b->next_result},
      {"SHIFT", b->shift},    {"PITCH", b->pitch},     {"DENSE", b->dense},       {"BAND_R", b->band[0]},
      {"BAND_S", b->band[1]}, {"BUFFERS", b->buffers}, {"WALK", b->walk > 0},     {"BLOCKS", b->blocks},
      {"APART", b->apart},    {"FLUSH", b->flush}};
  falt_cuda_defines(kernel, defines, sizeof defines / sizeof *defines);
  kernel->shared_bytes = b->shared_bytes;
}

static falt_status ready(falt_plan *base) {
  tiled_plan *plan = (tiled_plan *)base;
  falt_cuda_kernel kernel = {.source = "cuda_tiled.cu", .entry = "falt_tiled"};
  add_types(&kernel, plan);
  add_block(&kernel, &plan->block);
  return falt_cuda_plan_ready(base, &kernel, NULL);
}

static const char *choose(falt_plan *base, falt_ask *ask) {
  tiled_plan *plan = (tiled_plan *)base;
  const falt_problem *p = ask->problem;
  plan->pixel = interleaved(p) ? (int)p->input.size[FALT_G] : 1;
  plan->wide = needs_double(p);
  plan->epilogue = falt_cuda_epilogue_parts(p);
  plan->x_aligned = lines_aligned(&p->input, 4);
  plan->y_aligned = lines_aligned(&p->output, 4);
  set_args(plan);
  if (!choose_block(plan)) return plan->block.rejected;
  if (!count_blocks(plan)) return "the image has more blocks than one launch can number";
  base->cost.seconds = 2e-6 + plan->block.seconds;
  return NULL;
}

static const falt_plan_steps steps = {
    sizeof(tiled_plan), {execute, print, falt_cuda_plan_destroy, ready}, inapplicable, choose};

extern const falt_solver falt_solver_cuda_tiled;
const falt_solver falt_solver_cuda_tiled = {
    .name = "cuda-tiled", .device_kind = "cuda", .plan = falt_cuda_plan_make, .steps = &steps};
