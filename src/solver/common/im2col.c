/* The filters and outputs of layers as matrices, for the im2col solvers. */
#include "solver/common/im2col.h"

int64_t falt_im2col_positions(const falt_tensor *y) {
  return y->size[FALT_D] * y->size[FALT_H] * y->size[FALT_W];
}

bool falt_im2col_is_even(const falt_tensor *y) {
  int64_t step = 0, next = 0;
  for (int dim = FALT_W; dim >= FALT_D; dim--) {
    if (y->size[dim] == 1) continue;
    if (step && y->stride[dim] != next) return false;
    if (!step) step = y->stride[dim];
    next = y->stride[dim] * y->size[dim];
  }
  return step >= 0;
}

bool falt_im2col_is_by_row(const falt_tensor *y) {
  for (int dim = FALT_W; dim >= FALT_D; dim--)
    if (y->size[dim] > 1) return y->stride[dim] == 1;
  return true;
}

bool falt_im2col_taps_lie(const falt_tensor *w, bool channels_first) {
  static const int orders[2][4] = {{FALT_C, FALT_W, FALT_H, FALT_D}, {FALT_W, FALT_H, FALT_D, FALT_C}};
  int64_t next = 1;
  for (int i = 0; i < 4; i++) {
    const int dim = orders[channels_first][i];
    if (w->size[dim] > 1 && w->stride[dim] != next) return false;
    next *= w->size[dim];
  }
  return w->size[FALT_K] == 1 || w->stride[FALT_K] >= next;
}
