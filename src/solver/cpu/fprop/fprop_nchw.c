/* Dense layers of narrow types in NCHW, forward, by way of NHWC. For images so small that their interleaving at each
 * tap takes longer than two transpositions. */
#include "solver/cpu/common/dense_nchw.h"

extern const falt_solver falt_solver_fprop_nchw;
const falt_solver falt_solver_fprop_nchw = {
    .name = "fprop-nchw", .device_kind = "cpu", .plan = falt_plan_make, .steps = &falt_fprop_nchw_steps};
