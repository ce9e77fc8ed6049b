/* Arguments of the kernels of cuda-winograd: plain structs for the C compiler and NVRTC. */
#ifndef FALT_SOLVER_CUDA_WINOGRAD_CUDA_WINOGRAD_ARGS_H
#define FALT_SOLVER_CUDA_WINOGRAD_CUDA_WINOGRAD_ARGS_H

#include "args.h"

/* Strides of x, the filter, y and the residual count elements. x is the source: in dgrad it is dy, and y is dx; in
 * wgrad y is dy, and w the result. Axes are in the order height, width. There is one matrix for each point of the
 * transforms and each group. Matrix p*groups + g of v has tiles by channels, of u output channels by channels, of d
 * output channels by tiles. */
typedef struct falt_cuda_winograd_args {
  const float *x;
  float *w, *y;
  float *v, *u, *d, *m; /* the transforms of x, of the filter and of dy; their products */
  const float *residual;
  long long x_image, x_plane, x_group, x_channel, x_axis[2];
  long long w_group, w_row, w_channel, w_axis[2];
  long long y_image, y_plane, y_group, y_channel, y_axis[2];
  long long r_image, r_plane, r_group, r_channel, r_axis[2];
  long long v_matrix, v_tile, v_channel; /* strides of v */
  long long m_matrix, m_row, m_column;   /* strides of m: an output channel's; a tile's, in wgrad a channel's */
  long long tiles, images;               /* tiles: of all images */
  int in[2], out[2], pad[2], boundary[2][2];
  int tile[2], planes, groups; /* tile: tiles of a plane, along its axes */
  int channels, rows;          /* of a group: of the source, of outputs */
  int v_tiles, v_channels;     /* tiles and channels, padded with zeros */
  int u_rows;                  /* output channels, padded with zeros */
  int filled;                  /* elements outside the source are the constant; 0: they are no terms */
  float fill;
  falt_cuda_epilogue epilogue;
} falt_cuda_winograd_args;

#endif
