/* NHWC depthwise layers of few taps: declarations of the solvers that run depthwise_rowtile_kernels.h. */
#ifndef FALT_SOLVER_CPU_DEPTHWISE_DEPTHWISE_ROWTILE_H
#define FALT_SOLVER_CPU_DEPTHWISE_DEPTHWISE_ROWTILE_H

#include "solver/cpu/depthwise/depthwise.h"
#include "solver/cpu/depthwise/depthwise_rowtile_kernels.h"

/* The reason that kernels cannot compute x, y and the axes, or NULL. Only x's type is checked. */
const char *falt_depthwise_block_refusal(const falt_problem *problem, const falt_block_kernels *kernels);

/* Groups of rows of an image of outputs, a block's rows each, the last perhaps fewer. */
static inline int64_t falt_depthwise_block_groups(const falt_problem *p) {
  return falt_ceil_div(p->output.size[FALT_H], falt_block_rows(p->filter.size[FALT_H]));
}

/* Cuts channels into blocks of whole vectors, such that the windows of a block fit into half of the L2 cache, and into
 * at least `wanted` blocks if there are so many. A last vector that overlaps the one before belongs to the last block.
 */
falt_layer_pieces falt_depthwise_block_cut(const falt_problem *problem, const falt_device *device,
                                           const falt_block_kernels *kernels, int64_t wanted);

/* The block of a group of all images: shape, rows and lines; vectors from piece `index` of `blocks`. */
falt_block falt_depthwise_block_of(const falt_problem *problem, const falt_block_kernels *kernels,
                                   const falt_layer_pieces *blocks, int64_t index, const void *x, int64_t group);
/* Rows of y that belong to it. */
void falt_depthwise_block_rows(const falt_problem *problem, const void *y, int64_t group,
                               const void *rows[FALT_BLOCK_ROWS]);

/* Operations of multiply-adds, of all lanes and rows, and the cost of narrow operands. */
double falt_depthwise_block_flops(const falt_problem *problem, const falt_block_kernels *kernels);

#endif
