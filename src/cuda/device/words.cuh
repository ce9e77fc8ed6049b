// The unsigned integer type of a load or store of a given number of bytes.
#pragma once

template <int BYTES>
struct Word;
template <>
struct Word<16> {
  typedef uint4 type;
};
template <>
struct Word<8> {
  typedef uint2 type;
};
template <>
struct Word<4> {
  typedef unsigned type;
};
template <>
struct Word<2> {
  typedef unsigned short type;
};
template <>
struct Word<1> {
  typedef unsigned char type;
};
