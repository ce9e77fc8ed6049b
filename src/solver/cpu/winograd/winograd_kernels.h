/* Winograd's transforms of tiles, of one axis or two, by Toom-Cook interpolation: vectors run along channels. An
 * axis of a tile has 2*pairs + 2 elements: values at the points 0, p and -p of each pair, and infinity. The points
 * of the input's transform do not depend on the number of taps, so F(4,3) and F(2,5) share it.
 * docs/internals/cpu-winograd.md has the matrices. */
#ifndef FALT_SOLVER_CPU_WINOGRAD_WINOGRAD_KERNELS_H
#define FALT_SOLVER_CPU_WINOGRAD_WINOGRAD_KERNELS_H

#include "core/cpu.h"
#include "core/types.h"

/* F(2,3), F(4,3), F(6,3), F(2,5), F(4,5): outputs of a tile and taps, along each axis. */
typedef enum falt_winograd_form {
  FALT_WINOGRAD_2_3,
  FALT_WINOGRAD_4_3,
  FALT_WINOGRAD_6_3,
  FALT_WINOGRAD_2_5,
  FALT_WINOGRAD_4_5,
  FALT_WINOGRAD_FORMS
} falt_winograd_form;

enum {
  FALT_WINOGRAD_PAIRS = 3,                         /* at most */
  FALT_WINOGRAD_SIZE = 2 * FALT_WINOGRAD_PAIRS + 2 /* elements of a tile along an axis, at most */
};

/* to[(i*size + j)*pitch + c] = the transform of the pixels (i, j) at channel c, for c < n; zeros for n <= c < depth.
 * Pixel (i, j) is pixels[i*row + j] + offset; with one axis i is 0. depth is a multiple of a vector. */
typedef struct falt_winograd_input {
  const float *const *pixels;
  float *to;
  int64_t row, offset, n, depth, pitch;
} falt_winograd_input;

/* to[(i*size + j)*to_pitch + k] = the transform of the taps (r, s), which are from[(r*taps + s)*from_pitch + k], for
 * k < n, a multiple of a vector. */
typedef struct falt_winograd_filter {
  const float *from;
  float *to;
  int64_t n, from_pitch, to_pitch;
} falt_winograd_filter;

/* to[(y*outputs + x)*to_pitch + k] = the outputs (y, x) of the transformed sums (i, j), which are
 * from[(i*size + j)*from_pitch + k], for k < n, a multiple of a vector. Returns whether all of them are finite. */
typedef struct falt_winograd_output {
  const float *from;
  float *to;
  int64_t n, from_pitch, to_pitch;
} falt_winograd_output;

/* The first index is the number of axes less one. `gradient` and `products` are the transposes of `output` and
 * `filter`, for wgrad: gradient's pixels (i, j) are a tile's outputs, and products are transformed to taps, at the
 * places of outputs. */
typedef struct falt_winograd_kernels {
  void (*input[2][FALT_WINOGRAD_FORMS])(const falt_winograd_input *call);
  void (*filter[2][FALT_WINOGRAD_FORMS])(const falt_winograd_filter *call);
  bool (*output[2][FALT_WINOGRAD_FORMS])(const falt_winograd_output *call);
  void (*gradient[2][FALT_WINOGRAD_FORMS])(const falt_winograd_input *call);
  bool (*products[2][FALT_WINOGRAD_FORMS])(const falt_winograd_output *call);
} falt_winograd_kernels;

/* The table for an instruction set, or for the highest one below it that was built. Never NULL. */
const falt_winograd_kernels *falt_winograd_kernels_for(falt_isa isa);

#endif
