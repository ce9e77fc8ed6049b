/* Kernels of small groups of one instruction set, source quads of u8, weights quads of s8. depthwise_kernels.h
 * describes them. Compiled once per level. */
#define FALT_LANE_BITS 32
#include "solver/cpu/depthwise/depthwise_kernels.h"

#define KIND FALT_TILES_U8
#define TABLE falt_depthwise_u8_kernels_
#define SPEED (HAS_BYTES ? 4 : FALT_VECTOR_BYTES == 64 ? 1.3 : 0.9)
#include "solver/cpu/depthwise/depthwise_sums.h"
