// MMA instructions of tensor cores: acc(16x8) += a(16xK) * b(Kx8), one instruction each. K is 32 bytes, 16 halves or 8
// words of 32 bits; a half product has half that K. Lane (g, t) = (lane/4, lane%4) holds in 32-bit registers of a rows
// g and g+8 of depth slots t (x, y) and 4+t (z, w), of b column g of the same slots, of acc the elements (g, 2t), (g,
// 2t+1), (g+8, 2t), (g+8, 2t+1).
#pragma once

// s8 * u8, f16, bf16, tf32, s8 * s8, u8 * u8, u8 * s8, f64.
enum Kind { BYTES, HALVES, BRAINS, WORDS, SIGNED_BYTES, UNSIGNED_BYTES, MIXED_BYTES, DOUBLES };

template <int KIND_>
struct Mma;

// SUM is the type of sums and R the constraint of their registers, K and HALF_K the lengths of a product, TYPES those
// of sums, a, b and sums.
#define MMA(KIND, SUM, R, K, HALF_K, TYPES)                                                                       \
  template <>                                                                                                     \
  struct Mma<KIND> {                                                                                              \
    typedef SUM Sum;                                                                                              \
    __device__ static inline void whole(Sum acc[4], uint4 a, unsigned b0, unsigned b1) {                          \
      asm("mma.sync.aligned.m16n8k" #K ".row.col." TYPES " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
          : "+" R(acc[0]), "+" R(acc[1]), "+" R(acc[2]), "+" R(acc[3])                                            \
          : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));                                            \
    }                                                                                                             \
    __device__ static inline void half(Sum acc[4], uint4 a, unsigned b) {                                         \
      asm("mma.sync.aligned.m16n8k" #HALF_K ".row.col." TYPES " {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"     \
          : "+" R(acc[0]), "+" R(acc[1]), "+" R(acc[2]), "+" R(acc[3])                                            \
          : "r"(a.x), "r"(a.y), "r"(b));                                                                          \
    }                                                                                                             \
  };
MMA(BYTES, int, "r", 32, 16, "s32.s8.u8.s32")
MMA(SIGNED_BYTES, int, "r", 32, 16, "s32.s8.s8.s32")
MMA(UNSIGNED_BYTES, int, "r", 32, 16, "s32.u8.u8.s32")
MMA(MIXED_BYTES, int, "r", 32, 16, "s32.u8.s8.s32")
MMA(HALVES, float, "f", 16, 8, "f32.f16.f16.f32")
MMA(BRAINS, float, "f", 16, 8, "f32.bf16.bf16.f32")
MMA(WORDS, float, "f", 8, 4, "f32.tf32.tf32.f32")
#undef MMA

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
