// Dense layers of few channels, f16 and bf16, by 2.5D blocking with wgmma and TMA (sm_90a):
//
//     y[d][h][w][k] = sum over t, r, s, c of x[d + t][h + r][w + s][c] * w[k][t][r][s][c]
//
// A block keeps the filter in shared memory and loops over the planes of x for one tile of rows and columns. TMA loads
// one halo tile of each plane once for all taps, with zeros outside the image.

// Tap (r, s) multiplies the same halo tile from another first pixel. A wgmma descriptor of 64 pixels, eight rows of
// eight, can start at any pixel, because the swizzle depends on addresses only.
//
// A plane of x belongs to TAPS_D output planes, whose filters are the columns of one product: one shared memory read of
// 64 pixels feeds TAPS_D * CHANNELS columns. The accumulators of TAPS_D planes are in registers. After each plane of x
// the oldest is complete and the others move up. Columns are mapped to output channels so that the accumulators of a
// thread are neighbours in memory.
//
// Strided dgrad is the same layer: STEP_D x STEP_H x STEP_W neighbouring pixels of dx are one of its pixels, and their
// channels are its outputs. Where no tap exists the filter has a zero; an output that is not finite is recomputed
// without these zeros. These outputs, and those of few channels, are scattered (cuda_igemm_sm90_halo_output.cuh).

// Compile-time parameters:
//   PAIR                      types of the operands, "f16.f16" or "bf16.bf16"
//   TYPE_X TYPE_Y             numbers of falt_type of the operands and of the output
//   ACTIVATION                number of falt_activation
//   SCALED BIASED RESIDUAL    1: the epilogue has a scale, a bias, a residual
//   TAPS_D TAPS_H TAPS_W      of the layer, along planes, rows, columns
//   STEP_D STEP_H STEP_W      pixels of the output that are one pixel of the layer
//   SCATTERED                 1: outputs are stored one by one; 0: by runs of channels, or by boxes if PLANAR
//   OUTPUTS                   channels of the output
//   PLANAR                    1: NCHW output
//   PAIRED                    1: outputs 2i and 2i + 1 are one word
//   WHOLE                     1: all pixels of a step are in the image
//   PIXEL                     bytes of a pixel's input channels in one piece: 32, 64 or 128
//   PIECES                    pieces of a pixel, multiplied one after the other
//   CHANNELS                  output channels of a tile: 16, 32 or 64
//   COLUMNS                   of a product: TAPS_D * CHANNELS, rounded up to a width that the instruction has
//   CONSUMERS BLOCKS          warpgroups that multiply, and blocks of 64 pixels of each
//   BLOCKS_W                  of all these blocks, how many are neighbours along a row
//   STAGES                    halo tiles in flight

#include "cuda_igemm_sm90_halo_args.h"
#include "epilogue.cuh"
#include "pairs.cuh"
#include "pipeline.cuh"
#include "ptx/barrier.cuh"
#include "ptx/copy.cuh"
#include "ptx/early.cuh"
#include "ptx/wgmma.cuh"

typedef falt_cuda_igemm_sm90_halo_args Args;

constexpr int TILE_W = 8 * BLOCKS_W, TILE_H = 8 * CONSUMERS * BLOCKS / BLOCKS_W;
constexpr int WINDOW_W = TILE_W + TAPS_W - 1, WINDOW_H = TILE_H + TAPS_H - 1;
constexpr int WINDOW = WINDOW_W * WINDOW_H * PIXEL, STAGE = (WINDOW + 1023) / 1024 * 1024;
constexpr int TAPS = TAPS_H * TAPS_W;
constexpr int TAP = TAPS_D * CHANNELS * PIXEL;  // bytes of the filter for a tap of a plane
constexpr int FILTER = TAPS * TAP;              // of a piece
constexpr int RING = (PIECES * FILTER + 1023) / 1024 * 1024, BARRIERS = RING + STAGES * STAGE;
constexpr int PLACES = BARRIERS + 2 * 8 * STAGES;
constexpr bool BOXED = PLANAR && !SCATTERED;
constexpr int BOX = 2 * CHANNELS * 32;  // a warp's store of a plane: 16 pixels of two rows
constexpr int BOXES = (PLACES + 255) / 256 * 256;
constexpr int WORDS = PIXEL / 16;  // of a pixel
// A thread's neighbouring outputs.
constexpr int RUN = SCATTERED || BOXED ? 2 : CHANNELS < 32 ? CHANNELS / 4 : 8;
constexpr int THREADS = 128 * (CONSUMERS + 1);

static_assert(CONSUMERS * BLOCKS % BLOCKS_W == 0, "blocks fill a tile");
static_assert(!BOXED || (BLOCKS == 2 && BLOCKS_W % 2 == 0 && TYPE_Y != F32 && !RESIDUAL), "16 adjacent pixels");
static_assert(TAPS_D * CHANNELS <= COLUMNS, "all planes of taps are part of a product");

struct Shared {
  unsigned base;
  __device__ unsigned stage(int i) const { return base + RING + i * STAGE; }
  __device__ unsigned box(int warp) const { return base + BOXES + warp * BOX; }
  __device__ unsigned full(int i) const { return base + BARRIERS + 8 * i; }
  __device__ unsigned empty(int i) const { return base + BARRIERS + 8 * (STAGES + i); }
};

// ---- tiles

// Outputs of a tile's walk, planes `begin` to `end`.
struct Walk {
  int image, begin, end, row, column;
};

__device__ inline bool walk_at(const Args &a, int item, Walk &walk) {
  if (item >= a.items) return false;
  const int tile = item % (a.tiles[0] * a.tiles[1]), rest = item / (a.tiles[0] * a.tiles[1]);
  walk.column = tile % a.tiles[1] * TILE_W;
  walk.row = tile / a.tiles[1] * TILE_H;
  walk.begin = rest % a.walks * a.walk;
  walk.end = min(walk.begin + a.walk, a.out[0]);
  walk.image = rest / a.walks;
  return true;
}

// Planes of the source that a walk reads, including those outside the image.
__device__ inline int first_plane(const Args &a, const Walk &walk) {
  return walk.begin + a.corner[0];
}
__device__ inline int last_plane(const Args &a, const Walk &walk) {
  return walk.end - 1 + a.corner[0] + TAPS_D - 1;
}
__device__ inline bool exists(const Args &a, int plane) {
  return plane >= 0 && plane < a.in[0];
}

typedef Pipeline<STAGES> PipelineState;

// ---- fetching

__device__ inline void produce(const Args &a, const Shared &s) {
  PipelineState state;
  Walk walk;
  await_stream();
  for (int item = blockIdx.x / a.column_tiles; walk_at(a, item, walk); item += gridDim.x / a.column_tiles)
    for (int plane = first_plane(a, walk); plane <= last_plane(a, walk); plane++) {
      if (!exists(a, plane)) continue;
      for (int piece = 0; piece < PIECES; piece++) {
        const int at[5] = {piece * PIXEL / 2, walk.column + a.corner[2], walk.row + a.corner[1], plane, walk.image};
        barrier_wait(s.empty(state.stage), state.parity ^ 1);
        barrier_expect(s.full(state.stage), WINDOW);
        copy_box(s.stage(state.stage), &a.source, s.full(state.stage), at);
        state.next();
      }
    }
}

// The output channel of a plane's column 8 * j + 2 * t + e, which lane t of four holds: the runs of four lanes are
// contiguous.
__device__ inline int channel_of(int column) {
  const int j = column / 8, t = column / 2 % 4;
  return j / (RUN / 2) * (4 * RUN) + t * RUN + j % (RUN / 2) * 2 + column % 2;
}

// Which of a step's pixels an output is, and of which channel.
struct Spot {
  int channel, at[3];
};

__device__ inline Spot spot_of(int result) {
  constexpr int inner = PLANAR ? STEP_D * STEP_H * STEP_W : OUTPUTS;
  const int pixel = PLANAR ? result % inner : result / inner;
  return {PLANAR ? result / inner : result % inner,
          {pixel / (STEP_H * STEP_W), pixel / STEP_W % STEP_H, pixel % STEP_W}};
}

// The address in the filter for an output and three taps of the layer; false if there is no such tap.
__device__ inline bool find_tap(const Args &a, const Spot &spot, const int (&tap)[3], long long &at) {
  bool exists = true;
  at = spot.channel * a.w_result;
#pragma unroll
  for (int i = 0; i < 3; i++) {
    const int met = a.w_first[i] + spot.at[i] + tap[i] * a.w_pace[i];
    exists = exists && met >= 0 && met < a.w_taps[i];
    at += met * a.w_axis[i];
  }
  return exists;
}

// Eight summed channels of a column of the filter, from `channel` on.
__device__ inline uint4 filter_word(const Args &a, long long at, int channel) {
  const unsigned short *from = (const unsigned short *)a.filter + at;
  union {
    uint4 word;
    unsigned short half[8];
  } made = {};
  if (a.w_lines) {
    if (channel < a.channels) made.word = __ldg((const uint4 *)(from + channel));
    return made.word;
  }
#pragma unroll
  for (int i = 0; i < 8; i++)
    if (channel + i < a.channels) made.half[i] = __ldg(from + (channel + i) * a.w_channel);
  return made.word;
}

// The filter in the layout of the products: for each piece and tap of a plane, rows of PIXEL bytes with the depth
// channels of the columns above.
__device__ inline void fetch_filter(const Args &a, char *memory, int first) {
#pragma unroll 4
  for (int i = threadIdx.x; i < PIECES * FILTER / 16; i += 128 * CONSUMERS) {
    const int n = i % (TAP / PIXEL), word = i / (TAP / PIXEL) % WORDS, tap = i / (TAP / 16) % TAPS;
    const int piece = i / (FILTER / 16), place = piece * FILTER + tap * TAP + n * PIXEL + word * 16;
    const int result = first + channel_of(n % CHANNELS);
    const int taps[3] = {TAPS_D - 1 - n / CHANNELS, tap / TAPS_W, tap % TAPS_W};
    long long at;
    uint4 value = {};
    if (result < a.results && find_tap(a, spot_of(result), taps, at))
      value = filter_word(a, at, piece * PIXEL / 2 + 8 * word);
    *(uint4 *)(memory + (place ^ (place >> 3 & PIXEL - 16))) = value;
  }
  copy_fence();
  warps_sync(1, 128 * CONSUMERS);
}

// ---- multiplying

typedef float Sums[BLOCKS][COLUMNS / 2];

// The descriptor of a warpgroup's block of pixels, seen through a window's first tap.
__device__ inline unsigned long long pixels_of(unsigned window, int block) {
  const int first = block / BLOCKS_W * 8 * WINDOW_W + block % BLOCKS_W * 8;
  return wgmma_rows(window + first * PIXEL, WINDOW_W * PIXEL, PIXEL);
}

__device__ inline void multiply_window(Sums &sums, unsigned window, unsigned filter, int consumer) {
  const unsigned long long columns = wgmma_rows(filter, 8 * PIXEL, PIXEL);
  unsigned long long pixels[BLOCKS];
#pragma unroll
  for (int i = 0; i < BLOCKS; i++) {
    pixels[i] = pixels_of(window, consumer * BLOCKS + i);
    wgmma_hold(sums[i]);
  }
  wgmma_begin();
#pragma unroll
  for (int tap = 0; tap < TAPS; tap++)
#pragma unroll
    for (int k = 0; k < PIXEL; k += 32)
#pragma unroll
      for (int i = 0; i < BLOCKS; i++) {
        const int seen = (tap / TAPS_W * WINDOW_W + tap % TAPS_W) * PIXEL + k;
        Wgmma<0, 0>::add(sums[i], pixels[i] + seen / 16, columns + (tap * TAP + k) / 16, 1);
      }
  wgmma_commit();
#pragma unroll
  for (int i = 0; i < BLOCKS; i++) wgmma_hold(sums[i]);
  wgmma_wait<0>();
#pragma unroll
  for (int i = 0; i < BLOCKS; i++) wgmma_hold(sums[i]);
}

// The oldest plane leaves. Added to zero, as the compiler would do mere moves before the oldest is sent and then has
// too few registers.
__device__ inline void move_up(Sums &sums) {
#pragma unroll
  for (int i = 0; i < BLOCKS; i++) {
#pragma unroll
    for (int j = 0; j < (TAPS_D - 1) * CHANNELS / 2; j++) sums[i][j] = sums[i][j + CHANNELS / 2] + 0.0f;
#pragma unroll
    for (int j = (TAPS_D - 1) * CHANNELS / 2; j < COLUMNS / 2; j++) sums[i][j] = 0;
  }
}

// ---- the block

#include "cuda_igemm_sm90_halo_output.cuh"

__device__ inline void consume(const Args &a, const Shared &s, char *memory, int consumer) {
  PipelineState state;
  Walk walk;
  const int first = blockIdx.x % a.column_tiles * CHANNELS;
  Place *places = (Place *)(memory + PLACES);
  if (SCATTERED) list_places(a, places, first);
  if (!a.kept) await_stream();
  fetch_filter(a, memory, first);
  if (a.kept) await_stream();
  for (int item = blockIdx.x / a.column_tiles; walk_at(a, item, walk); item += gridDim.x / a.column_tiles) {
    Sums sums;
#pragma unroll
    for (int i = 0; i < BLOCKS; i++)
#pragma unroll
      for (int j = 0; j < COLUMNS / 2; j++) sums[i][j] = 0;
    for (int plane = first_plane(a, walk); plane <= last_plane(a, walk); plane++) {
      const int out = plane - a.corner[0] - (TAPS_D - 1);
      const bool here = exists(a, plane);
      move_up(sums);
#pragma unroll 1
      for (int piece = 0; here && piece < PIECES; piece++) {
        barrier_wait(s.full(state.stage), state.parity);
        multiply_window(sums, s.stage(state.stage), s.base + piece * FILTER, consumer);
        if (threadIdx.x % 128 == 0) barrier_arrive(s.empty(state.stage));
        state.next();
      }
      if (out < walk.begin) continue;
      if constexpr (SCATTERED)
        scatter(a, places, sums, walk, out, first, consumer);
      else if constexpr (BOXED)
        send_box(a, s, sums, walk, out, first, consumer);
      else
        send_runs(a, sums, walk, out, first, consumer);
    }
  }
  if (BOXED && threadIdx.x % 32 == 0) copy_out_wait();
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) falt_igemm_sm90_halo(const __grid_constant__ Args a) {
  extern __shared__ __align__(1024) char memory[];
  const Shared s = {shared_address(memory)};
  const int group = __shfl_sync(~0u, (int)threadIdx.x / 128, 0);
  if (threadIdx.x == 0) {
    ring_init<STAGES>(s, 1, CONSUMERS);
    barrier_init_fence();
  }
  __syncthreads();
  if (group == CONSUMERS) {
    if constexpr (CONSUMERS > 1) registers_less<CONSUMERS == 2 ? 24 : 32>();
    if (threadIdx.x == 128 * CONSUMERS) produce(a, s);
  } else {
    if constexpr (CONSUMERS > 1) registers_more<CONSUMERS == 2 ? 240 : 160>();
    consume(a, s, memory, group);
  }
}
