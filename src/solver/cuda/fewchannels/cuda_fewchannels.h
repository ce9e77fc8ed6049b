/* Declarations that the solvers of layers with few input channels share, fprop and wgrad. */
#ifndef FALT_SOLVER_CUDA_FEWCHANNELS_CUDA_FEWCHANNELS_H
#define FALT_SOLVER_CUDA_FEWCHANNELS_CUDA_FEWCHANNELS_H

#include "cuda/gpu.h"
#include "planner/planner.h"
#include "solver/cuda/fewchannels/cuda_fewchannels_args.h"
#include "solver/cuda/fewchannels/cuda_fewchannels_tiles.h"

/* The reason that the kernels cannot load such an input, or NULL; other is the type of the other operand. */
const char *falt_fewchannels_nhwc_refusal(const falt_ask *ask, falt_type other);

falt_fewchannels_nhwc_problem falt_fewchannels_nhwc_layer_of(const falt_problem *problem);

/* Of the input, and how it is walked along. */
falt_cuda_fewchannels_nhwc_args falt_fewchannels_nhwc_args_of(const falt_problem *problem,
                                                              const falt_fewchannels_nhwc_problem *layer,
                                                              const falt_fewchannels_nhwc_tile *tile);

/* Channels of pixels of a row, each or every other one. */
falt_gpu_map falt_fewchannels_nhwc_rows_of(const falt_tensor *tensor, void *data, int channels, int pixels, int pace);

#endif
