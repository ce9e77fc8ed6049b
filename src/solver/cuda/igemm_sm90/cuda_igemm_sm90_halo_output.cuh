// Output of cuda_igemm_sm90_halo.cu: converts accumulators and stores them as runs of contiguous channels (NHWC), as
// boxes of contiguous pixels (NCHW), or scattered to the pixels of a stride step. Part of cuda_igemm_sm90_halo.cu.

// A pixel of the layer: where it stands, and where the first pixel of its step lies.
struct Pixel {
  int image, at[3];
  long long y, residual;
};

__device__ inline Pixel pixel_at(const Args &a, const Walk &walk, int plane, int block, int half) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
  Pixel p = {walk.image,
             {plane, walk.row + block / BLOCKS_W * 8 + warp * 2 + half, walk.column + block % BLOCKS_W * 8 + lane / 4},
             walk.image * a.y_image,
             walk.image * a.r_image};
#pragma unroll
  for (int i = 0; i < 3; i++) {
    p.y += p.at[i] * a.y_axis[i];
    p.residual += p.at[i] * a.r_axis[i];
  }
  return p;
}

// The pixel of the same lane in a block further on.
__device__ inline Pixel moved(const Args &a, const Pixel &p, int rows, int columns) {
  return {p.image,
          {p.at[0], p.at[1] + rows, p.at[2] + columns},
          p.y + rows * a.y_axis[1] + columns * a.y_axis[2],
          p.residual + rows * a.r_axis[1] + columns * a.r_axis[2]};
}

__device__ inline bool exists(const Args &a, const Pixel &p) {
  return p.at[1] < a.out[1] && p.at[2] < a.out[2];
}

__device__ inline Linear<float> linear_at(const Args &a, int channel) {
  Linear<float> made = {(float)a.epilogue.alpha, (float)a.epilogue.beta};
  if (SCALED) made.scale *= __ldg((const float *)a.epilogue.scale + channel);
  if (BIASED) made.offset += __ldg((const float *)a.epilogue.bias + channel);
  return made;
}

__device__ inline float finish(const Args &a, const Linear<float> &l, float sum, float residual) {
  falt_cuda_epilogue e = a.epilogue;
  e.activation = ACTIVATION;
  return activate<float>(e, sum * l.scale + l.offset + residual);
}

// ---- runs of channels

// RUN neighbouring outputs of 16 bits as words, and of 32 bits.
union Result {
  uint4 line[RUN * (TYPE_Y == F32 ? 4 : 2) / 16 + (RUN * (TYPE_Y == F32 ? 4 : 2) < 16)];
  uint2 half;
  unsigned pair[RUN / 2];
  float value[TYPE_Y == F32 ? RUN : 1];
};

__device__ inline Result load_result(const void *from) {
  Result made;
  if (RUN * (TYPE_Y == F32 ? 4 : 2) < 16)
    made.half = __ldg((const uint2 *)from);
  else
    for (int i = 0; i < (int)(sizeof made.line / 16); i++) made.line[i] = __ldg((const uint4 *)from + i);
  return made;
}

__device__ inline void store_result(void *to, const Result &r) {
  if (RUN * (TYPE_Y == F32 ? 4 : 2) < 16)
    *(uint2 *)to = r.half;
  else
    for (int i = 0; i < (int)(sizeof r.line / 16); i++) ((uint4 *)to)[i] = r.line[i];
}

// RUN outputs from sums of two and two.
__device__ inline void send_run(const Args &a, const Pixel &p, const float *sum, int channel) {
  constexpr int size = TYPE_Y == F32 ? 4 : 2;
  Result made, added = {};
  if (RESIDUAL) added = load_result((const char *)a.residual + (p.residual + channel) * size);
#pragma unroll
  for (int j = 0; j < RUN / 2; j++) {
    const float x = sum[4 * j], z = sum[4 * j + 1];
    const Linear<float> l = linear_at(a, channel + 2 * j), m = linear_at(a, channel + 2 * j + 1);
    if constexpr (TYPE_Y == F32) {
      made.value[2 * j] = finish(a, l, x, RESIDUAL ? added.value[2 * j] : 0);
      made.value[2 * j + 1] = finish(a, m, z, RESIDUAL ? added.value[2 * j + 1] : 0);
    } else {
      const float2 r = RESIDUAL ? unpack(added.pair[j]) : float2{};
      made.pair[j] = pack({finish(a, l, x, r.x), finish(a, m, z, r.y)});
    }
  }
  store_result((char *)a.y + (p.y + channel) * size, made);
}

__device__ inline void send_runs(const Args &a, const Sums &sums, const Walk &walk, int plane, int first,
                                 int consumer) {
#pragma unroll
  for (int i = 0; i < 2 * BLOCKS; i++) {
    const Pixel p = pixel_at(a, walk, plane, consumer * BLOCKS + i / 2, i % 2);
    if (!exists(a, p)) continue;
#pragma unroll
    for (int run = 0; run < CHANNELS / (4 * RUN); run++) {
      const int channel = first + run * 4 * RUN + threadIdx.x % 4 * RUN;
      if (channel < a.results) send_run(a, p, sums[i / 2] + run * 2 * RUN + 2 * (i % 2), channel);
    }
  }
}

// ---- boxes of pixels

// Each warp stores two rows of two adjacent blocks: [row][channel][16 pixels], swizzled as TMA expects.
__device__ inline void send_box(const Args &a, const Shared &s, const Sums &sums, const Walk &walk, int plane,
                                int first, int consumer) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
  const unsigned box = s.box(4 * consumer + warp);
  if (lane == 0) copy_out_wait_read<0>();
  __syncwarp();
#pragma unroll
  for (int half = 0; half < 2; half++)
#pragma unroll
    for (int j = 0; j < CHANNELS / 8; j += 2) {
      unsigned word[4];
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const int channel = min(first + 8 * (j + i / 2) + lane % 4 * 2, a.results - 2);
        const float *sum = sums[i % 2] + 4 * (j + i / 2) + 2 * half;
        word[i] = pack({finish(a, linear_at(a, channel), sum[0], 0), finish(a, linear_at(a, channel + 1), sum[1], 0)});
      }
      const int line = half * CHANNELS + 8 * (j + lane / 16) + lane % 8;
      store_matrices_transposed(box + line * 32 + (lane / 8 % 2 ^ line / 4 % 2) * 16, word);
    }
  copy_fence();
  __syncwarp();
  const int block = consumer * BLOCKS;
  const int at[5] = {walk.column + block % BLOCKS_W * 8, first, walk.row + block / BLOCKS_W * 8 + warp * 2, plane,
                     walk.image};
  if (lane == 0) {
    copy_out_box(&a.result, box, at);
    copy_out_commit();
  }
}

// ---- scattered outputs

constexpr bool STEPPED = STEP_D * STEP_H * STEP_W > 1;

__device__ inline bool is_finite(float value) {
  return (__float_as_uint(value) & 0x7f800000) != 0x7f800000;
}

// The offset of a tile's output from the first pixel of its step, in a table in shared memory. Empty if there is no
// such channel.
struct __align__(16) Place {
  long long y;
  short at[3], channel;
};

__device__ inline void list_places(const Args &a, Place *places, int first) {
  for (int i = threadIdx.x; i < CHANNELS; i += 128 * CONSUMERS) {
    const Spot spot = spot_of(first + i);
    Place made = {spot.channel * a.y_channel};
    for (int j = 0; j < 3; j++) {
      made.y += spot.at[j] * a.y_spot[j];
      made.at[j] = (short)spot.at[j];
    }
    made.channel = (short)(first + i < a.results ? spot.channel : -1);
    places[i] = made;
  }
}

__device__ inline bool exists(const Args &a, const Pixel &p, const Place &place) {
  const int step[3] = {STEP_D, STEP_H, STEP_W};
  bool inside = place.channel >= 0 && exists(a, p);
#pragma unroll
  for (int i = 0; i < 3; i++) {
    const int at = p.at[i] * step[i] + place.at[i] - a.shift[i];
    inside = inside && (WHOLE || at >= 0 && at < a.size[i]);
  }
  return inside;
}

// Two neighbouring outputs of every pixel.
struct Pair {
  Place place[2];
  Linear<float> linear[2];
};

__device__ inline Pair pair_at(const Args &a, const Place *places, int column) {
  Pair made = {{places[column], places[column + 1]}};
#pragma unroll
  for (int i = 0; i < 2; i++) made.linear[i] = linear_at(a, max(0, made.place[i].channel));
  return made;
}

// Of one pixel; outputs of a step have no residual.
__device__ inline void scatter_pair(const Args &a, const Pixel &p, const Pair &pair, const float (&sum)[2]) {
  float made[2];
#pragma unroll
  for (int i = 0; i < 2; i++) {
    const Place &place = pair.place[i];
    float residual = 0;
    if (RESIDUAL && exists(a, p, place))
      residual = load<float>(a.residual, TYPE_Y, p.residual + place.channel * a.r_channel);
    made[i] = finish(a, pair.linear[i], sum[i], residual);
    if (!PAIRED && exists(a, p, place)) store<float>(a.y, TYPE_Y, p.y + place.y, made[i]);
  }
  if (!PAIRED || !exists(a, p, pair.place[0])) return;
  if (TYPE_Y == F32)
    *(float2 *)((float *)a.y + p.y + pair.place[0].y) = {made[0], made[1]};
  else
    *(unsigned *)((unsigned short *)a.y + p.y + pair.place[0].y) = pack({made[0], made[1]});
}

// An output once more, of the taps that it has alone.
__device__ inline float alone(const Args &a, const Pixel &p, int result) {
  const Spot spot = spot_of(result);
  float sum = 0;
#pragma unroll 1
  for (int i = 0; i < TAPS_D * TAPS; i++) {
    const int tap[3] = {i / TAPS, i / TAPS_W % TAPS_H, i % TAPS_W};
    long long w, x = p.image * a.x_image;
    bool meets = find_tap(a, spot, tap, w);
#pragma unroll
    for (int j = 0; j < 3; j++) {
      const int at = p.at[j] + a.corner[j] + tap[j];
      meets = meets && at >= 0 && at < a.in[j];
      x += at * a.x_axis[j];
    }
#pragma unroll 1
    for (int c = 0; meets && c < a.channels; c++)
      sum += load<float>(a.x, TYPE_X, x + c) * load<float>(a.filter, TYPE_X, w + c * a.w_channel);
  }
  return sum;
}

// Which pairs of a plane's outputs have zeros for taps and are not finite: a bit for each.
__device__ inline void scatter_again(const Args &a, const Place *places, const Walk &walk, int plane, int first,
                                     int consumer, unsigned left) {
#pragma unroll 1
  for (; left; left &= left - 1) {
    const int i = __ffs(left) - 1, half = i % 2, block = i / 2 % BLOCKS;
    const int column = i / (2 * BLOCKS) * 8 + threadIdx.x % 4 * 2;
    const Pixel p = pixel_at(a, walk, plane, consumer * BLOCKS + block, half);
    float sum[2] = {};
#pragma unroll 1
    for (int k = 0; k < 2; k++)
      if (exists(a, p, places[column + k])) sum[k] = alone(a, p, first + column + k);
    scatter_pair(a, p, pair_at(a, places, column), sum);
  }
}

__device__ inline void scatter(const Args &a, const Place *places, const Sums &sums, const Walk &walk, int plane,
                               int first, int consumer) {
  constexpr int results = OUTPUTS * STEP_D * STEP_H * STEP_W;
  constexpr int eights = ((results < CHANNELS ? results : CHANNELS) + 7) / 8;
  const Pixel pixel = pixel_at(a, walk, plane, consumer * BLOCKS, 0);
  unsigned left = 0;
#pragma unroll
  for (int j = 0; j < eights; j++) {
    const int column = 8 * j + threadIdx.x % 4 * 2;
    const Pair pair = pair_at(a, places, column);
#pragma unroll
    for (int i = 0; i < 2 * BLOCKS; i++) {
      const float *sum = sums[i / 2] + 4 * j + 2 * (i % 2);
      const Pixel p = moved(a, pixel, i / 2 / BLOCKS_W * 8 + i % 2, i / 2 % BLOCKS_W * 8);
      scatter_pair(a, p, pair, {sum[0], sum[1]});
      if (STEPPED && !is_finite(sum[0] + sum[1])) left |= 1u << 2 * BLOCKS * j + i;
    }
  }
  if (STEPPED) scatter_again(a, places, walk, plane, first, consumer, left);
}
