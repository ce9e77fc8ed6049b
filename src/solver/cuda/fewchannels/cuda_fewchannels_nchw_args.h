/* Arguments of cuda_fewchannels_nchw.cu. Axes are in the order planes, rows, columns; strides count elements. */
#ifndef FALT_SOLVER_CUDA_FEWCHANNELS_CUDA_FEWCHANNELS_NCHW_ARGS_H
#define FALT_SOLVER_CUDA_FEWCHANNELS_CUDA_FEWCHANNELS_NCHW_ARGS_H

#include "args.h"

typedef struct falt_cuda_fewchannels_nchw_args {
  const void *x, *w, *residual;
  void *y;
  falt_cuda_epilogue epilogue;
  long long x_image, x_channel, x_axis[2], y_image, y_channel, y_axis[3]; /* columns of x are contiguous */
  long long r_image, r_channel, r_axis[3];
  long long w_result, w_channel, w_axis[3];
  int in[3], out[3], pad[3], boundary[3][2]; /* boundary: before and after */
  int stride, dilation;                      /* of planes; along rows and columns they are 1 */
  unsigned fill;                             /* the boundary's constant, as bits of an element */
  int results, result_tiles;                 /* channels of y */
  int strips, walk, walks;                   /* of columns; rows of a walk; walks down a plane */
  int items;                                 /* walks of all planes of all images */
  int x_aligned, y_aligned;                  /* aligned to their units */
} falt_cuda_fewchannels_nchw_args;

#endif
