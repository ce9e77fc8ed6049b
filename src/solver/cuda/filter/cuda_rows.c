/* Solver cuda-rows: filters along rows, such as long filters of signals and the passes of separable filters. One filter
 * for all channels, unit strides, taps along columns only and known when planning. Kernel: cuda_rows.cu. Tile search:
 * cuda_rows_tiles.c. */
#include "solver/cuda/filter/cuda_rows_tiles.h"

#include "solver/cuda/filter/cuda_taps.h"

enum { PLANE, ROW, COLUMN, MOST_Y = 65535 /* blocks of a grid along y */ };

typedef struct row_plan {
  falt_taps_plan taps;
  falt_row row;
} row_plan;

/* ---- execute */

static void execute(const falt_plan *base, const falt_operands *o) {
  const row_plan *plan = (const row_plan *)base;
  const falt_tile_problem *p = &plan->taps.problem;
  const falt_row *r = &plan->row;
  const int x_vector = 16 / p->x_bytes, y_vector = 16 / p->y_bytes;
  falt_cuda_tile_args args = falt_taps_args(&plan->taps, o, x_vector, y_vector);
  args.aligned &= p->x_align % x_vector == 0 && p->y_align % y_vector == 0;
  const int along_y = (int)(r->lines < MOST_Y ? r->lines : MOST_Y);
  const int blocks_yz[] = {along_y, (int)falt_ceil_div(r->lines, along_y)};
  void *parameters[] = {&args, (void *)plan->taps.values};
  const falt_gpu_launch launch = {plan->taps.function, r->across, {32 * r->warps, 1}, 0, o->stream};
  falt_gpu_start_grid(base->device->gpu, &launch, blocks_yz, 1, parameters);
}

static void print(const falt_plan *base, falt_text *text) {
  const row_plan *plan = (const row_plan *)base;
  falt_text_add(text, "(cuda-rows %d warps=%d blocks=%d%s)", plan->row.width, plan->row.warps, plan->row.blocks,
                plan->taps.wide ? " f64" : "");
}

/* ---- ready */

static falt_status ready(falt_plan *base) {
  row_plan *plan = (row_plan *)base;
  falt_cuda_kernel kernel = {.source = "cuda_rows.cu", .entry = "falt_row"};
  falt_taps_defines(&kernel, &plan->taps);
  falt_row_defines(&kernel, &plan->taps.problem, &plan->row);
  return falt_gpu_kernel(base->device->gpu, &kernel, &plan->taps.function);
}

/* ---- plan */

static const char *choose(row_plan *plan) {
  const falt_machine machine = falt_cuda_machine(plan->taps.base.device);
  if (!falt_rows_choose(&plan->taps.problem, &machine, &plan->row)) return plan->row.rejected;
  return plan->row.lines > INT32_MAX ? "the images have more rows than one launch can number" : NULL;
}

static falt_plan *plan_row(const falt_solver *solver, falt_ask *ask) {
  static const falt_plan_table table = {execute, print, falt_plan_free, ready};
  double taps[FALT_TAPS_MOST];
  const char *why = falt_cuda_filter_refusal(ask);
  if (why) return falt_refuse(ask, "%s", why);
  row_plan *plan = falt_taps_plan_new(sizeof *plan, &table, solver, ask, 0);
  if (!plan) return NULL;
  why = choose(plan);
  if (!why && !falt_cuda_holds_fill(ask->problem)) why = "the constant is not a number of the input's type";
  if (why) return falt_taps_plan_drop(&plan->taps, ask, why);
  falt_problem_taps(ask->problem, ask->filter_values, 0, FALT_F64, taps);
  falt_taps_pack(&plan->taps, taps);
  plan->taps.args.lines = (unsigned)plan->row.lines;
  plan->taps.base.cost.seconds = 2e-6 + plan->row.seconds;
  return &plan->taps.base;
}

extern const falt_solver falt_solver_cuda_rows;
const falt_solver falt_solver_cuda_rows = {.name = "cuda-rows", .device_kind = "cuda", .plan = plan_row};
