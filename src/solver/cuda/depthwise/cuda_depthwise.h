/* Declarations that the direct depthwise solvers share. */
#ifndef FALT_SOLVER_CUDA_DEPTHWISE_CUDA_DEPTHWISE_H
#define FALT_SOLVER_CUDA_DEPTHWISE_CUDA_DEPTHWISE_H

#include "solver/cuda/common/cuda.h"
#include "solver/cuda/depthwise/cuda_depthwise_tiles.h"

/* The reason that the direct depthwise solvers do not apply, or NULL. */
const char *falt_depthwise_refusal(const falt_ask *ask);

/* A kernel with its tile. */
typedef struct falt_depthwise_cut {
  falt_cu_function function;
  falt_depthwise_shape shape;
  falt_depthwise_tile tile;
} falt_depthwise_cut;

/* The best tile; false if there is none. `narrow`: for addresses that are aligned to an element only. */
bool falt_depthwise_cut_of(falt_depthwise_cut *cut, const falt_ask *ask, bool narrow);

/* The strides of the kernels' arguments, and the compile-time parameters that both kernels have. */
falt_cuda_depthwise_args falt_depthwise_args_of(const falt_problem *problem);
/* These arguments with the operands' addresses, but without the filter that fprop and dgrad read. */
falt_cuda_depthwise_args falt_depthwise_bind(const falt_cuda_depthwise_args *args, const falt_problem *problem,
                                             const falt_operands *operands);
void falt_depthwise_defines(const falt_problem *problem, const falt_depthwise_cut *cut, falt_cuda_kernel *kernel);
/* The accumulator's C type, "float" or "double", and its falt_type. */
const char *falt_depthwise_sum(const falt_problem *problem);
falt_type falt_depthwise_sum_type(const falt_problem *problem);
/* Whether all addresses are aligned to the tile's words. */
bool falt_depthwise_aligned(const falt_cuda_depthwise_args *args, const falt_depthwise_cut *cut);
void falt_depthwise_print(const falt_depthwise_cut *cut, falt_text *text);

/* The kernel that adds the split-K slices in args->partial, and its launch. */
falt_status falt_depthwise_sum_kernel(const falt_plan *plan, falt_cu_function *function);
/* Whether programmatic dependent launch pays for a plan's kernel; and such a launch. */
bool falt_depthwise_is_short(const falt_plan *plan);
void falt_depthwise_start(const falt_plan *plan, const falt_gpu_launch *launch, const int blocks_yz[2],
                          void **parameters);
void falt_depthwise_add_slices(falt_cu_function function, const falt_plan *plan, falt_cuda_depthwise_args *args,
                               void *stream);

#endif
