/* Tile shapes of cuda_igemm_sm90.cu: the pixels and taps of its products, and their tiles. Plain C, no GPU needed. */
#ifndef FALT_SOLVER_CUDA_IGEMM_SM90_CUDA_IGEMM_SM90_TILES_H
#define FALT_SOLVER_CUDA_IGEMM_SM90_CUDA_IGEMM_SM90_TILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/machine.h"
#include "solver/cuda/common/tile_search.h"
#include "solver/cuda/igemm_sm90/cuda_igemm_sm90_args.h"

/* By the numbers of cuda_igemm_sm90.cu's OPERATION. */
typedef enum falt_igemm_sm90_operation {
  FALT_IGEMM_SM90_FORWARD,
  FALT_IGEMM_SM90_DATA,
  FALT_IGEMM_SM90_FILTER
} falt_igemm_sm90_operation;

/* Depth, height or width of a layer: x has `in` pixels along it, y has `out`. */
typedef struct falt_igemm_sm90_axis {
  int64_t taps, stride, dilation, pad, in, out;
} falt_igemm_sm90_axis;

typedef struct falt_igemm_sm90_problem {
  falt_igemm_sm90_operation operation;
  int64_t batch, channels, results; /* of x, of y */
  falt_igemm_sm90_axis axis[3];
  int axes;        /* the last ones; those before have size 1 */
  int y_bytes;     /* of an element of the output */
  bool transposed; /* transposed filter: its columns are contiguous, not its depth */
  bool residual;
  bool grouped;      /* each image has a filter of its own: groups of a forward layer of one tap, without gaps */
  bool words;        /* NHWC output in multiples of 16 bytes */
  bool whole;        /* and dense, also across images, in multiples of 32 bytes */
  bool boxes;        /* NCHW source: each image is padded to whole boxes of FALT_IGEMM_SM90_SPAN */
  int64_t workspace; /* bytes that may be used; negative: no limit */
} falt_igemm_sm90_problem;

enum { FALT_IGEMM_SM90_POLYPHASES = 8, FALT_IGEMM_SM90_SPAN = 64 };

/* A polyphase part: outputs with the same taps. Output j of an axis is first + j * pace of its tensor. `last` is TMA's
 * upper corner, axis[].corner its lower one. */
typedef struct falt_igemm_sm90_polyphase {
  falt_cuda_igemm_sm90_axis axis[3];
  int last[3];
  int64_t first[3], pace[3];
} falt_igemm_sm90_polyphase;

/* Sets the problem's polyphase parts, those of most taps first; returns the reason if TMA cannot load them. */
const char *falt_igemm_sm90_polyphases(const falt_igemm_sm90_problem *problem,
                                       falt_igemm_sm90_polyphase polyphases[FALT_IGEMM_SM90_POLYPHASES], int *count);

/* Named after cuda_igemm_sm90.cu's parameters. */
typedef struct falt_igemm_sm90_tile {
  int consumers, wg_rows, columns, stages, buffers, cluster, resident;
  bool swapped, pingpong;
  bool whole;    /* warps store 16 pixels of the output in one copy */
  bool rows;     /* warps store 512 bytes of a pixel; else TMA stores lines of 64 pixels */
  int split_k;   /* of a wgrad */
  int cluster_k; /* cluster split-K: blocks that share a tile's depth */
  bool over;     /* sums of slices reuse the ring's memory */
  int shared_bytes;
  int64_t clusters, work; /* concurrent clusters; tiles of a cluster */
  int64_t place, places;  /* tiles of a polyphase part before the next polyphase part's; how often */
  size_t workspace;
  /* the estimate */
  double seconds;
  const char *rejected; /* NULL: legal */
} falt_igemm_sm90_tile;

/* The GEMMs of a layer: rows, columns, and the depth in steps of FALT_IGEMM_SM90_SPAN. */
typedef struct falt_igemm_sm90_work {
  int64_t rows[FALT_IGEMM_SM90_POLYPHASES], steps[FALT_IGEMM_SM90_POLYPHASES]; /* of each polyphase part */
  int polyphases;
  int64_t groups; /* products of so many rows each */
  int summed;     /* of a step's FALT_IGEMM_SM90_SPAN channels, how many are not zero in every step */
  int zeros;      /* polyphase parts without taps, after the others: their outputs are zeros, stored without a tile */
  int64_t columns;
  double bytes, written; /* memory traffic; outputs of polyphase parts with taps */
} falt_igemm_sm90_work;

falt_igemm_sm90_work falt_igemm_sm90_work_of(const falt_igemm_sm90_problem *problem,
                                             const falt_igemm_sm90_polyphase *polyphases, int count);

/* Rows of a tile: pixels, or in wgrad output channels. */
int falt_igemm_sm90_rows(const falt_igemm_sm90_tile *tile);

/* Offers every tile to the search, with its estimate or its reason. */
void falt_igemm_sm90_each(const falt_igemm_sm90_problem *problem, const falt_igemm_sm90_work *work,
                          const falt_machine *machine, falt_tile_search *search);
/* The best; false if no tile is legal. */
bool falt_igemm_sm90_choose(const falt_igemm_sm90_problem *problem, const falt_igemm_sm90_work *work,
                            const falt_machine *machine, falt_igemm_sm90_tile *best);

#endif
