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
//   AXIS                   -1, or the axis along which cuda_fft_partitioned.cu keeps spectra
//   WGRAD                  1: the taps are dy, and the outputs dw, summed over images

#include "cuda_fft_tile.cuh"

// ---- sums

__device__ inline i64 filter_at(const Args &a, unsigned filter) {
  const unsigned filters = a.filters;
  return a.one_filter ? 0 : filter / filters * a.w_batch[0] + filter % filters * a.w_batch[1];
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

// ---- the kernels

#if AXIS < 0  // cuda_fft_partitioned.cu has kernels of its own for these
// Local memory that the compiler does not put into registers: sums over the parts of a filter are rarely accessed.
__device__ inline Complex *kept(Complex *local) {
  asm("" : "+l"(local));
  return local;
}

// The points' products with the spectrum of each part, added; false if they must not be transformed.
__device__ inline bool multiply(const Args &a, Block &b, i64 filter, Complex v[SLOTS], Complex *shared) {
  const int parts = PARTS ? a.parts[0] * a.parts[1] * a.parts[2] : 1;
  Complex sums[PARTS ? SLOTS : 1];
#pragma unroll
  for (int p = 0; PARTS && p < SLOTS; p++) kept(sums)[p] = {0, 0};
#pragma unroll 1
  for (int i = 0; i < parts; i++) {
    __syncthreads();
    if (threadIdx.x < 2) set_part(a, b.tile[threadIdx.x], i);
    __syncthreads();
    if (PARTS && b.limit && b.tile[0].zero && b.tile[1].zero) continue;
    load_pair(a, b.tile, v, shared);
    if (!may_transform(v, b.limit)) return false;
    forward<LOG>(v, shared, (const Complex *)a.twiddles);
    const Complex *spectrum = (const Complex *)a.spectra + (filter * parts + i) * POINTS + threadIdx.x;
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
  set_block<true>(a, b, filter, blockIdx.x % a.pairs, 0);
  Complex v[SLOTS];
  const bool exact = multiply(a, b, filter, v, shared);
  if (threadIdx.x == 0) a.sums[blockIdx.x] = !exact;
  if (!exact) return;
  finish_pair(a, b, v, shared);
}

#endif

// The pairs of tiles that are summed tap by tap; SUM_THREADS threads a block.
constexpr int SUM_THREADS = 256;

__device__ inline void sum_tile(const Args &a, const Tile &b, i64 filter) {
  const i64 count = b.exists ? a.block[0] * a.block[1] * a.block[2] : 0, w = filter_at(a, filter);
#pragma unroll 1
  for (i64 i = threadIdx.x; i < count; i += SUM_THREADS) {
    const i64 out[3] = {b.first[0] + i / a.block[2] / a.block[1], b.first[1] + i / a.block[2] % a.block[1],
                        b.first[2] + i % a.block[2]};
    if (out[0] >= a.out[0] || out[1] >= a.out[1] || out[2] >= a.out[2]) continue;
    double sum = 0;
#pragma unroll 1
    for (i64 n = 0; n < (WGRAD ? a.images : 1); n++) sum += sum_taps(a, b.x + n * a.x_batch[0], out, w + n * a.w_image);
    finish_one(a, b, out, sum);
  }
}

extern "C" __global__ void __launch_bounds__(SUM_THREADS, 2) falt_fft_sums(const __grid_constant__ Args a) {
  __shared__ Tile tile[2];
#pragma unroll 1
  for (unsigned pair = blockIdx.x; pair < a.all_pairs; pair += gridDim.x) {
    if (!a.sums[pair]) continue;
    const unsigned filter = pair / a.pairs;
    __syncthreads();
    const unsigned number = pair % a.pairs;
    if (threadIdx.x < 2)
      set_tile(a, tile[threadIdx.x], filter, line_of<true>(a, number / a.steps, threadIdx.x), number % a.steps);
    __syncthreads();
#pragma unroll 1
    for (int i = 0; i < 2; i++) sum_tile(a, tile[i], filter);
  }
}

// ---- filters

// The offset of tap `i` of a filter of `count` taps; of wgrad, of all images' filters.
template <typename Index>
__device__ inline i64 tap_offset(const Args &a, Index i, Index count) {
  const Index width = (Index)a.taps[2], height = (Index)a.taps[1], image = WGRAD ? i / count : 0;
  const Index tap = i - image * count, row = tap / width, plane = row / height;
  return (i64)image * a.w_image + (i64)(tap - row * width) * a.w_axis[2] + (i64)(row - plane * height) * a.w_axis[1] +
         (i64)plane * a.w_axis[0];
}

// This thread's taps of a filter: the largest magnitude and the sum.
template <typename Index>
__device__ inline void scan_taps(const Args &a, i64 w, Index count, Index all, double &most, double &sum) {
#pragma unroll 4
  for (Index i = threadIdx.x; i < all; i += THREADS) {
    const double tap = fabs(load<double>(a.w, TYPE_W, w + tap_offset(a, i, count)));
    most = tap > most ? tap : most;
    sum += tap;
  }
}

// The largest magnitude of a filter's taps, and their sum. One block a filter.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) falt_fft_about(const __grid_constant__ Args a) {
  extern __shared__ __align__(16) unsigned char memory[];
  double *largest = (double *)memory, *weight = largest + THREADS;
  const i64 count = a.taps[0] * a.taps[1] * a.taps[2], all = count * (WGRAD ? a.images : 1),
            w = filter_at(a, blockIdx.x);
  double most = 0, sum = 0;
  if (all < 1 << 30)  // where division is short
    scan_taps(a, w, (unsigned)count, (unsigned)all, most, sum);
  else
    scan_taps(a, w, count, all, most, sum);
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
  constexpr i64 FAR = 1 << 30;  // than any place
  const int back = (place == 0 ? 0 : length_of(axis) - place) - (int)a.shift[axis];
  const i64 gap = a.dilation[axis];
  const int tap = gap == 1 ? back : (int)((unsigned)back / (unsigned)(gap < FAR ? gap : FAR));
  const bool is = back >= 0 && tap * gap == back && tap < a.part_taps[axis] && part.tap[axis] + tap < a.taps[axis];
  return is ? part.tap[axis] + tap : -1;
}

// The filter's taps of a part at a point of the tile, without its image; false if there is none.
__device__ inline bool tap_of(const Args &a, const Part &part, const At &at, i64 &offset) {
  bool is = true;
#pragma unroll
  for (int i = 0; i < 3; i++) {
    const i64 tap = tap_at(a, part, i, at.of[i]);
    is &= tap >= 0;
    offset += tap * a.w_axis[i];
  }
  return is;
}

// A part of a filter times two powers of two, through the thread's places in shared memory.
__device__ inline void load_part(const Args &a, const Part &part, i64 w, double one, double two, int which,
                                 Complex *shared) {
  constexpr int LOADS = 4;
#pragma unroll 1
  for (int first = 0; first < SLOTS; first += LOADS) {
    double tap[LOADS];
#pragma unroll
    for (int i = 0; i < LOADS; i++) {
      i64 from = w;
      const bool is = tap_of(a, part, coordinates(threadIdx.x + ((first + i) << FIRST)), from);
      tap[i] = is ? load<double>(a.w, TYPE_W, from) : 0;
    }
#pragma unroll
    for (int i = 0; i < LOADS; i++)
      part_of_point(shared[place<FIRST>(threadIdx.x, first + i)], which) = (Real)(tap[i] * one * two);
  }
}

// A part of a filter, through the thread's places in shared memory; of wgrad, of the conjugate of a pair of images of
// dy.
__device__ inline void load_filter(const Args &a, const Part &part, const Strand &s, Complex v[SLOTS],
                                   Complex *shared) {
  const i64 w = filter_at(a, s.filter) + 2 * (i64)s.pair * a.w_image;
  const int exponent = -((const falt_cuda_fft_filter *)a.about)[s.filter].exponent;
  const double one = scalbn(1.0, exponent / 2), two = scalbn(1.0, exponent - exponent / 2);
  const bool second = WGRAD && 2 * (i64)s.pair + 1 < a.images;
  load_part(a, part, w, one, two, 0, shared);
  if (second) load_part(a, part, w + a.w_image, -one, two, 1, shared);
#pragma unroll
  for (int p = 0; p < SLOTS; p++) {
    v[p] = shared[place<FIRST>(threadIdx.x, p)];
    if (!second) v[p].im = 0;
  }
}

// The spectrum of a part of a filter. One block a part.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) falt_fft_spectrum(const __grid_constant__ Args a) {
  extern __shared__ __align__(16) unsigned char memory[];
  Complex *shared = (Complex *)memory, *spectrum = (Complex *)a.spectra + (i64)blockIdx.x * POINTS + threadIdx.x;
  const int parts = a.parts[0] * a.parts[1] * a.parts[2];
  const unsigned number = blockIdx.x / parts;
  const Strand s = WGRAD ? strand_of(a, number) : Strand{(unsigned)number, 0};
  Complex v[SLOTS];
  load_filter(a, part_of(a, blockIdx.x % parts), s, v, shared);
  forward<LOG>(v, shared, (const Complex *)a.twiddles);
#pragma unroll
  for (int p = 0; p < SLOTS; p++) spectrum[p * THREADS] = v[p];
}

// ---- wgrad whose dy fits in a tile

#if WGRAD && AXIS < 0
// The products of the transforms of x and dy, added over the pairs of images; false if they must not be transformed.
__device__ inline bool sum_pairs(const Args &a, Block &b, unsigned filter, Complex v[SLOTS], Complex *shared) {
  Complex sums[SLOTS], input[SLOTS];
#pragma unroll
  for (int p = 0; p < SLOTS; p++) kept(sums)[p] = {0, 0};
#pragma unroll 1
  for (unsigned pair = 0; pair < a.strand_pairs; pair++) {
    __syncthreads();
    set_block<false>(a, b, filter, pair, 0);
    if (threadIdx.x < 2) set_part(a, b.tile[threadIdx.x], 0);
    __syncthreads();
    load_pair(a, b.tile, v, shared);
    if (b.limit == 0 || !may_transform(v, b.limit)) return false;
    forward<LOG>(v, shared, (const Complex *)a.twiddles);
#pragma unroll
    for (int p = 0; p < SLOTS; p++) kept(input)[p] = v[p];
    __syncthreads();
    load_filter(a, part_of(a, 0), Strand{filter, pair}, v, shared);
    forward<LOG>(v, shared, (const Complex *)a.twiddles);
#pragma unroll
    for (int p = 0; p < SLOTS; p++) {
      const Complex product = times(v[p], kept(input)[p]), sum = kept(sums)[p];
      kept(sums)[p] = {sum.re + product.re, sum.im + product.im};
    }
  }
#pragma unroll
  for (int p = 0; p < SLOTS; p++) v[p] = kept(sums)[p];
  return true;
}

// The gradient of a filter. Notes whether it must be summed tap by tap. One block a filter.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) falt_fft_wgrad(const __grid_constant__ Args a) {
  extern __shared__ __align__(16) unsigned char memory[];
  __shared__ Block b;
  Complex *shared = (Complex *)memory;
  Complex v[SLOTS];
  const bool exact = sum_pairs(a, b, blockIdx.x, v, shared);
  if (threadIdx.x == 0) a.sums[blockIdx.x] = !exact;
  if (!exact) return;
  __syncthreads();
  set_block<true>(a, b, blockIdx.x, 0, 0);
  __syncthreads();
  finish_pair(a, b, v, shared);
}
#endif
