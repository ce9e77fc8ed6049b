/* Arguments of kernels of several families: plain structs for the C compiler and NVRTC. */
#ifndef FALT_CUDA_DEVICE_ARGS_H
#define FALT_CUDA_DEVICE_ARGS_H

/* A tensor with its first logical element at data; type and boundaries are the numbers of the public enumerations. */
typedef struct falt_cuda_tensor {
  void *data;
  long long size[6], stride[6];
  int type;
} falt_cuda_tensor;

/* A tensor as TMA sees it: CUtensorMap. */
typedef struct falt_cuda_map {
  unsigned long long word[16];
} __attribute__((aligned(64))) falt_cuda_map;

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
  int factors; /* w is so many terms of one factor an axis, dense, backwards where its stride is negative; 0: taps */
  long long pool[3]; /* the pooling window, in outputs of the layer */
} falt_cuda_generic_args;

/* Arguments of im2col: the patches of some images as matrices. */
typedef struct falt_cuda_im2col_args {
  falt_cuda_tensor x;
  void *columns;
  falt_cuda_axis axis[3];
  unsigned out[3], taps[3], images, groups, channels;
  long long positions, depth, count; /* of an image; of a matrix; elements of all matrices */
  unsigned long long fill;           /* the boundary's constant, as bits of an element */
} falt_cuda_im2col_args;

/* The operands of filters by register tiles. A row is a line of interleaved elements, rows form planes; sizes and
 * strides count elements; axes are in the order planes, rows, columns. There are two batch dimensions. The taps follow
 * as a second parameter, an array of the accumulator's type. The windows of the inner box's tiles are inside the image;
 * the frame is around it. */
typedef struct falt_cuda_tile_args {
  const void *x;
  void *y;
  long long x_plane, x_row, x_batch[2], y_plane, y_row, y_batch[2];
  int in[3], out[3];
  int tiles[3], begin[3], end[3]; /* that cover the image; the box of inner ones */
  int blocks[3];                  /* that cover the box */
  int frame_blocks, all_blocks;   /* of an image */
  int planes;                     /* 2.5D blocking: of a block; blocks cover the image */
  unsigned lines;                 /* rows: of all images */
  int aligned;                    /* pointers allow vectors */
  int batch;                      /* size of the inner batch dimension */
  double alpha, beta, fill;
} falt_cuda_tile_args;

/* The operands of the Toeplitz kernel. Columns count elements of a row, channels included; sizes and strides count
 * elements.
 */
typedef struct falt_cuda_toeplitz_args {
  const void *x;
  void *y;
  const void *bands; /* the filter as src/solver/cuda/toeplitz/cuda_toeplitz_tiles.c lays it out */
  const void *start; /* four words: the start value of integer sums */
  const float *taps; /* unsplit, for windows with elements that are not finite */
  long long x_row, x_plane, x_batch[2], y_row, y_plane, y_batch[2];
  int in_columns, in_rows, in_planes;
  int out_columns, out_rows, out_planes;
  int batch;                       /* size of the inner batch dimension */
  int column_tiles, row_tiles;     /* of a warp; row_tiles: between the edges */
  int end_columns, end_rows;       /* edge tiles: those at the ends of rows; parts of each along the column */
  int all_steps, steps, end_steps; /* downwards: of the image, of a warp, of a warp at the edges */
  long long images, tiles;         /* planes of all images; tiles of the whole launch */
  int aligned_x, aligned_y;        /* rows in, out allow vector access */
  unsigned fill;                   /* the boundary's constant, as bits of an element */
  float alpha, beta;               /* alpha: factor of the sums, includes the taps' unit; see also weight */
  float weight[3];                 /* of the sums of each part, where these are floats; beta takes their start off */
  float scale;                     /* alpha for sums of the taps as they are */
  long long x_block, y_block;      /* bytes of four rows */
} falt_cuda_toeplitz_args;

enum { FALT_CUDA_BANDED_RING = 4 /* blocks of four rows that a warp has in flight */ };

/* The operands of cuda_tiled.cu. Sizes and strides count elements; strides of the taps and of their batches (w_batch)
 * count bytes. Batches are images, groups of channels, and outputs of a group. */
typedef struct falt_cuda_tiled_args {
  const void *x, *w;
  void *y;
  long long x_row, x_plane, x_batch[2], y_row, y_plane, y_batch[3], w_tap[3], w_batch[2];
  int in_columns, in_rows, in_planes; /* columns: elements of a row, channels included */
  int out_columns, out_rows, out_planes;
  int taps[3], pad[3], boundary[3][2];                   /* along planes, rows, columns; pad[2] in elements of a row */
  int tile_elements, buffer_elements;                    /* shared memory: of a tile, of a tile with its taps */
  int column_blocks, row_blocks, plane_blocks, batch[2]; /* batch: outputs of a group, groups */
  int x_aligned, y_aligned;                              /* pointers and strides allow vector access */
  int walk;                                              /* result planes of a walk */
  double fill;
  falt_cuda_epilogue epilogue;
  falt_cuda_tensor residual;
} falt_cuda_tiled_args;

/* The operands of layers of few channels. Only the strides of the tensors are used; the sizes are the fields below. */
typedef struct falt_cuda_direct_nchw_args {
  falt_cuda_tensor x, w, y;
  int in[2], out[2], pad[2], boundary[2][2]; /* along rows, columns */
  int filters, groups;                       /* filters of a group */
  int aligned;                               /* results may be written by words */
  int kept;                                  /* the plan owns the filter: no preceding kernel writes it */
  float fill;
  falt_cuda_epilogue epilogue;
} falt_cuda_direct_nchw_args;

/* The operands of pooling and its gradients. Threads are numbered along channels (by vectors), columns, rows, images.
 */
typedef struct falt_cuda_pooling_args {
  falt_cuda_tensor x, y; /* the input, the output */
  void *to;              /* the result, laid out as one of them */
  unsigned channels, columns, rows, threads;
  int pad[2][2];          /* along rows, columns */
  int count_pad, aligned; /* aligned: vectors may be read and written */
} falt_cuda_pooling_args;

/* One GEMM of cuda_igemm.cu: all outputs, or those of one polyphase part of a dgrad. Tap i of output q along an axis
 * reads position q*step + first + i*delta of the source. */
typedef struct falt_cuda_igemm_polyphase {
  long long b, y;         /* where its filter begins, in bytes, and its results, in elements */
  int out[3], pixels;     /* results along the axes; all of them, images included */
  unsigned reciprocal[3]; /* of out, for division: n/out = n*reciprocal >> shift, for n < 2^31 */
  int shift[3];
  int first[3], delta[3], taps[3];
  int from[3], pace[3]; /* tap i is tap from + i*pace of the filter */
  int table, steps;     /* the first entry of its depth; a tile's steps along the depth */
  int begin, apart;     /* its pixels are begin, begin + apart, ... along the axes */
  int group;            /* its groups are group, group + group_apart, ... */
  int lead;             /* with spans: bytes between a multiple of 16 and its pixels' first positions */
} falt_cuda_igemm_polyphase;

/* An entry of the GEMM depth: some channels of one tap. Either the offset from an output's first position in bytes with
 * the bits of the taps that must be inside the source, or the channel in bytes and the tap's position along each axis.
 */
typedef struct falt_cuda_igemm_entry {
  int delta;
  unsigned bits;
} falt_cuda_igemm_entry;
typedef struct falt_cuda_igemm_place {
  int channel, at[3];
} falt_cuda_igemm_place;

/* In the bits of an entry and of a result: one for each tap of each axis, then these. */
enum { FALT_CUDA_IGEMM_BITS = 29 };
#define FALT_CUDA_IGEMM_ONE (1u << FALT_CUDA_IGEMM_BITS) /* of an entry: not an element but a one, and then zeros */
#define FALT_CUDA_IGEMM_EXISTS (1u << 30)                /* the result */
#define FALT_CUDA_IGEMM_NOWHERE (1u << 31)               /* no result has it: beyond the depth */
/* With spans an entry is 16 aligned bytes, which may start before a tap's channels and end after them. Fewer bits
 * remain for taps: four bits count the bytes before the channels, and four the bytes up to their end, less one. */
enum { FALT_CUDA_IGEMM_SPAN_BITS = 21, FALT_CUDA_IGEMM_HEAD = 21, FALT_CUDA_IGEMM_END = 25 };
/* The same for positions; no offset of a channel is as long, of either sign. */
enum { FALT_CUDA_IGEMM_NO_CHANNEL = -2147483647 - 1, FALT_CUDA_IGEMM_ONES = -2147483647 };

/* The source of windows, in pieces; strides count bytes. */
typedef struct falt_cuda_igemm_source {
  const void *data, *table;
  const void *fill, *one;                      /* pieces: the boundary's constant; a one and then zeros */
  long long image, group, axis[3], channel;    /* axis: to the next position */
  int in[3], step[3], boundary[3][2], aligned; /* aligned: pieces are */
} falt_cuda_igemm_source;

/* The gemm kernel's operands; strides of y and of the residual count elements. */
typedef struct falt_cuda_igemm_args {
  falt_cuda_igemm_source source;
  const void *b;
  long long b_low;                             /* from there to the low parts of b, in bytes */
  void *y, *partial;                           /* partial: the sums of split-K slices */
  const falt_cuda_igemm_polyphase *polyphases; /* of several; of one, that below */
  falt_cuda_igemm_polyphase polyphase;
  long long y_image, y_group, y_axis[3], y_channel, r_image, r_group, r_axis[3], r_channel;
  int groups, group_apart;     /* of a polyphase part */
  int channels, channel_tiles; /* of results, of a group */
  int split_k, slice_steps;    /* of the depth */
  int y_aligned;               /* vectors are */
  int b_known;                 /* b exists before the first kernel of an execution starts */
  falt_cuda_epilogue epilogue;
  const void *residual;
} falt_cuda_igemm_args;

/* The packing of a filter: row n of a group holds, for each tap, the factors of the source's channels. Strides count
 * elements. Groups are merged, with zeros between channels of different groups. */
typedef struct falt_cuda_igemm_pack_args {
  const void *w;
  void *b;
  const falt_cuda_igemm_polyphase *polyphases;
  falt_cuda_igemm_polyphase polyphase;
  long long w_group, w_row, w_channel, w_axis[3];
  int rows, channels; /* of a group, before groups are merged */
  int merged;         /* merged groups, with zeros between channels of different groups */
  int group_apart;    /* strides between the taps of a polyphase part */
  int span;           /* elements of a tap: its channels, or more if aligned words contain others before them */
  int lead_step[3];   /* bytes between neighbouring taps, along the axes */
  int step_bytes;     /* of a row, a step along the depth */
  long long low;      /* where the low parts of words begin, in bytes; 0: words stay whole */
} falt_cuda_igemm_pack_args;

/* The operands of weight gradients. */
typedef struct falt_cuda_igemm_wgrad_args {
  falt_cuda_igemm_source y, x;
  falt_cuda_igemm_polyphase y_polyphase, x_polyphase; /* of the pixels, with the taps that each factor has */
  float *partial;                                     /* sums of each split-K slice; NULL: there is one split-K slice */
  int tile[2], row_tiles, column_tiles, split_k, slice_steps, groups;
  int parts; /* of the split-K slices, that cuda_wgrad_sum.cu sums beside each other: 2 to this power, up to 8 */
  int rows, channels, merged; /* of a group before groups are merged: of the result, of the source */
  int taps[3], columns;       /* columns: of merged groups, with that of the bias */
  void *w, *bias;             /* bias: of the sums' type; NULL: none */
  long long w_group, w_row, w_channel, w_axis[3]; /* elements */
  double alpha;
} falt_cuda_igemm_wgrad_args;

/* The operands of depthwise layers. The source is x; in dgrad it is dy, and the output is dx; wgrad reads x and y.
 * Strides count elements. Channels are those of outputs: with a multiplier several of them read one channel of the
 * source. */
typedef struct falt_cuda_depthwise_args {
  const void *x, *w;
  void *y, *partial;    /* partial: sums of a gradient's split-K slices; NULL: there is one split-K slice */
  const void *residual; /* NULL: none */
  long long x_image, x_channel, x_next, x_plane; /* next: to the next channel of one group */
  long long y_image, y_channel, y_next, y_plane, r_image, r_channel, r_next, r_axis[3];
  long long w_channel, w_next, w_axis[3];
  unsigned tiles, split_k; /* tiles of all results; of one channel where the filter has the gradient */
  double fill;
  falt_cuda_epilogue epilogue;
} falt_cuda_depthwise_args;

/* Bytes of taps that the constant bank holds beside these, of the 4 KB that every GPU has for parameters. */
enum { FALT_CUDA_TAP_BYTES = 3840 };

#endif
