/* Kernels for box filters in f64. */
#define FALT_LANE_BITS 64
#define FALT_RUNNING_LANE falt_running_f64_
#include "solver/cpu/running_sums/running_sums_lane.h"
