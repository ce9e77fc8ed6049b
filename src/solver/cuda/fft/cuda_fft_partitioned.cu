// Filters in parts along one axis, with the spectra of tiles kept in memory (uniformly partitioned overlap-save). A
// tile of the input is transformed once, and each sum of products takes the spectra of neighbouring tiles, one a part:
// a direct convolution along AXIS at each frequency. Three kernels: transforms of the input, products, transforms back.
// Compile-time parameters: those of cuda_fft.cu, and
//   GROUP   tiles whose products a thread sums

#include "cuda_fft_tile.cuh"

// The inputs of a strand that are not zeros beyond the ends.
struct Live {
  int begin, end;
};

// `b` is tile `index` of its segment.
__device__ inline void add_live(const Args &a, const Tile &b, unsigned index, Live &live) {
  const i64 step = a.block[AXIS] * a.stride[AXIS];
  const i64 from = b.first[AXIS] * a.stride[AXIS] - index * step - a.pad[AXIS] - a.shift[AXIS];
  const i64 before = -(from + length_of(AXIS)), rest = a.in[AXIS] - from;
  i64 begin = 0, end = a.inputs;
  if (a.fill == 0 && a.boundary[AXIS][0] == CONSTANT && before >= 0) begin = before / step + 1;
  if (a.fill == 0 && a.boundary[AXIS][1] == CONSTANT) end = rest > 0 ? (rest + step - 1) / step : 0;
  if (begin < live.begin) live.begin = (int)begin;
  if (end > live.end) live.end = (int)(end < a.inputs ? end : a.inputs);
}

__device__ inline Live live_of(const Args &a, const Tile tile[2], unsigned index) {
  Live live = {(int)a.inputs, 0};
#pragma unroll 1
  for (int i = 0; i < 2; i++)
    if (tile[i].exists) add_live(a, tile[i], index, live);
  return live;
}

__device__ inline Complex *spectrum_at(void *all, i64 number) {
  return (Complex *)all + number * POINTS;
}

// The spectrum of a pair of tiles of the input. Notes whether it is not transformed.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) falt_fft_keep(const __grid_constant__ Args a) {
  extern __shared__ __align__(16) unsigned char memory[];
  __shared__ Block b;
  __shared__ Live live;
  Complex *shared = (Complex *)memory;
  const int input = blockIdx.x % a.inputs;
  const Strand s = strand_of(a, blockIdx.x / a.inputs);
  set_block<false>(a, b, s.filter, s.pair, input);
  if (threadIdx.x < 2) set_part(a, b.tile[threadIdx.x], 0);
  __syncthreads();
  if (threadIdx.x == 0) live = live_of(a, b.tile, input);
  __syncthreads();
  const bool dead = input < live.begin || input >= live.end;
  Complex v[SLOTS];
  if (!dead) load_pair(a, b.tile, v, shared);
  const bool bad = !dead && !may_transform(v, b.limit);
  if (threadIdx.x == 0) a.bad[blockIdx.x] = bad;
  if (dead || bad) return;
  forward<LOG>(v, shared, (const Complex *)a.twiddles);
  Complex *to = spectrum_at(a.kept, blockIdx.x) + threadIdx.x;
#pragma unroll
  for (int p = 0; p < SLOTS; p++) to[p * THREADS] = v[p];
}

// ---- products

constexpr int PRODUCT_THREADS = 256;

__device__ inline void add_product(Complex &sum, Complex a, Complex b) {
  sum.re = fma(a.re, b.re, fma(-a.im, b.im, sum.re));
  sum.im = fma(a.re, b.im, fma(a.im, b.re, sum.im));
}

__device__ inline Complex input_at(const Complex *kept, const Live &live, int input) {
  return input >= live.begin && input < live.end ? kept[(i64)input * POINTS] : Complex{0, 0};
}

// Adds products of GROUP tiles from the first, at one frequency. The spectra of GROUP neighbouring inputs are in
// registers; the next one is loaded before the products with these.
__device__ inline void sum_products(const Complex *kept, const Complex *taps, int parts, const Live &live, int first,
                                    Complex sum[GROUP]) {
  Complex window[GROUP];
  const int begin = max(0, live.begin - first - (GROUP - 1)), end = min(parts, live.end - first);
  if (begin >= end) return;
#pragma unroll
  for (int g = 0; g < GROUP; g++) window[g] = input_at(kept, live, first + begin + g);
  Complex tap = taps[(i64)begin * POINTS];
#pragma unroll 1
  for (int part = begin; part < end; part += GROUP)
#pragma unroll
    for (int q = 0; q < GROUP; q++) {
      const int next = part + q + 1;
      if (next > end) break;
      const Complex input = next < end ? input_at(kept, live, first + next + GROUP - 1) : Complex{0, 0};
      const Complex next_tap = taps[(i64)(next < end ? next : part) * POINTS];
#pragma unroll
      for (int g = 0; g < GROUP; g++) add_product(sum[g], window[(q + g) % GROUP], tap);
      window[q] = input;
      tap = next_tap;
    }
}

// A unit is a strand, or all strands of a filter whose products are added (WGRAD). Blocks of neighbouring units follow
// each other: they read the same part of the filter's spectra.
extern "C" __global__ void __launch_bounds__(PRODUCT_THREADS, sizeof(Real) == 8 ? 1 : 2)
    falt_fft_products(const __grid_constant__ Args a) {
  __shared__ Live live;
  __shared__ Tile tile[2];
  const unsigned units = WGRAD ? a.strands / a.strand_pairs : a.strands;
  const unsigned unit = blockIdx.x % units, rest = blockIdx.x / units, strands = a.strands / units;
  const unsigned groups = (a.steps + GROUP - 1) / GROUP;
  const int first = rest % groups * GROUP, point = rest / groups * PRODUCT_THREADS + threadIdx.x;
  const Strand s = strand_of(a, unit * strands);
  if (threadIdx.x < 2) set_tile(a, tile[threadIdx.x], s.filter, line_of<false>(a, s.pair, threadIdx.x), 0);
  __syncthreads();
  if (threadIdx.x == 0) live = live_of(a, tile, 0);
  __syncthreads();
  const i64 filter = WGRAD ? (i64)unit * strands : s.filter;
  const Complex *taps = spectrum_at(a.spectra, filter * a.parts[AXIS]) + point;
  const Complex *kept = spectrum_at(a.kept, (i64)unit * strands * a.inputs) + point;
  Complex *to = spectrum_at(a.products, (i64)unit * a.steps) + point, sum[GROUP];
#pragma unroll
  for (int g = 0; g < GROUP; g++) sum[g] = {0, 0};
#pragma unroll 1
  for (unsigned i = 0; i < strands; i++, taps += (i64)a.parts[AXIS] * POINTS, kept += (i64)a.inputs * POINTS)
    sum_products(kept, taps, a.parts[AXIS], live, first, sum);
#pragma unroll
  for (int g = 0; g < GROUP; g++)
    if (first + g < a.steps) to[(i64)(first + g) * POINTS] = sum[g];
}

// ---- back

// Whether an output tile reads an input that is not transformed.
__device__ inline bool reads_bad(const Args &a, const unsigned char *bad) {
  bool any = false;
#pragma unroll 1
  for (int part = threadIdx.x; part < a.parts[AXIS]; part += THREADS) any |= bad[part] != 0;
  return __syncthreads_or(any);
}

// A pair of tiles of outputs. Notes whether they must be summed tap by tap.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) falt_fft_back(const __grid_constant__ Args a) {
  extern __shared__ __align__(16) unsigned char memory[];
  __shared__ Block b;
  Complex *shared = (Complex *)memory;
  const unsigned strands = WGRAD ? a.strand_pairs : 1, unit = blockIdx.x / a.steps, step = blockIdx.x % a.steps;
  const Strand s = strand_of(a, unit * strands);
  set_block<true>(a, b, s.filter, s.pair, step);
  bool bad = false;
#pragma unroll 1
  for (unsigned i = 0; i < strands; i++) bad |= reads_bad(a, a.bad + ((i64)unit * strands + i) * a.inputs + step);
  bad |= b.limit == 0;
  if (threadIdx.x == 0) a.sums[(i64)(a.first_strand / strands) * a.steps + blockIdx.x] = bad;
  if (bad) return;
  const Complex *from = spectrum_at(a.products, blockIdx.x) + threadIdx.x;
  Complex v[SLOTS];
#pragma unroll
  for (int p = 0; p < SLOTS; p++) v[p] = from[p * THREADS];
  finish_pair(a, b, v, shared);
}
