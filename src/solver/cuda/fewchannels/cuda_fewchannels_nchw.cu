// Fprop of layers with few input channels on tensor cores, f16 and bf16. Input rows go from memory directly into MMA
// fragments, without shared memory:
//
//   y[k][d][h][w] = sum over c, t, r, s of f[k][c][t][r][s] *
//                   x[c][d*stride + t*dilation - pad][h + r - pad][w + s - PAD]

// A slot is a tap plane of one channel of x: slot (c, t) has TAPS_R rows of TAPS_S taps. The depth of a product
// (m16n8k16) is four slots with four row elements each. The eight columns are pairs of neighbouring outputs of a row.
// The 16 rows are eight channels of y, once for the even and once for the odd output of each pair; the taps of the odd
// one are shifted by one element. Each lane needs two words of one slot, and for the next pairs the same words shifted
// by one. So a lane loads the elements around eight neighbouring columns of x: 16 bytes and a few elements at both
// sides. Four products read their fragments there. The lane then holds the outputs of eight neighbouring columns of y,
// at two places of a strip of 64. An element that several taps read is loaded once.
//
// For NHWC output the operands are exchanged: rows of a product are 16 pairs, columns are eight channels, ordered so
// that a lane holds contiguous channels of every eight of its warp.
//
// A warp moves down a strip. It holds as many rows of x in registers as an output reads, and prefetches the next one.
//
// Unused taps of a product are zeros in the filter. If an output is NaN, it is recomputed from its own taps, because a
// non-finite element times zero is NaN.

// Compile-time parameters:
//   KIND                  HALVES or BRAINS: of the operands
//   TYPE_X TYPE_Y TYPE_R REAL ACTIVATION    numbers of falt_type; as finish.cuh has them
//   CHANNELS PLANES TAPS_R TAPS_S           of x; taps along planes, rows, columns
//   PAD                   columns
//   FOLD                  1: a boundary of x is not constant
//   EIGHTS                of channels of y that a warp has
//   INNER                 1: y is NHWC, else NCHW
//   UNIT_X UNIT_Y         contiguous elements of one load and of one store, if they are aligned
//   BLOCKS                of a multiprocessor

#include "boundary.cuh"
#include "cuda_fewchannels_nchw_args.h"
#include "finish.cuh"
#include "mma.cuh"
#include "pairs.cuh"
#include "ptx/early.cuh"
#include "words.cuh"

typedef long long i64;
typedef unsigned short Half;
typedef falt_cuda_fewchannels_nchw_args Args;

enum { WARPS = 4, THREADS = 32 * WARPS, STRIP = 64, OWN = 8 };

constexpr int SLOTS = CHANNELS * PLANES, GROUPS = (SLOTS + 3) / 4;
constexpr int PIECES = (TAPS_S + 1 + 3) / 4;        // a pair's elements by fours
constexpr int SPAN = OWN / 2 - 1 + 2 * PIECES;      // words of a row, for the four pairs of eight columns
constexpr int LEFT = PAD, BESIDE = 2 * SPAN - OWN;  // elements beside the eight: on the left, in all
constexpr int LONG = INNER ? 2 * EIGHTS : OWN, RUNS = 16 * EIGHTS / LONG;  // outputs of a lane that are contiguous
constexpr int LINEARS = INNER ? LONG : EIGHTS;                             // channels of a lane
static_assert(LEFT >= 0 && LEFT <= BESIDE, "the columns of eight results are among what they read");

// ---- the work of a warp

// Rows `begin` to `end` of a strip of columns.
struct Walk {
  int image, plane, begin, end, column;
};

__device__ inline bool walk_at(const Args &a, int item, Walk &walk) {
  if (item >= a.items) return false;
  walk.column = item % a.strips * STRIP, item /= a.strips;
  walk.begin = item % a.walks * a.walk, item /= a.walks;
  walk.plane = item % a.out[0], walk.image = item / a.out[0];
  walk.end = min(walk.begin + a.walk, a.out[1]);
  return true;
}

// Where a position of an axis is in memory, or -1: beyond the ends, where the constant is.
__device__ inline int place_of(const Args &a, int axis, int position) {
  if (FOLD) return fold<int>(a.boundary[axis][0], a.boundary[axis][1], a.in[axis], position);
  return (unsigned)position < (unsigned)a.in[axis] ? position : -1;
}

// ---- rows of x

// Column 2i of a product has its pairs in eight outputs of the strip, column 2i + 1 in the eight outputs 32 further: so
// a lane stores contiguous outputs.
__device__ inline int eight_of(int column) {
  return (column / 2 + column % 2 * 4) * OWN;
}

// The elements that a lane reads of each row: of slots t, 4 + t... (t = lane % 4) those around eight columns, from
// `own` on.
struct Source {
  const Half *plane[GROUPS];  // its element of column `own`, row 0
  bool there[GROUPS];         // the plane; if not, the constant is
  int own;
  bool whole;  // the eight may be loaded by units
};

__device__ inline Source source_of(const Args &a, const Walk &walk) {
  const int lane = threadIdx.x % 32;
  Source s;
  s.own = walk.column + eight_of(lane / 4);
  s.whole = a.x_aligned && s.own + OWN <= a.in[2];
#pragma unroll
  for (int g = 0; g < GROUPS; g++) {
    const int slot = 4 * g + lane % 4;
    const int plane = place_of(a, 0, walk.plane * a.stride + slot % PLANES * a.dilation - a.pad[0]);
    s.there[g] = plane >= 0 && slot < SLOTS;
    s.plane[g] = (const Half *)a.x + walk.image * a.x_image + slot / PLANES * a.x_channel + plane * a.x_axis[0] + s.own;
  }
  return s;
}

struct Row {
  unsigned word[GROUPS][SPAN];
};

struct Elements {
  union {
    Word<2 * UNIT_X>::type unit[OWN / UNIT_X];
    unsigned own[OWN / 2];
    Half half[OWN];
  };
  unsigned beside[BESIDE];

  __device__ inline unsigned element(int at) const {
    return at >= 0 && at < OWN ? own[at / 2] >> at % 2 * 16 : beside[at < 0 ? LEFT + at : LEFT + at - OWN];
  }

  // Elements `at` and at + 1, counted from the first of the eight.
  __device__ inline unsigned word(int at) const {
    if (at >= 0 && at < OWN && at % 2 == 0) return own[at / 2];
    if (at >= 0 && at < OWN - 1) return __byte_perm(own[at / 2], own[at / 2 + 1], 0x5432);
    return __byte_perm(element(at), element(at + 1), 0x5410);
  }
};

// Element i of the row whose element of column `own` is `line`.
__device__ inline unsigned element_at(const Args &a, const Source &s, const Half *line, int i) {
  const int column = place_of(a, 2, s.own + i);
  return column < 0 ? a.fill : __ldg(line + (FOLD ? column - s.own : i));
}

__device__ inline void load_elements(const Args &a, const Source &s, const Half *line, Elements &e) {
  if (s.whole) {
#pragma unroll
    for (int i = 0; i < OWN / UNIT_X; i++) e.unit[i] = __ldg((const Word<2 * UNIT_X>::type *)line + i);
  } else {
#pragma unroll
    for (int i = 0; i < OWN; i++) e.half[i] = element_at(a, s, line, i);
  }
#pragma unroll
  for (int i = 0; i < BESIDE; i++) e.beside[i] = element_at(a, s, line, i < LEFT ? i - LEFT : i - LEFT + OWN);
}

// A row in flight; its first use waits for it.
struct Coming {
  Elements of[GROUPS];
};

// Slots that no taps belong to are multiplied with zeros, as any constant is.
__device__ inline void load_row(const Args &a, const Source &s, int row, Coming &coming) {
  const int h = place_of(a, 1, row);
#pragma unroll
  for (int g = 0; g < GROUPS; g++) {
    if (h >= 0 && s.there[g]) {
      load_elements(a, s, s.plane[g] + h * a.x_axis[1], coming.of[g]);
    } else {
#pragma unroll
      for (int i = 0; i < OWN / 2; i++) coming.of[g].own[i] = a.fill << 16 | a.fill;
#pragma unroll
      for (int i = 0; i < BESIDE; i++) coming.of[g].beside[i] = a.fill;
    }
  }
}

__device__ inline void take_row(const Coming &coming, Row &made) {
#pragma unroll
  for (int g = 0; g < GROUPS; g++)
#pragma unroll
    for (int i = 0; i < SPAN; i++) made.word[g][i] = coming.of[g].word(2 * i - LEFT);
}

// ---- the filter

struct Filter {
  uint4 taps[EIGHTS][TAPS_R][GROUPS][PIECES];
};

// Two neighbouring taps of a row, the first of which is number s, of a pair's even or odd output.
__device__ inline unsigned taps_at(const Args &a, const Half *row, bool exists, int s) {
  const bool low = exists && s >= 0 && s < TAPS_S, high = exists && s >= -1 && s < TAPS_S - 1;
  const unsigned first = low ? __ldg(row + s * a.w_axis[2]) : 0, second = high ? __ldg(row + (s + 1) * a.w_axis[2]) : 0;
  return first | second << 16;
}

// The channel of column `at` of eight e.
__device__ inline int channel_of(int e, int at) {
  return INNER ? at / 2 * LONG + 2 * e + at % 2 : 8 * e + at;
}

__device__ inline void load_filter(const Args &a, int first, Filter &filter) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int g = 0; g < GROUPS; g++) {
    const int slot = 4 * g + lane % 4;
#pragma unroll
    for (int e = 0; e < EIGHTS; e++) {
      const int channel = first + channel_of(e, lane / 4);
      const bool exists = slot < SLOTS && channel < a.results;
      const Half *plane =
          (const Half *)a.w + channel * a.w_result + slot / PLANES * a.w_channel + slot % PLANES * a.w_axis[0];
#pragma unroll
      for (int r = 0; r < TAPS_R; r++)
#pragma unroll
        for (int p = 0; p < PIECES; p++) {
          const Half *row = plane + r * a.w_axis[1];
          filter.taps[e][r][g][p] = {taps_at(a, row, exists, 4 * p), taps_at(a, row, exists, 4 * p - 1),
                                     taps_at(a, row, exists, 4 * p + 2), taps_at(a, row, exists, 4 * p + 1)};
        }
    }
  }
}

// ---- outputs

__device__ inline float value_of(Half bits) {
  return TYPE_X == F16 ? from_f16(bits) : from_bf16(bits);
}

// An output once more, of the taps that it has alone.
__device__ inline float sum_again(const Args &a, const Walk &walk, int channel, int row, int column) {
  float sum = 0;
#pragma unroll 1
  for (int i = 0; i < SLOTS * TAPS_R * TAPS_S; i++) {
    const int s = i % TAPS_S, r = i / TAPS_S % TAPS_R, t = i / (TAPS_S * TAPS_R) % PLANES,
              c = i / (TAPS_S * TAPS_R * PLANES);
    const int d = place_of(a, 0, walk.plane * a.stride + t * a.dilation - a.pad[0]);
    const int h = place_of(a, 1, row + r - a.pad[1]), w = place_of(a, 2, column + s - PAD);
    Half bits = a.fill;
    if (d >= 0 && h >= 0 && w >= 0)
      bits = ((const Half *)a.x)[walk.image * a.x_image + c * a.x_channel + d * a.x_axis[0] + h * a.x_axis[1] + w];
    sum += value_of(bits) * value_of(((const Half *)a.w)[channel * a.w_result + c * a.w_channel + t * a.w_axis[0] +
                                                         r * a.w_axis[1] + s * a.w_axis[2]]);
  }
  return sum;
}

// A lane's outputs of a row are in runs of LONG neighbours: of every eight channels two with eight columns each, or of
// eight columns the lane's channels.
struct Runs {
  i64 y, residual;  // where the first begins in row 0
  int channel, column;
};

__device__ inline Runs runs_of(const Args &a, const Walk &walk, int first) {
  const int lane = threadIdx.x % 32, channel = first + (INNER ? lane % 4 * LONG : lane / 4);
  const int column = walk.column + eight_of(INNER ? lane / 4 : lane % 4 * 2);
  return {walk.image * a.y_image + channel * a.y_channel + walk.plane * a.y_axis[0] + column * a.y_axis[2],
          walk.image * a.r_image + channel * a.r_channel + walk.plane * a.r_axis[0] + column * a.r_axis[2], channel,
          column};
}

struct Run {
  i64 residual;
  int channel, row, column, count;  // count: of its outputs that exist
  Half *to;
};

__device__ inline Run run_at(const Args &a, const Runs &runs, int row, int i) {
  const int e = INNER ? 0 : i / 2, columns = INNER ? i : i % 2 * (STRIP / 2);
  const int channel = runs.channel + 8 * e, column = runs.column + columns;
  const int exist = INNER ? column < a.out[2] ? a.results - channel : 0 : channel < a.results ? a.out[2] - column : 0;
  return {
      runs.residual + row * a.r_axis[1] + e * (8 * a.r_channel) + columns * a.r_axis[2],
      channel,
      row,
      column,
      exist,
      (Half *)a.y + (runs.y + row * a.y_axis[1] + e * (8 * a.y_channel) + (INNER ? columns * a.y_axis[2] : columns))};
}

__device__ inline float finished_at(const Args &a, const Run &run, const Linear<float> &l, float sum, int i) {
  return finished(a, l, sum, i < run.count ? run.residual + i * (INNER ? a.r_channel : a.r_axis[2]) : 0);
}

// Units of 16 bytes as one instruction, which the compiler does not always make of them.
__device__ inline void send_unit(Half *to, const unsigned *word) {
  if constexpr (UNIT_Y == 8)
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(word[0]), "r"(word[1]), "r"(word[2]),
                 "r"(word[3])
                 : "memory");
  else if constexpr (UNIT_Y == 4)
    *(uint2 *)to = {word[0], word[1]};
  else
    *(unsigned *)to = word[0];
}

__device__ inline void send(const Args &a, const Run &run, const unsigned (&word)[LONG / 2]) {
  if (UNIT_Y > 1 && a.y_aligned && run.count >= LONG) {
#pragma unroll
    for (int i = 0; i < LONG; i += UNIT_Y) send_unit(run.to + i, word + i / 2);
  } else {
#pragma unroll
    for (int i = 0; i < LONG; i++)
      if (i < run.count) run.to[i] = word[i / 2] >> i % 2 * 16;
  }
}

// Recomputes outputs that are NaN from their own taps.
__device__ inline void mend(const Args &a, const Walk &walk, const Run &run) {
#pragma unroll 1
  for (int i = 0; i < min(run.count, LONG); i++) {
    const int channel = run.channel + (INNER ? i : 0), column = run.column + (INNER ? 0 : i);
    const Half bits = ((volatile Half *)run.to)[i];
    if ((bits & 0x7fff) <= (TYPE_Y == F16 ? 0x7c00 : 0x7f80)) continue;
    const float sum = sum_again(a, walk, channel, run.row, column);
    run.to[i] = pack({finished_at(a, run, linear(a, channel), sum, i), 0});
  }
}

// Of as many eights of channels as a run's outputs are of.
constexpr int AT_ONCE = INNER ? EIGHTS : 1;
typedef float Sums[AT_ONCE][OWN / 2][4];

// Output i of a lane's run.
__device__ inline float sum_of(const Sums &sums, int run, int i) {
  return INNER ? sums[i / 2 % AT_ONCE][run / 4 * 2 % 4 + run % 2][run / 2 % 2 * 2 + i % 2]
               : sums[0][i / 2][i % 2 * 2 + run % 2];
}

// Whether one of them may not be finite.
__device__ inline bool finish_run(const Args &a, const Run &run, const Linear<float> (&l)[LINEARS], const Sums &sums,
                                  int number) {
  unsigned word[LONG / 2], seen = 0;
#pragma unroll
  for (int i = 0; i < LONG; i += 2) {
    const Linear<float> &low = l[INNER ? i : number / 2], &high = l[INNER ? i + 1 : number / 2];
    word[i / 2] = pack({finished_at(a, run, low, sum_of(sums, number, i), i),
                        finished_at(a, run, high, sum_of(sums, number, i + 1), i + 1)});
    seen = watch(seen, word[i / 2]);
  }
  if (run.count > 0) send(a, run, word);
  return seen & 0x7fff7fff;
}

// Adds the products of a slot's words, from a lane's first pair on, for eight channels.
__device__ inline void multiply(float (&sums)[OWN / 2][4], const unsigned *word, uint4 taps) {
#pragma unroll
  for (int i = 0; i < OWN / 2; i++) {
    const unsigned *from = word + (INNER ? i / 2 * 2 : i);
    if (INNER)
      Mma<KIND>::whole(sums[i], {from[0], from[1], from[1], from[2]}, i % 2 ? taps.y : taps.x, i % 2 ? taps.w : taps.z);
    else
      Mma<KIND>::whole(sums[i], taps, from[0], from[1]);
  }
}

__device__ inline void add_row(const Filter &filter, const Row (&ring)[TAPS_R], int first, int e,
                               float (&sums)[OWN / 2][4]) {
#pragma unroll
  for (int r = 0; r < TAPS_R; r++)
#pragma unroll
    for (int g = 0; g < GROUPS; g++)
#pragma unroll
      for (int p = 0; p < PIECES; p++)
        multiply(sums, ring[(first + r) % TAPS_R].word[g] + 2 * p, filter.taps[e][r][g][p]);
}

// Row `row` of outputs, of the rows of x from ring[first] on.
__device__ inline void compute_row(const Args &a, const Walk &walk, const Runs &runs, const Filter &filter,
                                   const Linear<float> (&l)[LINEARS], const Row (&ring)[TAPS_R], int first, int row) {
  constexpr int EACH = RUNS * AT_ONCE / EIGHTS;
  unsigned odd = 0;
#pragma unroll
  for (int e = 0; e < EIGHTS; e += AT_ONCE) {
    Sums sums = {};
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++) add_row(filter, ring, first, e + i, sums[i]);
#pragma unroll
    for (int i = 0; i < EACH; i++)
      if (finish_run(a, run_at(a, runs, row, e * EACH + i), l, sums, e * EACH + i)) odd |= 1u << e * EACH + i;
  }
#pragma unroll 1
  for (; odd; odd &= odd - 1) mend(a, walk, run_at(a, runs, row, __ffs(odd) - 1));
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) falt_fewchannels_nchw(const __grid_constant__ Args a) {
  const int channel = blockIdx.x % a.result_tiles * 8 * EIGHTS, blocks = gridDim.x / a.result_tiles;
  Filter filter;
  Linear<float> l[LINEARS];
  Walk walk;
  await_stream();
  load_filter(a, channel, filter);
#pragma unroll
  for (int i = 0; i < LINEARS; i++) {
    const int lane = threadIdx.x % 32, mine = INNER ? lane % 4 * LONG + i : 8 * i + lane / 4;
    l[i] = linear(a, min(channel + mine, a.results - 1));
  }
  for (int item = blockIdx.x / a.result_tiles * WARPS + threadIdx.x / 32; walk_at(a, item, walk);
       item += blocks * WARPS) {
    const Source source = source_of(a, walk);
    const Runs runs = runs_of(a, walk, channel);
    Row ring[TAPS_R];
    Coming coming;
#pragma unroll
    for (int i = 0; i < TAPS_R; i++) {
      load_row(a, source, walk.begin - a.pad[1] + i, coming);
      if (i < TAPS_R - 1) take_row(coming, ring[i]);
    }
    for (int row = walk.begin; row < walk.end; row += TAPS_R)
#pragma unroll
      for (int i = 0; i < TAPS_R; i++) {
        if (row + i >= walk.end) break;
        take_row(coming, ring[(i + TAPS_R - 1) % TAPS_R]);
        load_row(a, source, row + i - a.pad[1] + TAPS_R, coming);
        compute_row(a, walk, runs, filter, l, ring, i, row + i);
      }
  }
}
