/* Tile shapes of cuda_running_sums.cu. Plain C, no GPU needed. */
#ifndef FALT_SOLVER_CUDA_RUNNING_SUMS_CUDA_RUNNING_SUMS_TILES_H
#define FALT_SOLVER_CUDA_RUNNING_SUMS_CUDA_RUNNING_SUMS_TILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/compile.h"
#include "cuda/machine.h"
#include "solver/cuda/common/tile_search.h"

/* One pass, down the rows and along the columns. Columns are elements of a row, channels included. */
typedef struct falt_running_pass {
  int taps[2], pad[2], stride[2];
  bool ends[2];                    /* the first and the last tap have a weight of their own */
  int pixel, step;                 /* interleaved channels; elements from a tap to the next along a row */
  int64_t in[2], out[2];           /* elements and outputs */
  int64_t planes;                  /* of outputs, in all images */
  int x_bytes, y_bytes, sum_bytes; /* of one element in, out, of one sum */
} falt_running_pass;

typedef struct falt_running_tile {
  int chunk[2];
  int vector;            /* elements of a load */
  int columns, pitch;    /* elements that a block (a warp, if there are no taps down) stages of a row, and its place */
  int totals;            /* chunks of a row */
  int warps, blocks;     /* of a block; blocks that should fit on a multiprocessor */
  bool rows;             /* rows go through shared memory */
  int strip, band;       /* outputs of a block: elements of a row; rows */
  int64_t strips, bands; /* of a row; of a column */
  int64_t tasks, all_blocks; /* strips of bands; blocks of the launch */
  int64_t shared_bytes;
  /* the estimate */
  int registers;
  double seconds;
  const char *rejected; /* NULL: legal */
} falt_running_tile;

/* Offers every shape to the search, with its estimate or its reason. */
void falt_running_each(const falt_running_pass *pass, const falt_machine *machine, falt_tile_search *search);

/* The best; false with a reason if none is legal. */
bool falt_running_choose(const falt_running_pass *pass, const falt_machine *machine, falt_running_tile *best);

/* The compile-time parameters of a pass and its shape, without types and boundaries. */
void falt_running_defines(falt_cuda_kernel *kernel, const falt_running_pass *pass, const falt_running_tile *tile);

#endif
