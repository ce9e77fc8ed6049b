/* Plans, compiles and launches the register-tile filter kernel, cuda_direct.cu. */
#include "core/memory.h"
#include "solver/cuda/filter/cuda_taps.h"

enum { PLANE, ROW, COLUMN };

typedef struct tile_plan {
  falt_taps_plan taps;
  falt_tile tile;
} tile_plan;

/* ---- execute */

/* How the tiles are spread over blocks; all belong to the frame where pointers allow no vectors. */
static int64_t count_blocks(falt_cuda_tile_args *args, const tile_plan *plan) {
  const falt_tile *t = &plan->tile;
  falt_tile_box box = falt_tile_inside(&plan->taps.problem, t);
  int64_t blocks[3];
  for (int i = 0; i < 3 && !args->aligned; i++) box.begin[i] = box.end[i] = 0;
  falt_tile_blocks(t, &box, blocks);
  for (int i = 0; i < 3; i++) {
    args->tiles[i] = (int)box.all[i];
    args->begin[i] = (int)box.begin[i];
    args->end[i] = (int)box.end[i];
    args->blocks[i] = (int)blocks[i];
  }
  const int64_t frame =
      falt_ceil_div(falt_tile_frame(&box) * t->planes * (t->linear ? 1 : t->rows), (int64_t)t->block[0] * t->block[1]);
  const int64_t all = frame + blocks[0] * blocks[1] * blocks[2];
  args->frame_blocks = (int)frame;
  args->all_blocks = (int)all;
  return all * plan->taps.problem.batch;
}

static void execute(const falt_plan *base, const falt_operands *o) {
  const tile_plan *plan = (const tile_plan *)base;
  falt_cuda_tile_args args = falt_taps_args(&plan->taps, o, plan->tile.x_vector, plan->tile.y_vector);
  const int64_t blocks = count_blocks(&args, plan);
  void *parameters[] = {&args, (void *)plan->taps.values};
  const falt_gpu_launch launch = {
      plan->taps.function, blocks, {plan->tile.block[0], plan->tile.block[1]}, 0, o->stream};
  falt_gpu_start(base->device->gpu, &launch, parameters);
}

static void print(const falt_plan *base, falt_text *text) {
  const tile_plan *plan = (const tile_plan *)base;
  const falt_tile *t = &plan->tile;
  falt_text_add(text, "(%s ", base->solver->name);
  if (plan->taps.problem.terms > 0) falt_text_add(text, "rank=%d ", plan->taps.problem.terms);
  falt_text_add(text, "%dx%dx%d%s block=%dx%d vectors=%d,%d%s)", t->planes, t->rows, t->width,
                t->linear ? " linear" : "", t->block[0], t->block[1], t->x_vector, t->y_vector,
                plan->taps.wide ? " f64" : "");
}

/* ---- ready */

static falt_status ready(falt_plan *base) {
  tile_plan *plan = (tile_plan *)base;
  falt_cuda_kernel kernel = {.source = "cuda_direct.cu", .entry = "falt_tile"};
  falt_taps_defines(&kernel, &plan->taps);
  falt_tile_defines(&kernel, &plan->taps.problem, &plan->tile);
  return falt_gpu_kernel(base->device->gpu, &kernel, &plan->taps.function);
}

/* ---- plan */

/* Blocks are numbered in 31 bits, threads of the frame in 32. */
static bool few_blocks(const tile_plan *plan) {
  const falt_tile_problem *p = &plan->taps.problem;
  const double results = (double)p->out[PLANE] * (double)p->out[ROW] * (double)p->out[COLUMN];
  return results / plan->tile.width < 0x1p30 && results * (double)p->batch / plan->tile.width / 128 < 0x1p30;
}

static const char *choose(tile_plan *plan) {
  const falt_machine machine = falt_cuda_machine(plan->taps.base.device);
  if (!falt_tiles_choose(&plan->taps.problem, &machine, &plan->tile)) return plan->tile.rejected;
  return few_blocks(plan) ? NULL : "the image has more blocks than one launch can number";
}

falt_taps_plan *falt_tile_plan_new(const falt_solver *solver, falt_ask *ask, int terms) {
  static const falt_plan_table table = {execute, print, falt_plan_free, ready};
  tile_plan *plan = falt_taps_plan_new(sizeof *plan, &table, solver, ask, terms);
  if (!plan) return NULL;
  const char *why = choose(plan);
  if (why) return falt_taps_plan_drop(&plan->taps, ask, why);
  plan->taps.base.cost.seconds = 2e-6 + plan->tile.seconds;
  return &plan->taps;
}
