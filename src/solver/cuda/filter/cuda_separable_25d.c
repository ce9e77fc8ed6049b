/* Plans filters of images by 2.5D blocking down their columns, for separable terms or for the whole filter. One filter
 * for all channels, unit strides. Kernel: cuda_separable_25d.cu. Tile search: cuda_separable_25d_tiles.c. */
#include "core/memory.h"
#include "solver/cuda/filter/cuda_separable_25d_tiles.h"
#include "solver/cuda/filter/cuda_taps.h"

enum { PLANE, ROW, COLUMN };

typedef struct blocking_plan {
  falt_taps_plan taps;
  falt_separable_25d blocked;
} blocking_plan;

/* ---- execute */

static void execute(const falt_plan *base, const falt_operands *o) {
  const blocking_plan *plan = (const blocking_plan *)base;
  const falt_separable_25d *m = &plan->blocked;
  falt_cuda_tile_args args = falt_taps_args(&plan->taps, o, m->copy / plan->taps.problem.x_bytes, m->y_vector);
  void *parameters[] = {&args, (void *)plan->taps.values};
  const int64_t warps = m->across * m->down * m->planes;
  const falt_gpu_launch launch = {
      plan->taps.function, falt_ceil_div(warps, m->warps), {32 * m->warps, 1}, 0, o->stream};
  falt_gpu_start(base->device->gpu, &launch, parameters);
}

static void print(const falt_plan *base, falt_text *text) {
  const blocking_plan *plan = (const blocking_plan *)base;
  const falt_separable_25d *m = &plan->blocked;
  falt_text_add(text, "(%s ", base->solver->name);
  if (plan->taps.problem.terms > 0) falt_text_add(text, "rank=%d ", plan->taps.problem.terms);
  falt_text_add(text, "%d rows=%d ahead=%d warps=%d blocks=%d copy=%d)", m->width, m->rows, m->ahead, m->warps,
                m->blocks, m->copy);
}

/* ---- ready */

static falt_status ready(falt_plan *base) {
  blocking_plan *plan = (blocking_plan *)base;
  falt_cuda_kernel kernel = {.source = "cuda_separable_25d.cu", .entry = "falt_separable_25d"};
  falt_taps_defines(&kernel, &plan->taps);
  falt_separable_25d_defines(&kernel, &plan->taps.problem, &plan->blocked);
  return falt_gpu_kernel(base->device->gpu, &kernel, &plan->taps.function);
}

/* ---- plan */

static const char *choose(blocking_plan *plan) {
  const falt_machine machine = falt_cuda_machine(plan->taps.base.device);
  const falt_separable_25d *m = &plan->blocked;
  if (!falt_separable_25d_choose(&plan->taps.problem, &machine, &plan->blocked)) return m->rejected;
  if (m->across * m->down * m->planes >= INT32_MAX) return "the images have more parts than one launch can number";
  return falt_cuda_holds_fill(&plan->taps.base.problem) ? NULL : "the constant is not a number of the input's type";
}

falt_taps_plan *falt_separable_25d_plan_new(const falt_solver *solver, falt_ask *ask, int terms) {
  static const falt_plan_table table = {execute, print, falt_plan_free, ready};
  if (!falt_cuda_unit_steps(ask->problem)) {
    falt_refuse(ask, "a stride or dilation is not 1");
    return NULL;
  }
  blocking_plan *plan = falt_taps_plan_new(sizeof *plan, &table, solver, ask, terms);
  if (!plan) return NULL;
  const char *why = choose(plan);
  if (why) return falt_taps_plan_drop(&plan->taps, ask, why);
  plan->taps.args.planes = plan->blocked.rows;
  plan->taps.args.blocks[COLUMN] = (int)plan->blocked.across;
  plan->taps.args.blocks[ROW] = (int)plan->blocked.down;
  plan->taps.args.lines = (unsigned)(plan->blocked.planes / plan->taps.problem.out[PLANE]);
  plan->taps.base.cost.seconds = 2e-6 + plan->blocked.seconds;
  return &plan->taps;
}
