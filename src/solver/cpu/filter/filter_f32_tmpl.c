/* Filter kernels in f32. */
#define FALT_LANE_BITS 32
#include "solver/cpu/filter/filter_lane.h"
#include "solver/cpu/filter/filter_table.h"
#if FALT_VECTOR_BYTES == 64
#include "solver/cpu/filter/filter_25d.h"
#endif

void FALT_FILTER_TABLE(f32)(falt_filter_kernels *kernels) {
  kernels->tile_rows = P;
  kernels->tile_vectors = Q;
  kernels->tile[FALT_LANE_F32] = tile;
  kernels->single[FALT_LANE_F32] = single;
#if FALT_VECTOR_BYTES == 64
  kernels->blocked_most = BLOCKED_MOST;
  kernels->blocked[FALT_LANE_F32] = blocked;
#endif
}
