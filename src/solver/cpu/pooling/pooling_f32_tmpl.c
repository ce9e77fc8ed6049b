/* Pooling kernels in f32. */
#define FALT_LANE_BITS 32
#define FALT_POOLING_LANE falt_pooling_f32_
#include "solver/cpu/pooling/pooling_lane.h"
