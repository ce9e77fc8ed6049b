// Products of small matrices on tensor cores: acc(16x8) += a(16xK) * b(Kx8), one instruction each. By the kind of the
// elements K is 32 bytes, 16 halves or 8 words of 32 bits; a half product has half that K. Lane (g, t) = (lane/4,
// lane%4) holds of a, in 32-bit registers, rows g and g+8 of K-slots t (x, y) and 4+t (z, w), of b column g of the same
// slots, of acc the elements (g, 2t), (g, 2t+1), (g+8, 2t), (g+8, 2t+1).
#pragma once

// s8 * u8, f16, bf16, tf32, s8 * s8, u8 * u8, u8 * s8, f64.
enum Kind { BYTES, HALVES, BRAINS, WORDS, SIGNED_BYTES, UNSIGNED_BYTES, MIXED_BYTES, DOUBLES };

template <int KIND_>
struct Mma;

template <>
struct Mma<BYTES> {
  typedef int Sum;
  __device__ static inline void whole(Sum acc[4], uint4 a, unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+r"(acc[0]), "+r"(acc[1]), "+r"(acc[2]), "+r"(acc[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
  }
  __device__ static inline void half(Sum acc[4], uint4 a, unsigned b) {
    asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.u8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
        : "+r"(acc[0]), "+r"(acc[1]), "+r"(acc[2]), "+r"(acc[3])
        : "r"(a.x), "r"(a.y), "r"(b));
  }
};

template <>
struct Mma<SIGNED_BYTES> {
  typedef int Sum;
  __device__ static inline void whole(Sum acc[4], uint4 a, unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+r"(acc[0]), "+r"(acc[1]), "+r"(acc[2]), "+r"(acc[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
  }
  __device__ static inline void half(Sum acc[4], uint4 a, unsigned b) {
    asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
        : "+r"(acc[0]), "+r"(acc[1]), "+r"(acc[2]), "+r"(acc[3])
        : "r"(a.x), "r"(a.y), "r"(b));
  }
};

template <>
struct Mma<HALVES> {
  typedef float Sum;
  __device__ static inline void whole(Sum acc[4], uint4 a, unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
  }
  __device__ static inline void half(Sum acc[4], uint4 a, unsigned b) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
        : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
        : "r"(a.x), "r"(a.y), "r"(b));
  }
};

template <>
struct Mma<BRAINS> {
  typedef float Sum;
  __device__ static inline void whole(Sum acc[4], uint4 a, unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
  }
  __device__ static inline void half(Sum acc[4], uint4 a, unsigned b) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
        : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
        : "r"(a.x), "r"(a.y), "r"(b));
  }
};

template <>
struct Mma<WORDS> {
  typedef float Sum;
  __device__ static inline void whole(Sum acc[4], uint4 a, unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
  }
  __device__ static inline void half(Sum acc[4], uint4 a, unsigned b) {
    asm("mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
        : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
        : "r"(a.x), "r"(a.y), "r"(b));
  }
};

template <>
struct Mma<UNSIGNED_BYTES> {
  typedef int Sum;
  __device__ static inline void whole(Sum acc[4], uint4 a, unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+r"(acc[0]), "+r"(acc[1]), "+r"(acc[2]), "+r"(acc[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
  }
  __device__ static inline void half(Sum acc[4], uint4 a, unsigned b) {
    asm("mma.sync.aligned.m16n8k16.row.col.s32.u8.u8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
        : "+r"(acc[0]), "+r"(acc[1]), "+r"(acc[2]), "+r"(acc[3])
        : "r"(a.x), "r"(a.y), "r"(b));
  }
};

template <>
struct Mma<MIXED_BYTES> {
  typedef int Sum;
  __device__ static inline void whole(Sum acc[4], uint4 a, unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+r"(acc[0]), "+r"(acc[1]), "+r"(acc[2]), "+r"(acc[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
  }
  __device__ static inline void half(Sum acc[4], uint4 a, unsigned b) {
    asm("mma.sync.aligned.m16n8k16.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
        : "+r"(acc[0]), "+r"(acc[1]), "+r"(acc[2]), "+r"(acc[3])
        : "r"(a.x), "r"(a.y), "r"(b));
  }
};

// K is four. A lane has of a rows g (x, y) and g+8 (z, w) of slot t, of b column g of slot t, each in two registers.
template <>
struct Mma<DOUBLES> {
  typedef double Sum;
  __device__ static inline void whole(Sum acc[4], uint4 a, unsigned b0, unsigned b1) {
    const double b = __hiloint2double(b1, b0), upper = __hiloint2double(a.y, a.x), lower = __hiloint2double(a.w, a.z);
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
        : "+d"(acc[0]), "+d"(acc[1])
        : "d"(upper), "d"(b));
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
        : "+d"(acc[2]), "+d"(acc[3])
        : "d"(lower), "d"(b));
  }
};
