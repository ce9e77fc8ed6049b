// Filters with one set of taps, stride 1, on tensor cores. Four by four neighbouring results read a footprint of
// 4 + R - 1 rows and 4 + S - 1 columns; as a matrix product, result m = sum over the footprint's elements k of
// band[m][k] * x[k], where row m of the band matrix holds the taps, moved to where result m stands. The same matrix
// serves every such tile, so that
//
//   acc[16 results][8 tiles] += band[16][K] * x[K][8 tiles],
//
// and with tiles that lie side by side x[K][tile] is the image itself: lane (g, t) gives the K-slot of rows 4*b + t,
// one 32-bit word of neighbouring elements, of tile g. Nothing is shuffled, and a word serves every tile it lies in.
// A lane's tiles are GROUPS, side by side, so that it loads and stores whole vectors.
//
// Images of bytes: taps are integers of up to three signed bytes, sums are exact. f16, bf16: taps are sums of up to
// three numbers of that type, products exact, sums in f32. f32: taps and elements are split into two tf32 each. A zero
// tap meets elements outside the window; where one of these is not finite the result is NaN, and the warp's tile is
// computed once more from its windows alone. (Bands: Chen et al., "ConvStencil", 2024; splits: Ootomo and Yokota,
// "Recovering single precision accuracy from Tensor Cores", 2022.)
//
// Holes:
//   KIND                      of the products: mma.cuh's
//   TAPS_T TAPS_R TAPS_S      taps along planes, rows, columns
//   PAD_T PAD_R PAD_S         the axes' pads before
//   AXIS_T AXIS_R AXIS_S      the axes' boundaries: before, after
//   PIXEL                     channels that lie interleaved
//   ELEMENT_Y                 C type of elements out
//   TYPE_X TYPE_Y             numbers of falt_type
//   PARTS                     of a tap
//   CHUNKS SLOTS              pieces of a footprint's columns, and words of a piece
//   GROUPS TILES              tiles of a lane: along a row, one below the other
//   STEPS                     of a warp downwards, 4 * TILES rows each
//   BANDS                     where the filter is read from: 0 registers, 1 shared memory, 2 global memory
//   WARPS BLOCKS              of a block; blocks that should fit on a multiprocessor
//   LINEAR                    1: one long row, cut into rows
#include "args.h"
#include "boundary.cuh"
#include "convert.cuh"
#include "mma.cuh"

typedef long long i64;
typedef falt_cuda_banded_args Args;
typedef ELEMENT_Y Y;

template <int BYTES>
struct Word;
template <>
struct Word<4> {
  typedef unsigned type;
};
template <>
struct Word<2> {
  typedef unsigned short type;
};
template <>
struct Word<1> {
  typedef unsigned char type;
};

constexpr bool INTEGER = KIND == BYTES || KIND == SIGNED_BYTES, SPLIT = KIND == WORDS;
constexpr int PER_WORD = INTEGER ? 4 : KIND == WORDS ? 1 : 2;  // elements of a word
constexpr int PAIRS = (SLOTS + 1) / 2;                               // products for a tile's four rows
constexpr int DEPTH = (TAPS_R + 3 + 3) / 4;                          // blocks of four rows that a tile reads
constexpr int CHUNK = 4 * GROUPS, WIDTH = 8 * CHUNK;                 // results of a lane, of a warp along a row
constexpr int HEIGHT = 4 * TILES;                                    // rows of a warp's step
constexpr int STRIDE = 4 / PER_WORD;                                 // words from tile to tile
constexpr int WINDOW = (GROUPS - 1) * STRIDE + SLOTS;                // words of a lane
constexpr int SUMS = INTEGER ? PARTS : 1;
constexpr int PRODUCTS = SPLIT ? PARTS + 1 : PARTS;

typedef Word<4 / PER_WORD>::type X;
typedef Mma<KIND>::Sum ACC;

__device__ constexpr int floor_div(int a, int b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }

// What a lane loads begins FIRST words from its first result's column, OFF bytes before the window.
constexpr int LEFT = PAD_S * PIXEL * (int)sizeof(X);
constexpr int FIRST = floor_div(-LEFT, 4), OFF = -LEFT - 4 * FIRST;
constexpr int RAW = WINDOW + (OFF ? 1 : 0);
constexpr int VECTOR_BEGIN = floor_div(FIRST, 4), VECTOR_END = floor_div(FIRST + RAW + 3, 4);

struct Place {
  int g, t;    // of the lane
  int column;  // of the lane's first result where it loads
  int first;   // of the warp's first result
};

__device__ inline float value(X bits) {
  if (TYPE_X == F16) return from_f16((unsigned short)bits);
  if (TYPE_X == BF16) return from_bf16((unsigned short)bits);
  if (TYPE_X == F32) return __uint_as_float((unsigned)bits);
  return TYPE_X == S8 ? (float)(signed char)bits : (float)bits;
}

// ---- rows in

// Where the row stands in memory that continues the image at `row`; NULL: it is the constant.
__device__ inline const X *line_at(const Args &a, const X *plane, int row) {
  if (!LINEAR) row = fold<int>(AXIS_R, a.in_rows, row);
  return plane && row >= 0 ? plane + (LINEAR ? 0 : row * a.x_row) : nullptr;
}

__device__ inline X element(const Args &a, const X *line, int column) {
  const int pixel = floor_div(column, PIXEL), folded = fold<int>(AXIS_S, a.in_columns / PIXEL, pixel);
  return line && folded >= 0 ? __ldg(line + (folded * PIXEL + column - pixel * PIXEL)) : (X)a.fill;
}

// A lane's words where its row ends or is not aligned: whole words where there are some, shifted, then element by
// element what touches the outside.
__device__ inline void fetch_careful(unsigned raw[RAW], const Args &a, const X *line, int column) {
  const unsigned off = (unsigned)(size_t)(line + column) & 3;
  const int begin = column + FIRST * PER_WORD, margin = off ? PER_WORD : 0;
  const unsigned *from = (const unsigned *)((const char *)(line + begin) - off);
  unsigned next = 0;
#pragma unroll
  for (int i = RAW; i >= 0; i--) {
    const int at = begin + i * PER_WORD;
    const unsigned word = line && at - margin >= 0 && at + PER_WORD <= a.in_columns ? __ldg(from + i) : 0;
    if (i < RAW) raw[i] = __funnelshift_r(word, next, 8 * off);
    next = word;
  }
#pragma unroll
  for (int i = 0; i < RAW; i++) {
    const int at = begin + i * PER_WORD;
    if (line && at - margin >= 0 && at + PER_WORD + margin <= a.in_columns) continue;
    raw[i] = 0;
#pragma unroll 1
    for (int e = PER_WORD - 1; e >= 0; e--)
      raw[i] = raw[i] << 32 / PER_WORD % 32 | (unsigned)element(a, line, at + e);
  }
}

// Words FIRST... of the lane's row, by the widest loads that take no more than a word in vain.
__device__ inline void fetch_words(unsigned raw[RAW], const unsigned *from) {
#pragma unroll
  for (int v = VECTOR_BEGIN; v < VECTOR_END; v++) {
    const int low = FIRST > 4 * v ? FIRST - 4 * v : 0, end = FIRST + RAW - 4 * v, high = end < 4 ? end : 4;
    const int to = 4 * v - FIRST;
    if (high - low == 1) {
      raw[to + low] = __ldg(from + 4 * v + low);
    } else if (low >= 2 || high <= 2) {
      const int half = low >= 2 ? 2 : 0;
      const uint2 two = __ldg((const uint2 *)(from + 4 * v + half));
      raw[to + half] = two.x, raw[to + half + 1] = two.y;
    } else {
      const uint4 four = __ldg((const uint4 *)(from + 4 * v));
      if (low <= 0) raw[to] = four.x;
      if (low <= 1) raw[to + 1] = four.y;
      raw[to + 2] = four.z;
      if (high > 3) raw[to + 3] = four.w;
    }
  }
}

// What the lane needs of the block of four rows that begins at `row`.
__device__ inline void fetch(unsigned raw[RAW], const Args &a, const Place &at, const X *plane, int row) {
  const X *line = line_at(a, plane, row + at.t);
  const int column = LINEAR ? at.column + (row + at.t) * (int)a.x_row : at.column;
  const bool inside = column + 4 * VECTOR_BEGIN * PER_WORD >= 0 && column + 4 * VECTOR_END * PER_WORD <= a.in_columns;
  if (line && a.aligned_x && inside)
    fetch_words(raw, (const unsigned *)(line + column));
  else
    fetch_careful(raw, a, line, column);
}

__device__ inline void unpack(unsigned window[WINDOW], const unsigned raw[RAW]) {
#pragma unroll
  for (int i = 0; i < WINDOW; i++) window[i] = OFF ? __funnelshift_r(raw[i], raw[OFF ? i + 1 : i], 8 * OFF) : raw[i];
}

// ---- products

// What tf32 leaves of an element.
__device__ inline unsigned rest(unsigned word) {
  return __float_as_uint(__uint_as_float(word) - __uint_as_float(word & 0xffffe000));
}

typedef ACC Acc[GROUPS][SUMS][4];

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

__device__ inline float total(const ACC sum[SUMS][4], int i) {
  if constexpr (SUMS == 3) return (float)(sum[0][i] * 256 + sum[1][i]) * 256.f + (float)sum[2][i];
  if constexpr (SUMS == 2) return (float)(sum[0][i] * 256 + sum[1][i]);
  return (float)sum[0][i];
}

__device__ inline unsigned pack_bytes(float a, float b, float c, float d) {
  unsigned word = 0;
  if (TYPE_Y == U8) {
    asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;" : "=r"(word) : "r"(__float2int_rn(d)), "r"(__float2int_rn(c)), "r"(0));
    asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;"
        : "=r"(word)
        : "r"(__float2int_rn(b)), "r"(__float2int_rn(a)), "r"(word));
  } else {
    asm("cvt.pack.sat.s8.s32.b32 %0, %1, %2, %3;" : "=r"(word) : "r"(__float2int_rn(d)), "r"(__float2int_rn(c)), "r"(0));
    asm("cvt.pack.sat.s8.s32.b32 %0, %1, %2, %3;"
        : "=r"(word)
        : "r"(__float2int_rn(b)), "r"(__float2int_rn(a)), "r"(word));
  }
  return word;
}

// Two neighbouring results in as many words as they need.
__device__ inline void pack_pair(unsigned word[], float a, float b) {
  if (TYPE_Y == F32) {
    word[0] = __float_as_uint(a), word[sizeof(Y) / 4] = __float_as_uint(b);
  } else if (TYPE_Y == F16) {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word[0]) : "f"(b), "f"(a));
  } else if (TYPE_Y == BF16) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word[0]) : "f"(b), "f"(a));
  } else {
    Y low, high;
    store<float>(&low, TYPE_Y, 0, a);
    store<float>(&high, TYPE_Y, 0, b);
    word[0] = (unsigned short)low | (unsigned)(unsigned short)high << 16;
  }
}

constexpr int OUT = CHUNK * (int)sizeof(Y) / 4;  // words of a lane's results in a row

// Lanes 2r and 2r+1 (by g) hold the left and the right half of row r of tiles 2t and 2t+1: they exchange, so that one
// has all of tile 2t, the other all of tile 2t+1.
__device__ inline void exchange(unsigned out[OUT], const float v[GROUPS][4], bool odd) {
  if constexpr (sizeof(Y) == 1) {
    unsigned word[GROUPS];
#pragma unroll
    for (int j = 0; j < GROUPS; j++) word[j] = pack_bytes(v[j][0], v[j][2], v[j][1], v[j][3]);
#pragma unroll
    for (int j = 0; j < GROUPS; j += 2) {
      const unsigned mine = __byte_perm(word[j], word[j + 1], odd ? 0x5410 : 0x7632);
      const unsigned theirs = __shfl_xor_sync(~0u, mine, 4);
      out[j] = __byte_perm(word[j], theirs, odd ? 0x3254 : 0x5410);
      out[j + 1] = __byte_perm(word[j + 1], theirs, odd ? 0x3276 : 0x7610);
    }
  } else {
    constexpr int pair = (sizeof(Y) + 1) / 2;
#pragma unroll
    for (int j = 0; j < GROUPS; j++) {
      unsigned left[pair], right[pair];
      pack_pair(left, v[j][0], v[j][2]);
      pack_pair(right, v[j][1], v[j][3]);
#pragma unroll
      for (int i = 0; i < pair; i++) {
        const unsigned theirs = __shfl_xor_sync(~0u, odd ? left[i] : right[i], 4);
        out[(2 * j) * pair + i] = odd ? theirs : left[i];
        out[(2 * j + 1) * pair + i] = odd ? right[i] : theirs;
      }
    }
  }
}

__device__ inline bool exists(const Args &a, int row, int column) {
  if (LINEAR) return column < a.y_row && row * a.y_row + column < a.out_columns;
  return row < a.out_rows && column < a.out_columns;
}

__device__ inline void store_chunk(const Args &a, Y *y, const unsigned out[OUT], int row, int column) {
  union {
    unsigned word[OUT];
    Y y[CHUNK];
  } raw;
#pragma unroll
  for (int i = 0; i < OUT; i++) raw.word[i] = out[i];
  Y *to = y + (row * a.y_row + column);
  if (a.aligned_y && exists(a, row, column + CHUNK - 1)) {
    if constexpr (OUT % 4 == 0) {
#pragma unroll
      for (int i = 0; i < OUT; i += 4) __stcs((uint4 *)to + i / 4, make_uint4(out[i], out[i + 1], out[i + 2], out[i + 3]));
    } else {
#pragma unroll
      for (int i = 0; i < OUT; i += 2) __stcs((uint2 *)to + i / 2, make_uint2(out[i], out[i + 1]));
    }
  } else {
#pragma unroll
    for (int i = 0; i < CHUNK; i++)
      if (exists(a, row, column + i)) to[i] = raw.y[i];
  }
}

struct Image {
  const X *x;
  Y *y;
  int plane;  // of the results
};

__device__ inline const X *plane_of(const Args &a, const Image &image, int t) {
  const int plane = fold<int>(AXIS_T, a.in_planes, image.plane + t - PAD_T);
  return plane < 0 ? nullptr : image.x + plane * a.x_plane;
}

// One result from its window alone.
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
        sum += __ldg(tap + s) * value(element(a, line, column + (s - PAD_S) * PIXEL));
      tap += TAPS_S;
    }
  }
  return sum;
}

// Results once more, from their windows alone, where one is Inf or NaN: those of all lanes with the same t.
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

// Finishes and stores four rows of results.
__device__ inline void finish(const Args &a, const Image &image, const Place &at, const Acc acc, int row) {
  float v[GROUPS][4], poison = 0;
  unsigned out[OUT];
#pragma unroll
  for (int j = 0; j < GROUPS; j++)
#pragma unroll
    for (int i = 0; i < 4; i++) {
      v[j][i] = a.alpha * total(acc[j], i) + a.beta;
      if (!INTEGER) poison += v[j][i] * 0.f;
    }
  exchange(out, v, at.g & 1);
  store_chunk(a, image.y, out, row + (at.g >> 1), at.first + (2 * at.t + (at.g & 1)) * CHUNK);
  if (!INTEGER && __any_sync(~0u, poison != 0.f)) repair(a, image, at, row, poison != 0.f);
}

// ---- downwards

// Small filters: the bands and the rows that a tile reads stay in registers.
__device__ inline void sweep_kept(const Args &a, const Image &image, const Place &at, const uint4 *bands, int row) {
  uint4 band[DEPTH][PAIRS][PARTS];
  unsigned window[DEPTH][WINDOW], raw[RAW];
  const X *plane = plane_of(a, image, 0);
  const int steps = min(STEPS, (a.out_rows - row + 3) / 4);
#pragma unroll
  for (int i = 0; i < DEPTH * PAIRS * PARTS; i++)
    band[i / (PAIRS * PARTS)][i / PARTS % PAIRS][i % PARTS] = __ldg(bands + i * 32 + at.g * 4 + at.t);
  fetch(raw, a, at, plane, row - PAD_R);
#pragma unroll 1
  for (int i = 1 - DEPTH; i < steps; i++) {
#pragma unroll
    for (int b = 0; b < DEPTH - 1; b++)
#pragma unroll
      for (int k = 0; k < WINDOW; k++) window[b][k] = window[b + 1][k];
    unpack(window[DEPTH - 1], raw);
    if (i + 1 < steps) fetch(raw, a, at, plane, row - PAD_R + 4 * (i + DEPTH));
    if (i < 0) continue;
    Acc acc = {};
#pragma unroll
    for (int b = 0; b < DEPTH; b++)
#pragma unroll
      for (int q = 0; q < PAIRS; q++) multiply_pair(acc, band[b][q], window[b], q);
    finish(a, image, at, acc, row + 4 * i);
  }
}

// One step of large filters, or of volumes: bands from memory, TILES tiles below each other share them.
__device__ inline void step_streamed(const Args &a, const Image &image, const Place &at, const uint4 *bands, int row) {
  Acc acc[TILES] = {};
  bands += at.g * 4 + at.t;
#pragma unroll 1
  for (int i = 0; i < TAPS_T * CHUNKS; i++) {
    const X *plane = plane_of(a, image, i / CHUNKS);
    Place piece = at;
    piece.column += i % CHUNKS * SLOTS * PER_WORD;
    unsigned window[TILES][WINDOW], raw[RAW];
    fetch(raw, a, piece, plane, row - PAD_R);
#pragma unroll 1
    for (int b = 1 - TILES; b < DEPTH; b++) {
#pragma unroll
      for (int v = 0; v < TILES - 1; v++)
#pragma unroll
        for (int k = 0; k < WINDOW; k++) window[v][k] = window[v + 1][k];
      unpack(window[TILES - 1], raw);
      if (b + 1 < DEPTH) fetch(raw, a, piece, plane, row - PAD_R + 4 * (TILES + b));
      if (b < 0) continue;
#pragma unroll
      for (int q = 0; q < PAIRS; q++) {
        uint4 band[PARTS];
#pragma unroll
        for (int part = 0; part < PARTS; part++) band[part] = bands[(q * PARTS + part) * 32];
#pragma unroll
        for (int v = 0; v < TILES; v++) multiply_pair(acc[v], band, window[v], q);
      }
      bands += PAIRS * PARTS * 32;
    }
  }
#pragma unroll
  for (int v = 0; v < TILES; v++) finish(a, image, at, acc[v], row + 4 * v);
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, BLOCKS) falt_banded(const __grid_constant__ Args a) {
  extern __shared__ uint4 shared[];
  const uint4 *bands = (const uint4 *)a.bands;
  if (BANDS == 1) {
    for (int i = threadIdx.x; i < TAPS_T * CHUNKS * DEPTH * PAIRS * PARTS * 32; i += 32 * WARPS) shared[i] = __ldg(bands + i);
    bands = shared;
    __syncthreads();
  }
  i64 tile = (i64)blockIdx.x * WARPS + threadIdx.x / 32;
  if (tile >= a.tiles) return;
  Place at;
  at.g = threadIdx.x / 4 % 8;
  at.t = threadIdx.x % 4;
  int row = tile % a.row_tiles * (HEIGHT * STEPS);
  tile /= a.row_tiles;
  // The columns at both ends take longer: they come first.
  const int order = tile % a.column_tiles;
  at.first = (order == 0 ? 0 : order == 1 ? a.column_tiles - 1 : order - 1) * WIDTH;
  at.column = at.first + at.g * CHUNK;
  tile /= a.column_tiles;
  Image image;
  image.plane = tile % a.out_planes;
  tile /= a.out_planes;
  const i64 inner = tile % a.batch, outer = tile / a.batch;
  image.x = (const X *)a.x + (outer * a.x_batch[0] + inner * a.x_batch[1]);
  image.y = (Y *)a.y + (outer * a.y_batch[0] + inner * a.y_batch[1] + image.plane * a.y_plane);
  if constexpr (BANDS == 0) {
    sweep_kept(a, image, at, bands, row);
  } else {
#pragma unroll 1
    for (int i = 0; i < STEPS && row < a.out_rows; i++, row += HEIGHT) step_streamed(a, image, at, bands, row);
  }
}
