/* Dense layers of narrow types in NCHW, forward, by way of NHWC. For images so small that their interleaving at each
 * tap takes longer than two transpositions. */
#include "solver/cpu/common/dense_nchw.h"

static falt_plan *plan_nchw(const falt_solver *solver, falt_ask *ask) {
  return falt_dense_nchw_plan(solver, ask, FALT_FORWARD);
}

extern const falt_solver falt_solver_fprop_nchw;
const falt_solver falt_solver_fprop_nchw = {.name = "fprop-nchw", .device_kind = "cpu", .plan = plan_nchw};
