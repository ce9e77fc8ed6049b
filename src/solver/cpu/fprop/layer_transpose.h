/* Transposes rows of numbers in blocks of at most VEC x VEC, in registers. Part of layer_lane.h. */
#ifndef FALT_SOLVER_CPU_FPROP_LAYER_TRANSPOSE_H
#define FALT_SOLVER_CPU_FPROP_LAYER_TRANSPOSE_H

#include "cpu/vector_transpose.h"
#include "solver/cpu/fprop/layer_kernels.h"

/* VEC rows of VEC. Rows are loaded once each. */
FALT_INLINE void transpose_whole(const lane *from, int64_t step, lane *to, int64_t to_pitch) {
  vec row[VEC];
  FALT_UNROLL
  for (int i = 0; i < VEC; i++) row[i] = vec_keep(vec_load(from + i * step));
  vec_transpose(row);
  FALT_UNROLL
  for (int j = 0; j < VEC; j++) vec_store(to + j * to_pitch, row[j]);
}

/* VEC rows of count < VEC. */
FALT_INLINE void transpose_narrow(const lane *from, int64_t step, lane *to, int64_t to_pitch, int count) {
  vec row[VEC];
  FALT_UNROLL
  for (int i = 0; i < VEC; i++) row[i] = vec_keep(vec_load_part(from + i * step, count));
  vec_transpose(row);
  FALT_UNROLL
  for (int j = 0; j < VEC; j++)
    if (j < count) vec_store(to + j * to_pitch, row[j]);
}

/* n < VEC rows of count, which is at most VEC. */
static void transpose_part(const lane *from, int64_t step, lane *to, int64_t to_pitch, int n, int count) {
  vec row[VEC];
  for (int i = 0; i < VEC; i++) row[i] = i < n ? vec_load_part(from + i * step, count) : (vec){0};
  vec_transpose(row);
  for (int j = 0; j < count; j++) vec_store_part(to + j * to_pitch, row[j], n);
}

/* Columns of a strip: several cache lines of a row are read in sequence, and rows of few pages at a time. */
enum { TRANSPOSED_COLUMNS = 8 * VEC };

/* to[j*to_pitch + i] = from[i*step + j], for j < count and at most VEC rows i < n. The last columns of whole rows are
 * those of a whole block, some of them a second time. */
FALT_INLINE void transpose_rows(const lane *from, int64_t step, lane *to, int64_t to_pitch, int n, int64_t count) {
  int64_t j = 0;
  if (n < VEC) {
    for (; j < count; j += VEC)
      transpose_part(from + j, step, to + j * to_pitch, to_pitch, n, count - j < VEC ? (int)(count - j) : VEC);
    return;
  }
  if (count < VEC) {
    transpose_narrow(from, step, to, to_pitch, (int)count);
    return;
  }
  for (; j + VEC <= count; j += VEC) transpose_whole(from + j, step, to + j * to_pitch, to_pitch);
  j = count - VEC;
  if (count % VEC > 0) transpose_whole(from + j, step, to + j * to_pitch, to_pitch);
}

/* A copy whose from_pitch is 1 or -1. */
static void copy_transposed(const falt_layer_copy *call) {
  const bool back = call->from_pitch < 0;
  const lane *from = back ? (const lane *)call->from - (call->count - 1) : call->from;
  lane *to = back ? (lane *)call->to + (call->count - 1) * call->to_pitch : call->to;
  const int64_t pitch = back ? -call->to_pitch : call->to_pitch;
  for (int64_t j = 0; j < call->count; j += TRANSPOSED_COLUMNS)
    for (int64_t i = 0; i < call->n; i += VEC) {
      const int64_t left = call->count - j, rows = call->n - i;
      transpose_rows(from + i * call->step + j, call->step, to + j * pitch + i, pitch, rows < VEC ? (int)rows : VEC,
                     left < TRANSPOSED_COLUMNS ? left : TRANSPOSED_COLUMNS);
    }
}

#endif
