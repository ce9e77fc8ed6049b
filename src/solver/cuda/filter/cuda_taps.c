/* Filter problems as the kernels with taps in the constant bank see them: three axes (a 2D filter has one plane, a
 * signal one row). Interleaved channels make a row longer and its taps farther apart; planar channels are a batch. */
#include "solver/cuda/filter/cuda_taps.h"

#include <math.h>

#include "core/memory.h"

/* u8 and u16 images need no conversion. Their bits, moved into the high bits of a float's mantissa, are exactly the
 * number times a power of two far below the normal range. The taps are scaled up to compensate. */

enum { PLANE, ROW, COLUMN };

/* ---- the problem as the kernel sees it */

/* The axes of the problem behind planes, rows and columns; -1: none. */
static void order_axes(const falt_problem *p, int axis[3]) {
  const bool flat = p->filter.size[FALT_D] == 1 && p->output.size[FALT_D] == 1 && p->input.size[FALT_D] == 1;
  axis[PLANE] = flat ? -1 : 0;
  axis[ROW] = 1;
  axis[COLUMN] = 2;
}

void falt_taps_along(const falt_problem *p, int taps[3]) {
  for (int i = 0; i < 3; i++) taps[i] = (int)p->filter.size[FALT_D + i];
}

static void set_args(falt_taps_plan *plan) {
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

static void set_problem(falt_taps_plan *plan, int terms) {
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
  falt_taps_along(p, plan->problem.taps);
  for (int i = 0; i < 3; i++) {
    plan->problem.pad[i] = (int)p->axis[i].pad[0];
    plan->problem.stride[i] = p->output.size[FALT_D + i] > 1 ? (int)p->axis[i].stride : 1;
    plan->problem.dilation[i] = p->filter.size[FALT_D + i] > 1 ? (int)p->axis[i].dilation : 1;
    plan->problem.fills |= p->axis[i].boundary[0] == FALT_CONSTANT || p->axis[i].boundary[1] == FALT_CONSTANT;
    plan->problem.in[i] = p->input.size[FALT_D + i] * (i == COLUMN ? pixel : 1);
    plan->problem.out[i] = p->output.size[FALT_D + i] * (i == COLUMN ? pixel : 1);
  }
  const bool narrow = p->input.type == FALT_U8 || p->input.type == FALT_U16;
  plan->problem.tiny = narrow && !plan->wide && (!plan->problem.fills || falt_cuda_holds_fill(p));
}

/* ---- kernels */

void falt_taps_defines(falt_cuda_kernel *kernel, const falt_taps_plan *plan) {
  const falt_problem *p = &plan->base.problem;
  for (int i = 0; i < 3; i++) falt_cuda_axis_defines(kernel, p, "TRS"[i], plan -> axis[i]);
  falt_cuda_define(kernel, "FAR=%d", falt_tile_reaches_far(&plan->problem));
  falt_cuda_define(kernel, "ELEMENT_X=%s", falt_cuda_types[p->input.type].element);
  falt_cuda_define(kernel, "ELEMENT_Y=%s", falt_cuda_types[p->output.type].element);
  falt_cuda_define(kernel, "TYPE_X=%d", (int)p->input.type);
  falt_cuda_define(kernel, "TYPE_Y=%d", (int)p->output.type);
  falt_cuda_define(kernel, "SUM=%s", plan->wide ? "double" : "float");
  falt_cuda_define(kernel, "TINY=%d", plan->problem.tiny);
  falt_cuda_define(kernel, "TERMS=%d", plan->problem.terms);
  falt_cuda_define(kernel, "SCALED=%d", plan->scaled);
}

falt_cuda_tile_args falt_taps_args(const falt_taps_plan *plan, const falt_operands *o, int x_vector, int y_vector) {
  const falt_tensor *x = &plan->base.problem.input, *y = &plan->base.problem.output;
  const int64_t x_bytes = (int64_t)falt_type_size(x->type), y_bytes = (int64_t)falt_type_size(y->type);
  falt_cuda_tile_args args = plan->args;
  args.x = (const char *)o->input + x->offset * x_bytes;
  args.y = (char *)o->output + y->offset * y_bytes;
  args.aligned = (uintptr_t)args.x % (uintptr_t)(x_vector * x_bytes) == 0 &&
                 (uintptr_t)args.y % (uintptr_t)(y_vector * y_bytes) == 0;
  return args;
}

/* ---- plan */

static const char *refusal(const falt_tile_problem *p) {
  const double whole = (double)p->taps[0] * p->taps[1] * p->taps[2];
  const double count = p->terms ? (double)p->terms * (p->taps[0] + p->taps[1] + p->taps[2]) : whole;
  return count * p->sum_bytes > FALT_CUDA_TAP_BYTES ? "it has more taps than the constant bank holds" : NULL;
}

void *falt_taps_plan_drop(falt_taps_plan *plan, falt_ask *ask, const char *why) {
  falt_free(plan);
  return falt_refuse(ask, "%s", why);
}

void *falt_taps_plan_new(size_t size, const falt_plan_table *table, const falt_solver *solver, falt_ask *ask,
                         int terms) {
  falt_taps_plan *plan = falt_plan_new(size, table, solver, ask);
  if (!plan) return NULL;
  plan->wide = falt_problem_has_f64(ask->problem);
  order_axes(ask->problem, plan->axis);
  set_problem(plan, terms);
  set_args(plan);
  const char *why = refusal(&plan->problem);
  if (why) return falt_taps_plan_drop(plan, ask, why);
  plan->base.packed = true;
  return plan;
}

/* ---- taps */

static double largest_of(const double *values, int count) {
  double largest = 0;
  for (int i = 0; i < count; i++) largest = fmax(largest, fabs(values[i]));
  return largest;
}

/* Bounds the taps and, for separable terms, the products of three of them that the frame's threads form. */
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

void falt_taps_pack(falt_taps_plan *plan, const double *values) {
  enum { MOST = 126, U8_BITS = 133, U16_BITS = 141 }; /* of a float's exponent; see elements.cuh for the elements' */
  const falt_tile_problem *p = &plan->problem;
  const int count = p->terms ? p->terms * (p->taps[0] + p->taps[1] + p->taps[2]) : p->taps[0] * p->taps[1] * p->taps[2];
  float *narrow = (float *)(void *)plan->values;
  const double bound = tap_bound(p, values);
  int exponent = 0, up = 0;
  if (plan->problem.tiny) {
    if (isfinite(bound)) frexp(bound, &exponent);
    up = MOST - exponent;
    const int down = p->x_bytes == 1 ? U8_BITS : U16_BITS;
    plan->args.alpha = ldexp(plan->args.alpha, down - up);
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

falt_plan *falt_taps_plan_whole(const falt_solver *solver, falt_ask *ask, falt_taps_cut *cut) {
  const char *why = falt_cuda_filter_refusal(ask);
  if (why) return falt_refuse(ask, "%s", why);
  falt_taps_plan *plan = cut(solver, ask, 0);
  if (!plan) return NULL;
  double taps[FALT_TAPS_MOST];
  falt_problem_taps(ask->problem, ask->filter_values, 0, FALT_F64, taps);
  falt_taps_pack(plan, taps);
  return &plan->base;
}
