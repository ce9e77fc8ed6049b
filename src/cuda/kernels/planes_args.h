/* What the host passes to planes.cu. Axes stand in the order planes, rows, columns; strides count elements. */
#ifndef FALT_CUDA_KERNELS_PLANES_ARGS_H
#define FALT_CUDA_KERNELS_PLANES_ARGS_H

#include "args.h"

typedef struct falt_cuda_planes_args {
  falt_cuda_map source; /* windows of it */
  falt_cuda_epilogue epilogue;
  const void *filter; /* its tap 0, which meets the lowest position, of result 0 and channel 0 */
  void *y;
  const void *residual;
  long long w_result, w_channel, w_axis[3];
  long long y_image, y_axis[3], r_image, r_axis[3];
  int channels, results;         /* that are summed; of y */
  int w_lines;                   /* eight summed channels are a word of 16 bytes in memory */
  int planes, out[3], corner[3]; /* planes of the source; results; where tap 0 of result 0 reads */
  int tiles[2], walk, walks;     /* tiles along rows and columns; planes of a walk; walks along the planes */
  int column_tiles;              /* of results' channels */
  int items;                     /* tiles of all images, each with all its walks */
} falt_cuda_planes_args;

/* What it passes to planes_filter.cu. */
typedef struct falt_cuda_planes_filter_args {
  falt_cuda_map x, y;          /* windows of x, tiles of dy */
  float *sums;                 /* shares * rows * taps * tap_columns */
  int rows, tap_columns;       /* channels of dy; those of x, in whole spans */
  int row_tiles, column_tiles; /* of channels of dy, of x */
  int tiles[3], items, shares; /* tiles of an image, of all images; blocks that share them */
  int corner[3], dilation;     /* where tap 0 of pixel 0 reads; from plane to plane of taps */
} falt_cuda_planes_filter_args;

#endif
