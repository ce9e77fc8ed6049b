/* A 3D filter has planes, rows and columns; a 2D filter's planes and a signal's rows are one. Channels that lie
 * interleaved make a row longer and its taps farther apart; planar ones are a batch.
 *
 * Images of u8 and u16 need no conversion: their bits, moved into the high bits of a float's mantissa, are the number
 * times a power of two far below the normal range, exactly. The taps are scaled up to meet it. */
#include "solver/cuda_tile.h"

#include <math.h>

#include "core/memory.h"

enum { PLANE, ROW, COLUMN };

/* ---- execute */

/* How the tiles are spread over blocks; all belong to the frame where pointers allow no vectors. */
static int64_t count_blocks(falt_cuda_tile_args *args, const falt_tile_plan *plan) {
  const falt_tile *t = &plan->tile;
  falt_tile_box box = falt_tile_inside(&plan->problem, t);
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
  return all * plan->problem.batch;
}

static void execute(const falt_plan *base, const falt_operands *o) {
  const falt_tile_plan *plan = (const falt_tile_plan *)base;
  const falt_tensor *x = &base->problem.input, *y = &base->problem.output;
  const int64_t x_bytes = (int64_t)falt_type_size(x->type), y_bytes = (int64_t)falt_type_size(y->type);
  falt_cuda_tile_args args = plan->args;
  args.x = (const char *)o->input + x->offset * x_bytes;
  args.y = (char *)o->output + y->offset * y_bytes;
  args.aligned = (uintptr_t)args.x % (uintptr_t)(plan->tile.x_vector * x_bytes) == 0 &&
                 (uintptr_t)args.y % (uintptr_t)(plan->tile.y_vector * y_bytes) == 0;
  const int64_t blocks = count_blocks(&args, plan);
  void *parameters[] = {&args, (void *)plan->values};
  const falt_gpu_launch launch = {plan->function, blocks, {plan->tile.block[0], plan->tile.block[1]}, 0, o->stream};
  falt_gpu_start(base->device->gpu, &launch, parameters);
}

static void print(const falt_plan *base, falt_text *text) {
  const falt_tile_plan *plan = (const falt_tile_plan *)base;
  const falt_tile *t = &plan->tile;
  falt_text_add(text, "(%s ", base->solver->name);
  if (plan->problem.terms > 0) falt_text_add(text, "rank=%d ", plan->problem.terms);
  falt_text_add(text, "%dx%dx%d%s block=%dx%d vectors=%d,%d%s)", t->planes, t->rows, t->width,
                t->linear ? " linear" : "", t->block[0], t->block[1], t->x_vector, t->y_vector,
                plan->wide ? " f64" : "");
}

static void destroy(falt_plan *base) {
  falt_free(base);
}

/* ---- the problem as the kernel sees it */

/* The axes of the problem behind planes, rows and columns; -1: none. */
static void order_axes(const falt_problem *p, int axis[3]) {
  const bool flat = p->filter.size[FALT_D] == 1 && p->output.size[FALT_D] == 1 && p->input.size[FALT_D] == 1;
  axis[PLANE] = flat ? -1 : 0;
  axis[ROW] = 1;
  axis[COLUMN] = 2;
}

void falt_tile_taps(const falt_problem *p, int taps[3]) {
  for (int i = 0; i < 3; i++) taps[i] = (int)p->filter.size[FALT_D + i];
}

static void set_args(falt_tile_plan *plan) {
  const falt_problem *p = &plan->base.problem;
  const falt_tensor *x = &p->input, *y = &p->output;
  const falt_tile_problem *tiles = &plan->problem;
  const bool planar = tiles->pixel == 1;
  plan->args = (falt_cuda_tile_args){
      .x_plane = falt_cuda_stride_along(x, PLANE),
      .x_row = falt_cuda_stride_along(x, ROW),
      .x_batch = {falt_cuda_batch_stride(x, FALT_N), planar ? falt_cuda_batch_stride(x, FALT_G) : 0},
      .y_plane = falt_cuda_stride_along(y, PLANE),
      .y_row = falt_cuda_stride_along(y, ROW),
      .y_batch = {falt_cuda_batch_stride(y, FALT_N), planar ? falt_cuda_batch_stride(y, FALT_G) : 0},
      .in = {(int)tiles->in[PLANE], (int)tiles->in[ROW], (int)tiles->in[COLUMN]},
      .out = {(int)tiles->out[PLANE], (int)tiles->out[ROW], (int)tiles->out[COLUMN]},
      .batch = (int)(planar ? x->size[FALT_G] : 1),
      .alpha = p->alpha,
      .beta = p->beta,
      .fill = p->boundary_value};
}

/* Elements that the first one and all rows are aligned to. */
static int alignment(const falt_tensor *t) {
  const int64_t batch[] = {falt_cuda_batch_stride(t, FALT_N), falt_cuda_batch_stride(t, FALT_G)};
  const bool side_by_side = t->stride[FALT_G] == 1;
  const int64_t outer[] = {batch[0], side_by_side ? 0 : batch[1]};
  int align = falt_cuda_alignment(falt_cuda_stride_along(t, ROW), falt_cuda_stride_along(t, PLANE), outer);
  while (t->offset % align) align /= 2;
  return align;
}

static void set_problem(falt_tile_plan *plan, int terms) {
  const falt_problem *p = &plan->base.problem;
  const int64_t channels = p->input.size[FALT_G];
  const int pixel = falt_cuda_interleaved(p) ? (int)channels : 1;
  plan->problem = (falt_tile_problem){
      .terms = terms,
      .batch = p->input.size[FALT_N] * (pixel == 1 ? channels : 1),
      .pixel = pixel,
      .x_bytes = (int)falt_type_size(p->input.type),
      .y_bytes = (int)falt_type_size(p->output.type),
      .sum_bytes = plan->wide ? 8 : 4,
      .converts = p->input.type != (plan->wide ? FALT_F64 : FALT_F32),
      .x_align = alignment(&p->input),
      .y_align = alignment(&p->output),
  };
  falt_tile_taps(p, plan->problem.taps);
  for (int i = 0; i < 3; i++) {
    plan->problem.pad[i] = (int)p->axis[i].pad[0];
    plan->problem.in[i] = p->input.size[FALT_D + i] * (i == COLUMN ? pixel : 1);
    plan->problem.out[i] = p->output.size[FALT_D + i] * (i == COLUMN ? pixel : 1);
  }
}

/* ---- ready */

/* The constant beyond the edges must be a number like the elements. */
static bool tiny(const falt_tile_plan *plan) {
  const falt_problem *p = &plan->base.problem;
  if (plan->wide || (p->input.type != FALT_U8 && p->input.type != FALT_U16)) return false;
  return p->boundary_value == rint(p->boundary_value) && fabs(p->boundary_value) < 0x1p20;
}

/* Whether a boundary reaches beyond one more length of an axis. */
static bool reaches_far(const falt_tile_problem *p) {
  for (int i = 0; i < 3; i++) {
    const int64_t size = p->in[i] / (i == COLUMN ? p->pixel : 1), out = p->out[i] / (i == COLUMN ? p->pixel : 1);
    if (p->pad[i] >= size || out + p->taps[i] - 1 - p->pad[i] >= 2 * size) return true;
  }
  return false;
}

static falt_status ready(falt_plan *base) {
  falt_tile_plan *plan = (falt_tile_plan *)base;
  const falt_problem *p = &base->problem;
  const falt_tile *t = &plan->tile;
  falt_cuda_kernel kernel = {.source = "tile.cu", .entry = "falt_tile"};
  int axis[3];
  order_axes(p, axis);
  for (int i = 0; i < 3; i++) falt_cuda_axis_holes(&kernel, p, "TRS"[i], axis[i]);
  falt_cuda_hole(&kernel, "FAR=%d", reaches_far(&plan->problem));
  falt_cuda_hole(&kernel, "PIXEL=%d", plan->problem.pixel);
  falt_cuda_hole(&kernel, "ELEMENT_X=%s", falt_cuda_element(p->input.type));
  falt_cuda_hole(&kernel, "ELEMENT_Y=%s", falt_cuda_element(p->output.type));
  falt_cuda_hole(&kernel, "TYPE_X=%d", (int)p->input.type);
  falt_cuda_hole(&kernel, "TYPE_Y=%d", (int)p->output.type);
  falt_cuda_hole(&kernel, "SUM=%s", plan->wide ? "double" : "float");
  falt_cuda_hole(&kernel, "TINY=%d", tiny(plan));
  falt_cuda_hole(&kernel, "TERMS=%d", plan->problem.terms);
  falt_cuda_hole(&kernel, "THREAD=%d", t->width);
  falt_cuda_hole(&kernel, "ROWS=%d", t->rows);
  falt_cuda_hole(&kernel, "PLANES=%d", t->planes);
  falt_cuda_hole(&kernel, "VECTOR_X=%d", t->x_vector);
  falt_cuda_hole(&kernel, "VECTOR_Y=%d", t->y_vector);
  falt_cuda_hole(&kernel, "BLOCK_X=%d", t->block[0]);
  falt_cuda_hole(&kernel, "BLOCK_Y=%d", t->block[1]);
  falt_cuda_hole(&kernel, "BLOCKS=%d", t->blocks);
  falt_cuda_hole(&kernel, "LINEAR=%d", t->linear);
  falt_cuda_hole(&kernel, "SCALED=%d", plan->scaled);
  return falt_gpu_kernel(base->device->gpu, &kernel, &plan->function);
}

/* ---- plan */

/* Blocks are numbered in 31 bits, threads of the frame in 32. */
static bool few_blocks(const falt_tile_plan *plan) {
  const falt_tile_problem *p = &plan->problem;
  const double results = (double)p->out[PLANE] * (double)p->out[ROW] * (double)p->out[COLUMN];
  return results / plan->tile.width < 0x1p30 && results * (double)p->batch / plan->tile.width / 128 < 0x1p30;
}

static const char *choose(falt_tile_plan *plan) {
  const falt_tile_problem *p = &plan->problem;
  const falt_tile_machine machine = {falt_gpu_about(plan->base.device->gpu)->multiprocessors,
                                     plan->base.device->limits.copy_bytes_per_s, plan->base.device->limits.f32_flops};
  const double whole = (double)p->taps[0] * p->taps[1] * p->taps[2];
  const double count = p->terms ? (double)p->terms * (p->taps[0] + p->taps[1] + p->taps[2]) : whole;
  if (count * p->sum_bytes > FALT_CUDA_TAP_BYTES) return "it has more taps than the constant bank holds";
  if (!falt_tiles_choose(p, &machine, &plan->tile)) return plan->tile.rejected;
  return few_blocks(plan) ? NULL : "the image has more blocks than one launch can number";
}

falt_tile_plan *falt_tile_plan_new(const falt_solver *solver, falt_ask *ask, int terms) {
  static const falt_plan_table table = {execute, print, destroy, ready};
  falt_tile_plan *plan = falt_plan_new(sizeof *plan, &table, solver, ask);
  if (!plan) return NULL;
  plan->wide = falt_cuda_needs_double(ask->problem);
  set_problem(plan, terms);
  set_args(plan);
  const char *why = choose(plan);
  if (why) {
    falt_free(plan);
    falt_refuse(ask, "%s", why);
    return NULL;
  }
  plan->base.packed = true;
  plan->base.cost.seconds = 2e-6 + plan->tile.seconds;
  return plan;
}

static double largest_of(const double *values, int count) {
  double largest = 0;
  for (int i = 0; i < count; i++) largest = fmax(largest, fabs(values[i]));
  return largest;
}

/* Bounds the taps that meet elements and, for separable terms, what the frame's threads make of them: sums of products
 * of three. */
static double tap_bound(const falt_tile_problem *p, const double *values) {
  const int *taps = p->taps;
  double bound = 0;
  if (p->terms == 0) return largest_of(values, taps[0] * taps[1] * taps[2]);
  for (int k = 0; k < p->terms; k++, values += taps[0] + taps[1] + taps[2]) {
    const double planes = largest_of(values, taps[0]), rows = largest_of(values + taps[0], taps[1]);
    bound = fmax(bound, fmax(1, planes * rows) * largest_of(values + taps[0] + taps[1], taps[2]));
  }
  return bound * p->terms;
}

/* Whether tap `at` is multiplied with elements: one of the whole filter, or of a term along the columns. */
static bool meets_elements(const falt_tile_problem *p, int at) {
  const int across = p->taps[PLANE] + p->taps[ROW];
  return p->terms == 0 || at % (across + p->taps[COLUMN]) >= across;
}

void falt_tile_pack(falt_tile_plan *plan, const double *values) {
  enum { MOST = 126, U8_BITS = 133, U16_BITS = 141 }; /* of a float's exponent; see tile.cu for the elements' */
  const falt_tile_problem *p = &plan->problem;
  const int count = p->terms ? p->terms * (p->taps[0] + p->taps[1] + p->taps[2]) : p->taps[0] * p->taps[1] * p->taps[2];
  float *narrow = (float *)(void *)plan->values;
  const double bound = tap_bound(p, values);
  int exponent = 0, up = 0;
  if (tiny(plan)) {
    if (isfinite(bound)) frexp(bound, &exponent);
    up = MOST - exponent;
    const int down = p->x_bytes == 1 ? U8_BITS : U16_BITS;
    plan->args.alpha = ldexp(plan->args.alpha, down - up);
    plan->args.fill = ldexp(plan->args.fill, -down);
  }
  for (int i = 0; i < count; i++) {
    const double value = meets_elements(p, i) ? ldexp(values[i], up) : values[i];
    if (plan->wide)
      plan->values[i] = value;
    else
      narrow[i] = (float)value;
  }
  plan->scaled = plan->args.alpha != 1 || plan->args.beta != 0;
}
