/* Tile shapes of cuda_wgrad_halo.cu: pixels, taps and channels of a tile, registers and shared memory. Plain C, no GPU
 * needed. */
#ifndef FALT_SOLVER_CUDA_IGEMM_SM80_CUDA_WGRAD_HALO_TILES_H
#define FALT_SOLVER_CUDA_IGEMM_SM80_CUDA_WGRAD_HALO_TILES_H

#include "cuda/compile.h"
#include "solver/cuda/common/igemm.h"
#include "solver/cuda/common/tile_search.h"
#include "solver/cuda/igemm_sm80/cuda_wgrad_halo_args.h"

typedef struct falt_wgrad_halo_shape {
  int64_t images, out[3]; /* of the outputs */
  int64_t groups;         /* merged ones */
  int64_t rows, channels; /* of a group */
  int64_t taps[3], stride[3], dilation[3];
  bool biased; /* with the bias gradient */
  bool run;    /* a tap row is a run of elements */
  int unit;    /* bytes of x of one copy */
  double bytes;
  int64_t workspace; /* limit; negative: none */
} falt_wgrad_halo_shape;

/* Named after the kernel's parameters. */
typedef struct falt_wgrad_halo_tile {
  int taps_r, height, width, mr, channels, slabs, warps, per, blocks, shared_bytes;
  int64_t parts, split_k,
      slice_tiles; /* blocks of a split-K slice; split-K slices of all tiles, tiles of a split-K slice */
  int64_t workspace;
  double seconds;
} falt_wgrad_halo_tile;

/* Tiles of outputs that cover all images. */
int64_t falt_wgrad_halo_tiles(const falt_wgrad_halo_shape *shape, const falt_wgrad_halo_tile *tile);
/* Sums of a row in the workspace. */
int64_t falt_wgrad_halo_columns(const falt_wgrad_halo_shape *shape);
/* The kernel's parts, in the order of its argument; the last are groups of slabs. */
void falt_wgrad_halo_parts(const falt_wgrad_halo_shape *shape, const falt_wgrad_halo_tile *tile, int64_t parts[5]);

/* Sets the compile-time parameters except KIND. */
void falt_wgrad_halo_defines(falt_cuda_kernel *kernel, const falt_wgrad_halo_shape *shape,
                             const falt_wgrad_halo_tile *tile);

/* Offers every tile of the kernel to the search, with its estimate. */
void falt_wgrad_halo_each(const falt_wgrad_halo_shape *shape, const falt_machine *machine, falt_tile_search *search);
/* The best tile; false if there is none. */
bool falt_wgrad_halo_choose(const falt_wgrad_halo_shape *shape, const falt_machine *machine,
                            falt_wgrad_halo_tile *best);

#endif
