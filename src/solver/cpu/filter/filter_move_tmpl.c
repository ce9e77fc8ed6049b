/* Conversion of rows to lanes and back for every element type: includes filter_move.h for each. */
#define FALT_LANE_BITS 32
#include <math.h>

#include "cpu/convert.h"
#include "cpu/vector.h"
#include "solver/cpu/filter/filter_table.h"

/* f32 sums: arithmetic in f32; in f32 if that cannot change a rounding, else f64; always f64. */
enum { IN_F32, IN_F32_IF_EXACT, IN_F64 };

FALT_INLINE float clip_f32(float x, float low, float high) {
  float above = x < low ? low : x;
  return above > high ? high : above;
}
FALT_INLINE double clip_f64(double x, double low, double high) {
  double above = x < low ? low : x;
  return above > high ? high : above;
}

/* Scaling by a power of two and clipping to f32 numbers round nothing. */
static bool exact_in_f32(const falt_row_epilogue *e) {
  int exponent;
  double mantissa = frexp(e->alpha, &exponent);
  return (mantissa == 0.5 || mantissa == -0.5) && exponent > -100 && exponent < 100 && e->beta == 0 &&
         (double)(float)e->low == e->low && (double)(float)e->high == e->high;
}

typedef void convert_row(void *dst, int64_t stride, const void *src, int64_t n, const falt_row_epilogue *e);

/* Non-temporal stores of whole lines, through a buffer that stays in the cache. */
static void stream_row(convert_row *convert, char *dst, size_t dst_size, const char *src, size_t src_size, int64_t n,
                       const falt_row_epilogue *e) {
  enum { LINE = 64, BUFFER = 2048 };
  _Alignas(LINE) char buffer[BUFFER];
  int64_t head = (int64_t)((LINE - (uintptr_t)dst % LINE) % LINE / dst_size), block = BUFFER / (int64_t)dst_size;
  bool aligned = (uintptr_t)dst % dst_size == 0 && head < n;
  int64_t done = aligned ? head : n;
  convert(dst, 1, src, done, e);
  for (; done + block <= n; done += block) {
    convert(buffer, 1, src + done * (int64_t)src_size, block, e);
    float *to = (float *)(void *)(dst + done * (int64_t)dst_size);
    for (int i = 0; i < BUFFER / (int)sizeof(float); i += VEC)
      vec_stream(to + i, vec_load((const float *)(const void *)buffer + i));
  }
  if (done < n) convert(dst + done * (int64_t)dst_size, 1, src + done * (int64_t)src_size, n - done, e);
  vec_stream_end();
}

#define ELEMENT uint8_t
#define NAME(f) f##_u8
#define FROM(x) (x)
#define TO_F32(x) (uint8_t) round_f32(x, 0, UINT8_MAX)
#define TO_F64(x) (uint8_t) round_f64(x, 0, UINT8_MAX)
#define ARITHMETIC IN_F32_IF_EXACT
#define LOWEST 0
#define HIGHEST UINT8_MAX
#include "solver/cpu/filter/filter_move.h"

#define ELEMENT int8_t
#define NAME(f) f##_s8
#define FROM(x) (x)
#define TO_F32(x) (int8_t) round_f32(x, INT8_MIN, INT8_MAX)
#define TO_F64(x) (int8_t) round_f64(x, INT8_MIN, INT8_MAX)
#define ARITHMETIC IN_F32_IF_EXACT
#define LOWEST INT8_MIN
#define HIGHEST INT8_MAX
#include "solver/cpu/filter/filter_move.h"

#define ELEMENT uint16_t
#define NAME(f) f##_u16
#define FROM(x) (x)
#define TO_F32(x) (uint16_t) round_f32(x, 0, UINT16_MAX)
#define TO_F64(x) (uint16_t) round_f64(x, 0, UINT16_MAX)
#define ARITHMETIC IN_F32_IF_EXACT
#define LOWEST 0
#define HIGHEST UINT16_MAX
#include "solver/cpu/filter/filter_move.h"

#define ELEMENT int16_t
#define NAME(f) f##_s16
#define FROM(x) (x)
#define TO_F32(x) (int16_t) round_f32(x, INT16_MIN, INT16_MAX)
#define TO_F64(x) (int16_t) round_f64(x, INT16_MIN, INT16_MAX)
#define ARITHMETIC IN_F32_IF_EXACT
#define LOWEST INT16_MIN
#define HIGHEST INT16_MAX
#include "solver/cpu/filter/filter_move.h"

#define ELEMENT int32_t
#define NAME(f) f##_s32
#define FROM(x) (x)
#define TO_F32(x) (int32_t) round_f64(x, INT32_MIN, INT32_MAX)
#define TO_F64(x) (int32_t) round_f64(x, INT32_MIN, INT32_MAX)
#define ARITHMETIC IN_F32_IF_EXACT
#define STORE store_s32
#include "solver/cpu/filter/filter_move.h"

#define ELEMENT uint16_t
#define NAME(f) f##_f16
#define FROM(x) f32_from_f16(x)
#define TO_F32(x) f16_from_f32(x)
#define TO_F64(x) f16_from_f32(f32_to_odd(x))
#define ARITHMETIC IN_F32
#define LOAD load_f16
#define STORE store_f16
#include "solver/cpu/filter/filter_move.h"

#define ELEMENT uint16_t
#define NAME(f) f##_bf16
#define FROM(x) f32_from_bf16(x)
#define TO_F32(x) bf16_from_f32(x)
#define TO_F64(x) bf16_from_f32(f32_to_odd(x))
#define ARITHMETIC IN_F32
#define LOAD load_bf16
#define STORE store_bf16
#include "solver/cpu/filter/filter_move.h"

#define ELEMENT float
#define NAME(f) f##_f32
#define FROM(x) (x)
#define TO_F32(x) (x)
#define TO_F64(x) (float)(x)
#define ARITHMETIC IN_F32
#include "solver/cpu/filter/filter_move.h"

#define ELEMENT double
#define NAME(f) f##_f64
#define FROM(x) (x)
#define TO_F32(x) (double)(x)
#define TO_F64(x) (x)
#define ARITHMETIC IN_F64
#include "solver/cpu/filter/filter_move.h"

void FALT_FILTER_TABLE(move)(falt_filter_kernels *kernels) {
  static void (*const fills[FALT_TYPE_COUNT])(falt_filter_kernels *, falt_type) = {
      [FALT_U8] = fill_u8,     [FALT_S8] = fill_s8,   [FALT_U16] = fill_u16,
      [FALT_S16] = fill_s16,   [FALT_S32] = fill_s32, [FALT_F16] = fill_f16,
      [FALT_BF16] = fill_bf16, [FALT_F32] = fill_f32, [FALT_F64] = fill_f64};
  for (int type = 0; type < FALT_TYPE_COUNT; type++) fills[type](kernels, (falt_type)type);
}
