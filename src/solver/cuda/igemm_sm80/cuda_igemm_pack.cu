// Packs a filter for cuda_igemm.cu; falt_cuda_igemm_pack_args describes the order. One thread an element,
// 16 bytes where channels are contiguous, or the taps of a channel.

// Compile-time parameters:
//   ELEMENT   C type of the filter's elements

#include "args.h"

typedef falt_cuda_igemm_pack_args Args;
typedef falt_cuda_igemm_polyphase Polyphase;

// The address of the element at depth k of row n, or none.
__device__ inline const ELEMENT *find(const Args &a, const Polyphase &p, int n, int k) {
  const int group = n / a.rows, tap = k / a.span;
  const int s = tap % p.taps[2], r = tap / p.taps[2] % p.taps[1], t = tap / p.taps[2] / p.taps[1];
  const int ahead = (p.lead + t * a.lead_step[0] + r * a.lead_step[1] + s * a.lead_step[2] & 15) / (int)sizeof(ELEMENT);
  const int channel = k % a.span - ahead - group * a.channels;
  if (t >= p.taps[0] || channel < 0 || channel >= a.channels) return nullptr;
  const long long at = (p.from[0] + t * p.pace[0]) * a.w_axis[0] + (p.from[1] + r * p.pace[1]) * a.w_axis[1] +
                       (p.from[2] + s * p.pace[2]) * a.w_axis[2];
  return (const ELEMENT *)a.w +
         (at + ((p.group + blockIdx.y * (long long)a.group_apart) * a.merged + group) * a.w_group +
          n % a.rows * a.w_row + channel * a.w_channel);
}

// Splits a word into a tf32 and its remainder.
__device__ inline void split(unsigned *high, float *low) {
  const unsigned word = *high, cut = word & 0xffffe000;
  *low = __uint_as_float(word) - __uint_as_float(cut);
  *high = cut;
}

// Whether 16 bytes of packed elements are 16 bytes of the filter, or none of it.
__device__ inline bool by_units(const Args &a, const Polyphase &p) {
  constexpr int UNIT = 16 / sizeof(ELEMENT);
  const long long steps = a.w_group | a.w_row | a.w_axis[0] | a.w_axis[1] | a.w_axis[2];
  return a.w_channel == 1 && (steps | a.channels | a.span) % UNIT == 0 && (size_t)a.w % 16 == 0 && a.low % 16 == 0 &&
         (p.lead | a.lead_step[0] | a.lead_step[1] | a.lead_step[2]) % 16 == 0;
}

__device__ inline void pack_unit(const Args &a, const ELEMENT *w, ELEMENT *b) {
  uint4 word = w ? __ldg((const uint4 *)w) : uint4{};
  if (sizeof(ELEMENT) == 4 && a.low) {
    float4 low;
    split(&word.x, &low.x);
    split(&word.y, &low.y);
    split(&word.z, &low.z);
    split(&word.w, &low.w);
    *(float4 *)((char *)b + a.low) = low;
  }
  *(uint4 *)b = word;
}

__device__ inline void pack_element(const Args &a, const ELEMENT *w, ELEMENT *b) {
  ELEMENT word = w ? *w : (ELEMENT)0;
  if (sizeof(ELEMENT) == 4 && a.low) split((unsigned *)&word, (float *)((char *)b + a.low));
  *b = word;
}

// Whether channels are apart in the filter, and each is followed by its taps in most layouts: a thread packs all taps
// of a channel then, so that its neighbours read neighbours, too.
__device__ inline bool by_channels(const Args &a, const Polyphase &p) {
  return a.w_channel != 1 && a.merged == 1 && (p.lead | a.lead_step[0] | a.lead_step[1] | a.lead_step[2]) % 16 == 0;
}

__device__ inline void pack_channels(const Args &a, const Polyphase &p, ELEMENT *b, int depth) {
  const int taps = p.taps[0] * p.taps[1] * p.taps[2], tail = depth - taps * a.span;
  const long long count = (long long)a.rows * a.span, step = gridDim.x * 256ll;
  const ELEMENT *w = (const ELEMENT *)a.w + (p.group + blockIdx.y * (long long)a.group_apart) * a.w_group;
  for (long long i = blockIdx.x * 256ll + threadIdx.x; i < count; i += step) {
    const int n = (int)(i / a.span), channel = (int)(i % a.span);
    const ELEMENT *from = w + n * a.w_row + channel * a.w_channel;
    ELEMENT *to = b + (long long)n * depth + channel;
#pragma unroll 3
    for (int tap = 0; tap < taps; tap++, to += a.span) {
      const int s = tap % p.taps[2], r = tap / p.taps[2] % p.taps[1], t = tap / p.taps[2] / p.taps[1];
      const long long at = (p.from[0] + t * p.pace[0]) * a.w_axis[0] + (p.from[1] + r * p.pace[1]) * a.w_axis[1] +
                           (p.from[2] + s * p.pace[2]) * a.w_axis[2];
      const ELEMENT word = channel < a.channels ? __ldg(from + at) : (ELEMENT)0;
      pack_element(a, &word, to);
    }
  }
  for (long long i = blockIdx.x * 256ll + threadIdx.x; i < (long long)a.rows * tail; i += step)
    pack_element(a, nullptr, b + i / tail * depth + taps * a.span + i % tail);
}

extern "C" __global__ void __launch_bounds__(256) falt_igemm_pack(const __grid_constant__ Args a) {
  const Polyphase &p = a.polyphases ? a.polyphases[blockIdx.z] : a.polyphase;
  const int depth = p.steps * (a.step_bytes / (int)sizeof(ELEMENT)), rows = a.rows * a.merged;
  ELEMENT *b = (ELEMENT *)((char *)a.b + p.b) + blockIdx.y * (long long)depth * rows;
  if (by_channels(a, p)) {
    pack_channels(a, p, b, depth);
    return;
  }
  const bool units = by_units(a, p);
  const int unit = units ? 16 / sizeof(ELEMENT) : 1, row_units = depth / unit;
  const long long count = (long long)row_units * rows;
  for (long long i = blockIdx.x * 256ll + threadIdx.x; i < count; i += gridDim.x * 256ll) {
    const int n = count <= 0xffffffff ? (unsigned)i / (unsigned)row_units : (int)(i / row_units);
    const int k = (int)(i - (long long)n * row_units) * unit;
    const ELEMENT *w = p.taps[0] ? find(a, p, n, k) : nullptr;
    ELEMENT *to = b + (long long)n * depth + k;
    if (units)
      pack_unit(a, w, to);
    else
      pack_element(a, w, to);
  }
}
