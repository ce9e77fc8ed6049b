// The last part of planes.cu: sums become results and leave, by runs of channels that lie side by side, or scattered,
// each to its pixel of a step. Included where its sums and its walks are known.

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

__device__ inline bool exists(const Args &a, const Pixel &p) {
  return p.at[1] < a.out[1] && p.at[2] < a.out[2];
}

__device__ inline float finish(const Args &a, float sum, int channel, float residual) {
  falt_cuda_epilogue e = a.epilogue;
  float scale = (float)e.alpha, offset = (float)e.beta;
  e.activation = ACTIVATION;
  if (SCALED) scale *= __ldg((const float *)e.scale + channel);
  if (BIASED) offset += __ldg((const float *)e.bias + channel);
  return activate<float>(e, sum * scale + offset + residual);
}

// ---- runs of channels

// RUN neighbouring results of 16 bits as words, and of 32 bits.
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

// RUN results from sums of two and two.
__device__ inline void send_run(const Args &a, const Pixel &p, const float *sum, int channel) {
  constexpr int size = TYPE_Y == F32 ? 4 : 2;
  Result made, added = {};
  if (RESIDUAL) added = load_result((const char *)a.residual + (p.residual + channel) * size);
#pragma unroll
  for (int j = 0; j < RUN / 2; j++) {
    const float x = sum[4 * j], z = sum[4 * j + 1];
    if constexpr (TYPE_Y == F32) {
      made.value[2 * j] = finish(a, x, channel + 2 * j, RESIDUAL ? added.value[2 * j] : 0);
      made.value[2 * j + 1] = finish(a, z, channel + 2 * j + 1, RESIDUAL ? added.value[2 * j + 1] : 0);
    } else {
      const float2 r = RESIDUAL ? unpack(added.pair[j]) : float2{};
      made.pair[j] = pack({finish(a, x, channel + 2 * j, r.x), finish(a, z, channel + 2 * j + 1, r.y)});
    }
  }
  store_result((char *)a.y + (p.y + channel) * size, made);
}

// ---- scattered results

constexpr bool STEPPED = STEP_D * STEP_H * STEP_W > 1;

__device__ inline bool is_finite(float value) {
  return (__float_as_uint(value) & 0x7f800000) != 0x7f800000;
}

// Where a result of the tile lies from the first pixel of its step on; in shared memory. No channel: there is none.
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
  bool inside = place.channel >= 0;
#pragma unroll
  for (int i = 0; i < 3; i++) {
    const int at = p.at[i] * step[i] + place.at[i] - a.shift[i];
    inside = inside && (WHOLE || at >= 0 && at < a.size[i]);
  }
  return inside;
}

// Two neighbouring results; two of a step have no residual.
__device__ inline void scatter_pair(const Args &a, const Pixel &p, const Place *places, const float (&sum)[2]) {
  float2 value = {};
#pragma unroll
  for (int i = 0; i < 2; i++) {
    if (!exists(a, p, places[i])) continue;
    const int channel = places[i].channel;
    const float residual = RESIDUAL ? load<float>(a.residual, TYPE_Y, p.residual + channel * a.r_channel) : 0;
    const float made = finish(a, sum[i], channel, residual);
    if (!PAIRED) store<float>(a.y, TYPE_Y, p.y + places[i].y, made);
    (i == 0 ? value.x : value.y) = made;
  }
  if (!PAIRED || !exists(a, p, places[0])) return;
  if (TYPE_Y == F32)
    *(float2 *)((float *)a.y + p.y + places[0].y) = value;
  else
    *(unsigned *)((unsigned short *)a.y + p.y + places[0].y) = pack(value);
}

// A result once more, of the taps that it has alone.
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

// Which pairs of a plane's results have zeros for taps and are not finite: a bit for each.
__device__ inline void scatter_again(const Args &a, const Place *places, const Walk &walk, int plane, int first,
                                     int consumer, unsigned left) {
#pragma unroll 1
  for (; left; left &= left - 1) {
    const int i = __ffs(left) - 1, j = i % (CHANNELS / 8), half = i / (CHANNELS / 8) % 2;
    const Pixel p = pixel_at(a, walk, plane, consumer * BLOCKS + i / (CHANNELS / 8) / 2, half);
    const int column = 8 * j + threadIdx.x % 4 * 2;
    float sum[2] = {};
#pragma unroll 1
    for (int k = 0; k < 2; k++)
      if (exists(a, p, places[column + k])) sum[k] = alone(a, p, first + column + k);
    scatter_pair(a, p, places + column, sum);
  }
}

// ---- of a plane

__device__ inline void send(const Args &a, const Place *places, const Sums &sums, const Walk &walk, int plane,
                            int first, int consumer) {
  unsigned left = 0;
#pragma unroll
  for (int i = 0; i < BLOCKS; i++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const Pixel p = pixel_at(a, walk, plane, consumer * BLOCKS + i, half);
      if (!exists(a, p)) continue;
#pragma unroll
      for (int run = 0; run < CHANNELS / (4 * RUN); run++) {
        const int column = run * 4 * RUN + threadIdx.x % 4 * RUN;
        const float *sum = sums[i] + run * 2 * RUN + 2 * half;
        if constexpr (SCATTERED) {
          scatter_pair(a, p, places + column, {sum[0], sum[1]});
          if (STEPPED && !is_finite(sum[0] + sum[1])) left |= 1u << (2 * i + half) * (CHANNELS / 8) + run;
        } else if (first + column < a.results) {
          send_run(a, p, sum, first + column);
        }
      }
    }
  if constexpr (SCATTERED && STEPPED) scatter_again(a, places, walk, plane, first, consumer, left);
}
