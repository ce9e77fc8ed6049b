/* Kernels for NHWC depthwise layers of 3x3, 5x5 or 7x7 taps and for wgrad of 3x3 taps: blocks of rows by positions by
 * one vector of channels. */
#ifndef FALT_SOLVER_CPU_DEPTHWISE_DEPTHWISE_ROWTILE_KERNELS_H
#define FALT_SOLVER_CPU_DEPTHWISE_DEPTHWISE_ROWTILE_KERNELS_H

#include "core/cpu.h"
#include "core/types.h"

/* Memory and the L2 cache bound such layers, not the multiply-adds. A block of three rows reads five source rows, where
 * row by row would read nine. An element is converted once for all taps and rows that use it, so narrow types cost one
 * or two instructions for every four multiply-adds. */

enum {
  FALT_BLOCK_ROWS = 3,  /* at most */
  FALT_BLOCK_TAPS = 7,  /* the same, along an axis */
  FALT_BLOCK_LINES = 8, /* under two rows of 7 taps; three rows of 3 with stride 2 have 7 */
};

/* Whether there is a kernel: f32, f16, bf16, u8 and s8 by 3 taps; more taps for some types only. */
static inline bool falt_block_has(falt_type type, int64_t taps) {
  const bool common = type == FALT_F32 || type == FALT_BF16 || type == FALT_U8;
  return taps == 3 ? common || type == FALT_F16 || type == FALT_S8 : (taps == 5 || taps == 7) && common;
}

/* Output rows of a block: accumulators share the registers with a row of weights for each. */
static inline int falt_block_rows(int64_t taps) {
  return taps == 3 ? 3 : 2;
}

/* output = clip(bend(scale[i]*sum + offset[i])). */
typedef struct falt_block_finish {
  const float *scale, *offset; /* of the first channel of all */
  falt_activation curve;
  float slope, low, high;
} falt_block_finish;

/* Output q of row r sums over i, s: weight (i, s) times column q*stride + s - before of line r*stride + i. Lines that
 * are NULL are left out, and columns before the first one or behind the last: no more than taps/2 may be read on either
 * side. Each sum is one chain of multiply-adds, by lines, then columns.
 */
typedef struct falt_block {
  const void *lines[FALT_BLOCK_LINES]; /* at their first column and first channel of all */
  falt_type type;                      /* of the source: f32, f16, bf16, u8 or s8 */
  falt_type result_type;               /* one of these, or s32 */
  int taps, stride;                    /* taps: 3, 5 or 7 along either axis; stride: 1, or 2 of 3 taps */
  int64_t pixel, width,
      before; /* of the source: elements between columns, columns, and how far the first output's tap is before them */
  int64_t positions;          /* of a row of outputs, no less than the kernel's */
  int64_t channels;           /* of all, no less than a vector */
  int64_t vector, vectors;    /* the first one to be computed, and behind the last */
  const float *weights;       /* of all: (vector, tap, lane); vectors begin at falt_block_channel */
  void *out[FALT_BLOCK_ROWS]; /* the first channel of all */
  int rows;                   /* of outputs */
  int64_t out_pixel;
  const falt_block_finish *finish; /* NULL: sums are outputs */
  bool stream;                     /* whole lines, not read again soon: around the caches; f32 */
} falt_block;

/* Sums of a vector of channels in a gradient: of its 3x3 taps, and of dy. */
enum { FALT_BLOCK_SUMS = 3 * 3 + 1 };

/* sums[vector][i, s] += sum over rows r < rows and positions q of by[r][q] * (the element of tap (i, s) of q); the last
 * sum of a vector is that of by alone. Of the block only the source's fields are read, of type f32, f16 or bf16, and
 * positions, channels and rows, which may be any number. */
typedef struct falt_block_gradient {
  falt_block block;
  const void *by[FALT_BLOCK_ROWS]; /* of the same type, at the first channel of all */
  int64_t by_pixel;
  bool adds_by;
  float *sums; /* (vector, sum, lane) */
} falt_block_gradient;

typedef struct falt_block_kernels {
  int width;     /* elements of a vector */
  int positions; /* that are in registers together, for each row */
  void (*sums)(const falt_block *block);
  void (*gradient)(const falt_block_gradient *gradient);
} falt_block_kernels;

/* Vectors of channels do not overlap but for the last one, which ends where channels end. */
static inline int64_t falt_block_channel(int64_t vector, int64_t width, int64_t channels) {
  return vector * width + width <= channels ? vector * width : channels - width;
}

/* The table for an instruction set, or for the highest one below it that was built. Never NULL. */
const falt_block_kernels *falt_block_kernels_for(falt_isa isa);

#endif
