/* Arguments of cuda_grouped.cu: plain structs for the C compiler and NVRTC. */
#ifndef FALT_SOLVER_CUDA_IGEMM_SM80_CUDA_GROUPED_ARGS_H
#define FALT_SOLVER_CUDA_IGEMM_SM80_CUDA_GROUPED_ARGS_H

#include "args.h"

/* Channels of all groups are contiguous. Axes stand in the order height, width. Strides of x count bytes, all others
 * elements; w is at the first tap in the order in which x meets them. */
typedef struct falt_cuda_grouped_args {
  const void *x, *w;
  void *y;
  const void *residual;
  long long x_image, y_image, y_axis[2], r_image, r_group, r_channel, r_axis[2];
  long long w_group, w_row, w_channel, w_axis[2];
  int x_axis[2];
  int in[2], out[2], first[2]; /* first: where the first output has its first tap */
  int tiles[2], all_tiles;     /* along height and width; of all images */
  int parts;                   /* along channels; tiles of a part are dealt out to its blocks in turns */
  int sources, results;        /* channels of all groups */
  int first_call;              /* of an execution; others need nothing of those before */
  falt_cuda_epilogue epilogue;
} falt_cuda_grouped_args;

#endif
