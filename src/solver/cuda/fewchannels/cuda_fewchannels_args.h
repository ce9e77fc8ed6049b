/* Arguments of cuda_fewchannels_nhwc.cu and cuda_fewchannels_wgrad.cu. Axes are in the order rows, columns; strides
 * count elements. */
#ifndef FALT_SOLVER_CUDA_FEWCHANNELS_CUDA_FEWCHANNELS_ARGS_H
#define FALT_SOLVER_CUDA_FEWCHANNELS_CUDA_FEWCHANNELS_ARGS_H

#include "args.h"

typedef struct falt_cuda_fewchannels_nhwc_args {
  falt_cuda_map map; /* rows of y, a warpgroup's channels of each pixel; of a gradient of dy, 64 channels */
  const void *x, *w;
  void *y;
  falt_cuda_epilogue epilogue;
  long long x_image, x_row, y_image, y_channel, y_axis[2];
  int x_channel, x_column, w_result, w_channel, w_axis[2];
  int in[2], out[2], pad[2], boundary[2][2]; /* boundary: before and after */
  unsigned fill;                             /* the boundary's constant, as bits of an element */
  int results, tap_rows;                     /* channels of y; TAPS_R */
  int result_tiles, column_tiles;            /* of channels, of columns */
  int walk, walks;                           /* rows of a walk; walks down an image */
  int items;                                 /* walks of all images and column tiles */
  int aligned;                               /* y is aligned to its unit */
} falt_cuda_fewchannels_nhwc_args;

/* `layer` describes x and the walks; its result_tiles count tiles of channels and of tap rows. */
typedef struct falt_cuda_fewchannels_wgrad_args {
  falt_cuda_fewchannels_nhwc_args layer;
  float *sums;            /* split-K slices * outputs * columns */
  int tap_parts, columns; /* parts of the rows of taps; sums of an output, with two for the bias */
} falt_cuda_fewchannels_wgrad_args;

#endif
