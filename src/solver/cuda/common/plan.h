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
  const void *values;             /* host values of the filter, until the plan is ready */
} falt_cuda_plan;

/* As falt_plan_new. Marks the plan as packed if it reads a filter of known values. */
void *falt_cuda_plan_new(size_t size, const falt_plan_table *table, const falt_solver *solver, falt_ask *ask);

/* The destroy function of plans without resources of their own on the device. */
void falt_cuda_plan_destroy(falt_plan *plan);

/* Destroys the plan and refuses. */
falt_plan *falt_cuda_plan_drop(falt_cuda_plan *plan, falt_ask *ask, const char *why);

/* The last step of `ready`: copies the filter to the GPU if its values are known. */
falt_status falt_cuda_plan_keep_filter(falt_cuda_plan *plan);

/* The address of the first tap: in the plan's copy or in the operand. */
char *falt_cuda_plan_filter(const falt_cuda_plan *plan, const falt_operands *operands);

#endif
