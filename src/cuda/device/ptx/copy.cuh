// TMA copies: boxes of tensors to and from shared memory, one instruction each. Coordinates start at the innermost
// dimension. `..._to_all` copies are multicast to a mask of blocks in the cluster.
#pragma once

__device__ inline void copy_prefetch_map(const void *map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// im2col mode: consecutive pixels across the ends of rows, planes and images; each is read at offset `o`.
__device__ inline void copy_pixels_1(unsigned to, const void *map, unsigned barrier, const int c[3],
                                     const unsigned short o[1]) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4, %5}], [%2], {%6};" ::"r"(to),
      "l"(map), "r"(barrier), "r"(c[0]), "r"(c[1]), "r"(c[2]), "h"(o[0])
      : "memory");
}

__device__ inline void copy_pixels_1_to_all(unsigned to, const void *map, unsigned barrier, const int c[3],
                                            const unsigned short o[1], unsigned short mask) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes.multicast::cluster"
      " [%0], [%1, {%3, %4, %5}], [%2], {%6}, %7;" ::"r"(to),
      "l"(map), "r"(barrier), "r"(c[0]), "r"(c[1]), "r"(c[2]), "h"(o[0]), "h"(mask)
      : "memory");
}

__device__ inline void copy_pixels_2(unsigned to, const void *map, unsigned barrier, const int c[4],
                                     const unsigned short o[2]) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8};" ::"r"(to),
      "l"(map), "r"(barrier), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]), "h"(o[0]), "h"(o[1])
      : "memory");
}

__device__ inline void copy_pixels_2_to_all(unsigned to, const void *map, unsigned barrier, const int c[4],
                                            const unsigned short o[2], unsigned short mask) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes.multicast::cluster"
      " [%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8}, %9;" ::"r"(to),
      "l"(map), "r"(barrier), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]), "h"(o[0]), "h"(o[1]), "h"(mask)
      : "memory");
}

__device__ inline void copy_pixels_3(unsigned to, const void *map, unsigned barrier, const int c[5],
                                     const unsigned short o[3]) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4, %5, %6, %7}], [%2], {%8, %9, %10};" ::"r"(to),
      "l"(map), "r"(barrier), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]), "r"(c[4]), "h"(o[0]), "h"(o[1]), "h"(o[2])
      : "memory");
}

__device__ inline void copy_pixels_3_to_all(unsigned to, const void *map, unsigned barrier, const int c[5],
                                            const unsigned short o[3], unsigned short mask) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes.multicast::cluster"
      " [%0], [%1, {%3, %4, %5, %6, %7}], [%2], {%8, %9, %10}, %11;" ::"r"(to),
      "l"(map), "r"(barrier), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]), "r"(c[4]), "h"(o[0]), "h"(o[1]), "h"(o[2]),
      "h"(mask)
      : "memory");
}

// A box of a tensor of five dimensions.
__device__ inline void copy_box(unsigned to, const void *map, unsigned barrier, const int c[5]) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4, %5, %6, %7}], [%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]), "r"(c[4])
      : "memory");
}

__device__ inline void copy_box_to_all(unsigned to, const void *map, unsigned barrier, const int c[5],
                                       unsigned short mask) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
      " [%0], [%1, {%3, %4, %5, %6, %7}], [%2], %8;" ::"r"(to),
      "l"(map), "r"(barrier), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]), "r"(c[4]), "h"(mask)
      : "memory");
}

// Copies bytes of this block's shared memory to another block of the cluster, whose barrier counts them.
__device__ inline void copy_to_block(unsigned to, unsigned from, int bytes, unsigned barrier) {
  asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "r"(from), "r"(bytes), "r"(barrier)
               : "memory");
}

__device__ inline void copy_out_1(const void *map, unsigned from, const int c[3]) {
  asm volatile(
      "cp.async.bulk.tensor.3d.global.shared::cta.im2col_no_offs.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map),
      "r"(from), "r"(c[0]), "r"(c[1]), "r"(c[2])
      : "memory");
}

__device__ inline void copy_out_2(const void *map, unsigned from, const int c[4]) {
  asm volatile(
      "cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(map),
      "r"(from), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3])
      : "memory");
}

__device__ inline void copy_out_3(const void *map, unsigned from, const int c[5]) {
  asm volatile(
      "cp.async.bulk.tensor.5d.global.shared::cta.im2col_no_offs.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];" ::"l"(
          map),
      "r"(from), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]), "r"(c[4])
      : "memory");
}

__device__ inline void copy_out_box(const void *map, unsigned from, const int c[5]) {
  asm volatile(
      "cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];" ::"l"(map),
      "r"(from), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]), "r"(c[4])
      : "memory");
}

// Bytes that are contiguous: 16 divides their number and both addresses.
__device__ inline void copy_out_bytes(void *to, unsigned from, int bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(__cvta_generic_to_global(to)),
               "r"(from), "r"(bytes)
               : "memory");
}

__device__ inline void copy_out_commit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Until all but the last COUNT commits have been read from shared memory.
template <int COUNT>
__device__ inline void copy_out_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(COUNT) : "memory");
}

// Until all are in global memory.
__device__ inline void copy_out_wait() {
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

// Orders this thread's stores to shared memory before reads of TMA and of tensor cores.
__device__ inline void copy_fence() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
