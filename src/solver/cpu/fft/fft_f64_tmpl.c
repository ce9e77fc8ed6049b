/* Transforms in f64. */
#define FALT_LANE_BITS 64
#define FALT_FFT_LANE falt_fft_f64_
#include "solver/cpu/fft/fft_lane.h"
