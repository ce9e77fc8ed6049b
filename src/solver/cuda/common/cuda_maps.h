/* Helpers of the solvers that load operands by TMA: descriptors, alignment tests, and split-K sums. */
#ifndef FALT_SOLVER_CUDA_COMMON_CUDA_MAPS_H
#define FALT_SOLVER_CUDA_COMMON_CUDA_MAPS_H

#include "cuda/gpu.h"
#include "planner/planner.h"
#include "solver/cuda/igemm_sm90/cuda_igemm_sm90_halo_tiles.h"

enum { FALT_MAP_ALIGN = 16 }; /* bytes: the alignment of addresses and strides that TMA requires */

/* Sets dimension i of a TMA descriptor to `dim` of the tensor. A dimension of size 1 gets any stride that is legal. */
void falt_map_dimension(falt_gpu_map *map, int i, const falt_tensor *tensor, int dim);

/* The descriptor of boxes of `span` pixels by `span` channels of an NCHW tensor whose planes are contiguous. */
falt_gpu_map falt_map_planes(const falt_tensor *tensor, void *data, int span);

/* The descriptor of boxes of `rows` pixels by 128 bytes of channels of an NHWC tensor with one axis. */
falt_gpu_map falt_map_rows(const falt_tensor *tensor, void *data, int rows);

/* Whether TMA can address a tensor with contiguous elements along `unit`: all other strides and the offset of the first
 * element are multiples of 16 bytes. The second function tests the address. */
bool falt_map_takes(const falt_tensor *tensor, int unit);
bool falt_map_aligned(const void *data, const falt_tensor *tensor);

/* The split-K sums of a weight gradient: split_k * rows * columns, with `tap_columns` contiguous columns a tap. */
typedef struct falt_map_sums {
  int split_k;
  int64_t rows, columns;
  int tap_columns;
} falt_map_sums;

/* Launches cuda_igemm_sm90_sum.cu on the sums in the workspace. */
void falt_map_add_sums(falt_cu_function sum, const falt_plan *plan, const falt_operands *operands, falt_map_sums sums);

/* The reason that a layer or gradient with these operand types cannot use wgmma with TMA, or NULL. The first function
 * accepts any layout, the second requires contiguous channels. */
const char *falt_map_type_refusal(const falt_ask *ask, falt_type factor, falt_type other);
const char *falt_map_refusal(const falt_ask *ask, falt_type factor, falt_type other);

#endif
