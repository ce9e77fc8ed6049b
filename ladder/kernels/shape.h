/* Arguments of the ladder's kernels: plain structs for the C compiler and NVRTC. */
#ifndef FALT_LADDER_KERNELS_SHAPE_H
#define FALT_LADDER_KERNELS_SHAPE_H

/* A signal, an image or a volume: elements from row to row are the pitch, planes follow each other. */
typedef struct ladder_size {
  int depth, height;
  long long width, pitch;
} ladder_size;

/* A network layer: dense images of `channels`, dense results of `filters`. */
typedef struct ladder_layer_size {
  int channels, height, width;
  int filters, out_height, out_width;
  int pooled_height, pooled_width;
  long long count; /* results of the convolution */
} ladder_layer_size;

/* Taps as a kernel's argument are in the constant bank, like a __constant__ variable: it has its own cache, and one
 * read serves a whole warp. 4 KB hold them beside the other arguments. */
enum { LADDER_MOST_TAPS = 1000 };

/* Rows and columns of a product of matrices that a block makes. */
enum { LADDER_PRODUCT_SIDE = 64 };

#endif
