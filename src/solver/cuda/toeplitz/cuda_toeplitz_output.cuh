// Output of cuda_toeplitz.cu: converts accumulators to outputs, exchanges elements between lanes so that each has whole
// rows, and stores them. Part of cuda_toeplitz.cu.

__device__ inline float result(const Args &a, const ACC sum[SUMS][4], int i, float beta) {
  float value;
  if constexpr (BIASED) {
    value = beta;
#pragma unroll
    for (int p = 0; p < SUMS; p++)
      value = __fmaf_rn(a.weight[p], __int_as_float(sum[p][i]) - (BIASED == 2 ? 0x1.8p23f : 0.f), value);
    return value;
  }
  if constexpr (SUMS == 3)
    value = (float)(sum[0][i] * 256 + sum[1][i]) * 256.f + (float)sum[2][i];
  else if constexpr (SUMS == 2)
    value = (float)(sum[0][i] * 256 + sum[1][i]);
  else
    value = (float)sum[0][i];
  return a.alpha * value + beta;
}

__device__ inline unsigned pack_bytes(float a, float b, float c, float d) {
  unsigned word = 0;
  if (TYPE_Y == U8) {
    asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;"
        : "=r"(word)
        : "r"(__float2int_rn(d)), "r"(__float2int_rn(c)), "r"(0));
    asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;"
        : "=r"(word)
        : "r"(__float2int_rn(b)), "r"(__float2int_rn(a)), "r"(word));
  } else {
    asm("cvt.pack.sat.s8.s32.b32 %0, %1, %2, %3;"
        : "=r"(word)
        : "r"(__float2int_rn(d)), "r"(__float2int_rn(c)), "r"(0));
    asm("cvt.pack.sat.s8.s32.b32 %0, %1, %2, %3;"
        : "=r"(word)
        : "r"(__float2int_rn(b)), "r"(__float2int_rn(a)), "r"(word));
  }
  return word;
}

// Two neighbouring outputs in as many words as they need.
__device__ inline void pack_pair(unsigned word[], float a, float b) {
  if (TYPE_Y == F32) {
    word[0] = __float_as_uint(a), word[sizeof(Y) / 4] = __float_as_uint(b);
  } else if (TYPE_Y == F16) {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word[0]) : "f"(b), "f"(a));
  } else if (TYPE_Y == BF16) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word[0]) : "f"(b), "f"(a));
  } else {
    Y low, high;
    store<float>(&low, TYPE_Y, 0, a);
    store<float>(&high, TYPE_Y, 0, b);
    word[0] = (unsigned short)low | (unsigned)(unsigned short)high << 16;
  }
}

constexpr int OUT = CHUNK * (int)sizeof(Y) / 4;  // words of a lane's outputs in a row, of a channel

// Lanes 2r and 2r+1 (by g) hold the left and the right half of row r of tiles 2t and 2t+1. After the exchange one has
// all of tile 2t, the other all of tile 2t+1.
__device__ inline void exchange(unsigned out[OUT], const float v[GROUPS][4], bool odd) {
  if constexpr (sizeof(Y) == 1) {
    unsigned word[GROUPS];
#pragma unroll
    for (int j = 0; j < GROUPS; j++) word[j] = pack_bytes(v[j][0], v[j][2], v[j][1], v[j][3]);
#pragma unroll
    for (int j = 0; j < GROUPS; j += 2) {
      const unsigned mine = __byte_perm(word[j], word[j + 1], odd ? 0x5410 : 0x7632);
      const unsigned theirs = __shfl_xor_sync(~0u, mine, 4);
      out[j] = __byte_perm(word[j], theirs, odd ? 0x3254 : 0x5410);
      out[j + 1] = __byte_perm(word[j + 1], theirs, odd ? 0x3276 : 0x7610);
    }
  } else {
    constexpr int pair = (sizeof(Y) + 1) / 2;
#pragma unroll
    for (int j = 0; j < GROUPS; j++) {
      unsigned left[pair], right[pair];
      pack_pair(left, v[j][0], v[j][2]);
      pack_pair(right, v[j][1], v[j][3]);
#pragma unroll
      for (int i = 0; i < pair; i++) {
        const unsigned theirs = __shfl_xor_sync(~0u, odd ? left[i] : right[i], 4);
        out[(2 * j) * pair + i] = odd ? theirs : left[i];
        out[(2 * j + 1) * pair + i] = odd ? right[i] : theirs;
      }
    }
  }
}

// Interleaves channels again: each word held four bytes of one channel.
__device__ inline void interleave(unsigned line[CHANNELS * OUT], const unsigned out[CHANNELS][OUT]) {
  if constexpr (CHANNELS == 1) {
#pragma unroll
    for (int i = 0; i < OUT; i++) line[i] = out[0][i];
    return;
  }
#pragma unroll
  for (int i = 0; i < CHANNELS * OUT; i++) {
    const int c0 = 4 * i % CHANNELS;
    unsigned word = out[c0][i / CHANNELS];
#pragma unroll
    for (int k = 1; k < CHANNELS; k++) {
      const int c = (c0 + k) % CHANNELS;
      unsigned selector = 0;
#pragma unroll
      for (int e = 0; e < 4; e++) {
        const int from = (4 * i + e) % CHANNELS, byte = (4 * i + e) / CHANNELS % 4;
        selector |= (from == c ? 4 + byte : k == 1 ? byte : e) << 4 * e;
      }
      word = __byte_perm(word, out[c][i / CHANNELS], selector);
    }
    line[i] = word;
  }
}

__device__ inline bool exists(const Args &a, int row, int column) {
  if (LINEAR) return column < a.y_row && row * a.y_row + column < a.out_columns;
  return row < a.out_rows && column < a.out_columns;
}

// A lane's outputs of a row are VECTORS of these.
typedef Word<CHANNELS * OUT % 4 ? 8 : 16>::type WordsOut;
constexpr int VECTORS = LANE * (int)sizeof(Y) / (int)sizeof(WordsOut);

__device__ inline void store_vectors(WordsOut *to, const unsigned line[CHANNELS * OUT], bool streaming) {
#pragma unroll
  for (int i = 0; i < VECTORS; i++) {
    constexpr int words = (int)sizeof(WordsOut) / 4;
    union {
      unsigned word[words];
      WordsOut whole;
    } out;
#pragma unroll
    for (int k = 0; k < words; k++) out.word[k] = line[words * i + k];
    if (streaming)
      __stcs(to + i, out.whole);
    else
      to[i] = out.whole;
  }
}

// The first `count` outputs of a row that ends or is not aligned, from shared memory: by vectors of 16 bytes where
// these are whole. `lane` of eight.
__device__ __noinline__ void store_careful(Y *to, const Y *from, int count, int lane) {
  constexpr int per = 16 / (int)sizeof(Y);
  const int head = (int)(-(size_t)to & 15) / (int)sizeof(Y);  // before the first vector
  for (int i = lane; i < 8 * LANE / per + 1; i += 8) {
    const int begin = i ? head + (i - 1) * per : 0, end = min(i ? begin + per : head, count);
    if (end - begin == per) {
      __stcs((uint4 *)(to + begin), realigned(from + begin));
    } else {
#pragma unroll 1
      for (int k = begin; k < end; k++) to[k] = from[k];
    }
  }
}

// The position of a lane's outputs in a warp's four rows.
__device__ inline int row_of(const Place &at) {
  return RINGED ? at.t : at.g >> 1;
}
__device__ inline int column_of(const Place &at) {
  return (RINGED ? at.g : 2 * at.t + (at.g & 1)) * LANE;
}

// Stores four rows of a warp's outputs; `whole`: all exist and are aligned. Interleaved outputs pass through shared
// memory, so a warp stores whole lines.
__device__ inline void store_rows(const Args &a, Y *y, const unsigned line[CHANNELS * OUT], const Place &at, int row,
                                  bool whole) {
  __shared__ WordsOut staged[WARPS][32 * VECTORS + 1];  // realigned rows read one more word
  WordsOut *mine = staged[threadIdx.x / 32];
  const int r = row_of(at), column = column_of(at);
  if (whole && CHANNELS == 1) {
    store_vectors((WordsOut *)(y + ((row + r) * a.y_row + at.first + column)), line, true);
    return;
  }
  __syncwarp();
  store_vectors(mine + (r * 8 + column / LANE) * VECTORS, line, false);
  __syncwarp();
  if (whole) {
#pragma unroll
    for (int i = 0; i < VECTORS; i++) {
      const int k = 32 * i + at.lane, to = k / (8 * VECTORS);
      __stcs((WordsOut *)(y + ((row + to) * a.y_row + at.first)) + k % (8 * VECTORS), mine[k]);
    }
  } else {
    const int to = row + at.lane / 8;
    const i64 begin = to * a.y_row + at.first;
    const i64 most = LINEAR            ? min(a.y_row - at.first, a.out_columns - begin)
                     : to < a.out_rows ? a.out_columns - at.first
                                       : 0;
    store_careful(y + begin, (const Y *)(mine + at.lane / 8 * 8 * VECTORS), (int)max(0ll, min(most, (i64)8 * LANE)),
                  at.lane % 8);
  }
}
