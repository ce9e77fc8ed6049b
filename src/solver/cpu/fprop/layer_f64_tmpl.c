/* Layer kernels in f64. */
#define FALT_LANE_BITS 64
#define FALT_LAYER_LANE falt_layer_kernels_f64_
#include "solver/cpu/fprop/layer_lane.h"
