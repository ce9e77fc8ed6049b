/* Direct filters on a GPU: one filter for all channels, any stride and dilation, every tap a multiply-add on partial
 * sums in registers. src/solver/cuda/filter/cuda_direct.cu has the algorithm,
 * src/solver/cuda/filter/cuda_direct_tiles.c chooses how it is cut. */
#include "solver/cuda/filter/cuda_taps.h"

static falt_plan *plan_direct(const falt_solver *solver, falt_ask *ask) {
  return falt_taps_plan_whole(solver, ask, falt_tile_plan_new);
}

extern const falt_solver falt_solver_cuda_direct;
const falt_solver falt_solver_cuda_direct = {.name = "cuda-direct", .device_kind = "cuda", .plan = plan_direct};
