// Asynchronous copies from global to shared memory (cp.async), and matrix loads of a warp from shared memory
// (ldmatrix).
#pragma once
#include "ptx/address.cuh"

// Copies `valid` of BYTES bytes and sets the rest to zero; both addresses are aligned to BYTES. CACHED: through L1, for
// neighbouring 16 bytes with destinations that are apart; without L1 each of them fetches a whole sector.
template <int BYTES, bool CACHED = false>
__device__ inline void copy_async(unsigned to, const void *from, int valid) {
  if constexpr (BYTES == 16 && !CACHED)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(valid));
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;" ::"r"(to), "l"(from), "r"(valid), "n"(BYTES));
}

// Commits the copies since the last call as one batch; waits until at most PENDING batches are in flight.
__device__ inline void end_batch() {
  asm volatile("cp.async.commit_group;");
}
template <int PENDING>
__device__ inline void await_batches() {
  asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

// Four matrices of eight rows of 16 bytes; lane l names row l%8 of matrix l/8, lane (g, t) receives word t of row g of
// each; transposed, elements 2t and 2t+1 of column g, halves all.
__device__ inline uint4 load_matrices(unsigned row) {
  uint4 m;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(m.x), "=r"(m.y), "=r"(m.z), "=r"(m.w)
               : "r"(row)
               : "memory");
  return m;
}
__device__ inline uint4 load_transposed(unsigned row) {
  uint4 m;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(m.x), "=r"(m.y), "=r"(m.z), "=r"(m.w)
               : "r"(row)
               : "memory");
  return m;
}
__device__ inline unsigned load_word(unsigned address) {
  unsigned word;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(address) : "memory");
  return word;
}

// The same for doubles, two matrices: lane (g, t) addresses and receives double t of row g of one matrix, and the
// double `next` bytes behind it of the other.
__device__ inline uint4 load_doubles(unsigned address, int next) {
  uint4 m;
  asm volatile("ld.shared.v2.u32 {%0,%1}, [%2];" : "=r"(m.x), "=r"(m.y) : "r"(address) : "memory");
  asm volatile("ld.shared.v2.u32 {%0,%1}, [%2];" : "=r"(m.z), "=r"(m.w) : "r"(address + next) : "memory");
  return m;
}
