/* Transforms in f32. */
#define FALT_LANE_BITS 32
#define FALT_FFT_LANE falt_fft_f32_
#include "solver/cpu/fft/fft_lane.h"
