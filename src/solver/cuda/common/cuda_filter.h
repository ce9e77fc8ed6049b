/* Helpers of the CUDA filter solvers, which apply one set of taps to all channels. */
#ifndef FALT_SOLVER_CUDA_COMMON_CUDA_FILTER_H
#define FALT_SOLVER_CUDA_COMMON_CUDA_FILTER_H

#include "solver/cuda/common/cuda.h"

/* The reason that none of the filter solvers applies, or NULL. */
const char *falt_cuda_filter_refusal(const falt_ask *ask);

/* Whether strides are 1, and dilations along axes of several taps. */
bool falt_cuda_unit_steps(const falt_problem *problem);
/* Whether the constant beyond the ends can be staged as an element of the image. */
bool falt_cuda_holds_fill(const falt_problem *problem);
/* Whether channels are interleaved in input and output: a row of pixels is then one long row with taps farther apart.
 */
bool falt_cuda_interleaved(const falt_problem *problem);

/* Size and stride along axis 0 to 2 of space, or along -1: none. Dimensions of size 1 have stride 0. */
int64_t falt_cuda_size_along(const falt_tensor *tensor, int axis);
int64_t falt_cuda_stride_along(const falt_tensor *tensor, int axis);
int64_t falt_cuda_batch_stride(const falt_tensor *tensor, int dim);
/* The largest power of two, up to 16, that divides all strides between rows. */
int falt_cuda_alignment(int64_t row, int64_t plane, const int64_t batch[2]);

/* The parameters TAPS_X, PAD_X and AXIS_X of an axis, for the letter X. */
void falt_cuda_axis_defines(falt_cuda_kernel *kernel, const falt_problem *problem, char letter, int axis);

#endif
