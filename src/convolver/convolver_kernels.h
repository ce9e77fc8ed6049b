/* Kernels of the convolver, for one lane and instruction set. Signals are padded to whole vectors. */
#ifndef FALT_CONVOLVER_CONVOLVER_KERNELS_H
#define FALT_CONVOLVER_CONVOLVER_KERNELS_H

#include <stdint.h>

#include "core/cpu.h"

typedef struct falt_convolver_lane {
  /* y[i] += sum over j < taps of h[j] * x[i - j]: each sum in the order of the taps, whatever n is. */
  void (*head)(const void *x, const void *h, int64_t taps, void *y, int64_t n);
  void (*add)(void *y, const void *x, int64_t n);
  /* y = y + (x - y) * (at + i) * step, from i = 0; clamped to x. */
  void (*fade)(void *y, const void *x, int64_t n, int64_t at, double step);
  /* The right-angle transform's input of 2n samples as n complex numbers: (a[i] - i b[i]) * twiddles[i]. */
  void (*twist)(const void *a, const void *b, const void *twiddles, void *re, void *im, int64_t n);
  /* Its second half back: b[i] of the convolution. */
  void (*untwist)(const void *re, const void *im, const void *twiddles, void *b, int64_t n);
  /* sum += a * b for n complex numbers, in alternating vectors of real and imaginary parts. */
  void (*multiply)(void *sum, const void *a, const void *b, int64_t n);
} falt_convolver_lane;

const falt_convolver_lane *falt_convolver_f32_for(falt_isa isa);
const falt_convolver_lane *falt_convolver_f64_for(falt_isa isa);

#endif
