/* Solver fprop-nchw: dense NCHW layers, forward, computed in NHWC. Meant for images so small that interleaving them for
 * each tap takes longer than two transposes, or that vectors along their rows are part empty. */
#include "solver/cpu/common/dense_nchw.h"

extern const falt_solver falt_solver_fprop_nchw;
const falt_solver falt_solver_fprop_nchw = {
    .name = "fprop-nchw", .device_kind = "cpu", .plan = falt_plan_make, .steps = &falt_fprop_nchw_steps};
