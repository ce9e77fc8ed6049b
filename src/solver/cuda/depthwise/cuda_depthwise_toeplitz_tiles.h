/* Tile shapes of the tensor-core depthwise kernels. Plain C, no GPU needed. cuda_depthwise_toeplitz.cu is the kernel.
 */
#ifndef FALT_SOLVER_CUDA_DEPTHWISE_CUDA_DEPTHWISE_TOEPLITZ_TILES_H
#define FALT_SOLVER_CUDA_DEPTHWISE_CUDA_DEPTHWISE_TOEPLITZ_TILES_H

#include "cuda/compile.h"
#include "solver/cuda/common/igemm.h"
#include "solver/cuda/common/tile_search.h"

/* Along height and width; taps and pads as of a correlation. */
typedef struct falt_depthwise_toeplitz_shape {
  int64_t images, channels; /* channels: of outputs */
  int64_t in[2], out[2];
  int taps[2], pad[2];
  bool inner;           /* NHWC; else NCHW */
  int x_align, y_align; /* columns of one copy in NCHW: 1, 2, 4 or 8 */
  bool finish;          /* scale, bias, residual or activation */
} falt_depthwise_toeplitz_shape;

/* Named after the kernel's parameters. */
typedef struct falt_depthwise_toeplitz_tile {
  int span, images, slab, segment, warps, stages, blocks, shared_bytes;
  int64_t tiles, parts; /* of the whole layer; of its channels */
  int64_t grid;
  double seconds;
} falt_depthwise_toeplitz_tile;

/* Why the kernel does not take the shape, or NULL. */
const char *falt_depthwise_toeplitz_refusal(const falt_depthwise_toeplitz_shape *shape);

/* Fills the kernel's parameters that say how a layer is cut, and its sizes. */
void falt_depthwise_toeplitz_defines(falt_cuda_kernel *kernel, const falt_depthwise_toeplitz_shape *shape,
                                     const falt_depthwise_toeplitz_tile *tile);

/* Calls visit for every tile that the kernel can take, with its estimate. */
void falt_depthwise_toeplitz_each(const falt_depthwise_toeplitz_shape *shape, const falt_machine *machine,
                                  falt_tile_search *search);
/* The best of them; false if there is none. */
bool falt_depthwise_toeplitz_choose(const falt_depthwise_toeplitz_shape *shape, const falt_machine *machine,
                                    falt_depthwise_toeplitz_tile *best);

/* ---- weight gradients, by cuda_depthwise_toeplitz_wgrad.cu or, where channels are contiguous,
 * cuda_depthwise_diagonals.cu: source and outputs are x and y */

typedef struct falt_depthwise_toeplitz_wgrad_tile {
  int span, images, slab; /* channels, images, rows of x that a block takes at once; planar: 1, some, all */
  int warps, blocks, shared_bytes;
  int64_t split_k, partial; /* of the images or their slabs; bytes of their sums */
  double seconds;
} falt_depthwise_toeplitz_wgrad_tile;

void falt_depthwise_toeplitz_wgrad_defines(falt_cuda_kernel *kernel, const falt_depthwise_toeplitz_shape *shape,
                                           const falt_depthwise_toeplitz_wgrad_tile *tile);
/* Cuts a tile's work into at most `most` split-K slices. False if the workspace has no room for one. */
bool falt_depthwise_toeplitz_wgrad_slice(const falt_depthwise_toeplitz_shape *shape, int64_t workspace, int64_t most,
                                         falt_depthwise_toeplitz_wgrad_tile *tile);
/* workspace: that may be used; negative: any. */
void falt_depthwise_toeplitz_wgrad_each(const falt_depthwise_toeplitz_shape *shape, const falt_machine *machine,
                                        int64_t workspace, falt_tile_search *search);
void falt_depthwise_diagonals_each(const falt_depthwise_toeplitz_shape *shape, const falt_machine *machine,
                                   int64_t workspace, falt_tile_search *search);
/* The best tile of the kernel that takes the order of the channels. */
bool falt_depthwise_toeplitz_wgrad_choose(const falt_depthwise_toeplitz_shape *shape, const falt_machine *machine,
                                          int64_t workspace, falt_depthwise_toeplitz_wgrad_tile *best);

#endif
