/* Layer kernels in f32. */
#define FALT_LANE_BITS 32
#define FALT_LAYER_LANE falt_layer_kernels_
#include "solver/cpu/fprop/layer_lane.h"
