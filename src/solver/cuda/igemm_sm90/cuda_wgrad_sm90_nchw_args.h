/* Arguments of cuda_wgrad_sm90_nchw.cu. Strides count elements; the pixels of a row are contiguous. */
#ifndef FALT_SOLVER_CUDA_IGEMM_SM90_CUDA_WGRAD_SM90_NCHW_ARGS_H
#define FALT_SOLVER_CUDA_IGEMM_SM90_CUDA_WGRAD_SM90_NCHW_ARGS_H

typedef struct falt_cuda_planar_tensor {
  const void *data; /* its first element */
  long long image, channel, plane, row;
} falt_cuda_planar_tensor;

typedef struct falt_cuda_wgrad_sm90_nchw_args {
  falt_cuda_planar_tensor x, y;   /* y: dy */
  float *sums;                    /* split-K slices * rows * taps * tap_columns */
  int rows, columns, tap_columns; /* channels of y; of x; of x in whole spans */
  int row_tiles, column_tiles;    /* spans of channels of y, of x */
  int images, depth, height;      /* planes and rows of an image */
  int taps_d, dilation, pad;      /* tap planes, their distance, planes before the first */
  int stages, split_k;            /* of the rows of all images; split-K slices of them */
} falt_cuda_wgrad_sm90_nchw_args;

#endif
