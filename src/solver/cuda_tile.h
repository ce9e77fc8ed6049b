/* What the solvers share that run src/cuda/kernels/tile.cu: problems as the kernel sees them, its holes, its launch. */
#ifndef FALT_SOLVER_CUDA_TILE_H
#define FALT_SOLVER_CUDA_TILE_H

#include "cuda/kernels/args.h"
#include "cuda/tiles.h"
#include "solver/cuda_filter.h"

/* Taps that fit beside the arguments. */
enum { FALT_TILE_TAPS = FALT_CUDA_TAP_BYTES / sizeof(float) };

typedef struct falt_tile_plan {
  falt_plan base;
  falt_cu_function function;
  falt_cuda_tile_args args;
  falt_tile_problem problem;
  falt_tile tile;
  bool wide;                                           /* sums in double */
  bool scaled;                                         /* the result is alpha * sum + beta */
  double values[FALT_CUDA_TAP_BYTES / sizeof(double)]; /* taps, floats unless wide */
} falt_tile_plan;

/* Taps of a problem along planes, rows and columns. */
void falt_tile_taps(const falt_problem *problem, int taps[3]);

/* A plan that lacks its taps, with its estimate; NULL with the reason set. `terms`: separable ones; 0: the filter. */
falt_tile_plan *falt_tile_plan_new(const falt_solver *solver, falt_ask *ask, int terms);

/* Takes the taps: of the whole filter, or of each term those along planes, rows and columns. */
void falt_tile_pack(falt_tile_plan *plan, const double *values);

#endif
