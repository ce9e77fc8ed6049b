/* Kernels for separable filters of bytes: the pass along y, then the pass along x, of a block of output rows. */
#ifndef FALT_SOLVER_CPU_FILTER_SEPARABLE_U8_KERNELS_H
#define FALT_SOLVER_CPU_FILTER_SEPARABLE_U8_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/cpu.h"

enum {
  FALT_SEPARABLE_U8_STEP = 4,    /* elements between taps along x, at most */
  FALT_SEPARABLE_U8_ROWS = 16,   /* output rows of a call, at most */
  FALT_SEPARABLE_U8_BEYOND = 128 /* bytes of a row that are read behind those of the last column's taps, at most */
};

/* Taps along an axis. */
typedef struct falt_separable_u8_taps {
  const float *value;
  int count;
  bool symmetric; /* value[j] == value[count - 1 - j] */
} falt_separable_u8_taps;

/* out[p][x] = byte(sum over j of along_x[j] * sum over i of along_y[i] * rows[p + i][x + j*step]), for p < rows of the
 * table and x in [0, n). Sums are f32; byte() rounds to the nearest, ties to even, and saturates. */
typedef struct falt_separable_u8_call {
  const uint8_t *const
      *rows;        /* of the table + along_y.count - 1; readable over n + (along_x.count - 1)*step + BEYOND */
  void *const *out; /* exactly n elements of each are written */
  falt_separable_u8_taps along_y, along_x;
  int step; /* 1 to FALT_SEPARABLE_U8_STEP */
  int64_t n;
  bool stream; /* out is not read again soon: whole lines bypass the cache */
  void *space; /* aligned to FALT_ALIGN */
} falt_separable_u8_call;

typedef struct falt_separable_u8_kernels {
  int rows;                         /* output rows of a call */
  size_t (*space)(int s, int step); /* bytes that a call with s taps along x needs */
  void (*run)(const falt_separable_u8_call *call);
} falt_separable_u8_kernels;

/* The table for an instruction set, or for the highest one below it that was built. Never NULL. */
const falt_separable_u8_kernels *falt_separable_u8_kernels_for(falt_isa isa);

#endif
