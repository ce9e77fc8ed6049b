// Address of an element of a weight gradient. The kernel defines TYPE_W.
#pragma once
#include "args.h"
#include "convert.cuh"

typedef long long i64;
typedef falt_cuda_igemm_wgrad_args Args;

// The address of a gradient is the sum of the offsets of its row and of its column, which are computed once for all
// combinations. Merged groups are squares on the diagonal: row and column must belong to the same one.
struct Place {
  i64 at;
  int owner;  // which of the merged groups, or one of these:
};
constexpr int NOBODY = -1, BIAS = -2;

__device__ inline Place place_row(const Args &a, int group, int row) {
  const int owner = a.merged == 1 ? 0 : row / a.rows;
  if (row >= a.rows * a.merged) return {0, NOBODY};
  return {((i64)group * a.merged + owner) * a.w_group + (row - owner * a.rows) * a.w_row, owner};
}

__device__ inline Place place_column(const Args &a, int column) {
  const int channels = a.channels * a.merged, tap = column / channels, channel = column - tap * channels;
  if (column >= a.columns) return {0, NOBODY};
  const int s = tap % a.taps[2], rest = tap / a.taps[2], r = rest % a.taps[1], t = rest / a.taps[1];
  if (t == a.taps[0]) return {0, channel == 0 && a.bias ? BIAS : NOBODY};
  const int owner = a.merged == 1 ? 0 : channel / a.channels;
  return {(channel - owner * a.channels) * a.w_channel + t * a.w_axis[0] + r * a.w_axis[1] + s * a.w_axis[2], owner};
}

// Sums are of the type of the bias.
template <typename T>
__device__ inline void put(const Args &a, int group, int row, Place down, Place along, T sum) {
  if (along.owner == BIAS && down.owner != NOBODY)
    ((T *)a.bias)[(i64)group * a.rows * a.merged + row] = sum;
  else if (down.owner == along.owner && down.owner != NOBODY)
    store<T>(a.w, TYPE_W, down.at + along.at, (T)a.alpha * sum);
}
