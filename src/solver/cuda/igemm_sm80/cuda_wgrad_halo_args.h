/* Arguments of cuda_wgrad_halo.cu: plain structs for the C compiler and NVRTC. */
#ifndef FALT_SOLVER_CUDA_IGEMM_SM80_CUDA_WGRAD_HALO_ARGS_H
#define FALT_SOLVER_CUDA_IGEMM_SM80_CUDA_WGRAD_HALO_ARGS_H

/* y: dy, x: the input. Axes are in the order depth, height, width; strides count bytes. A group is all groups that were
 * merged into it. Blocks along the grid's x are parts: a tap along depth, some tap rows, some channels, some rows,
 * SLABS groups, the first fastest. */
typedef struct falt_cuda_wgrad_halo_args {
  const void *y, *x;
  float *partial; /* sums[group][slice][row][column] */
  long long y_image, y_plane, x_image, x_plane;
  int y_row, y_column, y_group, x_row, x_column, x_group;
  int in[3], out[3];
  int step, first, delta; /* tap t of outputs' plane d reads plane d * step + first + t * delta */
  int pad[2];
  int tiles[2], all_tiles, slice_tiles, split_k; /* tiles along height and width, of all images, of a split-K slice */
  int parts[4];                                  /* taps along depth, parts of tap rows, of channels, of rows */
  int rows, channels;
  int columns;  /* taps by channels; two more for the bias gradient */
  int tap_rows; /* taps along height, of all parts */
} falt_cuda_wgrad_halo_args;

#endif
