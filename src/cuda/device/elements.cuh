// Elements of an image in memory and as operands of sums in registers. Compile-time parameters: ELEMENT_X ELEMENT_Y
// TYPE_X TYPE_Y SUM TINY, as in cuda_direct.cu.
#pragma once
#include "convert.cuh"
#include "words.cuh"

typedef ELEMENT_X X;
typedef ELEMENT_Y Y;
typedef SUM ACC;

// COUNT elements, loaded by whole words.
template <typename WORD, int COUNT>
union Raw {
  WORD word[COUNT * sizeof(X) / sizeof(WORD)];
  X x[COUNT];
  unsigned u[(COUNT * sizeof(X) + 3) / 4];
};

// TINY: bits moved up by 16 (u8) or 8 (u16) make a float of 2^-133 or 2^-141 times the number, exactly: floats next to
// zero are spaced evenly.
__device__ inline ACC from_x(X value) {
  if (TINY) return __uint_as_float((unsigned)value << (sizeof(X) == 1 ? 16 : 8));
  if (TYPE_X == F16) return from_f16((unsigned short)value);
  if (TYPE_X == BF16) return from_bf16((unsigned short)value);
  return (ACC)value;
}

// The constant beyond the ends; of TINY elements it is one of them.
__device__ inline ACC constant(double fill) {
  return TINY ? from_x((X)fill) : (ACC)fill;
}

// TINY: one instruction moves an element's bytes out of a word and up.
template <typename WORD, int COUNT>
__device__ inline ACC element(const Raw<WORD, COUNT> &raw, int i) {
  if (!TINY) return from_x(raw.x[i]);
  if (sizeof(X) == 1) return __uint_as_float(__byte_perm(raw.u[i / 4], 0, 0x4044 | i % 4 << 8));
  return __uint_as_float(__byte_perm(raw.u[i / 2], 0, i % 2 ? 0x4324 : 0x4104));
}

__device__ inline Y to_y(ACC value) {
  Y result;
  store<ACC>(&result, TYPE_Y, 0, value);
  return result;
}

// COUNT sums as results, stored by whole words of VECTOR.
template <int VECTOR, int COUNT>
__device__ inline void store_results(Y *to, const ACC sum[COUNT]) {
  typedef typename Word<VECTOR * sizeof(Y)>::type WORD;
  union {
    WORD word[COUNT / VECTOR];
    Y y[COUNT];
  } raw;
#pragma unroll
  for (int i = 0; i < COUNT; i++) raw.y[i] = to_y(sum[i]);
#pragma unroll
  for (int i = 0; i < COUNT / VECTOR; i++) __stcs((WORD *)(to + i * VECTOR), raw.word[i]);
}
