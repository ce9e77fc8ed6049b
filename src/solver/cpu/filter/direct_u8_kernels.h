/* Kernels for filters of u8 images with 8-bit taps: exact 32-bit sums, four taps of a row in a word, by byte dot
 * products where the instruction set has them (solver/cpu/common/vector_dots.h). */
#ifndef FALT_SOLVER_CPU_FILTER_DIRECT_U8_KERNELS_H
#define FALT_SOLVER_CPU_FILTER_DIRECT_U8_KERNELS_H

#include <stdbool.h>

#include "core/cpu.h"
#include "core/types.h"

enum {
  FALT_DIRECT_U8_STEP = 4,   /* elements between taps, at most */
  FALT_DIRECT_U8_ROWS = 4,   /* output rows of a call, at most */
  FALT_DIRECT_U8_BEYOND = 96 /* bytes of a row that may be read after those of the last column's taps */
};

/* out[p][x] = convert(scale * sum over i < r, j < 4*words of tap(i, j) * rows[p + i][x + j*step]), for p < rows of the
 * table and x in [0, n). Rounded to the nearest, ties to even, and saturated. */
typedef struct falt_direct_u8_call {
  const uint8_t *const *rows; /* of the table + r - 1; readable and set over n + 4*words*step + BEYOND bytes */
  const int32_t *taps;        /* (r, words): four s8, the first lowest */
  void *const *out;           /* exactly n elements of each are written */
  falt_type type;             /* of out: any integer type up to 32 bits, or f32 */
  int64_t n;
  int r, words;
  int step;    /* 1 to FALT_DIRECT_U8_STEP */
  float scale; /* a power of two, at most 1; sums are less than 2^24 */
  bool stream; /* out is not read again soon: whole lines of bytes bypass the cache */
} falt_direct_u8_call;

typedef struct falt_direct_u8_kernels {
  int rows;     /* output rows of a call */
  int columns;  /* of a register tile */
  double speed; /* products that take the time of one multiply-add of f32; 0: no instructions that suit */
  void (*sums)(const falt_direct_u8_call *call);
} falt_direct_u8_kernels;

/* The table for an instruction set, or for the highest one below it that was built. Never NULL. */
const falt_direct_u8_kernels *falt_direct_u8_kernels_for(falt_isa isa);

#endif
