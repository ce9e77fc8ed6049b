// Tiles of cuda_fft.cu and cuda_fft_kept.cu: where they stand, loads over every boundary, stores with the epilogue, and
// the range of numbers that may be transformed.
// Compile-time parameters: those of cuda_fft.cu; AXIS is -1, or the axis along which spectra of tiles are kept.
// WGRAD: x and dy are multiplied, and the products of all images added.
#pragma once
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
  i64 base;                     // the offset of the first point; axes of one point are folded
  int begin[3], end[3];         // of the points in the input
  int limit[3];                 // points that begin outputs, along each axis
  double fill;                  // beyond constant ends
  bool exists, zero;            // zero, of the part: all points are zeros that continue the input
  bool inside, plain;           // of the part: all points are in the input; those outside it are `fill`
};

// What a tile number counts along an axis: tiles, or segments of several tiles along AXIS.
__device__ inline unsigned radix_of(const Args &a, int axis) {
  return axis == AXIS ? a.segments : (unsigned)a.tiles[axis];
}

__device__ inline void set_image(const Args &a, Tile &b, unsigned filter, unsigned image) {
  const unsigned groups = a.groups, filters = a.filters;
  const unsigned n = a.one_filter ? image / groups : image, g = a.one_filter ? image % groups : filter / filters;
  const unsigned k = a.one_filter ? 0 : filter % filters;
  b.x = n * a.x_batch[0] + g * a.x_batch[1];
  b.y = n * a.y_batch[0] + g * a.y_batch[1] + k * a.y_batch[2];
  b.residual = n * a.residual.stride[0] + g * a.residual.stride[1] + k * a.residual.stride[2];
  b.channel = (i64)g * filters + k;
}

// Tile `number` of a filter: tiles of one image follow each other. Along AXIS it is tile `index` of a segment.
__device__ inline void set_tile(const Args &a, Tile &b, unsigned filter, unsigned number, unsigned index) {
  b.exists = number < a.boxes;
  b.fill = b.exists ? a.fill : 0;
  if (!b.exists) number = 0;
  unsigned tile = number % a.image_boxes;
  set_image(a, b, filter, number / a.image_boxes);
  for (int i = 2; i >= 0; i--) {
    const unsigned radix = radix_of(a, i);
    i64 at = tile % radix;
    tile /= radix;
    if (i == AXIS) at = at * a.steps + index;
    b.first[i] = at * a.block[i];
    const i64 rest = a.out[i] - b.first[i], outputs = rest < a.block[i] ? rest : a.block[i];
    b.limit[i] = b.exists && outputs > 0 ? (int)((outputs - 1) * a.stride[i]) + 1 : 0;
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

__device__ inline int within(i64 point, int length) {
  return point < 0 ? 0 : point > length ? length : (int)point;
}

// The points from `from` on along an axis of the input.
__device__ inline void set_range(const Args &a, Tile &b, int i, i64 from) {
  const int length = length_of(i);
  if (length == 1) {
    const i64 u = fold<i64>(a.boundary[i][0], a.boundary[i][1], a.in[i], from);
    b.begin[i] = 0;
    b.end[i] = u >= 0;
    if (u >= 0) b.base += u * a.x_axis[i];
    return;
  }
  b.begin[i] = within(-from, length);
  b.end[i] = within(a.in[i] - from, length);
  b.base += from * a.x_axis[i];
  b.plain &= b.begin[i] == 0 || a.boundary[i][0] == CONSTANT;
  b.plain &= b.end[i] == length || a.boundary[i][1] == CONSTANT;
}

__device__ inline void set_part(const Args &a, Tile &b, int number) {
  const Part part = part_of(a, number);
  b.base = b.x;
  b.plain = true;
  b.inside = b.exists;
  b.zero = !b.exists;
  for (int i = 0; i < 3; i++) {
    const i64 from = b.first[i] * a.stride[i] - a.pad[i] - a.shift[i] + part.tap[i] * a.dilation[i];
    const i64 end = from + length_of(i);
    b.from[i] = from;
    set_range(a, b, i, from);
    b.inside &= b.begin[i] == 0 && b.end[i] == length_of(i);
    b.zero |= a.fill == 0 &&
              ((from >= a.in[i] && a.boundary[i][1] == CONSTANT) || (end <= 0 && a.boundary[i][0] == CONSTANT));
  }
}

// A tile inside the input. The points of a thread's slots are at distances that all threads share.
__device__ inline void load_inside(const Args &a, const Tile &b, int which, Complex v[SLOTS]) {
  const At mine = coordinates(threadIdx.x);
  i64 base = b.base;
#pragma unroll
  for (int i = 0; i < 3; i++)
    if (length_of(i) > 1) base += mine.of[i] * a.x_axis[i];
#pragma unroll
  for (int p = 0; p < SLOTS; p++) {
    const At far = coordinates(p << FIRST);
    const i64 at = base + far.of[0] * a.x_axis[0] + far.of[1] * a.x_axis[1] + far.of[2] * a.x_axis[2];
    part_of_point(v[p], which) = load<Real>(a.x, TYPE_X, at);
  }
}

// The points of a tile in the input, in registers.
struct Edge {
  i64 base;
  int begin[3], count[3];
  Real fill;
};

__device__ inline Edge edge_of(const Tile &b) {
  Edge e = {b.base, {}, {}, (Real)b.fill};
#pragma unroll
  for (int i = 0; i < 3; i++) {
    e.begin[i] = b.begin[i];
    e.count[i] = b.exists ? b.end[i] - b.begin[i] : 0;
  }
  return e;
}

// The element at a point of any tile. PLAIN: points outside the input are constant.
template <bool PLAIN>
__device__ inline Real element(const Args &a, const Tile &b, const Edge &e, const At &at) {
  i64 to = e.base;
  bool is = true;
#pragma unroll
  for (int i = 0; i < 3; i++) {
    const bool inside = (unsigned)(at.of[i] - e.begin[i]) < (unsigned)e.count[i];
    if (PLAIN || inside || length_of(i) == 1) {
      is &= inside;
      if (length_of(i) > 1) to += at.of[i] * a.x_axis[i];
    } else {
      const i64 folded = fold<i64>(a.boundary[i][0], a.boundary[i][1], a.in[i], b.from[i] + at.of[i]);
      is &= folded >= 0 && b.exists;
      to += (folded - b.from[i]) * a.x_axis[i];
    }
  }
  return is ? load<Real>(a.x, TYPE_X, to) : e.fill;
}

// Any tile, through the thread's places in shared memory: a few loads at a time, in few registers.
template <bool PLAIN>
__device__ inline void load_edged(const Args &a, const Tile &b, int which, Complex *shared) {
  constexpr int LOADS = (PLAIN ? 32 : 16) / sizeof(Real);
  const Edge e = edge_of(b);
#pragma unroll 1
  for (int first = 0; first < SLOTS; first += LOADS) {
    Real value[LOADS];
#pragma unroll
    for (int i = 0; i < LOADS; i++)
      value[i] = element<PLAIN>(a, b, e, coordinates(threadIdx.x + ((first + i) << FIRST)));
#pragma unroll
    for (int i = 0; i < LOADS; i++) part_of_point(shared[place<FIRST>(threadIdx.x, first + i)], which) = value[i];
  }
}

__device__ inline void load_pair(const Args &a, const Tile tile[2], Complex v[SLOTS], Complex *shared) {
  if (tile[0].inside && tile[1].inside) {
    load_inside(a, tile[0], 0, v);
    load_inside(a, tile[1], 1, v);
    return;
  }
#pragma unroll 1
  for (int which = 0; which < 2; which++)
    if (tile[which].plain)
      load_edged<true>(a, tile[which], which, shared);
    else
      load_edged<false>(a, tile[which], which, shared);
#pragma unroll
  for (int p = 0; p < SLOTS; p++) v[p] = shared[place<FIRST>(threadIdx.x, p)];
}

// ---- outputs

__device__ inline void finish_one(const Args &a, const Tile &b, const i64 out[3], double sum) {
  i64 y = b.y, r = b.residual;
#pragma unroll
  for (int i = 0; i < 3; i++) {
    y += out[i] * a.y_axis[i];
    r += out[i] * a.residual.stride[3 + i];
  }
  store<double>(a.y, TYPE_Y, y, finish(a.epilogue, a.residual, b.channel, r, sum));
}

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
  int room[3];  // points of outputs, from the thread's on
#pragma unroll
  for (int i = 0; i < 3; i++) {
    base += (b.first[i] + mine.of[i]) * a.y_axis[i];
    room[i] = b.limit[i] - mine.of[i];
  }
#pragma unroll
  for (int p = 0; p < SLOTS; p++) {
    const At far = coordinates(p << FIRST);
    if (far.of[0] >= room[0] || far.of[1] >= room[1] || far.of[2] >= room[2]) continue;
    const i64 to = base + far.of[0] * a.y_axis[0] + far.of[1] * a.y_axis[1] + far.of[2] * a.y_axis[2];
    const Real sum = sum_of(which ? v[p].im : v[p].re, back);
    store<Real>(a.y, TYPE_Y, to, EPILOGUE ? (Real)a.epilogue.alpha * sum + (Real)a.epilogue.beta : sum);
  }
}

// The sum, or alpha * sum + beta, as integers: their conversion takes registers, so a few points at a time from the
// thread's places in shared memory.
__device__ inline void store_integers(const Args &a, const Tile &b, const Complex *shared, int which,
                                      const Back &back) {
#pragma unroll 2
  for (int p = 0; p < SLOTS; p++) {
    const At at = coordinates(threadIdx.x + (p << FIRST));
    if (!is_output(a, b, at)) continue;
    i64 to = b.y;
#pragma unroll
    for (int i = 0; i < 3; i++) to += (b.first[i] + at.of[i]) * a.y_axis[i];
    const Complex value = shared[place<FIRST>(threadIdx.x, p)];
    const Real sum = sum_of(which ? value.im : value.re, back);
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

// ---- blocks

// A pair of lines of tiles along AXIS.
struct Strand {
  unsigned filter, pair;
};

__device__ inline Strand strand_of(const Args &a, unsigned number) {
  const unsigned all = a.first_strand + number;
  return {all / a.strand_pairs, all % a.strand_pairs};
}

// What all threads of a block know.
struct Block {
  Tile tile[2];
  unsigned limit;
  Back back;
};

// The line of a tile of a pair. Outputs of wgrad are sums over all images: one line.
template <bool OUTPUT>
__device__ inline unsigned line_of(const Args &a, unsigned pair, unsigned which) {
  return !OUTPUT || !WGRAD ? 2 * pair + which : which ? (unsigned)a.boxes : 0;
}

// A pair of tiles of a filter; along AXIS they are tiles `index` of their segments. For all threads, before a barrier.
template <bool OUTPUT>
__device__ inline void set_block(const Args &a, Block &b, unsigned filter, unsigned pair, unsigned index) {
  if (threadIdx.x < 2) set_tile(a, b.tile[threadIdx.x], filter, line_of<OUTPUT>(a, pair, threadIdx.x), index);
  if (threadIdx.x != THREADS - 1) return;
  const falt_cuda_fft_filter about = ((const falt_cuda_fft_filter *)a.about)[filter];
  const int exponent = about.exponent - LOG, half = exponent / 2;
  b.limit = about.weight <= LARGE ? magnitude((Real)(LARGE / (about.weight > 1 ? about.weight : 1))) : 0;
  b.back = {(Real)scalbn(1.0, half), (Real)scalbn(1.0, exponent - half)};
}

// The way back from the products, and the outputs.
__device__ inline void finish_pair(const Args &a, const Block &b, Complex v[SLOTS], Complex *shared) {
  inverse<LOG>(v, shared, (const Complex *)a.twiddles);
  const Back back = b.back;
  constexpr bool SHORT = EPILOGUE < 2 && !STRIDED;
  if (SHORT && TYPE_Y >= F16) {
    store_tile(a, b.tile[0], v, 0, back);
    store_tile(a, b.tile[1], v, 1, back);
    return;
  }
#pragma unroll
  for (int p = 0; p < SLOTS; p++) shared[place<FIRST>(threadIdx.x, p)] = v[p];
#pragma unroll 1
  for (int i = 0; i < 2; i++)
    if (SHORT)
      store_integers(a, b.tile[i], shared, i, back);
    else
      finish_tile(a, b.tile[i], shared, i, back);
}
