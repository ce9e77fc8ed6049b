/* Parts of the solver cuda-igemm-sm90: the layouts of its operands. */
#ifndef FALT_SOLVER_CUDA_IGEMM_SM90_CUDA_IGEMM_SM90_H
#define FALT_SOLVER_CUDA_IGEMM_SM90_CUDA_IGEMM_SM90_H

#include "planner/planner.h"
#include "solver/cuda/igemm_sm90/cuda_igemm_sm90_tiles.h"

/* Why the solver cannot compute a problem, or NULL. */
const char *falt_igemm_sm90_refusal(const falt_ask *ask);

/* The problem that the kernel computes. A layer of one tap in groups is a product for each group: groups take the place
 * of images, and all pixels of a group are one axis. Other problems are as they are. Returns why it takes no such
 * groups, or NULL. */
const char *falt_igemm_sm90_view(const falt_problem *problem, falt_problem *view);

/* The functions below take such a view. Pixels of an image. */
int64_t falt_igemm_sm90_pixels(const falt_tensor *tensor);

/* Whether TMA may walk it by boxes of pixels of channels. */
bool falt_igemm_sm90_has_boxes(const falt_tensor *tensor);

/* The tensor whose pixels number the rows of the product (in wgrad its steps). */
const falt_tensor *falt_igemm_sm90_numbered(const falt_problem *problem);

/* Pixels of one store for NCHW output; 0: NHWC; negative: neither. */
int falt_igemm_sm90_planar(const falt_problem *problem);

/* The number of NCHW operands, which only one tap may read; negative: an operand is neither. */
int falt_igemm_sm90_lines(const falt_problem *problem);

/* The problem as the tile search sees it. */
void falt_igemm_sm90_describe(const falt_problem *problem, falt_igemm_sm90_problem *layer);

#endif
