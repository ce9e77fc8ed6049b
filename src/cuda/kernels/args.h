/* What the host passes to the kernels: plain structs, read by the C compiler and by NVRTC alike. */
#ifndef FALT_CUDA_KERNELS_ARGS_H
#define FALT_CUDA_KERNELS_ARGS_H

/* A tensor with its first logical element at data; type and boundaries are the numbers of the public enumerations. */
typedef struct falt_cuda_tensor {
  void *data;
  long long size[6], stride[6];
  int type;
} falt_cuda_tensor;

typedef struct falt_cuda_axis {
  long long stride, dilation, pad[2];
  int boundary[2];
} falt_cuda_axis;

/* y = act(alpha * scale[channel] * sum + (bias[channel] + beta) + residual) */
typedef struct falt_cuda_epilogue {
  double alpha, beta, act_a, act_b;
  void *scale, *bias; /* f64 if the output is, else f32; NULL: none */
  int vector_type, activation;
} falt_cuda_epilogue;

typedef struct falt_cuda_generic_args {
  falt_cuda_tensor x, w, y, residual; /* residual.data NULL: none */
  falt_cuda_axis axis[3];
  falt_cuda_epilogue epilogue;
  double boundary_value;
  int count_pad;
  long long pool[3]; /* a result is the largest of so many neighbours */
} falt_cuda_generic_args;

/* The operands of filters by register tiles. A row is a line of interleaved elements, rows form planes; sizes and
 * strides count elements, axes stand in the order planes, rows, columns. Two batch dimensions. The taps follow as a
 * second parameter, an array of the sums' type. Windows of the inner box's tiles lie inside the image; around it lies
 * the frame. */
typedef struct falt_cuda_tile_args {
  const void *x;
  void *y;
  long long x_plane, x_row, x_batch[2], y_plane, y_row, y_batch[2];
  int in[3], out[3];
  int tiles[3], begin[3], end[3]; /* that cover the image; the box of inner ones */
  int blocks[3];                  /* that cover the box */
  int frame_blocks, all_blocks;   /* of an image */
  int aligned;                    /* pointers allow vectors */
  int batch;                      /* size of the inner batch dimension */
  double alpha, beta, fill;
} falt_cuda_tile_args;

/* The banded kernel's operands. Columns count elements of a row, channels included; sizes and strides count elements.
 */
typedef struct falt_cuda_banded_args {
  const void *x;
  void *y;
  const void *bands; /* the filter as src/cuda/bands.c lays it out */
  const float *taps; /* as they are, for windows that hold what is not finite */
  long long x_row, x_plane, x_batch[2], y_row, y_plane, y_batch[2];
  int in_columns, in_rows, in_planes;
  int out_columns, out_rows, out_planes;
  int column_tiles, row_tiles, batch; /* tiles of a warp; batch: size of the inner batch dimension */
  long long tiles;                    /* of the whole launch */
  int aligned_x, aligned_y;           /* rows in, out allow vector access */
  unsigned fill;                      /* the boundary's constant, as bits of an element */
  float alpha, beta;                  /* alpha: of the sums as they come, the taps' unit in it */
  float scale;                        /* alpha for sums of the taps as they are */
} falt_cuda_banded_args;

/* The blocked kernel's operands: sizes and strides count elements, those of the taps and of their batches (w_batch)
 * bytes. Batches are images, groups of channels, outputs of a group. */
typedef struct falt_cuda_blocked_args {
  const void *x, *w;
  void *y;
  long long x_row, x_plane, x_batch[2], y_row, y_plane, y_batch[3], w_tap[3], w_batch[2];
  int in_columns, in_rows, in_planes; /* columns: elements of a row, channels included */
  int out_columns, out_rows, out_planes;
  int taps[3], pad[3], boundary[3][2];                   /* along planes, rows, columns; pad[2] in elements of a row */
  int tile_elements, buffer_elements;                    /* shared memory: of a tile, of a tile with its taps */
  int column_blocks, row_blocks, plane_blocks, batch[2]; /* batch: outputs of a group, groups */
  int x_aligned, y_aligned;                              /* pointers and strides allow vector access */
  int sweep;                                             /* result planes of a walk */
  double fill;
  falt_cuda_epilogue epilogue;
  falt_cuda_tensor residual;
} falt_cuda_blocked_args;

/* Bytes of taps that the constant bank holds beside these, of the 4 KB that every GPU has for parameters. */
enum { FALT_CUDA_TAP_BYTES = 3840 };

#endif
