/* Arguments of the kernels of cuda-winograd: plain structs for the C compiler and NVRTC. */
#ifndef FALT_SOLVER_CUDA_WINOGRAD_CUDA_WINOGRAD_ARGS_H
#define FALT_SOLVER_CUDA_WINOGRAD_CUDA_WINOGRAD_ARGS_H

#include "args.h"

/* Strides of x, the filter, y and the residual count elements. x is the source: in dgrad it is dy, and y is dx. Axes
 * are in the order height, width. There is one matrix for each point of the transforms and each group; matrix p*groups
 * + g of v has a row for each tile, of u a row for each output channel, both with the source's channels contiguous. */
typedef struct falt_cuda_winograd_args {
  const float *x, *w;
  float *v, *u, *m, *y; /* transformed inputs, transformed filter, their products */
  const float *residual;
  long long x_image, x_plane, x_group, x_channel, x_axis[2];
  long long w_group, w_row, w_channel, w_axis[2];
  long long y_image, y_plane, y_group, y_channel, y_axis[2];
  long long r_image, r_plane, r_group, r_channel, r_axis[2];
  long long m_matrix, m_tile, m_row; /* strides of m: a tile's, an output channel's */
  long long tiles;                   /* of all images */
  int in[2], out[2], pad[2], boundary[2][2];
  int tile[2], planes, groups; /* tile: tiles of a plane, along its axes */
  int channels, depth;         /* of a group of the source; padded with zeros */
  int rows, u_rows;            /* output channels of a group; padded with zeros */
  int v_rows;                  /* tiles, padded with zeros */
  int filled;                  /* elements outside the source are the constant; 0: they are no terms */
  float fill;
  falt_cuda_epilogue epilogue;
} falt_cuda_winograd_args;

#endif
