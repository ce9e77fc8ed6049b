/* Kernels for repeated boxes in f64. */
#define FALT_LANE_BITS 64
#define FALT_BOXES_LANE falt_boxes_f64_
#include "cpu/vector.h"

FALT_INLINE void turn_block(vec row[VEC]) {
  lane from[VEC * VEC], to[VEC * VEC];
  for (int j = 0; j < VEC; j++) vec_store(from + j * VEC, row[j]);
  for (int i = 0; i < VEC; i++)
    for (int j = 0; j < VEC; j++) to[i * VEC + j] = from[j * VEC + i];
  for (int i = 0; i < VEC; i++) row[i] = vec_load(to + i * VEC);
}

#include "solver/cpu/running_sums/repeated_boxes_lane.h"
