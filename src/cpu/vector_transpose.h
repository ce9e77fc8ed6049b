/* Transposes a block of VEC x VEC numbers in registers by two-operand shuffles. Those of 32 bits: 4 x 4 within the
 * 128-bit lanes of each four rows, then the 128-bit lanes themselves. */
#ifndef FALT_CPU_VECTOR_TRANSPOSE_H
#define FALT_CPU_VECTOR_TRANSPOSE_H

#include "cpu/vector.h"
#include "cpu/vector_exchange.h"

#if FALT_LANE_BITS == 64
FALT_INLINE void vec_transpose(vec row[VEC]) {
  vec_exchange(row);
}
#else

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

/* Element j of row i to element i of row j. */
FALT_INLINE void vec_transpose(vec row[VEC]) {
  transpose_quads(row);
  transpose_lanes(row);
}

#undef SHUFFLE_LANES
#undef SHUFFLE_QUADS
#undef QUAD

#endif

#endif
