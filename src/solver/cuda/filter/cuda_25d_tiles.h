/* Tile shapes of cuda_25d.cu. Enumerates all shapes, rejects the illegal ones with a reason, and keeps the one with the
 * smallest estimated time. Plain C, no GPU needed. */
#ifndef FALT_SOLVER_CUDA_FILTER_CUDA_25D_TILES_H
#define FALT_SOLVER_CUDA_FILTER_CUDA_25D_TILES_H

#include "cuda/compile.h"
#include "solver/cuda/common/tile_search.h"
#include "solver/cuda/filter/cuda_direct_tiles.h"

typedef struct falt_25d {
  int width, rows; /* of a thread */
  int planes;      /* of a block */
  int block[2];    /* threads: along a row, across rows */
  int blocks;      /* that should fit on a multiprocessor */
  int ahead;       /* lines in flight */
  int shift, left; /* from an output's column to its thread's elements; elements of a window before these */
  bool both;       /* a thread may have no neighbour on either side */
  int x_vector, y_vector;
  int64_t count[3]; /* blocks that cover the image: along planes, rows, columns */
  /* the estimate */
  int registers;
  double seconds;
  const char *rejected; /* NULL: legal */
} falt_25d;

/* Offers every shape to the search, with its estimate or its reason. */
void falt_25d_each(const falt_tile_problem *problem, const falt_machine *machine, falt_tile_search *search);

/* The best; false with the reason of the least bad one if none is legal. */
bool falt_25d_choose(const falt_tile_problem *problem, const falt_machine *machine, falt_25d *best);

/* Additional seconds of 2.5D blocking, compared with tiles, if stores fill only parts of sectors: the L2 cache needs as
 * long for each part as for half a sector. */
double falt_25d_scattered(const falt_tile_problem *problem, const falt_machine *machine, const falt_25d *tile);

/* The compile-time parameters of a shape. */
void falt_25d_defines(falt_cuda_kernel *kernel, const falt_25d *tile);

#endif
