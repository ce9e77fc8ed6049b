/* Tile shapes of cuda_direct.cu. Enumerates all shapes, rejects the illegal ones with a reason, and keeps the one with
 * the smallest estimated time. Plain C, no GPU needed. */
#ifndef FALT_SOLVER_CUDA_FILTER_CUDA_DIRECT_TILES_H
#define FALT_SOLVER_CUDA_FILTER_CUDA_DIRECT_TILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/compile.h"
#include "cuda/machine.h"
#include "solver/cuda/common/tile_search.h"

/* A filter as the kernel sees it, along planes, rows and columns; sizes of rows count elements, channels included. */
typedef struct falt_tile_problem {
  int taps[3], pad[3];             /* pads before */
  int stride[3], dilation[3];      /* 1 along axes of one output, of one tap */
  int terms;                       /* separable terms; 0: the whole filter */
  int64_t in[3], out[3];           /* elements and outputs */
  int64_t batch;                   /* images */
  int pixel;                       /* interleaved channels */
  int x_bytes, y_bytes, sum_bytes; /* of one element in, out, of one partial sum */
  bool converts;                   /* conversion to the accumulator's type takes instructions */
  bool tiny;                       /* it moves bits: u8 and u16, whose taps are scaled up */
  bool fills;                      /* a boundary is the constant */
  int x_align, y_align;            /* elements that rows are aligned to: a power of two */
} falt_tile_problem;

typedef struct falt_tile {
  int width, rows, planes; /* of a thread; rows: pieces of one row where `linear` */
  int spread[3];           /* from one of a thread's planes, rows, columns to the next */
  int block[2];            /* threads: along a row, across rows */
  int blocks;              /* that should fit on a multiprocessor */
  int x_vector, y_vector;
  bool linear;
  /* the estimate */
  int elements, loads; /* of a line that a thread needs, and the vectors that hold them */
  int registers;
  double seconds;
  const char *rejected; /* NULL: legal */
} falt_tile;

/* Tiles along each axis, counted from the image's corner; tiles between the rows of one come first. All tiles, and the
 * inner tiles [begin, end), whose windows are inside the image. No tile is inner if an axis has no inner tiles. */
typedef struct falt_tile_box {
  int64_t all[3], begin[3], end[3];
} falt_tile_box;

falt_tile_box falt_tile_inside(const falt_tile_problem *problem, const falt_tile *tile);

/* Blocks that cover the inner tiles, along each axis; the number of remaining tiles. */
void falt_tile_blocks(const falt_tile *tile, const falt_tile_box *box, int64_t blocks[3]);
int64_t falt_tile_frame(const falt_tile_box *box);

/* Whether some positions need more than one reflection to reach the axis. The nearest such position is 2*size - 1. */
bool falt_tile_reaches_far(const falt_tile_problem *problem);

/* Whether an output's taps along a row have an accumulator of their own, see partial.cuh. */
bool falt_tile_in_parts(const falt_tile_problem *problem);

/* Offers every tile to the search, with its estimate or its reason. */
void falt_tiles_each(const falt_tile_problem *problem, const falt_machine *machine, falt_tile_search *search);

/* The best; false with the reason of the least bad one if no tile is legal. */
bool falt_tiles_choose(const falt_tile_problem *problem, const falt_machine *machine, falt_tile *best);

/* The compile-time parameters of strides, dilations and the tile. */
void falt_tile_defines(falt_cuda_kernel *kernel, const falt_tile_problem *problem, const falt_tile *tile);

#endif
