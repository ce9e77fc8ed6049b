/* Skips taps outside the input, whose products are zero if the constant is zero. */
#ifndef FALT_SOLVER_CPU_COMMON_LAYER_INSIDE_H
#define FALT_SOLVER_CPU_COMMON_LAYER_INSIDE_H

#include "solver/cpu/common/layer.h"

/* Along each axis the inside taps of a position are neighbours, so each position has a box of taps. Positions are
 * ordered such that neighbours have equal boxes or boxes that differ along one axis. The order is cut into kernel
 * calls; a call sums the taps of the hull of its positions' boxes. */

/* Taps [begin, end) of an axis; none if begin >= end. */
typedef struct falt_span {
  int32_t begin, end;
} falt_span;

typedef struct falt_box {
  falt_span axis[3];
} falt_box;

enum { FALT_INSIDE_CLASSES = 32 };

/* The positions of a row that have equal spans of taps: class i is [edges[i], edges[i + 1]). */
typedef struct falt_inside {
  int classes;
  int64_t edges[FALT_INSIDE_CLASSES + 1];
  falt_span spans[FALT_INSIDE_CLASSES];
} falt_inside;

/* A call of a kernel: positions [begin, begin + count) of the order, and the taps that it sums. */
typedef struct falt_inside_call {
  int64_t begin, count, cost;
  falt_box taps;
} falt_inside_call;

/* Fraction of all pairs of a position and a tap that are inside, or 1 if those outside must be multiplied. */
double falt_inside_share(const falt_layer *layer);

void falt_inside_init(falt_inside *inside, const falt_layer *layer);

typedef void (*falt_inside_take)(void *context, const falt_layer_point *at, int64_t count, const falt_box *taps);

/* Hands on positions [first, first + count) in their order, in runs of one row. */
void falt_inside_walk(const falt_inside *inside, const falt_layer *layer, int64_t first, int64_t count,
                      falt_inside_take take, void *context);

/* Cuts positions, whose boxes are given in order, into calls of `most` rows; returns the number of calls. `calls` has
 * room for one more than there are positions. */
int64_t falt_inside_cut(const falt_box *boxes, int64_t positions, int64_t most, falt_inside_call *calls);

/* Lists the taps of a box in their order, as numbers over (t, r, s); returns how many. */
int64_t falt_inside_list(const falt_layer *layer, const falt_box *taps, int32_t *list);

#endif
