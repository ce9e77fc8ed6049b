/* Converts tensors of narrow types to dense f32 tensors in a cache and back, for solvers that compute in f32. */
#ifndef FALT_SOLVER_CPU_COMMON_UPCONVERT_H
#define FALT_SOLVER_CPU_COMMON_UPCONVERT_H

#include "planner/planner.h"
#include "solver/common/upconverted.h"

/* Every element of `tensor` in `data` to the wide one, and back, rounded to the nearest value, ties to even; on all
 * threads unless called by one of them. */
void falt_upconvert(const falt_device *device, const falt_tensor *tensor, const void *data, const falt_tensor *wide,
                    float *to);
void falt_downconvert(const falt_device *device, const falt_tensor *wide, const float *from, const falt_tensor *tensor,
                      void *data);

/* The cost of one conversion, in multiply-adds of f32 vectors counted as two operations. */
double falt_upconvert_flops(const falt_tensor *tensor);
double falt_downconvert_flops(const falt_tensor *tensor);

#endif
