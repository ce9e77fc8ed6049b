/* Direct filters on a GPU: one filter for all channels, any stride and dilation, every tap a multiply-add on partial
 * sums in registers. src/solver/cuda/filter/cuda_direct.cu has the algorithm,
 * src/solver/cuda/filter/cuda_direct_tiles.c chooses how it is cut. */
#include "solver/cuda/filter/cuda_taps.h"

static falt_plan *plan_direct(const falt_solver *solver, falt_ask *ask) {
  const char *why = falt_cuda_filter_refusal(ask);
  if (why) return falt_refuse(ask, "%s", why);
  falt_taps_plan *plan = falt_tile_plan_new(solver, ask, 0);
  if (!plan) return NULL;
  double taps[FALT_TAPS_MOST];
  falt_problem_taps(ask->problem, ask->filter_values, 0, FALT_F64, taps);
  falt_taps_pack(plan, taps);
  return &plan->base;
}

extern const falt_solver falt_solver_cuda_direct;
const falt_solver falt_solver_cuda_direct = {.name = "cuda-direct", .device_kind = "cuda", .plan = plan_direct};
