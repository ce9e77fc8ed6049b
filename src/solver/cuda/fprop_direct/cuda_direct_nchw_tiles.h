/* Tile shapes of cuda_direct_nchw.cu. Enumerates all tiles, rejects the illegal ones with a reason, and keeps the one
 * with the smallest estimated time. Plain C, no GPU needed. */
#ifndef FALT_SOLVER_CUDA_FPROP_DIRECT_CUDA_DIRECT_NCHW_TILES_H
#define FALT_SOLVER_CUDA_FPROP_DIRECT_CUDA_DIRECT_NCHW_TILES_H

#include "cuda/compile.h"
#include "solver/cuda/common/tile_search.h"
#include "solver/cuda/filter/cuda_tiled_tiles.h"

/* A layer as the kernel sees it; pairs are rows, columns. */
typedef struct falt_direct_nchw_problem {
  int channels, taps[2], stride[2], dilation[2], pool[2];
  int64_t out[2], filters; /* out: after pooling; filters of a group */
  int64_t batch;           /* images and groups */
  int x_bytes, y_bytes;    /* of an element */
  int y_align;             /* alignment of rows, or of pixels, in outputs: a power of two */
  bool y_last;             /* NHWC output */
} falt_direct_nchw_problem;

/* Named after cuda_direct_nchw.cu's parameters. */
typedef struct falt_direct_nchw_tile {
  int rows, columns, filters;
  int across, down, groups;
  int slots, pitch, shared_bytes;
  int64_t tiles[2], filter_tiles;
  /* the estimate */
  int registers;
  double seconds;
  const char *rejected; /* NULL: legal */
} falt_direct_nchw_tile;

/* Offers every tile to the search, with its estimate or its reason. */
void falt_direct_nchw_each(const falt_direct_nchw_problem *problem, const falt_machine *machine,
                           falt_tile_search *search);

/* The best; false with the reason of the least bad one if no tile is legal. */
bool falt_direct_nchw_choose(const falt_direct_nchw_problem *problem, const falt_machine *machine,
                             falt_direct_nchw_tile *best);

/* The compile-time parameters of a tile, and its shared memory. */
void falt_direct_nchw_defines(falt_cuda_kernel *kernel, const falt_direct_nchw_tile *tile);

#endif
