// Depthwise wgrad and bias gradient by direct sums: each tap is the sum over all output positions of y times the
// element of x at that tap. A thread loops over tiles of ROWS x COLS positions of y, of UNIT contiguous channels or of
// one, and keeps the accumulators of all taps in registers.

// The lanes of a warp are added by shuffles if they share channels evenly, the warps of a block in shared memory, and
// the split-K slices by cuda_depthwise_sum.cu: always in the same order. Tap planes, and PARTS groups of tap rows, are
// computed by different blocks.

// Compile-time parameters, in addition to those of cuda_depthwise.cuh (BACKWARD 0, TYPE_Y of y, TYPE_W of
// the gradient):
//   PARTS       of the taps along rows
//   ALL_TAPS_R  in all parts
//   Y_R Y_S     elements of y from row to row, from column to column
//   LANES       vectors of channels of a block
//   BIAS        1: the first blocks add y alone, too
//   AHEAD       lines
//   ALONE       1: there is one split-K slice, whose sums are the gradient
//   THREADS BLOCKS

#include "cuda_depthwise.cuh"
#include "cuda_depthwise_wgrad.cuh"
#include "ptx/early.cuh"

constexpr int TAPS = Rows::taps * Columns::taps, STRIPS = THREADS / LANES;
constexpr bool SURE = PARTS == 1 && Planes::inside;
constexpr bool SHUFFLED = 32 % LANES == 0;
constexpr int TERMS = SHUFFLED ? THREADS / 32 : STRIPS, ACROSS = LANES * VEC;  // sums of a channel, channels
// Taps whose sums are in shared memory at a time.
constexpr int FIT = 32768 / (TERMS * ACROSS * (int)sizeof(SUM)), CHUNK = FIT < 8 ? FIT : 8;
constexpr int ALL_TAPS = Planes::taps * ALL_TAPS_R * Columns::taps;

typedef Line<TYPE_Y, 0, COLS, COLS, Columns::tiles, Columns::results, CONSTANT, CONSTANT, Y_S> Gradient;

struct Sums {
  SUM w[TAPS][VEC], bias[VEC];
};

struct Tile {
  int image, plane, row, column;  // row and column: of tiles
};

__device__ inline Tile find_tile(unsigned rest) {
  Tile t;
  t.column = rest % Columns::tiles, rest /= Columns::tiles;
  t.row = rest % Rows::tiles, rest /= Rows::tiles;
  t.plane = rest % Planes::results, t.image = rest / Planes::results;
  return t;
}

// Columns BEGIN to END of row a of y with a line of x, for row r of taps.
template <int BEGIN, int END>
__device__ inline void multiply_columns(Sums &sum, const Gradient &y, const Source &line, int r) {
#pragma unroll
  for (int s = 0; s < Columns::taps; s++)
#pragma unroll
    for (int b = BEGIN; b < END; b++)
#pragma unroll
      for (int c = 0; c < VEC && !is_zero(Columns::met(b, s)); c++)
        sum.w[r * Columns::taps + s][c] += y.value(b, c) * line.value(Columns::met(b, s) - Columns::low, c);
}

// Adds the products of a line of x to all taps. Positions of y beyond its ends are skipped, because x may be infinite
// there.
__device__ inline void multiply_line(Sums &sum, const Gradient y[ROWS], const Source &line, const Tile &t,
                                     int position) {
#pragma unroll
  for (int a = 0; a < ROWS; a++) {
    const int r = Rows::tap(a, position);
    if (r == NONE || (a >= Rows::left && t.row == Rows::tiles - 1)) continue;
    multiply_columns<0, Columns::left>(sum, y[a], line, r);
    if (Columns::left < COLS && t.column < Columns::tiles - 1)
      multiply_columns<Columns::left, COLS>(sum, y[a], line, r);
  }
}

__device__ inline void add_tile(Sums &sum, const Gradient::X *y, const Source::X *x, const Tile &t, int row,
                                Source::X fill, bool bias) {
  constexpr int SPAN = Rows::span;
  const int column = t.column * Columns::advance;
  Gradient gradient[ROWS];
  Source line[AHEAD + 1];
#pragma unroll
  for (int a = 0; a < ROWS; a++) {
    if (Rows::whole || t.row * ROWS + a < Rows::results)
      gradient[a].load_line(y + a * (i64)Y_R, t.column * COLS, 0);
    else
      gradient[a].fill_all(0);
  }
#pragma unroll
  for (int i = 0; i < AHEAD && i < SPAN; i++) load_row<SURE>(line[i], x, Rows::low + i, row, column, fill);
#pragma unroll
  for (int i = 0; i < SPAN; i++) {
    if (i + AHEAD < SPAN) load_row<SURE>(line[(i + AHEAD) % (AHEAD + 1)], x, Rows::low + i + AHEAD, row, column, fill);
    if (SURE || !is_nothing<SURE>(row, Rows::low + i))
      multiply_line(sum, gradient, line[i % (AHEAD + 1)], t, Rows::low + i);
  }
  if (!bias) return;
#pragma unroll
  for (int a = 0; a < ROWS; a++)
#pragma unroll
    for (int b = 0; b < COLS; b++)
#pragma unroll
      for (int c = 0; c < VEC; c++) sum.bias[c] += gradient[a].value(b, c);
}

// Of the threads of a warp that have the same channels, for the first of them.
__device__ inline SUM warp_sum(SUM sum) {
#pragma unroll
  for (int way = 16; SHUFFLED && way >= LANES; way /= 2) sum += __shfl_down_sync(~0u, sum, way);
  return sum;
}

struct Place {
  i64 partial, w;  // of the block's first tap and channel
  int group, member, taps;
};

// Sums of COUNT taps, from tap `first` on, of all the block's threads; tap TAPS is the bias.
template <int COUNT>
__device__ inline void put_sums(const Args &p, const SUM sum[COUNT][VEC], int first, int tap_plane, int tap_row,
                                int channel) {
  constexpr int TOGETHER = SHUFFLED ? 32 : LANES;
  __shared__ SUM part[COUNT][TERMS][ACROSS];
  const int lane = threadIdx.x % TOGETHER, term = threadIdx.x / TOGETHER;
  __syncthreads();
#pragma unroll
  for (int k = 0; k < COUNT; k++)
#pragma unroll
    for (int c = 0; c < VEC; c++) {
      const SUM of_warp = warp_sum(sum[k][c]);
      if (lane < LANES && term < TERMS) part[k][term][lane * VEC + c] = of_warp;
    }
  __syncthreads();
  for (int i = threadIdx.x; i < COUNT * ACROSS; i += THREADS) {
    const int k = i / ACROSS, across = i % ACROSS, tap = first + k, s = tap % Columns::taps,
              r = tap_row + tap / Columns::taps;
    SUM total = 0;
#pragma unroll
    for (int w = 0; w < TERMS; w++) total += part[k][w][across];
    if (channel + across >= CHANNELS) continue;
    if (first < TAPS && r >= ALL_TAPS_R) continue;
    if (ALONE) {
      if (first < TAPS)
        put_tap(p, channel + across, tap_plane, r, s, total);
      else
        put_bias(p, channel + across, total);
      continue;
    }
    const int place = first < TAPS ? (tap_plane * ALL_TAPS_R + r) * Columns::taps + s : ALL_TAPS;
    ((SUM *)p.partial)[((i64)blockIdx.y * (ALL_TAPS + BIAS) + place) * CHANNELS + channel + across] = total;
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) falt_depthwise_wgrad(const __grid_constant__ Args p) {
  const int channel = (blockIdx.x * LANES + threadIdx.x % LANES) * VEC, group = channel / MULTIPLE,
            member = channel % MULTIPLE;
  const int tap_plane = blockIdx.z / PARTS, tap_row = blockIdx.z % PARTS * Rows::taps;
  const bool bias = BIAS && blockIdx.z == 0;
  const Source::X fill = FILL ? element_of<TYPE_X>(p.fill) : (Source::X)0;
  const bool mine = channel < CHANNELS && threadIdx.x < STRIPS * LANES;
  Sums sum = {};
  await_stream();
#pragma unroll 1
  for (unsigned i = blockIdx.y * STRIPS + threadIdx.x / LANES; i < p.tiles && mine; i += p.split_k * STRIPS) {
    const Tile t = find_tile(i);
    const int met = Planes::met(t.plane, tap_plane),
              plane = fold<int>(Planes::before, Planes::after, Planes::size, met);
    const int row = t.row * Rows::advance + tap_row * Rows::dilation, column = t.column * Columns::advance;
    const Gradient::X *y =
        (const Gradient::X *)p.y + (t.image * p.y_image + group * p.y_channel + member * p.y_next +
                                    t.plane * p.y_plane + t.row * (i64)ROWS * Y_R + t.column * (i64)COLS * Y_S);
    const Source::X *x =
        (const Source::X *)p.x + (t.image * p.x_image + group * p.x_channel + (plane < 0 ? 0 : plane) * p.x_plane +
                                  row * (i64)X_R + column * (i64)X_S);
    if (plane < 0 && !FILL && !bias) continue;
    add_tile(sum, y, x, t, plane < 0 ? NONE : row, fill, bias);
  }
#pragma unroll
  for (int first = 0; first < TAPS; first += CHUNK) {
    if (TAPS - first >= CHUNK)
      put_sums<CHUNK>(p, &sum.w[first], first, tap_plane, tap_row, blockIdx.x * LANES * VEC);
    else
      put_sums<TAPS % CHUNK ? TAPS % CHUNK : 1>(p, &sum.w[first], first, tap_plane, tap_row, blockIdx.x * LANES * VEC);
  }
  if (bias) put_sums<1>(p, &sum.bias, TAPS, 0, 0, blockIdx.x * LANES * VEC);
}
