// Two neighbouring outputs of 16 bits, TYPE_Y, as one word.
#pragma once
#include "convert.cuh"

__device__ inline unsigned pack(float2 v) {
  unsigned word;
  if (TYPE_Y == F16)
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(v.y), "f"(v.x));
  else
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(v.y), "f"(v.x));
  return word;
}

__device__ inline float2 unpack(unsigned word) {
  const unsigned short low = word, high = word >> 16;
  if (TYPE_Y == F16) return {from_f16(low), from_f16(high)};
  return {from_bf16(low), from_bf16(high)};
}

// Adds 0 times two outputs: the sum is NaN if one of them is not finite.
__device__ inline unsigned watch(unsigned seen, unsigned word) {
  if (TYPE_Y == F16)
    asm("fma.rn.f16x2 %0, %1, %2, %0;" : "+r"(seen) : "r"(word), "r"(0));
  else
    asm("fma.rn.bf16x2 %0, %1, %2, %0;" : "+r"(seen) : "r"(word), "r"(0));
  return seen;
}
