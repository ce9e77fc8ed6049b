/* Pooling in f32. */
#define FALT_LANE_BITS 32
#define FALT_POOLING_LANE falt_pooling_f32_
#include "cpu/pooling_lane.h"
