/* Box filters: all taps along an axis are one number, except that the first and the last may be another (an extended
 * box). Pure mathematics, in double. */
#ifndef FALT_SOLVER_COMMON_BOXES_H
#define FALT_SOLVER_COMMON_BOXES_H

#include "problem/problem.h"

typedef struct falt_box {
  double weight; /* of the taps inside */
  double end[3]; /* the weight of both ends along z, y, x, divided by that of the taps between */
  bool ends[3];  /* end is not 1; the axis then has 5 taps at least */
} falt_box;

/* The box that a known filter is, the same for all groups. Returns NULL, or why the filter is none. Filters that come
 * as factors need one term. Dense filters of several axes may not have other ends. */
const char *falt_box_of(falt_box *box, const falt_problem *problem, const void *values);

/* The largest magnitude of a sum of integers under the window, every tap inside counting one; infinite if sums are not
 * of whole numbers. */
double falt_box_largest_sum(const falt_box *box, const falt_problem *problem);

#endif
