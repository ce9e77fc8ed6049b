// The sums of a filter's gradient over all shares of the pixels, always in the same order.
//
// Holes:
//   SUM      type of the sums
//   TYPE_W   number of falt_type: the filter's
#include "gemm_filter.cuh"

// The shares' sums: neighbouring threads take neighbouring columns.
extern "C" __global__ void __launch_bounds__(256) falt_gemm_filter_sum(const __grid_constant__ Args a) {
  const int rows = a.row_tiles * a.tile[0], columns = a.column_tiles * a.tile[1];
  const i64 tile = (i64)rows * columns, i = blockIdx.x * 256ll + threadIdx.x;
  if (i >= tile) return;
  const SUM *from = (const SUM *)a.partial + (i64)blockIdx.y * a.shares * tile + i;
  SUM sum = 0;
#pragma unroll 8
  for (int share = 0; share < a.shares; share++) sum += from[share * tile];
  put(a, blockIdx.y, (int)(i / columns), (int)(i % columns), sum);
}
