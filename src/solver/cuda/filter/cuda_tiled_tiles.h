/* Tile shapes of cuda_tiled.cu: threads, blocks, windows and bands of taps. Enumerates all shapes, rejects the illegal
 * ones with a reason, and keeps the one with the smallest estimated time. Plain C, no GPU needed. */
#ifndef FALT_SOLVER_CUDA_FILTER_CUDA_TILED_TILES_H
#define FALT_SOLVER_CUDA_FILTER_CUDA_TILED_TILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/machine.h"
#include "solver/cuda/common/tile_search.h"

/* A filter as the kernel sees it; triples are planes, rows, columns. */
typedef struct falt_tiled_problem {
  int taps[3], stride[3], dilation[3];
  int64_t out[3];                  /* outputs: planes, rows, elements of a row (channels included) */
  int64_t batch;                   /* images */
  int pixel;                       /* interleaved channels */
  int x_bytes, y_bytes, sum_bytes; /* of one element in, out, of one sum */
  int64_t pad;                     /* elements of a row before the first */
  int epilogue;                    /* cuda_tiled.cu's EPILOGUE */
  bool unaligned;                  /* rows are not aligned to vectors */
} falt_tiled_problem;

/* Named after cuda_tiled.cu's parameters. */
typedef struct falt_tiled {
  int depth, rows, groups, group, spread;
  int lanes, lines;
  int chunk, rest, space, next_result, next_tap, shift, pitch;
  int band[2];
  int buffers, blocks, dense;
  int walk;         /* output planes of a walk; 0: none */
  int apart, flush; /* how sums of many taps are split */
  int tile_elements, buffer_elements, shared_bytes;
  /* the estimate */
  int registers;
  double seconds;
  const char *rejected; /* NULL: legal */
} falt_tiled;

/* Offers every shape to the search, with its estimate or its reason. */
void falt_tiled_each(const falt_tiled_problem *problem, const falt_machine *machine, falt_tile_search *search);

/* The best; false with the reason of the least bad one if no block is legal. */
bool falt_tiled_choose(const falt_tiled_problem *problem, const falt_machine *machine, falt_tiled *best);

#endif
