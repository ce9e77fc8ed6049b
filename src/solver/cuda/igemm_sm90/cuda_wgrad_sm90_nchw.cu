// Wgrad of dense layers with 3x3 taps a plane, from NCHW operands, with wgmma (sm_90a):
//
//   dw[k][t][r][s][c] = sum over pixels (d, h, w) of dy[k][d][h][w] * x[c][d + t - pad][h + r - 1][w + s - 1]
//                     = sum over pixels (d, h, w) of dy[k][d][h][w + 1 - s] * x[c][d + t - pad][h + r - 1][w]

// The depth of the product, the pixels, is contiguous in both operands, as wgmma requires. Only the shift by s starts
// at pixels that a descriptor cannot address. So dy, the rows of the product, passes through registers, where the shift
// combines neighbouring pixels, and x stays in shared memory, where a descriptor can start at any row r. Each of three
// warpgroups has one s. It shifts 16 pixels of 64 channels of dy once and multiplies them with three rows of x. The
// accumulators stay in registers over all pixels of the block.
//
// In shared memory a group is eight pixels of 64 channels: 16 contiguous bytes of each channel, half the depth of one
// product. A row of pixels is GROUPS groups, padded with zeros. The rows of all images follow each other, with a row of
// zeros after each image that is the row below it and the row above the next. x is in a ring of rows. The first group
// is stored twice, as the neighbour of the last one. Threads copy: TMA would transfer every 16 bytes on its own.
//
// Blocks share the rows; cuda_igemm_sm90_sum.cu adds their sums in a fixed order.

// Compile-time parameters:
//   PAIR                      types of the operands, "f16.f16" or "bf16.bf16"
//   WIDTH                     pixels of a row
//   UNIT                      bytes of one copy of a thread: 16, 8 or 4; they divide rows and all strides
//   ROWS                      of pixels in a stage; if it and the groups of a row are odd, each row has one more group
//   STAGES                    of the ring, 5 or more

#include "async.cuh"
#include "cuda_wgrad_sm90_nchw_args.h"
#include "pipeline.cuh"
#include "ptx/barrier.cuh"
#include "ptx/copy.cuh"
#include "ptx/wgmma.cuh"
#include "ptx/wgmma_rows.cuh"

typedef falt_cuda_wgrad_sm90_nchw_args Args;
typedef long long i64;

constexpr int SPAN = 64, TAPS = 3;
constexpr int GROUP = SPAN * 16 + 16;  // 16 more: neighbouring groups of a channel are in different banks
constexpr int FILLED = (WIDTH + 7) / 8, GROUPS = FILLED + FILLED % 2 * (ROWS % 2), STAGE_GROUPS = ROWS * GROUPS,
              STAGE = STAGE_GROUPS * GROUP;
constexpr int RING = (STAGES * STAGE_GROUPS + 1) * GROUP;  // of x
constexpr int BARRIERS = (RING + STAGES * STAGE + 7) / 8 * 8;
constexpr int COPIERS = 128, WARPS = 4 * TAPS, THREADS = 32 * WARPS + COPIERS;
constexpr int AHEAD = STAGES > 5 ? 2 : 1;  // stages whose copies are in flight when the next one's start

struct Shared {
  unsigned base;
  __device__ unsigned x(int i) const { return base + i * STAGE; }
  __device__ unsigned y(int i) const { return base + RING + i * STAGE; }
  __device__ unsigned full(int i) const { return base + BARRIERS + 8 * i; }
  __device__ unsigned empty(int i) const { return base + BARRIERS + 8 * (STAGES + i); }
};

typedef Pipeline<STAGES> PipelineState;

// The work of a block: its channels and tap planes, and its stages of rows, `begin` to `end`.
struct Part {
  int row, column, plane, slice, begin, end;
};

__device__ inline Part part_of(const Args &a) {
  const int plane = blockIdx.x % a.taps_d, rest = blockIdx.x / a.taps_d;
  const int column = rest % a.column_tiles, row = rest / a.column_tiles % a.row_tiles;
  const int slice = rest / a.column_tiles / a.row_tiles;
  return {row * SPAN,
          column * SPAN,
          plane,
          slice,
          (int)((i64)a.stages * slice / a.split_k),
          (int)((i64)a.stages * (slice + 1) / a.split_k)};
}

// ---- copying

// Units of a channel in a stage, and threads that copy one channel's at once.
constexpr int SPLIT = 16 / UNIT, ROW_UNITS = GROUPS * SPLIT, UNITS = ROWS * ROW_UNITS;
constexpr int ACROSS = UNITS < COPIERS ? UNITS : COPIERS, DOWN = COPIERS / ACROSS;

// Of a row of pixels the first one's first channel; where it does not exist, some place to read nothing from.
struct Line {
  const unsigned short *at;
  bool exists;
};

__device__ inline Line line_of(const falt_cuda_planar_tensor &t, i64 image, int d, int h, int channel, bool exists) {
  const unsigned short *data = (const unsigned short *)t.data;
  return {exists ? data + image * t.image + d * t.plane + h * t.row + channel * t.channel : data, exists};
}

struct Lines {
  Line x, y;
};

__device__ inline Lines lines_of(const Args &a, const Part &part, int row) {
  const int period = a.height + 1, plane = row / period, image = plane / a.depth;
  const int h = row % period, d = plane % a.depth, deep = d + part.plane * a.dilation - a.pad;
  const bool exists = row >= 0 && h < a.height && image < a.images;
  return {line_of(a.x, image, deep, h, part.column, exists && deep >= 0 && deep < a.depth),
          line_of(a.y, image, d, h, part.row, exists)};
}

// A unit of all channels, from channel `first` on. `again`: where the ring's first group is once more, or 0.
__device__ inline void copy_units(unsigned to, unsigned again, const Line &line, int column, i64 channel, int first,
                                  int channels) {
  const unsigned short *from = line.at + (line.exists ? column + first * channel : 0);
#pragma unroll 4
  for (int c = first; c < SPAN; c += DOWN) {
    const bool exists = line.exists && column < WIDTH && c < channels;
    copy_async<UNIT, true>(to + c * 16, from, exists ? UNIT : 0);
    if (again) copy_async<UNIT, true>(again + c * 16, from, exists ? UNIT : 0);
    if (c + DOWN < channels && line.exists) from += DOWN * channel;
  }
}

__device__ inline void copy_stage(const Args &a, const Shared &s, const Part &part, int stage, int to) {
  const int thread = threadIdx.x % COPIERS, first = thread / ACROSS;
  if (first >= DOWN) return;
#pragma unroll 1
  for (int unit = thread % ACROSS; unit < UNITS; unit += ACROSS) {
    const int group = unit / SPLIT, place = group * GROUP + unit % SPLIT * UNIT;
    const int column = unit % ROW_UNITS * (UNIT / 2);
    const unsigned again = to == 0 && group == 0 ? s.x(STAGES) + place : 0;
    const Lines l = lines_of(a, part, stage * ROWS + unit / ROW_UNITS);
    copy_units(s.x(to) + place, again, l.x, column, a.x.channel, first, a.columns - part.column);
    copy_units(s.y(to) + place, 0, l.y, column, a.y.channel, first, a.rows - part.row);
  }
}

// The stages before the first and behind the last are neighbours only.
__device__ inline void produce(const Args &a, const Shared &s, const Part &part) {
  PipelineState state, done;
  for (int stage = part.begin - 1; stage <= part.end + AHEAD; stage++) {
    if (stage <= part.end) {
      barrier_wait(s.empty(state.stage), state.parity ^ 1);
      copy_stage(a, s, part, stage, state.stage);
      state.next();
    }
    end_batch();
    if (stage < part.begin - 1 + AHEAD) continue;
    await_batches<AHEAD>();
    copy_fence();
    barrier_arrive(s.full(done.stage));
    done.next();
  }
}

// ---- multiplying

typedef float Sums[TAPS][SPAN / 2];

// The pixels of dy for taps S: those of a group's words, each with the neighbour at its other side. Lane (g, t) has
// word t of row g. `inner` is the offset of that neighbour in a stage's first group, `edge` a valid offset for a
// neighbour beyond the row's end, which is masked.
struct Rows {
  unsigned matrices, inner, edge;
};

template <int S>
__device__ inline Rows rows_of() {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, t = lane % 4, line = (warp * 16 + lane / 4) * 16;
  const int next = t + 1 - S, beyond = next < 0 ? 12 - GROUP : GROUP;
  const bool within = next >= 0 && next < 4;
  return {(unsigned)(lane / 16 * GROUP + (warp * 16 + lane % 16) * 16), (unsigned)(line + (within ? next * 4 : beyond)),
          (unsigned)(line + (within ? next : t) * 4)};
}

// A word of group `group`, its two pixels 1 - S further on.
template <int S>
__device__ inline unsigned put_together(unsigned y, const Rows &rows, unsigned word, int group, int half) {
  const bool ends = S == 0 ? group % GROUPS == GROUPS - 1 : group % GROUPS == 0;
  unsigned other = load_word(y + group * GROUP + half * 128 + (ends ? rows.edge : rows.inner));
  if (ends && threadIdx.x % 4 == (S == 0 ? 3 : 0)) other = 0;
  return S == 0 ? __byte_perm(word, other, 0x5432) : __byte_perm(other, word, 0x5432);
}

template <int S>
__device__ inline void load_rows(unsigned y, const Rows &rows, int group, unsigned (&made)[4]) {
  load_matrices(made, y + group * GROUP + rows.matrices);
  if constexpr (S != 1)
#pragma unroll
    for (int i = 0; i < 4; i++) made[i] = put_together<S>(y, rows, made[i], group + i / 2, i % 2);
}

// The ring's groups around a stage, as operands.
struct Ring {
  unsigned long long stage[3];  // before, this, behind
};

__device__ inline unsigned long long operand_of(const Ring &ring, int group) {
  const int at = group < 0 ? 0 : group < STAGE_GROUPS ? 1 : 2;
  return ring.stage[at] + (group - (at - 1) * STAGE_GROUPS) * (GROUP / 16);
}

// Shifted rows alternate between two buffers: those of a product in flight stay unchanged. The last of an odd number is
// followed by the next stage's first.
__device__ constexpr int buffer_of(int group) {
  return STAGE_GROUPS % 4 == 2 && group == STAGE_GROUPS - 2 ? 2 : group / 2 % 2;
}

__device__ inline void hold_rows(unsigned (&made)[4]) {
#pragma unroll
  for (int i = 0; i < 4; i++) asm volatile("" : "+r"(made[i])::"memory");
}

template <int S>
__device__ inline void multiply_stage(Sums &sums, const Shared &s, const Rows &rows, const Ring &ring,
                                      unsigned (&made)[3][4], int stage, int before) {
#pragma unroll
  for (int group = 0; group < STAGE_GROUPS; group += 2) {
    unsigned(&now)[4] = made[buffer_of(group)];
    load_rows<S>(s.y(stage), rows, group, now);
#pragma unroll
    for (int r = 0; r < TAPS; r++) wgmma_hold(sums[r]);
    wgmma_begin();
#pragma unroll
    for (int r = 0; r < TAPS; r++) WgmmaRows<0>::add(sums[r], now, operand_of(ring, group + (r - 1) * GROUPS), 1);
    wgmma_commit();
#pragma unroll
    for (int r = 0; r < TAPS; r++) wgmma_hold(sums[r]);
    wgmma_wait<1>();
    hold_rows(made[buffer_of(group ? group - 2 : STAGE_GROUPS - 2)]);
    if (group == 0 && before >= 0 && threadIdx.x % 32 == 0) barrier_arrive(s.empty(before));
  }
}

// Stores the block's sums with contiguous channels of a tap.
__device__ inline void keep_sums(const Args &a, const Sums &sums, const Part &part, int tap_column) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, taps = a.taps_d * TAPS * TAPS;
#pragma unroll
  for (int half = 0; half < 2; half++) {
    const int row = part.row + warp * 16 + half * 8 + lane / 4;
    if (row >= a.rows) continue;
#pragma unroll
    for (int r = 0; r < TAPS; r++) {
      const int tap = (part.plane * TAPS + r) * TAPS + tap_column;
      float *to = a.sums + (((i64)part.slice * a.rows + row) * taps + tap) * a.tap_columns + part.column;
#pragma unroll
      for (int j = 0; j < SPAN / 8; j++)
        *(float2 *)(to + j * 8 + lane % 4 * 2) = make_float2(sums[r][4 * j + 2 * half], sums[r][4 * j + 2 * half + 1]);
    }
  }
}

template <int S>
__device__ inline void consume(const Args &a, const Shared &s, const Part &part) {
  const Rows rows = rows_of<S>();
  unsigned made[3][4];
  Sums sums;
  PipelineState behind;
  int at[4] = {-1, -1, 0, 1};  // stages: two before, before, this, behind
#pragma unroll
  for (int r = 0; r < TAPS; r++)
#pragma unroll
    for (int j = 0; j < SPAN / 2; j++) sums[r][j] = 0;
  for (int i = 0; i < 2; i++, behind.next()) barrier_wait(s.full(i), 0);
  for (int stage = part.begin; stage < part.end; stage++) {
    at[0] = at[1], at[1] = at[2], at[2] = at[3], at[3] = behind.stage;
    barrier_wait(s.full(behind.stage), behind.parity);
    behind.next();
    Ring ring;
#pragma unroll
    for (int i = 0; i < 3; i++) ring.stage[i] = wgmma_blocks(s.x(at[i + 1]), GROUP, 128);
    multiply_stage<S>(sums, s, rows, ring, made, at[2], at[0]);
  }
  wgmma_wait<0>();
#pragma unroll
  for (int r = 0; r < TAPS; r++) wgmma_hold(sums[r]);
  keep_sums(a, sums, part, S);
}

// ---- the block

// Redistributes the block's registers: few for the producer warps.
constexpr int COPYING = 56, MULTIPLYING = (128 * (TAPS + 1) - COPYING) / TAPS / 8 * 8;

extern "C" __global__ void __launch_bounds__(THREADS, 1) falt_wgrad_sm90_nchw(const __grid_constant__ Args a) {
  extern __shared__ __align__(128) char memory[];
  const Shared s = {shared_address(memory)};
  const int group = __shfl_sync(~0u, (int)threadIdx.x / 128, 0);
  const Part part = part_of(a);
  if (threadIdx.x == 0) ring_init<STAGES>(s, COPIERS, WARPS);
  __syncthreads();
  if (group == TAPS) {
    registers_less<COPYING>();
    produce(a, s, part);
    return;
  }
  registers_more<MULTIPLYING>();
  if (group == 0)
    consume<0>(a, s, part);
  else if (group == 1)
    consume<1>(a, s, part);
  else
    consume<2>(a, s, part);
}
