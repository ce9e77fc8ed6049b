// Every problem by its definition, one thread an output (for wgrad one block an output). The index relation is that of
// src/solver/reference/reference.c: output o and tap j read position u = o*stride + j*dilation - pad, and i is the
// element that the boundary puts at u, or none.

// Compile-time parameters:
//   OPERATION          number of falt_operation
//   SUM                type of sums of products: float, double, long long (exact integers) or __int128
//   REAL               type of averages and maxima
//   INDEX              unsigned or unsigned long long: counts outputs
//   FACTORS            1: the filter of `forward` is given as terms of one factor an axis
//   POOLED             1: an output of `forward` is the maximum of a window
//   CHANNELS_FASTEST   1: neighbouring threads take neighbouring channels, else neighbouring columns

#include "args.h"
#include "boundary.cuh"
#include "convert.cuh"
#include "epilogue.cuh"

typedef long long i64;
typedef falt_cuda_generic_args Args;
enum { N, G, C, D, H, W };
// OPERATION is a number for the preprocessor, too.
enum { FORWARD, BACKWARD_DATA, BACKWARD_FILTER, MAXPOOL, AVGPOOL, BACKWARD_MAXPOOL, BACKWARD_AVGPOOL };

__device__ inline i64 at(const falt_cuda_tensor &t, i64 n, i64 g, i64 c, i64 d, i64 h, i64 w) {
  return n * t.stride[N] + g * t.stride[G] + c * t.stride[C] + d * t.stride[D] + h * t.stride[H] + w * t.stride[W];
}

// Input element of output o and tap j along axis a, or -1.
__device__ inline i64 met(const Args &p, int a, i64 o, i64 j) {
  const falt_cuda_axis &axis = p.axis[a];
  return fold<i64>(axis.boundary[0], axis.boundary[1], p.x.size[D + a],
                   o * axis.stride + j * axis.dilation - axis.pad[0]);
}

struct Pair {
  i64 u, j, o;
};

// The pairs (output, tap) of axis a that read input element i: positions u before the input, i itself, positions
// behind, each with every tap.
__device__ inline Pair before_first(const Args &p, int a, i64 i) {
  const falt_cuda_axis &axis = p.axis[a];
  const bool outside = axis.boundary[0] != CONSTANT && axis.pad[0] > 0;
  return Pair{outside ? -axis.pad[0] : i, -1, 0};
}

// Where to look after position u.
__device__ inline i64 next_position(const Args &p, int a, i64 i, i64 u) {
  if (u < 0) return u + 1 < 0 ? u + 1 : i;
  if (u < p.x.size[D + a]) return p.x.size[D + a];
  return u + 1;
}

__device__ inline bool next_pair(const Args &p, int a, i64 i, Pair &at) {
  const falt_cuda_axis &axis = p.axis[a];
  const i64 taps = p.w.size[D + a], size = p.x.size[D + a];
  const i64 last = (p.y.size[D + a] - 1) * axis.stride + (taps - 1) * axis.dilation - axis.pad[0];
  for (;;) {
    if (++at.j == taps) {
      at.j = 0;
      at.u = next_position(p, a, i, at.u);
    }
    if (at.u > last || (at.u >= size && axis.boundary[1] == CONSTANT)) return false;
    if (at.u != i && fold<i64>(axis.boundary[0], axis.boundary[1], size, at.u) != i) {
      at.j = taps - 1;
      continue;
    }
    const i64 numerator = at.u + axis.pad[0] - at.j * axis.dilation;
    at.o = numerator / axis.stride;
    if (numerator >= 0 && at.o * axis.stride == numerator && at.o < p.y.size[D + a]) return true;
  }
}

__device__ inline SUM x_at(const Args &p, i64 n, i64 g, i64 c, i64 d, i64 h, i64 w) {
  if (d < 0 || h < 0 || w < 0) return (SUM)p.boundary_value;
  return load<SUM>(p.x.data, p.x.type, at(p.x, n, g, c, d, h, w));
}

__device__ inline double factor_at(const Args &p, i64 &at, int axis, i64 tap) {
  const i64 size = p.w.size[D + axis], first = at;
  at += size;
  return load<double>(p.w.data, p.w.type, first + (p.w.stride[D + axis] < 0 && size > 1 ? size - 1 - tap : tap));
}

// A tap of a filter as factors: products and their sum in double, rounded once.
__device__ inline double tap_of(const Args &p, i64 t, i64 r, i64 s) {
  i64 at = 0;
  double sum = 0;
  for (int term = 0; term < p.factors; term++) {
    const double depth = factor_at(p, at, 0, t), height = factor_at(p, at, 1, r);
    sum += depth * height * factor_at(p, at, 2, s);
  }
  return sum;
}

__device__ inline SUM w_at(const Args &p, i64 k, i64 g, i64 c, i64 t, i64 r, i64 s) {
  if (FACTORS) return (SUM)tap_of(p, t, r, s);
  return load<SUM>(p.w.data, p.w.type, at(p.w, k, g, c, t, r, s));
}

__device__ inline SUM y_at(const Args &p, i64 n, i64 g, i64 k, i64 d, i64 h, i64 w) {
  return load<SUM>(p.y.data, p.y.type, at(p.y, n, g, k, d, h, w));
}

// A sum of any number of terms, in blocks of blocks: see partial.cuh.
struct Total {
  SUM part = 0, group = 0, all = 0;
  unsigned count = 0;

  __device__ inline void add(SUM term) {
    part += term;
    if (++count % 32) return;
    group += part;
    part = 0;
    if (count % 1024) return;
    all += group;
    group = 0;
  }
  __device__ inline SUM value() const { return all + (group + part); }
};

__device__ double forward(const Args &p, const i64 i[6]) {
  Total sum;
  for (i64 t = 0; t < p.w.size[D]; t++) {
    const i64 d = met(p, 0, i[D], t);
    for (i64 r = 0; r < p.w.size[H]; r++) {
      const i64 h = met(p, 1, i[H], r);
      for (i64 s = 0; s < p.w.size[W]; s++) {
        const i64 w = met(p, 2, i[W], s);
        for (i64 c = 0; c < p.w.size[C]; c++)
          sum.add(w_at(p, i[C], i[G], c, t, r, s) * x_at(p, i[N], i[G], c, d, h, w));
      }
    }
  }
  const i64 channel = i[G] * p.y.size[C] + i[C];
  return finish(p.epilogue, p.residual, channel, at(p.residual, i[N], i[G], i[C], i[D], i[H], i[W]),
                (double)sum.value());
}

// A call, because the sum inlined into these loops spills.
__device__ __noinline__ double forward_at(const Args &p, const i64 i[6]) {
  return forward(p, i);
}

// The largest of rounded values: NaN is 0 as an integer before it is compared.
__device__ double pooled(const Args &p, const i64 i[6]) {
  double top = -__longlong_as_double(0x7ff0000000000000);
  for (i64 d = 0; d < p.pool[0]; d++)
    for (i64 h = 0; h < p.pool[1]; h++)
      for (i64 w = 0; w < p.pool[2]; w++) {
        const i64 at[6] = {i[N], i[G], i[C], i[D] * p.pool[0] + d, i[H] * p.pool[1] + h, i[W] * p.pool[2] + w};
        double value = forward_at(p, at);
        if (p.y.type <= S32 && value != value) value = 0;
        if (value > top || value != value) top = value;
      }
  return top;
}

__device__ double backward_data(const Args &p, const i64 i[6]) {
  Total sum;
  for (Pair d = before_first(p, 0, i[D]); next_pair(p, 0, i[D], d);)
    for (Pair h = before_first(p, 1, i[H]); next_pair(p, 1, i[H], h);)
      for (Pair w = before_first(p, 2, i[W]); next_pair(p, 2, i[W], w);)
        for (i64 k = 0; k < p.w.size[0]; k++)
          sum.add(w_at(p, k, i[G], i[C], d.j, h.j, w.j) * y_at(p, i[N], i[G], k, d.o, h.o, w.o));
  return p.epilogue.alpha * (double)sum.value();
}

struct Best {
  REAL value;
  i64 d, h, w;  // taps of the first maximum; w < 0: none
};

__device__ Best window_max(const Args &p, i64 n, i64 g, i64 od, i64 oh, i64 ow) {
  Best top = {(REAL)-__longlong_as_double(0x7ff0000000000000), 0, 0, -1};
  for (i64 t = 0; t < p.w.size[D]; t++)
    for (i64 r = 0; r < p.w.size[H]; r++)
      for (i64 s = 0; s < p.w.size[W]; s++) {
        const i64 d = met(p, 0, od, t), h = met(p, 1, oh, r), w = met(p, 2, ow, s);
        if (d < 0 || h < 0 || w < 0) continue;
        const REAL value = load<REAL>(p.x.data, p.x.type, at(p.x, n, g, 0, d, h, w));
        const bool wins = top.w < 0 || value > top.value || (value != value && top.value == top.value);
        if (wins) top = Best{value, t, r, s};
      }
  return top;
}

__device__ inline bool counts(const Args &p, int a, i64 o, i64 j) {
  const falt_cuda_axis &axis = p.axis[a];
  const i64 u = o * axis.stride + j * axis.dilation - axis.pad[0];
  if (p.count_pad && u >= -axis.pad[0] && u < p.x.size[D + a] + axis.pad[1]) return true;
  return met(p, a, o, j) >= 0;
}

__device__ inline i64 counted(const Args &p, int a, i64 o) {
  i64 count = 0;
  for (i64 j = 0; j < p.w.size[D + a]; j++) count += counts(p, a, o, j);
  return count;
}

__device__ inline REAL window_count(const Args &p, i64 od, i64 oh, i64 ow) {
  return (REAL)counted(p, 0, od) * (REAL)counted(p, 1, oh) * (REAL)counted(p, 2, ow);
}

__device__ double avgpool(const Args &p, const i64 i[6]) {
  const REAL count = window_count(p, i[D], i[H], i[W]);
  REAL sum = 0;
  for (i64 t = 0; t < p.w.size[D]; t++)
    for (i64 r = 0; r < p.w.size[H]; r++)
      for (i64 s = 0; s < p.w.size[W]; s++) {
        const i64 d = met(p, 0, i[D], t), h = met(p, 1, i[H], r), w = met(p, 2, i[W], s);
        if (d >= 0 && h >= 0 && w >= 0) sum += load<REAL>(p.x.data, p.x.type, at(p.x, i[N], i[G], 0, d, h, w));
      }
  return count > 0 ? p.epilogue.alpha * (double)(sum / count) : 0;
}

__device__ double backward_maxpool(const Args &p, const i64 i[6]) {
  REAL sum = 0;
  for (Pair d = before_first(p, 0, i[D]); next_pair(p, 0, i[D], d);)
    for (Pair h = before_first(p, 1, i[H]); next_pair(p, 1, i[H], h);)
      for (Pair w = before_first(p, 2, i[W]); next_pair(p, 2, i[W], w);) {
        const Best top = window_max(p, i[N], i[G], d.o, h.o, w.o);
        if (top.d == d.j && top.h == h.j && top.w == w.j)
          sum += load<REAL>(p.y.data, p.y.type, at(p.y, i[N], i[G], 0, d.o, h.o, w.o));
      }
  return sum;
}

__device__ double backward_avgpool(const Args &p, const i64 i[6]) {
  REAL sum = 0;
  for (Pair d = before_first(p, 0, i[D]); next_pair(p, 0, i[D], d);)
    for (Pair h = before_first(p, 1, i[H]); next_pair(p, 1, i[H], h);)
      for (Pair w = before_first(p, 2, i[W]); next_pair(p, 2, i[W], w);)
        sum += load<REAL>(p.y.data, p.y.type, at(p.y, i[N], i[G], 0, d.o, h.o, w.o)) / window_count(p, d.o, h.o, w.o);
  return p.epilogue.alpha * (double)sum;
}

__device__ inline i64 digit(INDEX &rest, i64 base) {
  const INDEX quotient = rest / (INDEX)base, value = rest - quotient * (INDEX)base;
  rest = quotient;
  return value;
}

__device__ inline void locate(const falt_cuda_tensor &t, INDEX rest, i64 i[6]) {
  if (CHANNELS_FASTEST) i[C] = digit(rest, t.size[C]), i[G] = digit(rest, t.size[G]);
  i[W] = digit(rest, t.size[W]);
  i[H] = digit(rest, t.size[H]);
  i[D] = digit(rest, t.size[D]);
  if (!CHANNELS_FASTEST) i[C] = digit(rest, t.size[C]), i[G] = digit(rest, t.size[G]);
  i[N] = rest;
}

__device__ inline INDEX elements(const falt_cuda_tensor &t) {
  INDEX count = 1;
  for (int i = 0; i < 6; i++) count *= (INDEX)t.size[i];
  return count;
}

#if OPERATION != 2
// ---- one thread an output

extern "C" __global__ void __launch_bounds__(256) falt_generic(const __grid_constant__ Args p) {
  const bool to_x = OPERATION == BACKWARD_DATA || OPERATION == BACKWARD_AVGPOOL || OPERATION == BACKWARD_MAXPOOL;
  const falt_cuda_tensor &place = to_x ? p.x : p.y;
  const falt_cuda_tensor &result = OPERATION == BACKWARD_MAXPOOL ? p.residual : place;
  const INDEX index = (INDEX)blockIdx.x * 256 + threadIdx.x;
  if (index >= elements(place)) return;
  i64 i[6];
  double value;
  locate(place, index, i);
  switch (OPERATION) {
    case FORWARD:
      value = POOLED ? pooled(p, i) : forward(p, i);
      break;
    case BACKWARD_DATA:
      value = backward_data(p, i);
      break;
    case MAXPOOL:
      value = window_max(p, i[N], i[G], i[D], i[H], i[W]).value;
      break;
    case AVGPOOL:
      value = avgpool(p, i);
      break;
    case BACKWARD_MAXPOOL:
      value = backward_maxpool(p, i);
      break;
    default:
      value = backward_avgpool(p, i);
  }
  store<double>(result.data, result.type, at(result, i[N], i[G], i[C], i[D], i[H], i[W]), value);
}

#else
// ---- one block an output: sums over all positions of the output, folded in a fixed order

__device__ inline SUM block_sum(SUM sum) {
  __shared__ SUM part[256];
  part[threadIdx.x] = sum;
  for (int half = 128; half; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
  }
  return part[0];  // read by thread 0, which wrote it
}

struct Position {
  i64 n, d, h, w;
};

__device__ inline Position position(const falt_cuda_tensor &y, i64 rest) {
  Position at;
  at.w = rest % y.size[W], rest /= y.size[W];
  at.h = rest % y.size[H], rest /= y.size[H];
  at.d = rest % y.size[D], at.n = rest / y.size[D];
  return at;
}

extern "C" __global__ void __launch_bounds__(256) falt_generic_filter(const __grid_constant__ Args p) {
  const i64 count = p.y.size[N] * p.y.size[D] * p.y.size[H] * p.y.size[W];
  i64 i[6];
  locate(p.w, (INDEX)blockIdx.x, i);
  Total terms;
  for (i64 k = threadIdx.x; k < count; k += 256) {
    const Position o = position(p.y, k);
    terms.add(y_at(p, o.n, i[G], i[0], o.d, o.h, o.w) *
              x_at(p, o.n, i[G], i[C], met(p, 0, o.d, i[D]), met(p, 1, o.h, i[H]), met(p, 2, o.w, i[W])));
  }
  const SUM sum = block_sum(terms.value());
  if (threadIdx.x == 0)
    store<double>(p.w.data, p.w.type, at(p.w, i[0], i[G], i[C], i[D], i[H], i[W]), p.epilogue.alpha * (double)sum);
}

extern "C" __global__ void __launch_bounds__(256) falt_generic_bias(const __grid_constant__ Args p) {
  const i64 count = p.y.size[N] * p.y.size[D] * p.y.size[H] * p.y.size[W];
  const i64 g = blockIdx.x / p.y.size[C], k = blockIdx.x % p.y.size[C];
  Total terms;
  for (i64 n = threadIdx.x; n < count; n += 256) {
    const Position o = position(p.y, n);
    terms.add(y_at(p, o.n, g, k, o.d, o.h, o.w));
  }
  const SUM sum = block_sum(terms.value());
  if (threadIdx.x == 0) store<double>(p.epilogue.bias, p.epilogue.vector_type, blockIdx.x, (double)sum);
}
#endif
