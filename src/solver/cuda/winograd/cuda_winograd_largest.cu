// The largest finite magnitudes of an operand in f16, by which its transforms are scaled; or of the magnitudes of its
// parts. A block takes some pieces of lines: for the filter those of an output channel. Where output channels are
// neighbours, falt_winograd_largest_rows takes 32 of them and a part of their elements.

// Compile-time parameter: TYPE, the number of the operand's falt_type.

#include "convert.cuh"
#include "cuda_winograd_args.h"
#include "ptx/early.cuh"

typedef falt_cuda_winograd_largest_args Args;
typedef long long i64;
constexpr int THREADS = 256, LANES = 32, PIECE = FALT_WINOGRAD_PIECE, WORDS = PIECE / (8 * LANES);

__device__ inline float larger(float largest, float value) {
  return fabsf(value) <= 65504 ? fmaxf(largest, fabsf(value)) : largest;
}

// `count` elements of a line, by the lanes of a warp.
__device__ inline float largest_of(const Args &a, i64 at, int count, float largest) {
  const int lane = threadIdx.x % LANES;
  const unsigned short *from = (const unsigned short *)a.data + at;
  if (TYPE == F16 && a.stride[0] == 1 && count == PIECE && (size_t)from % 16 == 0) {
    uint4 word[WORDS];
#pragma unroll
    for (int i = 0; i < WORDS; i++) word[i] = __ldg((const uint4 *)from + i * LANES + lane);
#pragma unroll
    for (int i = 0; i < WORDS * 4; i++) {
      const unsigned two = (&word[i / 4].x)[i % 4];
      largest = larger(larger(largest, from_f16(two)), from_f16(two >> 16));
    }
    return largest;
  }
#pragma unroll 4
  for (int i = lane; i < count; i += LANES) largest = larger(largest, load<float>(a.data, TYPE, at + i * a.stride[0]));
  return largest;
}

__device__ inline i64 place_of(const Args &a, i64 index, int first) {
  i64 at = 0;
  for (int i = first; i < a.dims; i++) {
    at += index % a.size[i] * a.stride[i];
    index /= a.size[i];
  }
  return at;
}

extern "C" __global__ void __launch_bounds__(THREADS, 4) falt_winograd_largest_rows(const __grid_constant__ Args a) {
  __shared__ float warps[THREADS / LANES][LANES];
  await_stream();
  const unsigned blocks = (a.rows + LANES - 1) / LANES, split = blockIdx.x % FALT_WINOGRAD_SPLITS;
  const unsigned others = blockIdx.x / FALT_WINOGRAD_SPLITS, group = others / blocks;
  const int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES, row = others % blocks * LANES + lane;
  const i64 first = split * a.pieces, end = min(first + a.pieces, a.all_pieces);
  const i64 part = (a.pieces + THREADS / LANES - 1) / (THREADS / LANES);
  const i64 begin = first + warp * part, stop = min(end, begin + part), place = row * a.row + group * a.group;
  float largest = 0;
  for (i64 i = begin; row < a.rows && i < stop;) {
    const int inner = (int)(i % a.size[0]), count = (int)min(stop - i, a.size[0] - inner);
    const i64 at = place_of(a, i, 0) + place;
#pragma unroll 8
    for (int j = 0; j < count; j++) largest = larger(largest, load<float>(a.data, TYPE, at + j * a.stride[0]));
    i += count;
  }
  warps[warp][lane] = largest;
  __syncthreads();
  if (warp > 0 || row >= a.rows) return;
  for (int i = 1; i < THREADS / LANES; i++) largest = fmaxf(largest, warps[i][lane]);
  a.largest[(split * a.groups + group) * (i64)a.rows + row] = largest;
}

extern "C" __global__ void __launch_bounds__(THREADS, 4) falt_winograd_largest(const __grid_constant__ Args a) {
  __shared__ unsigned warps[THREADS / 32];
  await_stream();
  const i64 first = blockIdx.x * a.pieces, end = min(first + a.pieces, a.all_pieces);
  const i64 line_pieces = (a.size[0] + PIECE - 1) / PIECE;
  float largest = a.least;
  for (i64 piece = first + threadIdx.x / LANES; piece < end; piece += THREADS / LANES) {
    const int begin = (int)(piece % line_pieces) * PIECE;
    const i64 at = begin * a.stride[0] + place_of(a, piece / line_pieces, 1);
    largest = largest_of(a, at, (int)min((i64)PIECE, a.size[0] - begin), largest);
  }
  const unsigned most = __reduce_max_sync(~0u, __float_as_uint(largest));
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = most;
  __syncthreads();
  if (threadIdx.x > 0) return;
  unsigned all = most;
  for (int i = 1; i < THREADS / 32; i++) all = max(all, warps[i]);
  a.largest[blockIdx.x] = __uint_as_float(all);
}
