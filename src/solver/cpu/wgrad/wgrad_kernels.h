/* Kernels for weight gradients: sums of outer products, and transposes of matrices. */
#ifndef FALT_SOLVER_CPU_WGRAD_WGRAD_KERNELS_H
#define FALT_SOLVER_CPU_WGRAD_WGRAD_KERNELS_H

#include "core/cpu.h"
#include "solver/cpu/fprop/layer_kernels.h"

/* The weight gradient of a tap is a product of two matrices whose depth is the positions: one row of input channels
 * times one row of output channels for every position. Output channels run along vectors. Input channels are broadcast
 * from the addresses of pixels, so the input is read in place, and a pixel outside is another address. */

/* out[m*pitch + i] = (accumulate ? out[m*pitch + i] : 0) + sum over j < depth of a[j][first + m] * b[j*pitch + i]
 *
 * for m < rows, i < pitch = vectors * the table's width. The sum over j is one chain of multiply-adds in its order, so
 * its bits do not depend on how rows and columns were cut into calls. */
typedef struct falt_outer {
  const float *const *a;
  int64_t first;
  const float *b;
  float *out;
  int64_t depth;
  int rows, vectors;
  bool accumulate;
} falt_outer;

/* to[j*to_pitch + i] = from[i*from_pitch + j] for i < n, j < count. */
typedef struct falt_transpose {
  const float *from;
  float *to;
  int64_t from_pitch, to_pitch, n, count;
} falt_transpose;

/* out[(m*pitch + i)*width + l] = (accumulate ? out[...] : 0)
 *                                + sum over s < segments, j < depth with j % width == l of
 *                                  a[s*a_pitch + m][j] * b[s*b_apart + i*b_pitch + j]
 *
 * for m < rows, i < columns, l < width, the table's: dot products, whose lanes the caller adds. Their bits do not
 * depend on the cut of rows and columns into calls. The columns that follow are prefetched. */
typedef struct falt_dots {
  const float *const *a;
  const float *b;
  float *out;
  int64_t a_pitch, b_pitch, b_apart, pitch, segments, depth;
  int rows, columns; /* columns: as the table says, or 1 */
  bool accumulate;
} falt_dots;

typedef struct falt_outer_kernels {
  int rows[FALT_LAYER_VECTORS + 1]; /* the most of a call, by the vectors; vectors and widths are the layer kernels' */
  int dot_rows, dot_columns;        /* the most of a call of `dots` */
  void (*outer)(const falt_outer *call);
  void (*dots)(const falt_dots *call);
  void (*transpose)(const falt_transpose *call);
} falt_outer_kernels;

/* The table for an instruction set, or for the highest one below it that was built. Never NULL. */
const falt_outer_kernels *falt_outer_kernels_for(falt_isa isa);

#endif
