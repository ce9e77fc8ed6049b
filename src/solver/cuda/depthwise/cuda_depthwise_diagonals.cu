// Depthwise wgrad, NHWC, stride 1, f16 and bf16, on tensor cores of sm_90a (wgmma):
//
//     dw[r][s][c] = sum over pixels of x[pixel + (r, s)][c] * dy[pixel][c]
//
// An MMA multiplies eight channels of x at eight neighbouring pixels with eight channels of dy at several pixel rows;
// only the diagonal of each 8x8 channel block is used.

// Operands are read from shared memory without a transpose. Eight channels of a pixel are 16 bytes, the unit of a wgmma
// operand, and the descriptor's distance between blocks of eight rows or columns may be as small as one pixel. So the
// 64 rows of a product are eight channels of x at eight neighbouring pixels, one for each tap column. The columns are
// eight channels of dy at consecutive pixel rows, one for each tap row. The depth is 16 pixels. One sum in eight
// combines a channel with itself; the others are discarded. Memory bandwidth leaves enough time for these 64x56x16
// products. The accumulators stay in registers over all tiles of a block.
//
// A tile is a few rows of x of one image with all rows of dy that they meet. Rows are separated by zeros, so all pixels
// of a tile form one depth. Each block sums a split-K slice of the tiles; cuda_depthwise_sum.cu adds the slices in a
// fixed order. Padding zeros are multiplied by elements of the other operand: if a sum is not finite, it is recomputed
// from its own products.

// Compile-time parameters:
//   PAIR                       types of the operands, "f16.f16" or "bf16.bf16"
//   KIND                       the same, HALVES or BRAINS
//   TAPS_R TAPS_S PAD_R PAD_S  along rows and columns, up to eight
//   IN_H IN_W OUT_H OUT_W
//   X_R X_S Y_R Y_S            elements from row to row, from pixel to pixel
//   BATCH CHANNELS
//   SPAN SLAB                  channels and rows of x of a tile
//   WARPS BLOCKS               of a block, four for eight channels; blocks of a multiprocessor

#include "convert.cuh"
#include "cuda_depthwise_stage.cuh"
#include "mma.cuh"
#include "ptx/copy.cuh"
#include "ptx/early.cuh"
#include "ptx/wgmma.cuh"

constexpr int OCTETS = SPAN / 8;
static_assert(WARPS == 4 * OCTETS, "a warpgroup has eight channels");
constexpr int TAPS = TAPS_R * TAPS_S, PIXEL = 16;
constexpr int DOWN = TAPS_R <= 3 ? 3 : TAPS_R <= 5 ? 5 : TAPS_R <= 7 ? 7 : 8;  // rows of taps of a product
constexpr int WIDTH = least(IN_W, OUT_W + TAPS_S - 1 - PAD_S), HEIGHT = least(IN_H, OUT_H + TAPS_R - 1 - PAD_R);
constexpr int SLABS = ceil_div(HEIGHT, SLAB), TILES = BATCH * SLABS;

// ---- shared memory: of eight channels x, then dy; a row is followed by zeros

constexpr int PITCH = most(WIDTH + PAD_S, OUT_W + TAPS_S - 1 - PAD_S) * PIXEL;
constexpr int STEPS = ceil_div(SLAB * PITCH, 16 * PIXEL), RUN = STEPS * 16 * PIXEL;
constexpr int BEFORE = PAD_S * PIXEL, OF_Y = BEFORE + RUN + 8 * PIXEL, ABOVE = TAPS_R - 1 - PAD_R;
// Products read up to pixel RUN / PIXEL + 6 of x and to the end of the last row of dy, DOWN - 1 rows further down.
// Threads that copy a pixel's channels write to different banks.
constexpr int PLANE = ceil_div(OF_Y + RUN + (DOWN - 1) * PITCH, 128) * 128 + 128 / OCTETS, STAGE = OCTETS * PLANE;

// ---- tiles

struct Tile {
  int image, row;  // row: of x
};

__device__ inline Tile tile_at(int number) {
  return {number / SLABS, number % SLABS * SLAB};
}

// ROWS rows from `first` on, of an image at `from`, of which HEIGHT exist.
template <int WIDTH, int ROWS, int HEIGHT>
__device__ inline void copy_rows(const Bits *from, int first, int row_stride, int pixel_stride, char *to) {
  typedef Lines<WIDTH * OCTETS> Units;
  const Units units;
#pragma unroll 1
  for (int unit = units.unit; units.exists() && unit < WIDTH * OCTETS; unit += Units::ACTIVE) {
    const int octet = unit % OCTETS, column = unit / OCTETS;
    if (blockIdx.x * SPAN + octet * 8 >= CHANNELS) continue;
    const Bits *at = from + (first * (i64)row_stride + column * (i64)pixel_stride + octet * 8);
    const unsigned place = shared_address(to) + octet * PLANE + column * PIXEL;
#pragma unroll 4
    for (int row = units.first; row < ROWS; row += Units::TOGETHER) {
      const bool exists = (unsigned)(first + row) < HEIGHT;
      copy_async<16>(place + row * PITCH, exists ? at + row * (i64)row_stride : from, exists ? 16 : 0);
    }
  }
}

__device__ inline void load_tile(const Args &p, int number, char *stage) {
  const Tile t = tile_at(number);
  const Bits *x = (const Bits *)p.x + (t.image * p.x_image + blockIdx.x * SPAN);
  const Bits *y = (const Bits *)p.y + (t.image * p.y_image + blockIdx.x * SPAN);
  copy_rows<WIDTH, SLAB, HEIGHT>(x, t.row, X_R, X_S, stage + BEFORE);
  copy_rows<OUT_W, SLAB + TAPS_R - 1, OUT_H>(y, t.row - ABOVE, Y_R, Y_S, stage + OF_Y);
}

// ---- products

typedef float Sums[4 * DOWN];

// 16 pixels of eight channels each, which are contiguous; blocks of eight rows or columns `next` bytes apart.
__device__ inline unsigned long long pixels_at(unsigned address, int next) {
  return (address & 0x3ffff) >> 4 | 128ull >> 4 << 16 | (unsigned long long)(next >> 4) << 32;
}

__device__ inline void multiply(Sums &sums, const char *stage) {
  const unsigned plane = shared_address(stage) + __shfl_sync(~0u, threadIdx.x / 128, 0) * PLANE;
  unsigned long long x = pixels_at(plane, PIXEL), y = pixels_at(plane + OF_Y, PITCH);
  wgmma_begin();
#pragma unroll 4
  for (int i = 0; i < STEPS; i++, x += 16, y += 16) Wgmma<1, 1>::add(sums, x, y, 1);
  wgmma_commit();
  wgmma_wait<0>();
  wgmma_hold(sums);
}

// ---- outputs

__device__ inline float from_half(Bits bits) {
  return KIND == HALVES ? from_f16(bits) : from_bf16(bits);
}

// A split-K slice's sum of a tap once more, by one warp.
__device__ inline float alone(const Args &p, int channel, int r, int s) {
  const Bits *x = (const Bits *)p.x + channel, *y = (const Bits *)p.y + channel;
  float sum = 0;
  for (int number = blockIdx.y; number < TILES; number += p.split_k) {
    const Tile t = tile_at(number);
    for (int i = threadIdx.x % 32; i < SLAB * OUT_W; i += 32) {
      const int row = t.row + i / OUT_W, column = i % OUT_W + s - PAD_S, above = row + PAD_R - r;
      if (row >= HEIGHT || (unsigned)column >= IN_W || (unsigned)above >= OUT_H) continue;
      sum += from_half(x[t.image * p.x_image + row * (i64)X_R + column * (i64)X_S]) *
             from_half(y[t.image * p.y_image + above * (i64)Y_R + i % OUT_W * (i64)Y_S]);
    }
  }
  for (int way = 16; way > 0; way /= 2) sum += __shfl_xor_sync(~0u, sum, way);
  return sum;
}

// Lane (g, t) has of a row of taps the sums of channel g with channels 2t and 2t + 1, for the columns of taps 2w and
// 2w + 1, w being its warp.
__device__ inline void put_sums(const Args &p, const Sums &sums) {
  const int lane = threadIdx.x % 32, mine = lane / 8 == lane % 4 ? lane / 4 % 2 : -1;
  const int first = blockIdx.x * SPAN + threadIdx.x / 128 * 8, s0 = threadIdx.x / 32 % 4 * 2;
  float *to = (float *)p.partial + (blockIdx.y * (i64)TAPS * CHANNELS + first + lane / 4);
  if (first >= CHANNELS) return;
  unsigned wrong = 0;  // a bit for each sum that is not finite
#pragma unroll
  for (int i = 0; i < 2 * TAPS_R; i++) {
    const int r = i / 2, s = s0 + i % 2, at = (TAPS_R - 1 - r) * 4 + i % 2 * 2;
    const float sum = mine == 1 ? sums[at + 1] : sums[at];
    if (mine < 0 || s >= TAPS_S) continue;
    to[(r * TAPS_S + s) * (i64)CHANNELS] = sum;
    if (sum * 0 != 0) wrong |= 1u << i;
  }
#pragma unroll 1
  for (int i = 0; i < 2 * TAPS_R; i++)
    for (unsigned lanes = __ballot_sync(~0u, wrong >> i & 1); lanes; lanes &= lanes - 1) {
      const int r = i / 2, s = s0 + i % 2, other = __ffs(lanes) - 1;
      const float sum = alone(p, first + other / 4, r, s);
      if (lane == other) to[(r * TAPS_S + s) * (i64)CHANNELS] = sum;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) falt_depthwise_diagonals(const __grid_constant__ Args p) {
  extern __shared__ uint4 memory[];
  char *stage = (char *)memory;
  Sums sums = {};
  clear(stage, STAGE);
  __syncthreads();
  await_stream();
#pragma unroll 1
  for (int number = blockIdx.y; number < TILES; number += p.split_k) {
    load_tile(p, number, stage);
    end_batch();
    await_batches<0>();
    copy_fence();
    __syncthreads();
    multiply(sums, stage);
    __syncthreads();
  }
  put_sums(p, sums);
}
