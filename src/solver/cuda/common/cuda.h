/* Helpers of all CUDA solvers: refusals, accumulator types, uploads, and kernel arguments made from problems. */
#ifndef FALT_SOLVER_CUDA_COMMON_CUDA_H
#define FALT_SOLVER_CUDA_COMMON_CUDA_H

#include "cuda/device/args.h"
#include "cuda/gpu.h"
#include "planner/planner.h"

/* Refuses with what falt_message() says, one clause of it. */
falt_plan *falt_cuda_refuse(falt_ask *ask, falt_status status);

/* Bound of any partial sum of a problem whose factors are all integers; infinite for others. */
double falt_cuda_bound(const falt_problem *problem);
/* The C type that sums the problem's products: an integer wide enough to be exact, or `real`. */
const char *falt_cuda_sum(const falt_problem *problem, const char *real);

/* Whether outputs may be finished in f32: floats, and bytes, which saturate long before a sum is rounded. Wider
 * integers must be exact. */
bool falt_cuda_finishes_in_float(const falt_problem *problem);

/* The GPU as searches over tiles see it. */
falt_machine falt_cuda_machine(const falt_device *device);

/* A copy of host memory on the GPU. */
falt_status falt_cuda_upload(falt_gpu *gpu, void **memory, const void *from, size_t bytes);

/* Solvers of layers, and of depthwise ones, that take operands at any address: the fallbacks of the others. */
extern const falt_solver *const falt_cuda_fallbacks[], *const falt_cuda_depthwise_fallbacks[];

/* What kernels read of a tensor and of an epilogue; the pointers are set at execution. */
falt_cuda_tensor falt_cuda_tensor_of(const falt_tensor *tensor);
falt_cuda_axis falt_cuda_axis_of(const falt_axis *axis);
falt_cuda_epilogue falt_cuda_epilogue_of(const falt_problem *problem);

#endif
