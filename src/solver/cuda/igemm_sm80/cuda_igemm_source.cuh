// Addresses and presence of the pieces of the implicit matrix.

// Compile-time parameters of the kernels:
//   FOLD   1: entries are positions; a boundary of the source is not constant
//   FILL   1: the constant beyond the ends is not 0
//   ONES   1: some entries are the number one, not an element
//   SPANS  1: entries are aligned words of 16 bytes, which may contain channels of other pixels

#pragma once
#include "boundary.cuh"
#include "cuda_igemm.cuh"

typedef falt_cuda_igemm_source Source;

struct Pixel {
  const char *from;  // its first position; with FOLD its image
  unsigned bits;     // 0: there is no such pixel
  int at[FOLD ? 3 : 1];
};

__device__ inline unsigned bits_along(const Source &a, const Polyphase &p, int axis, int at, int first) {
  unsigned bits = 0;
#pragma unroll 1
  for (int i = 0; i < p.taps[axis]; i++)
    bits |= (unsigned)(at + i * p.delta[axis]) < (unsigned)a.in[axis] ? 1u << i : 0;
  return bits << first;
}

__device__ inline Pixel find_pixel(const Source &a, const Polyphase &p, const char *data, int m) {
  Pixel pixel = {data, 0};
  int q[4];
  if (m >= p.pixels) return pixel;
  locate(p, m, q);
  pixel.from = data + q[0] * a.image;
  pixel.bits = FALT_CUDA_IGEMM_EXISTS;
  int first = 0;
#pragma unroll
  for (int axis = 0; axis < 3; axis++) {
    const int at = q[axis + 1] * a.step[axis] + (FOLD ? 0 : p.first[axis]);
    if constexpr (FOLD) {
      pixel.at[axis] = at;
    } else {
      pixel.from += at * a.axis[axis];
      pixel.bits |= bits_along(a, p, axis, at, first);
      first += p.taps[axis];
    }
  }
  return pixel;
}

#if FOLD
typedef falt_cuda_igemm_place Entry;
#else
typedef falt_cuda_igemm_entry Entry;
#endif

__device__ inline Entry entry_at(const Entry *table, int i) {
#if FOLD
  const int4 e = __ldg((const int4 *)table + i);
  return Entry{e.x, {e.y, e.z, e.w}};
#else
  const int2 e = __ldg((const int2 *)table + i);
  return Entry{e.x, (unsigned)e.y};
#endif
}

// Whether a piece of a pixel's window exists, and its address. With FILL missing pieces are the constant.
__device__ inline bool find_piece(const Source &a, const Pixel &pixel, const Entry &e, const char *&from) {
  bool exists, beyond;
#if FOLD
  if (ONES && e.channel == FALT_CUDA_IGEMM_ONES) {
    from = (const char *)a.one;
    return pixel.bits;
  }
  int at[3];
#pragma unroll
  for (int axis = 0; axis < 3; axis++)
    at[axis] = fold<int>(a.boundary[axis][0], a.boundary[axis][1], a.in[axis], pixel.at[axis] + e.at[axis]);
  const bool any = pixel.bits && e.channel != FALT_CUDA_IGEMM_NO_CHANNEL;
  exists = any && (at[0] | at[1] | at[2]) >= 0, beyond = any && !exists;
  from = pixel.from + (at[0] * a.axis[0] + at[1] * a.axis[1] + at[2] * a.axis[2] + e.channel);
#else
  if (ONES && e.bits & FALT_CUDA_IGEMM_ONE) {
    from = (const char *)a.one;
    return pixel.bits;
  }
  const unsigned bits = SPANS ? e.bits & ~(255u << FALT_CUDA_IGEMM_HEAD) : e.bits;
  exists = (pixel.bits & bits) == bits, beyond = pixel.bits && (int)e.bits >= 0 && !exists;
  from = pixel.from + e.delta;
#endif
  if (FILL && beyond) from = (const char *)a.fill;
  return exists || (FILL && beyond);
}
