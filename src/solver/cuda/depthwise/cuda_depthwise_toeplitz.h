/* Declarations that the Toeplitz depthwise solvers share. */
#ifndef FALT_SOLVER_CUDA_DEPTHWISE_CUDA_DEPTHWISE_TOEPLITZ_H
#define FALT_SOLVER_CUDA_DEPTHWISE_CUDA_DEPTHWISE_TOEPLITZ_H

#include "solver/cuda/depthwise/cuda_depthwise.h"
#include "solver/cuda/depthwise/cuda_depthwise_toeplitz_tiles.h"

/* The reason that the Toeplitz solvers do not apply, or NULL. */
const char *falt_depthwise_toeplitz_inapplicable(const falt_ask *ask);
/* Fills the shape. The reason that no tile can serve it, or NULL. */
const char *falt_depthwise_toeplitz_describe(const falt_problem *problem, falt_depthwise_toeplitz_shape *shape);
/* Whether addresses are aligned to the elements of one copy. */
falt_alignment falt_depthwise_toeplitz_alignment(const falt_problem *problem,
                                                 const falt_depthwise_toeplitz_shape *shape);

#endif
