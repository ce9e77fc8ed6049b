/* Kernels for repeated boxes in f32. */
#define FALT_LANE_BITS 32
#define FALT_BOXES_LANE falt_boxes_f32_
#include "cpu/vector.h"
#include "cpu/vector_transpose.h"

FALT_INLINE void turn_block(vec row[VEC]) {
  vec_transpose(row);
}

#include "solver/cpu/running_sums/repeated_boxes_lane.h"
