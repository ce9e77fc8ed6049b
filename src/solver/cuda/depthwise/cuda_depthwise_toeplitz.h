/* Declarations that the Toeplitz depthwise solvers share. */
#ifndef FALT_SOLVER_CUDA_DEPTHWISE_CUDA_DEPTHWISE_TOEPLITZ_H
#define FALT_SOLVER_CUDA_DEPTHWISE_CUDA_DEPTHWISE_TOEPLITZ_H

#include "solver/cuda/depthwise/cuda_depthwise.h"
#include "solver/cuda/depthwise/cuda_depthwise_toeplitz_tiles.h"

/* Why a layer or its gradient is none of theirs, or NULL. */
const char *falt_depthwise_toeplitz_inapplicable(const falt_ask *ask);
/* False where neither channels nor columns are contiguous. */
bool falt_depthwise_toeplitz_describe(const falt_problem *problem, falt_depthwise_toeplitz_shape *shape);
/* Of the addresses, for what is copied at once. */
falt_alignment falt_depthwise_toeplitz_alignment(const falt_problem *problem,
                                                 const falt_depthwise_toeplitz_shape *shape);

#endif
