// Depthwise wgrad, NCHW, stride 1, f16 and bf16, on tensor cores. An MMA multiplies eight shifted input rows with rows
// of dy:
//
//   sum(row h of x from column s on, row n of y) += x[h][k + s] * y[n][k],  k along 16 columns.

// A product combines two rows of x with eight rows of y. All of its sums except two columns are taps (r, s) with r = h
// - n. The accumulators stay in registers while a block loops over all row pairs of some images of a channel. The eight
// shifted views of a row are words at neighbouring columns, so shared memory holds x twice, once shifted by one column.
// Filters of more than seven rows or eight columns take more products.
//
// Each block sums a split-K slice of the images; cuda_depthwise_sum.cu adds the slices in a fixed order. Zero rows and
// columns around y are multiplied by x: if a sum is not finite, it is recomputed from its own products.

// Compile-time parameters:
//   KIND                       of the products: HALVES or BRAINS
//   TAPS_R TAPS_S PAD_R PAD_S  along rows and columns
//   IN_H IN_W OUT_H OUT_W
//   X_R Y_R                    elements from row to row
//   UNIT_X UNIT_Y              elements of one copy
//   BATCH CHANNELS MULTIPLE    images; channels of y; channels of y for each of x
//   IMAGES                     that a block takes at once
//   WARPS BLOCKS               of a block; blocks of a multiprocessor

#include "convert.cuh"
#include "cuda_depthwise_stage.cuh"
#include "mma.cuh"
#include "ptx/early.cuh"

typedef Mma<KIND> Product;

constexpr int TAPS = TAPS_R * TAPS_S;
constexpr int SETS_S = ceil_div(TAPS_S, 8), SETS_R = ceil_div(TAPS_R + 1, 8);  // products for all taps
constexpr int OCTETS = ceil_div(OUT_W, 8);                                     // of a row of y

// ---- x: rows and columns that are multiplied with y, from column -PAD_S on

constexpr int WIDTH = least(IN_W, OUT_W + TAPS_S - 1 - PAD_S), HEIGHT = least(IN_H, OUT_H + TAPS_R - 1 - PAD_R);
constexpr int LEADING = ceil_div(PAD_S, 4) * 4, SLACK = LEADING - PAD_S;  // zeros; columns before -PAD_S
constexpr int PITCH = ceil_div(most(LEADING + WIDTH, 8 * OCTETS + 8 * SETS_S + SLACK + 1), 8) * 16;
constexpr int PAIRS = ceil_div(HEIGHT, 2), IMAGE = 2 * PAIRS * PITCH;
constexpr int PLANE = ceil_div(IMAGES * IMAGE + 16, 128) * 128 + 64;  // of one copy; the other copy uses other banks

// ---- y: with rows of zeros above and below, an odd number of 16 bytes apart

constexpr int Y_PITCH = (OCTETS | 1) * 16, ABOVE = most(0, 8 * SETS_R - 2 - PAD_R),
              BELOW = most(0, 2 * PAIRS + PAD_R - OUT_H);
constexpr int Y_IMAGE = (ABOVE + OUT_H + BELOW) * Y_PITCH, STAGE = 2 * PLANE + IMAGES * Y_IMAGE + 64;

__device__ inline int place_x(int image, int row, int column) {
  return image * IMAGE + row * PITCH + (LEADING + column) * 2;
}
__device__ inline int place_y(int image, int row, int column) {
  return 2 * PLANE + image * Y_IMAGE + (ABOVE + row) * Y_PITCH + column * 2;
}

// Where a channel's images begin.
struct Channel {
  const Bits *x, *y;

  __device__ inline Channel(const Args &p, int channel) {
    x = (const Bits *)p.x + channel / MULTIPLE * p.x_channel;
    y = (const Bits *)p.y + (channel / MULTIPLE * p.y_channel + channel % MULTIPLE * p.y_next);
  }
};

__device__ inline void load_planes(const Args &p, const Channel &c, int image, char *stage) {
  const int images = min(IMAGES, BATCH - image);
  const auto always = [](int) { return true; };
  copy_planes<UNIT_X, WIDTH, HEIGHT>(c.x + image * p.x_image, p.x_image, X_R, images, stage, place_x, always);
  copy_planes<UNIT_Y, OUT_W, OUT_H>(c.y + image * p.y_image, p.y_image, Y_R, images, stage, place_y, always);
  end_batch();
}

// The second copy of x, moved by a column.
__device__ inline void move_copy(char *stage, int images) {
#pragma unroll 2
  for (int i = threadIdx.x * 16; i < images * IMAGE; i += THREADS * 16) {
    const uint4 v = *(const uint4 *)(stage + i);
    const unsigned next = *(const unsigned *)(stage + i + 16);
    *(uint4 *)(stage + PLANE + i) = make_uint4(__funnelshift_r(v.x, v.y, 16), __funnelshift_r(v.y, v.z, 16),
                                               __funnelshift_r(v.z, v.w, 16), __funnelshift_r(v.w, next, 16));
  }
}

// ---- products

typedef float Sums[2][SETS_S][SETS_R][4];  // of even and odd steps, for independent chains of products

__device__ inline void add_pair(Sums sums, const char *stage, int image, int pair) {
  const int lane = threadIdx.x % 32, s = lane / 4 + SLACK;
  const unsigned x =
      shared_address(stage) + s % 2 * PLANE + image * IMAGE + 2 * pair * PITCH + s / 2 * 4 + lane % 4 * 4;
  const unsigned y = shared_address(stage) + place_y(image, 2 * pair + 1 + PAD_R - lane % 8, 0) + lane / 8 * 16;
#pragma unroll
  for (int o = 0; o < OCTETS; o += 4) {
    uint4 b[SETS_R];
#pragma unroll
    for (int n = 0; n < SETS_R; n++) b[n] = load_matrices(y - n * 8 * Y_PITCH + o * 16);
#pragma unroll
    for (int i = 0; i < 2 * SETS_S; i++) {
      const int j = i % 2, m = i / 2, octet = o + 2 * j;
      const unsigned at = x + (octet + m) * 16;
      if (octet >= OCTETS) continue;
      uint4 a = {load_word(at), load_word(at + PITCH), 0, 0};
      if (octet + 1 < OCTETS) a.z = load_word(at + 16), a.w = load_word(at + PITCH + 16);
#pragma unroll
      for (int n = 0; n < SETS_R; n++) {
        if (octet + 1 < OCTETS)
          Product::whole(sums[j][m][n], a, j ? b[n].z : b[n].x, j ? b[n].w : b[n].y);
        else
          Product::half(sums[j][m][n], a, j ? b[n].z : b[n].x);
      }
    }
  }
}

// ---- outputs

// Adds the accumulators of one warp to those of the block.
__device__ inline void add_sums(float *total, const Sums sums) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int h = 0; h < 2; h++) {
#pragma unroll
    for (int i = 0; i < SETS_S * SETS_R * 2; i++) {
      const int m = i / 2 / SETS_R, n = i / 2 % SETS_R, k = i % 2;
      const int s = 8 * m + lane / 4, r = 8 * n + lane % 4 * 2 + k + h - 1;
      if (s < TAPS_S && r >= 0 && r < TAPS_R)
        total[r * TAPS_S + s] += sums[0][m][n][2 * h + k] + sums[1][m][n][2 * h + k];
    }
    __syncwarp();
  }
}

__device__ inline float from_half(Bits bits) {
  return KIND == HALVES ? from_f16(bits) : from_bf16(bits);
}

// A split-K slice's sum of a tap once more, by one warp.
__device__ inline float alone(const Args &p, const Channel &c, int tap) {
  const int r = tap / TAPS_S - PAD_R, s = tap % TAPS_S - PAD_S;
  float sum = 0;
  for (int image = blockIdx.y * IMAGES; image < BATCH; image += p.split_k * IMAGES)
    for (int i = threadIdx.x % 32; i < min(IMAGES, BATCH - image) * OUT_H * OUT_W; i += 32) {
      const int n = image + i / (OUT_H * OUT_W), row = i / OUT_W % OUT_H, column = i % OUT_W;
      if ((unsigned)(row + r) >= IN_H || (unsigned)(column + s) >= IN_W) continue;
      sum += from_half(c.x[n * p.x_image + (row + r) * (i64)X_R + column + s]) *
             from_half(c.y[n * p.y_image + row * (i64)Y_R + column]);
    }
  for (int way = 16; way > 0; way /= 2) sum += __shfl_xor_sync(~0u, sum, way);
  return sum;
}

__device__ inline void put_sums(const Args &p, const Channel &c, const float *total) {
  const int lane = threadIdx.x % 32;
  float *to = (float *)p.partial + (blockIdx.y * (i64)TAPS * CHANNELS + blockIdx.x);
#pragma unroll 1
  for (int tap = threadIdx.x / 32; tap < TAPS; tap += WARPS) {
    float sum = total[tap];
    if (sum * 0 != 0) sum = alone(p, c, tap);
    if (lane == 0) to[tap * (i64)CHANNELS] = sum;
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    falt_depthwise_toeplitz_wgrad(const __grid_constant__ Args p) {
  extern __shared__ uint4 memory[];
  __shared__ float total[TAPS];
  char *stage = (char *)memory;
  const Channel c(p, blockIdx.x);
  const int warp = threadIdx.x / 32;
  Sums sums = {};
  clear(stage, STAGE);
  for (int i = threadIdx.x; i < TAPS; i += THREADS) total[i] = 0;
  __syncthreads();
  await_stream();
#pragma unroll 1
  for (int image = blockIdx.y * IMAGES; image < BATCH; image += p.split_k * IMAGES) {
    const int images = min(IMAGES, BATCH - image);
    load_planes(p, c, image, stage);
    await_batches<0>();
    __syncthreads();
    move_copy(stage, images);
    __syncthreads();
#pragma unroll 1
    for (int i = warp; i < images * PAIRS; i += WARPS) add_pair(sums, stage, i / PAIRS, i % PAIRS);
    __syncthreads();
  }
#pragma unroll 1
  for (int w = 0; w < WARPS; w++) {
    if (w == warp) add_sums(total, sums);
    __syncthreads();
  }
  put_sums(p, c, total);
}
