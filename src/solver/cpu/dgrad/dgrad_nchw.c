/* Solver dgrad-nchw: dgrad of dense NCHW layers, computed in NHWC. Meant for strides, where a polyphase part writes
 * every stride-th pixel, for which NCHW has no fast stores; and for short rows of f32. */
#include "solver/cpu/common/dense_nchw.h"

extern const falt_solver falt_solver_dgrad_nchw;
const falt_solver falt_solver_dgrad_nchw = {
    .name = "dgrad-nchw", .device_kind = "cpu", .plan = falt_plan_make, .steps = &falt_dgrad_nchw_steps};
