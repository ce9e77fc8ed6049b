// The sums of a filter's gradient over all shares of the pixels, always in the same order.
//
// Holes:
//   SUM      type of the sums
//   TYPE_W   number of falt_type: the filter's
#include "gemm_filter.cuh"
#include "ptx/early.cuh"

// A block takes 32 neighbouring columns and every gridDim.y-th 8 rows: where a column goes is found once for them.
extern "C" __global__ void __launch_bounds__(256) falt_gemm_filter_sum(const __grid_constant__ Args a) {
  const int rows = a.row_tiles * a.tile[0], columns = a.column_tiles * a.tile[1];
  const int group = blockIdx.z, column = blockIdx.x * 32 + threadIdx.x;
  const i64 all = (i64)rows * columns;
  if (column >= columns) return;
  const SUM *sums = (const SUM *)a.partial + group * a.shares * all + column;
  const Place along = place_column(a, column);
  await_stream();
#pragma unroll 1
  for (int row = blockIdx.y * 8 + threadIdx.y; row < rows; row += gridDim.y * 8) {
    const SUM *from = sums + (i64)row * columns;
    SUM sum = 0;
#pragma unroll 8
    for (int share = 0; share < a.shares; share++) sum += from[share * all];
    put(a, group, row, place_row(a, group, row), along, sum);
  }
}
