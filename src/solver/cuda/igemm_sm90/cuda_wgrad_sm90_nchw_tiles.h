/* Tile shapes of cuda_wgrad_sm90_nchw.cu: stages of rows, and blocks. Plain C, no GPU needed. */
#ifndef FALT_SOLVER_CUDA_IGEMM_SM90_CUDA_WGRAD_SM90_NCHW_TILES_H
#define FALT_SOLVER_CUDA_IGEMM_SM90_CUDA_WGRAD_SM90_NCHW_TILES_H

#include "solver/cuda/common/tile_search.h"
#include "solver/cuda/igemm_sm90/cuda_igemm_sm90_halo_tiles.h"

typedef struct falt_wgrad_sm90_nchw_problem {
  int64_t images, depth, height, width;
  int64_t channels, results; /* of x, of dy */
  int64_t taps;              /* tap planes */
  int64_t dilation, pad;     /* along planes */
  int unit;                  /* bytes that divide all strides */
  int64_t workspace;         /* bytes that may be used; negative: no limit */
} falt_wgrad_sm90_nchw_problem;

/* The reason that no tile can be legal, or NULL. */
const char *falt_wgrad_sm90_nchw_refusal(const falt_wgrad_sm90_nchw_problem *problem);

/* Offers every tile to the search, with its estimate or its reason. */
void falt_wgrad_sm90_nchw_each(const falt_wgrad_sm90_nchw_problem *problem, const falt_machine *machine,
                               falt_tile_search *search);
/* The best; false if no tile is legal. */
bool falt_wgrad_sm90_nchw_choose(const falt_wgrad_sm90_nchw_problem *problem, const falt_machine *machine,
                                 falt_wgrad_sm90_tile *best);

#endif
