/* Tile shapes of cuda_rows.cu. Plain C, no GPU needed. */
#ifndef FALT_SOLVER_CUDA_FILTER_CUDA_ROWS_TILES_H
#define FALT_SOLVER_CUDA_FILTER_CUDA_ROWS_TILES_H

#include "solver/cuda/common/tile_search.h"
#include "solver/cuda/filter/cuda_direct_tiles.h"

typedef struct falt_row {
  int width;         /* outputs of a lane */
  int warps, blocks; /* of a block; that should fit on a multiprocessor */
  int64_t across;    /* blocks along a row */
  int64_t lines;     /* rows of all images */
  /* the estimate */
  double seconds;
  const char *rejected; /* NULL: legal */
} falt_row;

/* Offers every shape to the search, with its estimate or its reason. */
void falt_rows_each(const falt_tile_problem *problem, const falt_machine *machine, falt_tile_search *search);

/* The best; false with a reason if none is legal. */
bool falt_rows_choose(const falt_tile_problem *problem, const falt_machine *machine, falt_row *best);

/* The compile-time parameters of a shape. */
void falt_row_defines(falt_cuda_kernel *kernel, const falt_tile_problem *problem, const falt_row *row);

#endif
