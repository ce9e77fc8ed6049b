/* Transposes blocks of at most VEC x VEC numbers in registers by two-operand shuffles: 4 x 4 within the 128-bit lanes
 * of each four rows, then the lanes. Part of layer_tmpl.c. */
#ifndef FALT_SOLVER_CPU_FPROP_LAYER_TRANSPOSE_H
#define FALT_SOLVER_CPU_FPROP_LAYER_TRANSPOSE_H

#include "cpu/vector.h"
#include "solver/cpu/fprop/layer_kernels.h"

/* Masks of shuffles that do the same in every lane: elements i of the first operand, 4 + i of the second. */
#if FALT_VECTOR_BYTES == 64
#define SHUFFLE_QUADS(a, b, i, j, k, l)                                                                             \
  __builtin_shufflevector(a, b, QUAD(i, 0), QUAD(j, 0), QUAD(k, 0), QUAD(l, 0), QUAD(i, 4), QUAD(j, 4), QUAD(k, 4), \
                          QUAD(l, 4), QUAD(i, 8), QUAD(j, 8), QUAD(k, 8), QUAD(l, 8), QUAD(i, 12), QUAD(j, 12),     \
                          QUAD(k, 12), QUAD(l, 12))
#elif FALT_VECTOR_BYTES == 32
#define SHUFFLE_QUADS(a, b, i, j, k, l)                                                                             \
  __builtin_shufflevector(a, b, QUAD(i, 0), QUAD(j, 0), QUAD(k, 0), QUAD(l, 0), QUAD(i, 4), QUAD(j, 4), QUAD(k, 4), \
                          QUAD(l, 4))
#else
#define SHUFFLE_QUADS(a, b, i, j, k, l) __builtin_shufflevector(a, b, QUAD(i, 0), QUAD(j, 0), QUAD(k, 0), QUAD(l, 0))
#endif
#define QUAD(i, lane) ((i) < 4 ? (i) + (lane) : (i)-4 + VEC + (lane))

/* Whole 128-bit lanes i, j of a, then k, l of b. */
#define SHUFFLE_LANES(a, b, i, j, k, l)                                                                            \
  __builtin_shufflevector(a, b, 4 * (i), 4 * (i) + 1, 4 * (i) + 2, 4 * (i) + 3, 4 * (j), 4 * (j) + 1, 4 * (j) + 2, \
                          4 * (j) + 3, VEC + 4 * (k), VEC + 4 * (k) + 1, VEC + 4 * (k) + 2, VEC + 4 * (k) + 3,     \
                          VEC + 4 * (l), VEC + 4 * (l) + 1, VEC + 4 * (l) + 2, VEC + 4 * (l) + 3)

/* Of each four rows: element j of the lanes of all four to row j. */
FALT_INLINE void transpose_quads(vec row[VEC]) {
  FALT_UNROLL
  for (int i = 0; i < VEC; i += 4) {
    const vec low = SHUFFLE_QUADS(row[i], row[i + 1], 0, 4, 1, 5), high = SHUFFLE_QUADS(row[i], row[i + 1], 2, 6, 3, 7);
    const vec low2 = SHUFFLE_QUADS(row[i + 2], row[i + 3], 0, 4, 1, 5);
    const vec high2 = SHUFFLE_QUADS(row[i + 2], row[i + 3], 2, 6, 3, 7);
    row[i] = SHUFFLE_QUADS(low, low2, 0, 1, 4, 5);
    row[i + 1] = SHUFFLE_QUADS(low, low2, 2, 3, 6, 7);
    row[i + 2] = SHUFFLE_QUADS(high, high2, 0, 1, 4, 5);
    row[i + 3] = SHUFFLE_QUADS(high, high2, 2, 3, 6, 7);
  }
}

/* Lane l of row 4*i + j to lane i of row 4*l + j. */
FALT_INLINE void transpose_lanes(vec row[VEC]) {
#if FALT_VECTOR_BYTES == 64
  FALT_UNROLL
  for (int j = 0; j < 4; j++) {
    const vec a = SHUFFLE_LANES(row[j], row[4 + j], 0, 1, 0, 1), b = SHUFFLE_LANES(row[j], row[4 + j], 2, 3, 2, 3);
    const vec c = SHUFFLE_LANES(row[8 + j], row[12 + j], 0, 1, 0, 1);
    const vec d = SHUFFLE_LANES(row[8 + j], row[12 + j], 2, 3, 2, 3);
    row[j] = SHUFFLE_LANES(a, c, 0, 2, 0, 2);
    row[4 + j] = SHUFFLE_LANES(a, c, 1, 3, 1, 3);
    row[8 + j] = SHUFFLE_LANES(b, d, 0, 2, 0, 2);
    row[12 + j] = SHUFFLE_LANES(b, d, 1, 3, 1, 3);
  }
#elif FALT_VECTOR_BYTES == 32
  FALT_UNROLL
  for (int j = 0; j < 4; j++) {
    const vec a = row[j], b = row[4 + j];
    row[j] = __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11);
    row[4 + j] = __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
  }
#else
  (void)row;
#endif
}

/* VEC rows of VEC. Rows are loaded once each. */
FALT_INLINE void transpose_whole(const lane *from, int64_t step, lane *to, int64_t to_pitch) {
  vec row[VEC];
  FALT_UNROLL
  for (int i = 0; i < VEC; i++) row[i] = vec_keep(vec_load(from + i * step));
  transpose_quads(row);
  transpose_lanes(row);
  FALT_UNROLL
  for (int j = 0; j < VEC; j++) vec_store(to + j * to_pitch, row[j]);
}

/* VEC rows of count < VEC. */
FALT_INLINE void transpose_narrow(const lane *from, int64_t step, lane *to, int64_t to_pitch, int count) {
  vec row[VEC];
  FALT_UNROLL
  for (int i = 0; i < VEC; i++) row[i] = vec_keep(vec_load_part(from + i * step, count));
  transpose_quads(row);
  transpose_lanes(row);
  FALT_UNROLL
  for (int j = 0; j < VEC; j++)
    if (j < count) vec_store(to + j * to_pitch, row[j]);
}

/* n < VEC rows of count, which is at most VEC. */
static void transpose_part(const lane *from, int64_t step, lane *to, int64_t to_pitch, int n, int count) {
  vec row[VEC];
  for (int i = 0; i < VEC; i++) row[i] = i < n ? vec_load_part(from + i * step, count) : (vec){0};
  transpose_quads(row);
  transpose_lanes(row);
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
  const lane *from = back ? call->from - (call->count - 1) : call->from;
  lane *to = back ? call->to + (call->count - 1) * call->to_pitch : call->to;
  const int64_t pitch = back ? -call->to_pitch : call->to_pitch;
  for (int64_t j = 0; j < call->count; j += TRANSPOSED_COLUMNS)
    for (int64_t i = 0; i < call->n; i += VEC) {
      const int64_t left = call->count - j, rows = call->n - i;
      transpose_rows(from + i * call->step + j, call->step, to + j * pitch + i, pitch, rows < VEC ? (int)rows : VEC,
                     left < TRANSPOSED_COLUMNS ? left : TRANSPOSED_COLUMNS);
    }
}

#undef SHUFFLE_LANES
#undef SHUFFLE_QUADS
#undef QUAD

#endif
