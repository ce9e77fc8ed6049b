/* Direct filters on a GPU: one filter for all channels, stride 1, in registers. src/cuda/kernels/direct.cu has the
 * algorithm, src/cuda/tiles.c chooses how it is cut.
 *
 * A 3D filter sweeps along the depth with rows across; a 2D filter sweeps along the height, one row a thread; a signal
 * has no sweep. Channels that lie interleaved make a row longer and its taps farther apart; planar ones are a batch. */
#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "cuda/gpu.h"
#include "cuda/kernels/args.h"
#include "cuda/tiles.h"
#include "planner/planner.h"
#include "solver/cuda_filter.h"

enum { SWEEP, ROW, COLUMN };

typedef struct direct_plan {
  falt_plan base;
  falt_cu_function function;
  falt_cuda_direct_args args;
  falt_tile tile;
  int64_t blocks;
  int pixel;
  bool wide;                                         /* sums in double */
  double taps[FALT_CUDA_TAP_BYTES / sizeof(double)]; /* floats unless wide */
} direct_plan;

/* ---- execute */

static void execute(const falt_plan *base, const falt_operands *o) {
  const direct_plan *plan = (const direct_plan *)base;
  const falt_tensor *x = &base->problem.input, *y = &base->problem.output;
  const int64_t x_bytes = (int64_t)falt_type_size(x->type), y_bytes = (int64_t)falt_type_size(y->type);
  falt_cuda_direct_args args = plan->args;
  args.x = (const char *)o->input + x->offset * x_bytes;
  args.y = (char *)o->output + y->offset * y_bytes;
  args.aligned = (uintptr_t)args.x % (uintptr_t)(plan->tile.x_vector * x_bytes) == 0 &&
                 (uintptr_t)args.y % (uintptr_t)(plan->tile.y_vector * y_bytes) == 0;
  void *parameters[] = {&args, (void *)plan->taps};
  const falt_gpu_launch launch = {
      plan->function, plan->blocks, {plan->tile.block[0], plan->tile.block[1]}, 0, o->stream};
  falt_gpu_start(base->device->gpu, &launch, parameters);
}

static void print(const falt_plan *base, falt_text *text) {
  const direct_plan *plan = (const direct_plan *)base;
  const falt_tile *t = &plan->tile;
  falt_text_add(text, "(cuda-direct %dx%d%s steps=%d unroll=%d block=%dx%d vectors=%d,%d%s)", t->rows, t->width,
                t->linear ? " linear" : "", t->steps, t->unroll, t->block[0], t->block[1], t->x_vector, t->y_vector,
                plan->wide ? " f64" : "");
}

static void destroy(falt_plan *base) {
  falt_free(base);
}

/* ---- applicable */

static int64_t tap_count(const falt_problem *p) {
  return p->filter.size[FALT_D] * p->filter.size[FALT_H] * p->filter.size[FALT_W];
}

static size_t tap_bytes(const falt_problem *p) {
  return (size_t)tap_count(p) * (falt_cuda_needs_double(p) ? sizeof(double) : sizeof(float));
}

static const char *inapplicable(const falt_ask *ask) {
  const char *why = falt_cuda_filter_refusal(ask);
  if (why) return why;
  return tap_bytes(ask->problem) > FALT_CUDA_TAP_BYTES ? "it has more taps than the constant bank holds" : NULL;
}

/* ---- plan */

/* The axis of the problem behind the sweep, the rows and the columns; -1: none. */
static void order_axes(const falt_problem *p, int axis[3]) {
  const bool flat = p->filter.size[FALT_D] == 1 && p->output.size[FALT_D] == 1 && p->input.size[FALT_D] == 1;
  const bool line = flat && p->filter.size[FALT_H] == 1 && p->output.size[FALT_H] == 1 && p->input.size[FALT_H] == 1;
  axis[SWEEP] = line ? -1 : flat ? 1 : 0;
  axis[ROW] = flat ? -1 : 1;
  axis[COLUMN] = 2;
}

static void set_args(direct_plan *plan, const int axis[3]) {
  const falt_problem *p = &plan->base.problem;
  const falt_tensor *x = &p->input, *y = &p->output;
  const bool planar = plan->pixel == 1;
  plan->args = (falt_cuda_direct_args){
      .x_row = falt_cuda_stride_along(x, axis[ROW]),
      .x_sweep = falt_cuda_stride_along(x, axis[SWEEP]),
      .x_batch = {falt_cuda_batch_stride(x, FALT_N), planar ? falt_cuda_batch_stride(x, FALT_G) : 0},
      .y_row = falt_cuda_stride_along(y, axis[ROW]),
      .y_sweep = falt_cuda_stride_along(y, axis[SWEEP]),
      .y_batch = {falt_cuda_batch_stride(y, FALT_N), planar ? falt_cuda_batch_stride(y, FALT_G) : 0},
      .in_columns = (int)(x->size[FALT_W] * plan->pixel),
      .in_rows = (int)falt_cuda_size_along(x, axis[ROW]),
      .in_sweep = (int)falt_cuda_size_along(x, axis[SWEEP]),
      .out_columns = (int)(y->size[FALT_W] * plan->pixel),
      .out_rows = (int)falt_cuda_size_along(y, axis[ROW]),
      .out_sweep = (int)falt_cuda_size_along(y, axis[SWEEP]),
      .batch = (int)(planar ? x->size[FALT_G] : 1),
      .alpha = p->alpha,
      .beta = p->beta,
      .fill = p->boundary_value};
}

static bool choose_tile(direct_plan *plan, const int axis[3]) {
  const falt_problem *p = &plan->base.problem;
  const falt_cuda_direct_args *a = &plan->args;
  const falt_tile_machine machine = {falt_gpu_about(plan->base.device->gpu)->multiprocessors,
                                     plan->base.device->limits.copy_bytes_per_s, plan->base.device->limits.f32_flops};
  const int64_t x_batch[] = {a->x_batch[0], a->x_batch[1]}, y_batch[] = {a->y_batch[0], a->y_batch[1]};
  falt_tile_problem tiles = {.out = {a->out_sweep, a->out_rows, a->out_columns},
                             .batch = p->input.size[FALT_N] * a->batch,
                             .pixel = plan->pixel,
                             .x_bytes = (int)falt_type_size(p->input.type),
                             .y_bytes = (int)falt_type_size(p->output.type),
                             .sum_bytes = plan->wide ? 8 : 4,
                             .x_align = falt_cuda_alignment(a->x_row, a->x_sweep, x_batch),
                             .y_align = falt_cuda_alignment(a->y_row, a->y_sweep, y_batch),
                             .pad = (int)p->axis[2].pad[0]};
  for (int i = 0; i < 3; i++) tiles.taps[i] = (int)falt_cuda_size_along(&p->filter, axis[i]);
  return falt_tiles_choose(&tiles, &machine, &plan->tile);
}

static bool count_blocks(direct_plan *plan) {
  falt_cuda_direct_args *a = &plan->args;
  const falt_tile *t = &plan->tile;
  const int64_t width = (int64_t)t->width * t->block[0] * (t->linear ? t->rows : 1);
  const int64_t height = t->linear ? 1 : (int64_t)t->rows * t->block[1];
  a->column_blocks = (int)falt_ceil_div(a->out_columns, width);
  a->row_blocks = (int)falt_ceil_div(a->out_rows, height);
  a->sweep_blocks = (int)falt_ceil_div(a->out_sweep, t->steps);
  const double blocks = (double)a->column_blocks * a->row_blocks * a->sweep_blocks * a->batch *
                        (double)plan->base.problem.input.size[FALT_N];
  plan->blocks = (int64_t)blocks;
  return blocks <= INT32_MAX;
}

static void pack_taps(direct_plan *plan, const void *values) {
  const falt_tensor *w = &plan->base.problem.filter;
  float *narrow = (float *)(void *)plan->taps;
  int64_t n = 0;
  for (int64_t t = 0; t < w->size[FALT_D]; t++)
    for (int64_t r = 0; r < w->size[FALT_H]; r++)
      for (int64_t s = 0; s < w->size[FALT_W]; s++, n++) {
        const double tap = falt_load(values, w->type, falt_tensor_at(w, 0, 0, 0, t, r, s));
        if (plan->wide)
          plan->taps[n] = tap;
        else
          narrow[n] = (float)tap;
      }
}

static falt_status ready(falt_plan *base) {
  direct_plan *plan = (direct_plan *)base;
  const falt_problem *p = &plan->base.problem;
  const falt_tile *t = &plan->tile;
  falt_cuda_kernel kernel = {.source = "direct.cu", .entry = "falt_direct"};
  int axis[3];
  order_axes(p, axis);
  falt_cuda_axis_holes(&kernel, p, 'T', axis[SWEEP]);
  falt_cuda_axis_holes(&kernel, p, 'R', axis[ROW]);
  falt_cuda_axis_holes(&kernel, p, 'S', axis[COLUMN]);
  falt_cuda_hole(&kernel, "PIXEL=%d", plan->pixel);
  falt_cuda_hole(&kernel, "ELEMENT_X=%s", falt_cuda_element(p->input.type));
  falt_cuda_hole(&kernel, "ELEMENT_Y=%s", falt_cuda_element(p->output.type));
  falt_cuda_hole(&kernel, "TYPE_X=%d", (int)p->input.type);
  falt_cuda_hole(&kernel, "TYPE_Y=%d", (int)p->output.type);
  falt_cuda_hole(&kernel, "SUM=%s", plan->wide ? "double" : "float");
  falt_cuda_hole(&kernel, "THREAD=%d", t->width);
  falt_cuda_hole(&kernel, "VECTOR_X=%d", t->x_vector);
  falt_cuda_hole(&kernel, "VECTOR_Y=%d", t->y_vector);
  falt_cuda_hole(&kernel, "ROWS=%d", t->rows);
  falt_cuda_hole(&kernel, "STEPS=%d", t->steps);
  falt_cuda_hole(&kernel, "UNROLL=%d", t->unroll);
  falt_cuda_hole(&kernel, "BLOCK_X=%d", t->block[0]);
  falt_cuda_hole(&kernel, "BLOCK_Y=%d", t->block[1]);
  falt_cuda_hole(&kernel, "BLOCKS=%d", t->blocks);
  falt_cuda_hole(&kernel, "LINEAR=%d", t->linear);
  falt_cuda_hole(&kernel, "SCALED=%d", p->alpha != 1 || p->beta != 0);
  return falt_gpu_kernel(plan->base.device->gpu, &kernel, &plan->function);
}

static falt_plan *refuse(falt_ask *ask, direct_plan *plan, const char *why) {
  falt_free(plan);
  return falt_refuse(ask, "%s", why);
}

static falt_plan *plan_direct(const falt_solver *solver, falt_ask *ask) {
  static const falt_plan_table table = {execute, print, destroy, ready};
  const char *why = inapplicable(ask);
  if (why) return falt_refuse(ask, "%s", why);
  direct_plan *plan = falt_plan_new(sizeof *plan, &table, solver, ask);
  int axis[3];
  if (!plan) return NULL;
  plan->pixel = falt_cuda_interleaved(ask->problem) ? (int)ask->problem->input.size[FALT_G] : 1;
  plan->wide = falt_cuda_needs_double(ask->problem);
  order_axes(ask->problem, axis);
  set_args(plan, axis);
  if (!choose_tile(plan, axis)) return refuse(ask, plan, plan->tile.rejected);
  if (!count_blocks(plan)) return refuse(ask, plan, "the image has more blocks than one launch can number");
  pack_taps(plan, ask->filter_values);
  plan->base.packed = true;
  plan->base.cost.seconds = 2e-6 + plan->tile.seconds;
  return &plan->base;
}

extern const falt_solver falt_solver_cuda_direct;
const falt_solver falt_solver_cuda_direct = {.name = "cuda-direct", .device_kind = "cuda", .plan = plan_direct};
