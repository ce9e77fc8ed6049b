/* Kernels for box filters in f32. */
#define FALT_LANE_BITS 32
#define FALT_RUNNING_LANE falt_running_f32_
#include "solver/cpu/running_sums/running_sums_lane.h"
