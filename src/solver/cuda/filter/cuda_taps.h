/* Helpers of the filter solvers that pass the taps as a kernel parameter (cuda_direct.cu, cuda_25d.cu, cuda_rows.cu):
 * the problem as these kernels see it, their parameters, and the taps. */
#ifndef FALT_SOLVER_CUDA_FILTER_CUDA_TAPS_H
#define FALT_SOLVER_CUDA_FILTER_CUDA_TAPS_H

#include "cuda/device/args.h"
#include "solver/cuda/common/cuda_filter.h"
#include "solver/cuda/filter/cuda_direct_tiles.h"

/* Taps that fit beside the arguments. */
enum { FALT_TAPS_MOST = FALT_CUDA_TAP_BYTES / sizeof(float) };

/* The base of these solvers' plans. */
typedef struct falt_taps_plan {
  falt_plan base;
  falt_cu_function function;
  falt_cuda_tile_args args;
  falt_tile_problem problem;
  int axis[3];                                         /* the problem's axes of planes, rows, columns; -1: none */
  bool wide;                                           /* sums in double */
  bool scaled;                                         /* the output is alpha * sum + beta */
  double values[FALT_CUDA_TAP_BYTES / sizeof(double)]; /* taps, floats unless wide */
} falt_taps_plan;

/* Taps of a problem along planes, rows and columns. */
void falt_taps_along(const falt_problem *problem, int taps[3]);

/* A new plan of `size` bytes with its problem and arguments, without tile, estimate and taps. NULL with the reason set.
 * `terms`: separable terms; 0: the whole filter. */
void *falt_taps_plan_new(size_t size, const falt_plan_table *table, const falt_solver *solver, falt_ask *ask,
                         int terms);

/* Sets the taps: of the whole filter, or for each term those along planes, rows and columns. */
void falt_taps_pack(falt_taps_plan *plan, const double *values);

/* Destroys a plan; returns NULL with the reason set. */
void *falt_taps_plan_drop(falt_taps_plan *plan, falt_ask *ask, const char *why);

/* The kernel arguments of an execution; `aligned` in them: whether the pointers are aligned to these vectors. */
falt_cuda_tile_args falt_taps_args(const falt_taps_plan *plan, const falt_operands *operands, int x_vector,
                                   int y_vector);

/* The compile-time parameters that all these kernels have: axes, types, terms. */
void falt_taps_defines(falt_cuda_kernel *kernel, const falt_taps_plan *plan);

/* Plans by register tiles and by 2.5D blocking, complete except for the taps. NULL with the reason set. */
falt_taps_plan *falt_tile_plan_new(const falt_solver *solver, falt_ask *ask, int terms);
falt_taps_plan *falt_25d_plan_new(const falt_solver *solver, falt_ask *ask, int terms);
falt_taps_plan *falt_separable_25d_plan_new(const falt_solver *solver, falt_ask *ask, int terms);
typedef falt_taps_plan *falt_taps_cut(const falt_solver *solver, falt_ask *ask, int terms);

/* The plan of a whole filter by one of these functions. */
falt_plan *falt_taps_plan_whole(const falt_solver *solver, falt_ask *ask, falt_taps_cut *cut);

#endif
