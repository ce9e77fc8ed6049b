/* Filter kernels in f64. */
#define FALT_LANE_BITS 64
#include "solver/cpu/filter/filter_lane.h"
#include "solver/cpu/filter/filter_table.h"
#if FALT_VECTOR_BYTES == 64
#include "solver/cpu/filter/filter_25d.h"
#endif

void FALT_FILTER_TABLE(f64)(falt_filter_kernels *kernels) {
  kernels->tile[FALT_LANE_F64] = tile;
  kernels->single[FALT_LANE_F64] = single;
#if FALT_VECTOR_BYTES == 64
  kernels->blocked[FALT_LANE_F64] = blocked;
#endif
}
