/* Filters along rows without shared loads between rows: the last pass of separable filters. */
#ifndef FALT_SOLVER_CPU_FILTER_FILTER_ALONG_H
#define FALT_SOLVER_CPU_FILTER_FILTER_ALONG_H

#include "solver/cpu/filter/filter_kernels.h"

/* A vector that is shifted by a tap usually crosses a cache line and takes two reads, so the load ports are the limit,
 * not the multiply-adds. If vectors are wide enough for that to matter, some shifted vectors are combined in registers
 * from aligned ones: loads and shuffles then run in parallel. */

/* The sums of falt_filter_rows with planes = r = 1 for `count` rows, each sum the same chain as in `tile` and `single`.
 * Rows lie at multiples of FALT_FILTER_ALONG_ALIGN bytes, or anywhere if step is 1; they are readable from the last
 * such multiple before their beginning to FALT_FILTER_ALONG_BEYOND bytes beyond their end, of which nothing is used.
 * prefetch, if not NULL, has `count` rows. n is a multiple of FALT_FILTER_ALONG_STEP elements. */
enum { FALT_FILTER_ALONG_ALIGN = 64, FALT_FILTER_ALONG_STEP = 32, FALT_FILTER_ALONG_MOST = 4 };
enum { FALT_FILTER_ALONG_BEYOND = (FALT_FILTER_ALONG_MOST + 1) * FALT_FILTER_ALONG_ALIGN };
typedef void falt_filter_along(const falt_filter_rows *call, int count);

/* For taps `step` elements apart, or NULL where tile and single are as good. */
falt_filter_along *falt_filter_along_for(falt_isa isa, falt_lane lane, int64_t step);

/* What `single` computes, by the kernel along rows as far as that is faster. */
void falt_filter_single(const falt_filter_kernels *kernels, falt_lane lane, const falt_filter_rows *call);

#endif
