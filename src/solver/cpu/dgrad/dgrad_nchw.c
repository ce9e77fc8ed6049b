/* Solver dgrad-nchw: dgrad of dense NCHW layers of narrow types and of f64, and of f32 with a stride along rows,
 * computed in NHWC. Meant for strides: a polyphase part writes every stride-th pixel, for which NCHW has no fast
 * stores. */
#include "solver/cpu/common/dense_nchw.h"

extern const falt_solver falt_solver_dgrad_nchw;
const falt_solver falt_solver_dgrad_nchw = {
    .name = "dgrad-nchw", .device_kind = "cpu", .plan = falt_plan_make, .steps = &falt_dgrad_nchw_steps};
