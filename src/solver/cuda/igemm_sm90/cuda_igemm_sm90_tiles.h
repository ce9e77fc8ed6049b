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
  int axes;    /* the last ones; those before have size 1 */
  int y_bytes; /* of an element of the output */
  bool turned; /* the filter's columns, not what is summed, are contiguous */
  bool residual;
  bool words;        /* 16 bytes divide a pixel's outputs, which are contiguous */
  bool whole;        /* and each pixel's follow on the last one's, from image to image too; 32 bytes divide them */
  bool boxes;        /* pixels are read side by side: each image is filled up to whole boxes of FALT_IGEMM_SM90_SPAN */
  int64_t workspace; /* bytes that may be used; negative: no limit */
} falt_igemm_sm90_problem;

enum { FALT_IGEMM_SM90_PHASES = 8, FALT_IGEMM_SM90_SPAN = 64 };

/* Outputs whose taps are the same. Output j of an axis is first + j * pace of its tensor; `last` is TMA's
 * upper corner, as axis[].corner is its lower. */
typedef struct falt_igemm_sm90_phase {
  falt_cuda_igemm_sm90_axis axis[3];
  int last[3];
  int64_t first[3], pace[3];
} falt_igemm_sm90_phase;

/* The problem's phases, those of most taps first; or why TMA cannot walk them. */
const char *falt_igemm_sm90_phases(const falt_igemm_sm90_problem *problem,
                                   falt_igemm_sm90_phase phases[FALT_IGEMM_SM90_PHASES], int *count);

/* Named after cuda_igemm_sm90.cu's parameters. */
typedef struct falt_igemm_sm90_tile {
  int consumers, wg_rows, columns, stages, buffers, cluster, resident;
  bool swapped, pingpong;
  bool whole;    /* warps send 16 pixels of outputs in one piece, as they lie */
  bool rows;     /* warps store 512 bytes of a pixel, not TMA a line of 64 */
  int split_k;   /* of filter gradients */
  int cluster_k; /* blocks of a cluster that sum a part of a tile's steps each */
  bool over;     /* sums of slices take the ring's place */
  int shared_bytes;
  int64_t clusters, work; /* that run at once; tiles of a cluster */
  int64_t place, places;  /* tiles of a phase that clusters take before the next phase's; how often */
  size_t workspace;
  /* what was estimated */
  double seconds;
  const char *rejected; /* NULL: legal */
} falt_igemm_sm90_tile;

/* What the tiles are made of: products of a matrix of rows and one of columns, over steps of FALT_IGEMM_SM90_SPAN. */
typedef struct falt_igemm_sm90_work {
  int64_t rows[FALT_IGEMM_SM90_PHASES], steps[FALT_IGEMM_SM90_PHASES]; /* of each phase */
  int phases;
  int summed; /* of a step's FALT_IGEMM_SM90_SPAN, those that are not zeros in all steps */
  int zeros;  /* phases that follow on them and have no taps: their outputs are stored without a tile */
  int64_t columns;
  double bytes, written; /* that must move; outputs of phases with taps */
} falt_igemm_sm90_work;

falt_igemm_sm90_work falt_igemm_sm90_work_of(const falt_igemm_sm90_problem *problem,
                                             const falt_igemm_sm90_phase *phases, int count);

/* Pixels of a tile, or of filter gradients output channels. */
int falt_igemm_sm90_rows(const falt_igemm_sm90_tile *tile);

/* Calls visit for every tile considered, with its estimate or its reason. */
void falt_igemm_sm90_each(const falt_igemm_sm90_problem *problem, const falt_igemm_sm90_work *work,
                          const falt_machine *machine, falt_tile_search *search);
/* The best; false if no tile is legal. */
bool falt_igemm_sm90_choose(const falt_igemm_sm90_problem *problem, const falt_igemm_sm90_work *work,
                            const falt_machine *machine, falt_igemm_sm90_tile *best);

#endif
