/* Pooling kernels in f64. */
#define FALT_LANE_BITS 64
#define FALT_POOLING_LANE falt_pooling_f64_
#include "solver/cpu/pooling/pooling_lane.h"
