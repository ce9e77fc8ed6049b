/* What the solvers that multiply matrices on GPUs share: types, pieces of channels, merged groups. */
#ifndef FALT_SOLVER_CUDA_COMMON_CUDA_GEMM_H
#define FALT_SOLVER_CUDA_COMMON_CUDA_GEMM_H

#include "solver/cuda/common/cuda.h"
#include "solver/cuda/common/gemm.h"

enum { FALT_GEMM_VECTOR = 16, FALT_GEMM_GRID = 65535 }; /* bytes; blocks along y and z */

/* What a layer or its gradient by the data reads and writes: the two differ in nothing else. row, depth: dimensions of
 * the filter, channels of the result and of the source. */
typedef struct falt_gemm_roles {
  const falt_tensor *source, *result;
  int row, depth;
} falt_gemm_roles;
falt_gemm_roles falt_gemm_roles_of(const falt_problem *problem);
falt_gemm_axis falt_gemm_axis_of(const falt_problem *problem, const falt_gemm_roles *roles, int axis);

/* Why neither of them computes the problem, or NULL. Its factors are `source` (the input, or for a gradient by the data
 * the output) and `other`. */
const char *falt_gemm_refusal(const falt_ask *ask, falt_type source, falt_type other);
/* Whether the input goes on beyond its ends other than by a constant. */
bool falt_gemm_folds(const falt_problem *problem);
/* Whether the constant beyond the ends is an element. */
bool falt_gemm_constant_fits(const falt_problem *problem);

/* Whether ways within a tile of pixels fit 32 bits. */
bool falt_gemm_small_planes(const falt_tensor *tensor);

/* Strides, 0 where there is no neighbour. */
int64_t falt_gemm_stride(const falt_tensor *tensor, int dim);
/* As many neighbours along a dimension, a power of two and so many at most, as divide all ways between lines. */
int falt_gemm_unit(const falt_tensor *tensor, int along, int most);
/* From one channel to the next where groups may be merged. */
int64_t falt_gemm_channel_stride(const falt_tensor *tensor);
/* The first logical element of an operand. */
char *falt_gemm_element(void *data, const falt_tensor *tensor);

/* So many groups in one that it has `least` of `channels` each, if their channels lie as those of one group would. */
int falt_gemm_merge(const falt_problem *problem, int64_t channels, int64_t least);
/* Whether strides beside those of channels are multiples of so many elements. */
bool falt_gemm_strides_divide(const falt_tensor *tensor, int merged, int64_t elements);

/* The widest piece of channels that lie side by side: unit bytes; or one by one: gather channels an entry. */
typedef struct falt_gemm_piece {
  int unit, gather;
} falt_gemm_piece;
falt_gemm_piece falt_gemm_piece_of(const falt_tensor *tensor, int merged);

/* How pixels or groups lie, if spans can take their channels: those of a forward layer, or of a phase of a gradient. */
bool falt_gemm_find_spans(const falt_tensor *source, const falt_gemm_phase phase[3], falt_gemm_evenly *evenly);

/* What kernels read of a source; its steps are 1, its pointers are set later. */
falt_cuda_gemm_source falt_gemm_source_of(const falt_problem *problem, const falt_tensor *tensor, int merged);

/* The holes of kernels that include finish.cuh. */
void falt_gemm_result_holes(const falt_problem *problem, falt_type result, falt_cuda_kernel *kernel);

/* For cuda_wgrad_sum.cu: so many shares of a filter's gradient, of all rows of merged groups and `columns` of each,
 * tap by tap. The sums, the filter and the bias are set later. */
falt_cuda_gemm_filter_args falt_gemm_shares_of(const falt_problem *problem, int merged, int shares, int columns);

/* Starts cuda_wgrad_sum.cu, which adds the shares of a filter's gradient. */
void falt_gemm_start_sums(const falt_device *device, falt_cu_function kernel, falt_cuda_gemm_filter_args *args,
                          void *stream);

#endif
