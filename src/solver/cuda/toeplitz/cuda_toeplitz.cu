// Filters as Toeplitz products on tensor cores, unit strides: 4x4 neighbouring outputs read a footprint of 4 + R - 1
// rows and 4 + S - 1 columns. Output m is the sum over the footprint's elements k of band[m][k] * x[k], where row m of
// the Toeplitz matrix holds the taps shifted to output m. The matrix is the same for every tile:
//
//   acc[16 outputs][8 tiles] += band[16][K] * x[K][8 tiles]

// Y. Chen et al., "ConvStencil", 2024; splits: H. Ootomo and R. Yokota, "Recovering single precision accuracy from
// Tensor Cores", 2022.
//
// With neighbouring tiles x[K][tile] is the image itself. Lane (g, t) supplies the depth of rows 4*b + t, one 32-bit
// word of neighbouring elements, of tile g. Nothing is shuffled, and a word serves every tile that contains it. A lane
// has GROUPS neighbouring tiles, so it loads and stores whole vectors.
//
// u8 and s8 images: taps are integers of up to three signed bytes and sums are exact. BIASED avoids the conversion of
// sums to floats: an accumulator starts at the bits of 1.5 * 2^23, a float whose neighbours are one apart, so its bits
// stay a valid float. The multiply-adds that weigh and add the parts (cuda_toeplitz_tiles.h) subtract the bias. f16,
// bf16: taps are sums of up to three numbers of that type, products are exact, sums are f32. f32: taps and elements are
// split into two tf32 each.
//
// A zero tap is multiplied by elements outside the window. If one of these is not finite, the output is NaN, and the
// warp recomputes the tile from its own windows.

// Compile-time parameters:
//   KIND                      of the products: mma.cuh's
//   TAPS_T TAPS_R TAPS_S      taps along planes, rows, columns
//   PAD_T PAD_R PAD_S         the axes' pads before
//   AXIS_T AXIS_R AXIS_S      the axes' boundaries: before, after
//   FAR                       1: pads reach farther than an image is long
//   PIXEL                     interleaved channels
//   CHANNELS                  PIXEL: a lane separates the channels, and taps are neighbours; 1: interleaved rows
//   ELEMENT_Y                 C type of elements out
//   TYPE_X TYPE_Y             numbers of falt_type
//   PARTS                     of a tap
//   BIASED                    1: sums are the bits of biased floats; beta subtracts the bias; 2: each sum does
//   CHUNKS SLOTS              pieces of a footprint's columns, and words of a piece
//   GROUPS TILES              tiles of a lane: along a row, one below the other
//   BANDS                     where the filter is read from: 0 registers, 1 shared memory, 2 global memory
//   WARPS BLOCKS              of a block; blocks that should fit on a multiprocessor
//   LINEAR                    1: one long row, cut into rows
//   RINGED                    1: persistent warps, rows through shared memory, transposed products

#include "args.h"
#include "boundary.cuh"
#include "convert.cuh"
#include "mma.cuh"
#include "words.cuh"

typedef long long i64;
typedef falt_cuda_toeplitz_args Args;
typedef ELEMENT_Y Y;

constexpr bool INTEGER = KIND == BYTES || KIND == SIGNED_BYTES, SPLIT = KIND == WORDS;
constexpr int PER_WORD = INTEGER ? 4 : KIND == WORDS ? 1 : 2;  // elements of a word
constexpr int PAIRS = (SLOTS + 1) / 2;                         // products for a tile's four rows
constexpr int DEPTH = (TAPS_R + 3 + 3) / 4;                    // blocks of four rows that a tile reads
constexpr int CHUNK = 4 * GROUPS;                              // outputs of a lane along a row, of a channel
constexpr int LANE = CHUNK * CHANNELS, WIDTH = 8 * LANE;       // of all, of a warp's
constexpr int HEIGHT = 4 * TILES;                              // rows of a warp's step
constexpr int STRIDE = 4 / PER_WORD;                           // words from tile to tile
constexpr int WINDOW = (GROUPS - 1) * STRIDE + SLOTS;          // words of a lane, of a channel
constexpr int SUMS = INTEGER ? PARTS : 1;
constexpr int PRODUCTS = SPLIT ? PARTS + 1 : PARTS;

typedef Word<4 / PER_WORD>::type X;
typedef Mma<KIND>::Sum ACC;

__device__ constexpr int floor_div(int a, int b) {
  return a >= 0 ? a / b : -((b - 1 - a) / b);
}

// The loads of a lane start FIRST words from the column of its first output, OFF bytes before the window.
constexpr int LEFT = PAD_S * PIXEL * (int)sizeof(X);
constexpr int FIRST = floor_div(-LEFT, 4), OFF = -LEFT - 4 * FIRST;
constexpr int RAW = (OFF + 4 * WINDOW * CHANNELS + 3) / 4;
constexpr int VECTOR_BEGIN = floor_div(FIRST, 4), VECTOR_END = floor_div(FIRST + RAW + 3, 4);

struct Place {
  int lane, g, t;
  int column;  // of the lane's first output where it loads
  int first;   // of the warp's first output
};

__device__ inline float value(X bits) {
  if (TYPE_X == F16) return from_f16((unsigned short)bits);
  if (TYPE_X == BF16) return from_bf16((unsigned short)bits);
  if (TYPE_X == F32) return __uint_as_float((unsigned)bits);
  return TYPE_X == S8 ? (float)(signed char)bits : (float)bits;
}

// ---- rows in

#include "cuda_toeplitz_input.cuh"

// ---- products

// The remainder of an element after rounding to tf32.
__device__ inline unsigned rest(unsigned word) {
  return __float_as_uint(__uint_as_float(word) - __uint_as_float(word & 0xffffe000));
}

typedef ACC Acc[GROUPS][SUMS][4];

// BIASED: all sums' beginning. Read from memory: four registers in a row, set once.
__device__ inline uint4 beginning(const Args &a) {
  return BIASED ? __ldg((const uint4 *)a.start) : make_uint4(0, 0, 0, 0);
}

__device__ inline void begin(ACC acc[SUMS][4], const uint4 &start) {
#pragma unroll
  for (int i = 0; i < SUMS; i++) acc[i][0] = start.x, acc[i][1] = start.y, acc[i][2] = start.z, acc[i][3] = start.w;
}

__device__ inline void begin_all(Acc acc, const uint4 &start) {
#pragma unroll
  for (int j = 0; j < GROUPS; j++) begin(acc[j], start);
}

// Slots 2q and 2q+1 of one block of four rows, for all of a lane's tiles; the smallest products first.
__device__ inline void multiply_pair(Acc acc, const uint4 band[PARTS], const unsigned window[WINDOW], int q) {
  const bool whole = 2 * q + 1 < SLOTS;
#pragma unroll
  for (int i = PRODUCTS - 1; i >= 0; i--) {
    const int part = i < PARTS ? i : 0;
    const bool low = i >= PARTS;
#pragma unroll
    for (int j = 0; j < GROUPS; j++) {
      unsigned b0 = window[STRIDE * j + 2 * q], b1 = window[STRIDE * j + 2 * q + (whole ? 1 : 0)];
      if (low) b0 = rest(b0), b1 = rest(b1);
      if (whole)
        Mma<KIND>::whole(acc[j][INTEGER ? part : 0], band[part], b0, b1);
      else
        Mma<KIND>::half(acc[j][INTEGER ? part : 0], band[part], b0);
    }
  }
}

// ---- rows out

#include "cuda_toeplitz_output.cuh"

struct Image {
  const X *x;
  Y *y;
  int plane;  // of the outputs
};

__device__ inline const X *plane_of(const Args &a, const Image &image, int t) {
  const int plane = fold<int>(AXIS_T, a.in_planes, image.plane + t - PAD_T);
  return plane < 0 ? nullptr : image.x + plane * a.x_plane;
}

// One output from its window alone.
__device__ inline float window_sum(const Args &a, const Image &image, int row, int column) {
  float sum = 0;
  const float *tap = a.taps;
  column += LINEAR ? row * (int)a.x_row : 0;
#pragma unroll 1
  for (int t = 0; t < TAPS_T; t++) {
    const X *plane = plane_of(a, image, t);
#pragma unroll 1
    for (int r = 0; r < TAPS_R; r++) {
      const X *line = line_at(a, plane, row + r - PAD_R);
#pragma unroll 4
      for (int s = 0; s < TAPS_S; s++)
        sum += __ldg(tap + s) * value(element(line, a.in_columns, a.fill, column + (s - PAD_S) * PIXEL));
      tap += TAPS_S;
    }
  }
  return sum;
}

// Recomputes outputs from their own windows if one is Inf or NaN: those of all lanes with the same t.
__device__ inline void repair(const Args &a, const Image &image, const Place &at, int row, bool poisoned) {
  const unsigned mask = __ballot_sync(~0u, poisoned);
#pragma unroll 1
  for (int t = 0; t < 4; t++) {
    if (!(mask & 0x11111111u << t)) continue;
#pragma unroll 1
    for (int i = at.g * 4 + at.t; i < 8 * CHUNK; i += 32) {
      const int my_row = row + i / (2 * CHUNK), column = at.first + 2 * CHUNK * t + i % (2 * CHUNK);
      if (exists(a, my_row, column))
        store<float>(image.y, TYPE_Y, my_row * a.y_row + column,
                     a.scale * window_sum(a, image, my_row, column) + a.beta);
    }
  }
}

// Outputs of a channel, from their sums. True where one is Inf or NaN.
__device__ inline bool finish(const Args &a, unsigned out[OUT], const Place &at, const Acc acc) {
  float v[GROUPS][4], poison = 0;
#pragma unroll
  for (int j = 0; j < GROUPS; j++)
#pragma unroll
    for (int i = 0; i < 4; i++) {
      v[j][i] = result(a, acc[j], i, a.beta);
      if (!INTEGER) poison += v[j][i] * 0.f;
    }
  exchange(out, v, at.g & 1);
  return poison != 0.f;
}

// Stores four rows of outputs.
__device__ inline void finish_rows(const Args &a, const Image &image, const Place &at,
                                   const unsigned out[CHANNELS][OUT], bool poisoned, int row, bool whole) {
  unsigned line[CHANNELS * OUT];
  interleave(line, out);
  store_rows(a, image.y, line, at, row, whole);
  if (!INTEGER && __any_sync(~0u, poisoned)) repair(a, image, at, row, poisoned);
}

// ---- the loop down the image

// Blocks of four rows that are loaded, and prefetched, ahead of use.
constexpr int AHEAD = RAW > 6 ? 1 : 2, FAR_AHEAD = 3;

// Whether a warp's accesses in its steps from a row on are inside the image and aligned.
__device__ inline bool is_inside(const Args &a, const X *plane, const Place &at, int row, int steps) {
  const int rows = 4 * (steps + DEPTH - 1);
  const i64 first = at.first + (LINEAR ? row * a.x_row : 0), last = first + (LINEAR ? (rows - 1) * a.x_row : 0);
  const bool columns =
      first + 4 * VECTOR_BEGIN * PER_WORD >= 0 && last + 7 * LANE + 4 * VECTOR_END * PER_WORD <= a.in_columns;
  const bool reads = LINEAR || (row >= PAD_R && row - PAD_R + rows <= a.in_rows);
  return plane && a.aligned_x && a.aligned_y && columns && reads &&
         exists(a, row + 4 * steps - 1, at.first + WIDTH - 1);
}

// The rows that a tile reads, and the source of the next ones.
struct Rows {
  unsigned window[DEPTH][CHANNELS][WINDOW], raw[AHEAD][RAW];
  const X *plane, *from;
};

// Block i of the rows, counted from the first step's last, into raw[k].
template <bool INSIDE>
__device__ inline void load_rows(Rows &rows, const Args &a, const Place &at, int row, int i, int k, int steps) {
  if (i >= steps) return;
  const int first = row - PAD_R + 4 * (i + DEPTH - 1);
  if (INSIDE) {
    fetch_words(rows.raw[k], (const unsigned *)rows.from);
    if (i + FAR_AHEAD < steps) prefetch(rows.from + (4 * FAR_AHEAD * a.x_row - at.g * LANE), at);
    rows.from += 4 * a.x_row;
  } else {
    const X *later = line_at(a, rows.plane, first + 4 * FAR_AHEAD + at.t);
    if (later && !LINEAR) prefetch(later + at.first, at);
    fetch(rows.raw[k], a, at, rows.plane, first);
  }
}

// One step: four rows of outputs, from the block of rows in raw[k].
template <bool INSIDE>
__device__ inline void step_kept(Rows &rows, const Args &a, const Image &image, const Place &at, const uint4 band[],
                                 const uint4 &start, int row, int i, int k, int steps) {
#pragma unroll
  for (int b = 0; b < DEPTH - 1; b++)
#pragma unroll
    for (int w = 0; w < CHANNELS * WINDOW; w++)
      rows.window[b][w / WINDOW][w % WINDOW] = rows.window[b + 1][w / WINDOW][w % WINDOW];
  unpack(rows.window[DEPTH - 1], rows.raw[k]);
  load_rows<INSIDE>(rows, a, at, row, i + AHEAD, k, steps);
  if (i < 0) return;
  unsigned out[CHANNELS][OUT];
  bool poisoned = false;
#pragma unroll
  for (int c = 0; c < CHANNELS; c++) {
    Acc acc;
    begin_all(acc, start);
#pragma unroll
    for (int q = 0; q < DEPTH * PAIRS; q++) multiply_pair(acc, band + q * PARTS, rows.window[q / PAIRS][c], q % PAIRS);
    poisoned |= finish(a, out[c], at, acc);
  }
  finish_rows(a, image, at, out, poisoned, row + 4 * i, INSIDE);
}

// Small filters: the bands and the rows that a tile reads stay in registers. INSIDE: see is_inside.
template <bool INSIDE>
__device__ inline void filter_kept(const Args &a, const Image &image, const Place &at, const uint4 *bands, int row,
                                   int steps) {
  constexpr int count = DEPTH * PAIRS * PARTS;
  uint4 band[count];
  Rows rows;
  const uint4 start = beginning(a);
  rows.plane = plane_of(a, image, 0);
  rows.from = rows.plane + ((row - PAD_R + at.t) * a.x_row + at.column);
#pragma unroll
  for (int k = 0; k < AHEAD; k++) load_rows<INSIDE>(rows, a, at, row, k + 1 - DEPTH, k, steps);
#pragma unroll
  for (int i = 0; i < count; i++) band[i] = __ldg(bands + i * 32 + at.lane);
#pragma unroll 1
  for (int i = 1 - DEPTH; i < steps; i += AHEAD)
#pragma unroll
    for (int k = 0; k < AHEAD; k++)
      if (k == 0 || i + k < steps) step_kept<INSIDE>(rows, a, image, at, band, start, row, i + k, k, steps);
}

// One step of large filters, or of volumes: TILES tiles along a column share Toeplitz matrices from memory.
__device__ inline void step_streamed(const Args &a, const Image &image, const Place &at, const uint4 *bands, int row) {
  static_assert(BANDS == 0 || CHANNELS == 1, "channels are taken apart where rows stay in registers");
  Acc acc[TILES];
  const uint4 start = beginning(a);
#pragma unroll
  for (int v = 0; v < TILES; v++) begin_all(acc[v], start);
  bands += at.g * 4 + at.t;
#pragma unroll 1
  for (int i = 0; i < TAPS_T * CHUNKS; i++) {
    const X *plane = plane_of(a, image, i / CHUNKS);
    Place piece = at;
    piece.column += i % CHUNKS * SLOTS * PER_WORD;
    unsigned window[TILES][1][WINDOW], raw[RAW];
    fetch(raw, a, piece, plane, row - PAD_R);
#pragma unroll 1
    for (int b = 1 - TILES; b < DEPTH; b++) {
#pragma unroll
      for (int v = 0; v < TILES - 1; v++)
#pragma unroll
        for (int k = 0; k < WINDOW; k++) window[v][0][k] = window[v + 1][0][k];
      unpack(window[TILES - 1], raw);
      if (b + 1 < DEPTH) fetch(raw, a, piece, plane, row - PAD_R + 4 * (TILES + b));
      if (b < 0) continue;
#pragma unroll
      for (int q = 0; q < PAIRS; q++) {
        uint4 band[PARTS];
#pragma unroll
        for (int part = 0; part < PARTS; part++) band[part] = bands[(q * PARTS + part) * 32];
#pragma unroll
        for (int v = 0; v < TILES; v++) multiply_pair(acc[v], band, window[v][0], q);
      }
      bands += PAIRS * PARTS * 32;
    }
  }
#pragma unroll
  for (int v = 0; v < TILES; v++) {
    unsigned out[1][OUT];
    const bool poisoned = finish(a, out[0], at, acc[v]);
    finish_rows(a, image, at, out, poisoned, row + 4 * v,
                a.aligned_y && exists(a, row + 4 * v + 3, at.first + WIDTH - 1));
  }
}

// The position of a warp's tile, and its number of steps.
struct Tile {
  int column, row, steps;  // column: in tiles; row: in steps
  i64 image;
};

// Tiles at the image's edges take longer: they are lower, and come first. The warps of a block are neighbours along a
// row, or along a column if they read many common rows.
__device__ inline Tile tile_at(const Args &a, i64 number) {
  const int others = a.column_tiles - a.end_columns, caps = min(2, a.end_rows), end = a.end_steps;
  const int edge = a.end_columns * a.end_rows + others * caps, inner = others * a.row_tiles;
  const i64 edges = a.images * edge;
  const bool at_edge = number < edges;
  if (!at_edge) number -= edges;
  const int count = at_edge ? edge : inner;
  const i64 image = number / count;
  int n = (int)(number - image * count);
  if (!at_edge) {
    const int down = BANDS ? n % a.row_tiles : n / others, across = BANDS ? n / a.row_tiles : n % others;
    const int row = end + down * a.steps;
    return {a.end_columns / 2 + across, row, min(a.steps, a.all_steps - end - row), image};
  }
  if (n < a.end_columns * a.end_rows) {
    const int row = n / a.end_columns * end;
    return {n % a.end_columns * (a.column_tiles - 1), row, min(end, a.all_steps - row), image};
  }
  n -= a.end_columns * a.end_rows;
  const int row = n < others ? 0 : max(end, a.all_steps - end);
  return {a.end_columns / 2 + n % others, row, min(end, a.all_steps - row), image};
}

// A tile's place, its image and its first row.
__device__ inline Image locate(const Args &a, Place &at, const Tile &tile, int *row) {
  Image image;
  at.first = tile.column * WIDTH;
  at.column = at.first + at.g * LANE;
  *row = tile.row * HEIGHT;
  image.plane = tile.image % a.out_planes;
  const i64 number = tile.image / a.out_planes, inner = number % a.batch, outer = number / a.batch;
  image.x = (const X *)a.x + (outer * a.x_batch[0] + inner * a.x_batch[1]);
  image.y = (Y *)a.y + (outer * a.y_batch[0] + inner * a.y_batch[1] + image.plane * a.y_plane);
  return image;
}

#if RINGED
#include "cuda_toeplitz_ring.cuh"
#else
__device__ inline void filter_tiles(const Args &a, Place &at, const uint4 *bands, i64 number) {
  if (number >= a.tiles) return;
  int row;
  const Tile tile = tile_at(a, number);
  const Image image = locate(a, at, tile, &row);
  if constexpr (BANDS == 0) {
    if (is_inside(a, plane_of(a, image, 0), at, row, tile.steps))
      filter_kept<true>(a, image, at, bands, row, tile.steps);
    else
      filter_kept<false>(a, image, at, bands, row, tile.steps);
  } else {
#pragma unroll 1
    for (int i = 0; i < tile.steps && row < a.out_rows; i++, row += HEIGHT) step_streamed(a, image, at, bands, row);
  }
}
#endif

extern "C" __global__ void __launch_bounds__(32 * WARPS, BLOCKS) falt_toeplitz(const __grid_constant__ Args a) {
  extern __shared__ uint4 shared[];
  const uint4 *bands = (const uint4 *)a.bands;
  if (BANDS == 1) {
    for (int i = threadIdx.x; i < TAPS_T * CHUNKS * DEPTH * PAIRS * PARTS * 32; i += 32 * WARPS)
      shared[i] = __ldg(bands + i);
    bands = shared;
    __syncthreads();
  }
  Place at;
  at.lane = threadIdx.x % 32;
  at.g = at.lane / 4;
  at.t = at.lane % 4;
  filter_tiles(a, at, bands, (i64)blockIdx.x * WARPS + threadIdx.x / 32);
}
