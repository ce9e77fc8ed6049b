// Fprop of layers with few input channels, with fused max pooling: y = max over the pooling window of act(sum), where
//
//     sum[k,u,v] = sum over c, r, s of w[k,c,r,s] * x[c, u*STRIDE_H + r*DILATE_R - pad, v*STRIDE_W + s*DILATE_S - pad]
//
// A block stages all channels of a tile of one image and its filters' taps in shared memory as floats. A thread has
// ROWS x COLUMNS accumulators of FILTERS filters.

// Register blocking: V. Volkov and J. Demmel, "Benchmarking GPUs to tune dense linear algebra", 2008. Fusion: M.
// Alwani, H. Chen, M. Ferdman, P. Milder, "Fused-Layer CNN Accelerators", 2016, here within a thread.
//
// An input element serves every filter and a tap every position. A pooling window belongs to one thread, so the output
// of the convolution itself is never written. Taps that the plan owns are staged before the preceding kernel in the
// stream ends (programmatic dependent launch).
//
// A line of the tile is stored by residue modulo COLUMNS*STRIDE_W: columns that neighbouring threads read at the same
// time are contiguous, so no two of them share a bank.

// Compile-time parameters:
//   ELEMENT_X ELEMENT_Y TYPE_X TYPE_Y TYPE_W    C types in and out, numbers of falt_type
//   CHANNELS TAPS_R TAPS_S STRIDE_H STRIDE_W DILATE_R DILATE_S POOL_H POOL_W
//   ROWS COLUMNS FILTERS     of a thread; whole windows, fours of filters
//   ACROSS DOWN GROUPS       threads of a block along columns, rows, filters
//   SLOTS PITCH              floats of a polyphase part, of a line of the tile
//   TILES_H TILES_W FILTER_TILES     that cover an image, the filters of a group
//   X_LAST Y_LAST            1: channels are the innermost dimension
//   FOLD                     1: a boundary of the input is not constant
//   ACTIVATION
// and the parameters of elements.cuh.

#include "args.h"
#include "boundary.cuh"
#include "elements.cuh"
#include "epilogue.cuh"
#include "partial.cuh"
#include "ptx/early.cuh"

typedef long long i64;
typedef falt_cuda_direct_nchw_args Args;
enum { N, G, C, D, H, W };

constexpr int THREADS = ACROSS * DOWN * GROUPS, TAPS = CHANNELS * TAPS_R * TAPS_S;
constexpr bool APART = in_blocks<float>(TAPS);                  // tap rows have accumulators of their own
constexpr int TILE_H = DOWN * ROWS, TILE_W = ACROSS * COLUMNS;  // outputs of a block, before pooling
constexpr int IN_H = (TILE_H - 1) * STRIDE_H + (TAPS_R - 1) * DILATE_R + 1;
constexpr int IN_W = (TILE_W - 1) * STRIDE_W + (TAPS_S - 1) * DILATE_S + 1;
constexpr int POLYPHASES = COLUMNS * STRIDE_W, WINDOW = (COLUMNS - 1) * STRIDE_W + (TAPS_S - 1) * DILATE_S + 1;
constexpr int BLOCK_FILTERS = GROUPS * FILTERS, TAP_PITCH = BLOCK_FILTERS + 4;  // skewed, in fours
constexpr int POOLED_H = ROWS / POOL_H, POOLED_W = COLUMNS / POOL_W;            // of a thread
constexpr int RUN = Y_LAST ? FILTERS : POOLED_W;                                // outputs that are contiguous
constexpr int VECTOR = RUN * sizeof(Y) <= 16 ? RUN : 16 / sizeof(Y);

static_assert(ROWS % POOL_H == 0 && COLUMNS % POOL_W == 0, "windows are a thread's own");
static_assert(FILTERS % 4 == 0, "taps are read by fours");
static_assert((RUN & (RUN - 1)) == 0, "results are written by words");

// ---- staging

// The position of column `at` in a line.
__device__ constexpr int place(int at) {
  return at % POLYPHASES * SLOTS + at / POLYPHASES;
}

struct Place {
  int channel, row, column;
};

// Element i of the tile, in the order of memory.
__device__ inline Place place_of(int i) {
  if (X_LAST) return {i % CHANNELS, i / (CHANNELS * IN_W), i / CHANNELS % IN_W};
  return {i / (IN_H * IN_W), i / IN_W % IN_H, i % IN_W};
}

// The index of the element at position u of an axis; negative: the constant.
__device__ inline int index_at(const Args &a, int axis, int u) {
  if (FOLD) return fold<int>(a.boundary[axis][0], a.boundary[axis][1], a.in[axis], u);
  return u < a.in[axis] ? u : -1;
}

__device__ inline void stage_tile(const Args &a, float *tile, const X *x, int first_row, int first_column) {
#pragma unroll 2
  for (int i = threadIdx.x; i < CHANNELS * IN_H * IN_W; i += THREADS) {
    const Place p = place_of(i);
    const int row = index_at(a, 0, first_row + p.row), column = index_at(a, 1, first_column + p.column);
    float value = a.fill;
    if (row >= 0 && column >= 0)
      value = from_x(x[p.channel * a.x.stride[C] + row * a.x.stride[H] + column * a.x.stride[W]]);
    tile[(p.channel * IN_H + p.row) * PITCH + place(p.column)] = value;
  }
}

// Filters [first, first + BLOCK_FILTERS) of a group; missing ones are zero.
__device__ inline void stage_taps(const Args &a, float *taps, i64 base, int first) {
#pragma unroll 2
  for (int i = threadIdx.x; i < BLOCK_FILTERS * TAPS; i += THREADS) {
    const int k = i / TAPS, tap = i % TAPS, c = tap / (TAPS_R * TAPS_S), r = tap / TAPS_S % TAPS_R, s = tap % TAPS_S;
    const i64 at = base + (first + k) * a.w.stride[0] + c * a.w.stride[C] + r * a.w.stride[H] + s * a.w.stride[W];
    taps[tap * TAP_PITCH + k] = first + k < a.filters ? load<float>(a.w.data, TYPE_W, at) : 0;
  }
}

// ---- sums

struct Sums {
  float of[FILTERS][ROWS][COLUMNS];
};

// Adds one row of taps of one channel.
__device__ inline void add_row(Sums &sums, const float *line, const float *taps) {
  float window[ROWS][WINDOW];
#pragma unroll
  for (int q = 0; q < ROWS; q++)
#pragma unroll
    for (int i = 0; i < WINDOW; i++) window[q][i] = line[q * STRIDE_H * PITCH + place(i)];
#pragma unroll
  for (int four = 0; four < FILTERS / 4; four++)
    add_terms<APART, TAPS_S, 4 * ROWS * COLUMNS>(&sums.of[four * 4][0][0], [&](float *part, int s) {
      const float4 read = *(const float4 *)(taps + s * TAP_PITCH + four * 4);
      const float tap[4] = {read.x, read.y, read.z, read.w};
#pragma unroll
      for (int i = 0; i < 4 * ROWS * COLUMNS; i++)
        part[i] += tap[i / (ROWS * COLUMNS)] * window[i / COLUMNS % ROWS][i % COLUMNS * STRIDE_W + s * DILATE_S];
    });
}

__device__ inline void add_all(Sums &sums, const float *tile, const float *taps) {
// Not unrolled: most launches run this code only a few times, and fetching instructions takes longer than they do.
#pragma unroll 1
  for (int c = 0; c < CHANNELS; c++)
#pragma unroll 1
    for (int r = 0; r < TAPS_R; r++)
      add_row(sums, tile + (c * IN_H + r * DILATE_R) * PITCH, taps + (c * TAPS_R + r) * TAPS_S * TAP_PITCH);
}

// ---- outputs

__device__ inline float finished(const Args &a, const Linear<float> &l, float sum) {
  falt_cuda_epilogue e = a.epilogue;
  e.activation = ACTIVATION;
  return activate<float>(e, sum * l.scale + l.offset);
}

// The largest of a window's rounded values: NaN if one is, but 0 as an integer before it is compared.
__device__ inline float pooled(const Args &a, const Sums &sums, const Linear<float> &l, int f, int u, int v) {
  float top = -__int_as_float(0x7f800000);
#pragma unroll
  for (int i = 0; i < POOL_H; i++)
#pragma unroll
    for (int j = 0; j < POOL_W; j++) {
      float value = finished(a, l, sums.of[f][u * POOL_H + i][v * POOL_W + j]);
      if (TYPE_Y <= S32 && value != value) value = 0;
      if (value > top || value != value) top = value;
    }
  return top;
}

// As many of a run as exist.
__device__ inline void store_run(const Args &a, Y *to, const float value[RUN], int exist, i64 step) {
  if (exist <= 0) return;
  if (a.aligned && exist >= RUN) return store_results<VECTOR, RUN>(to, value);
#pragma unroll
  for (int i = 0; i < RUN; i++)
    if (i < exist) to[i * step] = to_y(value[i]);
}

struct Thread {
  int filter, row, column;  // the first of its outputs, after pooling; filter: in the group
};

__device__ inline void store_planes(const Args &a, const Sums &sums, const Linear<float> *l, Y *y, const Thread &t) {
#pragma unroll
  for (int f = 0; f < FILTERS; f++)
#pragma unroll
    for (int u = 0; u < POOLED_H; u++) {
      float run[RUN];
#pragma unroll
      for (int v = 0; v < POOLED_W; v++) run[v] = pooled(a, sums, l[f], f, u, v);
      if (t.filter + f < a.filters && t.row + u < a.out[0])
        store_run(a, y + f * a.y.stride[C] + u * a.y.stride[H], run, a.out[1] - t.column, a.y.stride[W]);
    }
}

// As store_planes, but a run goes along the channels: the loops are apart so that registers have constant indices.
__device__ inline void store_pixels(const Args &a, const Sums &sums, const Linear<float> *l, Y *y, const Thread &t) {
#pragma unroll
  for (int u = 0; u < POOLED_H; u++)
#pragma unroll
    for (int v = 0; v < POOLED_W; v++) {
      float run[RUN];
#pragma unroll
      for (int f = 0; f < FILTERS; f++) run[f] = pooled(a, sums, l[f], f, u, v);
      if (t.row + u < a.out[0] && t.column + v < a.out[1])
        store_run(a, y + u * a.y.stride[H] + v * a.y.stride[W], run, a.filters - t.filter, a.y.stride[C]);
    }
}

// ---- the kernel

extern "C" __global__ void __launch_bounds__(THREADS) falt_direct_nchw(const __grid_constant__ Args a) {
  extern __shared__ float4 shared[];
  float *const taps = (float *)shared, *const tile = taps + TAPS * TAP_PITCH;
  const int filter_tile = blockIdx.x % FILTER_TILES, column_tile = blockIdx.x / FILTER_TILES % TILES_W,
            row_tile = blockIdx.x / (FILTER_TILES * TILES_W) % TILES_H;
  const unsigned image = blockIdx.x / (FILTER_TILES * TILES_W * TILES_H);
  const int g = a.groups > 1 ? image % a.groups : 0;
  const i64 n = a.groups > 1 ? image / a.groups : image;

  const int me = threadIdx.x, group = Y_LAST ? me % GROUPS : me / (ACROSS * DOWN),
            spot = Y_LAST ? me / GROUPS : me % (ACROSS * DOWN), across = spot % ACROSS, down = spot / ACROSS;
  const Thread t = {(filter_tile * GROUPS + group) * FILTERS, (row_tile * DOWN + down) * POOLED_H,
                    (column_tile * ACROSS + across) * POOLED_W};
  falt_cuda_epilogue e = a.epilogue;
  e.vector_type = F32;
  if (!a.kept) await_stream();
  stage_taps(a, taps, g * a.w.stride[G], filter_tile * BLOCK_FILTERS);
  if (a.kept) await_stream();

  Linear<float> l[FILTERS];  // loaded early: the tile waits for the same kernel
#pragma unroll
  for (int f = 0; f < FILTERS; f++) l[f] = linear_of<float>(e, g * a.filters + min(t.filter + f, a.filters - 1));
  stage_tile(a, tile, (const X *)a.x.data + n * a.x.stride[N] + g * a.x.stride[G],
             row_tile * TILE_H * STRIDE_H - a.pad[0], column_tile * TILE_W * STRIDE_W - a.pad[1]);
  __syncthreads();

  Sums sums = {};
  add_all(sums, tile + down * ROWS * STRIDE_H * PITCH + across, taps + group * FILTERS);
  Y *y = (Y *)a.y.data + n * a.y.stride[N] + g * a.y.stride[G] + t.filter * a.y.stride[C] + t.row * a.y.stride[H] +
         t.column * a.y.stride[W];
  if (Y_LAST)
    store_pixels(a, sums, l, y, t);
  else
    store_planes(a, sums, l, y, t);
}
