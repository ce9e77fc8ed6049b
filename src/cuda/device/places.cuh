// Positions of elements that the boundaries of an image continue. Compile-time parameters: PIXEL, FAR, AXIS_T AXIS_R
// AXIS_S, as in cuda_direct.cu.
#pragma once
#include "args.h"
#include "boundary.cuh"
#include "elements.cuh"

// The position of the element that continues the row at `at`; negative: the constant. Always an existing element, for
// any `at`.
__device__ inline int place(const falt_cuda_tile_args &a, int at) {
  const int size = a.in[2] / PIXEL, pixel = at >= 0 ? at / PIXEL : -((PIXEL - 1 - at) / PIXEL);
  const int folded = fold<int, FAR>(AXIS_S, size, pixel);
  return folded < 0 ? -1 : min(folded, size - 1) * PIXEL + (at - pixel * PIXEL);
}

// The same for rows; null: all elements are the constant.
__device__ inline const X *row_at(const falt_cuda_tile_args &a, const X *x, int plane, int row) {
  plane = fold<int, FAR>(AXIS_T, a.in[0], plane);
  row = fold<int, FAR>(AXIS_R, a.in[1], row);
  if (plane < 0 || row < 0) return nullptr;
  return x + (min(plane, a.in[0] - 1) * a.x_plane + min(row, a.in[1] - 1) * a.x_row);
}
