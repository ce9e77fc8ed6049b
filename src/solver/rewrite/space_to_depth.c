/* Solver space-to-depth: layers with adjacent patches, strides equal to the filter's size and no padding, NHWC, as in
 * the first layer of a vision transformer. A patch row becomes one pixel of many channels, a view of the same memory:
 *
 *     y[n, i, j, k] = sum over r, (s, c) of x'[(n, i), r, j, (s, c)] * w'[k, r, (s, c)]
 *
 * The planner plans the new layer, of one column of taps. Of volumes only the columns must be patches: planes and rows
 * stay as they are. Wgrad is the wgrad of the new layer. */
#include "planner/planner.h"

/* ---- execute */

static void execute(const falt_plan *base, const falt_operands *o) {
  falt_plan_run(((const falt_parent *)base)->child, o);
}

static void print(const falt_plan *base, falt_text *text) {
  falt_text_add(text, "(space-to-depth ");
  falt_parent_print(base, text);
}

/* ---- applicable */

/* Whether the patches cover the axis, each pixel once. */
static bool covers(const falt_problem *p, int axis) {
  const falt_axis *a = &p->axis[axis];
  const int64_t taps = p->filter.size[FALT_D + axis];
  return a->stride == taps && (a->dilation == 1 || taps == 1) && a->pad[0] == 0 &&
         p->input.size[FALT_D + axis] == taps * p->output.size[FALT_D + axis];
}

/* Whether `outer` continues at the end of `inner`, so that both form one dimension. */
static bool joins(const falt_tensor *t, int outer, int inner) {
  return t->size[outer] == 1 || t->size[inner] == 1 || t->stride[outer] == t->size[inner] * t->stride[inner];
}

static bool is_volume(const falt_problem *p) {
  return p->filter.size[FALT_D] != 1 || p->input.size[FALT_D] != 1;
}

/* Whether rows of patches can be images. */
static bool joins_images(const falt_problem *p) {
  return joins(&p->input, FALT_N, FALT_H) && joins(&p->output, FALT_N, FALT_H) &&
         (!p->has_residual || joins(&p->residual, FALT_N, FALT_H));
}

static const char *inapplicable(const falt_ask *ask) {
  const falt_problem *p = ask->problem;
  return p->operation != FALT_FORWARD && p->operation != FALT_BACKWARD_FILTER ? "it computes fprop and wgrad only"
         : p->filter.size[FALT_W] == 1                                        ? "patches are not wider than a pixel"
         : p->filter.size[FALT_G] != 1                                        ? "it takes one group of channels"
         : !covers(p, 2) || (!is_volume(p) && !covers(p, 1)) ? "windows are not patches that cover the input"
         : !joins(&p->input, FALT_W, FALT_C) || !joins(&p->filter, FALT_W, FALT_C)
             ? "channels of neighbouring pixels do not follow on each other"
         : !is_volume(p) && !joins_images(p) ? "rows of neighbouring images do not follow on each other"
                                             : NULL;
}

/* ---- plan */

/* `taps` neighbouring pixels of a row as one. */
static void join_pixels(falt_tensor *t, int64_t taps) {
  if (t->size[FALT_C] == 1) t->stride[FALT_C] = t->stride[FALT_W];
  t->size[FALT_C] *= taps;
  t->size[FALT_W] /= taps;
  t->stride[FALT_W] *= taps;
}

/* Images are rows of patches, with the rows of a patch each. */
static void join_images(falt_tensor *t, int64_t rows) {
  if (t->size[FALT_H] > rows) t->stride[FALT_N] = t->stride[FALT_H] * rows;
  t->size[FALT_N] *= t->size[FALT_H] / rows;
  t->size[FALT_H] = rows;
}

static falt_problem seen(const falt_problem *p) {
  falt_problem child = *p;
  join_pixels(&child.input, p->filter.size[FALT_W]);
  join_pixels(&child.filter, p->filter.size[FALT_W]);
  child.axis[2] = (falt_axis){.stride = 1, .dilation = 1};
  if (!is_volume(p)) {
    join_images(&child.input, p->filter.size[FALT_H]);
    join_images(&child.output, 1);
    if (p->has_residual) join_images(&child.residual, 1);
    child.axis[1] = child.axis[2];
  }
  falt_problem_canonical(&child);
  return child;
}

static const char *choose(falt_plan *base, falt_ask *ask) {
  const falt_problem child = seen(ask->problem);
  return falt_parent_adopt((falt_parent *)base, ask, &child, ask->filter_values);
}

static const falt_plan_steps steps = {
    sizeof(falt_parent), {execute, print, falt_parent_destroy, falt_parent_ready}, inapplicable, choose};

extern const falt_solver falt_solver_space_to_depth;
const falt_solver falt_solver_space_to_depth = {
    .name = "space-to-depth", .device_kind = "cuda", .plan = falt_plan_make, .steps = &steps};
