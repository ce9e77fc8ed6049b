// Transposes tensors from NCHW to NHWC and back; for the way back, channels and pixels exchange their names:
//
//     to[line][pixel][channel] = from[line][channel][pixel], with zeros from the last channel to the pitch
//
// A thread transposes a square in registers: it loads 16 bytes of as many channels as 16 bytes hold and stores 16 bytes
// of each pixel. The squares of a warp are adjacent, so accesses fill whole sectors.

// Compile-time parameters:
//   SIZE    bytes of an element

#include "convert_layout_args.h"
#include "ptx/early.cuh"
#include "words.cuh"

constexpr int EDGE = 16 / SIZE;  // of a square

// ---- a square in registers

// Byte `i` of the word of a pixel's elements comes from channel i / SIZE.
__device__ inline unsigned gather_word(const uint4 (&row)[EDGE], int pixel, int word) {
  const int at = pixel * SIZE / 4;
  const auto part = [&](int channel) {
    const uint4 &v = row[channel];
    return at == 0 ? v.x : at == 1 ? v.y : at == 2 ? v.z : v.w;
  };
  if constexpr (SIZE == 1) {
    const int i = pixel % 4, pick = i | (4 + i) << 4;
    const unsigned low = __byte_perm(part(4 * word), part(4 * word + 1), pick);
    return __byte_perm(low, __byte_perm(part(4 * word + 2), part(4 * word + 3), pick), 0x5410);
  } else if constexpr (SIZE == 2) {
    return __byte_perm(part(2 * word), part(2 * word + 1), pixel % 2 ? 0x7632 : 0x5410);
  } else if constexpr (SIZE == 4) {
    return part(word);
  } else {
    const uint4 &v = row[word / 2];
    return pixel ? (word % 2 ? v.w : v.z) : (word % 2 ? v.y : v.x);
  }
}

// 16 bytes of a channel's pixels, UNIT bytes at a time; zeros beyond the line's end.
template <int UNIT>
__device__ inline uint4 load_row(const char *from, int left) {
  typedef typename Word<UNIT>::type Unit;
  constexpr int step = UNIT / SIZE;
  union {
    uint4 all;
    Unit unit[16 / UNIT];
  } row = {};
#pragma unroll
  for (int i = 0; i < 16 / UNIT; i++)
    if (i * step < left) row.unit[i] = __ldg((const Unit *)from + i);
  return row.all;
}

// Stores 16 bytes of a pixel's channels; element by element up to the last channel if they are not aligned.
__device__ inline void store_row(const falt_cuda_copy &t, char *to, unsigned channel, uint4 row) {
  typedef typename Word<SIZE>::type Element;
  if (t.whole) {
    *(uint4 *)to = row;
    return;
  }
  const union {
    uint4 all;
    Element element[EDGE];
  } part = {row};
#pragma unroll
  for (int i = 0; i < EDGE; i++)
    if (channel + i < t.channels) ((Element *)to)[i] = part.element[i];
}

template <int UNIT>
__device__ inline void transpose_square(const falt_cuda_copy &t, const char *from, char *to, unsigned pixel,
                                        unsigned channel) {
  uint4 row[EDGE];
#pragma unroll
  for (int i = 0; i < EDGE; i++) {
    const long long at = (channel + i) * t.channel + pixel;
    row[i] = channel + i < t.channels ? load_row<UNIT>(from + at * SIZE, (int)(t.pixels - pixel)) : uint4{};
  }
#pragma unroll
  for (int i = 0; i < EDGE; i++)
    if (pixel + i < t.pixels)
      store_row(
          t, to + ((long long)(pixel + i) * t.pitch + channel) * SIZE, channel,
          make_uint4(gather_word(row, i, 0), gather_word(row, i, 1), gather_word(row, i, 2), gather_word(row, i, 3)));
}

// ---- the block

template <int UNIT>
__device__ inline void transpose_block(const falt_cuda_copy &t, unsigned block) {
  const unsigned line = block / t.line_blocks, tile = block % t.line_blocks, down = FALT_CUDA_COPY_THREADS / t.side;
  const unsigned width = min(t.side, 4), height = 32 / width, across = t.side / width;  // a warp's squares; warps
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned channel = (tile % t.columns * t.side + warp % across * width + lane % width) * EDGE;
  const unsigned pixel = (tile / t.columns * down + warp / across * height + lane / width) * EDGE;
  if (channel >= t.pitch || pixel >= t.pixels) return;
  const unsigned last = line % t.lines[2], rest = line / t.lines[2];
  const long long at = last * t.line[2] + rest % t.lines[1] * t.line[1] + rest / t.lines[1] * t.line[0];
  transpose_square<UNIT>(t, (const char *)t.from + at * SIZE,
                         (char *)t.to + (long long)line * t.pixels * t.pitch * SIZE, pixel, channel);
}

extern "C" __global__ void __launch_bounds__(FALT_CUDA_COPY_THREADS, SIZE == 1 ? 1 : 2)
    falt_convert_layout(const __grid_constant__ falt_cuda_copy_args a) {
  const bool second = blockIdx.x >= a.copy[0].blocks;
  const falt_cuda_copy &t = a.copy[second];
  const unsigned block = blockIdx.x - (second ? a.copy[0].blocks : 0);
  await_stream();
  if (t.unit == 16)
    transpose_block<16>(t, block);
  else if (t.unit == 8)
    transpose_block<8>(t, block);
  else if (t.unit == 4)
    transpose_block < SIZE<4 ? 4 : SIZE>(t, block);
  else
    transpose_block<SIZE>(t, block);
}
