/* Arguments of the kernels of cuda-winograd: plain structs for the C compiler and NVRTC. */
#ifndef FALT_SOLVER_CUDA_WINOGRAD_CUDA_WINOGRAD_ARGS_H
#define FALT_SOLVER_CUDA_WINOGRAD_CUDA_WINOGRAD_ARGS_H

#include "args.h"

/* Strides of x, the filter, y and the residual count elements. x is the source: in dgrad it is dy, and y is dx; in
 * wgrad y is dy, and w the result. Axes are in the order height, width. There is one matrix for each point of the
 * transforms and each group. Matrix p*groups + g of v has tiles by channels, of u output channels by channels, of d
 * output channels by tiles. */
typedef struct falt_cuda_winograd_args {
  const void *x;
  void *w, *y;
  void *v, *u, *d; /* the transforms of x, of the filter and of dy */
  float *m;        /* their products */
  const void *residual;
  const float *largest[2]; /* of transforms in f16: magnitudes of x; of output channels, or dy */
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

/* Pairs of channels of a block that stages them in shared memory: NEAR neighbours of its lanes by so many others. */
enum { FALT_WINOGRAD_NEAR = 32 };
#define FALT_WINOGRAD_OTHERS(taps) ((taps) <= 9 ? 32 : 8)

/* PARTS: of x and of dy; PIECE: elements of a line; SPLITS: parts of an output channel, where these are neighbours.
 * Sizes and strides of an operand, lines first; of output channels without their own. A block takes so many pieces, or
 * elements of 32 output channels. */
enum { FALT_WINOGRAD_PARTS = 512, FALT_WINOGRAD_PIECE = 1024, FALT_WINOGRAD_SPLITS = 8, FALT_WINOGRAD_DIMS = 6 };
typedef struct falt_cuda_winograd_largest_args {
  const void *data;
  float *largest;
  float least; /* a magnitude of the constant beyond the ends */
  int dims;
  long long size[FALT_WINOGRAD_DIMS], stride[FALT_WINOGRAD_DIMS];
  long long pieces, all_pieces;
  long long row, group; /* strides of output channels and groups */
  int rows, groups;
} falt_cuda_winograd_largest_args;

#endif
