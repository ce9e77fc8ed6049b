/* Kernels of the convolver in f32. */
#define FALT_LANE_BITS 32
#define FALT_CONVOLVER_LANE falt_convolver_f32_
#include "convolver/convolver_lane.h"
