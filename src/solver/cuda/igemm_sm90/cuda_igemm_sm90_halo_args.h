/* Arguments of cuda_igemm_sm90_halo.cu. Axes are in the order planes, rows, columns; strides count elements. */
#ifndef FALT_SOLVER_CUDA_IGEMM_SM90_CUDA_IGEMM_SM90_HALO_ARGS_H
#define FALT_SOLVER_CUDA_IGEMM_SM90_CUDA_IGEMM_SM90_HALO_ARGS_H

#include "args.h"

typedef struct falt_cuda_igemm_sm90_halo_args {
  falt_cuda_map source; /* halo tiles */
  falt_cuda_map result; /* boxes of the output: two rows of 16 pixels */
  falt_cuda_epilogue epilogue;
  const void *x, *filter; /* first elements of the source and of the filter */
  void *y;
  const void *residual;
  long long w_result, w_channel, w_axis[3];
  long long x_image, x_axis[3], y_image, y_axis[3], r_image, r_axis[3]; /* axis: strides of the layer's pixels */
  long long y_spot[3], y_channel, r_channel;                            /* spot: strides of a step's pixels */
  int w_first[3], w_pace[3], w_taps[3]; /* tap i of a step's pixel e is the filter's first + e + i * pace */
  int channels, results;                /* of the depth; of the layer's output */
  int w_lines;                          /* eight channels of the filter's depth are one aligned word */
  int in[3], out[3], corner[3];         /* of the source, of the layer; position of tap 0 of output 0 */
  int size[3], shift[3];                /* pixels of the output; those of the first step outside */
  int tiles[2], walk, walks;            /* tiles along rows and columns; planes of a walk; walks along the planes */
  int column_tiles;                     /* of outputs' channels */
  int kept;                             /* the plan owns the filter: no preceding kernel writes it */
  int items;                            /* tiles of all images, each with all its walks */
} falt_cuda_igemm_sm90_halo_args;

/* Arguments of cuda_wgrad_sm90_halo.cu. */
typedef struct falt_cuda_wgrad_sm90_halo_args {
  falt_cuda_map x, y;           /* halo tiles of x, tiles of dy */
  float *sums;                  /* split-K slices * rows * taps * tap_columns */
  int rows, tap_columns;        /* channels of dy; channels of x, in whole spans */
  int row_tiles, column_tiles;  /* of channels of dy, of x */
  int tiles[3], items, split_k; /* tiles of an image, of all images; blocks that share them */
  int corner[3], dilation;      /* position of tap 0 of pixel 0; along planes */
} falt_cuda_wgrad_sm90_halo_args;

#endif
