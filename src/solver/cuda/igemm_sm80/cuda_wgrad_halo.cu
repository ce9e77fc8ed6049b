// Wgrad on tensor cores, NHWC, each halo tile of the input loaded to shared memory once for all taps:
//
//   gradient (row, tap, channel) = sum over pixels of y[pixel][row] * x[pixel * stride + tap][channel]

// Rows are channels of y. A block loops over tiles of TILE_H x TILE_W pixels of y with the pixels of x that their taps
// read. The depth of an MMA is pixels, so ldmatrix transposes both operands on load. Each pixel has its own address in
// shared memory, so taps, strides and dilations are address offsets. A warp keeps MR * 16 rows by PER blocks of columns
// in registers over all its tiles, and loads its rows once for all of them. The split-K slices stay in the workspace
// until cuda_wgrad_sum.cu adds them.
//
// ROLLING: if taps are one row apart, a row of x meets several rows of y. A warp computes all tap rows, moves down a
// tile with the last rows of y in registers, and loads a row of x once for all of them. The depth of an instruction is
// 8 pixels of a row and 8 pixels of the row half a tile below.
//
// SLABS: groups of channels are slabs of rows and columns that belong together; only their products are computed.
//
// RUN: sources with so few channels that no vector holds a pixel. A tap row is a run of TAPS_S * CHANNELS elements at
// any address, and columns are its elements. Two neighbouring rows of y form the pairs that an instruction sums: x is
// stored as words of an element and the element STRIDE_R rows below.

// Compile-time parameters:
//   KIND                                 of the products: HALVES or BRAINS
//   BIASED                               1: a last column sums y for the bias gradient
//   RUN UNIT                             see above; bytes of x of one copy
//   TAPS_R TAPS_S                        taps of a part, along height and width
//   STRIDE_R STRIDE_S DILATE_R DILATE_S
//   TILE_H TILE_W                        pixels of a tile; if RUN or ROLLING, TILE_H is even and TILE_W in eights
//   MR                                   rows of a slab, by 16
//   CHANNELS                             of a slab, a multiple of 16; with RUN the source's
//   SLABS WARPS PER                      slabs of a block, its warps, blocks of columns of a warp;
//                                        ROLLING: a multiple of TAPS_R
//   BLOCKS                               blocks that should fit on a multiprocessor

#include "async.cuh"
#include "cuda_igemm.cuh"
#include "cuda_wgrad_halo_args.h"
#include "ptx/early.cuh"

typedef falt_cuda_wgrad_halo_args Args;
typedef Mma<KIND> Product;

constexpr int THREADS = 32 * WARPS, STAGES = 2;
constexpr int PIXELS = TILE_H * TILE_W, SLICES = (PIXELS + 15) / 16, LINES = SLICES * 16;
constexpr int WINDOW_H = (TILE_H - 1) * STRIDE_R + (TAPS_R - 1) * DILATE_R + 1;
constexpr int WINDOW_W = (TILE_W - 1) * STRIDE_S + (TAPS_S - 1) * DILATE_S + 1;
constexpr int WIDTH = RUN ? 8 : 16, UNITS = WIDTH / 8;                     // columns of a block, by 8 of an instruction
constexpr int ACROSS = RUN ? (TAPS_S * CHANNELS + 7) / 8 : CHANNELS / 16;  // blocks of a row of taps, of a tap
constexpr int COLUMN_BLOCKS = (RUN ? TAPS_R : TAPS_R * TAPS_S) * ACROSS;   // of a slab
constexpr int Y_PITCH = SLABS * MR * 32 + 16, X_PITCH = SLABS * CHANNELS * 2 + 16;
constexpr bool ROLLING = !RUN && TAPS_R > STRIDE_R &&DILATE_R == 1;
constexpr int EACH = UNIT / 2, RUN_LENGTH = WINDOW_W * CHANNELS;
constexpr int RUN_PIECES = (RUN_LENGTH + 2 * EACH - 2) / EACH, RAW_PITCH = (RUN_PIECES * UNIT + 15) / 16 * 16;
constexpr int PAIR_ROWS = WINDOW_H - STRIDE_R, PAIR_PITCH = RUN_LENGTH;  // words
constexpr int Y_BYTES = LINES * Y_PITCH, STAGE = Y_BYTES + (RUN ? WINDOW_H * RAW_PITCH : WINDOW_H * WINDOW_W * X_PITCH);
static_assert(WARPS % SLABS == 0 && WARPS / SLABS * PER >= COLUMN_BLOCKS, "warps have all columns");
static_assert(!ROLLING || (TILE_H % 2 == 0 && TILE_W % 8 == 0 && PER % TAPS_R == 0), "see above");
static_assert(RUN ? SLABS == 1 && TILE_H % 2 == 0 && DILATE_S == 1 : CHANNELS % 16 == 0 && UNIT == 16, "see above");

typedef float Acc[PER][UNITS][MR][4];

// ---- the work of a block

struct Part {
  const char *y, *x;
  int group, row, channel, tap_plane, tap_row;  // the first of each
};

__device__ inline Part part_of(const Args &a) {
  int rest = blockIdx.x;
  Part p;
  p.tap_plane = rest % a.parts[0], rest /= a.parts[0];
  p.tap_row = rest % a.parts[1] * TAPS_R, rest /= a.parts[1];
  p.channel = rest % a.parts[2] * CHANNELS, rest /= a.parts[2];
  p.row = rest % a.parts[3] * (MR * 16), rest /= a.parts[3];
  p.group = rest * SLABS;
  p.y = (const char *)a.y + (i64)p.group * a.y_group + p.row * 2;
  p.x = (const char *)a.x + (i64)p.group * a.x_group + p.channel * 2;
  return p;
}

// The first pixel of a tile, its plane and image.
struct Tile {
  int w, h, d, n;
};

__device__ inline Tile tile_at(const Args &a, int index) {
  Tile t;
  t.w = index % a.tiles[1] * TILE_W, index /= a.tiles[1];
  t.h = index % a.tiles[0] * TILE_H, index /= a.tiles[0];
  t.d = index % a.out[0], t.n = index / a.out[0];
  return t;
}

__device__ inline void advance(const Args &a, Tile &t) {
  if ((t.w += TILE_W) < a.out[2]) return;
  t.w = 0;
  if ((t.h += TILE_H) < a.out[1]) return;
  t.h = 0;
  if (++t.d < a.out[0]) return;
  t.d = 0, t.n++;
}

// ---- copies: a thread's pieces have the same place in their pixels

// Bytes of a piece from channel `first` of `count` on; adjacent groups have whole pieces.
__device__ inline int piece_bytes(int first, int count) {
  return SLABS > 1 ? (first < count ? 16 : 0) : max(0, min(count - first, 8)) * 2;
}

__device__ inline void load_results(const Args &a, const Part &p, const Tile &t, unsigned to) {
  constexpr int SLAB_PIECES = MR * 2, PIECES = SLABS * SLAB_PIECES;
  const int piece = threadIdx.x % PIECES, slab = piece / SLAB_PIECES, row = piece % SLAB_PIECES * 8;
  const char *from = p.y + t.n * a.y_image + t.d * a.y_plane + (i64)t.h * a.y_row + (i64)t.w * a.y_column +
                     (slab * a.y_group + row * 2);
  const int bytes = piece_bytes(row, a.rows - p.row), height = min(a.out[1] - t.h, TILE_H), width = a.out[2] - t.w;
  to += piece * 16;
#pragma unroll 2
  for (int pixel = threadIdx.x / PIECES; pixel < LINES; pixel += THREADS / PIECES) {
    const int h = pixel / TILE_W, w = pixel % TILE_W;
    copy_async<16>(to + pixel * Y_PITCH, from + (h * a.y_row + w * a.y_column), h < height && w < width ? bytes : 0);
  }
}

// The first pixel of x that a tile reads, in its plane.
struct Corner {
  int h, w;
  bool exists;
  const char *plane;
};

__device__ inline Corner corner_of(const Args &a, const Part &p, const Tile &t) {
  const int d = t.d * a.step + a.first + p.tap_plane * a.delta;
  return {t.h * STRIDE_R - a.pad[0] + p.tap_row * DILATE_R, t.w * STRIDE_S - a.pad[1], (unsigned)d < (unsigned)a.in[0],
          p.x + t.n * a.x_image + d * a.x_plane};
}

__device__ inline void load_window(const Args &a, const Part &p, const Tile &t, unsigned to) {
  constexpr int SLAB_PIECES = RUN ? 1 : CHANNELS / 8, PIECES = SLABS * SLAB_PIECES;
  const Corner c = corner_of(a, p, t);
  const int piece = threadIdx.x % PIECES, slab = piece / SLAB_PIECES, channel = piece % SLAB_PIECES * 8;
  const char *from = c.plane + (i64)c.h * a.x_row + (i64)c.w * a.x_column + (slab * a.x_group + channel * 2);
  const unsigned height = c.exists ? a.in[1] : 0, width = a.in[2];
  const int bytes = piece_bytes(channel, a.channels - p.channel);
  to += piece * 16;
#pragma unroll 2
  for (int pixel = threadIdx.x / PIECES; pixel < WINDOW_H * WINDOW_W; pixel += THREADS / PIECES) {
    const int h = pixel / WINDOW_W, w = pixel % WINDOW_W;
    copy_async<16>(to + pixel * X_PITCH, from + (h * a.x_row + w * a.x_column),
                   (unsigned)(c.h + h) < height && (unsigned)(c.w + w) < width ? bytes : 0);
  }
}

// Copies rows of x in place, from a multiple of UNIT on.
__device__ inline int run_start(const Corner &c) {
  return c.w * CHANNELS;
}

// Element by element if no word is aligned in all rows; several loads are in flight.
__device__ inline void load_elements(const Args &a, const Corner &c, const char *from, int first, int end,
                                     unsigned to) {
  constexpr int AT_ONCE = 8, ALL = WINDOW_H * RUN_PIECES;
#pragma unroll 1
  for (int begin = threadIdx.x; begin < ALL; begin += AT_ONCE * THREADS) {
    unsigned long long bits[AT_ONCE];
#pragma unroll
    for (int k = 0; k < AT_ONCE; k++) {
      const int i = begin + k * THREADS, h = i / RUN_PIECES, piece = i % RUN_PIECES;
      const bool exists =
          i < ALL && (unsigned)(c.h + h) < (unsigned)a.in[1] && (unsigned)(first + piece) < (unsigned)end;
      bits[k] = exists ? load_bits<2>(from + (h * a.x_row + piece * 2)) : 0;
    }
#pragma unroll
    for (int k = 0; k < AT_ONCE; k++) {
      const int i = begin + k * THREADS;
      if (i < ALL) store_bits<2>(to + i / RUN_PIECES * RAW_PITCH + i % RUN_PIECES * 2, bits[k]);
    }
  }
}

__device__ inline void load_runs(const Args &a, const Part &p, const Tile &t, unsigned to) {
  const Corner c = corner_of(a, p, t);
  const int first = run_start(c) & -EACH, end = c.exists ? a.in[2] * CHANNELS : 0;
  const char *from = c.plane + (i64)c.h * a.x_row + (i64)first * 2;
  if constexpr (UNIT == 2) {
    load_elements(a, c, from, first, end, to);
  } else {
#pragma unroll 2
    for (int i = threadIdx.x; i < WINDOW_H * RUN_PIECES; i += THREADS) {
      const int h = i / RUN_PIECES, piece = i % RUN_PIECES, element = first + piece * EACH;
      const bool exists = (unsigned)(c.h + h) < (unsigned)a.in[1] && element >= 0 && element < end;
      copy_async<UNIT>(to + h * RAW_PITCH + piece * UNIT, from + (h * a.x_row + piece * UNIT),
                       exists ? min(end - element, EACH) * 2 : 0);
    }
  }
}

__device__ inline unsigned load_half(unsigned address) {
  unsigned short half;
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(half) : "r"(address) : "memory");
  return half;
}

// Runs become pairs of rows.
__device__ inline void pair_runs(const Args &a, const Part &p, const Tile &t, unsigned raw, unsigned pairs) {
  const unsigned from = raw + (run_start(corner_of(a, p, t)) & (EACH - 1)) * 2;
#pragma unroll 2
  for (int i = threadIdx.x; i < PAIR_ROWS * RUN_LENGTH; i += THREADS) {
    const int h = i / RUN_LENGTH, at = i % RUN_LENGTH;
    const unsigned place = from + h * RAW_PITCH + at * 2;
    store_bits<4>(pairs + (h * PAIR_PITCH + at) * 4, load_half(place) | load_half(place + STRIDE_R * RAW_PITCH) << 16);
  }
}

__device__ inline void load_tile(const Args &a, const Part &p, const Tile &t, unsigned stage) {
  load_results(a, p, t, stage);
  if constexpr (RUN)
    load_runs(a, p, t, stage + Y_BYTES);
  else
    load_window(a, p, t, stage + Y_BYTES);
}

// ---- products

// The pixels that the k-th product of an instruction sums: consecutive ones; with RUN vertical pairs. Beyond the tile y
// has lines of zeros.
__device__ inline int line_of(int k) {
  if (k >= PIXELS) return PIXELS;
  return RUN ? (k / 2 / TILE_W * 2 + k % 2) * TILE_W + k / 2 % TILE_W : k;
}

__device__ inline int window_place(int k) {
  const int pixel = min(k, PIXELS - 1);
  return (pixel / TILE_W * STRIDE_R * WINDOW_W + pixel % TILE_W * STRIDE_S) * X_PITCH;
}

__device__ inline int pair_place(int pair) {
  const int pixel = min(pair, PIXELS / 2 - 1);
  return (pixel / TILE_W * 2 * STRIDE_R * PAIR_PITCH + pixel % TILE_W * STRIDE_S * CHANNELS) * 4;
}

// Where products find their factors, the same for all tiles: of y, and of x pixels or pairs.
struct Places {
  int y[LINES], x[LINES];
};

__device__ inline void fill_places(Places &places) {
  for (int k = threadIdx.x; k < LINES; k += THREADS) {
    places.y[k] = line_of(k) * Y_PITCH;
    places.x[k] = RUN ? pair_place(k) : window_place(k);
  }
}

// A block of columns: its tap, and which of the tap's or of the row of taps' it is. Rows of taps run fastest.
struct Column {
  int r, s, across;
};

__device__ inline Column column_at(int block) {
  return {block % TAPS_R, block / (TAPS_R * ACROSS), block / TAPS_R % ACROSS};
}

// Where this lane's part of a block of columns begins, from a pixel's place on.
__device__ inline int column_place(int block, int slab) {
  const int lane = threadIdx.x % 32;
  const Column c = column_at(block);
  if (block >= COLUMN_BLOCKS) return 0;
  if (RUN) return (c.r * DILATE_R * PAIR_PITCH + c.across * 8 + lane / 4) * 4;
  return (c.r * DILATE_R * WINDOW_W + c.s * DILATE_S) * X_PITCH + slab * CHANNELS * 2 + c.across * 32 + lane / 16 * 16;
}

// A first column of ones.
__device__ inline unsigned ones() {
  return threadIdx.x % 32 / 4 ? 0 : KIND == HALVES ? 0x3c003c00 : 0x3f803f80;
}

// A slice's products of a block of columns.
__device__ inline void multiply_block(float (*acc)[MR][4], const uint4 (&rows)[MR], uint4 columns) {
#pragma unroll
  for (int i = 0; i < MR; i++) Product::whole(acc[0][i], rows[i], columns.x, columns.y);
  if constexpr (UNITS == 2)
#pragma unroll
    for (int i = 0; i < MR; i++) Product::whole(acc[1][i], rows[i], columns.z, columns.w);
}

// alone: the sums of y, or NULL where another warp has them.
__device__ inline void load_rows(uint4 (&rows)[MR], unsigned line, float (*alone)[4]) {
#pragma unroll
  for (int i = 0; i < MR; i++) rows[i] = load_transposed(line + i * 32);
  if (BIASED && alone)
#pragma unroll
    for (int i = 0; i < MR; i++) Product::whole(alone[i], rows[i], ones(), ones());
}

__device__ inline void multiply_tile(Acc acc, float (*alone)[4], const Places &places, unsigned y, unsigned x,
                                     const int (&column)[PER]) {
  const int lane = threadIdx.x % 32;
#pragma unroll 2
  for (int slice = 0; slice < SLICES; slice++) {
    uint4 rows[MR];
    const unsigned line = y + places.y[slice * 16 + lane / 16 * 8 + lane % 8] + lane / 8 % 2 * 16;
    const unsigned at = x + places.x[RUN ? slice * 8 + lane % 4 : slice * 16 + lane % 16];
    const unsigned next = RUN ? x + places.x[slice * 8 + 4 + lane % 4] : 0;
    load_rows(rows, line, alone);
#pragma unroll
    for (int b = 0; b < PER; b++) {
      uint4 columns;
      if constexpr (RUN)
        columns = make_uint4(load_word(at + column[b]), load_word(next + column[b]), 0, 0);
      else
        columns = load_transposed(at + column[b]);
      multiply_block(acc[b], rows, columns);
    }
  }
}

// The same with ROLLING, by columns of 8 pixels: a step is a row of x with the rows of y that it is multiplied with.
__device__ inline void multiply_rolling(Acc acc, float (*alone)[4], unsigned y, unsigned x, const int (&column)[PER]) {
  constexpr int HALF = TILE_H / 2, STEPS = (HALF - 1) * STRIDE_R + TAPS_R;
  const int lane = threadIdx.x % 32;
  y += (lane / 16 * HALF * TILE_W + lane % 8) * Y_PITCH + lane / 8 % 2 * 16;
  x += (lane / 8 % 2 * HALF * STRIDE_R * WINDOW_W + lane % 8 * STRIDE_S) * X_PITCH;
#pragma unroll 1
  for (int w = 0; w < TILE_W; w += 8, y += 8 * Y_PITCH, x += 8 * STRIDE_S * X_PITCH) {
    uint4 rows[TAPS_R][MR];
#pragma unroll
    for (int step = 0; step < STEPS; step++) {
      const int row = step / STRIDE_R;
      if (step % STRIDE_R == 0 && row < HALF) load_rows(rows[row % TAPS_R], y + row * TILE_W * Y_PITCH, alone);
#pragma unroll
      for (int b = 0; b < PER; b += TAPS_R) {
        const uint4 columns = load_transposed(x + step * WINDOW_W * X_PITCH + column[b]);
#pragma unroll
        for (int r = step % STRIDE_R; r < TAPS_R && r <= step; r += STRIDE_R)
          if ((step - r) / STRIDE_R < HALF) multiply_block(acc[b + r], rows[(step - r) / STRIDE_R % TAPS_R], columns);
      }
    }
  }
}

// ---- sums

// Stores the sums of a pair of neighbouring columns; `column` is the first of the tap or of the tap row, `at` its
// offset.
__device__ inline void put_pair(float *to, int at, int width, const float *sum) {
  if (!RUN && (SLABS > 1 || width % 2 == 0)) {
    if (at < width) *(float2 *)to = make_float2(sum[0], sum[1]);
    return;
  }
  if (at < width) to[0] = sum[0];
  if (at + 1 < width) to[1] = sum[1];
}

// The column behind the taps.
__device__ inline void put_alone(const Args &a, const Part &p, const float (*alone)[4], int slab) {
  const int lane = threadIdx.x % 32;
  float *to = a.partial + ((i64)(p.group + slab) * a.split_k + blockIdx.y) * a.rows * a.columns + a.columns - 2;
  if (lane % 4) return;
#pragma unroll
  for (int i = 0; i < MR; i++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const int row = p.row + i * 16 + half * 8 + lane / 4;
      if (row < a.rows) to[(i64)row * a.columns] = alone[i][half * 2];
    }
}

__device__ inline void put_sums(const Args &a, const Part &p, const Acc acc, int slab, int first_block) {
  const int lane = threadIdx.x % 32;
  float *partial = a.partial + ((i64)(p.group + slab) * a.split_k + blockIdx.y) * a.rows * a.columns;
#pragma unroll
  for (int b = 0; b < PER; b++) {
    const int block = first_block + b;
    const Column c = column_at(block);
    const int r = p.tap_row + c.r, across = c.across * WIDTH + lane % 4 * 2;
    if (block >= COLUMN_BLOCKS || r >= a.tap_rows) continue;
    const int row_of_taps = p.tap_plane * a.tap_rows + r;
    const int first = RUN ? row_of_taps * TAPS_S * CHANNELS : (row_of_taps * TAPS_S + c.s) * a.channels;
    const int width = RUN ? TAPS_S * CHANNELS : a.channels;
#pragma unroll
    for (int i = 0; i < MR; i++)
#pragma unroll
      for (int half = 0; half < 2; half++) {
        const int row = p.row + i * 16 + half * 8 + lane / 4;
        if (row >= a.rows) continue;
#pragma unroll
        for (int u = 0; u < UNITS; u++) {
          const int at = p.channel * !RUN + across + u * 8;
          put_pair(partial + (i64)row * a.columns + first + at, at, width, acc[b][u][i] + half * 2);
        }
      }
  }
}

// ---- the kernel

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) falt_wgrad_halo(const __grid_constant__ Args a) {
  extern __shared__ uint4 memory[];
  __shared__ Places places;
  const unsigned shared = shared_address(memory), pairs = shared + STAGES * STAGE;
  const int warp = threadIdx.x / 32, slab = warp % SLABS, first_block = warp / SLABS * PER;
  const Part p = part_of(a);
  const int begin = blockIdx.y * a.slice_tiles, count = min(a.slice_tiles, a.all_tiles - begin);
  int column[PER];
  Acc acc = {};
  float alone[MR][4] = {};
  const bool sums_y = BIASED && first_block == 0 && p.tap_plane == 0 && p.tap_row == 0 && p.channel == 0;
#pragma unroll
  for (int b = 0; b < PER; b++) column[b] = column_place(first_block + b, slab);
  if (!ROLLING) fill_places(places);
  Tile coming = tile_at(a, begin), tile = coming;
  await_stream();
  load_tile(a, p, coming, shared);
  end_batch();
#pragma unroll 1
  for (int i = 0; i < count; i++) {
    const unsigned stage = shared + i % STAGES * STAGE;
    await_batches<0>();
    __syncthreads();
    if (i + 1 < count) {
      advance(a, coming);
      load_tile(a, p, coming, shared + (i + 1) % STAGES * STAGE);
    }
    end_batch();
    if (RUN) {
      pair_runs(a, p, tile, stage + Y_BYTES, pairs);
      tile = coming;
      __syncthreads();
    }
    const unsigned y = stage + slab * MR * 32, x = RUN ? pairs : stage + Y_BYTES;
    if constexpr (ROLLING)
      multiply_rolling(acc, sums_y ? alone : nullptr, y, x, column);
    else
      multiply_tile(acc, sums_y ? alone : nullptr, places, y, x, column);
  }
  put_sums(a, p, acc, slab, first_block);
  if (sums_y) put_alone(a, p, alone, slab);
}
