// Transforms of points in shared memory by one block, along one axis of them: what the ladder's steps for signals
// (fft.cu) and for images (fft_image.cu) share. After POINTS of a block, THREADS and LEVELS.
#pragma once

__device__ inline float2 sum(float2 a, float2 b) {
  return make_float2(a.x + b.x, a.y + b.y);
}
__device__ inline float2 gap(float2 a, float2 b) {
  return make_float2(a.x - b.x, a.y - b.y);
}
__device__ inline float2 times(float2 a, float2 b) {
  return make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}
__device__ inline float2 conjugate(float2 a) {
  return make_float2(a.x, -a.y);
}

// exp(-pi i at / half)
__device__ inline float2 root(int at, int half) {
  float2 w;
  sincospif(-(float)at / (float)half, &w.y, &w.x);
  return w;
}

// The place of a point in shared memory. Threads of radix 8 read eight points apart in the last pass, from two banks;
// one empty place after 16 points spreads them over all banks.
__device__ inline int place(int point) {
  return LEVELS == 3 ? point + point / 16 : point;
}
enum { PLACES = LEVELS == 3 ? POINTS + POINTS / 16 : POINTS };

// The definition along an axis, X[k] = sum over n of x[n] exp(-2 pi i n k / LENGTH): LENGTH products for each result.
// Neighbours along the axis are UNIT places apart. `sign` is -1 for the inverse.
template <int LENGTH, int UNIT>
__device__ inline void definition(float2 *data, float sign) {
  constexpr int EACH = POINTS / THREADS;
  float2 sums[EACH] = {};
  for (int n = 0; n < LENGTH; n++) {
#pragma unroll
    for (int e = 0; e < EACH; e++) {
      const int at = (int)threadIdx.x + e * THREADS, along = at / UNIT % LENGTH;
      float2 w = root(n * along % LENGTH, LENGTH / 2);
      w.y *= sign;
      sums[e] = sum(sums[e], times(data[at + (n - along) * UNIT], w));
    }
  }
  __syncthreads();  // all have read what all now write
#pragma unroll
  for (int e = 0; e < EACH; e++) data[threadIdx.x + e * THREADS] = sums[e];
  __syncthreads();
}

// a * exp(-pi i eighths / 4): constants that cost no product, or two.
__device__ inline float2 turn(float2 a, int eighths) {
  constexpr float C = 0.70710678118654752f;
  return eighths == 0   ? a
         : eighths == 1 ? make_float2(C * (a.x + a.y), C * (a.y - a.x))
         : eighths == 2 ? make_float2(a.y, -a.x)
                        : make_float2(C * (a.y - a.x), -C * (a.x + a.y));
}

// One pass, decimation in frequency: DEPTH levels of butterflies on 2^DEPTH points of a thread, `distance` apart. A
// level maps (a, b) to (a + b, (a - b) w). Every level halves the distance, so its root is the previous one squared.
// Neighbours along the axis are UNIT places apart.
template <int DEPTH, int UNIT>
__device__ inline void forward_pass(float2 *data, int distance) {
  constexpr int RADIX = 1 << DEPTH;
  for (int t = threadIdx.x; t < POINTS / RADIX; t += THREADS) {
    const int within = t % distance, first = t / distance * distance * RADIX + within;
    float2 v[RADIX], w = root(within / UNIT, distance / UNIT * RADIX / 2);
#pragma unroll
    for (int e = 0; e < RADIX; e++) v[e] = data[place(first + e * distance)];
#pragma unroll
    for (int level = RADIX / 2; level > 0; level /= 2, w = times(w, w))
#pragma unroll
      for (int e = 0; e < RADIX; e++) {
        if (e & level) continue;
        const float2 a = v[e], b = v[e + level];
        v[e] = sum(a, b);
        v[e + level] = turn(times(gap(a, b), w), e % level * 4 / level);
      }
#pragma unroll
    for (int e = 0; e < RADIX; e++) data[place(first + e * distance)] = v[e];
  }
  __syncthreads();
}

// The same pass backwards, decimation in time: (a, b) to (a + b w, a - b w) with conjugate roots.
template <int DEPTH, int UNIT>
__device__ inline void inverse_pass(float2 *data, int distance) {
  constexpr int RADIX = 1 << DEPTH;
  for (int t = threadIdx.x; t < POINTS / RADIX; t += THREADS) {
    const int within = t % distance, first = t / distance * distance * RADIX + within;
    float2 v[RADIX], w[DEPTH];
    w[DEPTH - 1] = root(within / UNIT, distance / UNIT * RADIX / 2);
#pragma unroll
    for (int i = DEPTH - 1; i > 0; i--) w[i - 1] = times(w[i], w[i]);
      // conjugated before and after, a step with the roots becomes one with their conjugates
#pragma unroll
    for (int e = 0; e < RADIX; e++) v[e] = conjugate(data[place(first + e * distance)]);
#pragma unroll
    for (int i = 0; i < DEPTH; i++)
#pragma unroll
      for (int e = 0; e < RADIX; e++) {
        const int level = 1 << i;
        if (e & level) continue;
        const float2 a = v[e], b = turn(times(v[e + level], w[i]), e % level * 4 / level);
        v[e] = sum(a, b);
        v[e + level] = gap(a, b);
      }
#pragma unroll
    for (int e = 0; e < RADIX; e++) data[place(first + e * distance)] = conjugate(v[e]);
  }
  __syncthreads();
}

// Radix 2 leaves the spectrum in bit-reversed order. The filter's has the same order and the inverse starts from it, so
// no point is ever moved to its place. A pass of log2(LENGTH) % LEVELS levels comes first; the others have LEVELS.
constexpr int log_of(int points) {
  return points > 1 ? 1 + log_of(points / 2) : 0;
}

template <int LENGTH, int UNIT>
__device__ inline void forward_axis(float2 *data) {
  if constexpr (LEVELS == 0) {
    definition<LENGTH, UNIT>(data, 1);
  } else {
    constexpr int DEPTH = LEVELS ? LEVELS : 1, ODD = log_of(LENGTH) % DEPTH, REST = (LENGTH >> ODD) * UNIT;
    if constexpr (ODD > 0) forward_pass<ODD, UNIT>(data, REST);
    for (int distance = REST >> DEPTH; distance >= UNIT; distance >>= DEPTH) forward_pass<DEPTH, UNIT>(data, distance);
  }
}

template <int LENGTH, int UNIT>
__device__ inline void inverse_axis(float2 *data) {
  if constexpr (LEVELS == 0) {
    definition<LENGTH, UNIT>(data, -1);
  } else {
    constexpr int DEPTH = LEVELS ? LEVELS : 1, ODD = log_of(LENGTH) % DEPTH, REST = (LENGTH >> ODD) * UNIT;
    for (int distance = UNIT; distance < REST; distance <<= DEPTH) inverse_pass<DEPTH, UNIT>(data, distance);
    if constexpr (ODD > 0) inverse_pass<ODD, UNIT>(data, REST);
  }
}
