// Copies NHWC tensors to another channel pitch: to a multiple of 16 bytes, or back:
//
//     to[pixel][channel] = from[pixel][channel], with zeros from the last channel to the pitch
//
// Neighbouring threads store neighbouring words. The elements of a warp are consecutive, so its loads fill whole
// sectors.

// Compile-time parameters:
//   SIZE    bytes of an element

#include "convert_layout_args.h"
#include "ptx/early.cuh"
#include "words.cuh"

constexpr int PER = SIZE < 4 ? 4 / SIZE : 1;  // elements of a word

typedef typename Word<SIZE>::type Element;
typedef typename Word<SIZE * PER>::type Unit;

union Part {
  Unit all;
  Element element[PER];
};

// An element of a block's rows: its channel, and its offset in the source.
struct Place {
  unsigned channel, offset;

  __device__ inline void advance(const falt_cuda_copy &t, unsigned channels, unsigned offsets) {
    channel += channels, offset += offsets;
    if (channel >= t.pitch) channel -= t.pitch, offset += t.pixel - t.pitch;
  }
};

__device__ inline Part load_part(const falt_cuda_copy &t, const Element *from, Place at, unsigned i, unsigned count) {
  Part part = {};
#pragma unroll
  for (int e = 0; e < PER; e++) {
    if (i + e < count && at.channel < t.channels) part.element[e] = __ldg(from + at.offset);
    if (e + 1 < PER) at.advance(t, 1, 1);
  }
  return part;
}

__device__ inline void store_part(Element *to, unsigned i, unsigned count, unsigned whole, Part part) {
  if (i < whole) {
    *(Unit *)(to + i) = part.all;
    return;
  }
#pragma unroll
  for (int e = 0; e < PER; e++)
    if (i + e < count) to[i + e] = part.element[e];
}

extern "C" __global__ void __launch_bounds__(FALT_CUDA_COPY_THREADS)
    falt_pad_channels(const __grid_constant__ falt_cuda_copy_args a) {
  constexpr int AHEAD = 4, STEP = FALT_CUDA_COPY_THREADS * PER;
  const bool second = blockIdx.x >= a.copy[0].blocks;
  const falt_cuda_copy &t = a.copy[second];
  const unsigned first = (blockIdx.x - (second ? a.copy[0].blocks : 0)) * t.rows;
  const unsigned count = min(t.pixels - first, t.rows) * t.pitch, whole = t.whole ? count / PER * PER : 0;
  const unsigned channels = STEP % t.pitch, offsets = STEP / t.pitch * t.pixel + channels;  // of a step
  const Element *from = (const Element *)t.from + (long long)first * t.pixel;
  Element *to = (Element *)t.to + (long long)first * t.pitch;
  Place at = {0, 0};
  at.channel = threadIdx.x * PER % t.pitch;
  at.offset = threadIdx.x * PER / t.pitch * t.pixel + at.channel;
  await_stream();
  for (unsigned i = threadIdx.x * PER; i < count; i += AHEAD * STEP) {
    Part part[AHEAD];
#pragma unroll
    for (int k = 0; k < AHEAD; k++) {
      part[k] = load_part(t, from, at, i + k * STEP, count);
      at.advance(t, channels, offsets);
    }
#pragma unroll
    for (int k = 0; k < AHEAD; k++) store_part(to, i + k * STEP, count, whole, part[k]);
  }
}
