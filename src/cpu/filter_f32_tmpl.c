/* Filter arithmetic in f32. */
#define FALT_LANE_BITS 32
#include "cpu/filter_lane.h"
#include "cpu/filter_march.h"
#include "cpu/filter_table.h"

void FALT_FILTER_TABLE(f32)(falt_filter_kernels *kernels) {
  kernels->tile_rows = P;
  kernels->tile_vectors = Q;
  kernels->march_most = MARCH_MOST;
  kernels->tile[FALT_LANE_F32] = tile;
  kernels->single[FALT_LANE_F32] = single;
  kernels->march[FALT_LANE_F32] = march;
}
