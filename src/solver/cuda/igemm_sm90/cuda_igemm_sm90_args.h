/* Arguments of cuda_igemm_sm90.cu: plain structs for the C compiler and NVRTC. */
#ifndef FALT_SOLVER_CUDA_IGEMM_SM90_CUDA_IGEMM_SM90_ARGS_H
#define FALT_SOLVER_CUDA_IGEMM_SM90_CUDA_IGEMM_SM90_ARGS_H

#include "args.h"

/* One axis of a phase, depth, height or width. Of its `taps`, tap i is the filter's tap first + i * step, and lies
 * offset + i * offset_step from a pixel's own place; pixel j of `pixels` has its place at corner + j * stride. */
typedef struct falt_cuda_igemm_sm90_axis {
  int taps, first, step, offset, offset_step, corner, stride, pixels;
} falt_cuda_igemm_sm90_axis;

/* Outputs, or a residual, whose pixels are contiguous; strides count elements, innermost axis first, images last. */
typedef struct falt_cuda_lines {
  void *data;
  long long channel, stride[4];
} falt_cuda_lines;

/* Pixels whose taps are the same: all of them, or in gradients of strided layers those of one phase of the stride. */
typedef struct falt_cuda_igemm_sm90_phase {
  falt_cuda_map source; /* where taps are read */
  union {               /* where outputs go */
    falt_cuda_map out;
    falt_cuda_lines lines;
  };
  falt_cuda_igemm_sm90_axis axis[3];
  int pixels, row_tiles; /* row_tiles: a multiple of a cluster's blocks */
  int span[4];           /* how far 64 pixels are along each axis, innermost first, and in images */
} falt_cuda_igemm_sm90_phase;

typedef struct falt_cuda_igemm_sm90_args {
  falt_cuda_map other; /* the filter; of weight gradients those by the output */
  union {              /* what is added to outputs */
    falt_cuda_map residual;
    falt_cuda_lines residual_lines;
  };
  falt_cuda_epilogue epilogue;
  float *sums;             /* of weight gradients in split-K slices: split-K slices * rows * columns */
  long long clusters_work; /* tiles of all clusters */
  int channels;            /* of weight gradients: a tap's, without what fills its blocks up */
  int rows, columns;       /* of outputs; of weight gradients a tap has whole blocks of 64 columns */
  int column_tiles;
  int span_blocks; /* blocks of 64 channels: that are summed, or of weight gradients that a tap has */
  int place_tiles; /* of clusters: of one phase before the next one's, at so many places; then what is left of each */
  int places;
  int split_k, steps; /* where sums are cut: parts, steps of all of them */
  int image_pixels;   /* where pixels are contiguous: of an image of outputs, or of gradients by the output */
  int image_rows;     /* the same filled up to whole boxes of 64 */
  int kept;           /* whether the filter is the plan's own, so that nothing ahead in the stream writes it */
} falt_cuda_igemm_sm90_args;

/* What cuda_igemm_sm90_sum.cu adds, in fours of neighbouring columns: sums[split][row][column], a tap's channels in
 * whole blocks of 64 columns. `parts`: threads that share the split-K slices of a four, a power of 2. */
typedef struct falt_cuda_igemm_sm90_sum_args {
  const float *sums;
  falt_cuda_tensor w;
  unsigned fours, row_fours; /* of a split, of a row */
  int split_k, parts, tap_columns;
  float alpha;
} falt_cuda_igemm_sm90_sum_args;

#endif
