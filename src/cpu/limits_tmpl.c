/* Kernels that measure processor limits, compiled once per instruction set. They are simple: a processor that cannot
 * run them at its peak cannot run a convolution at its peak either. */
#include <stdint.h>

#include "cpu/amx.h"
#include "cpu/limits.h"

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

#define FALT_PASTE_(a, b) a##_##b
#define FALT_PASTE(a, b) FALT_PASTE_(a, b)
#define FALT_SUFFIXED(name) FALT_PASTE(name, FALT_ISA_SUFFIX)

enum { CHAINS = 12, UNROLL = 4 }; /* chains: more than latency times ports, fewer than registers */

typedef float vector_f32 __attribute__((vector_size(FALT_VECTOR_BYTES)));
typedef double vector_f64 __attribute__((vector_size(FALT_VECTOR_BYTES)));

#if defined(__AVX512F__)
static inline void stream(char *dst, vector_f32 value) {
  _mm512_stream_ps((float *)dst, (__m512)value);
}
#elif defined(__AVX__)
static inline void stream(char *dst, vector_f32 value) {
  _mm256_stream_ps((float *)dst, (__m256)value);
}
#elif defined(__SSE__)
static inline void stream(char *dst, vector_f32 value) {
  _mm_stream_ps((float *)dst, (__m128)value);
}
#else
static inline void stream(char *dst, vector_f32 value) {
  *(vector_f32 *)dst = value;
}
#endif

static inline void finish(void) {
#if defined(__SSE__)
  _mm_sfence();
#endif
}

static void copy_memory(void *dst, const void *src, size_t bytes) {
  for (size_t i = 0; i < bytes; i += FALT_VECTOR_BYTES)
    stream((char *)dst + i, *(const vector_f32 *)((const char *)src + i));
  finish();
}

static void copy_cache(void *dst, const void *src, size_t bytes, long times) {
  for (long t = 0; t < times; t++) {
    for (size_t i = 0; i < bytes; i += FALT_VECTOR_BYTES)
      *(vector_f32 *)((char *)dst + i) = *(const vector_f32 *)((const char *)src + i);
    __asm__ volatile("" : : "r"(dst), "r"(src) : "memory"); /* each copy happens */
  }
}

static double rate_f32(long times, float factor, float term) {
  vector_f32 sum[CHAINS], by = factor - (vector_f32){0}, plus = term - (vector_f32){0};
  for (int c = 0; c < CHAINS; c++) sum[c] = plus + (float)c;
  for (long t = 0; t < times; t++)
    for (int u = 0; u < UNROLL; u++)
      for (int c = 0; c < CHAINS; c++) sum[c] = sum[c] * by + plus;
  for (int c = 1; c < CHAINS; c++) sum[0] += sum[c];
  return (double)sum[0][0];
}

static double rate_f64(long times, double factor, double term) {
  vector_f64 sum[CHAINS], by = factor - (vector_f64){0}, plus = term - (vector_f64){0};
  for (int c = 0; c < CHAINS; c++) sum[c] = plus + (double)c;
  for (long t = 0; t < times; t++)
    for (int u = 0; u < UNROLL; u++)
      for (int c = 0; c < CHAINS; c++) sum[c] = sum[c] * by + plus;
  for (int c = 1; c < CHAINS; c++) sum[0] += sum[c];
  return sum[0][0];
}

#if defined(__AMX_TILE__)

/* Two by two tiles of sums, all of zeros: a matrix unit takes no less time for them. */
#define DEFINE_RATE(name, product)     \
  static void name(long times) {       \
    falt_amx_open(16);                 \
    for (long t = 0; t < times; t++) { \
      product(0, 4, 6);                \
      product(1, 4, 7);                \
      product(2, 5, 6);                \
      product(3, 5, 7);                \
    }                                  \
    _tile_release();                   \
  }
DEFINE_RATE(rate_bf16, _tile_dpbf16ps)
DEFINE_RATE(rate_s8, _tile_dpbusd)

enum { TILES = 4, TILE_SUMS = 16 * 16, BF16_FLOPS = 2 * TILES * TILE_SUMS * 32, S8_FLOPS = 2 * TILES * TILE_SUMS * 64 };

#else
#if defined(__AVX512VNNI__)

static void rate_s8(long times) {
  __m512i sum[CHAINS], by = _mm512_set1_epi8(1);
  for (int c = 0; c < CHAINS; c++) sum[c] = _mm512_set1_epi32(c);
  for (long t = 0; t < times; t++)
    for (int u = 0; u < UNROLL; u++)
      for (int c = 0; c < CHAINS; c++) sum[c] = _mm512_dpbusd_epi32(sum[c], by, by);
  for (int c = 0; c < CHAINS; c++) __asm__ volatile("" : : "v"(sum[c])); /* each is wanted */
}

enum { S8_FLOPS = 2 * CHAINS * UNROLL * FALT_VECTOR_BYTES };

#endif
#if defined(__AVX512BF16__)

static void rate_bf16(long times) {
  const __m512bh by = (__m512bh)_mm512_set1_epi16(0x3f00); /* 0.5: sums stay numbers */
  __m512 sum[CHAINS];
  for (int c = 0; c < CHAINS; c++) sum[c] = _mm512_set1_ps((float)c);
  for (long t = 0; t < times; t++)
    for (int u = 0; u < UNROLL; u++)
      for (int c = 0; c < CHAINS; c++) sum[c] = _mm512_dpbf16_ps(sum[c], by, by);
  for (int c = 0; c < CHAINS; c++) __asm__ volatile("" : : "v"(sum[c])); /* each is wanted */
}

enum { BF16_FLOPS = CHAINS * UNROLL * FALT_VECTOR_BYTES };

#endif
#endif

extern const falt_limit_kernels FALT_SUFFIXED(falt_limit_kernels);
const falt_limit_kernels FALT_SUFFIXED(falt_limit_kernels) = {
    .copy_memory = copy_memory,
    .copy_cache = copy_cache,
    .f32 = rate_f32,
    .f64 = rate_f64,
    .f32_flops = 2 * CHAINS * UNROLL * FALT_VECTOR_BYTES / (int)sizeof(float),
    .f64_flops = 2 * CHAINS * UNROLL * FALT_VECTOR_BYTES / (int)sizeof(double),
#if defined(__AVX512BF16__)
    .bf16 = rate_bf16,
    .bf16_flops = BF16_FLOPS,
#endif
#if defined(__AVX512VNNI__)
    .s8 = rate_s8,
    .s8_flops = S8_FLOPS,
#endif
};
