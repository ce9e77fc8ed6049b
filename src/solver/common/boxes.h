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

/* A line of taps as the convolution of `count` equal extended boxes, each of `size` taps: edge, inside, ..., edge. */
typedef struct falt_box_chain {
  int count;
  int64_t size;
  double inside, edge;
} falt_box_chain;

enum { FALT_MOST_BOXES = 6 };

/* Finds 2 to FALT_MOST_BOXES positive boxes of 5 taps or more whose convolution differs from the taps by at most
 * `tolerance` times the sum of these. False if there are none, or memory runs out. */
bool falt_box_chain_find(falt_box_chain *chain, const double *taps, int64_t count, double tolerance);

/* out = the chain's taps: count * (size - 1) + 1 of them. `scratch` holds as many. */
void falt_box_chain_taps(const falt_box_chain *chain, double *out, double *scratch);

#endif
