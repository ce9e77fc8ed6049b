/* The base of CUDA plans: the kernel functions, and the device copy of the filter if its values are known when
 * planning. */
#ifndef FALT_SOLVER_CUDA_COMMON_PLAN_H
#define FALT_SOLVER_CUDA_COMMON_PLAN_H

#include "solver/cuda/common/cuda.h"

/* Solvers embed it as their first member. */
typedef struct falt_cuda_plan {
  falt_plan base;
  falt_cu_function function, sum; /* sum: adds split-K slices, where a solver cuts so */
  void *filter;                   /* on the GPU, as it was given; NULL: it comes with each execution */
  const void *values;             /* of the filter, until the plan is ready */
} falt_cuda_plan;

/* As falt_plan_new. The plan is packed where the filter is read and its values are known. */
void *falt_cuda_plan_new(size_t size, const falt_plan_table *table, const falt_solver *solver, falt_ask *ask);

/* For tables: plans that own nothing but memory of the host beside their base. */
void falt_cuda_plan_destroy(falt_plan *plan);

/* Destroys the plan and refuses. */
falt_plan *falt_cuda_plan_drop(falt_cuda_plan *plan, falt_ask *ask, const char *why);

/* The end of `ready`: copies the filter to the GPU, if its values are known. */
falt_status falt_cuda_plan_keep_filter(falt_cuda_plan *plan);

/* The first tap's address: the plan's own or the operand's. */
char *falt_cuda_plan_filter(const falt_cuda_plan *plan, const falt_operands *operands);

#endif
