/* Helpers of the CUDA implicit GEMM solvers: operand roles, applicability, channel vectors, merged groups and split-K
 * sums. */
#ifndef FALT_SOLVER_CUDA_COMMON_CUDA_IGEMM_H
#define FALT_SOLVER_CUDA_COMMON_CUDA_IGEMM_H

#include "solver/cuda/common/cuda.h"
#include "solver/cuda/common/igemm.h"

enum { FALT_IGEMM_VECTOR = 16, FALT_IGEMM_GRID = 65535 }; /* bytes; blocks along y and z */

/* What a layer or its data gradient reads and writes: the two differ in nothing else. row, depth: dimensions of
 * the filter, channels of the output and of the source. */
typedef struct falt_igemm_roles {
  const falt_tensor *source, *result;
  int row, depth;
} falt_igemm_roles;
falt_igemm_roles falt_igemm_roles_of(const falt_problem *problem);
falt_igemm_axis falt_igemm_axis_of(const falt_problem *problem, const falt_igemm_roles *roles, int axis);

/* Why neither of them computes the problem, or NULL. Its factors are `source` (the input, or for a data gradient
 * the output) and `other`. */
const char *falt_igemm_refusal(const falt_ask *ask, falt_type source, falt_type other);
/* Whether the input has a boundary that is not constant. */
bool falt_igemm_folds(const falt_problem *problem);
/* Whether the constant beyond the ends is an element. */
bool falt_igemm_constant_fits(const falt_problem *problem);

/* Whether ways within a tile of pixels fit 32 bits. */
bool falt_igemm_small_planes(const falt_tensor *tensor);

/* Strides, 0 where there is no neighbour. */
int64_t falt_igemm_stride(const falt_tensor *tensor, int dim);
/* As many neighbours along a dimension, a power of two and so many at most, as divide all distances between lines. */
int falt_igemm_unit(const falt_tensor *tensor, int along, int most);
/* From one channel to the next where groups may be merged. */
int64_t falt_igemm_channel_stride(const falt_tensor *tensor);
/* The first logical element of an operand. */
char *falt_igemm_element(void *data, const falt_tensor *tensor);

/* So many groups in one that it has `least` of `channels` each, if their channels lie as those of one group would. */
int falt_igemm_merge(const falt_problem *problem, int64_t channels, int64_t least);
/* Whether strides beside those of channels are multiples of so many elements. */
bool falt_igemm_strides_divide(const falt_tensor *tensor, int merged, int64_t elements);

/* The widest piece of channels that are contiguous: unit bytes; or one by one: gather channels an entry. */
typedef struct falt_igemm_piece {
  int unit, gather;
} falt_igemm_piece;
falt_igemm_piece falt_igemm_piece_of(const falt_tensor *tensor, int merged);

/* How pixels or groups lie, if spans can take their channels: those of a forward layer, or of a phase of a gradient. */
bool falt_igemm_find_spans(const falt_tensor *source, const falt_igemm_phase phase[3], falt_igemm_evenly *evenly);

/* What kernels read of a source; its steps are 1, its pointers are set later. */
falt_cuda_igemm_source falt_igemm_source_of(const falt_problem *problem, const falt_tensor *tensor, int merged);

/* The parameters of kernels that include finish.cuh. */
void falt_igemm_result_defines(const falt_problem *problem, falt_type result, falt_cuda_kernel *kernel);

/* For cuda_wgrad_sum.cu: so many split-K slices of a weight gradient, of all rows of merged groups and `columns` of
 * each, tap by tap. The sums, the filter and the bias are set later. */
falt_cuda_igemm_wgrad_args falt_igemm_slices_of(const falt_problem *problem, int merged, int split_k, int columns);

/* Starts cuda_wgrad_sum.cu, which adds the split-K slices of a weight gradient. */
void falt_igemm_start_sums(const falt_device *device, falt_cu_function kernel, falt_cuda_igemm_wgrad_args *args,
                           void *stream);

#endif
