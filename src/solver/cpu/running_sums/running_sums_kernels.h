/* Kernels for box filters by sums of neighbouring rows and elements, in u32 (integers modulo 2^32), f32 and f64.
 * Rows of sums are in scratch that is readable and writable over whole vectors ("padded"); rows of the input are
 * not. */
#ifndef FALT_SOLVER_CPU_RUNNING_SUMS_RUNNING_SUMS_KERNELS_H
#define FALT_SOLVER_CPU_RUNNING_SUMS_RUNNING_SUMS_KERNELS_H

#include "core/cpu.h"
#include "core/types.h"
#include "solver/cpu/filter/filter_kernels.h"

/* Bytes behind a padded row that kernels may read and write. */
enum { FALT_RUNNING_BEYOND = 64 };

/* out[e] = sum over j < taps of row[e + j*step], for e in [0, n). All rows are padded; `fours` and `sixteens` are as
 * long as `row`, and scratch. */
typedef struct falt_running_along {
  void *out, *fours, *sixteens;
  const void *row; /* n + (taps - 1)*step elements */
  int64_t taps, step, n;
} falt_running_along;

typedef struct falt_running_kernels {
  void (*along)(const falt_running_along *call);
  /* f32 and f64: out[e] = sums[e] + weight*row[e], rounded once; sums NULL: zeros. Exactly n elements of row are read;
   * the others are padded. */
  void (*add)(void *out, const void *sums, const void *row, double weight, int64_t n);
  /* f32 and f64: sums[e] += weight*row[e], then out[e] = end[e] + sums[e]. As above. */
  void (*slide)(void *out, void *sums, const void *end, const void *row, double weight, int64_t n);
  /* u32: sums[e] += enter[e] - leave[e], both of one integer type; NULL: zeros. Exactly n elements. */
  void (*move)(void *sums, const void *enter, const void *leave, falt_type type, int64_t n);
  /* u32: out[i] = weight * (int32_t)sums[i*stride], rounded to the lane's type. Exactly n elements. */
  void (*scale[FALT_LANE_COUNT])(void *out, const void *sums, int64_t stride, double weight, int64_t n);
} falt_running_kernels;

/* The table of a number for an instruction set, or for the highest one below it that was built. Never NULL. */
const falt_running_kernels *falt_running_u32_for(falt_isa isa);
const falt_running_kernels *falt_running_f32_for(falt_isa isa);
const falt_running_kernels *falt_running_f64_for(falt_isa isa);

#endif
