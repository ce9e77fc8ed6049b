// wgmma on tf32: acc(64xN) += a(64x8) * b(8xN), accumulators f32. a is in registers, 16 rows a warp in the layout of
// mma.cuh. b is in shared memory: rows of 128 bytes in blocks of eight whose chunks of 16 bytes are swizzled by the
// row. acc[j] are columns 8j to 8j + 7, in the layout of mma.cuh.
#pragma once

#include "ptx/registers.cuh"

__device__ inline unsigned long long words_operand(unsigned address) {
  return (address & 0x3ffff) >> 4 | 1024ull >> 4 << 32 | 1ull << 62;
}

// Copies into shared memory before this are seen by products after the next barrier.
__device__ inline void publish_copies() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ inline void begin_words() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ inline void end_words() {
  asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
}

template <int N>
struct Words;

// A0 to KEEP are the numbers of the operands behind the COUNT = N / 2 sums.
#define SUM(i) d[(i) / 4][(i) % 4]
#define WORDS_PRODUCT(COUNT, N, A0, A1, A2, A3, B, KEEP)                                        \
  template <>                                                                                   \
  struct Words<N> {                                                                             \
    __device__ static inline void add(float (*d)[4], uint4 a, unsigned long long b, int keep) { \
      asm volatile("{ .reg .pred keep; setp.ne.b32 keep, %" #KEEP                               \
                   ", 0;\n"                                                                     \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k8.f32.tf32.tf32 {" NAMES_##COUNT    \
                   "}, {%" #A0 ", %" #A1 ", %" #A2 ", %" #A3 "}, %" #B ", keep, 1, 1; }"        \
                   : SUMS_##COUNT(SUM)                                                          \
                   : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b), "r"(keep));                \
    }                                                                                           \
  };
WORDS_PRODUCT(32, 64, 32, 33, 34, 35, 36, 37)
WORDS_PRODUCT(64, 128, 64, 65, 66, 67, 68, 69)
#undef WORDS_PRODUCT
#undef SUM
