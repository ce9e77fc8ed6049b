/* Applies a sum of separable terms in one pass over the image: a filter f x g x h (factor.h) along z, then y, then
 * x, with only a few rows in a cache between the passes. */
#ifndef FALT_SOLVER_CPU_FILTER_SEPARABLE_ROWS_H
#define FALT_SOLVER_CPU_FILTER_SEPARABLE_ROWS_H

#include "solver/common/factor.h"
#include "solver/cpu/common/rows.h"
#include "solver/cpu/filter/filter_along.h"

/* For `lines` output rows of a strip:
 *
 *   along z   `planes` output planes at a time: rows of T planes -> one row of a ring over y for each plane
 *   along y   R rows (of the input, or of the ring) -> `lines` rows of columns, as wide as the strip and its halo
 *   along x   those rows -> output, or sums to which the next term is added and that leave by the epilogue
 *
 * Passes along z and y treat each x position alone. So the ghost cells of a row are filled after the first of them,
 * from the pass's results. Only where the strip does not hold the positions that the boundary repeats (wrap, in several
 * strips) are rows converted and extended first. A row outside along y or z is an ordinary row.
 *
 * With a stride in x, tap j needs the positions low + j*dilation + o*stride. Taps j and j + period, with period =
 * stride / gcd(stride, dilation), read the same positions, shifted. So a row has `period` pieces of every stride-th
 * position, and no sum is computed in vain. */
typedef struct falt_separable {
  falt_rows rows;
  falt_factors factors;
  char *taps;                 /* of the lane's type, in the order of factors.taps */
  int64_t planes, lines;      /* outputs along z and y of one pass */
  bool has_z;                 /* whether there is a pass along z */
  bool stream;                /* the output is too large for the caches */
  int64_t period, advance;    /* tap j of x reads piece j % period, shifted by j / period * advance */
  int64_t ring;               /* rows of the ring over y */
  falt_filter_along *along;   /* for the pass along x, or NULL */
  int64_t block[3];           /* outputs of a task */
  falt_memory_layout scratch; /* of a worker: one part, divided for each task */
} falt_separable;

/* Fills everything from rows and factors but block, scratch and stream. False when memory is short. */
bool falt_separable_init(falt_separable *how);
void falt_separable_free(falt_separable *how);

/* Input positions along an axis that `made` neighbouring outputs read, gaps included. */
int64_t falt_separable_span(const falt_rows *rows, int axis, int64_t made);
/* Scratch bytes of the strip that needs most, with the block as it stands. */
size_t falt_separable_scratch(const falt_separable *how);
void falt_separable_run(const falt_separable *how, const falt_device *device, const falt_operands *operands);

#endif
