/* Helpers of all CUDA solvers: refusals, accumulator types, uploads, and kernel arguments made from problems. */
#ifndef FALT_SOLVER_CUDA_COMMON_CUDA_H
#define FALT_SOLVER_CUDA_COMMON_CUDA_H

#include "cuda/device/args.h"
#include "cuda/gpu.h"
#include "planner/planner.h"

/* Refuses with one clause of falt_message() as the reason. */
falt_plan *falt_cuda_refuse(falt_ask *ask, falt_status status);

/* Bound of any partial sum of a problem whose operands are all integers; infinite for others. */
double falt_cuda_bound(const falt_problem *problem);
/* The C type that sums the problem's products: an integer wide enough to be exact, or `real`. */
const char *falt_cuda_sum(const falt_problem *problem, const char *real);

/* Whether the epilogue may run in f32: for floats, and for 8-bit integers, which saturate long before a sum is rounded.
 * Wider integers must be exact. */
bool falt_cuda_finishes_in_float(const falt_problem *problem);

/* Whether a problem has no planes, for kernels of images. */
bool falt_cuda_is_flat(const falt_problem *problem);
/* Whether one filter with one output channel serves all groups. */
bool falt_cuda_one_filter(const falt_problem *problem);

/* The machine model of the GPU for tile searches. */
falt_machine falt_cuda_machine(const falt_device *device);

/* Copies host memory to new memory of the GPU. */
falt_status falt_cuda_upload(falt_gpu *gpu, void **memory, const void *from, size_t bytes);

/* The fallback solvers of layers, and of depthwise layers: they take operands of any alignment. */
extern const falt_solver *const falt_cuda_fallbacks[], *const falt_cuda_depthwise_fallbacks[];

/* The address of an operand's first element; NULL of NULL. */
char *falt_cuda_element(void *data, const falt_tensor *tensor);
/* The stride of a dimension; 0 if its size is 1. */
int64_t falt_cuda_stride(const falt_tensor *tensor, int dim);
/* The solvers of batched matrix products, as layers of 1x1 taps and many groups, of any alignment. */
extern const falt_solver *const falt_cuda_products_solvers[];

/* Kernel arguments of a tensor, an axis and an epilogue; the pointers are set at execution. */
falt_cuda_tensor falt_cuda_tensor_of(const falt_tensor *tensor);
falt_cuda_axis falt_cuda_axis_of(const falt_axis *axis);
falt_cuda_epilogue falt_cuda_epilogue_of(const falt_problem *problem);
/* Whether an epilogue has nothing but alpha and beta; how much of one a kernel needs: 0 nothing, 1 these two, 2 all. */
bool falt_cuda_epilogue_is_linear(const falt_problem *problem);
int falt_cuda_epilogue_parts(const falt_problem *problem);
/* Sets the epilogue's pointers: the bias and the scale that the problem has. */
void falt_cuda_epilogue_bind(falt_cuda_epilogue *epilogue, const falt_problem *problem, const falt_operands *operands);

#endif
