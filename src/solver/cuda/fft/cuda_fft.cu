// Filters of many taps by overlap-save (Stockham 1966), one pair of tiles a block: the two tiles are the real and the
// imaginary part of the points, which are transformed, multiplied by the filter's spectrum and transformed back in
// registers and shared memory. A filter that is longer than a tile is cut into parts whose products are added before
// the way back. Tiles that hold what is not finite, or numbers so far from 1 that a product might leave the type's
// range, are summed tap by tap.

// Compile-time parameters:
//   LOG_Z LOG_Y LOG_X      logarithms of the tile's points along each axis
//   TYPE_X TYPE_Y TYPE_W   numbers of falt_type: in, out, taps
//   SUM                    float or double
//   PARTS                  1: the filter has several parts
//   STRIDED                1: a stride is not 1
//   WHOLE                  1: sums are whole numbers
//   EPILOGUE               0: the sum, 1: alpha * sum + beta, 2: everything
//   BLOCKS                 blocks that should fit on a multiprocessor

#include "boundary.cuh"
#include "convert.cuh"
#include "cuda_fft.cuh"
#include "cuda_fft_args.h"
#include "epilogue.cuh"

typedef long long i64;
typedef falt_cuda_fft_args Args;

// Tiles are transformed if their largest number is 0 or between SMALL and LARGE, divided by the sum of the taps.
constexpr double LARGE = sizeof(Real) == 4 ? 0x1p100 : 0x1p900, SMALL = 1 / LARGE;

// Coordinates of a point of the tile.
struct At {
  int of[3];
};

__device__ inline At coordinates(int point) {
  return {{point >> (LOG_X + LOG_Y), point >> LOG_X & ((1 << LOG_Y) - 1), point & ((1 << LOG_X) - 1)}};
}

__device__ constexpr int length_of(int axis) {
  return 1 << (axis == 0 ? LOG_Z : axis == 1 ? LOG_Y : LOG_X);
}

__device__ inline Real &part_of_point(Complex &c, int part) {
  return part ? c.im : c.re;
}

// ---- tiles

// A tile of the block, in shared memory.
struct Tile {
  i64 x, y, residual, channel;  // offsets of the image
  i64 first[3];                 // the first output
  i64 from[3];                  // the position of the first point in the input, for a part of the filter
  int limit[3];                 // points that begin outputs, along each axis
  bool exists, inside, zero;    // of the part: all points are in the input; all are zeros that continue it
};

// Tile `number` of a filter: tiles of one image follow each other.
__device__ inline void set_tile(const Args &a, Tile &b, i64 filter, i64 number) {
  b.exists = number < a.boxes;
  if (!b.exists) number = 0;
  i64 tile = number % (a.boxes / a.images);
  const i64 image = number / (a.boxes / a.images);
  const i64 n = a.one_filter ? image / a.groups : image, g = a.one_filter ? image % a.groups : filter / a.filters;
  const i64 k = a.one_filter ? 0 : filter % a.filters;
  b.x = n * a.x_batch[0] + g * a.x_batch[1];
  b.y = n * a.y_batch[0] + g * a.y_batch[1] + k * a.y_batch[2];
  b.residual = n * a.residual.stride[0] + g * a.residual.stride[1] + k * a.residual.stride[2];
  b.channel = g * a.filters + k;
  for (int i = 2; i >= 0; i--) {
    b.first[i] = tile % a.tiles[i] * a.block[i];
    tile /= a.tiles[i];
    const i64 rest = a.out[i] - b.first[i], outputs = rest < a.block[i] ? rest : a.block[i];
    b.limit[i] = b.exists ? (int)((outputs - 1) * a.stride[i]) + 1 : 0;
  }
}

// A part of the filter: the number of its first tap along each axis.
struct Part {
  i64 tap[3];
};

__device__ inline Part part_of(const Args &a, int number) {
  Part part;
  for (int i = 2; i >= 0; i--) {
    part.tap[i] = number % a.parts[i] * a.part_taps[i];
    number /= a.parts[i];
  }
  return part;
}

__device__ inline void set_part(const Args &a, Tile &b, int number) {
  const Part part = part_of(a, number);
  b.inside = b.exists;
  b.zero = !b.exists;
  for (int i = 0; i < 3; i++) {
    const i64 from = b.first[i] * a.stride[i] - a.pad[i] + part.tap[i] * a.dilation[i], end = from + length_of(i);
    b.from[i] = from;
    b.inside &= from >= 0 && end <= a.in[i];
    b.zero |= a.fill == 0 &&
              ((from >= a.in[i] && a.boundary[i][1] == CONSTANT) || (end <= 0 && a.boundary[i][0] == CONSTANT));
  }
}

// The element at a position, which may be beyond the ends.
template <typename R>
__device__ inline R element(const Args &a, i64 image, const i64 position[3]) {
  i64 at = image;
#pragma unroll
  for (int i = 0; i < 3; i++) {
    const i64 u = fold<i64>(a.boundary[i][0], a.boundary[i][1], a.in[i], position[i]);
    if (u < 0) return (R)a.fill;
    at += u * a.x_axis[i];
  }
  return load<R>(a.x, TYPE_X, at);
}

// A tile that lies inside the input. The points of a thread's slots are at distances that all threads share.
__device__ inline void load_inside(const Args &a, const Tile &b, int which, Complex v[SLOTS]) {
  const At mine = coordinates(threadIdx.x);
  i64 base = b.x;
#pragma unroll
  for (int i = 0; i < 3; i++) base += (b.from[i] + mine.of[i]) * a.x_axis[i];
#pragma unroll
  for (int p = 0; p < SLOTS; p++) {
    const At far = coordinates(p << FIRST);
    const i64 at = base + far.of[0] * a.x_axis[0] + far.of[1] * a.x_axis[1] + far.of[2] * a.x_axis[2];
    part_of_point(v[p], which) = load<Real>(a.x, TYPE_X, at);
  }
}

// Any tiles, through the thread's places in shared memory so that the loop need not be unrolled.
__device__ inline void load_edged(const Args &a, const Tile &b, int which, Complex *shared) {
#pragma unroll 1
  for (int p = 0; p < SLOTS; p++) {
    const At at = coordinates(threadIdx.x + (p << FIRST));
    const i64 position[3] = {b.from[0] + at.of[0], b.from[1] + at.of[1], b.from[2] + at.of[2]};
    part_of_point(shared[place<FIRST>(threadIdx.x, p)], which) = b.exists ? element<Real>(a, b.x, position) : 0;
  }
}

__device__ inline void load_pair(const Args &a, const Tile tile[2], Complex v[SLOTS], Complex *shared) {
  if (tile[0].inside && tile[1].inside) {
    load_inside(a, tile[0], 0, v);
    load_inside(a, tile[1], 1, v);
    return;
  }
#pragma unroll 1
  for (int which = 0; which < 2; which++) load_edged(a, tile[which], which, shared);
#pragma unroll
  for (int p = 0; p < SLOTS; p++) v[p] = shared[place<FIRST>(threadIdx.x, p)];
}

// ---- sums

__device__ inline void finish_one(const Args &a, const Tile &b, const i64 out[3], double sum) {
  i64 y = b.y, r = b.residual;
#pragma unroll
  for (int i = 0; i < 3; i++) {
    y += out[i] * a.y_axis[i];
    r += out[i] * a.residual.stride[3 + i];
  }
  store<double>(a.y, TYPE_Y, y, finish(a.epilogue, a.residual, b.channel, r, sum));
}

__device__ inline i64 filter_at(const Args &a, i64 filter) {
  return a.one_filter ? 0 : filter / a.filters * a.w_batch[0] + filter % a.filters * a.w_batch[1];
}

// What one row of taps gives to an output: `x` and `w` are offsets of the input's row and of the taps, `first` is the
// position of the first one.
__device__ inline double sum_row(const Args &a, i64 x, bool outside, i64 first, i64 w) {
  double sum = 0;
#pragma unroll 1
  for (i64 s = a.taps[2]; s > 0; s--, first += a.dilation[2], w += a.w_axis[2]) {
    const i64 u = outside ? -1 : fold<i64>(a.boundary[2][0], a.boundary[2][1], a.in[2], first);
    const double value = u < 0 ? a.fill : load<double>(a.x, TYPE_X, x + u * a.x_axis[2]);
    sum += value * load<double>(a.w, TYPE_W, w);
  }
  return sum;
}

__device__ inline i64 tap_position(const Args &a, const i64 out[3], int axis, int tap) {
  const i64 position = out[axis] * a.stride[axis] - a.pad[axis] + tap * a.dilation[axis];
  return axis == 2 ? position : fold<i64>(a.boundary[axis][0], a.boundary[axis][1], a.in[axis], position);
}

__device__ inline double sum_taps(const Args &a, i64 x, const i64 out[3], i64 w) {
  double sum = 0;
#pragma unroll 1
  for (int t = 0; t < a.taps[0]; t++)
#pragma unroll 1
    for (int r = 0; r < a.taps[1]; r++) {
      const i64 plane = tap_position(a, out, 0, t), row = tap_position(a, out, 1, r);
      sum += sum_row(a, x + plane * a.x_axis[0] + row * a.x_axis[1], plane < 0 || row < 0, tap_position(a, out, 2, 0),
                     w + t * a.w_axis[0] + r * a.w_axis[1]);
    }
  return sum;
}

// ---- outputs

// Whether an output begins at a point of the tile.
__device__ inline bool is_output(const Args &a, const Tile &b, const At &at) {
  bool is = true;
#pragma unroll
  for (int i = 0; i < 3; i++) {
    is &= at.of[i] < b.limit[i];
    if (STRIDED) is &= at.of[i] % (unsigned)a.stride[i] == 0;
  }
  return is;
}

// The output at a point.
__device__ inline void output_of(const Args &a, const Tile &b, const At &at, i64 out[3]) {
#pragma unroll
  for (int i = 0; i < 3; i++) out[i] = b.first[i] + (STRIDED ? at.of[i] / (unsigned)a.stride[i] : at.of[i]);
}

// Sums leave in two steps of the same sign: their product alone may be beyond the type's range.
struct Back {
  Real one, two;
};

__device__ inline Real sum_of(Real value, const Back &back) {
  const Real sum = value * back.one * back.two;
  return WHOLE ? rint(sum) : sum;
}

__device__ inline void store_tile(const Args &a, const Tile &b, const Complex v[SLOTS], int which, const Back &back) {
  const At mine = coordinates(threadIdx.x);
  i64 base = b.y;
#pragma unroll
  for (int i = 0; i < 3; i++) base += (b.first[i] + mine.of[i]) * a.y_axis[i];
#pragma unroll
  for (int p = 0; p < SLOTS; p++) {
    const At far = coordinates(p << FIRST);
    if (!is_output(a, b, coordinates(threadIdx.x + (p << FIRST)))) continue;
    const i64 to = base + far.of[0] * a.y_axis[0] + far.of[1] * a.y_axis[1] + far.of[2] * a.y_axis[2];
    const Real sum = sum_of(which ? v[p].im : v[p].re, back);
    store<Real>(a.y, TYPE_Y, to, EPILOGUE ? (Real)a.epilogue.alpha * sum + (Real)a.epilogue.beta : sum);
  }
}

// With the whole epilogue or a stride, from the thread's places in shared memory.
__device__ inline void finish_tile(const Args &a, const Tile &b, const Complex *shared, int which, const Back &back) {
#pragma unroll 1
  for (int p = 0; p < SLOTS; p++) {
    const At at = coordinates(threadIdx.x + (p << FIRST));
    if (!is_output(a, b, at)) continue;
    const Complex value = shared[place<FIRST>(threadIdx.x, p)];
    i64 out[3];
    output_of(a, b, at, out);
    finish_one(a, b, out, sum_of(which ? value.im : value.re, back));
  }
}

// ---- the range of numbers

// In the order of magnitudes, NaN above all.
__device__ inline unsigned magnitude(float x) {
  return __float_as_uint(x) & 0x7fffffff;
}
__device__ inline unsigned magnitude(double x) {
  return ((unsigned)__double2hiint(x) & 0x7fffffff) | (__double2loint(x) != 0);
}

// Whether the block's points may be transformed. All threads get the same answer.
__device__ inline bool may_transform(const Complex v[SLOTS], unsigned limit) {
  const unsigned least = magnitude((Real)SMALL);
  unsigned most = 0;
#pragma unroll
  for (int p = 0; p < SLOTS; p++) most = max(most, max(magnitude(v[p].re), magnitude(v[p].im)));
  const bool ordinary = most >= least && most < limit;
  if (!__syncthreads_or(most && !ordinary)) return true;
  if (__syncthreads_or(most >= limit)) return false;
  return __syncthreads_or(ordinary);
}

// ---- the kernels

// What all threads of a block know.
struct Block {
  Tile tile[2];
  unsigned limit;
  Back back;
};

__device__ inline void set_block(const Args &a, Block &b, i64 filter, i64 pair) {
  const falt_cuda_fft_filter about = ((const falt_cuda_fft_filter *)a.about)[filter];
  const int exponent = about.exponent - LOG, half = exponent / 2;
  for (int i = 0; i < 2; i++) set_tile(a, b.tile[i], filter, 2 * pair + i);
  b.limit = about.weight <= LARGE ? magnitude((Real)(LARGE / (about.weight > 1 ? about.weight : 1))) : 0;
  b.back = {(Real)scalbn(1.0, half), (Real)scalbn(1.0, exponent - half)};
}

// Local memory that the compiler does not put into registers: sums over the parts of a filter are rarely accessed.
__device__ inline Complex *kept(Complex *local) {
  asm("" : "+l"(local));
  return local;
}

// The points' products with the spectrum of each part, added; false if they must not be transformed.
__device__ inline bool multiply(const Args &a, Block &b, i64 filter, Complex v[SLOTS], Complex *shared) {
  const int parts = PARTS ? a.parts[0] * a.parts[1] * a.parts[2] : 1;
  const Complex *spectrum = (const Complex *)a.spectra + filter * parts * POINTS + threadIdx.x;
  Complex sums[PARTS ? SLOTS : 1];
#pragma unroll
  for (int p = 0; PARTS && p < SLOTS; p++) kept(sums)[p] = {0, 0};
#pragma unroll 1
  for (int i = 0; i < parts; i++, spectrum += POINTS) {
    __syncthreads();
    if (threadIdx.x < 2) set_part(a, b.tile[threadIdx.x], i);
    __syncthreads();
    if (PARTS && b.limit && b.tile[0].zero && b.tile[1].zero) continue;
    load_pair(a, b.tile, v, shared);
    if (!may_transform(v, b.limit)) return false;
    forward<LOG>(v, shared, (const Complex *)a.twiddles);
#pragma unroll
    for (int p = 0; p < SLOTS; p++) v[p] = times(v[p], spectrum[p * THREADS]);
    Complex *total = kept(sums);
#pragma unroll
    for (int p = 0; PARTS && p < SLOTS; p++) total[p] = {total[p].re + v[p].re, total[p].im + v[p].im};
  }
#pragma unroll
  for (int p = 0; PARTS && p < SLOTS; p++) v[p] = kept(sums)[p];
  return true;
}

// A pair of tiles of a filter. Notes whether they must be summed tap by tap.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) falt_fft(const __grid_constant__ Args a) {
  extern __shared__ __align__(16) unsigned char memory[];
  __shared__ Block b;
  Complex *shared = (Complex *)memory;
  const unsigned filter = blockIdx.x / a.pairs;
  if (threadIdx.x == 0) set_block(a, b, filter, blockIdx.x % a.pairs);
  Complex v[SLOTS];
  const bool exact = multiply(a, b, filter, v, shared);
  if (threadIdx.x == 0) a.sums[blockIdx.x] = !exact;
  if (!exact) return;
  inverse<LOG>(v, shared, (const Complex *)a.twiddles);
  if (EPILOGUE < 2 && !STRIDED) {
    store_tile(a, b.tile[0], v, 0, b.back);
    store_tile(a, b.tile[1], v, 1, b.back);
  } else {
#pragma unroll
    for (int p = 0; p < SLOTS; p++) shared[place<FIRST>(threadIdx.x, p)] = v[p];
#pragma unroll 1
    for (int i = 0; i < 2; i++) finish_tile(a, b.tile[i], shared, i, b.back);
  }
}

// The pairs of tiles that are summed tap by tap; SUM_THREADS threads a block.
constexpr int SUM_THREADS = 256;

__device__ inline void sum_tile(const Args &a, const Tile &b, i64 filter) {
  const i64 count = b.exists ? a.block[0] * a.block[1] * a.block[2] : 0, w = filter_at(a, filter);
#pragma unroll 1
  for (i64 i = threadIdx.x; i < count; i += SUM_THREADS) {
    const i64 out[3] = {b.first[0] + i / a.block[2] / a.block[1], b.first[1] + i / a.block[2] % a.block[1],
                        b.first[2] + i % a.block[2]};
    if (out[0] >= a.out[0] || out[1] >= a.out[1] || out[2] >= a.out[2]) continue;
    finish_one(a, b, out, sum_taps(a, b.x, out, w));
  }
}

extern "C" __global__ void __launch_bounds__(SUM_THREADS, 2) falt_fft_sums(const __grid_constant__ Args a) {
  __shared__ Tile tile[2];
#pragma unroll 1
  for (unsigned pair = blockIdx.x; pair < a.all_pairs; pair += gridDim.x) {
    if (!a.sums[pair]) continue;
    const unsigned filter = pair / a.pairs;
    __syncthreads();
    if (threadIdx.x < 2) set_tile(a, tile[threadIdx.x], filter, 2 * (i64)(pair % a.pairs) + threadIdx.x);
    __syncthreads();
#pragma unroll 1
    for (int i = 0; i < 2; i++) sum_tile(a, tile[i], filter);
  }
}

// ---- filters

// The largest magnitude of a filter's taps, and their sum. One block a filter.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) falt_fft_about(const __grid_constant__ Args a) {
  extern __shared__ __align__(16) unsigned char memory[];
  double *largest = (double *)memory, *weight = largest + THREADS;
  const i64 count = a.taps[0] * a.taps[1] * a.taps[2], w = filter_at(a, blockIdx.x);
  double most = 0, sum = 0;
#pragma unroll 1
  for (i64 i = threadIdx.x; i < count; i += THREADS) {
    const i64 at =
        i % a.taps[2] * a.w_axis[2] + i / a.taps[2] % a.taps[1] * a.w_axis[1] + i / a.taps[2] / a.taps[1] * a.w_axis[0];
    const double tap = fabs(load<double>(a.w, TYPE_W, w + at));
    most = tap > most ? tap : most;
    sum += tap;
  }
  largest[threadIdx.x] = most;
  weight[threadIdx.x] = sum;
#pragma unroll 1
  for (int half = THREADS / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x >= half) continue;
    const double other = largest[threadIdx.x + half];
    if (other > largest[threadIdx.x]) largest[threadIdx.x] = other;
    weight[threadIdx.x] += weight[threadIdx.x + half];
  }
  if (threadIdx.x > 0) return;
  falt_cuda_fft_filter about = {weight[0], 0};
  if (about.weight - about.weight == 0 && largest[0] > 0) about.exponent = ilogb(largest[0]) + 1;
  about.weight = scalbn(about.weight, -about.exponent);
  ((falt_cuda_fft_filter *)a.about)[blockIdx.x] = about;
}

// The tap of a part that stands at a place along an axis, or -1: backwards, because outputs sum what follows them.
__device__ inline i64 tap_at(const Args &a, const Part &part, int axis, int place) {
  const i64 back = place == 0 ? 0 : length_of(axis) - place, tap = back / a.dilation[axis];
  const bool is = tap * a.dilation[axis] == back && tap < a.part_taps[axis] && part.tap[axis] + tap < a.taps[axis];
  return is ? part.tap[axis] + tap : -1;
}

// The spectrum of a part of a filter. One block a part.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) falt_fft_spectrum(const __grid_constant__ Args a) {
  extern __shared__ __align__(16) unsigned char memory[];
  Complex *shared = (Complex *)memory, *spectrum = (Complex *)a.spectra + (i64)blockIdx.x * POINTS + threadIdx.x;
  const int parts = a.parts[0] * a.parts[1] * a.parts[2];
  const i64 filter = blockIdx.x / parts, w = filter_at(a, filter);
  const Part part = part_of(a, blockIdx.x % parts);
  const int exponent = ((const falt_cuda_fft_filter *)a.about)[filter].exponent;
  Complex v[SLOTS];
#pragma unroll 1
  for (int p = 0; p < SLOTS; p++) {
    const At at = coordinates(threadIdx.x + (p << FIRST));
    i64 from = w;
    bool is = true;
    for (int i = 0; i < 3; i++) {
      const i64 tap = tap_at(a, part, i, at.of[i]);
      is &= tap >= 0;
      from += tap * a.w_axis[i];
    }
    const double tap = is ? scalbn(load<double>(a.w, TYPE_W, from), -exponent) : 0;
    shared[place<FIRST>(threadIdx.x, p)] = {(Real)tap, 0};
  }
#pragma unroll
  for (int p = 0; p < SLOTS; p++) v[p] = shared[place<FIRST>(threadIdx.x, p)];
  forward<LOG>(v, shared, (const Complex *)a.twiddles);
#pragma unroll
  for (int p = 0; p < SLOTS; p++) spectrum[p * THREADS] = v[p];
}
