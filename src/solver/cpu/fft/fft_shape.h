/* Complex transforms of whole tiles of up to three axes: which passes make them, their tables, and running them.
 *
 * A tile is two planes, real and imaginary parts, of rows that are `pitch` elements apart. Columns are transformed
 * first, vectors over neighbouring columns, then each row on its own, with the product by the spectrum and the way back
 * while it is in the first cache, then columns back. Two real tiles make one complex tile: a real filter mixes nothing
 * between them. */
#ifndef FALT_SOLVER_CPU_FFT_FFT_SHAPE_H
#define FALT_SOLVER_CPU_FFT_FFT_SHAPE_H

#include <stddef.h>

#include "solver/cpu/fft/fft_kernels.h"

enum { FALT_FFT_STEPS = 32 };

typedef struct falt_fft_step {
  falt_fft_radix kind;
  int64_t span;    /* rows between those that meet */
  size_t twiddles; /* offset in the tables */
} falt_fft_step;

/* The passes of one axis; none where it is not transformed. */
typedef struct falt_fft_axis {
  int64_t rows; /* points of the passes: all of the axis, or its vectors along x */
  int count;
  falt_fft_step step[FALT_FFT_STEPS];
} falt_fft_axis;

typedef struct falt_fft_shape {
  const falt_fft_lane *lane;
  size_t element;  /* bytes */
  int64_t size[3]; /* depth, height, width; the width is a multiple of the vector's */
  falt_fft_axis axis[3];
  int64_t rows, pitch;        /* of a plane; elements between rows */
  int64_t plane;              /* elements from a plane to the next */
  int64_t group_rows, groups; /* rows whose vectors fill whole groups, and these groups */
  int64_t kept;               /* groups of a spectrum: rows along axes that are not transformed share theirs */
  size_t turns, places;       /* offsets in the tables */
  size_t table_bytes;
  char *tables;
} falt_fft_shape;

/* Whether a length has no factors but 2, 3 and 5. */
bool falt_fft_smooth(int64_t length);
/* The shortest of these lengths from one on. */
int64_t falt_fft_smooth_from(int64_t least);
/* Arithmetic of all passes of a length and back, for each point, in multiply-adds. */
double falt_fft_work(const falt_fft_lane *lane, int64_t length);

/* Plans a tile; along an axis that is not transformed elements stay apart. The width is always transformed. */
void falt_fft_shape_set(falt_fft_shape *shape, const falt_fft_lane *lane, size_t element, const int64_t size[3],
                        const bool transformed[3]);
/* Fills the tables; false if memory is short. */
bool falt_fft_shape_ready(falt_fft_shape *shape);
void falt_fft_shape_free(falt_fft_shape *shape);

/* Multiplies elements by so many powers of two, in steps that are normal numbers. */
void falt_fft_scale(const falt_fft_shape *shape, void *x, int64_t count, int exponent);
/* Elements of a spectrum. */
int64_t falt_fft_spectrum_count(const falt_fft_shape *shape);
/* The spectrum of a tile, times `scale`, in the order in which falt_fft_convolve reads it. The tile is used up. Where
 * only rows are transformed all of them share one spectrum: each of shape->rows rows holds the same. */
void falt_fft_spectrum(const falt_fft_shape *shape, void *tile, void *spectrum, double scale);
/* Adds the products of a tile's spectrum with the conjugate of another to sums, in a spectrum's order. The tile is used
 * up. For tiles whose axes are all transformed, or have one row; as the next. */
void falt_fft_correlate(const falt_fft_shape *shape, void *tile, const void *spectrum, void *sums);
/* The tile of a spectrum, times the number of points. */
void falt_fft_inverse(const falt_fft_shape *shape, const void *spectrum, void *tile);
/* The tile's cyclic convolution with the filter of that spectrum, times the number of points. */
void falt_fft_convolve(const falt_fft_shape *shape, void *tile, const void *spectrum);

#endif
