/* Solver cuda-direct: filters by direct convolution in register tiles. One filter for all channels, any stride and
 * dilation, taps known when planning. Kernel: cuda_direct.cu. Tile search: cuda_direct_tiles.c. */
#include "solver/cuda/filter/cuda_taps.h"

static falt_plan *plan_direct(const falt_solver *solver, falt_ask *ask) {
  return falt_taps_plan_whole(solver, ask, falt_tile_plan_new);
}

extern const falt_solver falt_solver_cuda_direct;
const falt_solver falt_solver_cuda_direct = {.name = "cuda-direct", .device_kind = "cuda", .plan = plan_direct};
