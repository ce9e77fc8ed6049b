/* Transposes a block of VEC x VEC numbers of either lane in registers, in log2(VEC) steps. */
#ifndef FALT_CPU_VECTOR_EXCHANGE_H
#define FALT_CPU_VECTOR_EXCHANGE_H

#include "cpu/vector.h"

#if FALT_VECTOR_BYTES * 8 / FALT_LANE_BITS == 2
#define EACH_LANE(F, s) F(0, s), F(1, s)
#elif FALT_VECTOR_BYTES * 8 / FALT_LANE_BITS == 4
#define EACH_LANE(F, s) F(0, s), F(1, s), F(2, s), F(3, s)
#elif FALT_VECTOR_BYTES * 8 / FALT_LANE_BITS == 8
#define EACH_LANE(F, s) F(0, s), F(1, s), F(2, s), F(3, s), F(4, s), F(5, s), F(6, s), F(7, s)
#else
#define EACH_LANE(F, s)                                                                                         \
  F(0, s), F(1, s), F(2, s), F(3, s), F(4, s), F(5, s), F(6, s), F(7, s), F(8, s), F(9, s), F(10, s), F(11, s), \
      F(12, s), F(13, s), F(14, s), F(15, s)
#endif

/* A step of a transpose: vectors i and i + s exchange their lanes off the diagonal, in blocks of s. */
#define NEAR(lane, s) ((lane) / (s) % 2 == 0 ? (lane) : (lane) - (s) + VEC)
#define FAR(lane, s) ((lane) / (s) % 2 == 0 ? (lane) + (s) : (lane) + VEC)
#define EXCHANGE(x, s)                                                 \
  FALT_UNROLL                                                          \
  for (int i = 0; i < VEC; i++)                                        \
    if (i / (s) % 2 == 0) {                                            \
      const vec a = (x)[i], b = (x)[i + (s)];                          \
      (x)[i] = __builtin_shufflevector(a, b, EACH_LANE(NEAR, s));      \
      (x)[i + (s)] = __builtin_shufflevector(a, b, EACH_LANE(FAR, s)); \
    }

/* Element j of vector i to element i of vector j, in VEC vectors. */
FALT_INLINE void vec_exchange(vec *x) {
  EXCHANGE(x, 1)
#if FALT_VECTOR_BYTES * 8 / FALT_LANE_BITS >= 4
  EXCHANGE(x, 2)
#endif
#if FALT_VECTOR_BYTES * 8 / FALT_LANE_BITS >= 8
  EXCHANGE(x, 4)
#endif
#if FALT_VECTOR_BYTES * 8 / FALT_LANE_BITS >= 16
  EXCHANGE(x, 8)
#endif
}

#undef EXCHANGE
#undef FAR
#undef NEAR
#undef EACH_LANE

#endif
