/* Helpers of the solvers that load operands by TMA: descriptors, alignment tests, and split-K sums. */
#ifndef FALT_SOLVER_CUDA_COMMON_CUDA_MAPS_H
#define FALT_SOLVER_CUDA_COMMON_CUDA_MAPS_H

#include "cuda/gpu.h"
#include "planner/planner.h"
#include "solver/cuda/igemm_sm90/cuda_igemm_sm90_halo_tiles.h"

enum { FALT_MAP_ALIGN = 16 }; /* bytes that divide the addresses and strides that TMA takes */

/* A tensor's first element in its memory. */
void *falt_map_element(void *data, const falt_tensor *tensor);

/* Dimension i of a map is `dim` of the tensor. Where that has no neighbours the stride is any that the driver takes. */
void falt_map_dimension(falt_gpu_map *map, int i, const falt_tensor *tensor, int dim);

/* Boxes of `span` pixels of as many channels; rows and planes of pixels follow on each other. */
falt_gpu_map falt_map_planes(const falt_tensor *tensor, void *data, int span);

/* Whether it walks a tensor whose elements are contiguous along `unit`: 16 bytes divide all distances between lines and
 * the first element's place; and whether they divide its address. */
bool falt_map_takes(const falt_tensor *tensor, int unit);
bool falt_map_aligned(const void *data, const falt_tensor *tensor);

/* Sums of weight gradients: split_k * rows * columns, a tap's `tap_columns` side by side. */
typedef struct falt_map_sums {
  int split_k;
  int64_t rows, columns;
  int tap_columns;
} falt_map_sums;

/* Starts cuda_igemm_sm90_sum.cu's kernel on the sums in the workspace. */
void falt_map_add_sums(falt_cu_function sum, const falt_plan *plan, const falt_operands *operands, falt_map_sums sums);

/* Why a layer, or a gradient, of these two types of factors is not for wgmma fed by TMA; or NULL. The first
 * asks nothing of the order in memory, the second for channels side by side. */
const char *falt_map_type_refusal(const falt_ask *ask, falt_type factor, falt_type other);
const char *falt_map_refusal(const falt_ask *ask, falt_type factor, falt_type other);

#endif
