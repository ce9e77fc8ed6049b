// Fprop of layers with few input channels by wgmma (sm_90a), f16 and bf16:
//
//     y[h][w][k] = sum over r, s, c of x[h * stride + r][w * stride + s][c] * w[k][r][s][c]
//
// A block moves down an image. Producer warps repack rows of x into a ring in shared memory, where a window row is a
// contiguous run of elements that wgmma reads in place.

// The ring has PIXEL channels for each pixel: the channels of x, zeros, and the boundary's elements beyond the ends. An
// output reads a contiguous run of each row, and the runs of neighbouring outputs overlap. If runs start 16 bytes
// apart, eight of them form a wgmma core matrix for each 16 bytes of depth: nothing is copied for a tap. If runs start
// SPREAD * 16 bytes apart, their 16-byte pieces are distributed over SPREAD planes. If runs start 8 bytes apart
// (PAIRED), two neighbouring pixels become one with twice the channels, whose run is longer by a stride.
//
// Channels are the rows of a product and pixels are its columns. The filter stays in registers as the A operand, which
// halves the shared memory reads. A warpgroup computes a part of the channels of one of ROWS output rows.
//
// Unused taps of a run are zeros in the filter. If an output is NaN, it is recomputed from its own taps, because a
// non-finite element times zero is NaN.

// Compile-time parameters:
//   PAIR                      types of the operands, "f16.f16" or "bf16.bf16"
//   TYPE_X TYPE_Y             numbers of falt_type: of the operands, of the output
//   ACTIVATION                number of falt_activation
//   SCALED BIASED             1: channels have a scale, a bias
//   CHANNELS PIXEL BEYOND     of x; elements of a pixel in shared memory, 4 or 8; the padding: 0
//   TAPS_R TAPS_S STRIDE_R STRIDE_S DILATE_R DILATE_S
//   PAIRED                    neighbouring pixels that form one: 1 or 2
//   PIECES                    of a run, of 16 bytes: an even number; with an odd SPREAD even in each plane
//   WIDTH                     columns of a product: 16, 32, 56, 64, 112 or 128
//   ROWS PARTS                output rows computed at a time; parts of the channels
//   BATCHES MIRRORED          of rows of x in the ring, each what ROWS output rows advance by; rows stored twice: 0
//   PLANAR                    1: NCHW output, else NHWC
//   UNIT                      outputs of one store, if they are aligned: 1, 2, 4 or 8
//   BOXED                     1: TMA stores aligned NHWC outputs

#include "cuda_fewchannels_rows.cuh"
#include "epilogue.cuh"
#include "pairs.cuh"
#include "ptx/wgmma.cuh"
#include "ptx/wgmma_rows.cuh"
#include "words.cuh"

constexpr int CONSUMERS = ROWS * PARTS, THREADS = 128 * (CONSUMERS + 1);
constexpr int PRODUCTS = PIECES / 2, SPAN = 64 / PAIRED;  // of a row of taps; a warpgroup's channels
constexpr int LINES = PLANAR ? SPAN : TILE, LINE = PLANAR ? TILE : SPAN, PITCH = LINE * 2 + (BOXED ? 0 : 16);
constexpr int STAGE = LINES * PITCH, RING = CONSUMERS * STAGE, BARRIERS = RING + RING_ROWS * ROW;
static_assert(!BOXED || (!PLANAR && STAGE % 1024 == 0), "TMA swizzles by addresses");

struct Shared : Ring {
  unsigned stages;
  __device__ unsigned stage(int consumer) const { return stages + consumer * STAGE; }
};

// ---- the filter

// A product has a depth of two neighbouring pieces: of two planes, or of the same plane if the number of planes is odd.
__device__ constexpr int piece_of(int product, int half) {
  return SPREAD % 2 ? product / SPREAD * 2 * SPREAD + product % SPREAD + half * SPREAD : 2 * product + half;
}

struct Filter {
  unsigned word[TAPS_R][PRODUCTS][4];
};

// Channel and parity of a row of a warpgroup's product.
struct Result {
  int channel, pixel;
};

__device__ inline Result result_of(int lane, int warp, int half) {
  if (PAIRED == 1) return {warp * 16 + half * 8 + lane / 4, 0};
  return {warp * 8 + lane / 4, half};
}

// Two neighbouring elements of an output's run: channels c and c + 1 of pixel `pixel` of a piece, counted from the
// output's first pixel. `from`: the address of tap 0. Branch-free, so that no load waits for another: elements that do
// not exist are read from the start of the filter.
__device__ inline unsigned taps_at(const Args &a, bool exists, int from, int pixel, int c) {
  const unsigned short *w = (const unsigned short *)a.w;
  exists = exists && pixel >= 0 && pixel % DILATE_S == 0 && pixel <= (TAPS_S - 1) * DILATE_S;
  const int at = from + pixel / DILATE_S * a.w_axis[1];
  const bool low = exists && c < CHANNELS, high = exists && c + 1 < CHANNELS;
  const unsigned word[2] = {__ldg(w + (low ? at : 0)), __ldg(w + (high ? at + a.w_channel : 0))};
  return (low ? word[0] : 0) | (high ? word[1] << 16 : 0);
}

// The tap row is a run-time argument, so rows are loaded one by one: registers do not hold all addresses.
__device__ inline void load_filter(const Args &a, int first, Filter &filter) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, element = lane % 4 * 2, c = element % PIXEL;
#pragma unroll
  for (int r = 0; r < TAPS_R; r++) {
    if (r >= a.tap_rows) break;
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const Result result = result_of(lane, warp, half);
      const int from = (first + result.channel) * a.w_result + r * a.w_axis[0] + c * a.w_channel;
#pragma unroll
      for (int i = 0; i < 2 * PRODUCTS; i++) {
        const int pixel = piece_of(i / 2, i % 2) * PIXELS + element / PIXEL - result.pixel * STRIDE_S;
        filter.word[r][i / 2][i % 2 * 2 + half] = taps_at(a, first + result.channel < a.results, from, pixel, c);
      }
    }
  }
}

// ---- multiplying

typedef float Sums[WIDTH / 2];

// `first`: the row of the ring that the first tap row reads.
__device__ inline void multiply(Sums &sums, const Filter &filter, const Shared &s, int first) {
  constexpr int LEAD = SPREAD % 2 ? 16 : PLANE;
  wgmma_hold(sums);
  wgmma_begin();
#pragma unroll
  for (int r = 0; r < TAPS_R; r++) {
    const int row = first + r * DILATE_R;
    const unsigned long long runs = wgmma_blocks(s.row(row < RING_ROWS ? row : row - RING_ROWS), LEAD, 128);
#pragma unroll
    for (int p = 0; p < PRODUCTS; p++) {
      constexpr int per = SPREAD;
      const int piece = piece_of(p, 0), place = piece % per * PLANE + piece / per * 16;
      WgmmaRows<0>::add(sums, filter.word[r][p], runs + place / 16, r + p > 0);
    }
  }
  wgmma_commit();
  wgmma_hold(sums);
  wgmma_wait<0>();
  wgmma_hold(sums);
}

// ---- outputs

// Scale and offset of the epilogue.
struct Finish {
  float scale, offset;
};

__device__ inline Finish finish_of(const Args &a, int channel) {
  Finish made = {(float)a.epilogue.alpha, (float)a.epilogue.beta};
  if (channel >= a.results) return made;
  if (SCALED) made.scale *= __ldg((const float *)a.epilogue.scale + channel);
  if (BIASED) made.offset += __ldg((const float *)a.epilogue.bias + channel);
  return made;
}

__device__ inline float finished(const Args &a, const Finish &f, float sum) {
  falt_cuda_epilogue e = a.epilogue;
  e.activation = ACTIVATION;
  return activate<float>(e, sum * f.scale + f.offset);
}

// The staging address of a line's piece of 16 bytes; TMA expects swizzled lines of 64 or 128 bytes.
__device__ inline unsigned staged(unsigned stage, int line, int piece) {
  return stage + line * PITCH + (BOXED ? piece ^ (PAIRED == 1 ? line % 8 : line / 2 % 4) : piece) * 16;
}

// Four words of a lane, of blocks j and `next` of eight columns: of the same two channels in both, PAIRED of the same
// two pairs of pixels. They become parts of lines.
__device__ inline void stage_words(unsigned to, int j, int next, const unsigned (&word)[4], int warp, int lane) {
  const int row = lane % 8, second = lane / 8 % 2, block = lane / 16 ? next : j;
  if (PAIRED == 1) {
    if (PLANAR)
      store_matrices(to + (warp * 16 + second * 8 + row) * PITCH + block * 16, word);
    else
      store_matrices_transposed(staged(to, row, warp * 2 + second) + block * 8 * PITCH, word);
  } else if (PLANAR) {
    const unsigned line = to + (warp * 8 + lane / 4) * PITCH + lane % 4 * 8;
    asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(line + j * 32), "r"(word[0]), "r"(word[1]) : "memory");
    asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(line + next * 32), "r"(word[2]), "r"(word[3]) : "memory");
  } else {
    store_matrices_transposed(staged(to, row / 2 * 4 + second * 2 + row % 2, warp) + block * 16 * PITCH, word);
  }
}

// Whether an output of this lane may not be finite.
__device__ inline bool stage(const Args &a, unsigned to, const Sums &sums, const Finish (&f)[2]) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
  unsigned seen = 0;
#pragma unroll
  for (int j = 0; j < WIDTH / 8; j += 2) {
    const int next = j + 1 < WIDTH / 8 ? j + 1 : j;
    unsigned word[4];
#pragma unroll
    for (int b = 0; b < 2; b++) {
      const float *sum = sums + 4 * (b ? next : j);
      const float low[2] = {finished(a, f[0], sum[0]), finished(a, f[0], sum[1])};
      const float high[2] = {finished(a, f[1], sum[2]), finished(a, f[1], sum[3])};
      word[2 * b] = PAIRED == 1 ? pack({low[0], low[1]}) : pack({low[0], high[0]});
      word[2 * b + 1] = PAIRED == 1 ? pack({high[0], high[1]}) : pack({low[1], high[1]});
    }
#pragma unroll
    for (int i = 0; i < 4; i++) seen = watch(seen, word[i]);
    stage_words(to, j, next, word, warp, lane);
  }
  return seen & 0x7fff7fff;
}

// A warpgroup's outputs: a row's pixels from `column` on, channels from `channel` on.
struct Place {
  int image, row, column, channel;
};

__device__ inline i64 y_at(const Args &a, const Place &p, int channel, int column) {
  return p.image * a.y_image + p.row * a.y_axis[0] + (p.column + column) * a.y_axis[1] +
         (p.channel + channel) * a.y_channel;
}

// Stores EACH outputs at once.
template <int EACH>
__device__ inline void send_units(const Args &a, const Place &p, unsigned from) {
  typedef typename Word<2 * EACH>::type Unit;
  constexpr int across = LINE / EACH > 16  ? 32
                         : LINE / EACH > 8 ? 16
                         : LINE / EACH > 4 ? 8
                                           : 4,
                thread_lines = 128 / across;
  const int first = threadIdx.x % 128 / across, channels = a.results - p.channel, columns = a.out[1] - p.column;
  const int lines = min(PLANAR ? channels : columns, LINES), line = min(PLANAR ? columns : channels, LINE);
  const i64 step = PLANAR ? a.y_channel : a.y_axis[1], next = PLANAR ? a.y_axis[1] : a.y_channel;
  unsigned short *to = (unsigned short *)a.y + y_at(a, p, 0, 0) + first * step;
#pragma unroll 4
  for (int i = first; i < lines; i += thread_lines, to += thread_lines * step)
    for (int at = threadIdx.x % across * EACH; at < line; at += across * EACH)
      *(Unit *)(to + at * next) = *(const Unit *)__cvta_shared_to_generic(staged(from, i, at / 8) + at % 8 * 2);
}

// Pixels and channels that do not exist are left out.
__device__ inline void send_box(const Args &a, const Place &p, unsigned from) {
  const int corner[5] = {p.channel, p.column, p.row, 0, p.image};
  if (threadIdx.x % 128) return;
  copy_out_box(&a.map, from, corner);
  copy_out_commit();
}

__device__ inline void send(const Args &a, const Place &p, unsigned from) {
  if (UNIT == 1 || a.aligned)
    BOXED ? send_box(a, p, from) : send_units<UNIT>(a, p, from);
  else
    send_units<1>(a, p, from);
}

__device__ inline float value_of(unsigned short bits) {
  return TYPE_X == F16 ? from_f16(bits) : from_bf16(bits);
}

__device__ inline float sum_again(const Args &a, int image, int channel, int h, int w) {
  const unsigned short *x = (const unsigned short *)a.x + image * a.x_image;
  const unsigned short *taps = (const unsigned short *)a.w + channel * a.w_result;
  float sum = 0;
#pragma unroll 1
  for (int r = 0; r < TAPS_R; r++)
#pragma unroll 1
    for (int s = 0; s < TAPS_S; s++) {
      const int row = place_of(a, 0, h * STRIDE_R - a.pad[0] + r * DILATE_R);
      const int column = place_of(a, 1, w * STRIDE_S - a.pad[1] + s * DILATE_S);
#pragma unroll 1
      for (int c = 0; c < CHANNELS; c++) {
        unsigned short bits = a.fill;
        if (row >= 0 && column >= 0) bits = x[row * a.x_row + (i64)column * a.x_column + (i64)c * a.x_channel];
        sum += value_of(bits) * value_of(taps[r * a.w_axis[0] + s * a.w_axis[1] + c * a.w_channel]);
      }
    }
  return sum;
}

// Recomputes the staged outputs of a warp that are NaN from their own taps.
__device__ inline void mend(const Args &a, const Place &p, unsigned stage) {
  __syncwarp();
#pragma unroll 1
  for (int i = threadIdx.x % 32; i < SPAN / 4 * TILE; i += 32) {
    const int channel = threadIdx.x / 32 % 4 * (SPAN / 4) + i % (SPAN / 4), column = i / (SPAN / 4);
    if (p.channel + channel >= a.results || p.column + column >= a.out[1]) continue;
    const int line = PLANAR ? channel : column, at = PLANAR ? column : channel;
    unsigned short *y = (unsigned short *)__cvta_shared_to_generic(staged(stage, line, at / 8) + at % 8 * 2);
    if ((*y & 0x7fff) <= (TYPE_Y == F16 ? 0x7c00 : 0x7f80)) continue;
    const float sum = sum_again(a, p.image, p.channel + channel, p.row, p.column + column);
    *y = pack({finished(a, finish_of(a, p.channel + channel), sum), 0});
  }
}

// ---- the work of a warpgroup

__device__ inline void consume(const Args &a, const Shared &s, int consumer) {
  const int row = consumer % ROWS, part = blockIdx.x % a.result_tiles * PARTS + consumer / ROWS;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, name = 1 + consumer;
  Finish f[2];
  Filter filter;
  Sums sums;
  PipelineState state, newest;  // the oldest batch in use, the next batch
  Walk walk;
  load_filter(a, part * SPAN, filter);
#pragma unroll
  for (int half = 0; half < 2; half++) f[half] = finish_of(a, part * SPAN + result_of(lane, warp, half).channel);
  for (int item = blockIdx.x / a.result_tiles; walk_at(a, item, walk); item += gridDim.x / a.result_tiles) {
    const int batches = batches_of(walk);
    for (int batch = 0; batch < batches + AHEAD; batch++) {
      if (batch < batches)
        for (int i = batch ? AHEAD : 0; i <= AHEAD; i++, newest.next())
          barrier_wait(s.full(newest.stage), newest.parity);
      const Place place = {walk.image, walk.begin + batch * ROWS + row, walk.column, part * SPAN};
      const bool exists = place.row < walk.end && place.channel < a.results;
      if (exists) multiply(sums, filter, s, state.stage * BATCH + row * STRIDE_R);
      if (threadIdx.x % 128 == 0) barrier_arrive(s.empty(state.stage));
      state.next();
      if (!exists) continue;
      copy_out_wait_read<0>();  // the row before has left
      warps_sync(name, 128);
      const bool odd = stage(a, s.stage(consumer), sums, f);
      if (__any_sync(~0u, odd)) mend(a, place, s.stage(consumer));
      copy_fence();
      warps_sync(name, 128);
      send(a, place, s.stage(consumer));
    }
  }
  copy_out_wait();
}

// ---- the block

// Redistributes the block's registers: few for the producer warps.
constexpr int ALL = 65536 / THREADS / 8 * 8 * (CONSUMERS + 1);
constexpr int FETCHING = 56, MULTIPLYING = (ALL - FETCHING) / CONSUMERS / 8 * 8;

extern "C" __global__ void __launch_bounds__(THREADS, 1) falt_fewchannels_nhwc(const __grid_constant__ Args a) {
  extern __shared__ __align__(1024) char memory[];
  const unsigned base = shared_address(memory);
  const Shared s = {{base + RING, base + BARRIERS}, base};
  const int group = __shfl_sync(~0u, (int)threadIdx.x / 128, 0);
  if (threadIdx.x == 0) ring_init<BATCHES>(s, 128, CONSUMERS);
  __syncthreads();
  if (group == CONSUMERS) {
    if constexpr (CONSUMERS > 1) registers_less<FETCHING>();
    produce<1>(a, s, 0, 0);
  } else {
    if constexpr (CONSUMERS > 1) registers_more<MULTIPLYING>();
    consume(a, s, group);
  }
}
