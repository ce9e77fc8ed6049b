// wgmma with both operands in shared memory: acc(64xN) += a(64x16) * b(16xN), 16-bit floats PAIR, accumulators f32.
// TRANS_A, TRANS_B: the operand is transposed, with its rows (columns) contiguous instead of the depth. Lane (g, t)
// of warp w holds rows 16w + g and 16w + g + 8, columns 8j + 2t and 8j + 2t + 1, at acc[4j .. 4j + 3].
#pragma once

#include "ptx/registers.cuh"

// Rows of 128 bytes, 8 of them swizzled together; `lead`: bytes between blocks of 64 if rows are contiguous.
__device__ inline unsigned long long wgmma_operand(unsigned address, int lead) {
  return (address & 0x3ffff) >> 4 | (unsigned long long)(lead >> 4) << 16 | 1024ull >> 4 << 32 | 1ull << 62;
}

// Rows of `row` bytes, 32, 64 or 128, with contiguous depth, in blocks of 8 rows `next` bytes apart. The swizzle
// depends on addresses, so any row may be the first.
__device__ inline unsigned long long wgmma_rows(unsigned address, int next, int row) {
  const unsigned long long swizzle = row == 128 ? 1 : row == 64 ? 2 : 3;
  return (address & 0x3ffff) >> 4 | 1ull << 16 | (unsigned long long)(next >> 4) << 32 | swizzle << 62;
}

// The depth runs along lines of 128 bytes: blocks of 64 rows or columns are `lead` bytes apart, blocks of 8 lines
// `next`.
__device__ inline unsigned long long wgmma_lines(unsigned address, int lead, int next) {
  return (address & 0x3ffff) >> 4 | (unsigned long long)(lead >> 4) << 16 | (unsigned long long)(next >> 4) << 32 |
         1ull << 62;
}

__device__ inline void wgmma_begin() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ inline void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Until all but the last COUNT commits are done.
template <int COUNT>
__device__ inline void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(COUNT) : "memory");
}

// Keeps the compiler from moving accumulators across products in flight.
template <int COUNT>
__device__ inline void wgmma_hold(float (&acc)[COUNT]) {
#pragma unroll
  for (int i = 0; i < COUNT; i++) asm volatile("" : "+f"(acc[i])::"memory");
}

// One instruction for each N = 2 * COUNT; A, B, KEEP, X and Y are the numbers of the operands behind the sums.
#define SUM(i) d[i]
#define WGMMA(COUNT, N, A, B, KEEP, X, Y)                                                                     \
  __device__ static inline void add(float(&d)[COUNT], unsigned long long a, unsigned long long b, int keep) { \
    asm volatile("{ .reg .pred keep; setp.ne.b32 keep, %" #KEEP                                               \
                 ", 0;\n"                                                                                     \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." PAIR " {" NAMES_##COUNT                    \
                 "}, %" #A ", %" #B ", keep, 1, 1, %" #X ", %" #Y "; }"                                       \
                 : SUMS_##COUNT(SUM)                                                                          \
                 : "l"(a), "l"(b), "r"(keep), "n"(TRANS_A), "n"(TRANS_B));                                    \
  }
template <int TRANS_A, int TRANS_B>
struct Wgmma {
  WGMMA(12, 24, 12, 13, 14, 15, 16)
  WGMMA(20, 40, 20, 21, 22, 23, 24)
  WGMMA(24, 48, 24, 25, 26, 27, 28)
  WGMMA(28, 56, 28, 29, 30, 31, 32)
  WGMMA(32, 64, 32, 33, 34, 35, 36)
  WGMMA(48, 96, 48, 49, 50, 51, 52)
  WGMMA(64, 128, 64, 65, 66, 67, 68)
  WGMMA(96, 192, 96, 97, 98, 99, 100)
  WGMMA(128, 256, 128, 129, 130, 131, 132)
};
#undef WGMMA
#undef SUM

// Four 8x8 matrices of 16-bit elements into shared memory: lane i gives the address of row i % 8 of matrix i / 8.
__device__ inline void store_matrices(unsigned to, const unsigned (&word)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(word[0]), "r"(word[1]),
               "r"(word[2]), "r"(word[3]));
}

// Each with rows and columns exchanged.
__device__ inline void store_matrices_transposed(unsigned to, const unsigned (&word)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(word[0]),
               "r"(word[1]), "r"(word[2]), "r"(word[3]));
}

__device__ inline void load_matrices_transposed(unsigned (&word)[4], unsigned from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
               : "r"(from));
}

__device__ inline void load_matrices(unsigned (&word)[4], unsigned from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
               : "r"(from));
}

__device__ inline void store_pair(unsigned to, float2 pair) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to), "f"(pair.x), "f"(pair.y));
}

__device__ inline float2 load_pair(unsigned from) {
  float2 pair;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(pair.x), "=f"(pair.y) : "r"(from));
  return pair;
}

__device__ inline float4 load_four(unsigned from) {
  float4 four;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(four.x), "=f"(four.y), "=f"(four.z), "=f"(four.w)
               : "r"(from));
  return four;
}

__device__ inline void store_word(unsigned to, float word) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(to), "f"(word));
}

__device__ inline float load_float(unsigned from) {
  float word;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(word) : "r"(from));
  return word;
}
