// Wgrad as implicit GEMM on tensor cores: gradient (row, column) = sum over pixels of y[pixel][row] * x[pixel][column].
// Rows are channels of y (the output's gradient), columns are taps with their channels of x, pixels are those of y. A
// block owns BM rows x BN columns of a split-K slice of the pixels and loops over them in steps of PIXELS.

// The split-K slices stay in the workspace until cuda_wgrad_sum.cu adds them. A column of ones beside the taps gives
// the bias gradient.
//
// In shared memory the channels of a pixel are contiguous, as in NHWC, so tensor cores need both operands transposed:
// 16-bit elements are transposed by ldmatrix, words are loaded one by one.

// Compile-time parameters: KIND SPLIT TYPE_X BM BN WARPS_M WARPS_N STAGES FOLD FILL ONES PROMOTE BLOCKS as in
// cuda_igemm.cu, and
//   TYPE_W               number of falt_type: the filter's
//   PIXELS               of a step
//   UNIT_Y GATHER_Y UNIT_X GATHER_X   UNIT and GATHER of both operands

#include "args.h"
#include "async.cuh"
#include "convert.cuh"
#include "cuda_igemm.cuh"
#include "cuda_igemm_source.cuh"
#include "cuda_wgrad.cuh"
#include "mma.cuh"
#include "ptx/early.cuh"

typedef Mma<KIND> Product;

constexpr int WARPS = WARPS_M * WARPS_N, THREADS = 32 * WARPS;
constexpr int WM = BM / WARPS_M, WN = BN / WARPS_N, MT = WM / 16, NT = WN / 8;
constexpr int SIZE_X = size_of(TYPE_X), EACH = 16 / SIZE_X,
              SLICE = 32 / SIZE_X;  // elements of a chunk, pixels of a product
constexpr bool ROUND = KIND == WORDS && !SPLIT;
static_assert(PIXELS % SLICE == 0 && WM % 16 == 0 && WN % 16 == 0, "warps multiply whole matrices");

typedef Product::Sum Sum;
typedef Sum Acc[MT][NT][4];

// Bytes between pixels in shared memory: lanes that load together use different banks.
constexpr int pitch_of(int columns) {
  return columns * SIZE_X + (SIZE_X >= 4 ? 32 : 16);
}
constexpr int PITCH_Y = pitch_of(BM), PITCH_X = pitch_of(BN), STAGE = PIXELS * (PITCH_Y + PITCH_X);

// ---- pieces

// Pieces that are contiguous: a thread takes the same piece of several pixels.
template <int COLUMNS, int UNIT, int GATHER, bool APART = GATHER != 0>
struct Loader {
  static constexpr int UNITS = COLUMNS * SIZE_X / UNIT, STEP = THREADS / UNITS, PITCH = pitch_of(COLUMNS);
  static_assert(THREADS % UNITS == 0, "threads take whole pixels");
  Entry entry;

  __device__ inline void start(const Entry *table) { entry = entry_at(table, threadIdx.x % UNITS); }

  __device__ inline void load(const Source &a, const Pixel *pixels, unsigned stage) {
    const unsigned to = stage + threadIdx.x % UNITS * UNIT;
#pragma unroll
    for (int i = 0; i < (PIXELS + STEP - 1) / STEP; i++) {
      const int row = threadIdx.x / UNITS + i * STEP;
      if (PIXELS % STEP && row >= PIXELS) break;
      const char *from;
      const bool exists = find_piece(a, pixels[row], entry, from);
      if (a.aligned)
        copy_async<UNIT>(to + row * PITCH, from, exists ? UNIT : 0);
      else
#pragma unroll 1
        for (int k = 0; k < UNIT; k += SIZE_X)
          store_bits<SIZE_X>(to + row * PITCH + k, exists ? load_bits<SIZE_X>(from + k) : 0);
    }
  }
  __device__ inline void store(unsigned) {}
};

// Pieces that are not contiguous: a lane takes a pixel, a warp some of its chunks, through registers.
template <int COLUMNS, int UNIT, int GATHER>
struct Loader<COLUMNS, UNIT, GATHER, true> {
  static constexpr int ENTRIES = EACH / GATHER, CHUNKS = COLUMNS / EACH, PITCH = pitch_of(COLUMNS);
  static constexpr int GROUPS = PIXELS / 32, PARTS = WARPS / GROUPS, MINE = (CHUNKS + PARTS - 1) / PARTS;
  static_assert(WARPS % GROUPS == 0, "a group of warps takes all pixels");
  const Entry *table;
  unsigned long long element[MINE][EACH];

  __device__ inline int row() { return threadIdx.x % (32 * GROUPS); }
  __device__ inline int chunk(int i) { return threadIdx.x / (32 * GROUPS) + i * PARTS; }
  __device__ inline void start(const Entry *entries) { table = entries; }

  __device__ inline void load(const Source &a, const Pixel *pixels, unsigned) {
    const Pixel pixel = pixels[row()];
#pragma unroll
    for (int i = 0; i < MINE; i++)
#pragma unroll
      for (int k = 0; k < ENTRIES; k++) {
        const char *from = nullptr;
        const bool exists = chunk(i) < CHUNKS && find_piece(a, pixel, entry_at(table, chunk(i) * ENTRIES + k), from);
        const i64 stride = FILL && from == (const char *)a.fill  ? 0
                           : ONES && from == (const char *)a.one ? SIZE_X
                                                                 : a.channel;
#pragma unroll
        for (int j = 0; j < GATHER; j++) {
          element[i][k * GATHER + j] = exists ? load_bits<SIZE_X>(from) : 0;
          from += stride;
        }
      }
  }

  __device__ inline void store(unsigned stage) {
#pragma unroll
    for (int i = 0; i < MINE; i++) {
      unsigned word[4];
      pack_chunk<SIZE_X>(word, element[i]);
      if (chunk(i) < CHUNKS) store_vector(stage + row() * PITCH + chunk(i) * 16, word);
    }
  }
};

// The pieces of both operands of a step. All threads compute the pixels of BATCH steps at a time, while those of the
// previous steps are used: there is room for two batches.
constexpr int BATCH = 4;
static_assert(STAGES - 1 <= BATCH, "the first stages are of the first batch");

struct Pixels {
  Pixel y[PIXELS], x[PIXELS];
};

struct Feed {
  Loader<BM, UNIT_Y, GATHER_Y> rows;
  Loader<BN, UNIT_X, GATHER_X> columns;
  const char *y, *x;
  Pixels *pixels;  // of two batches
  int first;       // pixel

  __device__ inline Pixels &pixels_of(int step) { return pixels[step % (2 * BATCH)]; }
  __device__ inline void find(const Args &a, int batch) {
#pragma unroll 1
    for (int i = threadIdx.x; i < BATCH * PIXELS; i += THREADS) {
      const int step = batch * BATCH + i / PIXELS, at = i % PIXELS, pixel = first + step * PIXELS + at;
      pixels_of(step).y[at] = find_pixel(a.y, a.y_polyphase, y, pixel);
      pixels_of(step).x[at] = find_pixel(a.x, a.x_polyphase, x, pixel);
    }
  }
  __device__ inline void load(const Args &a, int step, unsigned stage) {
    rows.load(a.y, pixels_of(step).y, stage);
    columns.load(a.x, pixels_of(step).x, stage + PIXELS * PITCH_Y);
  }
  __device__ inline void store(unsigned stage) {
    rows.store(stage);
    columns.store(stage + PIXELS * PITCH_Y);
  }
};

// ---- products

// 16 rows and 32 bytes of pixels of y; two times 8 columns and as many pixels of x.
__device__ inline uint4 load_rows(unsigned y, int slice, int row) {
  const int lane = threadIdx.x % 32;
  if (SIZE_X == 2)
    return load_transposed(y + (slice * SLICE + lane / 16 * 8 + lane % 8) * PITCH_Y + (row + lane / 8 % 2 * 8) * 2);
  const unsigned at = y + (slice * SLICE + lane % 4) * PITCH_Y + (row + lane / 4) * SIZE_X;
  if (SIZE_X == 8) return load_doubles(at, 64);
  return make_uint4(load_word(at), load_word(at + 32), load_word(at + 4 * PITCH_Y), load_word(at + 4 * PITCH_Y + 32));
}

__device__ inline uint4 load_columns(unsigned x, int slice, int column) {
  const int lane = threadIdx.x % 32;
  if (SIZE_X == 2)
    return load_transposed(x + (slice * SLICE + lane / 8 % 2 * 8 + lane % 8) * PITCH_X + (column + lane / 16 * 8) * 2);
  const unsigned at = x + (slice * SLICE + lane % 4) * PITCH_X + (column + lane / 4) * SIZE_X;
  if (SIZE_X == 8) return load_doubles(at, 64);
  return make_uint4(load_word(at), load_word(at + 4 * PITCH_X), load_word(at + 32), load_word(at + 4 * PITCH_X + 32));
}

__device__ inline void multiply_slice(Acc acc, unsigned y, unsigned x, int slice) {
  uint4 a[MT], rest[MT];
#pragma unroll
  for (int i = 0; i < MT; i++) {
    a[i] = load_rows(y, slice, i * 16);
    if (ROUND) round_parts(a[i]);
    if (SPLIT) rest[i] = low_parts(a[i]);
  }
#pragma unroll
  for (int j = 0; j < NT; j += 2) {
    uint4 b = load_columns(x, slice, j * 8);
    if (ROUND) round_parts(b);
    multiply_pair<Product, MT, NT, SPLIT>(acc, a, rest, b, j);
  }
}

// ---- outputs

// Places of the columns: each is found by one thread.
__device__ inline void put_sums(const Args &a, const Acc acc, int group, int first_row, int first_column,
                                Place *places) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int rows = a.row_tiles * BM, columns = a.column_tiles * BN;
  if (!a.partial) {
    __syncthreads();  // the old content is no longer used
    for (int i = threadIdx.x; i < BN; i += THREADS) places[i] = place_column(a, first_column + i);
    __syncthreads();
  }
  const int mine = warp % WARPS_N * WN + lane % 4 * 2;
  first_row += warp / WARPS_N * WM + lane / 4;
  first_column += mine;
  Place down[MT * 2];
#pragma unroll
  for (int i = 0; i < MT * 2; i++) down[i] = place_row(a, group, first_row + i * 8);
  Sum *partial = a.partial ? (Sum *)a.partial + ((i64)group * a.split_k + blockIdx.y) * rows * columns : nullptr;
#pragma unroll
  for (int j = 0; j < NT; j++) {
    const int column = first_column + j * 8;
#pragma unroll
    for (int i = 0; i < MT * 2; i++) {
      const int row = first_row + i * 8;
      const Sum *sum = acc[i / 2][j] + i % 2 * 2;
      if (partial) {
        partial[(i64)row * columns + column] = sum[0], partial[(i64)row * columns + column + 1] = sum[1];
      } else {
        put(a, group, row, down[i], places[mine + j * 8], sum[0]);
        put(a, group, row, down[i], places[mine + j * 8 + 1], sum[1]);
      }
    }
  }
}

// ---- the kernel

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) falt_igemm_wgrad(const __grid_constant__ Args a) {
  extern __shared__ uint4 memory[];
  __shared__ Pixels pixels[2 * BATCH];
  const unsigned shared = shared_address(memory);
  const int group = blockIdx.z, warp = threadIdx.x / 32;
  const int first_row = blockIdx.x % a.row_tiles * BM, first_column = blockIdx.x / a.row_tiles * BN;
  const int begin = blockIdx.y * a.slice_steps, all = (a.x_polyphase.pixels + PIXELS - 1) / PIXELS;
  const int steps = min(a.slice_steps, all - begin);
  const unsigned y_rows = shared + warp / WARPS_N * WM * SIZE_X;
  const unsigned x_columns = shared + PIXELS * PITCH_Y + warp % WARPS_N * WN * SIZE_X;
  Feed feed;
  feed.y = (const char *)a.y.data + group * a.y.group;
  feed.x = (const char *)a.x.data + group * a.x.group;
  feed.pixels = pixels;
  feed.first = begin * PIXELS;
  feed.rows.start((const Entry *)a.y.table + first_row * SIZE_X / (GATHER_Y ? GATHER_Y * SIZE_X : UNIT_Y));
  feed.columns.start((const Entry *)a.x.table + first_column * SIZE_X / (GATHER_X ? GATHER_X * SIZE_X : UNIT_X));
  Acc acc = {}, run = {};
  feed.find(a, 0);
  feed.find(a, 1);
  __syncthreads();
  await_stream();
#pragma unroll 1
  for (int i = 0; i < STAGES - 1; i++) {
    if (i < steps) {
      feed.load(a, i, shared + i * STAGE);
      feed.store(shared + i * STAGE);
    }
    end_batch();
  }
  unsigned in = 0, out = (STAGES - 1) * STAGE;
#pragma unroll 1
  for (int i = 0; i < steps; i++) {
    const int coming = i + STAGES - 1;
    await_batches<STAGES - 2>();
    __syncthreads();
    if (coming < steps) feed.load(a, coming, shared + out);
    end_batch();
    if (coming % BATCH == 0 && coming >= BATCH && coming + BATCH < steps) feed.find(a, coming / BATCH + 1);
#pragma unroll 2
    for (int slice = 0; slice < PIXELS / SLICE; slice++)
      multiply_slice(PROMOTE ? run : acc, y_rows + in, x_columns + in, slice);
    if (coming < steps) feed.store(shared + out);
    if (PROMOTE && ((i + 1) % (PROMOTE ? PROMOTE : 1) == 0 || i + 1 == steps)) add_sums<MT, NT>(acc, run);
    in = in == (STAGES - 1) * STAGE ? 0 : in + STAGE;
    out = out == (STAGES - 1) * STAGE ? 0 : out + STAGE;
  }
  put_sums(a, acc, group, first_row, first_column, (Place *)memory);
}
