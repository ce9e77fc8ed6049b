/* NHWC depthwise layers of few taps: declarations of the solvers that run depthwise_rowtile_kernels.h. */
#ifndef FALT_SOLVER_CPU_DEPTHWISE_DEPTHWISE_ROWTILE_H
#define FALT_SOLVER_CPU_DEPTHWISE_DEPTHWISE_ROWTILE_H

#include "solver/cpu/depthwise/depthwise.h"
#include "solver/cpu/depthwise/depthwise_rowtile_kernels.h"

/* Why x, y and the axes are not what kernels want, or NULL. Of types, only that of x is looked at. */
const char *falt_depthwise_block_refusal(const falt_problem *problem, const falt_block_kernels *kernels);

/* Groups of rows of an image of outputs, a block's rows each, the last perhaps fewer. */
static inline int64_t falt_depthwise_block_groups(const falt_problem *p) {
  return falt_ceil_div(p->output.size[FALT_H], falt_block_rows(p->filter.size[FALT_H]));
}

/* Whole vectors of channels, cut so that the windows of a block stay in half of the second-level cache, into `wanted`
 * blocks at least where there are so many. A last vector that overlaps the one before belongs to the last block. */
falt_layer_pieces falt_depthwise_block_cut(const falt_problem *problem, const falt_device *device,
                                           const falt_block_kernels *kernels, int64_t wanted);

/* The block of a group of all images: shape, rows and lines; vectors from piece `index` of `blocks`. */
falt_block falt_depthwise_block_of(const falt_problem *problem, const falt_block_kernels *kernels,
                                   const falt_layer_pieces *blocks, int64_t index, const void *x, int64_t group);
/* Rows of y that belong to it. */
void falt_depthwise_block_rows(const falt_problem *problem, const void *y, int64_t group,
                               const void *rows[FALT_BLOCK_ROWS]);

/* Multiply-adds' operations, of all lanes and rows, and what narrow operands cost beside. */
double falt_depthwise_block_flops(const falt_problem *problem, const falt_block_kernels *kernels);

#endif
