/* Filter arithmetic in f64. */
#define FALT_LANE_BITS 64
#include "cpu/filter_lane.h"
#include "cpu/filter_march.h"
#include "cpu/filter_table.h"

void FALT_FILTER_TABLE(f64)(falt_filter_kernels *kernels) {
  kernels->tile[FALT_LANE_F64] = tile;
  kernels->single[FALT_LANE_F64] = single;
  kernels->march[FALT_LANE_F64] = march;
}
