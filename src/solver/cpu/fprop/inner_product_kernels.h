/* Products of the filter, read where it is, with gathered patches of the input in f32. */
#ifndef FALT_SOLVER_CPU_FPROP_INNER_PRODUCT_KERNELS_H
#define FALT_SOLVER_CPU_FPROP_INNER_PRODUCT_KERNELS_H

#include "core/cpu.h"
#include "core/types.h"

enum { FALT_INNER_ROWS = 4, FALT_INNER_COLUMNS = 4 };

/* sums[m*pitch + j] = sum over i < n of rows[m][i] * patches[j*n + i], for m < count and j < columns. Each sum is a
 * chain of multiply-adds for each lane of a vector, added by halves; its bits do not depend on count and columns. */
typedef struct falt_inner_dots {
  const void *rows[FALT_INNER_ROWS]; /* of the filter's type */
  const float *patches;
  float *sums;
  int64_t pitch, n;
  int count, columns;
} falt_inner_dots;

/* Adds to sums[j*n + o] the sum over i < count of rows[i*step + o] * patches[j*pitch + i], for o < n and j < columns.
 * Eight products are summed before they are added; the bits do not depend on n and columns. */
typedef struct falt_inner_axpys {
  const void *rows; /* of the filter's type */
  const float *patches;
  float *sums;
  int64_t step, pitch, count, n;
  int columns;
} falt_inner_axpys;

enum { FALT_INNER_F32, FALT_INNER_BF16, FALT_INNER_F16, FALT_INNER_TYPES };

typedef struct falt_inner_kernels {
  void (*dots[FALT_INNER_TYPES])(const falt_inner_dots *call);
  void (*axpys[FALT_INNER_TYPES])(const falt_inner_axpys *call);
} falt_inner_kernels;

/* The table for an instruction set, or for the highest one below it that was built. Never NULL. */
const falt_inner_kernels *falt_inner_kernels_for(falt_isa isa);

#endif
