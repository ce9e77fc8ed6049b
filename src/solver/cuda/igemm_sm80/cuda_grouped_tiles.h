/* Tile shapes of cuda_grouped.cu: pixels and channels of a tile, registers and shared memory. Plain C, no GPU needed.
 */
#ifndef FALT_SOLVER_CUDA_IGEMM_SM80_CUDA_GROUPED_TILES_H
#define FALT_SOLVER_CUDA_IGEMM_SM80_CUDA_GROUPED_TILES_H

#include "cuda/compile.h"
#include "solver/cuda/common/igemm.h"
#include "solver/cuda/common/tile_search.h"
#include "solver/cuda/igemm_sm80/cuda_grouped_args.h"

typedef struct falt_grouped_shape {
  int64_t images, out[2], results; /* of the outputs, along height and width; channels of all groups */
  int64_t depth, rows;             /* of a group: channels of the source, of the outputs */
  int64_t own_depth, own_rows;     /* before groups were merged */
  int64_t taps[2], stride[2], dilation;
  bool finish; /* scale, bias, residual or activation */
  double bytes;
} falt_grouped_shape;

/* Named after the kernel's parameters. */
typedef struct falt_grouped_tile {
  int height, width, bands, warps_c, warps_p, stages, blocks, shared_bytes;
  int64_t parts, tiles; /* of channels; of all images */
  int64_t grid;         /* blocks of a launch */
  double seconds;
} falt_grouped_tile;

/* The reason that the kernel cannot compute the shape, or NULL. */
const char *falt_grouped_refusal(const falt_grouped_shape *shape);

/* Sets the compile-time parameters except KIND and those of the epilogue. */
void falt_grouped_defines(falt_cuda_kernel *kernel, const falt_grouped_shape *shape, const falt_grouped_tile *tile);

/* Offers every tile of the kernel to the search, with its estimate. */
void falt_grouped_each(const falt_grouped_shape *shape, const falt_machine *machine, falt_tile_search *search);
/* The best tile; false if there is none. */
bool falt_grouped_choose(const falt_grouped_shape *shape, const falt_machine *machine, falt_grouped_tile *best);

#endif
