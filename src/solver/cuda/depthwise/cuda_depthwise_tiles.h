/* Tile shapes of the direct depthwise kernels, cuda_depthwise.cu and cuda_depthwise_wgrad.cu. Plain C, no GPU needed.
 */
#ifndef FALT_SOLVER_CUDA_DEPTHWISE_CUDA_DEPTHWISE_TILES_H
#define FALT_SOLVER_CUDA_DEPTHWISE_CUDA_DEPTHWISE_TILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/machine.h"
#include "solver/cuda/common/tile_search.h"

typedef enum falt_depthwise_kind {
  FALT_DEPTHWISE_FORWARD,
  FALT_DEPTHWISE_DATA,
  FALT_DEPTHWISE_FILTER
} falt_depthwise_kind;

/* The source is the operand that windows read: x, or dy in dgrad. A wgrad has the outputs of the forward layer. */
typedef struct falt_depthwise_axis {
  int64_t taps, stride, dilation, pad, source, results;
} falt_depthwise_axis;

typedef struct falt_depthwise_shape {
  falt_depthwise_kind kind;
  falt_depthwise_axis axis[3]; /* planes, rows, columns */
  int64_t images, channels;    /* channels: of outputs */
  int members;                 /* output channels for each source channel */
  bool inner;                  /* NHWC; else NCHW if contiguous */
  bool constant;               /* all boundaries are constant */
  int x_bytes, y_bytes, sum_bytes;
  int x_align, y_align; /* elements of a word: powers of two, 1 if neighbours are not contiguous */
  bool finish;          /* scale, bias, residual or activation */
  bool scattered;       /* neither channels nor columns are contiguous in an operand */
  int64_t workspace;    /* limit for a wgrad; negative: none */
} falt_depthwise_shape;

typedef struct falt_depthwise_tile {
  int rows, columns;  /* of outputs of a thread, or of y */
  int unit, y_unit;   /* elements of a word of the source, of the output */
  int parts;          /* of the taps along rows */
  int ahead;          /* lines in flight */
  int threads, lanes; /* of a block; lanes: vectors of channels of a wgrad block */
  int blocks;         /* that should fit on a multiprocessor */
  int64_t split_k;    /* of the positions of a weight gradient */
  int64_t tiles;      /* threads; of a weight gradient: tiles of one channel */
  int64_t partial;    /* bytes: sums of the split-K slices */
  /* the estimate */
  int registers;
  double seconds;
} falt_depthwise_tile;

/* Offers every tile of the kernels to the search. */
void falt_depthwise_each(const falt_depthwise_shape *shape, const falt_machine *machine, falt_tile_search *search);
/* The best tile; false if there is none. */
bool falt_depthwise_choose(const falt_depthwise_shape *shape, const falt_machine *machine, falt_depthwise_tile *best);

#endif
