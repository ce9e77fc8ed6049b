/* Helpers of the CUDA implicit GEMM solvers: operand roles, applicability, channel vectors, merged groups and split-K
 * sums. */
#ifndef FALT_SOLVER_CUDA_COMMON_CUDA_IGEMM_H
#define FALT_SOLVER_CUDA_COMMON_CUDA_IGEMM_H

#include "solver/cuda/common/cuda.h"
#include "solver/cuda/common/igemm.h"

enum { FALT_IGEMM_VECTOR = 16, FALT_IGEMM_GRID = 65535 }; /* bytes; blocks along y and z */

/* The operands of fprop and dgrad in the same roles. row, depth: the filter's dimensions of the output's and of the
 * source's channels. */
typedef struct falt_igemm_roles {
  const falt_tensor *source, *result;
  int row, depth;
} falt_igemm_roles;
falt_igemm_roles falt_igemm_roles_of(const falt_problem *problem);
falt_igemm_axis falt_igemm_axis_of(const falt_problem *problem, const falt_igemm_roles *roles, int axis);

/* The reason that none of the implicit GEMM solvers applies, or NULL. The operands of the product have types `source`
 * (x; in dgrad dy) and `other`. */
const char *falt_igemm_refusal(const falt_ask *ask, falt_type source, falt_type other);
/* Whether the input has a boundary that is not constant. */
bool falt_igemm_folds(const falt_problem *problem);
/* Whether the constant beyond the ends is representable as an element. */
bool falt_igemm_constant_fits(const falt_problem *problem);

/* Whether offsets within a tile of pixels fit into 32 bits. */
bool falt_igemm_small_planes(const falt_tensor *tensor);

/* The vector length along a dimension: the largest power of two, up to `most`, that divides all other strides. */
int falt_igemm_unit(const falt_tensor *tensor, int along, int most);
/* The stride of channels if groups may be merged. */
int64_t falt_igemm_channel_stride(const falt_tensor *tensor);

/* The number of groups to merge into one of at least `least` channels, `channels` from each; 1 if their channels do not
 * have the layout of one group. */
int falt_igemm_merge(const falt_problem *problem, int64_t channels, int64_t least);
/* Whether all strides except those of channels are multiples of `elements`. */
bool falt_igemm_strides_divide(const falt_tensor *tensor, int merged, int64_t elements);

/* The widest vector of contiguous channels: `unit` bytes; or `gather` channels an entry that are loaded one by one. */
typedef struct falt_igemm_piece {
  int unit, gather;
} falt_igemm_piece;
falt_igemm_piece falt_igemm_piece_of(const falt_tensor *tensor, int merged);

/* The spacing of pixels or groups if spans can load their channels, in fprop or in a polyphase part of a dgrad. */
bool falt_igemm_find_spans(const falt_tensor *source, const falt_igemm_polyphase polyphase[3],
                           falt_igemm_evenly *evenly);

/* The kernel argument of a source; its steps are 1, its pointers are set later. */
falt_cuda_igemm_source falt_igemm_source_of(const falt_problem *problem, const falt_tensor *tensor, int merged);

/* The parameters of kernels that include finish.cuh. */
void falt_igemm_result_defines(const falt_problem *problem, falt_type result, falt_cuda_kernel *kernel);

/* The arguments of cuda_wgrad_sum.cu: `split_k` slices of a weight gradient, with all rows of merged groups and
 * `columns` columns of each, tap by tap. The sums, the filter and the bias are set later. */
falt_cuda_igemm_wgrad_args falt_igemm_slices_of(const falt_problem *problem, int merged, int split_k, int columns);

/* The kernel cuda_wgrad_sum.cu for a problem, with sums of a type. */
falt_cuda_kernel falt_igemm_sum_kernel(const falt_problem *problem, const char *sum);
/* Launches cuda_wgrad_sum.cu, which adds the split-K slices of a weight gradient in the workspace. */
void falt_igemm_add_slices(const falt_plan *plan, falt_cu_function kernel, const falt_cuda_igemm_wgrad_args *args,
                           const falt_operands *operands);

#endif
