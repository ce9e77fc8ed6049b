/* The plan of wgrad-pairs: wgrad_pairs.c creates it, wgrad_pairs_run.c executes it. */
#ifndef FALT_SOLVER_CPU_WGRAD_WGRAD_PAIRS_H
#define FALT_SOLVER_CPU_WGRAD_WGRAD_PAIRS_H

#include "solver/cpu/common/layer.h"
#include "solver/cpu/igemm_vnni/igemm_vnni_kernels.h"
#include "solver/cpu/wgrad/wgrad.h"

enum {
  FALT_PAIRS_PIECE = 32,  /* positions: the depth of a tile */
  FALT_PAIRS_PIECES = 16, /* of a chunk, at most */
  FALT_PAIRS_SQUARE = FALT_TILES_ROWS * FALT_TILES_COLUMNS,
};

/* x or dy: a matrix of positions by channels. Position p is the sum of its index in each dimension times the step. */
typedef struct falt_pairs_side {
  bool is_input;
  bool lines;                /* positions are adjacent (NCHW), not channels */
  int64_t steps[4];          /* n, d, h, w: elements from position to position */
  int64_t channel, channels; /* elements from channel to channel; channels of a group */
  int64_t together;          /* positions that follow each other at steps[3] */
  int64_t filter;            /* the stride of dw along its channels */
} falt_pairs_side;

/* Offsets into a worker's scratch. */
typedef struct falt_pairs_scratch {
  size_t rows, columns;
  falt_memory_layout parts;
} falt_pairs_scratch;

typedef struct falt_pairs_plan {
  falt_plan base;
  falt_layer layer; /* the forward one */
  const falt_tiles_kernels *kernels;
  const falt_outer_kernels *outer;
  falt_pairs_side rows, columns; /* of the product */
  bool edges;                    /* taps may read outside, where there are zeros */
  bool matrix;                 /* A matrix unit multiplies: a row of a tile is 32 positions of a channel, zero-padded */
  int64_t tiles, tile_rows;    /* tiles of rows of a tap, and rows of each */
  int64_t tap_pairs;           /* of tiles of a tap */
  int64_t pairs, panels;       /* of all taps; 32 columns */
  falt_layer_pieces blocks[2]; /* of pairs and of panels; a task has one of each */
  falt_layer_pieces slices;    /* of pieces of positions */
  bool kept;                   /* sums are kept in the workspace and stored at the end */
  size_t partial;              /* sums of all slices, an offset into the workspace */
  falt_pairs_scratch at;       /* in each worker's scratch */
} falt_pairs_plan;

void falt_pairs_execute(const falt_plan *plan, const falt_operands *operands);

#endif
