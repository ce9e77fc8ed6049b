// Rings of buffers in shared memory with a full and an empty barrier each.
#pragma once
#include "ptx/barrier.cuh"

// A place in a ring of COUNT buffers, and the parity of its barriers.
template <int COUNT>
struct Pipeline {
  int stage = 0, parity = 0;
  __device__ void skip(int count) {
    const int to = stage + count;
    parity ^= to / COUNT & 1;
    stage = to % COUNT;
  }
  __device__ void next() {
    if (++stage == COUNT) stage = 0, parity ^= 1;
  }
};

// The barriers of a ring, by one thread: how many arrivals fill and empty a buffer.
template <int COUNT, class Ring>
__device__ inline void ring_init(const Ring &ring, int filling, int emptying) {
  for (int i = 0; i < COUNT; i++) {
    barrier_init(ring.full(i), filling);
    barrier_init(ring.empty(i), emptying);
  }
}
