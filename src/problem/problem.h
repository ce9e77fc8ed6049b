/* Internal view of problems: boundaries as index maps, sizes, work. Knows no device and no algorithm. */
#ifndef FALT_PROBLEM_PROBLEM_H
#define FALT_PROBLEM_PROBLEM_H

#include "core/memory.h"
#include "core/status.h"
#include "core/text.h"
#include "core/types.h"
#include "problem/operation.h"

/* Filter extent with its gaps: dilation*(taps - 1) + 1. */
static inline int64_t falt_extent(const falt_axis *axis, int64_t taps) {
  return axis->dilation * (taps - 1) + 1;
}

/* Position u on an axis of `size` elements, continued by the axis's boundary: the index in [0, size) of its element, or
 * -1 for the constant. Works for any u; on an axis of one element reflect101 behaves as edge. */
int64_t falt_axis_map(const falt_axis *axis, int64_t size, int64_t u);

/* The longest affine piece of that map: positions [u, u + n) map to falt_axis_map(u) + slope*k, k < n. Returns n and
 * sets *slope to 1, 0 or -1: 0 where all of them map to one element, or to the constant. O(1). */
int64_t falt_axis_piece(const falt_axis *axis, int64_t size, int64_t u, int *slope);

/* The inverse: positions u in [low, high] with falt_axis_map(u) == i, in rising order. Start with *u = low - 1 and call
 * until it returns false. Used where gradients gather. */
bool falt_axis_preimage(const falt_axis *axis, int64_t size, int64_t i, int64_t low, int64_t high, int64_t *u);

/* Outputs [*begin, *end) along one axis whose window is wholly inside the input. */
void falt_axis_interior(const falt_axis *axis, int64_t in, int64_t taps, int64_t out, int64_t *begin, int64_t *end);

/* The fraction of all pairs of a tap and an output that are inside the input. O(log) of the sizes. */
double falt_axis_inside(const falt_axis *axis, int64_t in, int64_t taps, int64_t out);

/* Distance between taps of an axis that read the same inputs: stride / gcd(stride, dilation). */
int64_t falt_axis_tap_step(const falt_axis *axis);

/* Whether windows extend beyond an end whose boundary is not constant, so that gradients of those positions are added
 * to inputs inside. */
bool falt_problem_folds(const falt_problem *problem);
bool falt_problem_axis_folds(const falt_problem *problem, int axis);
/* Whether an axis is a circle of as many outputs as inputs, so that its gradient is a circular filter, too. */
bool falt_problem_axis_is_circular(const falt_problem *problem, int axis);

/* The taps of a filter's group, dense in T, R, S order, as f32 or f64. `values` is the filter in host memory. */
void falt_problem_taps(const falt_problem *problem, const void *values, int64_t group, falt_type type, void *taps);

/* Of a problem with factors: the value of a term at a tap of an axis (0: depth), in the order of a correlation, and all
 * of them, factors x (T + R + S). */
double falt_factor_value(const falt_problem *problem, const void *values, int term, int axis, int64_t tap);
void falt_factor_values(const falt_problem *problem, const void *values, falt_type type, void *out);
/* The dense tap that they stand for, and all of them, dense in T, R, S order. */
double falt_factors_tap(const falt_problem *problem, const void *values, int64_t t, int64_t r, int64_t s);
void falt_factors_expand(const falt_problem *problem, const void *values, falt_type type, void *taps);

/* Elements of a tensor (product of sizes). */
int64_t falt_tensor_count(const falt_tensor *tensor);
/* Bytes of its elements, for estimates. */
double falt_tensor_bytes(const falt_tensor *tensor);
/* Makes a tensor dense, with its dimensions in this order from the contiguous one outwards. */
void falt_tensor_order(falt_tensor *tensor, const int outwards[FALT_DIMS]);
/* Elements between consecutive taps, or 0 if they are not equally spaced. */
int64_t falt_tensor_tap_step(const falt_tensor *filter);
/* Whether neighbours along dimension `dim` are adjacent in memory. */
static inline bool falt_tensor_unit(const falt_tensor *t, int dim) {
  return t->stride[dim] == 1 || t->size[dim] == 1;
}
/* Offset that puts the lowest element at data[0]. Strides must be within limits. */
int64_t falt_tensor_lowest_offset(const falt_tensor *tensor);
/* Element index of a logical position. */
static inline int64_t falt_tensor_at(const falt_tensor *t, int64_t n, int64_t g, int64_t c, int64_t d, int64_t h,
                                     int64_t w) {
  return t->offset + n * t->stride[0] + g * t->stride[1] + c * t->stride[2] + d * t->stride[3] + h * t->stride[4] +
         w * t->stride[5];
}

/* *problem with filter_when as a pointer to the filter's values at planning decides: known if there is one. */
falt_problem falt_problem_planned(const falt_problem *problem, const void *filter_values);
/* Checks that the pointer and the problem's word agree; the message names the remedy. */
falt_status falt_problem_check_values(const falt_problem *problem, const void *filter_values);

/* Sets every field without effect to its default: strides along dimensions of size 1, the residual if there is none, a
 * filter's pad[1], the constant that no boundary uses. For legal problems only. A parsed problem is canonical. */
void falt_problem_canonical(falt_problem *problem);
/* Whether all fields are equal (bytes of the struct are not: it has padding). Compare canonical problems. */
bool falt_problem_equal(const falt_problem *a, const falt_problem *b);
/* A tensor as a filter over the last `space` axes sees it: all channels as groups, leading axes as batch.
 * FALT_INVALID_SHAPE where their strides do not allow it. */
falt_status falt_tensor_filter_view(falt_tensor *tensor, int space);

/* Whether results are the largest of several. */
bool falt_problem_pools(const falt_problem *problem);
/* Whether alpha, beta, scale, bias, residual and activation all do nothing. */
bool falt_epilogue_is_identity(const falt_problem *problem);
/* activation of one value, as the reference defines it. */
double falt_activate(const falt_problem *problem, double value);

/* Work as the problem counts it. */
double falt_problem_flops(const falt_problem *problem); /* multiply-adds as two, padding counted */
double falt_problem_bytes(const falt_problem *problem); /* each operand once */
/* Length of the longest sum behind one result. */
int64_t falt_problem_depth(const falt_problem *problem);
/* Bound of any partial sum of an integer problem; infinite where a factor is not an integer. */
double falt_problem_sum_bound(const falt_problem *problem);

/* Names in the order of their enumerations. */
extern const char *const falt_boundary_names[FALT_BOUNDARY_COUNT];
extern const char *const falt_activation_names[FALT_ACTIVATION_COUNT];
extern const char *const falt_filter_when_names[FALT_FILTER_KNOWN]; /* from FALT_FILTER_GIVEN on */

#endif
