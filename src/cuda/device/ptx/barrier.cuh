// Barriers in shared memory (mbarrier) among the threads of a block or a cluster; one instruction each.
#pragma once
#include "ptx/address.cuh"

__device__ inline void barrier_init(unsigned barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}

// Makes initialised barriers visible to TMA and to other blocks of the cluster.
__device__ inline void barrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ inline void barrier_arrive(unsigned barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// At the same barrier of another block of the cluster. Orders no memory beyond it: a fence of the whole GPU's memory,
// as .release.cluster would be, costs more than a step of products.
__device__ inline void barrier_arrive_at(unsigned barrier, int block) {
  asm volatile(
      "{ .reg .b32 remote; mapa.shared::cluster.u32 remote, %0, %1;"
      " mbarrier.arrive.shared::cluster.b64 _, [remote]; }" ::"r"(barrier),
      "r"(block)
      : "memory");
}

__device__ inline void barrier_expect(unsigned barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

__device__ inline void barrier_wait(unsigned barrier, int parity) {
  asm volatile(
      "{ .reg .pred done;\n"
      "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again; }" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

__device__ inline void cluster_sync() {
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
}

// The same in two steps: a thread that has arrived may continue until it waits. Orders no memory except by
// barrier_init_fence.
__device__ inline void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

__device__ inline void cluster_wait() {
  asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
}

// The address of the same place in the shared memory of another block of the cluster.
__device__ inline unsigned at_block(unsigned address, int block) {
  unsigned remote;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(block));
  return remote;
}

__device__ inline int cluster_rank() {
  int rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// Among some of a block's warps: `name` 1 to 15.
__device__ inline void warps_sync(int name, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(name), "r"(threads) : "memory");
}

// The same without waiting for other threads.
__device__ inline void warps_arrive(int name, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(name), "r"(threads) : "memory");
}

template <int COUNT>
__device__ inline void registers_more() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}

template <int COUNT>
__device__ inline void registers_less() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}
