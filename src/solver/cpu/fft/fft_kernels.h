/* Kernels of complex transforms: in place, real and imaginary parts in planes of their own, no reordering.
 *
 * Forward passes decimate in frequency and leave their results in digit-reversed order; inverse passes decimate in time
 * and take that order. Both have the forward sign: with the planes exchanged the inverse passes invert. Vectors run
 * over neighbours that share a twiddle; the last factor of a row's length, the vector's width, is transformed across
 * the lanes of transposed vectors. */
#ifndef FALT_SOLVER_CPU_FFT_FFT_KERNELS_H
#define FALT_SOLVER_CPU_FFT_FFT_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/cpu.h"

/* Radices of passes, and of what is split into them. */
typedef enum falt_fft_radix {
  FALT_FFT_2,
  FALT_FFT_3,
  FALT_FFT_4,
  FALT_FFT_5,
  FALT_FFT_8,
  FALT_FFT_RADICES
} falt_fft_radix;

/* One pass over `blocks` blocks of radix*span rows of `vectors` vectors; rows are `pitch` elements apart. Row j of a
 * block meets rows j + span, j + 2*span, ...; the p-th of them has the twiddle (j*(radix - 1) + p - 1), a complex
 * number, from `twiddles`. With a span of 1 there are none. */
typedef struct falt_fft_pass {
  int64_t pitch, vectors, span, blocks;
  const void *twiddles;
} falt_fft_pass;

/* Groups of as many vectors as a vector has lanes, each group a transform across lanes. The vectors of a group are
 * neighbours, or stand at `places` of it, in elements. */
typedef struct falt_fft_lanes {
  int64_t groups;
  const int32_t *places;
  const void *twiddles; /* falt_fft_lane.turns complex vectors a group */
  const void *spectrum; /* by group, by vector: real parts, imaginary parts */
} falt_fft_lanes;

typedef struct falt_fft_lane {
  int width;  /* elements of a vector */
  int widest; /* the largest power of two among the radices that is fast */
  int turns;  /* complex twiddle vectors of a group */
  void (*forward[FALT_FFT_RADICES])(void *re, void *im, const falt_fft_pass *pass);
  void (*inverse[FALT_FFT_RADICES])(void *re, void *im, const falt_fft_pass *pass);
  /* Transforms groups, multiplies by the spectrum and transforms back. */
  void (*multiply)(void *re, void *im, const falt_fft_lanes *call);
  /* Transforms groups into a spectrum, times `scale`. */
  void (*spectrum)(const void *re, const void *im, const falt_fft_lanes *call, void *to, double scale);
  /* Transforms the groups of a spectrum back. */
  void (*back)(void *re, void *im, const falt_fft_lanes *call);
  /* Transforms groups, and adds their products with the conjugate of the spectrum to sums in a spectrum's order. */
  void (*correlate)(const void *re, const void *im, const falt_fft_lanes *call, void *sums);
  /* sums = the sum over `terms` of x times the conjugate of w, n elements of spectra that are so far apart. */
  void (*combine)(void *sums, const void *x, int64_t x_step, const void *w, int64_t w_step, int64_t terms, int64_t n);
  /* The largest magnitude that was seen: `seen` is a vector of zeros at first. NaN if there was one. */
  void (*see)(void *seen, const void *x, int64_t n);
  double (*largest)(const void *seen);
  void (*scale)(void *x, int64_t n, double factor);
  /* x*factor rounded to whole numbers, which are below a quarter of the largest that the lane counts. */
  void (*whole)(void *x, int64_t n, double factor);
} falt_fft_lane;

/* The kernels of an instruction set, or of the highest one below it that was built. */
const falt_fft_lane *falt_fft_f32_for(falt_isa isa);
const falt_fft_lane *falt_fft_f64_for(falt_isa isa);
/* Those of elements of 4 or 8 bytes. */
const falt_fft_lane *falt_fft_lane_for(falt_isa isa, size_t element);

#endif
