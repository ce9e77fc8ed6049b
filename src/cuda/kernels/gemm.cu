// Layers and their gradients of data as products of matrices on tensor cores, without the matrix of windows ever being in
// memory: result (pixel, channel) = sum over k of window[pixel][k] * filter[channel][k], where k = (tap, channel in)
// numbers the elements of a window. A block owns BM pixels x BN channels and walks along k in steps of ROW bytes; copies
// of the next steps are under way while one is multiplied. (Implicit products: Chetlur et al., "cuDNN: Efficient
// primitives for deep learning", 2014.)
//
// A thread copies the same piece of each step for several pixels. A table says, for each piece of the depth, how far it
// lies from a pixel's first position and which taps must exist there; a pixel has a bit for each tap of each axis that
// lies inside. So strides, dilations and gradients cost nothing in the loop, and channels need not fill a step.
//
// f32 that must stay f32: both factors are split into two tf32, and of the four products the three that count are summed,
// the smallest first (Ootomo and Yokota, "Recovering single precision accuracy from Tensor Cores", 2022). Tensor cores
// round sums towards zero, so that a long sum would drift: after every PROMOTE steps it is added to one in f32.
//
// Holes:
//   KIND                   of the products: mma.cuh's
//   SPLIT                  1: three products of tf32 halves
//   TYPE_X TYPE_Y TYPE_R   numbers of falt_type: the source's, the results', the residual's, -1: there is none
//   REAL                   type of the epilogue
//   BM BN WARPS_M WARPS_N  results of a block, and its warps along both
//   ROW STAGES             bytes of a step, steps in shared memory
//   UNIT                   bytes of a piece of the source
//   GATHER                 0: pieces lie side by side in memory; 1: one by one, an entry each; else so many an entry
//   FOLD                   1: entries are places; the source goes on beyond its ends
//   FILL                   1: what does not exist is a constant other than 0
//   PHASES                 0: all results are one phase
//   SHARES                 1: a block sums a share of the depth; gemm_sum.cu adds them
//   PROMOTE                steps between additions to the long sum; 0: none
//   PLANAR                 1: neighbouring pixels of the results lie side by side, else neighbouring channels
//   ACTIVATION             number of falt_activation
//   BLOCKS                 blocks that should fit on a multiprocessor
#include "args.h"
#include "async.cuh"
#include "boundary.cuh"
#include "convert.cuh"
#include "gemm.cuh"
#include "gemm_result.cuh"
#include "mma.cuh"

typedef Mma<KIND> Product;
typedef Product::Sum Sum;

constexpr int THREADS = 32 * WARPS_M * WARPS_N, WM = BM / WARPS_M, WN = BN / WARPS_N, MT = WM / 16, NT = WN / 8;
constexpr int CHUNKS = ROW / 16, STAGE = (BM + BN) * ROW;
constexpr bool ROUND = KIND == WORDS && !SPLIT;
constexpr int SIZE_X = size_of(TYPE_X), SIZE_Y = size_of(TYPE_Y);
static_assert(WM % 16 == 0 && WN % 16 == 0, "a warp loads whole matrices");

typedef Sum Acc[MT][NT][4];

// Where a 16-byte chunk of a row stands: rows that a warp loads together lie in different banks.
__device__ inline unsigned swizzled(int row, int chunk) {
  return row * ROW + ((chunk ^ (ROW == 128 ? row & 7 : row >> 1 & 3)) << 4);
}

// ---- the source

struct Pixel {
  const char *from;  // its first position; with FOLD its image
  unsigned bits;     // 0: there is no such pixel
  int at[FOLD ? 3 : 1];
};

__device__ inline unsigned bits_along(const Args &a, const Phase &p, int axis, int at, int first) {
  unsigned bits = 0;
#pragma unroll 1
  for (int i = 0; i < p.taps[axis]; i++) bits |= (unsigned)(at + i * p.delta[axis]) < (unsigned)a.in[axis] ? 1u << i : 0;
  return bits << first;
}

__device__ inline Pixel find_pixel(const Args &a, const Phase &p, const char *source, int m) {
  Pixel pixel = {source, 0};
  int q[4];
  if (m >= p.pixels) return pixel;
  locate(p, m, q);
  pixel.from = source + q[0] * a.a_image;
  pixel.bits = FALT_CUDA_GEMM_EXISTS;
  int first = 0;
#pragma unroll
  for (int axis = 0; axis < 3; axis++) {
    const int at = q[axis + 1] * a.step[axis] + (FOLD ? 0 : p.first[axis]);
    if constexpr (FOLD) {
      pixel.at[axis] = at;
    } else {
      pixel.from += at * a.a_axis[axis];
      pixel.bits |= bits_along(a, p, axis, at, first);
      first += p.taps[axis];
    }
  }
  return pixel;
}

#if FOLD
typedef falt_cuda_gemm_place Entry;
#else
typedef falt_cuda_gemm_entry Entry;
#endif

__device__ inline Entry entry_at(const Entry *table, int i) {
#if FOLD
  const int4 e = __ldg((const int4 *)table + i);
  return Entry{e.x, {e.y, e.z, e.w}};
#else
  const int2 e = __ldg((const int2 *)table + i);
  return Entry{e.x, (unsigned)e.y};
#endif
}

// Whether a piece of a pixel's window exists, and where. With FILL what does not is the constant.
__device__ inline bool find_piece(const Args &a, const Pixel &pixel, const Entry &e, const char *&from) {
  bool exists, beyond;
#if FOLD
  int at[3];
#pragma unroll
  for (int axis = 0; axis < 3; axis++)
    at[axis] = fold<int>(a.boundary[axis][0], a.boundary[axis][1], a.in[axis], pixel.at[axis] + e.at[axis]);
  const bool any = pixel.bits && e.channel >= 0;
  exists = any && (at[0] | at[1] | at[2]) >= 0, beyond = any && !exists;
  from = pixel.from + (at[0] * a.a_axis[0] + at[1] * a.a_axis[1] + at[2] * a.a_axis[2] + e.channel);
#else
  exists = (pixel.bits & e.bits) == e.bits, beyond = pixel.bits && (int)e.bits >= 0 && !exists;
  from = pixel.from + e.delta;
#endif
  if (FILL && beyond) from = (const char *)a.fill;
  return exists || (FILL && beyond);
}

// All pixels of a block, each found once and read by those who copy its pieces.
__device__ inline void find_pixels(const Args &a, const Phase &p, const char *source, int first, Pixel *pixels) {
  for (int i = threadIdx.x; i < BM; i += THREADS) pixels[i] = find_pixel(a, p, source, first + i);
  __syncthreads();
}

#if !GATHER
// Pieces that lie side by side: neighbouring threads take neighbouring pieces of a pixel.
struct Loader {
  static constexpr int UNITS = ROW / UNIT, STEP_ENTRIES = UNITS, STEP = THREADS / UNITS, PIXELS = (BM + STEP - 1) / STEP;
  Pixel pixel[PIXELS];
  const Entry *table;
  Entry next;
  unsigned to[STEP % 8 ? PIXELS : 1];  // bytes of a stage

  __device__ inline void start(const Args &a, const Pixel *pixels, const Entry *entries) {
    const int row = threadIdx.x / UNITS, piece = threadIdx.x % UNITS * UNIT;
    table = entries + threadIdx.x % UNITS;
    next = entry_at(table, 0);
#pragma unroll
    for (int i = 0; i < PIXELS; i++) {
      const int at = row + i * STEP;
      pixel[i] = at < BM ? pixels[at] : Pixel{pixels[0].from, 0};
      if (STEP % 8 || i == 0) to[STEP % 8 ? i : 0] = swizzled(at, piece / 16) + piece % 16;
    }
  }

  // The next step, into a stage. There is always another entry behind the last.
  __device__ inline void load(const Args &a, unsigned stage) {
    const Entry e = next;
    table += UNITS;
    next = entry_at(table, 0);
    if (a.a_aligned) {
#pragma unroll
      for (int i = 0; i < PIXELS; i++) {
        const char *from;
        const bool exists = find_piece(a, pixel[i], e, from);
        if (BM % STEP == 0 || (int)(threadIdx.x / UNITS) + i * STEP < BM)
          copy_async<UNIT>(stage + (STEP % 8 ? to[STEP % 8 ? i : 0] : to[0] + i * STEP * ROW), from, exists ? UNIT : 0);
      }
    } else {
#pragma unroll 1
      for (int k = 0; k < UNIT; k += SIZE_X)
#pragma unroll
        for (int i = 0; i < PIXELS; i++) {
          const char *from;
          const bool exists = find_piece(a, pixel[i], e, from);
          if (BM % STEP == 0 || (int)(threadIdx.x / UNITS) + i * STEP < BM)
            store_bits<SIZE_X>(stage + (STEP % 8 ? to[STEP % 8 ? i : 0] : to[0] + i * STEP * ROW) + k,
                               exists ? load_bits<SIZE_X>(from + k) : 0);
        }
    }
  }
  __device__ inline void store(unsigned) {}
};

#else
// Pieces that lie apart: neighbouring threads take neighbouring pixels, through registers.
struct Loader {
  static constexpr int PARTS = THREADS / BM, MINE = CHUNKS / PARTS, EACH = 16 / SIZE_X;  // chunks of a thread
  static constexpr int ENTRIES = EACH / GATHER, STEP_ENTRIES = CHUNKS * ENTRIES;         // of a chunk, of a step
  static_assert(THREADS % BM == 0 && BM % 32 == 0 && CHUNKS % PARTS == 0, "a warp takes a column of chunks");
  Pixel pixel;
  const Entry *table;
  unsigned element[MINE][EACH];

  __device__ inline void start(const Args &, const Pixel *pixels, const Entry *entries) {
    table = entries + threadIdx.x / BM * MINE * ENTRIES;
    pixel = pixels[threadIdx.x % BM];
  }

  __device__ inline void load(const Args &a, unsigned) {
#pragma unroll
    for (int i = 0; i < MINE * ENTRIES; i++) {
      const Entry e = entry_at(table, i);
      const char *from;
      const bool exists = find_piece(a, pixel, e, from);
      const i64 stride = FILL && from == (const char *)a.fill ? 0 : a.a_channel;
#pragma unroll
      for (int k = 0; k < GATHER; k++) {
        element[i / ENTRIES][i % ENTRIES * GATHER + k] = exists ? (unsigned)load_bits<SIZE_X>(from) : 0;
        from += stride;
      }
    }
    table += STEP_ENTRIES;
  }

  // What was loaded, into a stage.
  __device__ inline void store(unsigned stage) {
#pragma unroll
    for (int i = 0; i < MINE; i++) {
      unsigned word[4] = {};
#pragma unroll
      for (int k = 0; k < EACH; k++) word[k * SIZE_X / 4] |= element[i][k] << 8 * (k * SIZE_X % 4);
      store_vector(stage + swizzled(threadIdx.x % BM, threadIdx.x / BM * MINE + i), word);
    }
  }
};
#endif

// ---- the filter

struct Filter {
  static constexpr int STEP = THREADS / CHUNKS, PIECES = (BN + STEP - 1) / STEP;
  const char *from;
  i64 pitch;
  unsigned to[STEP % 8 ? PIECES : 1];
  bool exists[PIECES];

  __device__ inline void start(const char *filter, i64 row_bytes, int channels) {
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
        copy_async<16>(stage + (STEP % 8 ? to[STEP % 8 ? i : 0] : to[0] + i * STEP * ROW), piece, exists[i] ? 16 : 0);
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
      a[i] = warp / WARPS_N * WM * ROW + swizzled(lane % 16, i * 2 + lane / 16);
      b[i] = (BM + warp % WARPS_N * WN) * ROW + swizzled(lane / 16 * 8 + lane % 8, i * 2 + lane / 8 % 2);
    }
  }
};

__device__ inline void multiply_slice(Acc acc, unsigned a_rows, unsigned b_rows) {
  uint4 a[MT], rest[MT];
#pragma unroll
  for (int i = 0; i < MT; i++) {
    a[i] = load_matrices(a_rows + i * 16 * ROW);
    if (ROUND) round_parts(a[i]);
    if (SPLIT) rest[i] = low_parts(a[i]);
  }
#pragma unroll
  for (int j = 0; j < NT; j += 2) {
    uint4 b = load_matrices(b_rows + j * 8 * ROW);
    if (ROUND) round_parts(b);
    multiply_pair<Product, MT, NT, SPLIT>(acc, a, rest, b, j);
  }
}

// All steps of the depth.
__device__ inline void multiply(const Args &a, Acc acc, unsigned shared, Loader &loader, Filter &filter, int steps) {
  Slices slices;
  slices.start();
#pragma unroll 1
  for (int i = 0; i < STAGES - 1; i++) {
    if (i < steps) {
      loader.load(a, shared + i * STAGE);
      filter.load(shared + i * STAGE);
      loader.store(shared + i * STAGE);
    }
    end_batch();
  }
  Acc run = {};
  unsigned in = shared, out = shared + (STAGES - 1) * STAGE;
#pragma unroll 1
  for (int i = 0; i < steps; i++) {
    await_batches<STAGES - 2>();
    __syncthreads();
    const bool more = i + STAGES - 1 < steps;
    if (more) {
      loader.load(a, out);
      filter.load(out);
    }
    end_batch();
#pragma unroll
    for (int slice = 0; slice < ROW / 32; slice++)
      multiply_slice(PROMOTE ? run : acc, in + slices.a[slice], in + slices.b[slice]);
    if (more) loader.store(out);
    if (PROMOTE && ((i + 1) % (PROMOTE ? PROMOTE : 1) == 0 || i + 1 == steps)) add_sums<MT, NT>(acc, run);
    in = in == shared + (STAGES - 1) * STAGE ? shared : in + STAGE;
    out = out == shared + (STAGES - 1) * STAGE ? shared : out + STAGE;
  }
  await_batches<0>();
  __syncthreads();
}

// ---- results

constexpr int SLAB = PLANAR && MT % 2 == 0 ? 32 : 16, PITCH = PLANAR ? WN + 1 : WN + 16 / (int)sizeof(REAL);
constexpr int MOST = 16 / SIZE_Y, VECTOR = MOST < WN ? MOST : WN;  // results of a store

// A warp's part of shared memory: some rows of its sums, and where its pixels go.
struct alignas(16) Desk {
  REAL slab[SLAB * PITCH];
  Result result[WM];
};

// Rows [i*16, i*16 + SLAB) of the warp's sums, side by side.
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
  for (int k = 0; k < VECTOR; k++) l[k] = linear(a, count > 0 ? group * a.channels + channel + mine + (k < count ? k : 0) : 0);
#pragma unroll
  for (int i = 0; i < MT; i++) {
    put_slab(desk, acc, i);
    __syncwarp();
#pragma unroll 2
    for (int row = lane / LANES; row < 16; row += ROWS) {
      const Result to = desk.result[i * 16 + row];
      if (to.y < 0 || count <= 0) continue;
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
      if (to.y < 0) continue;
      store<REAL>(a.y, TYPE_Y, y_at + to.y + k * a.y_channel,
                  finished(a, linear(a, group * a.channels + channel + k), desk.slab[row * PITCH + k],
                           r_at + to.r + k * a.r_channel));
    }
    __syncwarp();
  }
}

// The sums of a share of the depth, as they are.
__device__ inline void store_share(const Args &a, const Phase &p, const Acc acc, i64 row, int pixel, int channel) {
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

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) falt_gemm(const __grid_constant__ Args a) {
  extern __shared__ uint4 memory[];
  const int group = blockIdx.z % a.groups, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#if PHASES
  __shared__ Phase p;
  if (threadIdx.x < sizeof p / 4) ((int *)&p)[threadIdx.x] = ((const int *)(a.phases + blockIdx.z / a.groups))[threadIdx.x];
  __syncthreads();
#else
  const Phase &p = a.phase;
#endif
  const int first = blockIdx.x / a.channel_tiles * BM, first_channel = blockIdx.x % a.channel_tiles * BN;
  if (first >= p.pixels) return;
  const i64 pitch = (i64)p.steps * ROW;
  const int begin = SHARES ? blockIdx.y * a.share_steps : 0, steps = SHARES ? min(p.steps - begin, a.share_steps) : p.steps;
  Acc acc = {};
  if (steps > 0) {
    Loader loader;
    Filter filter;
    Pixel *pixels = (Pixel *)memory;
    find_pixels(a, p, (const char *)a.a + group * a.a_group, first, pixels);
    loader.start(a, pixels, (const Entry *)a.table + (p.table + begin * Loader::STEP_ENTRIES));
    filter.start((const char *)a.b + p.b + ((i64)group * a.channels + first_channel) * pitch + (i64)begin * ROW, pitch,
                 a.channels - first_channel);
    __syncthreads();
    multiply(a, acc, shared_address(memory), loader, filter, steps);
  }
  const int pixel = first + warp / WARPS_N * WM, channel = first_channel + warp % WARPS_N * WN;
#if SHARES
  store_share(a, p, acc, ((i64)group * gridDim.y + blockIdx.y) * p.pixels, pixel, channel);
#else
  const i64 y_at = p.y + group * a.y_group + channel * a.y_channel, r_at = group * a.r_group + channel * a.r_channel;
  Desk &desk = ((Desk *)memory)[warp];
  for (int i = lane; i < WM; i += 32) desk.result[i] = find_result(a, p, pixel + i);
  __syncwarp();
  if (PLANAR)
    store_pixels(a, acc, desk, channel, y_at, r_at, group);
  else
    store_channels(a, acc, desk, channel, y_at, r_at, group);
#endif
}
