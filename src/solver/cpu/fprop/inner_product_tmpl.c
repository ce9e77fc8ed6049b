/* Dot products and sums of rows of one instruction set: solver/cpu/fprop/inner_product_kernels.h says what they
 * compute. Compiled once per level. A block of rows and columns of dot products keeps its sums in registers, so each
 * loaded vector serves several of them. */
#define FALT_LANE_BITS 32
#include "cpu/convert.h"
#include "solver/cpu/fprop/inner_product_kernels.h"

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

enum { ROWS = FALT_INNER_ROWS, COLUMNS = FALT_INNER_COLUMNS, AXPYS = 8 };

/* The lanes' sum, by halves. */
FALT_INLINE float add_lanes(vec v) {
  _Alignas(FALT_VECTOR_BYTES) float part[VEC];
  vec_store(part, v);
  for (int half = VEC / 2; half > 0; half /= 2)
    for (int i = 0; i < half; i++) part[i] += part[i + half];
  return part[0];
}

/* The first n < VEC elements; the others read as zero. */
FALT_INLINE vec load_rest(const void *from, int n, const falt_type type) {
  _Alignas(FALT_VECTOR_BYTES) char whole[FALT_VECTOR_BYTES] = {0};
  memcpy(whole, from, (size_t)n * size_of(type));
  return load_whole(whole, type);
}

FALT_INLINE void block(const falt_inner_dots *call, int row, const int rows, const int columns, const falt_type type) {
  const float *x = call->patches;
  const int64_t size = (int64_t)size_of(type), whole = call->n / VEC * VEC;
  const int rest = (int)(call->n - whole);
  vec sum[ROWS][COLUMNS];
  FALT_UNROLL
  for (int m = 0; m < rows; m++) FALT_UNROLL
  for (int j = 0; j < columns; j++) sum[m][j] = vec_all(0);
  for (int64_t i = 0; i < whole; i += VEC) {
    vec w[ROWS];
    FALT_UNROLL
    for (int m = 0; m < rows; m++) w[m] = load_whole((const char *)call->rows[row + m] + i * size, type);
    FALT_UNROLL
    for (int j = 0; j < columns; j++) {
      const vec patch = vec_load(x + j * call->n + i);
      FALT_UNROLL
      for (int m = 0; m < rows; m++) sum[m][j] = vec_madd(sum[m][j], w[m], patch);
    }
  }
  FALT_UNROLL
  for (int m = 0; m < rows; m++) {
    const vec w = rest ? load_rest((const char *)call->rows[row + m] + whole * size, rest, type) : vec_all(0);
    float *to = call->sums + (row + m) * call->pitch;
    FALT_UNROLL
    for (int j = 0; j < columns; j++) {
      if (rest) sum[m][j] = vec_madd(sum[m][j], w, vec_load_part(x + j * call->n + whole, rest));
      to[j] = add_lanes(sum[m][j]);
    }
  }
}

/* function(call, at, rows, columns, type), the columns a constant. */
#define BY_COLUMNS(function, call, at, rows, type) \
  switch ((call)->columns) {                       \
    case 1:                                        \
      function(call, at, rows, 1, type);           \
      break;                                       \
    case 2:                                        \
      function(call, at, rows, 2, type);           \
      break;                                       \
    case 3:                                        \
      function(call, at, rows, 3, type);           \
      break;                                       \
    default:                                       \
      function(call, at, rows, COLUMNS, type);     \
  }

FALT_INLINE void dots(const falt_inner_dots *call, const falt_type type) {
  if (call->count == ROWS)
    BY_COLUMNS(block, call, 0, ROWS, type)
  else
    for (int m = 0; m < call->count; m++) BY_COLUMNS(block, call, m, 1, type)
}

/* Adds some rows, from row i on, to the sums: a vector of these is loaded and stored once for all rows. */
FALT_INLINE void add_rows(const falt_inner_axpys *call, int64_t i, const int rows, const int columns,
                          const falt_type type) {
  const int64_t size = (int64_t)size_of(type), whole = call->n / VEC * VEC;
  const int rest = (int)(call->n - whole);
  const char *from = (const char *)call->rows + i * call->step * size;
  const float *x = call->patches + i;
  for (int64_t o = 0; o < call->n; o += VEC) {
    vec w[AXPYS];
    FALT_UNROLL
    for (int m = 0; m < rows; m++) {
      const char *at = from + (m * call->step + o) * size;
      w[m] = o < whole ? load_whole(at, type) : load_rest(at, rest, type);
    }
    FALT_UNROLL
    for (int j = 0; j < columns; j++) {
      float *to = call->sums + j * call->n + o;
      vec few = {0}, sum = o < whole ? vec_load(to) : vec_load_part(to, rest);
      FALT_UNROLL
      for (int m = 0; m < rows; m++) few = vec_madd(few, w[m], vec_all(x[j * call->pitch + m]));
      sum += few;
      if (o < whole)
        vec_store(to, sum);
      else
        vec_store_part(to, sum, rest);
    }
  }
}

FALT_INLINE void axpys(const falt_inner_axpys *call, const falt_type type) {
  int64_t i = 0;
  for (; i + AXPYS <= call->count; i += AXPYS) BY_COLUMNS(add_rows, call, i, AXPYS, type)
  for (; i < call->count; i++) BY_COLUMNS(add_rows, call, i, 1, type)
}

/* clang-format off */
#define KERNELS(name, type)                                                        \
  static void dots_##name(const falt_inner_dots *call) { dots(call, type); }    \
  static void axpys_##name(const falt_inner_axpys *call) { axpys(call, type); }
/* clang-format on */
KERNELS(f32, FALT_F32)
KERNELS(bf16, FALT_BF16)
KERNELS(f16, FALT_F16)

extern const falt_inner_kernels JOIN(falt_inner_kernels_, FALT_ISA_SUFFIX);
const falt_inner_kernels JOIN(falt_inner_kernels_, FALT_ISA_SUFFIX) = {{dots_f32, dots_bf16, dots_f16},
                                                                       {axpys_f32, axpys_bf16, axpys_f16}};
