// Output of cuda_depthwise_toeplitz.cu: epilogue, conversion, and stores to the plane in shared memory, which leaves as
// one copy. Part of cuda_depthwise_toeplitz.cu.
#pragma once

__device__ inline float from_half(Bits bits) {
  return KIND == HALVES ? from_f16(bits) : from_bf16(bits);
}

// Where a lane has outputs of a channel's group of windows: two columns of window `first` and of the eighth after it.
struct Place {
  Tile tile;
  int channel, first;
  const char *plane;
  char *out;  // of the plane, or of the lane's first output
  Linear<REAL> linear;
};

// Outputs in 16 bits that wait until all of a plane has been read.
struct Waiting {
  unsigned word[IN_PLACE ? SEGMENT : 1][2];
};

// One of a lane's outputs.
struct Result {
  int image, row, column;
};

__device__ inline Result result_at(const Place &at, int row, int half, int k) {
  const int window = at.first + 8 * half, inside = window % OF_IMAGE;
  return {window / OF_IMAGE, inside / ACROSS * SEGMENT + row, inside % ACROSS * 8 + (int)threadIdx.x % 4 * 2 + k};
}

__device__ inline float finish_one(const Args &p, const Place &at, float sum, const Result &r) {
  i64 residual = 0;
  if (!FINISH) return sum;
  if (RESIDUAL) {
    if (r.image >= at.tile.images || at.tile.row + r.row >= OUT_H || r.column >= OUT_W) return 0;
    residual = (at.tile.image + r.image) * p.r_image + at.channel / MULTIPLE * p.r_channel +
               at.channel % MULTIPLE * p.r_next + (at.tile.row + r.row) * p.r_axis[1] + r.column * p.r_axis[2];
  }
  return finished(p, at.linear, sum, residual);
}

// Two outputs of a lane, as they are stored.
__device__ inline unsigned finish_two(const Args &p, const Place &at, float low, float high, int row, int half) {
  low = finish_one(p, at, low, result_at(at, row, half, 0));
  high = finish_one(p, at, high, result_at(at, row, half, 1));
  return pack(make_float2(low, high));
}

__device__ inline void put(const Place &at, unsigned word, int row, int half) {
  int place = half * 8 * 16;
  if (IN_PLACE) {
    const Result r = result_at(at, 0, half, 0);
    if (r.image >= IMAGES || r.column >= OUT_W) return;
    place = place_in(r.image, r.row, r.column);
  }
  *(unsigned *)(at.out + place + row * OUT_ROW) = word;
}

// Row `row` of the windows. Returns 0 if all is finite, and NaN if not.
__device__ inline float put_row(const Args &p, const Place &at, const Sums sums, int row, Waiting &waiting) {
#pragma unroll
  for (int half = 0; half < 2; half++) {
    const unsigned word = finish_two(p, at, sums[2 * half], sums[2 * half + 1], row, half);
    if (IN_PLACE)
      waiting.word[row][half] = word;
    else
      put(at, word, row, half);
  }
  return (sums[0] + sums[1] + (sums[2] + sums[3])) * 0;
}

__device__ inline void put_waiting(const Place &at, const Waiting &waiting) {
  __syncwarp();
#pragma unroll
  for (int i = 0; i < 2 * SEGMENT; i++) put(at, waiting.word[i % SEGMENT][i / SEGMENT], i % SEGMENT, i / SEGMENT);
}

// An output once more, from its own taps alone.
__device__ inline float alone(const Args &p, const Place &at, const Result &result) {
  const Bits *from =
      (const Bits *)p.x + ((at.tile.image + result.image) * p.x_image + at.channel / MULTIPLE * p.x_channel);
  float sum = 0;
#pragma unroll 1
  for (int i = 0; i < TAPS_R * TAPS_S; i++) {
    const int r = i / TAPS_S, s = i % TAPS_S;
    const int row = at.tile.row + result.row + r - PAD_R, column = result.column + s - PAD_S;
    if ((unsigned)row >= IN_H || (unsigned)column >= IN_W) continue;
    sum += from_half(from[row * (i64)X_R + column * (i64)X_S]) * from_half(*tap_at(p, at.channel, r, s));
  }
  return sum;
}

// All outputs of a lane once more.
__device__ inline void put_alone(const Args &p, const Place &at) {
#pragma unroll 1
  for (int i = 0; i < 2 * SEGMENT; i++) {
    const int row = i / 2, half = i % 2;
    const Result low = result_at(at, row, half, 0), high = result_at(at, row, half, 1);
    if (low.image < at.tile.images)
      put(at, finish_two(p, at, alone(p, at, low), alone(p, at, high), row, half), row, half);
  }
}
