// Wgrad of layers with few input channels by wgmma (sm_90a), f16 and bf16; pixels are the depth of the product:
//
//     dw[k][r][s][c] = sum over h, w of dy[h][w][k] * x[h * stride + r][w * stride + s][c]
//
// A block moves down an image. As in cuda_fewchannels_nhwc.cu, producer warps repack rows of x into a ring where a
// window row is a contiguous run.

// Rows of a product are channels of dy. Columns are one 16-byte piece of the runs of all tap rows: the eight columns of
// an output are 16 bytes of shared memory, the next output starts 16 bytes later, the next tap row a few rows later. So
// x is multiplied in place. The first rows of the ring are stored a second time after its last rows, which keeps the
// rows of every window consecutive. TMA loads rows of dy. A warpgroup transposes such a row on its way to registers and
// multiplies it with all taps. The depth of an instruction is 16 neighbouring outputs. The accumulators stay in
// registers over all rows of a block. Each warpgroup computes its own split-K slice; cuda_wgrad_sum.cu adds the slices
// in a fixed order.
//
// PAIRED pixels are one pixel whose run serves two outputs. Different warpgroups sum the even and the odd outputs; the
// taps of the odd ones are shifted by a stride.
//
// Outputs beyond the end of a row are zeros. They are multiplied by existing elements, so a non-finite element may
// reach taps that do not read it.

// Compile-time parameters: those of cuda_fewchannels_nhwc.cu that cuda_fewchannels_rows.cuh uses, and
//   PAIR            types of the operands, "f16.f16" or "bf16.bf16"
//   BEYOND          for the bias gradient the bits of 1: an additional channel of x
//   BIASED          1: there is a bias gradient
//   BLOCKS          rows of taps of an instruction, TAPS_R or more
//   WIDTH           output columns, or pairs of them, that are summed at a time: a multiple of 16
//   ROWS PARTS      output rows that are summed at a time; warpgroups for each, with different channels
//   STAGES          rows of dy in flight to a warpgroup
//   PRODUCERS       warpgroups that bring x

#include "cuda_fewchannels_rows.cuh"
#include "ptx/early.cuh"
#include "ptx/wgmma.cuh"
#include "ptx/wgmma_rows.cuh"

typedef falt_cuda_fewchannels_wgrad_args FilterArgs;

constexpr int CONSUMERS = ROWS * PARTS, THREADS = 128 * (CONSUMERS + PRODUCERS);
constexpr int SLICES = WIDTH / 16, SPAN = 64, LINE = WIDTH * 2 * SPAN;
constexpr int RING = CONSUMERS * STAGES * LINE, BARRIERS = RING + (RING_ROWS + MIRRORED) * ROW;
static_assert(WIDTH % 16 == 0 && PARTS % PAIRED == 0, "see above");
static_assert(BLOCKS >= TAPS_R && MIRRORED >= (BLOCKS - 1) * DILATE_R, "an instruction's rows lie one after the other");

struct Shared {
  unsigned base;
  Ring ring;
  __device__ unsigned line(int consumer, int stage) const { return base + (consumer * STAGES + stage) * LINE; }
  __device__ unsigned came(int consumer, int stage) const {
    return base + BARRIERS + 8 * (2 * BATCHES + consumer * STAGES + stage);
  }
};

// ---- the work of a block

// Of the channels and rows of taps.
struct Part {
  int result, tap_row;  // the first of both; output: of a block
};

__device__ inline Part part_of(const FilterArgs &a) {
  const int index = blockIdx.x % a.layer.result_tiles;
  return {index / a.tap_parts * (PARTS / PAIRED * SPAN), index % a.tap_parts * TAPS_R};
}

// A batch of the block's rows of outputs.
struct Cursor {
  Walk walk;
  int item, batch;
  bool exists;

  __device__ void start(const Args &a) {
    item = blockIdx.x / a.result_tiles, batch = 0;
    exists = walk_at(a, item, walk);
  }
  __device__ void next(const Args &a) {
    if (++batch < batches_of(walk)) return;
    item += gridDim.x / a.result_tiles, batch = 0;
    exists = walk_at(a, item, walk);
  }
};

// ---- a warpgroup's rows of dy

struct Consumer {
  int index, row, result, parity;  // which of a batch's rows; its first channel; which of PAIRED pixels
};

__device__ inline Consumer consumer_of(const FilterArgs &a, int index) {
  const int part = index / ROWS;
  return {index, index % ROWS, part_of(a).result + part / PAIRED * SPAN, part % PAIRED};
}

// Rows and columns that do not exist are zeros.
__device__ inline void send_for(const FilterArgs &a, const Shared &s, const Consumer &c, const Cursor &at, int stage) {
  const int corner[5] = {c.result, at.walk.column + c.parity, at.walk.begin + at.batch * ROWS + c.row, 0,
                         at.walk.image};
  barrier_expect(s.came(c.index, stage), LINE);
  copy_box(s.line(c.index, stage), &a.layer.map, s.came(c.index, stage), corner);
}

struct Factors {
  unsigned word[SLICES][4];
};

// Lane i gives the address of a pixel's eight channels; pixels are lines of 128 bytes, swizzled.
__device__ inline void load_factors(Factors &made, unsigned line) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
  const int pixel = lane / 16 * 8 + lane % 8, piece = (warp * 2 + lane / 8 % 2) ^ lane % 8;
#pragma unroll
  for (int i = 0; i < SLICES; i++) load_matrices_transposed(made.word[i], line + (i * 16 + pixel) * 128 + piece * 16);
}

// ---- products

typedef float Sums[PIECES][BLOCKS * 4];

__device__ inline void hold(Sums &sums) {
#pragma unroll
  for (int piece = 0; piece < PIECES; piece++) wgmma_hold(sums[piece]);
}

// Factors stay in their registers until they have been read.
__device__ inline void hold(const Factors &factors) {
#pragma unroll
  for (int i = 0; i < SLICES; i++)
#pragma unroll
    for (int j = 0; j < 4; j++) asm volatile("" ::"r"(factors.word[i][j]) : "memory");
}

// `first`: the row of the ring that the first tap row reads.
__device__ inline void multiply(Sums &sums, const Factors &factors, const Ring &ring, int first) {
  const unsigned long long runs = wgmma_blocks(ring.row(first), 128, DILATE_R * ROW);
  hold(sums);
  wgmma_begin();
#pragma unroll
  for (int i = 0; i < SLICES; i++)
#pragma unroll
    for (int piece = 0; piece < PIECES; piece++)
      WgmmaRows<1>::add(sums[piece], factors.word[i],
                        runs + (piece % SPREAD * PLANE + (piece / SPREAD + i * 16) * 16) / 16, 1);
  wgmma_commit();
  hold(sums);
  wgmma_wait<0>();
  hold(sums);
  hold(factors);
}

// ---- outputs

// Of a run's element the column of the sums, or -1.
__device__ inline int column_of(const FilterArgs &a, int r, int element, int parity) {
  const int pixel = element / PIXEL - parity * STRIDE_S, c = element % PIXEL, s = pixel / DILATE_S;
  if (r >= a.layer.tap_rows) return -1;
  if (BIASED && r == 0 && pixel == 0 && c == CHANNELS) return a.columns - 2;
  if (c >= CHANNELS || pixel < 0 || pixel % DILATE_S || s >= TAPS_S) return -1;
  return (r * TAPS_S + s) * CHANNELS + c;
}

__device__ inline void keep_sums(const FilterArgs &a, const Sums &sums, const Consumer &consumer) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, tap_row = part_of(a).tap_row;
  const int slice = (blockIdx.x / a.layer.result_tiles * ROWS + consumer.row) * PAIRED + consumer.parity;
#pragma unroll
  for (int half = 0; half < 2; half++) {
    const int result = consumer.result + warp * 16 + half * 8 + lane / 4;
    float *to = a.sums + ((i64)slice * a.layer.results + result) * a.columns;
    if (result >= a.layer.results) continue;
#pragma unroll
    for (int r = 0; r < TAPS_R; r++)
#pragma unroll
      for (int i = 0; i < PIECES * 2; i++) {
        const int column = column_of(a, tap_row + r, i / 2 * 8 + lane % 4 * 2 + i % 2, consumer.parity);
        if (column >= 0) to[column] = sums[i / 2][r * 4 + half * 2 + i % 2];
      }
  }
}

// ---- the work of a warpgroup

__device__ inline void consume(const FilterArgs &a, const Shared &s, const Consumer &c) {
  const Args &layer = a.layer;
  const bool first = threadIdx.x % 128 == 0;
  Sums sums = {};
  Factors factors;
  PipelineState state, newest;  // the oldest batch in use, the next batch
  Cursor now, later;            // the row being multiplied, the row of dy being loaded
  int stage = 0, parity = 0;
  later.start(layer);
  for (int i = 0; i < STAGES && later.exists; i++, later.next(layer))
    if (first) send_for(a, s, c, later, i);
  for (now.start(layer); now.exists; now.next(layer)) {
    for (int i = now.batch ? AHEAD : 0; i <= AHEAD; i++, newest.next())
      barrier_wait(s.ring.full(newest.stage), newest.parity);
    barrier_wait(s.came(c.index, stage), parity);
    load_factors(factors, s.line(c.index, stage));
    warps_sync(1 + c.index, 128);
    if (later.exists) {
      if (first) send_for(a, s, c, later, stage);
      later.next(layer);
    }
    if (++stage == STAGES) stage = 0, parity ^= 1;
    if (now.walk.begin + now.batch * ROWS + c.row < now.walk.end)
      multiply(sums, factors, s.ring, state.stage * BATCH + c.row * STRIDE_R);
    const int done = now.batch + 1 < batches_of(now.walk) ? 1 : 1 + AHEAD;
    for (int i = 0; i < done; i++, state.next())
      if (first) barrier_arrive(s.ring.empty(state.stage));
  }
  keep_sums(a, sums, c);
}

// ---- the block

// Redistributes the block's registers: few for the producer warps.
constexpr int ALL = 65536 / THREADS / 8 * 8 * (CONSUMERS + PRODUCERS);
constexpr int FETCHING = 56, LEFT = (ALL - PRODUCERS * FETCHING) / CONSUMERS / 8 * 8;
constexpr int MULTIPLYING = LEFT > 240 ? 240 : LEFT;

extern "C" __global__ void __launch_bounds__(THREADS, 1) falt_fewchannels_wgrad(const __grid_constant__ FilterArgs a) {
  extern __shared__ __align__(1024) char memory[];
  const unsigned base = shared_address(memory);
  const Shared s = {base, {base + RING, base + BARRIERS}};
  const int group = __shfl_sync(~0u, (int)threadIdx.x / 128, 0);
  if (threadIdx.x == 0) {
    ring_init<BATCHES>(s.ring, 128, CONSUMERS);
    for (int i = 0; i < CONSUMERS * STAGES; i++) barrier_init(s.came(0, i), 1);
    barrier_init_fence();
  }
  __syncthreads();
  await_stream();
  if (group >= CONSUMERS) {
    registers_less<FETCHING>();
    produce<PRODUCERS>(a.layer, s.ring, part_of(a).tap_row, group - CONSUMERS);
  } else {
    registers_more<MULTIPLYING>();
    consume(a, s, consumer_of(a, group));
  }
}
