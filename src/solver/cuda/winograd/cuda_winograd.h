/* Shared by the solvers cuda-winograd and cuda-winograd-wgrad. */
#ifndef FALT_SOLVER_CUDA_WINOGRAD_CUDA_WINOGRAD_H
#define FALT_SOLVER_CUDA_WINOGRAD_CUDA_WINOGRAD_H

#include "solver/cuda/common/cuda_igemm.h"
#include "solver/cuda/common/plan.h"
#include "solver/cuda/winograd/cuda_winograd_args.h"

/* THREADS: of a block. VECTOR: elements that rows of matrices are padded to a multiple of. */
enum { FALT_WINOGRAD_THREADS = 128, FALT_WINOGRAD_VECTOR = 4, FALT_CUDA_WINOGRAD_FORMS = 2 };

typedef struct falt_cuda_winograd_form {
  const char *name;
  int pairs; /* of the points */
  /* Of products of one term, in 2^-24 of the largest input times the sum of the other factor's magnitudes; it falls
   * with the root of the terms. */
  double error;
  /* Channels, and in wgrad tiles, from which on it is below that of a sum in sequence, and counts as rounding:
   * docs/internals/cuda-winograd.md. */
  int64_t least_channels, least_tiles;
} falt_cuda_winograd_form;
extern const falt_cuda_winograd_form falt_cuda_winograd_forms[FALT_CUDA_WINOGRAD_FORMS];

/* Its declared error for so many terms, from `least` on 0. */
double falt_cuda_winograd_error(const falt_cuda_winograd_form *form, int64_t terms, int64_t least);
/* Points of the transforms along both axes. */
int64_t falt_cuda_winograd_points(const falt_cuda_winograd_form *form);

/* The reason that no form applies to a layer or a gradient, or NULL. */
const char *falt_cuda_winograd_refusal(const falt_ask *ask);

/* The arguments that belong to the source, in wgrad the input; and to the output and its residual. */
void falt_cuda_winograd_set_source(falt_cuda_winograd_args *args, const falt_problem *problem, const falt_tensor *x);
void falt_cuda_winograd_set_result(falt_cuda_winograd_args *args, const falt_tensor *y, const falt_tensor *residual);
/* The tiles of so many images; false if a launch cannot number them. */
bool falt_cuda_winograd_set_tiles(falt_cuda_winograd_args *args, const falt_cuda_winograd_form *form, int64_t images);

/* The products as a layer of 1x1 taps: `matrices` products of `far` rows and `near` rows, each of `depth` elements. The
 * child packs the near ones, and rows of its output have one element for each of them. */
falt_problem falt_cuda_winograd_products(int64_t matrices, int64_t far, int64_t near, int64_t depth);

/* Blocks whose threads are `lanes` neighbours along one dimension, and the others along the other one. */
int64_t falt_cuda_winograd_blocks(int64_t near, int64_t far, int lanes, int64_t groups);
void falt_cuda_winograd_start(falt_gpu *gpu, falt_cu_function function, int64_t blocks, falt_cuda_winograd_args *args,
                              void *stream);

/* A kernel of the family with its common parameters. */
falt_cuda_kernel falt_cuda_winograd_kernel(const falt_problem *problem, const falt_cuda_winograd_form *form,
                                           const char *source, const char *entry, int lanes);

#endif
