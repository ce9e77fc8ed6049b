/* The problems of separable_passes.c. A pass continues its input by its axis's own boundary, which commutes with the
 * passes along the other axes. Only a constant changes: it is multiplied by the sum of the previous passes' taps.
 * Where this differs from term to term, or is not known, the first passes also compute the rows beyond the ends that
 * later passes read. */
#include "solver/rewrite/separable_passes.h"

falt_type falt_passes_type(const falt_problem *p) {
  return falt_type_real(p->accumulator);
}

int falt_passes_axes(const falt_problem *p, int axis[FALT_MOST_PASSES]) {
  int count = 0;
  for (int a = 2; a >= 0; a--)
    if (p->filter.size[FALT_D + a] > 1) axis[count++] = a;
  return count;
}

/* ---- factors */

int64_t falt_passes_factor(const falt_problem *p, int axis) {
  int64_t at = 0;
  for (int before = 0; before < axis; before++) at += p->filter.size[FALT_D + before];
  return at;
}

int64_t falt_passes_term(const falt_problem *p) {
  return falt_passes_factor(p, 3);
}

void falt_passes_values(const falt_problem *p, const void *values, void *out) {
  int axis[FALT_MOST_PASSES];
  const falt_type type = falt_passes_type(p);
  const int first = falt_passes_axes(p, axis) ? axis[0] : 2;
  falt_factor_values(p, values, type, out);
  for (int term = 0; term < p->factors; term++) {
    double number = 1;
    for (int a = 0; a < 3; a++)
      if (a != first && p->filter.size[FALT_D + a] == 1) number *= falt_factor_value(p, values, term, a, 0);
    const int64_t at = term * falt_passes_term(p) + falt_passes_factor(p, first);
    for (int64_t j = 0; j < p->filter.size[FALT_D + first]; j++)
      falt_store(out, type, at + j, number * falt_factor_value(p, values, term, first, j));
  }
}

/* By what a constant grows in the pass along an axis. */
static double sum_along(const falt_problem *p, const void *values, int axis, bool first) {
  double sum = 0, number = 1;
  for (int64_t j = 0; j < p->filter.size[FALT_D + axis]; j++) sum += falt_factor_value(p, values, 0, axis, j);
  for (int a = 0; a < 3 && first; a++)
    if (a != axis && p->filter.size[FALT_D + a] == 1) number *= falt_factor_value(p, values, 0, a, 0);
  return sum * number;
}

/* ---- tensors between passes */

/* Dimensions from the fastest: channels stay contiguous where they are. */
static const int *order_of(const falt_problem *p) {
  static const int planes[] = {FALT_W, FALT_H, FALT_D, FALT_C, FALT_G, FALT_N},
                   pixels[] = {FALT_G, FALT_W, FALT_H, FALT_D, FALT_C, FALT_N};
  return p->input.size[FALT_G] > 1 && p->input.stride[FALT_G] == 1 ? pixels : planes;
}

static void lay_densely(falt_tensor *t, const falt_problem *p) {
  falt_tensor_order(t, order_of(p));
  t->type = falt_passes_type(p);
}

static void drop_epilogue(falt_problem *p) {
  p->has_scale = p->has_bias = p->has_residual = false;
  p->activation = FALT_IDENTITY;
  p->alpha = 1;
  p->beta = p->act_a = p->act_b = 0;
}

/* ---- passes of one term */

static const falt_axis untouched = {.stride = 1, .dilation = 1};

/* Rows of the input that the results of an axis read, from -pad on. */
static int64_t reach(const falt_problem *p, int axis) {
  const falt_axis *a = &p->axis[axis];
  return (p->output.size[FALT_D + axis] - 1) * a->stride + falt_extent(a, p->filter.size[FALT_D + axis]);
}

/* An axis along which pass i goes, which finds all that it reads if the pass before it has extended its results. */
static falt_axis own_axis(const falt_passes *passes, const falt_problem *p, int i, int a) {
  falt_axis axis = p->axis[a];
  if (i > 0 && passes->extends) {
    axis.pad[0] = axis.pad[1] = 0;
    axis.boundary[0] = axis.boundary[1] = FALT_CONSTANT;
  }
  return axis;
}

/* Makes all rows that a later pass reads. */
static void extend(falt_problem *pass, const falt_problem *p, int axis) {
  const int64_t rows = reach(p, axis), pad = p->axis[axis].pad[0];
  pass->axis[axis] = (falt_axis){.stride = 1,
                                 .dilation = 1,
                                 .pad = {pad, rows - pad - p->input.size[FALT_D + axis]},
                                 .boundary = {p->axis[axis].boundary[0], p->axis[axis].boundary[1]}};
  pass->output.size[FALT_D + axis] = rows;
}

static void set_filter(falt_problem *pass, const falt_problem *p, int axis) {
  pass->rank = pass->factors = 0;
  pass->filter.type = falt_passes_type(p);
  pass->filter.offset = 0;
  for (int dim = 0; dim < FALT_DIMS; dim++) pass->filter.stride[dim] = 0;
  for (int a = 0; a < 3; a++)
    if (a != axis) pass->filter.size[FALT_D + a] = 1;
  pass->filter.stride[FALT_D + axis] = 1;
}

/* Adds the height to the filter of a pass along the width. */
static void add_height(falt_problem *pass, const falt_problem *p) {
  pass->filter.size[FALT_H] = p->filter.size[FALT_H];
  pass->filter.stride[FALT_H] = p->filter.size[FALT_W];
  pass->rank = 1;
}

/* Pass i from `input` into memory between passes, or to the end. The first takes the axes of one tap, too. */
static void make_pass(falt_passes *passes, const falt_problem *p, const falt_tensor *input, int i, double value) {
  falt_problem *pass = &passes->pass[i];
  const int axis = passes->axis[i], other = passes->paired && i == 0 ? 1 : axis;
  *pass = *p;
  pass->input = *input;
  pass->boundary_value = value;
  set_filter(pass, p, axis);
  if (other != axis) add_height(pass, p);
  for (int a = 0; a < 3; a++) {
    const bool tapped = p->filter.size[FALT_D + a] > 1;
    if (a == axis || a == other)
      pass->axis[a] = own_axis(passes, p, i, a);
    else if (tapped && i == 0 && passes->extends)
      extend(pass, p, a);
    else if (tapped || i > 0)
      pass->axis[a] = untouched, pass->output.size[FALT_D + a] = input->size[FALT_D + a];
  }
  if (i + 1 == passes->count) return;
  lay_densely(&pass->output, p);
  drop_epilogue(pass);
}

/* ---- the sum over the terms */

/* Dimensions that are one. */
typedef struct run {
  int64_t size, from, to; /* elements, and their strides in two tensors */
} run;

/* Joins dimensions, the fastest first, into at most `most` runs of both tensors. */
static bool join(const falt_tensor *from, const falt_tensor *to, const int *dims, int count, int most, run *runs) {
  int used = 0;
  for (int i = 0; i < most; i++) runs[i] = (run){1, 0, 0};
  for (int i = 0; i < count; i++) {
    const int dim = dims[i];
    run *last = used ? &runs[used - 1] : NULL;
    if (to->size[dim] == 1) continue;
    if (last && to->stride[dim] == last->size * last->to && from->stride[dim] == last->size * last->from)
      last->size *= to->size[dim];
    else if (used == most)
      return false;
    else
      runs[used++] = (run){to->size[dim], from->stride[dim], to->stride[dim]};
  }
  return true;
}

/* The sum as a filter of M x R x 1 taps over planes that are terms: out of results of one term like `from` into `to`.
 * False if their other dimensions are not one on the inside and two on the outside. */
static bool place_sum(falt_problem *sum, const falt_problem *p, const falt_tensor *from, const falt_tensor *to,
                      int axis) {
  static const int slots[] = {FALT_W, FALT_G, FALT_N};
  const int *order = order_of(p);
  int inside = 0;
  run runs[3];
  while (order[inside] != FALT_D + axis) inside++;
  if (!join(from, to, order, inside, 1, runs)) return false;
  if (!join(from, to, order + inside + 1, FALT_DIMS - inside - 1, 2, runs + 1)) return false;
  sum->input.size[FALT_C] = sum->output.size[FALT_C] = 1;
  for (int i = 0; i < 3; i++) {
    sum->input.size[slots[i]] = sum->output.size[slots[i]] = runs[i].size;
    sum->input.stride[slots[i]] = runs[i].from;
    sum->output.stride[slots[i]] = runs[i].to;
  }
  sum->filter.size[FALT_G] = sum->input.size[FALT_G];
  sum->input.size[FALT_H] = from->size[FALT_D + axis];
  sum->input.stride[FALT_H] = from->stride[FALT_D + axis];
  sum->output.size[FALT_H] = to->size[FALT_D + axis];
  sum->output.stride[FALT_H] = to->stride[FALT_D + axis];
  sum->input.size[FALT_D] = p->factors;
  sum->input.stride[FALT_D] = falt_tensor_count(from);
  sum->output.size[FALT_D] = 1;
  sum->output.offset = to->offset;
  sum->output.type = to->type;
  return true;
}

static bool has_vectors(const falt_problem *p) {
  return p->has_scale || p->has_bias || p->has_residual;
}

/* Copies the sums to the output, as a filter of one tap. */
static void make_finish(falt_passes *passes, const falt_problem *p, const falt_tensor *sums) {
  falt_problem *finish = &passes->finish;
  *finish = *p;
  finish->input = *sums;
  set_filter(finish, p, 2);
  finish->filter.size[FALT_W] = 1;
  for (int a = 0; a < 3; a++) finish->axis[a] = untouched;
  falt_problem_canonical(finish);
  passes->finishes = true;
}

static void make_sum(falt_passes *passes, const falt_problem *p) {
  const int axis = passes->axis[passes->count - 1];
  const falt_tensor *from = &passes->pass[passes->count - 2].output;
  falt_problem *sum = &passes->pass[passes->count - 1];
  falt_tensor dense = p->output;
  *sum = *p;
  sum->input = *from;
  set_filter(sum, p, 1);
  sum->space = 3;
  sum->boundary_value = 0;
  sum->filter.size[FALT_D] = p->factors;
  sum->filter.size[FALT_H] = p->filter.size[FALT_D + axis];
  sum->filter.stride[FALT_D] = falt_passes_term(p);
  sum->axis[0] = sum->axis[2] = untouched;
  sum->axis[1] = own_axis(passes, p, passes->count - 1, axis);
  if (has_vectors(p) || !place_sum(sum, p, from, &p->output, axis)) {
    lay_densely(&dense, p);
    place_sum(sum, p, from, &dense, axis); /* dense tensors of one order join */
    drop_epilogue(sum);
    make_finish(passes, p, &dense);
  }
  falt_problem_canonical(sum);
}

/* ---- all of them */

static bool meets_constant(const falt_problem *p) {
  bool meets = false;
  for (int a = 0; a < 3; a++)
    for (int side = 0; side < 2; side++)
      meets |= p->filter.size[FALT_D + a] > 1 && p->axis[a].boundary[side] == FALT_CONSTANT;
  return meets && p->boundary_value != 0;
}

/* By what a constant grows in pass i. */
static double growth(const falt_passes *passes, const falt_problem *p, const void *values, int i) {
  const double sum = sum_along(p, values, passes->axis[i], i == 0);
  return passes->paired && i == 0 ? sum * sum_along(p, values, 1, false) : sum;
}

void falt_passes_make(falt_passes *passes, const falt_problem *p, const void *values, bool pair) {
  const falt_tensor *input = &p->input;
  double value = p->boundary_value;
  *passes = (falt_passes){.extends = meets_constant(p) && (p->factors > 1 || !values)};
  passes->count = falt_passes_axes(p, passes->axis);
  passes->paired = pair;
  if (pair) passes->axis[1] = passes->axis[--passes->count];
  for (int i = 0; i < passes->count; i++) {
    if (p->factors > 1 && i + 1 == passes->count) {
      make_sum(passes, p);
      return;
    }
    make_pass(passes, p, input, i, value);
    input = &passes->pass[i].output;
    if (i + 1 < passes->count) passes->apart = falt_tensor_count(input);
    value = values && !passes->extends ? value * growth(passes, p, values, i) : 0;
  }
}
