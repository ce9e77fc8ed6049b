/* Kernels of the generic solver: four sums and one comparison over rows of positions. */
#ifndef FALT_SOLVER_GENERIC_GENERIC_KERNELS_H
#define FALT_SOLVER_GENERIC_GENERIC_KERNELS_H

#include <stdint.h>

#include "core/cpu.h"

/* Rows are lists of pointers, so shifted views of one loaded row serve all taps of a filter without a copy (M. Dukhan,
 * "The Indirect Convolution Algorithm", 2019). In product, dots and pairs n is a multiple of the lane's width. Every
 * row is readable, and every output writable, over n elements. A lane has an element type and an accumulator type: f32
 * and f64 use one for both, `wide` multiplies 64-bit integers into 128-bit sums, for integer problems beyond 2^53. */

enum { FALT_GENERIC_F32, FALT_GENERIC_F64, FALT_GENERIC_WIDE, FALT_GENERIC_LANES };

/* sums[m*pitch + i] += sum over j < depth of a[m*a_row + j*a_step] * b[j][i], for m < rows, i < n. */
typedef struct falt_generic_product {
  const void *a;
  int64_t a_row, a_step;
  const void *const *b;
  void *sums;
  int64_t pitch, n;
  int rows, depth;
} falt_generic_product;

typedef struct falt_generic_lane {
  size_t element, sum; /* bytes */
  int width;           /* elements of a vector */
  void (*product)(const falt_generic_product *call);
  /* totals[m*columns + j] += sum over i < n of a[m][i] * b[j][i]; totals are double. */
  void (*dots)(const void *const *a, int rows, const void *const *b, int columns, int64_t n, void *totals);
  /* sums[i] += sum over j < depth of a[j][i] * b[j][i] */
  void (*pairs)(const void *const *a, const void *const *b, int depth, int64_t n, void *sums);
  /* top[i] = the larger of top[i] and b[j][i] for each j < depth; NaN wins */
  void (*largest)(const void *const *b, int depth, int64_t n, void *top);
  /* The same for one row; where it is larger than top[i], or a first NaN, which[i] = tag. */
  void (*first_largest)(const void *b, int32_t tag, int64_t n, void *top, int32_t *which);
  /* sums[i] += which[i] == tag ? b[i] : 0 */
  void (*add_where)(const void *b, const int32_t *which, int32_t tag, int64_t n, void *sums);
  /* totals[i] += sums[i]; sums[i] = 0. totals are double. */
  void (*drain)(void *sums, int64_t n, void *totals);
} falt_generic_lane;

typedef struct falt_generic_kernels {
  const falt_generic_lane *lane[FALT_GENERIC_LANES];
} falt_generic_kernels;

/* The table for an instruction set, or for the highest one below it that was built. Never NULL. */
const falt_generic_kernels *falt_generic_kernels_for(falt_isa isa);

#endif
