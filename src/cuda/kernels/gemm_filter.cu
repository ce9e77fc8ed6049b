// Gradients of layers' filters as products of matrices on tensor cores: gradient (row, column) = sum over pixels of
// y[pixel][row] * x[pixel][column], where rows are channels of the results, columns are taps with their channels of the
// source, and pixels are those of the results. A block owns BM rows x BN columns of a share of the pixels, and walks
// along them in steps of PIXELS. Shares lie in the workspace until gemm_filter_sum.cu adds them.
// A column of ones beside the taps gives the bias's gradient.
//
// In shared memory a pixel's channels lie side by side, as in channels-last memory, so tensor cores want both factors
// transposed: halves are transposed as they are loaded, words are loaded one by one.
//
// Holes: KIND SPLIT TYPE_X BM BN WARPS_M WARPS_N STAGES FOLD PROMOTE BLOCKS as in gemm.cu, and
//   TYPE_W               number of falt_type: the filter's
//   PIXELS               of a step
//   UNIT_Y GATHER_Y UNIT_X GATHER_X   UNIT and GATHER of both factors
#include "args.h"
#include "async.cuh"
#include "boundary.cuh"
#include "convert.cuh"
#include "gemm.cuh"
#include "gemm_filter.cuh"
#include "mma.cuh"

typedef falt_cuda_gemm_operand Operand;
typedef falt_cuda_gemm_place Place;
typedef Mma<KIND> Product;

constexpr int WARPS = WARPS_M * WARPS_N, THREADS = 32 * WARPS;
constexpr int WM = BM / WARPS_M, WN = BN / WARPS_N, MT = WM / 16, NT = WN / 8;
constexpr int SIZE_X = size_of(TYPE_X), EACH = 16 / SIZE_X, SLICE = 32 / SIZE_X;  // elements of a chunk, pixels of a product
constexpr bool ROUND = KIND == WORDS && !SPLIT;
static_assert(PIXELS % SLICE == 0 && WM % 16 == 0 && WN % 16 == 0, "warps multiply whole matrices");

typedef float Acc[MT][NT][4];

// Bytes between pixels in shared memory: what lanes load together lies in different banks.
constexpr int pitch_of(int columns) {
  return columns * SIZE_X + (SIZE_X == 4 ? 32 : 16);
}
constexpr int PITCH_Y = pitch_of(BM), PITCH_X = pitch_of(BN), STAGE = PIXELS * (PITCH_Y + PITCH_X);

// ---- pieces

struct Pixel {
  i64 image;
  int at[3];
  bool exists;
};

__device__ inline Pixel find_pixel(const Operand &o, const Phase &p, int m) {
  Pixel pixel;
  int q[4];
  pixel.exists = m < p.pixels;
  locate(p, pixel.exists ? m : 0, q);
  pixel.image = q[0] * o.image;
#pragma unroll
  for (int axis = 0; axis < 3; axis++) pixel.at[axis] = q[axis + 1] * o.step[axis];
  return pixel;
}

// Where a piece stands, or NULL: zeros. stride: from its first element to the next, changed for constants.
__device__ inline const char *piece_of(const Args &a, const Operand &o, const char *data, const Pixel &pixel,
                                       const Place &place, i64 &stride) {
  if (!pixel.exists || place.channel == FALT_CUDA_GEMM_NONE) return nullptr;
  if (place.channel == FALT_CUDA_GEMM_ONE) {
    stride = SIZE_X;
    return (const char *)a.one;
  }
  i64 at = pixel.image + place.channel;
  bool inside = true;
#pragma unroll
  for (int axis = 0; axis < 3; axis++) {
    int u = pixel.at[axis] + place.at[axis];
    if (FOLD) u = fold<int>(a.boundary[axis][0], a.boundary[axis][1], o.in[axis], u);
    inside &= (unsigned)u < (unsigned)o.in[axis];
    at += u * o.axis[axis];
  }
  if (inside) return data + at;
  stride = 0;
  return (const char *)a.fill;
}

__device__ inline Place place_at(const Place *table, int i) {
  const int4 e = __ldg((const int4 *)table + i);
  return Place{e.x, {e.y, e.z, e.w}};
}

// Pieces that lie side by side: a thread takes the same piece of several pixels.
template <int COLUMNS, int UNIT, int GATHER, bool APART = GATHER != 0>
struct Loader {
  static constexpr int UNITS = COLUMNS * SIZE_X / UNIT, STEP = THREADS / UNITS, PITCH = pitch_of(COLUMNS);
  static_assert(THREADS % UNITS == 0, "threads take whole pixels");
  Place place;

  __device__ inline void start(const Place *table) { place = place_at(table, threadIdx.x % UNITS); }

  __device__ inline void load(const Args &a, const Operand &o, const char *data, char *stage, const Place *, int first) {
#pragma unroll
    for (int row = threadIdx.x / UNITS; row < PIXELS; row += STEP) {
      i64 stride = SIZE_X;
      const char *from = piece_of(a, o, data, find_pixel(o, a.phase, first + row), place, stride);
      char *to = stage + row * PITCH + threadIdx.x % UNITS * UNIT;
      if (o.aligned)
        copy_async<UNIT>(shared_address(to), from ? from : (const char *)o.data, from ? UNIT : 0);
      else
#pragma unroll 1
        for (int k = 0; k < UNIT; k += SIZE_X)
          store_bits<SIZE_X>(shared_address(to) + k, from ? load_bits<SIZE_X>(from + k) : 0);
    }
  }
  __device__ inline void store(char *) {}
};

// Pieces that lie apart: a lane takes a pixel, a warp some of its chunks, through registers.
template <int COLUMNS, int UNIT, int GATHER>
struct Loader<COLUMNS, UNIT, GATHER, true> {
  static constexpr int ENTRIES = EACH / GATHER, CHUNKS = COLUMNS / EACH, PITCH = pitch_of(COLUMNS);
  static constexpr int GROUPS = PIXELS / 32, PARTS = WARPS / GROUPS, MINE = (CHUNKS + PARTS - 1) / PARTS;
  static_assert(WARPS % GROUPS == 0, "a group of warps takes all pixels");
  unsigned element[MINE][EACH];

  __device__ inline int row() { return threadIdx.x % (32 * GROUPS); }
  __device__ inline int chunk(int i) { return threadIdx.x / (32 * GROUPS) + i * PARTS; }
  __device__ inline void start(const Place *) {}

  __device__ inline void load(const Args &a, const Operand &o, const char *data, char *, const Place *table, int first) {
    const Pixel pixel = find_pixel(o, a.phase, first + row());
#pragma unroll
    for (int i = 0; i < MINE; i++)
#pragma unroll
      for (int k = 0; k < ENTRIES; k++) {
        i64 stride = o.channel;
        const char *from = nullptr;
        if (chunk(i) < CHUNKS) from = piece_of(a, o, data, pixel, place_at(table, chunk(i) * ENTRIES + k), stride);
#pragma unroll
        for (int j = 0; j < GATHER; j++)
          element[i][k * GATHER + j] = from ? (unsigned)load_bits<SIZE_X>(from + j * stride) : 0;
      }
  }

  __device__ inline void store(char *stage) {
#pragma unroll
    for (int i = 0; i < MINE; i++) {
      unsigned word[4] = {};
#pragma unroll
      for (int k = 0; k < EACH; k++) word[k * SIZE_X / 4] |= element[i][k] << 8 * (k * SIZE_X % 4);
      if (chunk(i) < CHUNKS) store_vector(shared_address(stage) + row() * PITCH + chunk(i) * 16, word);
    }
  }
};

// ---- products

// 16 rows and 32 bytes of pixels of y; two times 8 columns and as many pixels of x.
__device__ inline uint4 load_rows(unsigned y, int slice, int row) {
  const int lane = threadIdx.x % 32;
  if (SIZE_X == 2)
    return load_transposed(y + (slice * SLICE + lane / 16 * 8 + lane % 8) * PITCH_Y + (row + lane / 8 % 2 * 8) * 2);
  const unsigned at = y + (slice * SLICE + lane % 4) * PITCH_Y + (row + lane / 4) * 4;
  return make_uint4(load_word(at), load_word(at + 32), load_word(at + 4 * PITCH_Y), load_word(at + 4 * PITCH_Y + 32));
}

__device__ inline uint4 load_columns(unsigned x, int slice, int column) {
  const int lane = threadIdx.x % 32;
  if (SIZE_X == 2)
    return load_transposed(x + (slice * SLICE + lane / 8 % 2 * 8 + lane % 8) * PITCH_X + (column + lane / 16 * 8) * 2);
  const unsigned at = x + (slice * SLICE + lane % 4) * PITCH_X + (column + lane / 4) * 4;
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

// ---- results

__device__ inline void put_sums(const Args &a, const Acc acc, int group, int first_row, int first_column) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int rows = a.row_tiles * BM, columns = a.column_tiles * BN;
  first_row += warp / WARPS_N * WM + lane / 4;
  first_column += warp % WARPS_N * WN + lane % 4 * 2;
  float *partial = a.partial ? a.partial + ((i64)group * a.shares + blockIdx.y) * rows * columns : nullptr;
#pragma unroll
  for (int i = 0; i < MT; i++)
#pragma unroll
    for (int half = 0; half < 2; half++)
#pragma unroll
      for (int j = 0; j < NT; j++) {
        const int row = first_row + i * 16 + half * 8, column = first_column + j * 8;
        const float *sum = acc[i][j] + half * 2;
        if (partial) {
          *(float2 *)(partial + (i64)row * columns + column) = make_float2(sum[0], sum[1]);
        } else {
          put(a, group, row, column, sum[0]);
          put(a, group, row, column + 1, sum[1]);
        }
      }
}

// ---- the kernel

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) falt_gemm_filter(const __grid_constant__ Args a) {
  extern __shared__ uint4 memory[];
  char *shared = (char *)memory;
  const int group = blockIdx.z, warp = threadIdx.x / 32;
  const int first_row = blockIdx.x % a.row_tiles * BM, first_column = blockIdx.x / a.row_tiles * BN;
  const char *y = (const char *)a.y.data + group * a.y.group, *x = (const char *)a.x.data + group * a.x.group;
  const Place *y_table = a.y.table + first_row * SIZE_X / (GATHER_Y ? GATHER_Y * SIZE_X : UNIT_Y);
  const Place *x_table = a.x.table + first_column * SIZE_X / (GATHER_X ? GATHER_X * SIZE_X : UNIT_X);
  const int begin = blockIdx.y * a.share_steps, all = (a.phase.pixels + PIXELS - 1) / PIXELS;
  const int steps = min(a.share_steps, all - begin);
  const unsigned y_rows = shared_address(shared) + warp / WARPS_N * WM * SIZE_X;
  const unsigned x_columns = shared_address(shared) + PIXELS * PITCH_Y + warp % WARPS_N * WN * SIZE_X;
  Loader<BM, UNIT_Y, GATHER_Y> rows;
  Loader<BN, UNIT_X, GATHER_X> columns;
  rows.start(y_table);
  columns.start(x_table);
  Acc acc = {}, run = {};
#pragma unroll 1
  for (int i = 0; i < STAGES - 1; i++) {
    char *stage = shared + i * STAGE;
    if (i < steps) {
      rows.load(a, a.y, y, stage, y_table, (begin + i) * PIXELS);
      columns.load(a, a.x, x, stage + PIXELS * PITCH_Y, x_table, (begin + i) * PIXELS);
      rows.store(stage);
      columns.store(stage + PIXELS * PITCH_Y);
    }
    end_batch();
  }
  int in = 0, out = STAGES - 1;
#pragma unroll 1
  for (int i = 0; i < steps; i++) {
    await_batches<STAGES - 2>();
    __syncthreads();
    const int coming = i + STAGES - 1;
    char *stage = shared + out * STAGE;
    if (coming < steps) {
      rows.load(a, a.y, y, stage, y_table, (begin + coming) * PIXELS);
      columns.load(a, a.x, x, stage + PIXELS * PITCH_Y, x_table, (begin + coming) * PIXELS);
    }
    end_batch();
#pragma unroll
    for (int slice = 0; slice < PIXELS / SLICE; slice++)
      multiply_slice(PROMOTE ? run : acc, y_rows + in * STAGE, x_columns + in * STAGE, slice);
    if (coming < steps) {
      rows.store(stage);
      columns.store(stage + PIXELS * PITCH_Y);
    }
    if (PROMOTE && ((i + 1) % (PROMOTE ? PROMOTE : 1) == 0 || i + 1 == steps)) add_sums<MT, NT>(acc, run);
    in = in + 1 == STAGES ? 0 : in + 1;
    out = out + 1 == STAGES ? 0 : out + 1;
  }
  put_sums(a, acc, group, first_row, first_column);
}
