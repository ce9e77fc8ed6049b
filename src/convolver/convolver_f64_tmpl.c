/* Kernels of the convolver in f64. */
#define FALT_LANE_BITS 64
#define FALT_CONVOLVER_LANE falt_convolver_f64_
#include "convolver/convolver_lane.h"
