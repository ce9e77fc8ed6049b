/* Arguments of cuda_fft.cu: plain structs for the C compiler and NVRTC. */
#ifndef FALT_SOLVER_CUDA_FFT_CUDA_FFT_ARGS_H
#define FALT_SOLVER_CUDA_FFT_CUDA_FFT_ARGS_H

#include "args.h"

/* Axes are in the order depth, height, width. Strides count elements. Batches are images, groups of channels, and
 * outputs of a group. */
typedef struct falt_cuda_fft_args {
  const void *x, *w;
  void *y;
  void *spectra;        /* of each filter, of each of its parts: by slot, by thread */
  void *about;          /* falt_cuda_fft_filter of each filter */
  const void *twiddles; /* see falt_fft_tile_twiddles */
  unsigned char *sums;  /* of each pair of tiles: 1 if they are summed tap by tap */
  long long x_axis[3], x_batch[2], y_axis[3], y_batch[3], w_axis[3], w_batch[2];
  long long in[3], out[3], pad[3], stride[3], dilation[3], taps[3];
  long long shift[3];     /* points before the first that an output reads */
  long long part_taps[3]; /* of a part of the filter, along each axis */
  int parts[3];           /* of the filter */
  int boundary[3][2];
  long long block[3], tiles[3]; /* outputs of a tile; tiles of an image */
  long long images, boxes;      /* images of a filter; tiles of a filter, in all of them */
  unsigned image_boxes;         /* tiles of a filter in one image */
  unsigned pairs, all_pairs;    /* pairs of tiles of a filter; of all filters */
  int groups, filters;          /* filters: outputs of a group */
  int one_filter;               /* all channels share it */
  /* Spectra of tiles that are kept (cuda_fft_kept.cu); without: one segment and one step. Tiles along AXIS are cut into
   * segments of `steps` tiles, which read `inputs` tiles of the input. Pairs of such lines are strands. */
  void *kept, *products;          /* of each strand of a launch: spectra of `inputs` tiles; `steps` sums of products */
  unsigned char *bad;             /* of each strand of a launch, of each of its inputs: 1 if it is not transformed */
  unsigned strand_pairs;          /* strands of a filter */
  long long w_image;              /* wgrad: between the images of dy, which are the taps */
  unsigned first_strand, strands; /* of a launch */
  unsigned steps, inputs, segments; /* segments: of an axis */
  double fill;
  falt_cuda_epilogue epilogue;
  falt_cuda_tensor residual;
} falt_cuda_fft_args;

/* A filter's taps are multiplied by 2^-exponent before they are transformed. */
typedef struct falt_cuda_fft_filter {
  double weight; /* sum of the magnitudes of the taps so multiplied; infinite or NaN where one is not finite */
  int exponent;
} falt_cuda_fft_filter;

#endif
