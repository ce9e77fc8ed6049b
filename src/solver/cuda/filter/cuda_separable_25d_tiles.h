/* Tile shapes of cuda_separable_25d.cu. Plain C, no GPU needed. */
#ifndef FALT_SOLVER_CUDA_FILTER_CUDA_SEPARABLE_25D_TILES_H
#define FALT_SOLVER_CUDA_FILTER_CUDA_SEPARABLE_25D_TILES_H

#include "solver/cuda/common/tile_search.h"
#include "solver/cuda/filter/cuda_direct_tiles.h"

typedef struct falt_separable_25d {
  int width;                    /* columns of a lane */
  int copy;                     /* bytes of an asynchronous copy */
  int y_vector;                 /* elements of a store */
  int ahead;                    /* lines in flight */
  int warps, blocks;            /* of a block; that should fit on a multiprocessor */
  int rows;                     /* of outputs, of a warp */
  int64_t across, down, planes; /* parts along a row, down a column; planes of all images */
  /* the estimate */
  int registers;
  double seconds;
  const char *rejected; /* NULL: legal */
} falt_separable_25d;

/* Offers every shape to the search, with its estimate or its reason. */
void falt_separable_25d_each(const falt_tile_problem *problem, const falt_machine *machine, falt_tile_search *search);

/* The best; false with a reason if none is legal. */
bool falt_separable_25d_choose(const falt_tile_problem *problem, const falt_machine *machine, falt_separable_25d *best);

/* The compile-time parameters of a shape. */
void falt_separable_25d_defines(falt_cuda_kernel *kernel, const falt_tile_problem *problem,
                                const falt_separable_25d *blocked);

#endif
