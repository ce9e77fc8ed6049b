/* The tensors that can be upconverted to f32, and their shapes in f32, for solvers that compute narrow types in f32. */
#ifndef FALT_SOLVER_COMMON_UPCONVERTED_H
#define FALT_SOLVER_COMMON_UPCONVERTED_H

#include "problem/problem.h"

/* The reason that a layer cannot be computed in f32 with converted operands and outputs, or NULL. */
const char *falt_upconvert_refusal(const falt_problem *problem);

/* The same tensor in f32, dense in the order of its strides; elements that repeat one another still do. False if its
 * size in bytes overflows. */
bool falt_upconvert_shape(falt_tensor *wide, const falt_tensor *tensor, size_t *bytes);

/* Dimensions by rising stride; dimensions of stride 0 come first. */
void falt_upconvert_order(const falt_tensor *tensor, int dims[FALT_DIMS]);

#endif
