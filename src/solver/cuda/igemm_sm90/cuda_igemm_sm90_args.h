/* Arguments of cuda_igemm_sm90.cu: plain structs for the C compiler and NVRTC. */
#ifndef FALT_SOLVER_CUDA_IGEMM_SM90_CUDA_IGEMM_SM90_ARGS_H
#define FALT_SOLVER_CUDA_IGEMM_SM90_CUDA_IGEMM_SM90_ARGS_H

#include "args.h"

/* One axis of a polyphase part, depth, height or width. Of its `taps`, tap i is tap first + i * step of the filter and
 * reads at offset + i * offset_step from the position of a pixel. Pixel j of `pixels` has position corner + j * stride.
 */
typedef struct falt_cuda_igemm_sm90_axis {
  int taps, first, step, offset, offset_step, corner, stride, pixels;
} falt_cuda_igemm_sm90_axis;

/* An NCHW output or residual; strides count elements, innermost axis first, images last. */
typedef struct falt_cuda_lines {
  void *data;
  long long channel, stride[4];
} falt_cuda_lines;

/* Pixels with the same taps: all of them, or in a strided dgrad those of one polyphase part. */
typedef struct falt_cuda_igemm_sm90_polyphase {
  falt_cuda_map source; /* the operand that taps read */
  union {               /* the output */
    falt_cuda_map out;
    falt_cuda_lines lines;
  };
  falt_cuda_igemm_sm90_axis axis[3];
  int pixels, row_tiles; /* row_tiles: a multiple of a cluster's blocks */
  int span[4];           /* advance of 64 pixels along each axis, innermost first, and in images */
} falt_cuda_igemm_sm90_polyphase;

typedef struct falt_cuda_igemm_sm90_args {
  falt_cuda_map other; /* the filter; in wgrad dy */
  union {              /* the residual */
    falt_cuda_map residual;
    falt_cuda_lines residual_lines;
  };
  falt_cuda_epilogue epilogue;
  float *sums;             /* wgrad: split-K slices * rows * columns */
  long long clusters_work; /* tiles of all clusters */
  int channels;            /* wgrad: channels of a tap, without padding */
  int rows, columns;       /* of outputs; in wgrad a tap has whole blocks of 64 columns */
  int column_tiles;
  int span_blocks; /* blocks of 64 channels: of the depth; in wgrad of a tap */
  int place_tiles; /* of clusters: tiles of one polyphase part before the next one's, at so many places; then the rest
                    */
  int places;
  int split_k, steps; /* split-K slices, and steps of all of them */
  int image_pixels;   /* NCHW: pixels of an image of the output, or of dy */
  int image_rows;     /* the same, padded to whole boxes of 64 */
  int kept;           /* the plan owns the filter: no preceding kernel writes it */
} falt_cuda_igemm_sm90_args;

/* Arguments of cuda_igemm_sm90_sum.cu, which adds groups of four neighbouring columns of sums[split][row][column], with
 * a tap's channels in whole blocks of 64 columns. `parts`: threads that share the slices of a four, a power of 2. */
typedef struct falt_cuda_igemm_sm90_sum_args {
  const float *sums;
  falt_cuda_tensor w;
  unsigned fours, row_fours; /* of a split, of a row */
  int split_k, parts, tap_columns;
  float alpha;
} falt_cuda_igemm_sm90_sum_args;

#endif
