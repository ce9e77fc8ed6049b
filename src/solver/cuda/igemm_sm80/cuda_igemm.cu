// Fprop and dgrad as implicit GEMM on tensor cores: output (pixel, channel) = sum over k of window[pixel][k] *
// filter[channel][k], where k = (tap, input channel). The matrix of windows is never in memory. A block owns BM pixels
// x BN channels and loops over k in steps of ROW bytes, with a multistage pipeline of asynchronous copies. S. Chetlur
// et al., "cuDNN: Efficient primitives for deep learning", 2014.

// A thread copies the same piece of each step for several pixels. A table gives, for each piece of the depth, its
// distance from a pixel's first position and the taps that must be inside the source. A pixel has one bit for each tap
// of each axis that is inside. So strides, dilations and dgrad cost nothing in the loop, and channels need not fill a
// step.
//
// Spans serve channels that are not a multiple of 16 bytes, if pixels are evenly spaced. Pixels, or groups, with the
// same address offset modulo 16 bytes form one polyphase part, and the filter is packed with the same offset. So all
// copies are aligned words. The first words of a step contain channels of other pixels before its own, the last ones
// zeros behind; the packed filter has zeros there. The channels before are cleared after they arrive, since they may be
// NaN.
//
// 3xTF32 for exact f32: both operands are split into two tf32, and the three large ones of the four products are
// summed, the smallest first. H. Ootomo and R. Yokota, "Recovering single precision accuracy from Tensor Cores", 2022.
// Tensor cores round sums towards zero, so a long sum drifts: after every PROMOTE steps the accumulator is added to one
// in f32.

// Compile-time parameters:
//   KIND                   of the products: mma.cuh's
//   SPLIT                  1: three products of tf32 halves
//   WGMMA                  1: the same by wgmma; the filter is packed in two parts
//   TYPE_X TYPE_Y TYPE_R   numbers of falt_type: of the source, of the output; of the residual, -1: none
//   REAL                   type of the epilogue
//   BM BN WARPS_M WARPS_N  outputs of a block, and its warps along both
//   ROW STAGES             bytes of a step, steps in shared memory
//   UNIT                   bytes of a piece of the source
//   GATHER                 0: pieces are contiguous; 1: elements are gathered one by one; n: n elements an entry
//   FOLD FILL ONES SPANS   cuda_igemm_source.cuh's
//   GROUP_BYTES GROUP_ROWS 0, or bytes and columns of each group; a step is one tap of several groups
//   POLYPHASES                 0: all outputs are one polyphase part
//   SPLIT_K                 1: a block sums a split-K slice of the depth; cuda_igemm_sum.cu adds them
//   PROMOTE                steps between additions to the long sum; 0: none
//   PLANAR                 1: NCHW output, else NHWC
//   RAGGED                 1: and rows of the output are not a multiple of a vector
//   ACTIVATION             number of falt_activation
//   BLOCKS                 blocks that should fit on a multiprocessor

#include "args.h"
#include "async.cuh"
#include "convert.cuh"
#include "cuda_igemm.cuh"
#include "cuda_igemm_output.cuh"
#include "cuda_igemm_source.cuh"
#include "mma.cuh"
#include "ptx/early.cuh"
#if WGMMA
#include "ptx/wgmma_words.cuh"
#endif

typedef Mma<KIND> Product;
typedef Product::Sum Sum;

constexpr int THREADS = 32 * WARPS_M * WARPS_N, WM = BM / WARPS_M, WN = BN / WARPS_N, MT = WM / 16, NT = WN / 8;
constexpr int CHUNKS = ROW / 16, FILTERS = WGMMA ? 2 : 1, STAGE = (BM + FILTERS * BN) * ROW;
constexpr bool ROUND = KIND == WORDS && !SPLIT;
constexpr int SIZE_X = size_of(TYPE_X), SIZE_Y = size_of(TYPE_Y);
static_assert(WM % 16 == 0 && WN % 16 == 0, "a warp loads whole matrices");
static_assert(!WGMMA || (SPLIT && PROMOTE == 1 && WM == 16 && WARPS_N == 1 && ROW == 128), "a warpgroup has 64 rows");

typedef Sum Acc[MT][NT][4];

// The swizzled position of a 16-byte chunk of a row: rows that a warp loads together are in different banks.
__device__ inline unsigned swizzled(int row, int chunk) {
  return row * ROW + ((chunk ^ (ROW == 128 ? row & 7 : row >> 1 & 3)) << 4);
}

// ---- the source

#include "cuda_igemm_loader.cuh"

// ---- the filter

struct Filter {
  static constexpr int STEP = THREADS / CHUNKS, PIECES = (BN + STEP - 1) / STEP;
  const char *from;
  i64 pitch;
  unsigned to[STEP % 8 ? PIECES : 1];
  bool exists[PIECES];
  i64 low;  // from a piece to its low part

  __device__ inline void start(const char *filter, i64 row_bytes, int channels, i64 to_low) {
    low = to_low;
    const int row = threadIdx.x / CHUNKS, chunk = threadIdx.x % CHUNKS;
    pitch = STEP * row_bytes;
    from = filter + (row * row_bytes + chunk * 16);
#pragma unroll
    for (int i = 0; i < PIECES; i++) {
      exists[i] = row + i * STEP < channels;
      if (STEP % 8 || i == 0) to[STEP % 8 ? i : 0] = BM * ROW + swizzled(row + i * STEP, chunk);
    }
  }

  __device__ inline void load(unsigned stage) {
    const char *piece = from;
#pragma unroll
    for (int i = 0; i < PIECES; i++) {
      if (BN % STEP == 0 || (int)(threadIdx.x / CHUNKS) + i * STEP < BN)
#pragma unroll
        for (int part = 0; part < FILTERS; part++)
          copy_async<16>(stage + (STEP % 8 ? to[STEP % 8 ? i : 0] : to[0] + i * STEP * ROW) + part * BN * ROW,
                         piece + part * low, exists[i] ? 16 : 0);
      piece += pitch;
    }
    from += ROW;
  }
};

// ---- products

// Where a lane's matrices begin in a stage, for each slice of 32 bytes of the depth.
struct Slices {
  unsigned a[ROW / 32], b[ROW / 32];

  __device__ inline void start() {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
    for (int i = 0; i < ROW / 32; i++) {
      const bool wide = SIZE_X == 8;
      const unsigned place = swizzled(lane / 4, i * 2 + lane / 2 % 2) + lane % 2 * 8;
      a[i] = warp / WARPS_N * WM * ROW + (wide ? place : swizzled(lane % 16, i * 2 + lane / 16));
      b[i] =
          (BM + warp % WARPS_N * WN) * ROW + (wide ? place : swizzled(lane / 16 * 8 + lane % 8, i * 2 + lane / 8 % 2));
    }
  }
};

__device__ inline uint4 load_tile(unsigned address) {
  return SIZE_X == 8 ? load_doubles(address, 8 * ROW) : load_matrices(address);
}

__device__ inline void load_rows(uint4 a[MT], uint4 rest[MT], unsigned a_rows) {
#pragma unroll
  for (int i = 0; i < MT; i++) {
    a[i] = load_tile(a_rows + i * 16 * ROW);
    if (ROUND) round_parts(a[i]);
    if (SPLIT) rest[i] = low_parts(a[i]);
  }
}

#if GROUP_BYTES
// Groups are on the diagonal: eight columns are multiplied with the channels of their own group, which are all of a
// slice, half of it, or none.
__device__ inline void multiply_own(Sum acc[4], uint4 a, unsigned b0, unsigned b1, bool first, bool second) {
  if (first && second)
    Product::whole(acc, a, b0, b1);
  else if (first)
    Product::half(acc, a, b0);
  else if (second)
    Product::half(acc, make_uint4(a.z, a.w, 0, 0), b1);
}

__device__ inline void multiply_slice(Acc acc, unsigned a_rows, unsigned b_rows, int slice) {
  uint4 a[MT], rest[MT];
  load_rows(a, rest, a_rows);
#pragma unroll
  for (int j = 0; j < NT; j++) {
    const int group = j * 8 / GROUP_ROWS;
    const bool first = slice * 32 / GROUP_BYTES == group, second = (slice * 32 + 16) / GROUP_BYTES == group;
    if (!first && !second) continue;
    uint4 b = load_tile(b_rows + j / 2 * 16 * ROW);
    if (ROUND) round_parts(b);
    const uint4 low = SPLIT ? low_parts(b) : b;
    const unsigned b0 = j % 2 ? b.z : b.x, b1 = j % 2 ? b.w : b.y, low0 = j % 2 ? low.z : low.x,
                   low1 = j % 2 ? low.w : low.y;
#pragma unroll
    for (int i = 0; i < MT; i++) {
      if (SPLIT) multiply_own(acc[i][j], rest[i], b0, b1, first, second);
      if (SPLIT) multiply_own(acc[i][j], a[i], low0, low1, first, second);
      multiply_own(acc[i][j], a[i], b0, b1, first, second);
    }
  }
}
#else
__device__ inline void multiply_slice(Acc acc, unsigned a_rows, unsigned b_rows, int) {
  uint4 a[MT], rest[MT];
  load_rows(a, rest, a_rows);
#pragma unroll
  for (int j = 0; j < NT; j += 2) {
    uint4 b = load_tile(b_rows + j * 8 * ROW);
    if (ROUND) round_parts(b);
    multiply_pair<Product, MT, NT, SPLIT>(acc, a, rest, b, j);
  }
}
#endif

// A step of the depth.
#if WGMMA
__device__ inline void multiply_step(Acc acc, unsigned stage, const Slices &slices) {
  uint4 high[ROW / 32], low[ROW / 32];
  const unsigned long long b = words_operand(stage + BM * ROW), b_low = words_operand(stage + (BM + BN) * ROW);
#pragma unroll
  for (int i = 0; i < ROW / 32; i++) {
    high[i] = load_matrices(stage + slices.a[i]);
    low[i] = low_parts(high[i]);
    high[i].x &= 0xffffe000, high[i].y &= 0xffffe000, high[i].z &= 0xffffe000, high[i].w &= 0xffffe000;
  }
  begin_words();
#pragma unroll
  for (int i = 0; i < ROW / 32; i++) {
    Words<BN>::add(acc[0], low[i], b + i * 2, i > 0);
    Words<BN>::add(acc[0], high[i], b_low + i * 2, 1);
    Words<BN>::add(acc[0], high[i], b + i * 2, 1);
  }
  end_words();
}
#else
__device__ inline void multiply_step(Acc acc, unsigned stage, const Slices &slices) {
#pragma unroll
  for (int i = 0; i < ROW / 32; i++) multiply_slice(acc, stage + slices.a[i], stage + slices.b[i], i);
}
#endif

// All steps of the depth.
__device__ inline void multiply(const Args &a, Acc acc, unsigned shared, Loader &loader, Filter &filter, int steps) {
  Slices slices;
  slices.start();
  // Data of the plan is loaded before the wait for preceding kernels.
  if (!a.b_known) await_stream();
#pragma unroll 1
  for (int i = 0; i < STAGES - 1; i++)
    if (i < steps) filter.load(shared + i * STAGE);
  if (a.b_known) await_stream();
#pragma unroll 1
  for (int i = 0; i < STAGES - 1; i++) {
    if (i < steps) {
      loader.load(a, shared + i * STAGE);
      loader.store(shared + i * STAGE);
    }
    end_batch();
  }
  Acc run = {};
  unsigned in = shared, out = shared + (STAGES - 1) * STAGE;
#pragma unroll 1
  for (int i = 0; i < steps; i++) {
    await_batches<STAGES - 2>();
    loader.clear(in);
#if WGMMA
    publish_copies();
#endif
    __syncthreads();
    const bool more = i + STAGES - 1 < steps;
    if (more) {
      loader.load(a, out);
      filter.load(out);
    }
    end_batch();
    multiply_step(PROMOTE ? run : acc, in, slices);
    if (more) loader.store(out);
    if (PROMOTE && ((i + 1) % (PROMOTE ? PROMOTE : 1) == 0 || i + 1 == steps)) add_sums<MT, NT>(acc, run);
    in = in == shared + (STAGES - 1) * STAGE ? shared : in + STAGE;
    out = out == shared + (STAGES - 1) * STAGE ? shared : out + STAGE;
  }
  await_batches<0>();
  __syncthreads();
}

// ---- outputs

constexpr int SLAB = PLANAR && MT % 2 == 0 ? 32 : 16, PITCH = PLANAR ? WN + 1 : WN + 16 / (int)sizeof(REAL);
constexpr int MOST = 16 / SIZE_Y, VECTOR = MOST < WN ? MOST : WN;  // outputs of a store

// A warp's part of shared memory: some rows of its sums, and where its pixels go.
struct alignas(16) Desk {
  REAL slab[SLAB * PITCH];
  Result result[WM];
};

// Rows [i*16, i*16 + SLAB) of the warp's sums, contiguous.
__device__ inline void put_slab(Desk &desk, const Acc acc, int i) {
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
  for (int k = 0; k < SLAB / 16; k++)
#pragma unroll
    for (int j = 0; j < NT; j++)
#pragma unroll
      for (int half = 0; half < 2; half++) {
        REAL *to = desk.slab + (k * 16 + g + half * 8) * PITCH + j * 8 + 2 * t;
        to[0] = (REAL)acc[i + k][j][half * 2], to[1] = (REAL)acc[i + k][j][half * 2 + 1];
      }
}

union Pack {
  uint4 bits;
  char y[16];
};

__device__ inline void store_one(char *to, const Pack &pack, int k) {
  if (SIZE_Y == 1) *to = pack.y[k];
  if (SIZE_Y == 2) *(unsigned short *)to = *(const unsigned short *)(pack.y + 2 * k);
  if (SIZE_Y == 4) *(unsigned *)to = *(const unsigned *)(pack.y + 4 * k);
  if (SIZE_Y == 8) *(unsigned long long *)to = *(const unsigned long long *)(pack.y + 8 * k);
}

// A lane takes whole vectors of channels of some pixels.
__device__ inline void store_channels(const Args &a, Acc acc, Desk &desk, int channel, i64 y_at, i64 r_at, i64 group) {
  constexpr int LANES = WN / VECTOR, ROWS = LANES < 32 ? 32 / LANES : 1;
  static_assert(LANES <= 32, "a row of a warp's results is at most 32 vectors");
  const int lane = threadIdx.x % 32, mine = lane % LANES * VECTOR, count = a.channels - (channel + mine);
  const bool whole = a.y_aligned && count >= VECTOR && VECTOR == MOST;
  Linear<REAL> l[VECTOR];
#pragma unroll
  for (int k = 0; k < VECTOR; k++)
    l[k] = linear(a, count > 0 ? group * a.channels + channel + mine + (k < count ? k : 0) : 0);
#pragma unroll
  for (int i = 0; i < MT; i++) {
    put_slab(desk, acc, i);
    __syncwarp();
#pragma unroll 2
    for (int row = lane / LANES; row < 16; row += ROWS) {
      const Result to = desk.result[i * 16 + row];
      if (to.y == NO_RESULT || count <= 0) continue;
      Pack pack;
#pragma unroll
      for (int k = 0; k < VECTOR; k++)
        store<REAL>(pack.y, TYPE_Y, k,
                    finished(a, l[k], desk.slab[row * PITCH + mine + k],
                             r_at + to.r + (mine + (k < count ? k : 0)) * a.r_channel));
      char *y = (char *)a.y + (y_at + to.y + mine * a.y_channel) * SIZE_Y;
      if (whole) {
        *(uint4 *)y = pack.bits;
      } else {
#pragma unroll
        for (int k = 0; k < VECTOR; k++)
          if (k < count) store_one(y + k * a.y_channel * SIZE_Y, pack, k);
      }
    }
    __syncwarp();
  }
}

// Neighbouring lanes take neighbouring channels, so a warp stores to few lines. All loads of some rows come before the
// first store, since the compiler moves no load before a store.
__device__ inline void store_ragged(const Args &a, Acc acc, Desk &desk, int channel, i64 y_at, i64 r_at, i64 group) {
  constexpr int LANES = WN < 32 ? WN : 32, ROWS = 32 / LANES, EACH = WN / LANES, AHEAD = 8 / EACH;
  static_assert(16 % (AHEAD * ROWS) == 0, "a slab has whole rounds");
  const int lane = threadIdx.x % 32, mine = lane % LANES, count = a.channels - channel;
  Linear<REAL> l[EACH];
#pragma unroll
  for (int k = 0; k < EACH; k++)
    l[k] = linear(a, count > mine + k * LANES ? group * a.channels + channel + mine + k * LANES : 0);
  y_at += mine * a.y_channel, r_at += mine * a.r_channel;
#pragma unroll
  for (int i = 0; i < MT; i++) {
    put_slab(desk, acc, i);
    __syncwarp();
#pragma unroll 1
    for (int first = lane / LANES; first < 16 && mine < count; first += AHEAD * ROWS) {
      Result to[AHEAD];
      REAL y[AHEAD][EACH];
#pragma unroll
      for (int m = 0; m < AHEAD; m++) {
        to[m] = desk.result[i * 16 + first + m * ROWS];
#pragma unroll
        for (int k = 0; k < EACH; k++) {
          const int n = mine + k * LANES < count ? k * LANES : 0;
          y[m][k] =
              finished(a, l[k], desk.slab[(first + m * ROWS) * PITCH + mine + n], r_at + to[m].r + n * a.r_channel);
        }
      }
#pragma unroll
      for (int m = 0; m < AHEAD; m++)
#pragma unroll
        for (int k = 0; k < EACH; k++)
          if (to[m].y != NO_RESULT && mine + k * LANES < count)
            store<REAL>(a.y, TYPE_Y, y_at + to[m].y + k * LANES * a.y_channel, y[m][k]);
    }
    __syncwarp();
  }
}

// A lane takes one pixel, all channels; neighbouring lanes neighbouring pixels.
__device__ inline void store_pixels(const Args &a, Acc acc, Desk &desk, int channel, i64 y_at, i64 r_at, i64 group) {
  const int lane = threadIdx.x % 32, row = lane % SLAB;
#pragma unroll
  for (int i = 0; i < MT; i += SLAB / 16) {
    put_slab(desk, acc, i);
    __syncwarp();
    const Result to = desk.result[i * 16 + row];
#pragma unroll 4
    for (int k = lane / SLAB; k < WN && channel + k < a.channels; k += 32 / SLAB) {
      if (to.y == NO_RESULT) continue;
      store<REAL>(a.y, TYPE_Y, y_at + to.y + k * a.y_channel,
                  finished(a, linear(a, group * a.channels + channel + k), desk.slab[row * PITCH + k],
                           r_at + to.r + k * a.r_channel));
    }
    __syncwarp();
  }
}

// The sums of a split-K slice of the depth, as they are.
__device__ inline void store_share(const Args &a, const Polyphase &p, const Acc acc, i64 row, int pixel, int channel) {
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
  for (int i = 0; i < MT; i++)
#pragma unroll
    for (int j = 0; j < NT; j++)
#pragma unroll
      for (int e = 0; e < 4; e++) {
        const int m = pixel + i * 16 + g + e / 2 * 8, n = channel + j * 8 + 2 * t + e % 2;
        if (m < p.pixels && n < a.channels) ((Sum *)a.partial)[(row + m) * a.channels + n] = acc[i][j][e];
      }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) falt_igemm(const __grid_constant__ Args a) {
  extern __shared__ uint4 unaligned[];
  // Swizzled blocks of rows begin at multiples of their size.
  char *memory = (char *)unaligned + (WGMMA ? -shared_address(unaligned) & 1023 : 0);
  const int warp = threadIdx.x / 32;
#if POLYPHASES
  __shared__ Polyphase p;
  if (threadIdx.x < sizeof p / 4) ((int *)&p)[threadIdx.x] = ((const int *)(a.polyphases + blockIdx.z))[threadIdx.x];
  __syncthreads();
#else
  const Polyphase &p = a.polyphase;
#endif
  // Groups are contiguous in memory, so neighbouring blocks compute neighbouring groups.
  const int column = blockIdx.x % (a.channel_tiles * a.groups), first = blockIdx.x / (a.channel_tiles * a.groups) * BM;
  const int index = column / a.channel_tiles, first_channel = column % a.channel_tiles * BN;
  const int group = p.group + index * a.group_apart;
  if (first >= p.pixels) return;
  const i64 pitch = (i64)p.steps * ROW;
  const int begin = SPLIT_K ? blockIdx.y * a.slice_steps : 0,
            steps = SPLIT_K ? min(p.steps - begin, a.slice_steps) : p.steps;
  Acc acc = {};
  if (steps > 0) {
    Loader loader;
    Filter filter;
    Pixel *pixels = (Pixel *)memory;
    loader.ask((const Entry *)a.source.table + (p.table + begin * Loader::STEP_ENTRIES));
    find_pixels(a, p, (const char *)a.source.data + group * a.source.group, first, pixels);
    loader.start(pixels);
    filter.start((const char *)a.b + p.b + ((i64)index * a.channels + first_channel) * pitch + (i64)begin * ROW, pitch,
                 a.channels - first_channel, a.b_low);
    __syncthreads();
    multiply(a, acc, shared_address(memory), loader, filter, steps);
  } else {
    await_stream();
  }
  const int pixel = first + warp / WARPS_N * WM, channel = first_channel + warp % WARPS_N * WN;
#if SPLIT_K
  store_share(a, p, acc, ((i64)group * gridDim.y + blockIdx.y) * p.pixels, pixel, channel);
#else
  const i64 y_at = p.y + group * a.y_group + channel * a.y_channel, r_at = group * a.r_group + channel * a.r_channel;
  Desk &desk = ((Desk *)memory)[warp];
  for (int i = threadIdx.x % 32; i < WM; i += 32) desk.result[i] = find_result(a, p, pixel + i);
  __syncwarp();
  if (PLANAR)
    store_pixels(a, acc, desk, channel, y_at, r_at, group);
  else if (RAGGED)
    store_ragged(a, acc, desk, channel, y_at, r_at, group);
  else
    store_channels(a, acc, desk, channel, y_at, r_at, group);
#endif
}
