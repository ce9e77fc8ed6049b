/* Tile shapes of cuda_fewchannels_nchw.cu. Plain C, no GPU needed. */
#ifndef FALT_SOLVER_CUDA_FEWCHANNELS_CUDA_FEWCHANNELS_NCHW_TILES_H
#define FALT_SOLVER_CUDA_FEWCHANNELS_CUDA_FEWCHANNELS_NCHW_TILES_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda/compile.h"
#include "cuda/machine.h"
#include "solver/cuda/common/tile_search.h"

/* Triples are planes, rows, columns. */
typedef struct falt_fewchannels_nchw_problem {
  int64_t images, channels, results; /* of x, of y */
  int64_t taps[3], in[3], out[3];
  int64_t pad; /* columns before the first */
  int unit;    /* outputs of one store */
  bool inner;  /* y is NHWC, else NCHW */
  int extras;  /* number of: residual, activation, boundaries that are not constant; each needs registers */
} falt_fewchannels_nchw_problem;

/* Named after cuda_fewchannels_nchw.cu's parameters. */
typedef struct falt_fewchannels_nchw_tile {
  int eights, blocks;
  int walk, walks, strips, result_tiles; /* rows of a walk; walks down a plane; of columns; of channels */
  int64_t items, grid;                   /* walks of all planes of all images; blocks */
  double seconds;
  const char *rejected; /* NULL: legal */
} falt_fewchannels_nchw_tile;

enum { FALT_STRIPS_THREADS = 128 };

/* Offers every tile to the search, with its estimate or its reason. */
void falt_fewchannels_nchw_each(const falt_fewchannels_nchw_problem *problem, const falt_machine *machine,
                                falt_tile_search *search);
/* The best; false if no tile is legal, with the reason of the first. */
bool falt_fewchannels_nchw_choose(const falt_fewchannels_nchw_problem *problem, const falt_machine *machine,
                                  falt_fewchannels_nchw_tile *best);

/* The parameters of a problem and its tile. */
void falt_fewchannels_nchw_defines(falt_cuda_kernel *kernel, const falt_fewchannels_nchw_problem *problem,
                                   const falt_fewchannels_nchw_tile *tile);

#endif
