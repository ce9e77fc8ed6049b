/* Arguments of cuda_grouped.cu: plain structs for the C compiler and NVRTC. */
#ifndef FALT_SOLVER_CUDA_IGEMM_SM80_CUDA_GROUPED_ARGS_H
#define FALT_SOLVER_CUDA_IGEMM_SM80_CUDA_GROUPED_ARGS_H

#include "args.h"

/* Channels of all groups are contiguous. Axes are in the order height, width. Strides of x count bytes, all others
 * elements. w is the address of the first tap in the order in which the kernel multiplies them. */
typedef struct falt_cuda_grouped_args {
  const void *x, *w;
  void *y;
  const void *residual;
  long long x_image, y_image, y_axis[2], r_image, r_group, r_channel, r_axis[2];
  long long w_group, w_row, w_channel, w_axis[2];
  int x_axis[2];
  int in[2], out[2], first[2]; /* first: position of the first output's first tap */
  int tiles[2], all_tiles;     /* along height and width; of all images */
  int parts;                   /* along channels; the blocks of a part take its tiles round robin */
  int sources, results;        /* channels of all groups */
  int first_call;              /* first launch of an execution; later ones do not depend on it */
  falt_cuda_epilogue epilogue;
} falt_cuda_grouped_args;

#endif
