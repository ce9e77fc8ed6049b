// Winograd's transforms of one axis, F(2,3) and F(4,3), with the points of docs/internals/cpu-winograd.md: 0, the pairs
// p and -p, and infinity. The rows of a pair have the same even coefficients and opposite odd ones. Compile-time
// parameters: PAIRS (1: F(2,3), 2: F(4,3)); LANES neighbouring threads access neighbouring elements; FOLD (1: a
// boundary of the input is not constant).
#pragma once
#include "boundary.cuh"
#include "cuda_winograd_args.h"

typedef long long i64;
typedef falt_cuda_winograd_args Args;

constexpr int TAPS = 3, OUTPUTS = 2 * PAIRS, SIZE = OUTPUTS + TAPS - 1, POINTS = SIZE * SIZE;
constexpr int THREADS = 128, OTHERS = THREADS / LANES;

// The points of F(4,3); their products are exact.
constexpr float P = 0.625f, Q = 1.5f, PP = P * P, QQ = Q * Q;
constexpr float OF_P = 1 / (2 * PP * (PP - QQ)), OF_Q = 1 / (2 * QQ * (QQ - PP));

__device__ inline void transform_input(const float d[SIZE], float t[SIZE]) {
  if constexpr (PAIRS == 1) {
    t[0] = d[2] - d[0];
    t[1] = d[2] + d[1];
    t[2] = d[2] - d[1];
    t[3] = d[3] - d[1];
  } else {
    const float even_p = d[4] - QQ * d[2], odd_p = d[3] - QQ * d[1], even_q = d[4] - PP * d[2],
                odd_q = d[3] - PP * d[1];
    t[0] = d[4] - (PP + QQ) * d[2] + PP * QQ * d[0];
    t[1] = even_p + P * odd_p;
    t[2] = even_p - P * odd_p;
    t[3] = even_q + Q * odd_q;
    t[4] = even_q - Q * odd_q;
    t[5] = d[5] - (PP + QQ) * d[3] + PP * QQ * d[1];
  }
}

__device__ inline void transform_filter(const float g[TAPS], float t[SIZE]) {
  if constexpr (PAIRS == 1) {
    const float even = g[0] + g[2];
    t[0] = -g[0];
    t[1] = 0.5f * (even + g[1]);
    t[2] = 0.5f * (even - g[1]);
  } else {
    const float even_p = g[0] + PP * g[2], even_q = g[0] + QQ * g[2];
    t[0] = g[0] * (1 / (PP * QQ));
    t[1] = (even_p + P * g[1]) * OF_P;
    t[2] = (even_p - P * g[1]) * OF_P;
    t[3] = (even_q + Q * g[1]) * OF_Q;
    t[4] = (even_q - Q * g[1]) * OF_Q;
  }
  t[SIZE - 1] = g[TAPS - 1];
}

__device__ inline void transform_output(const float m[SIZE], float y[OUTPUTS]) {
  const float sum_p = m[1] + m[2], difference_p = m[1] - m[2];
  if constexpr (PAIRS == 1) {
    y[0] = m[0] + sum_p;
    y[1] = m[3] + difference_p;
  } else {
    const float sum_q = m[3] + m[4], difference_q = m[3] - m[4];
    y[0] = m[0] + sum_p + sum_q;
    y[1] = P * difference_p + Q * difference_q;
    y[2] = PP * sum_p + QQ * sum_q;
    y[3] = PP * P * difference_p + QQ * Q * difference_q + m[5];
  }
}

// The transposes of transform_output and transform_filter, for wgrad.
__device__ inline void transform_gradient(const float y[OUTPUTS], float t[SIZE]) {
  if constexpr (PAIRS == 1) {
    t[1] = y[0] + y[1];
    t[2] = y[0] - y[1];
  } else {
    const float even_p = y[0] + PP * y[2], odd_p = P * y[1] + PP * P * y[3];
    const float even_q = y[0] + QQ * y[2], odd_q = Q * y[1] + QQ * Q * y[3];
    t[1] = even_p + odd_p;
    t[2] = even_p - odd_p;
    t[3] = even_q + odd_q;
    t[4] = even_q - odd_q;
  }
  t[0] = y[0];
  t[SIZE - 1] = y[OUTPUTS - 1];
}

__device__ inline void transform_products(const float m[SIZE], float g[TAPS]) {
  const float sum_p = m[1] + m[2], difference_p = m[1] - m[2];
  if constexpr (PAIRS == 1) {
    g[0] = 0.5f * sum_p - m[0];
    g[1] = 0.5f * difference_p;
    g[2] = 0.5f * sum_p + m[3];
  } else {
    const float sum_q = m[3] + m[4], difference_q = m[3] - m[4];
    g[0] = m[0] * (1 / (PP * QQ)) + OF_P * sum_p + OF_Q * sum_q;
    g[1] = P * OF_P * difference_p + Q * OF_Q * difference_q;
    g[2] = PP * OF_P * sum_p + QQ * OF_Q * sum_q + m[5];
  }
}

// Rounded to the 22 bits that two tf32 hold, so that the product's kernel drops nothing of a factor when it splits it.
// T. J. Dekker, "A Floating-Point Technique for Extending the Available Precision", 1971.
__device__ inline float to_two_tf32(float x) {
  const float far = __fmul_rn(x, 5);
  return __fsub_rn(far, __fsub_rn(far, x));
}

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

// Where a tile's first output is.
struct Place {
  i64 image;
  int plane, at[2];
};

__device__ inline Place place_of(const Args &a, i64 tile) {
  const i64 row = tile / a.tile[1], plane = row / a.tile[0];
  return {plane / a.planes, (int)(plane % a.planes), (int)(row % a.tile[0]) * OUTPUTS,
          (int)(tile % a.tile[1]) * OUTPUTS};
}

// The offset in x of an image's plane, group and channel.
__device__ inline i64 source_of(const Args &a, const Place &p, int group, int channel) {
  return p.image * a.x_image + p.plane * a.x_plane + group * a.x_group + channel * a.x_channel;
}

// The SIZE x SIZE products of a tile, or of a pair of channels, transformed along both axes to N x N outputs or taps.
template <int N, void transform(const float *, float *)>
__device__ inline void load_transformed(const Args &a, const float *m, float y[N][N]) {
  float t[SIZE][N];
#pragma unroll
  for (int i = 0; i < SIZE; i++) {
    float s[SIZE];
#pragma unroll
    for (int j = 0; j < SIZE; j++) s[j] = m[(i * SIZE + j) * a.groups * a.m_matrix];
    transform(s, t[i]);
  }
#pragma unroll
  for (int j = 0; j < N; j++) {
    float s[SIZE], line[N];
#pragma unroll
    for (int i = 0; i < SIZE; i++) s[i] = t[i][j];
    transform(s, line);
#pragma unroll
    for (int i = 0; i < N; i++) y[i][j] = line[i];
  }
}
