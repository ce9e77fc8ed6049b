// Conversion of elements, by the numbers of falt_type. Integers are rounded to nearest, ties to even, and saturated,
// with NaN as 0; floats are rounded once, also from double.
#pragma once

enum Type { U8, S8, U16, S16, S32, F16, BF16, F32, F64 };

__device__ inline float from_f16(unsigned short bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}

__device__ inline float from_bf16(unsigned short bits) {
  return __uint_as_float((unsigned)bits << 16);
}

__device__ inline unsigned short to_f16(float value) {
  unsigned short bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}

__device__ inline unsigned short to_bf16(float value) {
  const unsigned bits = __float_as_uint(value);
  if (value != value) return bits >> 16 | 0x40;
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

// Rounded to odd: rounding the result once more, to at most 22 bits, gives what one rounding would have given.
__device__ inline float to_odd(double value) {
  const float cut = __double2float_rz(value);
  return (double)cut == value || value != value ? cut : __uint_as_float(__float_as_uint(cut) | 1);
}

__device__ inline float to_odd(float value) {
  return value;
}

template <typename R>
__device__ inline int to_integer(R value, int low, int high) {
  if (value != value) return 0;
  if (value <= (R)low) return low;
  if (value >= (R)high) return high;
  return (int)rint(value);
}

// In one instruction, which saturates to the type's range.
__device__ inline unsigned char to_u8(float value) {
  unsigned bits;
  asm("{ .reg .u8 low; cvt.rni.sat.u8.f32 low, %1; cvt.u32.u8 %0, low; }" : "=r"(bits) : "f"(value));
  return bits;
}

__device__ inline signed char to_s8(float value) {
  int bits;
  asm("{ .reg .s8 low; cvt.rni.sat.s8.f32 low, %1; cvt.s32.s8 %0, low; }" : "=r"(bits) : "f"(value));
  return bits;
}

__device__ inline unsigned short to_u16(float value) {
  unsigned short bits;
  asm("cvt.rni.sat.u16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}

__device__ inline short to_s16(float value) {
  short bits;
  asm("cvt.rni.sat.s16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}

__device__ inline unsigned char to_u8(double value) {
  return to_integer(value, 0, 255);
}
__device__ inline signed char to_s8(double value) {
  return to_integer(value, -128, 127);
}
__device__ inline unsigned short to_u16(double value) {
  return to_integer(value, 0, 65535);
}
__device__ inline short to_s16(double value) {
  return to_integer(value, -32768, 32767);
}

// data[index] as R: float, double or an integer that holds it.
template <typename R>
__device__ inline R load(const void *data, int type, long long index) {
  switch (type) {
    case U8:
      return (R)((const unsigned char *)data)[index];
    case S8:
      return (R)((const signed char *)data)[index];
    case U16:
      return (R)((const unsigned short *)data)[index];
    case S16:
      return (R)((const short *)data)[index];
    case S32:
      return (R)((const int *)data)[index];
    case F16:
      return (R)from_f16(((const unsigned short *)data)[index]);
    case BF16:
      return (R)from_bf16(((const unsigned short *)data)[index]);
    case F32:
      return (R)((const float *)data)[index];
    default:
      return (R)((const double *)data)[index];
  }
}

template <typename R>
__device__ inline void store(void *data, int type, long long index, R value) {
  switch (type) {
    case U8:
      ((unsigned char *)data)[index] = to_u8(value);
      break;
    case S8:
      ((signed char *)data)[index] = to_s8(value);
      break;
    case U16:
      ((unsigned short *)data)[index] = to_u16(value);
      break;
    case S16:
      ((short *)data)[index] = to_s16(value);
      break;
    case S32:
      ((int *)data)[index] = to_integer((double)value, -2147483647 - 1, 2147483647);
      break;
    case F16:
      ((unsigned short *)data)[index] = to_f16(to_odd(value));
      break;
    case BF16:
      ((unsigned short *)data)[index] = to_bf16(to_odd(value));
      break;
    case F32:
      ((float *)data)[index] = (float)value;
      break;
    default:
      ((double *)data)[index] = value;
  }
}
