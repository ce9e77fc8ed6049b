/* The plan of wgrad-pointwise: wgrad_pointwise.c creates it, wgrad_pointwise_run.c executes it. */
#ifndef FALT_SOLVER_CPU_WGRAD_WGRAD_POINTWISE_H
#define FALT_SOLVER_CPU_WGRAD_WGRAD_POINTWISE_H

#include "solver/cpu/common/layer.h"
#include "solver/cpu/igemm_vnni/igemm_vnni_kernels.h"
#include "solver/cpu/wgrad/wgrad_kernels.h"

enum {
  FALT_POINTWISE_PIECE = 32,  /* positions: the depth of a tile */
  FALT_POINTWISE_PIECES = 16, /* of a chunk, at most */
  FALT_POINTWISE_SQUARE = FALT_TILES_ROWS * FALT_TILES_COLUMNS,
};

/* x or dy: a matrix of positions by channels. Position p is the sum of its index in each dimension times the step. */
typedef struct falt_pointwise_side {
  bool is_input;
  bool lines;                /* positions are adjacent (NCHW), not channels */
  int64_t steps[4];          /* n, d, h, w: elements from position to position */
  int64_t channel, channels; /* elements from channel to channel; channels of a group */
  int64_t together;          /* positions that follow each other at steps[3] */
  int64_t filter;            /* the stride of dw along its channels */
} falt_pointwise_side;

/* Offsets into a worker's scratch. */
typedef struct falt_pointwise_scratch {
  size_t rows, columns;
  falt_memory_layout parts;
} falt_pointwise_scratch;

typedef struct falt_pointwise_plan {
  falt_plan base;
  falt_layer layer; /* the forward one */
  const falt_tiles_kernels *kernels;
  const falt_outer_kernels *outer;
  falt_pointwise_side rows, columns; /* of the product */
  int64_t tiles, tile_rows;          /* tiles of rows, and rows of each */
  int64_t pairs, panels;             /* two tiles of rows; 32 columns */
  falt_layer_pieces blocks[2];       /* of pairs and of panels; a task has one of each */
  falt_layer_pieces slices;          /* of pieces of positions */
  bool kept;                         /* sums are kept in the workspace and stored at the end */
  size_t partial;                    /* sums of all slices, an offset into the workspace */
  falt_pointwise_scratch at;         /* in each worker's scratch */
} falt_pointwise_plan;

void falt_pointwise_execute(const falt_plan *plan, const falt_operands *operands);

#endif
