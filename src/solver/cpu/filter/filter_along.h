/* Filters along rows without shared loads between rows: the last pass of separable filters. */
#ifndef FALT_SOLVER_CPU_FILTER_FILTER_ALONG_H
#define FALT_SOLVER_CPU_FILTER_FILTER_ALONG_H

#include "solver/cpu/filter/filter_kernels.h"

/* A vector that is shifted by a tap usually crosses a cache line and takes two reads, so the load ports are the limit,
 * not the multiply-adds. If vectors are wide enough for that to matter, some shifted vectors are combined in registers
 * from aligned ones: loads and shuffles then run in parallel. */

/* The sums of falt_filter_rows with planes = r = 1 for `count` rows, each sum the same chain as in `tile` and `single`.
 * Rows are aligned to FALT_FILTER_ALONG_ALIGN bytes, or unaligned if step is 1. They are readable from the last aligned
 * address before their start to FALT_FILTER_ALONG_BEYOND bytes beyond their end; those bytes do not affect the output.
 * prefetch, if not NULL, has `count` rows. n is a multiple of FALT_FILTER_ALONG_STEP elements. */
enum { FALT_FILTER_ALONG_ALIGN = 64, FALT_FILTER_ALONG_STEP = 32, FALT_FILTER_ALONG_MOST = 4 };
enum { FALT_FILTER_ALONG_BEYOND = (FALT_FILTER_ALONG_MOST + 1) * FALT_FILTER_ALONG_ALIGN };
typedef void falt_filter_along(const falt_filter_rows *call, int count);

/* For taps `step` elements apart, or NULL if tile and single are as fast. */
falt_filter_along *falt_filter_along_for(falt_isa isa, falt_lane lane, int64_t step);

/* The same as `single`, by the kernel along rows where that is faster. */
void falt_filter_single(const falt_filter_kernels *kernels, falt_lane lane, const falt_filter_rows *call);

#endif
