/* Helpers of the im2col solvers: the layout of filters and outputs as matrices. */
#ifndef FALT_SOLVER_COMMON_IM2COL_H
#define FALT_SOLVER_COMMON_IM2COL_H

#include "planner/planner.h"

/* Outputs of one channel of an image. */
int64_t falt_im2col_positions(const falt_tensor *y);
/* Whether an image's positions are equally spaced, from the last dimension outwards. */
bool falt_im2col_is_even(const falt_tensor *y);
/* Whether that step is one element. */
bool falt_im2col_is_by_row(const falt_tensor *y);
/* Whether channels and taps of an output are dense, with channels outermost or innermost. */
bool falt_im2col_taps_lie(const falt_tensor *w, bool channels_first);

#endif
