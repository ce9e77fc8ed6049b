// wgmma with a in registers: acc(64xN) += a(64x16) * b(16xN), 16-bit floats PAIR, accumulators f32. A warp has 16 rows
// of a in the layout of mma.cuh. b is in shared memory with contiguous depth or, TRANS_B, contiguous columns. Lane (g,
// t) of warp w holds rows 16w + g and 16w + g + 8, columns 8j + 2t and 8j + 2t + 1, at acc[4j .. 4j + 3].
#pragma once

#include "ptx/registers.cuh"

// Blocks of eight columns, 16 contiguous bytes of each, `next` bytes from block to block and `lead` from one half of
// the depth to the other. TRANS_B: 16 bytes of a depth index are eight columns, and eight indices are contiguous. Not
// swizzled: blocks may start at any 16 bytes, and overlap.
__device__ inline unsigned long long wgmma_blocks(unsigned address, int lead, int next) {
  return (address & 0x3ffff) >> 4 | (unsigned long long)(lead >> 4) << 16 | (unsigned long long)(next >> 4) << 32;
}

// One instruction for each N = 2 * COUNT; A to KEEP and X are the numbers of the operands behind the sums.
#define SUM(i) d[i]
#define WGMMA_ROWS(COUNT, N, A0, A1, A2, A3, B, KEEP, X)                                                       \
  __device__ static inline void add(float(&d)[COUNT], const unsigned(&a)[4], unsigned long long b, int keep) { \
    asm volatile("{ .reg .pred keep; setp.ne.b32 keep, %" #KEEP                                                \
                 ", 0;\n"                                                                                      \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." PAIR " {" NAMES_##COUNT                     \
                 "}, {%" #A0 ", %" #A1 ", %" #A2 ", %" #A3 "}, %" #B ", keep, 1, 1, %" #X "; }"                \
                 : SUMS_##COUNT(SUM)                                                                           \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(keep), "n"(TRANS_B));               \
  }
template <int TRANS_B>
struct WgmmaRows {
  WGMMA_ROWS(8, 16, 8, 9, 10, 11, 12, 13, 14)
  WGMMA_ROWS(12, 24, 12, 13, 14, 15, 16, 17, 18)
  WGMMA_ROWS(16, 32, 16, 17, 18, 19, 20, 21, 22)
  WGMMA_ROWS(24, 48, 24, 25, 26, 27, 28, 29, 30)
  WGMMA_ROWS(28, 56, 28, 29, 30, 31, 32, 33, 34)
  WGMMA_ROWS(32, 64, 32, 33, 34, 35, 36, 37, 38)
  WGMMA_ROWS(56, 112, 56, 57, 58, 59, 60, 61, 62)
  WGMMA_ROWS(64, 128, 64, 65, 66, 67, 68, 69, 70)
};
#undef WGMMA_ROWS
#undef SUM
