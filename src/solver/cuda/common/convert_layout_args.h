/* Arguments of convert_layout.cu and pad_channels.cu: plain structs for the C compiler and NVRTC. */
#ifndef FALT_SOLVER_CUDA_COMMON_CONVERT_LAYOUT_ARGS_H
#define FALT_SOLVER_CUDA_COMMON_CONVERT_LAYOUT_ARGS_H

/* An NCHW tensor, as lines of pixels of each channel, and its NHWC destination: line after line, pixel after pixel,
 * each of `pitch` elements. Or an NHWC tensor, as rows of another pitch. Strides count elements. */
typedef struct falt_cuda_copy {
  const void *from;
  void *to;
  long long channel, line[3]; /* from a channel to the next; lines have up to three axes, the last the fastest */
  unsigned lines[3], pixels, channels, pitch;
  unsigned pixel; /* where channels are contiguous: from a pixel to the next; else 0 */
  int unit;       /* bytes that one load fetches: they divide all addresses and lengths of lines */
  int side;       /* squares that are contiguous along the channels in a block, a power of two, 32 at most */
  int whole;      /* whole vectors may be stored, including padding: 16 bytes of a pixel; of rows 4 bytes */
  unsigned columns, line_blocks, blocks; /* blocks along the channels; of a line; of all lines */
  unsigned rows;                         /* pixels of a block where channels are contiguous: 4 divides them */
} falt_cuda_copy;

enum { FALT_CUDA_COPIES = 2, FALT_CUDA_COPY_THREADS = 256 };

/* Two tensors in one launch: the blocks of the first, then those of the second, which may have none. */
typedef struct falt_cuda_copy_args {
  falt_cuda_copy copy[FALT_CUDA_COPIES];
} falt_cuda_copy_args;

#endif
