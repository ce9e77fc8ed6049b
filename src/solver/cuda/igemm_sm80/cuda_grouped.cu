// Layers of small groups, NHWC, fprop and dgrad, on tensor cores; each halo tile is loaded to shared memory once for
// all taps:
//
//   output (pixel, row) = sum over taps and channels of the row's group of
//                         source[pixel * stride + tap * dilation][channel] * filter[row][tap][channel]

// A block computes TILE_H x TILE_W pixels of 16 * WARPS_C channels. A warp keeps the taps of 16 channels in registers
// and moves down bands of 16 columns. Each source line is multiplied with all tap rows; the accumulators of the open
// output rows move by one place with each output line.
//
// The depth of an MMA is 16: two pieces of 8 channels, of one tap or of two neighbouring taps of a row. The last piece
// of an odd number is multiplied alone. The two halves of a warp's 16 channels may belong to two groups, and then use
// their own pieces. Eight pixels of a piece are 16-byte rows at any address, so taps and strides along a row are
// address offsets.
//
// Groups whose channel count is not a multiple of 8 are merged until it is, with zero taps between them. If a sum is
// not finite, it is recomputed from its own channels, so non-finite values stay in their group.

// Compile-time parameters:
//   KIND                   of the products: HALVES or BRAINS
//   TYPE_Y TYPE_R          numbers of falt_type: of the output; of the residual, -1: none
//   REAL                   float: type of the epilogue
//   ACTIVATION             number of falt_activation
//   TAPS_R TAPS_S          along height and width
//   STRIDE_R STRIDE_S DILATE_S
//   DEPTH                  channels of a group in the source, by 8
//   ROWS                   output channels of a group, a multiple of 8
//   OWN_DEPTH OWN_ROWS     the same before groups were merged, in channels
//   TILE_H TILE_W BANDS    pixels of a tile; bands of lines that it is cut into
//   WARPS_C WARPS_P        warps along channels, along bands and columns
//   STAGES                 1, or 2: double buffering of halo tiles
//   BLOCKS                 blocks that should fit on a multiprocessor

#include "async.cuh"
#include "cuda_grouped_args.h"
#include "finish.cuh"
#include "mma.cuh"
#include "pairs.cuh"
#include "ptx/early.cuh"

typedef long long i64;
typedef falt_cuda_grouped_args Args;
typedef Mma<KIND> Product;

constexpr int THREADS = 32 * WARPS_C * WARPS_P, SPAN = 16 * WARPS_C;  // threads and channels of a block
constexpr int GROUPS = (SPAN + ROWS - 1) / ROWS, CHUNKS = GROUPS * DEPTH, PITCH = (CHUNKS | 1) * 16;
constexpr int WINDOW_H = (TILE_H - 1) * STRIDE_R + TAPS_R;
constexpr int WINDOW_W = (TILE_W - 1) * STRIDE_S + (TAPS_S - 1) * DILATE_S + 1, LINE = WINDOW_W * PITCH,
              STAGE = WINDOW_H * LINE;
constexpr int SETS = ROWS % 16 ? 2 : 1;  // groups that a warp's 16 channels belong to
constexpr int PIECES = TAPS_S * DEPTH, PAIRS = PIECES / 2, ODD = PIECES % 2;
constexpr int LIVE = (TAPS_R + STRIDE_R - 1) / STRIDE_R;  // lines of outputs that a line of the source is part of
constexpr int BAND = (TILE_H + BANDS - 1) / BANDS, COLUMNS = (TILE_W + 15) / 16;
constexpr int SIZE_Y = TYPE_Y == F32 ? 4 : 2;
constexpr bool MERGED = OWN_ROWS < ROWS;
static_assert(TILE_H % BANDS == 0 && BAND <= 16, "bands are even, and their pixels are numbered in a word");
static_assert(ROWS % 8 == 0, "half of a warp's channels belong to one group");

typedef float Sums[2][4];  // of 16 pixels and 2 times 8 channels

// ---- the work of a block

struct Block {
  int n, h, w, row, source;  // image, first pixel, first channel of outputs and of the source
};

__device__ inline Block block_at(const Args &a, int part, int tile) {
  Block b;
  b.row = part * SPAN, b.source = b.row / ROWS * (DEPTH * 8);
  b.w = tile % a.tiles[1] * TILE_W, tile /= a.tiles[1];
  b.h = tile % a.tiles[0] * TILE_H, b.n = tile / a.tiles[0];
  return b;
}

// ---- the window

__device__ inline void load_window(const Args &a, const Block &b, unsigned to) {
  const int top = b.h * STRIDE_R + a.first[0], left = b.w * STRIDE_S + a.first[1];
  const char *from =
      (const char *)a.x + b.n * a.x_image + (i64)top * a.x_axis[0] + (i64)left * a.x_axis[1] + b.source * 2;
#pragma unroll 4
  for (int i = threadIdx.x; i < WINDOW_H * WINDOW_W * CHUNKS; i += THREADS) {
    const int pixel = i / CHUNKS, chunk = i % CHUNKS, h = pixel / WINDOW_W, w = pixel % WINDOW_W;
    const bool exists = (unsigned)(top + h) < (unsigned)a.in[0] && (unsigned)(left + w) < (unsigned)a.in[1] &&
                        b.source + chunk * 8 < a.sources;
    copy_async<16>(to + pixel * PITCH + chunk * 16, from + (h * a.x_axis[0] + w * a.x_axis[1] + chunk * 16),
                   exists ? 16 : 0);
  }
}

// ---- the filter

// The output channels are ordered in the columns of a product such that lanes have four neighbouring channels after
// they exchange half of their sums.
__device__ inline int channel_of(int column) {
  return column / 2 % 2 * 4 + column / 4 * 2 + column % 2;
}

// The taps of 16 channels: a word has two channels of a piece.
struct Taps {
  unsigned word[TAPS_R][PIECES][2];
};

__device__ inline const unsigned short *tap_at(const Args &a, int row, int channel, int r, int s) {
  return (const unsigned short *)a.w + (row / OWN_ROWS * a.w_group + row % OWN_ROWS * a.w_row + channel * a.w_channel +
                                        r * a.w_axis[0] + s * a.w_axis[1]);
}

// Whether a channel, counted from the first of an output's own group, belongs to that.
__device__ inline bool is_own(int channel) {
  return !MERGED || (unsigned)channel < OWN_DEPTH;
}

// The distances between taps are few: a pointer advances by them.
__device__ inline void load_taps(const Args &a, int first, Taps &taps) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int j = 0; j < 2; j++) {
    const int row = min(first + j * 8 + channel_of(lane / 4), a.results - 1);
    const int channel = lane % 4 * 2 - (MERGED ? row % ROWS / OWN_ROWS * OWN_DEPTH : 0);
    const unsigned short *line = tap_at(a, row, channel, 0, 0);
#pragma unroll
    for (int r = 0; r < TAPS_R; r++, line += a.w_axis[0]) {
      const unsigned short *tap = line;
#pragma unroll
      for (int s = 0; s < TAPS_S; s++, tap += a.w_axis[1]) {
        const unsigned short *piece = tap;
#pragma unroll
        for (int d = 0; d < DEPTH; d++, piece += 8 * a.w_channel) {
          const unsigned low = is_own(channel + 8 * d) ? piece[0] : 0;
          const unsigned high = is_own(channel + 8 * d + 1) ? piece[a.w_channel] : 0;
          taps.word[r][s * DEPTH + d][j] = low | high << 16;
        }
      }
    }
  }
}

// ---- products

// The fragments of a source line for half of a warp's channels, or for all: 16 pixels of each piece.
struct Line {
  uint4 pair[PAIRS > 0 ? PAIRS : 1], odd;
};

// The addresses of these fragments: a pair's second piece is adjacent to the first, or is the first piece of the next
// tap. One load reads the pieces of both sets that are multiplied alone.
struct Ways {
  unsigned beside, next, odd, set;  // set: from a piece of the first to that of the second

  __device__ inline Ways(unsigned pixel, int row) {
    const unsigned second = threadIdx.x % 32 / 16, at = pixel + row / ROWS * DEPTH * 16;
    set = ((row + 8) / ROWS - row / ROWS) * DEPTH * 16;
    beside = at + second * 16;
    next = at + second * (DILATE_S * PITCH - (DEPTH - 1) * 16);
    odd = at + (TAPS_S - 1) * DILATE_S * PITCH + (DEPTH - 1) * 16 + second * set;
  }
};

// `way`: offset of this line from the first.
__device__ inline void load_line(Line &line, const Ways &ways, int way, int set) {
#pragma unroll
  for (int i = 0; i < PAIRS; i++) {
    const int tap = 2 * i / DEPTH, piece = 2 * i % DEPTH;
    const unsigned first = (piece + 1 < DEPTH ? ways.beside : ways.next) + set * ways.set;
    line.pair[i] = load_matrices(first + way + piece * 16 + tap * DILATE_S * PITCH);
  }
  if (ODD && set == 0) line.odd = load_matrices(ways.odd + way);
}

__device__ inline void multiply(Sums sums, const Line &line, const Taps &taps, int r, int set) {
#pragma unroll
  for (int j = set; j < 2; j += SETS) {
#pragma unroll
    for (int i = 0; i < PAIRS; i++)
      Product::whole(sums[j], line.pair[i], taps.word[r][2 * i][j], taps.word[r][2 * i + 1][j]);
    if (ODD)
      Product::half(sums[j], j % SETS ? make_uint4(line.odd.z, line.odd.w, 0, 0) : line.odd,
                    taps.word[r][PIECES - 1][j]);
  }
}

// ---- outputs

__device__ inline float from_half(unsigned short bits) {
  return KIND == HALVES ? from_f16(bits) : from_bf16(bits);
}

__device__ inline bool is_finite(float value) {
  return (__float_as_uint(value) & 0x7f800000) != 0x7f800000;
}

// An output of merged groups once more, from its own channels alone. pixel: in shared memory, of its first tap.
__device__ inline float alone(const Args &a, const char *pixel, int row) {
  const int own = row % ROWS / OWN_ROWS * OWN_DEPTH;
  float sum = 0;
#pragma unroll 1
  for (int i = 0; i < TAPS_R * TAPS_S * OWN_DEPTH; i++) {
    const int channel = i % OWN_DEPTH, s = i / OWN_DEPTH % TAPS_S, r = i / OWN_DEPTH / TAPS_S;
    const unsigned short x = *(const unsigned short *)(pixel + r * LINE + s * DILATE_S * PITCH + (own + channel) * 2);
    sum += from_half(x) * from_half(*tap_at(a, row, channel, r, s));
  }
  return sum;
}

// The stores of a lane: four neighbouring channels of the pixels of one column, and of the column eight further.
struct Place {
  char *y;         // of the next line of outputs
  i64 r;           // the residual's pixel
  int row, lines;  // the first channel; lines that are left
  bool exists[2];
  Linear<REAL> l[4];
};

__device__ inline Place place_of(const Args &a, const Block &b, int row, int line, int column) {
  const int h = b.h + line, w = b.w + column;
  Place p;
  p.row = b.row + row + threadIdx.x % 4 * 4;
  p.lines = p.row < a.results ? a.out[0] - h : 0;
#pragma unroll
  for (int i = 0; i < 2; i++) p.exists[i] = column + 8 * i < TILE_W && w + 8 * i < a.out[1];
  p.y = (char *)a.y + (b.n * a.y_image + h * a.y_axis[0] + w * a.y_axis[1] + p.row) * SIZE_Y;
  p.r = b.n * a.r_image + h * a.r_axis[0] + w * a.r_axis[1];
#pragma unroll
  for (int k = 0; k < 4; k++) p.l[k] = linear(a, p.row < a.results ? p.row + k : 0);
  return p;
}

__device__ inline i64 residual_at(const Args &a, int row) {
  return row / OWN_ROWS * a.r_group + row % OWN_ROWS * a.r_channel;
}

// lines: from the next line.
__device__ inline void store_pixel(const Args &a, const Place &p, const float value[4], int lines, int half) {
  const i64 r_at = p.r + lines * a.r_axis[0] + half * 8 * a.r_axis[1];
  float y[4];
#pragma unroll
  for (int k = 0; k < 4; k++) y[k] = finished(a, p.l[k], value[k], r_at + residual_at(a, p.row + k));
  char *to = p.y + (lines * a.y_axis[0] + half * 8 * a.y_axis[1]) * SIZE_Y;
  if (TYPE_Y == F32)
    *(float4 *)to = make_float4(y[0], y[1], y[2], y[3]);
  else
    *(uint2 *)to = make_uint2(pack(make_float2(y[0], y[1])), pack(make_float2(y[2], y[3])));
}

// The next line; of merged groups, which of its two pixels have sums that are not finite and are not stored.
__device__ inline unsigned store_line(const Args &a, Place &p, const Sums sums) {
  const bool upper = threadIdx.x % 4 >= 2, exists = p.lines-- > 0;
  unsigned left = 0;
#pragma unroll
  for (int half = 0; half < 2; half++) {
    float value[4];
#pragma unroll
    for (int k = 0; k < 2; k++) {
      const float low = sums[0][half * 2 + k], high = sums[1][half * 2 + k];
      const float other = __shfl_xor_sync(~0u, upper ? low : high, 2);
      value[k] = upper ? other : low, value[2 + k] = upper ? high : other;
    }
    if (!exists || !p.exists[half]) continue;
    if (MERGED && !is_finite(value[0] + value[1] + value[2] + value[3]))
      left |= 1u << half;
    else
      store_pixel(a, p, value, 0, half);
  }
  p.y += a.y_axis[0] * SIZE_Y, p.r += a.r_axis[0];
  // Otherwise the compiler moves loads of later lines before these stores and runs out of registers.
  if (TYPE_Y == F32) __syncwarp();
  return left;
}

// The outputs of a band that were not stored: two bits a line. window: of the lane's first pixel.
__device__ inline void store_left(const Args &a, const Place &p, unsigned left, const char *window) {
#pragma unroll 1
  for (; left; left &= left - 1) {
    const int line = (__ffs(left) - 1) / 2, half = (__ffs(left) - 1) % 2;
    float value[4];
#pragma unroll
    for (int k = 0; k < 4; k++)
      value[k] = alone(a, window + line * STRIDE_R * LINE + half * 8 * STRIDE_S * PITCH, p.row + k);
    store_pixel(a, p, value, line - BAND, half);
  }
}

// ---- a band

__device__ inline void walk(const Args &a, const Block &b, const Taps &taps, const char *window, int first,
                            int column) {
  const int lane = threadIdx.x % 32, row = threadIdx.x / 32 % WARPS_C * 16;
  const char *band = window + first * STRIDE_R * LINE;
  const Ways ways(shared_address(band) + min(column + lane % 16, TILE_W - 1) * STRIDE_S * PITCH, row);
  Place place = place_of(a, b, row, first, column + lane / 4);
  const char *pixel = band + (column + lane / 4) * STRIDE_S * PITCH + (place.row - b.row) / ROWS * DEPTH * 16;
  Sums sums[LIVE] = {};
  unsigned left = 0;
#pragma unroll
  for (int i = 0; i < BAND + LIVE - 1; i++) {
#pragma unroll
    for (int j = LIVE - 1; j >= 0; j--)
#pragma unroll
      for (int k = 0; k < 8; k++) sums[j][k / 4][k % 4] = j > 0 ? sums[j - 1][k / 4][k % 4] : 0;
#pragma unroll
    for (int k = 0; k < STRIDE_R; k++) {
      if (i == BAND + LIVE - 2 && (LIVE - 1) * STRIDE_R + k >= TAPS_R) continue;
      Line line;
#pragma unroll
      for (int set = 0; set < SETS; set++) {
        load_line(line, ways, (i * STRIDE_R + k) * LINE, set);
#pragma unroll
        for (int j = LIVE - 1; j >= 0; j--)
          if (j <= i && i - j < BAND && j * STRIDE_R + k < TAPS_R) multiply(sums[j], line, taps, j * STRIDE_R + k, set);
      }
    }
    if (i >= LIVE - 1) left |= store_line(a, place, sums[LIVE - 1]) << 2 * (i - (LIVE - 1));
  }
  if (MERGED) store_left(a, place, left, pixel);
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) falt_grouped(const __grid_constant__ Args a) {
  extern __shared__ uint4 memory[];
  const char *stage = (const char *)memory, *other = stage + (STAGES - 1) * STAGE;
  const int warp = threadIdx.x / 32, part = blockIdx.x % a.parts, step = gridDim.x / a.parts;
  int tile = blockIdx.x / a.parts;
  begin_beside(a.first_call);
  load_window(a, block_at(a, part, tile), shared_address(stage));
  end_batch();
  Taps taps;
  load_taps(a, part * SPAN + warp % WARPS_C * 16, taps);
#pragma unroll 1
  for (; tile < a.all_tiles; tile += step) {
    await_batches<0>();
    __syncthreads();
    if (STAGES == 2 && tile + step < a.all_tiles) load_window(a, block_at(a, part, tile + step), shared_address(other));
    end_batch();
    const Block b = block_at(a, part, tile);
#pragma unroll 1
    for (int i = warp / WARPS_C; i < BANDS * COLUMNS; i += WARPS_P)
      walk(a, b, taps, stage, i / COLUMNS * BAND, i % COLUMNS * 16);
    if (STAGES == 1) {
      __syncthreads();
      if (tile + step < a.all_tiles) load_window(a, block_at(a, part, tile + step), shared_address(stage));
      end_batch();
    }
    const char *next = other;
    other = stage, stage = next;
  }
  end_beside(a.first_call);
}
