/* The base of CUDA plans: the kernel functions, and the device copy of the filter if its values are known when
 * planning. */
#ifndef FALT_SOLVER_CUDA_COMMON_PLAN_H
#define FALT_SOLVER_CUDA_COMMON_PLAN_H

#include "solver/cuda/common/cuda.h"

/* Solvers embed it as their first member. */
typedef struct falt_cuda_plan {
  falt_plan base;
  falt_cu_function function, sum; /* sum: adds split-K slices, if there are any */
  void *filter;                   /* device copy of the given values; NULL: given with each execution */
  void *memory;                   /* device memory of the solver's own: tables; or NULL */
  const void *values;             /* host values of the filter, until the plan is ready */
} falt_cuda_plan;

/* A solver's `plan`, by its steps. It is packed if it reads a filter of known values. */
falt_plan *falt_cuda_plan_make(const falt_solver *solver, falt_ask *ask);

/* Releases the filter and the memory, and frees the plan. */
void falt_cuda_plan_destroy(falt_plan *plan);

/* The last steps of `ready`: compiles the kernel and, unless NULL, the one that adds split-K slices; copies the filter
 * to the GPU if its values are known. */
falt_status falt_cuda_plan_ready(falt_plan *plan, const falt_cuda_kernel *kernel, const falt_cuda_kernel *sum);
falt_status falt_cuda_plan_keep_filter(falt_cuda_plan *plan);

/* Queues a kernel that packs a filter from its first tap to `to`. */
typedef void falt_cuda_pack(const falt_plan *plan, const void *from, void *to, void *stream);
/* For filters that kernels read packed: if the values are known, copies them to the GPU and packs them to `bytes`. */
falt_status falt_cuda_plan_pack_filter(falt_cuda_plan *plan, int64_t bytes, falt_cuda_pack *pack);

/* The address of the first tap: in the plan's copy or in the operand. */
char *falt_cuda_plan_filter(const falt_cuda_plan *plan, const falt_operands *operands);

#endif
