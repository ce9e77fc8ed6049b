// Winograd's transforms of two axes, F(m,r) for m outputs of r taps, with the points of
// docs/internals/cpu-winograd.md: 0, pairs p and -p, and infinity. The rows of a pair have the same even coefficients
// and opposite odd ones. An axis of one tap stays as it is. Compile-time parameters: TAPS_H OUTPUTS_H TAPS_W OUTPUTS_W;
// TYPE, the number of the factors' falt_type, which is that of their transforms; LANES neighbouring threads access
// neighbouring elements; FOLD (1: a boundary of the input is not constant).
#pragma once
#include "boundary.cuh"
#include "convert.cuh"
#include "cuda_winograd_args.h"

typedef long long i64;
typedef falt_cuda_winograd_args Args;

constexpr int THREADS = 128, OTHERS = THREADS / LANES;

// ---- one axis

// The points of one pair, of two and of three; their products are exact.
__device__ constexpr float point_of(int pairs, int i) {
  constexpr float points[3][3] = {{1}, {0.625f, 1.5f}, {0.5f, 1, 2}};
  return points[pairs - 1][i];
}

__device__ constexpr float power(float p, int exponent) {
  float value = 1;
  for (int i = 0; i < exponent; i++) value *= p;
  return value;
}

// The coefficient of x^(2k) in the product of x^2 - p^2 over all pairs but `without`; -1: over all.
__device__ constexpr float even_coefficient(int pairs, int without, int k) {
  float c[4] = {1};
  int degree = 0;
  for (int i = 0; i < pairs; i++) {
    const float square = point_of(pairs, i) * point_of(pairs, i);
    if (i == without) continue;
    degree++;
    for (int j = 3; j > 0; j--) c[j] = j <= degree ? c[j - 1] - square * c[j] : 0;
    c[0] *= -square;
  }
  return c[k];
}

// The reciprocal of the product of a point's distances from all others; -1: of the point 0.
__device__ constexpr float norm(int pairs, int of) {
  const float p = of < 0 ? 0 : point_of(pairs, of);
  float product = of < 0 ? 1 : 2 * p * p;
  for (int i = 0; i < pairs; i++)
    if (i != of) product *= p * p - point_of(pairs, i) * point_of(pairs, i);
  return 1 / product;
}

// The power of two by which a point's norm falls short of 1: the filter's transform is as much larger, so that it is as
// large as the filter, and the output's smaller.
__device__ constexpr float lift(int pairs, int of) {
  float value = 1;
  while (norm(pairs, of) * value < 0.5f && norm(pairs, of) * value > -0.5f) value *= 2;
  return value;
}

template <int TAPS_, int OUTPUTS_>
struct Form {
  static constexpr int TAPS = TAPS_, OUTPUTS = OUTPUTS_, SIZE = TAPS + OUTPUTS - 1, PAIRS = SIZE / 2 - 1;

  __device__ static void input(const float d[SIZE], float t[SIZE]) {
    float first = d[2 * PAIRS], last = d[2 * PAIRS + 1];
#pragma unroll
    for (int k = 0; k < PAIRS; k++) {
      first += even_coefficient(PAIRS, -1, k) * d[2 * k];
      last += even_coefficient(PAIRS, -1, k) * d[2 * k + 1];
    }
    t[0] = first;
    t[SIZE - 1] = last;
#pragma unroll
    for (int i = 0; i < PAIRS; i++) {
      float even = d[2 * PAIRS], odd = d[2 * PAIRS - 1];
#pragma unroll
      for (int k = 0; k + 1 < PAIRS; k++) {
        even += even_coefficient(PAIRS, i, k) * d[2 * k + 2];
        odd += even_coefficient(PAIRS, i, k) * d[2 * k + 1];
      }
      t[1 + 2 * i] = even + point_of(PAIRS, i) * odd;
      t[2 + 2 * i] = even - point_of(PAIRS, i) * odd;
    }
  }

  // The sums of a pair's even powers times elements, and of its odd ones.
  template <int COUNT>
  __device__ static void evaluate(int i, const float g[COUNT], float scale, float *plus, float *minus) {
    float even = scale * g[0], odd = 0;
#pragma unroll
    for (int k = 1; k < COUNT; k++) (k % 2 ? odd : even) += scale * power(point_of(PAIRS, i), k) * g[k];
    *plus = even + odd;
    *minus = even - odd;
  }

  __device__ static void filter(const float g[TAPS], float t[SIZE]) {
    t[0] = g[0] * norm(PAIRS, -1);
    t[SIZE - 1] = g[TAPS - 1];
#pragma unroll
    for (int i = 0; i < PAIRS; i++) evaluate<TAPS>(i, g, norm(PAIRS, i) * lift(PAIRS, i), &t[1 + 2 * i], &t[2 + 2 * i]);
  }

  // The transpose of `output`, for wgrad.
  __device__ static void gradient(const float y[OUTPUTS], float t[SIZE]) {
    t[0] = y[0];
    t[SIZE - 1] = y[OUTPUTS - 1];
#pragma unroll
    for (int i = 0; i < PAIRS; i++) evaluate<OUTPUTS>(i, y, 1, &t[1 + 2 * i], &t[2 + 2 * i]);
  }

  // COUNT sums of the points' products times their powers, over their norms or, where the filter's transform has these,
  // what it has more.
  template <int COUNT>
  __device__ static void interpolate(const float m[SIZE], bool normed, float y[COUNT]) {
    y[0] = normed ? m[0] * norm(PAIRS, -1) : m[0];
#pragma unroll
    for (int j = 1; j < COUNT; j++) y[j] = 0;
#pragma unroll
    for (int i = 0; i < PAIRS; i++) {
      const float sum = m[1 + 2 * i] + m[2 + 2 * i], difference = m[1 + 2 * i] - m[2 + 2 * i];
#pragma unroll
      for (int j = 0; j < COUNT; j++)
        y[j] +=
            power(point_of(PAIRS, i), j) * (normed ? norm(PAIRS, i) : 1 / lift(PAIRS, i)) * (j % 2 ? difference : sum);
    }
    y[COUNT - 1] += m[SIZE - 1];
  }

  __device__ static void output(const float m[SIZE], float y[OUTPUTS]) {
    interpolate<OUTPUTS>(m, false, y);
  }

  // The transpose of `filter`, for wgrad.
  __device__ static void products(const float m[SIZE], float g[TAPS]) {
    interpolate<TAPS>(m, true, g);
  }
};

template <>
struct Form<1, 1> {
  static constexpr int TAPS = 1, OUTPUTS = 1, SIZE = 1;
  __device__ static void input(const float d[1], float t[1]) { t[0] = d[0]; }
  __device__ static void filter(const float g[1], float t[1]) { t[0] = g[0]; }
  __device__ static void gradient(const float y[1], float t[1]) { t[0] = y[0]; }
  __device__ static void output(const float m[1], float y[1]) { y[0] = m[0]; }
  __device__ static void products(const float m[1], float g[1]) { g[0] = m[0]; }
};

typedef Form<TAPS_H, OUTPUTS_H> Height;
typedef Form<TAPS_W, OUTPUTS_W> Width;
constexpr int SIZE_H = Height::SIZE, SIZE_W = Width::SIZE;

// The second step of a transform along both axes: along the height, each column of t, whose lines are transformed.
template <int FROM, int TO, int COLUMNS, void transform(const float *, float *)>
__device__ inline void along_height(const float t[FROM][COLUMNS], float to[TO][COLUMNS]) {
#pragma unroll
  for (int j = 0; j < COLUMNS; j++) {
    float column[FROM], made[TO];
#pragma unroll
    for (int i = 0; i < FROM; i++) column[i] = t[i][j];
    transform(column, made);
#pragma unroll
    for (int i = 0; i < TO; i++) to[i][j] = made[i];
  }
}

// ---- elements

// Transforms in f16 are scaled by a power of two, so that neither they nor their rounding leave f16's range.
constexpr bool SCALED = TYPE == F16;

// The power of two that brings a largest magnitude to 64 or above, below 128: a transform is at most 225 times as
// large.
__device__ inline float scale_for(const float *magnitude) {
  const float largest = SCALED ? *magnitude : 0;
  return largest > 0 ? __uint_as_float((127 + 6 + 127 - (__float_as_uint(largest) >> 23)) << 23) : 1;
}

__device__ inline float element_of(const void *data, i64 index) {
  return load<float>(data, TYPE, index);
}

// Rounded to the 22 bits that two tf32 hold, so that the product's kernel drops nothing of a factor when it splits it.
// T. J. Dekker, "A Floating-Point Technique for Extending the Available Precision", 1971.
__device__ inline float to_two_tf32(float x) {
  const float far = __fmul_rn(x, 5);
  return __fsub_rn(far, __fsub_rn(far, x));
}

// The elements of a transform, of which each is in a matrix of its own.
template <int ROWS, int COLUMNS>
__device__ inline void store_transformed(void *data, i64 at, const float t[ROWS][COLUMNS], i64 matrix, float scale) {
#pragma unroll
  for (int i = 0; i < ROWS; i++)
#pragma unroll
    for (int j = 0; j < COLUMNS; j++, at += matrix)
      store<float>(data, TYPE, at, TYPE == F32 ? to_two_tf32(t[i][j]) : scale * t[i][j]);
}

// The products of a tile, or of a pair of channels, transformed along both axes to outputs or taps.
template <int TO_H, int TO_W, void height(const float *, float *), void width(const float *, float *)>
__device__ inline void load_transformed(const Args &a, const float *m, float y[TO_H][TO_W]) {
  float t[SIZE_H][TO_W];
  const i64 matrix = a.groups * a.m_matrix;
#pragma unroll
  for (int i = 0; i < SIZE_H; i++) {
    float s[SIZE_W];
#pragma unroll
    for (int j = 0; j < SIZE_W; j++, m += matrix) s[j] = *m;
    width(s, t[i]);
  }
  along_height<SIZE_H, TO_H, TO_W, height>(t, y);
}

// ---- places

// The index of the element at position u of an axis; negative: the constant.
__device__ inline int index_at(const Args &a, int axis, int u) {
  if (FOLD) return fold<int>(a.boundary[axis][0], a.boundary[axis][1], a.in[axis], u);
  return u < a.in[axis] ? u : -1;
}

// A thread's place in two dimensions, of which the near one has neighbours in neighbouring threads, and its group.
struct Spot {
  i64 near, far;
  int group;
};

__device__ inline Spot spot_of(i64 near, i64 far) {
  const unsigned pieces = (near + LANES - 1) / LANES, blocks = (far + OTHERS - 1) / OTHERS;
  const unsigned others = blockIdx.x / pieces;
  return {(i64)(blockIdx.x % pieces) * LANES + threadIdx.x % LANES,
          (i64)(others % blocks) * OTHERS + threadIdx.x / LANES, (int)(others / blocks)};
}

// Where a tile's first output is. Tiles are fewer than 2^28.
struct Place {
  i64 image;
  int plane, at[2];
};

__device__ inline Place place_of(const Args &a, i64 tile) {
  const unsigned row = (unsigned)tile / a.tile[1], column = (unsigned)tile % a.tile[1], plane = row / a.tile[0];
  return {plane / a.planes, (int)(plane % a.planes), {(int)(row % a.tile[0]) * OUTPUTS_H, (int)column * OUTPUTS_W}};
}

// The offset in x of an image's plane, group and channel.
__device__ inline i64 source_of(const Args &a, const Place &p, int group, int channel) {
  return p.image * a.x_image + p.plane * a.x_plane + group * a.x_group + channel * a.x_channel;
}
