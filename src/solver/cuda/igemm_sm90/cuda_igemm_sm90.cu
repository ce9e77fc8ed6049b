// Dense layers, f16 and bf16, as implicit GEMM with wgmma and TMA (sm_90a), in a warp-specialized persistent kernel:
//
//   forward:          y[pixel][k]     = sum over taps, c of x[pixel + tap][c]  * w[k][tap][c]
//   backward data:    dx[pixel][c]    = sum over taps, k of dy[pixel - tap][k] * w[k][tap][c]
//   backward filter:  dw[k][tap][c]   = sum over pixels of  dy[pixel][k]       * x[pixel + tap][c]

// One producer warp loads by TMA in im2col mode: the pixels of a tap, 64 channels at a time, with zeros beyond the
// ends, into a ring of stages in shared memory. CONSUMERS warpgroups multiply the stages (wgmma) and keep the
// accumulators in registers. Outputs leave through shared memory by TMA while the first stages of the next tile fill.
// NCHW operands that a single tap reads are loaded as boxes of 64 pixels of 64 channels; the rows of the product are
// then the pixels of an image, padded to whole boxes. Each block loops over output tiles. The blocks of a cluster
// compute neighbouring rows of the same columns, and each loads a part of the operand that both need (multicast).
//
// Forward layers of one tap in groups are one product for each group: a tile's rows are pixels of one group, and
// boxes of plain tensors replace the im2col mode, so loads beyond a group's last pixel are zeros and stores are left
// out.
//
// Strided dgrad is computed by polyphase parts of the stride: the pixels of a part have the same taps, and no zero is
// multiplied. All blocks compute tiles of one part, then tiles of the next part at the same place while their operands
// are still in L2, and then move on. Outputs without a tap are zeros; the idle warps of the producer's warpgroup store
// them.
//
// Cluster split-K: if there are few tiles, the blocks of a cluster share one tile. Each sums a part of the depth and
// finishes a slice of the rows (cuda_igemm_sm90_splitk.cuh). Wgrad with more pixels than that is cut into `split_k`
// slices of the pixels, which cuda_igemm_sm90_sum.cu adds in order.

// Compile-time parameters:
//   OPERATION                 0 forward, 1 backward data, 2 backward filter
//   PAIR                      types of the operands, "f16.f16" or "bf16.bf16"
//   AXES                      of space, 1 to 3
//   TYPE_Y                    number of falt_type of the output
//   ACTIVATION                number of falt_activation
//   SCALED BIASED RESIDUAL    1: the epilogue has a scale, a bias, a residual
//   TRANSPOSED_B                    1: the columns of the filter are contiguous, not its depth
//   CONSUMERS                 warpgroups that multiply
//   WG_ROWS COLUMNS           rows of a warpgroup, columns of a tile. As the instruction takes 64 rows and a width that
//                             wgmma.cuh has, rows are 64 or 128 and columns such a width; SWAPPED: the other way round
//   SWAPPED                   channels are the instruction's rows, 64 for each warpgroup, and pixels its columns: for
//                             layers of few channels
//   PINGPONG                  1: each warpgroup has its own tile; one multiplies while another stores. 0: all share a
//                             tile and divide its pixels (SWAPPED: its channels)
//   STAGES                    of the ring
//   BUFFERS                   output buffers of each warpgroup, of 64 lines
//   CLUSTER                   blocks of a cluster, 1 or 2
//   RESIDENT                  steps whose filter slice stays in shared memory; 0: it is loaded for each tile
//   POLYPHASES                    polyphase parts of the stride that have tiles
//   ZEROS                     polyphase parts without taps, which have no tiles
//   CLUSTER_K                 cluster split-K: blocks that share the depth of a tile, 1 to 8
//   OVER                      1: the sums of slices reuse the memory of the ring after the last product
//   KEEPS                     1: wgrad writes split-K slices to the workspace
//   PLANAR                    NCHW output: pixels of one store; 0: NHWC output
//   BY_ROWS                   1: warps store outputs, 512 bytes of a pixel at a time; 0: TMA, 128 bytes of 64 pixels
//   WHOLE                     bytes of a pixel of the output if a tile holds all its channels and the next pixel
//                             follows: warps send 16 pixels in one copy; 0: by lines
//   BOXED                     1: source and output are NCHW with rows of whole 16 bytes, and the output is stored
//                             as boxes
//   SUMMED                    of the 64 channels of a step, how many are not zero in every step, by 16
//   LINES                     NCHW operands, 0 to 2: the source of 1x1 layers; in wgrad dy, and x of 1x1 layers
//   GROUPED                   1: groups of one tap, each with a filter of its own; their pixels are one axis

#include "cuda_igemm_sm90_args.h"
#include "epilogue.cuh"
#include "pairs.cuh"
#include "pipeline.cuh"
#include "ptx/barrier.cuh"
#include "ptx/copy.cuh"
#include "ptx/early.cuh"
#include "ptx/wgmma.cuh"
#include "words.cuh"

typedef long long i64;
typedef falt_cuda_igemm_sm90_args Args;
typedef falt_cuda_igemm_sm90_polyphase Polyphase;
struct Polyphases {
  Polyphase polyphase[POLYPHASES + ZEROS];
};

constexpr bool BY_FILTER = OPERATION == 2, SLICED = CLUSTER_K > 1 || (BY_FILTER && !KEEPS);
constexpr int SPAN = 64, LINE = 128;              // a step's summed elements, and their bytes
constexpr int BLOCK = 64 * LINE;                  // 64 lines
constexpr int JOINED = PINGPONG ? 1 : CONSUMERS;  // warpgroups of a tile
constexpr int ROWS = SWAPPED ? WG_ROWS : JOINED * WG_ROWS;
constexpr int BLOCKS = SWAPPED ? 1 : WG_ROWS / 64, WIDTH = SWAPPED ? WG_ROWS : COLUMNS;  // a warpgroup's sums
constexpr int A_BYTES = ROWS * LINE, B_BYTES = COLUMNS * LINE, STAGE = A_BYTES + (RESIDENT ? 0 : B_BYTES);
constexpr int OUT_SIZE = TYPE_Y == F32 ? 4 : 2, OUT_COLUMNS = LINE / OUT_SIZE;
constexpr int RING = RESIDENT * B_BYTES, OUT = RING + STAGES * STAGE;
constexpr int SLICE = ROWS / CLUSTER_K,
              PITCH = COLUMNS * 4;  // cluster split-K: rows that a block finishes, bytes of each
constexpr int PART_BYTES = ROWS * PITCH, STAGED_BYTES = PART_BYTES / CLUSTER_K * (CLUSTER_K - 1);
constexpr int OUT_BYTES = KEEPS ? 0 : SLICED ? PART_BYTES + STAGED_BYTES : CONSUMERS * BUFFERS * BLOCK;
constexpr int PARTS = OVER ? RING : OUT;  // where sums of slices begin
constexpr int BARRIERS = OVER && OUT_BYTES < STAGES * STAGE ? OUT : PARTS + OUT_BYTES;
constexpr int THREADS = 128 * (CONSUMERS + 1);
// Registers of a thread: the registers that a block of 3 or 4 warpgroups starts with suffice for all of them.
constexpr int OTHERS_HAVE = CONSUMERS == 3 ? 32 : ZEROS ? 40 : 24;
constexpr int CONSUMERS_HAVE = CONSUMERS == 3 ? 160 : ZEROS ? 232 : 240;
constexpr bool TRANSPOSED_PIXELS = BY_FILTER != (LINES > 0);  // lines in shared memory run along the depth
constexpr int GROUP = CLUSTER * CLUSTER_K;                    // blocks that share a tile or have adjacent tiles
constexpr unsigned short ALL = (1 << CLUSTER) - 1;

static_assert(!TRANSPOSED_B || COLUMNS % (64 * CLUSTER) == 0, "contiguous columns are loaded by 64");
static_assert(!BY_FILTER || TRANSPOSED_B != (LINES == 2), "channels are contiguous, or pixels");
static_assert(!KEEPS || !(RESIDENT || SWAPPED || PINGPONG), "of sums that are cut all fetch all");
static_assert(!SLICED || !(KEEPS || RESIDENT || SWAPPED || PINGPONG || CLUSTER > 1), "each fetches its own part");
static_assert(SLICED || !OVER, "other sums are not in shared memory");
static_assert(!PINGPONG || CONSUMERS == 2, "two take turns");
static_assert(!SWAPPED || (COLUMNS == 64 * JOINED && OUT_SIZE == 2), "64 channels of 16 bits are a line");
static_assert(!BY_ROWS || !(BY_FILTER || SWAPPED || PLANAR || RESIDUAL || SLICED), "pixels of channels as they are");
static_assert(!BY_ROWS || (COLUMNS == 256 && BUFFERS == 4), "four buffers are 512 bytes of a pixel");
static_assert(!WHOLE || !(BY_FILTER || SWAPPED || PLANAR || RESIDUAL || SLICED || BY_ROWS), "pixels as they are");
static_assert(WHOLE % 32 == 0 && WHOLE <= 2 * COLUMNS && WG_ROWS * WHOLE <= BUFFERS * BLOCK, "a warpgroup's results");
static_assert(!BOXED || (PLANAR && LINES == 1 && OUT_SIZE == 2 && !SLICED), "boxes like the source's");
static_assert(!GROUPED || (OPERATION == 0 && AXES == 1 && POLYPHASES == 1 && !ZEROS), "groups are of one tap");
static_assert(!GROUPED || !(SLICED || RESIDENT || LINES || PLANAR || BY_ROWS || WHOLE), "boxes in, boxes out");
static_assert(!GROUPED || !(SCALED || BIASED || RESIDUAL), "vectors and the residual know no groups");
static_assert(16 % (PLANAR ? PLANAR * OUT_SIZE : 1) == 0, "units of pixels are parts of 16 bytes");

// ---- where things are in shared memory

struct Shared {
  unsigned base;
  __device__ unsigned stage(int i) const { return base + RING + i * STAGE; }
  __device__ unsigned resident(int step) const { return base + step * B_BYTES; }
  __device__ unsigned out(int consumer, int i) const { return base + OUT + (consumer * BUFFERS + i % BUFFERS) * BLOCK; }
  __device__ unsigned part(int k_rank, int row) const { return base + PARTS + (k_rank * SLICE + row) * PITCH; }
  __device__ unsigned staged(int i, int row) const { return base + PARTS + PART_BYTES + (i * SLICE + row) * PITCH; }
  __device__ unsigned full(int i) const { return base + BARRIERS + 8 * i; }
  __device__ unsigned empty(int i) const { return base + BARRIERS + 8 * (STAGES + i); }
  __device__ unsigned settled() const { return base + BARRIERS + 8 * 2 * STAGES; }
  __device__ unsigned freed() const { return base + BARRIERS + 8 * (2 * STAGES + 1); }
  __device__ unsigned added(int consumer, int i) const {
    return base + BARRIERS + 8 * (2 * STAGES + 2 + consumer * BUFFERS + i % BUFFERS);
  }
};

// A place in the ring.
typedef Pipeline<STAGES> PipelineState;

// ---- tiles

struct Tile {
  int polyphase;                // in wgrad the split-K slice; GROUPED the group
  int row, column, begin, end;  // in elements; the steps of its sum
};

__device__ inline int steps_of(const Args &a, const Polyphase &p) {
  return p.axis[0].taps * p.axis[1].taps * p.axis[2].taps * a.span_blocks;
}

// `rank`: of the block in its cluster, here and below. k_rank selects the part of the depth; blocks that share a tile
// have the same rank modulo CLUSTER.
__device__ inline bool tile_at(const Args &a, const Polyphases &polyphases, long long work, int rank, Tile &tile) {
  const int k_rank = rank / CLUSTER;
  rank %= CLUSTER;
  if (work >= a.clusters_work) return false;
  if (BY_FILTER) {
    const int tiles = polyphases.polyphase[0].row_tiles / CLUSTER * a.column_tiles;
    const int split = (int)(work / tiles), one = (int)(work % tiles), part = split * CLUSTER_K + k_rank;
    tile.polyphase = split;
    tile.row = (one / a.column_tiles * CLUSTER + rank) * ROWS;
    tile.column = one % a.column_tiles * COLUMNS;
    tile.begin = (int)((long long)part * a.steps / (a.split_k * CLUSTER_K));
    tile.end = (int)((part + 1ll) * a.steps / (a.split_k * CLUSTER_K));
    return true;
  }
  int one = (int)work;
  tile.polyphase = 0;
  if (POLYPHASES > 1) {
    const int place = min(one / (POLYPHASES * a.place_tiles), a.places);
    one -= place * POLYPHASES * a.place_tiles;
    while (tile.polyphase + 1 < POLYPHASES) {
      const int all = polyphases.polyphase[tile.polyphase].row_tiles / CLUSTER * a.column_tiles;
      const int tiles = place < a.places ? a.place_tiles : all - place * a.place_tiles;
      if (one < tiles) break;
      one -= tiles;
      tile.polyphase++;
    }
    one += place * a.place_tiles;
  }
  if (GROUPED) {
    const int tiles = polyphases.polyphase[0].row_tiles / CLUSTER * a.column_tiles;
    tile.polyphase = one / tiles;
    one %= tiles;
  }
  tile.row = (one / a.column_tiles * CLUSTER + rank) * ROWS;
  tile.column = one % a.column_tiles * COLUMNS;
  const int steps = steps_of(a, polyphases.polyphase[POLYPHASES > 1 ? tile.polyphase : 0]);
  tile.begin = k_rank * steps / CLUSTER_K;
  tile.end = (k_rank + 1) * steps / CLUSTER_K;
  return true;
}

// ---- fetching

#include "cuda_igemm_sm90_producer.cuh"

// ---- multiplying

typedef float Sums[BLOCKS][WIDTH / 2];

__device__ inline void release(const Shared &s, int stage, int thread) {
  if (CLUSTER > 1) {
    if (thread < CLUSTER) barrier_arrive_at(s.empty(stage), thread);
  } else if (thread == 0) {
    barrier_arrive(s.empty(stage));
  }
}

// The operands of a warpgroup in a stage: pixels, and channels of the filter.
__device__ inline void multiply_step(Sums sums, unsigned pixels, unsigned channels, bool keep) {
  constexpr int pixels_next = TRANSPOSED_PIXELS ? 16 * LINE : 32, channels_next = TRANSPOSED_B ? 16 * LINE : 32;
#pragma unroll
  for (int k = 0; k < SUMMED / 16; k++)
#pragma unroll
    for (int i = 0; i < BLOCKS; i++) {
      const unsigned long long p = wgmma_operand(pixels + i * BLOCK + k * pixels_next, BLOCK);
      const unsigned long long c = wgmma_operand(channels + k * channels_next, BLOCK);
      if constexpr (SWAPPED)
        Wgmma<TRANSPOSED_B, TRANSPOSED_PIXELS>::add(sums[i], c, p, keep || k > 0);
      else
        Wgmma<TRANSPOSED_PIXELS, TRANSPOSED_B>::add(sums[i], p, c, keep || k > 0);
    }
}

// Ping-pong: two warpgroups multiply alternately. A stage's barrier distinguishes only successive rounds of the ring,
// so no warpgroup may wait for a tile whose predecessor is still being loaded. Named barriers: one for each warpgroup's
// outputs, then one for each order to multiply.
__device__ inline void pingpong_wait(int consumer) {
  if (PINGPONG) warps_sync(1 + CONSUMERS + consumer, 256);
}

__device__ inline void pingpong_pass(int consumer) {
  if (PINGPONG) warps_arrive(1 + CONSUMERS + (consumer ^ 1), 256);
}

__device__ inline void multiply_tile(const Shared &s, PipelineState &state, const Tile &tile, int consumer, Sums sums) {
  const int thread = threadIdx.x % 128;
  int before = -1;
  if (tile.begin == tile.end)
#pragma unroll
    for (int i = 0; i < BLOCKS; i++)
#pragma unroll
      for (int j = 0; j < WIDTH / 2; j++) sums[i][j] = 0;
  pingpong_wait(consumer);
  for (int step = tile.begin; step < tile.end; step++) {
    const unsigned stage = s.stage(state.stage);
    const unsigned filter = RESIDENT ? s.resident(step) : stage + A_BYTES;
    const int own = PINGPONG ? 0 : consumer;
    barrier_wait(s.full(state.stage), state.parity);
#pragma unroll
    for (int i = 0; i < BLOCKS; i++) wgmma_hold(sums[i]);
    wgmma_begin();
    multiply_step(sums, SWAPPED ? stage : stage + own * WG_ROWS * LINE, SWAPPED ? filter + own * BLOCK : filter,
                  step > tile.begin);
    wgmma_commit();
#pragma unroll
    for (int i = 0; i < BLOCKS; i++) wgmma_hold(sums[i]);
    if (before >= 0) {
      wgmma_wait<1>();
      release(s, before, thread);
    }
    before = state.stage;
    state.next();
  }
  pingpong_pass(consumer);
  wgmma_wait<0>();
#pragma unroll
  for (int i = 0; i < BLOCKS; i++) wgmma_hold(sums[i]);
  if (before >= 0) release(s, before, thread);
}

// ---- outputs

#include "cuda_igemm_sm90_output.cuh"
#include "cuda_igemm_sm90_splitk.cuh"

__device__ inline void consume(const Args &a, const Polyphases &polyphases, const Shared &s, int rank, int consumer) {
  PipelineState state;
  Tile tile;
  int sent = 0, number = 0;
  bool first = true;
  const int thread = threadIdx.x % 128, own = PINGPONG ? 0 : consumer;
  const float alpha = (float)a.epilogue.alpha, beta = (float)a.epilogue.beta;
  if (RESIDENT) barrier_wait(s.settled(), 0);
  if (consumer == 1) pingpong_pass(consumer);
  for (long long work = blockIdx.x / GROUP; tile_at(a, polyphases, work, rank, tile); work += gridDim.x / GROUP) {
    Sums sums;
    if (PINGPONG && number++ % CONSUMERS != consumer) {
      state.skip(tile.end - tile.begin);
      continue;
    }
    const Polyphase &p = polyphases.polyphase[POLYPHASES > 1 && !BY_FILTER ? tile.polyphase : 0];
    const int row = tile.row + (SWAPPED ? 0 : own * WG_ROWS), column = tile.column + (SWAPPED ? own * 64 : 0);
    const Sender sender = {a, p, s, consumer, thread, row, column, alpha, beta, sent};
    // The destinations of outputs are computed while the first copies are in flight.
    const Slice slice = SLICED ? slice_of(a, p, tile, rank) : Slice{};
    Pixel at = !KEEPS && !SLICED && !PLANAR && !BY_ROWS && !WHOLE ? first_pixel(p, tile, row, true) : Pixel{};
    settle(at);
    if (first) await_stream();
    first = false;
    if (!KEEPS && !SLICED) sender.begin();
    multiply_tile(s, state, tile, consumer, sums);
    if constexpr (KEEPS)
      keep_sums(a, tile, consumer, sums);
    else if constexpr (SLICED)
      slice_sums(a, p, s, tile, slice, rank, consumer, sums);
    else if constexpr (PLANAR && !BOXED)
      sender.lines<0>(sums);
    else if constexpr (BY_ROWS)
      sender.rows<0>(sums);
    else if constexpr (WHOLE > 0)
      sender.whole(sums);
    else
      sender.pieces<0>(sums, at);
  }
  if (!KEEPS && !SLICED && thread % (WHOLE ? 32 : 128) == 0) copy_out_wait();
}

// ---- the block

__device__ inline void prepare(const Args &a, const Polyphases &polyphases, const Shared &s) {
  if (threadIdx.x == 0) {
    ring_init<STAGES>(s, 1, JOINED * CLUSTER);
    barrier_init(s.settled(), 1);
    barrier_init(s.freed(), CLUSTER_K);
    for (int i = 0; i < CONSUMERS * BUFFERS; i++) barrier_init(s.added(0, 0) + 8 * i, 1);
    barrier_init_fence();
    if (CLUSTER_K > 1) barrier_expect(s.settled(), STAGED_BYTES);
  }
  const int polyphase = (int)threadIdx.x - 128 * CONSUMERS;
  if (polyphase == 0) copy_prefetch_map(&a.other);
  if (polyphase >= 0 && polyphase < POLYPHASES) {
    copy_prefetch_map(&polyphases.polyphase[polyphase].source);
    if ((!PLANAR || BOXED) && !SLICED && !KEEPS && !BY_ROWS && !WHOLE)
      copy_prefetch_map(&polyphases.polyphase[polyphase].out);
  }
  if (CLUSTER > 1)
    cluster_sync();
  else
    __syncthreads();
  if (CLUSTER_K > 1) cluster_arrive();
}

extern "C" __global__ void __cluster_dims__(GROUP, 1, 1) __launch_bounds__(THREADS, 1)
    falt_igemm_sm90(const __grid_constant__ Args a, const __grid_constant__ Polyphases polyphases) {
  extern __shared__ __align__(1024) char memory[];
  const Shared s = {shared_address(memory)};
  const int rank = GROUP > 1 ? cluster_rank() : 0, group = __shfl_sync(~0u, (int)threadIdx.x / 128, 0);
  prepare(a, polyphases, s);
  if (group == CONSUMERS) {
    if constexpr (CONSUMERS > 1) registers_less<OTHERS_HAVE>();
    if (threadIdx.x == 128 * CONSUMERS) produce(a, polyphases, s, rank);
    if (ZEROS && threadIdx.x >= 128 * CONSUMERS + 32) {
      await_stream();
      store_zeros(a, polyphases);
    }
  } else {
    if constexpr (CONSUMERS > 1) registers_more<CONSUMERS_HAVE>();
    consume(a, polyphases, s, rank, group);
  }
}
