// Adds the split-K slices of a weight gradient in a fixed order.

// Compile-time parameters:
//   SUM      type of the sums
//   TYPE_W   number of falt_type: the filter's

#include "cuda_wgrad.cuh"
#include "ptx/early.cuh"

// Split-K slices [begin, end) of an element; `next`: from one split-K slice's to the next one's.
__device__ inline SUM sum_of(const SUM *from, i64 next, int begin, int end) {
  SUM sum = 0;
#pragma unroll 8
  for (int slice = begin; slice < end; slice++) sum += from[slice * next];
  return sum;
}

// A block adds 32 neighbouring columns, whose addresses are computed once, and 8 rows. If there are many split-K
// slices, several threads sum a part of them, for fewer rows.
extern "C" __global__ void __launch_bounds__(256) falt_igemm_wgrad_sum(const __grid_constant__ Args a) {
  __shared__ SUM shared[8][32];
  const int rows = a.row_tiles * a.tile[0], columns = a.column_tiles * a.tile[1], abreast = 8 >> a.parts;
  const int group = blockIdx.z, column = blockIdx.x * 32 + threadIdx.x;
  const int part = threadIdx.y >> (3 - a.parts), line = threadIdx.y & (abreast - 1);
  const i64 all = (i64)rows * columns;
  const SUM *sums = (const SUM *)a.partial + group * a.split_k * all + column;
  const Place along = place_column(a, column);
  await_stream();
#pragma unroll 1
  for (int first = blockIdx.y * abreast; first < rows; first += gridDim.y * abreast) {
    const int row = first + line;
    const bool exists = row < rows && column < columns;
    SUM sum = 0;
    if (exists)
      sum = sum_of(sums + (i64)row * columns, all, part * a.split_k >> a.parts, (part + 1) * a.split_k >> a.parts);
    if (a.parts > 0) {
      shared[threadIdx.y][threadIdx.x] = sum;
      __syncthreads();
      for (int i = 1; part == 0 && i < 1 << a.parts; i++) sum += shared[i * abreast + line][threadIdx.x];
      __syncthreads();
    }
    if (exists && part == 0) put(a, group, row, place_row(a, group, row), along, sum);
  }
}
