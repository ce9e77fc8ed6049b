/* Arguments of cuda_running_sums.cu: plain structs for the C compiler and NVRTC. */
#ifndef FALT_SOLVER_CUDA_RUNNING_SUMS_CUDA_RUNNING_SUMS_ARGS_H
#define FALT_SOLVER_CUDA_RUNNING_SUMS_CUDA_RUNNING_SUMS_ARGS_H

/* Sizes and strides count elements. A row is a line of interleaved elements. The axes are planes (one tap), rows (down)
 * and columns (along); there are two batch dimensions. */
typedef struct falt_cuda_running_args {
  const void *x;
  void *y;
  long long x_plane, x_row, x_batch[2], y_plane, y_row, y_batch[2];
  int in[3], out[3];                          /* columns: elements of a row, channels included */
  int plane_pad, plane_stride;                /* plane o of the output reads plane o*stride - pad */
  int plane_boundary[2];                      /* of planes beyond the ends */
  int strips, bands;                          /* of a row; of a column */
  int strip, band;                            /* outputs: elements of a row; rows */
  unsigned batch;                             /* size of the inner batch dimension */
  unsigned tasks;                             /* strips * bands * planes * batches */
  int x_aligned, y_aligned;                   /* pointers and strides allow vectors of VECTOR elements */
  double fill, weight, end[2], scale, offset; /* end: of the first and last tap of a column, of a row; see below */
} falt_cuda_running_args;

#endif
