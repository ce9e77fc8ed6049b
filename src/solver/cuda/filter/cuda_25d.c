/* Solvers cuda-25d and cuda-separable-volume: filters of images and volumes by 2.5D blocking. One filter for all
 * channels, unit strides and dilations, taps known when planning. Each input plane (for images: row) is read once and
 * added to the accumulators of all output planes that it belongs to. Kernel: cuda_25d.cu. Tile search:
 * cuda_25d_tiles.c. */
#include "solver/cuda/filter/cuda_25d_tiles.h"

#include <math.h>

#include "solver/cuda/filter/cuda_taps.h"

enum { PLANE, ROW, COLUMN };

typedef struct blocking_plan {
  falt_taps_plan taps;
  falt_25d tile;
} blocking_plan;

/* ---- execute */

static void execute(const falt_plan *base, const falt_operands *o) {
  const blocking_plan *plan = (const blocking_plan *)base;
  const falt_25d *s = &plan->tile;
  falt_cuda_tile_args args = falt_taps_args(&plan->taps, o, s->x_vector, s->y_vector);
  const int64_t blocks = s->count[PLANE] * s->count[ROW] * s->count[COLUMN] * plan->taps.problem.batch;
  void *parameters[] = {&args, (void *)plan->taps.values};
  const falt_gpu_launch launch = {plan->taps.function, blocks, {s->block[0], s->block[1]}, 0, o->stream};
  falt_gpu_start(base->device->gpu, &launch, parameters);
}

static void print(const falt_plan *base, falt_text *text) {
  const blocking_plan *plan = (const blocking_plan *)base;
  const falt_25d *s = &plan->tile;
  falt_text_add(text, "(%s ", base->solver->name);
  if (plan->taps.problem.terms > 0) falt_text_add(text, "rank=%d ", plan->taps.problem.terms);
  falt_text_add(text, "%dx%d planes=%d ahead=%d block=%dx%d vectors=%d,%d%s)", s->rows, s->width, s->planes, s->ahead,
                s->block[0], s->block[1], s->x_vector, s->y_vector, plan->taps.wide ? " f64" : "");
}

/* ---- ready */

static falt_status ready(falt_plan *base) {
  blocking_plan *plan = (blocking_plan *)base;
  falt_cuda_kernel kernel = {.source = "cuda_25d.cu", .entry = "falt_25d"};
  falt_taps_defines(&kernel, &plan->taps);
  falt_25d_defines(&kernel, &plan->tile);
  return falt_gpu_kernel(base->device->gpu, &kernel, &plan->taps.function);
}

/* ---- plan */

/* Blocks are numbered in 31 bits; so are a plane's elements. */
static const char *too_large(const blocking_plan *plan) {
  const falt_25d *s = &plan->tile;
  const falt_tile_problem *p = &plan->taps.problem;
  const double blocks = (double)s->count[PLANE] * (double)s->count[ROW] * (double)s->count[COLUMN] * (double)p->batch;
  const double plane = (double)p->in[ROW] * fabs((double)plan->taps.args.x_row) + (double)p->in[COLUMN];
  return blocks >= 0x1p31  ? "the image has more blocks than one launch can number"
         : plane >= 0x1p31 ? "a plane has more elements than 31 bits count"
                           : NULL;
}

static void swap(int64_t *a, int64_t *b) {
  const int64_t was = *a;
  *a = *b;
  *b = was;
}

static void swap_int(int pair[2]) {
  const int was = pair[0];
  pair[0] = pair[1];
  pair[1] = was;
}

/* An image's rows become its planes; their taps are the whole filter's, in the same order. */
static void rows_as_planes(falt_taps_plan *plan) {
  falt_tile_problem *p = &plan->problem;
  falt_cuda_tile_args *a = &plan->args;
  int *const pairs[] = {plan->axis, p->taps, p->pad, a->in, a->out};
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) swap_int(pairs[i]);
  swap(&p->in[PLANE], &p->in[ROW]);
  swap(&p->out[PLANE], &p->out[ROW]);
  const long long x_plane = a->x_plane, y_plane = a->y_plane;
  a->x_plane = a->x_row;
  a->y_plane = a->y_row;
  a->x_row = x_plane;
  a->y_row = y_plane;
}

static const char *choose(blocking_plan *plan) {
  const falt_machine machine = falt_cuda_machine(plan->taps.base.device);
  if (!falt_25d_choose(&plan->taps.problem, &machine, &plan->tile)) return plan->tile.rejected;
  return too_large(plan);
}

falt_taps_plan *falt_25d_plan_new(const falt_solver *solver, falt_ask *ask, int terms) {
  static const falt_plan_table table = {execute, print, falt_plan_free, ready};
  if (!falt_cuda_unit_steps(ask->problem)) {
    falt_refuse(ask, "a stride or dilation is not 1");
    return NULL;
  }
  blocking_plan *plan = falt_taps_plan_new(sizeof *plan, &table, solver, ask, terms);
  if (!plan) return NULL;
  if (plan->taps.axis[PLANE] < 0 && terms == 0) rows_as_planes(&plan->taps);
  const char *why = choose(plan);
  if (why) return falt_taps_plan_drop(&plan->taps, ask, why);
  plan->taps.args.planes = plan->tile.planes;
  for (int i = 0; i < 3; i++) plan->taps.args.blocks[i] = (int)plan->tile.count[i];
  const falt_machine machine = falt_cuda_machine(plan->taps.base.device);
  const double scattered = falt_25d_scattered(&plan->taps.problem, &machine, &plan->tile);
  plan->taps.base.cost.seconds = 2e-6 + plan->tile.seconds + scattered;
  return &plan->taps;
}

static falt_plan *plan_25d(const falt_solver *solver, falt_ask *ask) {
  return falt_taps_plan_whole(solver, ask, falt_25d_plan_new);
}

extern const falt_solver falt_solver_cuda_25d;
const falt_solver falt_solver_cuda_25d = {.name = "cuda-25d", .device_kind = "cuda", .plan = plan_25d};
