// Writes the im2col matrices of cuda_im2col.c: one thread an element, neighbouring threads at neighbouring elements.
//
//   BY_ROW   [image][group][c, tap][position], else [group][image][position][c, tap]

// Compile-time parameters:
//   ELEMENT          C type with an element's bits
//   INDEX            unsigned or unsigned long long: numbers elements of the matrices
//   BY_ROW           as above
//   CHANNELS_FIRST   1: the taps of a channel stand together, else the channels of a tap

#include "args.h"
#include "boundary.cuh"

typedef long long i64;
typedef falt_cuda_im2col_args Args;

struct Place {
  INDEX image, group, depth, position;
};

__device__ inline Place place_of(const Args &a, INDEX i) {
  const INDEX positions = (INDEX)a.positions, depth = (INDEX)a.depth;
  Place p;
  if (BY_ROW) {
    p.position = i % positions;
    p.depth = i / positions % depth;
    const INDEX slice = i / positions / depth;
    p.group = slice % a.groups;
    p.image = slice / a.groups;
  } else {
    p.depth = i % depth;
    p.position = i / depth % positions;
    const INDEX slice = i / depth / positions;
    p.image = slice % a.images;
    p.group = slice / a.images;
  }
  return p;
}

// Where position o of axis i and tap j lead, or -1.
__device__ inline i64 met(const Args &a, int i, i64 o, i64 j) {
  const falt_cuda_axis &axis = a.axis[i];
  return fold<i64>(axis.boundary[0], axis.boundary[1], a.x.size[3 + i],
                   o * axis.stride + j * axis.dilation - axis.pad[0]);
}

extern "C" __global__ void __launch_bounds__(256) falt_im2col(const __grid_constant__ Args a) {
  const INDEX i = (INDEX)blockIdx.x * 256 + threadIdx.x;
  if (i >= (INDEX)a.count) return;
  const Place p = place_of(a, i);
  const unsigned taps = a.taps[0] * a.taps[1] * a.taps[2], depth = (unsigned)p.depth, position = (unsigned)p.position;
  const unsigned channel = CHANNELS_FIRST ? depth / taps : depth % a.channels;
  const unsigned tap = CHANNELS_FIRST ? depth % taps : depth / a.channels;
  const i64 d = met(a, 0, position / a.out[2] / a.out[1], tap / a.taps[2] / a.taps[1]);
  const i64 h = met(a, 1, position / a.out[2] % a.out[1], tap / a.taps[2] % a.taps[1]);
  const i64 w = met(a, 2, position % a.out[2], tap % a.taps[2]);
  const i64 at = p.image * a.x.stride[0] + p.group * a.x.stride[1] + channel * a.x.stride[2] + d * a.x.stride[3] +
                 h * a.x.stride[4] + w * a.x.stride[5];
  const bool inside = d >= 0 && h >= 0 && w >= 0;
  ((ELEMENT *)a.columns)[i] = inside ? ((const ELEMENT *)a.x.data)[at] : (ELEMENT)a.fill;
}
