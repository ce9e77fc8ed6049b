/* Kernels for pooling: reduction of rows, split and merge by the stride, and positions of first maxima. A kernel
 * processes rows of one lane type, f32 or f64, without windows or edges. Rows may have any address; no element beyond n
 * is accessed. */
#ifndef FALT_SOLVER_CPU_POOLING_POOLING_KERNELS_H
#define FALT_SOLVER_CPU_POOLING_POOLING_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "core/cpu.h"

enum { FALT_POOLING_LIST = 32 }; /* rows of a call of folds at most */

typedef enum falt_pooling_fold { FALT_POOLING_LARGEST, FALT_POOLING_SUM, FALT_POOLING_WAYS } falt_pooling_fold;

/* One row of positions, `inner` elements each, and `polyphases` split rows, the p-th of positions p, p + polyphases, p
 * + 2*polyphases: line[(q*polyphases + p)*inner + c] is at split[p*pitch + q*inner + c], for q*polyphases + p <
 * positions. */
typedef struct falt_pooling_polyphases {
  void *line, *split;
  int64_t positions, inner, polyphases, pitch;
} falt_pooling_polyphases;

/* One reduction, repeated `copies` times; rows and output advance by a number of elements each time. */
typedef struct falt_pooling_folds {
  const void *const *rows;
  void *out;
  int count;
  int64_t n, copies, step, out_step;
} falt_pooling_folds;

typedef struct falt_pooling_lane {
  size_t element; /* bytes, also of a tag */
  int width;      /* elements of a vector */
  /* out[i] = the largest, or the sum, of rows[k][i] over k < count, which is at least 1. NaN is the largest. out may be
   * one of the rows. */
  void (*fold[FALT_POOLING_WAYS])(const void *const *rows, int count, int64_t n, void *out);
  void (*folds[FALT_POOLING_WAYS])(const falt_pooling_folds *call);
  /* out[o] = the same for from[o*step + j] over j < taps. */
  void (*runs[FALT_POOLING_WAYS])(const void *from, int64_t step, int64_t taps, int64_t n, void *out);
  void (*split)(const falt_pooling_polyphases *call);
  void (*join)(const falt_pooling_polyphases *call);
  void (*divide)(void *x, double by, int64_t n);
  /* For each k < count in order: if rows[k][i] is larger than top[i], or the first NaN, it becomes top[i] and tag + k
   * becomes which[i]. Tags are integers of the element's size. */
  void (*first)(const void *const *rows, int count, int64_t tag, int64_t n, void *top, void *which);
  /* sums[i] += which[i] == tag ? x[i] : 0 */
  void (*add_where)(const void *x, const void *which, int64_t tag, int64_t n, void *sums);
  void (*fill)(void *x, double value, int64_t n);
  void (*fill_tags)(void *which, int64_t tag, int64_t n);
} falt_pooling_lane;

typedef struct falt_pooling_kernels {
  const falt_pooling_lane *f32, *f64;
} falt_pooling_kernels;

/* The lanes for an instruction set, or for the highest one below it that was built. */
falt_pooling_kernels falt_pooling_kernels_for(falt_isa isa);

#endif
