/* Arguments of cuda_igemm_sm90_halo.cu. Axes are in the order planes, rows, columns; strides count elements. */
#ifndef FALT_SOLVER_CUDA_IGEMM_SM90_CUDA_IGEMM_SM90_HALO_ARGS_H
#define FALT_SOLVER_CUDA_IGEMM_SM90_CUDA_IGEMM_SM90_HALO_ARGS_H

#include "args.h"

typedef struct falt_cuda_igemm_sm90_halo_args {
  falt_cuda_map source; /* windows of it */
  falt_cuda_map result; /* where it leaves by boxes: two rows of 16 pixels */
  falt_cuda_epilogue epilogue;
  const void *x, *filter; /* the source as it lies; the filter's first element */
  void *y;
  const void *residual;
  long long w_result, w_channel, w_axis[3];
  long long x_image, x_axis[3], y_image, y_axis[3], r_image, r_axis[3]; /* axis: to the layer's next pixel */
  long long y_spot[3], y_channel, r_channel;                            /* spot: to the next pixel of a step */
  int w_first[3], w_pace[3], w_taps[3]; /* of a step's pixel e the layer's tap i is the filter's first + e + i * pace */
  int channels, results;                /* that are summed; of the layer */
  int w_lines;                          /* eight summed channels are a word of 16 bytes in memory */
  int in[3], out[3], corner[3];         /* of the source, of the layer; where tap 0 of output 0 reads */
  int size[3], shift[3];                /* pixels of the output; by how many the first step begins outside */
  int tiles[2], walk, walks;            /* tiles along rows and columns; planes of a walk; walks along the planes */
  int column_tiles;                     /* of outputs' channels */
  int kept;                             /* the filter is the plan's own: nothing ahead in the stream writes it */
  int items;                            /* tiles of all images, each with all its walks */
} falt_cuda_igemm_sm90_halo_args;

/* What it passes to cuda_wgrad_sm90_halo.cu. */
typedef struct falt_cuda_wgrad_sm90_halo_args {
  falt_cuda_map x, y;           /* windows of x, tiles of dy */
  float *sums;                  /* split-K slices * rows * taps * tap_columns */
  int rows, tap_columns;        /* channels of dy; those of x, in whole spans */
  int row_tiles, column_tiles;  /* of channels of dy, of x */
  int tiles[3], items, split_k; /* tiles of an image, of all images; blocks that share them */
  int corner[3], dilation;      /* where tap 0 of pixel 0 reads; from plane to plane of taps */
} falt_cuda_wgrad_sm90_halo_args;

#endif
