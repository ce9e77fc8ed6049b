// Copies planes of 16-bit floats to shared memory, by all threads of a block. The kernel defines WARPS.
#pragma once
#include "args.h"
#include "async.cuh"

typedef long long i64;
typedef falt_cuda_depthwise_args Args;
typedef unsigned short Bits;

constexpr int THREADS = 32 * WARPS;

__device__ constexpr int ceil_div(int a, int b) {
  return (a + b - 1) / b;
}
__device__ constexpr int least(int a, int b) {
  return a < b ? a : b;
}
__device__ constexpr int most(int a, int b) {
  return a > b ? a : b;
}

// Hides a value from the compiler: derived values are recomputed and not kept in registers from tile to tile.
__device__ inline int again(int value) {
  asm volatile("" : "+r"(value));
  return value;
}

// Distributes the units of lines over threads: each thread takes the same unit of lines that are TOGETHER lines apart.
template <int LINE>
struct Lines {
  static constexpr int ACTIVE = least(LINE, THREADS), TOGETHER = THREADS / ACTIVE;
  int unit, first;

  __device__ inline Lines() {
    const int thread = again(threadIdx.x);
    unit = thread % ACTIVE, first = thread / ACTIVE;
  }
  __device__ inline bool exists() const { return first < TOGETHER; }
};

template <int UNIT>
__device__ inline void copy_unit(char *to, const Bits *from, bool exists) {
  if constexpr (UNIT > 1)
    copy_async<2 * UNIT>(shared_address(to), from, exists ? 2 * UNIT : 0);
  else
    *(Bits *)to = exists ? __ldg(from) : 0;
}

// Copies ROWS rows of WIDTH columns of some images, UNIT elements a copy. place: the address of an element by image,
// row and column; exists: whether a row exists, or is zeros.
template <int UNIT, int WIDTH, int ROWS, typename PLACE, typename EXISTS>
__device__ inline void copy_planes(const Bits *from, i64 image_stride, int row_stride, int images, char *to,
                                   PLACE place, EXISTS exists) {
  typedef Lines<ceil_div(WIDTH, UNIT)> Units;
  const Units units;
#pragma unroll 1
  for (int column = units.unit * UNIT; units.exists() && column < WIDTH; column += Units::ACTIVE * UNIT)
#pragma unroll 2
    for (int line = units.first; line < images * ROWS; line += Units::TOGETHER) {
      const int image = line / ROWS, row = line % ROWS;
      copy_unit<UNIT>(to + place(image, row, column), from + (image * image_stride + row * (i64)row_stride + column),
                      exists(row));
    }
}

__device__ inline void clear(char *memory, int bytes) {
  for (int i = threadIdx.x * 16; i < bytes; i += THREADS * 16) *(uint4 *)(memory + i) = make_uint4(0, 0, 0, 0);
}
