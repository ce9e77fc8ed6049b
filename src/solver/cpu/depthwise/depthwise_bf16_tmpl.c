/* Depthwise kernels of one instruction set, source and weights pairs of bf16. depthwise_kernels.h describes them.
 * Compiled once per level. */
#define FALT_LANE_BITS 32
#include "solver/cpu/depthwise/depthwise_kernels.h"

#define KIND FALT_TILES_BF16
#define TABLE falt_depthwise_bf16_kernels_
#define SPEED (HAS_BF16 ? 2 : FALT_VECTOR_BYTES == 64 ? 1 : 0.8)
#include "solver/cpu/depthwise/depthwise_sums.h"
