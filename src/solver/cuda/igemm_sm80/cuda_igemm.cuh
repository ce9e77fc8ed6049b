// Shared parts of the implicit GEMM kernels: division of pixel numbers into coordinates, copies of pieces of any
// alignment, and the split of f32 into two tf32.
#pragma once
#include "args.h"
#include "convert.cuh"
#include "mma.cuh"

typedef long long i64;
typedef falt_cuda_igemm_polyphase Polyphase;

constexpr int size_of(int type) {
  return type == U8 || type == S8                                    ? 1
         : type == U16 || type == S16 || type == F16 || type == BF16 ? 2
         : type == F64                                               ? 8
                                                                     : 4;
}

__device__ inline int quotient(unsigned n, const Polyphase &p, int axis) {
  return (int)((unsigned long long)n * p.reciprocal[axis] >> p.shift[axis]);
}

// The coordinates of output i of a polyphase part: image, then position along each axis.
__device__ inline void locate(const Polyphase &p, int i, int q[4]) {
  const int m = p.begin + i * p.apart;
  const int rows = quotient(m, p, 2), planes = quotient(rows, p, 1);
  q[3] = m - rows * p.out[2], q[2] = rows - planes * p.out[1];
  q[0] = quotient(planes, p, 0), q[1] = planes - q[0] * p.out[0];
}

template <int SIZE>
__device__ inline unsigned long long load_bits(const char *from) {
  if (SIZE == 1) return *(const unsigned char *)from;
  if (SIZE == 2) return *(const unsigned short *)from;
  if (SIZE == 4) return *(const unsigned *)from;
  return *(const unsigned long long *)from;
}

template <int SIZE>
__device__ inline void store_bits(unsigned to, unsigned long long bits) {
  if (SIZE == 1) asm volatile("st.shared.u8 [%0], %1;" ::"r"(to), "r"((unsigned)bits) : "memory");
  if (SIZE == 2) asm volatile("st.shared.u16 [%0], %1;" ::"r"(to), "h"((unsigned short)bits) : "memory");
  if (SIZE == 4) asm volatile("st.shared.u32 [%0], %1;" ::"r"(to), "r"((unsigned)bits) : "memory");
  if (SIZE == 8) asm volatile("st.shared.u64 [%0], %1;" ::"r"(to), "l"(bits) : "memory");
}

__device__ inline void store_vector(unsigned to, const unsigned word[4]) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(word[0]), "r"(word[1]), "r"(word[2]),
               "r"(word[3])
               : "memory");
}

// A chunk's elements as words.
template <int SIZE>
__device__ inline void pack_chunk(unsigned word[4], const unsigned long long element[16 / SIZE]) {
#pragma unroll
  for (int i = 0; i < 4; i++) word[i] = 0;
#pragma unroll
  for (int k = 0; k < 16 / SIZE; k++) {
    word[k * SIZE / 4] |= (unsigned)element[k] << 8 * (k * SIZE % 4);
    if (SIZE == 8) word[k * 2 + 1] = (unsigned)(element[k] >> 32);
  }
}

// The remainder of an element after truncation to tf32. Truncation, unlike rounding, makes no number infinite; the
// remainder of an infinity is NaN.
__device__ inline unsigned low_part(unsigned word) {
  return __float_as_uint(__uint_as_float(word) - __uint_as_float(word & 0xffffe000));
}

__device__ inline uint4 low_parts(uint4 a) {
  return make_uint4(low_part(a.x), low_part(a.y), low_part(a.z), low_part(a.w));
}

// Rounds to the nearest tf32: the lower bits are cut off. No number becomes infinite, and no NaN becomes a number.
__device__ inline unsigned rounded_part(unsigned word) {
  return fabsf(__uint_as_float(word)) < 0x1.ffep127f ? word + 0x1000 : word;
}

__device__ inline void round_parts(uint4 &a) {
  a.x = rounded_part(a.x), a.y = rounded_part(a.y), a.z = rounded_part(a.z), a.w = rounded_part(a.w);
}

// Columns 8j to 8j + 15 of the accumulators. IN_PARTS: both operands in two parts (rest: the remainder of a), the
// smallest products first.
template <typename PRODUCT, int MT, int NT, int IN_PARTS, typename TOTAL>
__device__ inline void multiply_pair(TOTAL acc[MT][NT][4], const uint4 a[MT], const uint4 rest[MT], uint4 b, int j) {
  if constexpr (IN_PARTS) {
    const uint4 low = low_parts(b);
#pragma unroll
    for (int i = 0; i < MT; i++) {
      PRODUCT::whole(acc[i][j], rest[i], b.x, b.y);
      PRODUCT::whole(acc[i][j + 1], rest[i], b.z, b.w);
    }
#pragma unroll
    for (int i = 0; i < MT; i++) {
      PRODUCT::whole(acc[i][j], a[i], low.x, low.y);
      PRODUCT::whole(acc[i][j + 1], a[i], low.z, low.w);
    }
  }
#pragma unroll
  for (int i = 0; i < MT; i++) {
    PRODUCT::whole(acc[i][j], a[i], b.x, b.y);
    PRODUCT::whole(acc[i][j + 1], a[i], b.z, b.w);
  }
}

template <int MT, int NT, typename TOTAL>
__device__ inline void add_sums(TOTAL total[MT][NT][4], TOTAL sum[MT][NT][4]) {
#pragma unroll
  for (int i = 0; i < MT; i++)
#pragma unroll
    for (int j = 0; j < NT; j++)
#pragma unroll
      for (int k = 0; k < 4; k++) total[i][j][k] += sum[i][j][k], sum[i][j][k] = 0;
}
