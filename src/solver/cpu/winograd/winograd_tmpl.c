/* Winograd's transforms of one instruction set: solver/cpu/winograd/winograd_kernels.h says what they compute. Compiled
 * once per level.
 *
 * Points come in pairs p and -p: the two rows of a matrix have the same even coefficients and opposite odd ones, so a
 * pair costs one even sum, one odd sum, and their sum and difference. */
#define FALT_LANE_BITS 32
#include "cpu/vector.h"
#include "solver/cpu/winograd/winograd_kernels.h"

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

enum { PAIRS = FALT_WINOGRAD_PAIRS, SIZE = FALT_WINOGRAD_SIZE };

/* Chosen for a small error; all their products are exact in f32. */
static const float points[PAIRS + 1][PAIRS] = {{0}, {1}, {0.625F, 1.5F}, {0.5F, 1, 2}};

FALT_INLINE float power(float p, int exponent) {
  float value = 1;
  FALT_UNROLL
  for (int i = 0; i < exponent; i++) value *= p;
  return value;
}

/* The coefficient of x^(2k) in the product of x^2 - p^2 over all pairs but `without`; -1: over all. */
FALT_INLINE float even_coefficient(const int pairs, const int without, const int k) {
  float c[PAIRS + 1] = {1};
  int degree = 0;
  FALT_UNROLL
  for (int i = 0; i < pairs; i++) {
    const float square = points[pairs][i] * points[pairs][i];
    if (i == without) continue;
    degree++;
    FALT_UNROLL
    for (int j = PAIRS; j > 0; j--) c[j] = j <= degree ? c[j - 1] - square * c[j] : 0;
    c[0] *= -square;
  }
  return c[k];
}

/* The reciprocal of the product of a point's distances from all others; -1: of the point 0. */
FALT_INLINE float norm(const int pairs, const int of) {
  const float p = of < 0 ? 0 : points[pairs][of];
  float product = of < 0 ? 1 : 2 * p * p;
  FALT_UNROLL
  for (int i = 0; i < pairs; i++)
    if (i != of) product *= p * p - points[pairs][i] * points[pairs][i];
  return 1 / product;
}

/* ---- one axis */

FALT_INLINE void transform_input(const int pairs, const vec d[SIZE], vec t[SIZE]) {
  vec first = d[2 * pairs], last = d[2 * pairs + 1];
  FALT_UNROLL
  for (int k = 0; k < pairs; k++) {
    const vec c = vec_all(even_coefficient(pairs, -1, k));
    first = vec_madd(first, c, d[2 * k]);
    last = vec_madd(last, c, d[2 * k + 1]);
  }
  t[0] = first;
  t[2 * pairs + 1] = last;
  FALT_UNROLL
  for (int i = 0; i < pairs; i++) {
    vec even = d[2 * pairs], odd = d[2 * pairs - 1];
    FALT_UNROLL
    for (int k = 0; k + 1 < pairs; k++) {
      const vec c = vec_all(even_coefficient(pairs, i, k));
      even = vec_madd(even, c, d[2 * k + 2]);
      odd = vec_madd(odd, c, d[2 * k + 1]);
    }
    const float p = points[pairs][i];
    t[1 + 2 * i] = vec_madd(even, vec_all(p), odd);
    t[2 + 2 * i] = vec_madd(even, vec_all(-p), odd);
  }
}

FALT_INLINE void transform_filter(const int pairs, const int taps, const vec g[SIZE], vec t[SIZE]) {
  t[0] = g[0] * vec_all(norm(pairs, -1));
  t[2 * pairs + 1] = g[taps - 1];
  FALT_UNROLL
  for (int i = 0; i < pairs; i++) {
    const vec scale = vec_all(norm(pairs, i));
    vec even = g[0], odd = g[1] * vec_all(points[pairs][i]);
    FALT_UNROLL
    for (int k = 2; k < taps; k++) {
      const vec c = vec_all(power(points[pairs][i], k));
      if (k % 2 == 0)
        even = vec_madd(even, c, g[k]);
      else
        odd = vec_madd(odd, c, g[k]);
    }
    t[1 + 2 * i] = (even + odd) * scale;
    t[2 + 2 * i] = (even - odd) * scale;
  }
}

FALT_INLINE void transform_output(const int pairs, const int outputs, const vec m[SIZE], vec y[SIZE]) {
  y[0] = m[0];
  FALT_UNROLL
  for (int j = 1; j < outputs; j++) y[j] = j + 1 == outputs ? m[2 * pairs + 1] : (vec){0};
  FALT_UNROLL
  for (int i = 0; i < pairs; i++) {
    const vec sum = m[1 + 2 * i] + m[2 + 2 * i], difference = m[1 + 2 * i] - m[2 + 2 * i];
    FALT_UNROLL
    for (int j = 0; j < outputs; j++)
      y[j] = vec_madd(y[j], vec_all(power(points[pairs][i], j)), j % 2 == 0 ? sum : difference);
  }
}

/* The transpose of transform_output. */
FALT_INLINE void transform_gradient(const int pairs, const int outputs, const vec y[SIZE], vec t[SIZE]) {
  t[0] = y[0];
  t[2 * pairs + 1] = y[outputs - 1];
  FALT_UNROLL
  for (int i = 0; i < pairs; i++) {
    vec even = y[0], odd = y[1] * vec_all(points[pairs][i]);
    FALT_UNROLL
    for (int k = 2; k < outputs; k++) {
      const vec c = vec_all(power(points[pairs][i], k));
      if (k % 2 == 0)
        even = vec_madd(even, c, y[k]);
      else
        odd = vec_madd(odd, c, y[k]);
    }
    t[1 + 2 * i] = even + odd;
    t[2 + 2 * i] = even - odd;
  }
}

/* The transpose of transform_filter. */
FALT_INLINE void transform_products(const int pairs, const int taps, const vec m[SIZE], vec g[SIZE]) {
  g[0] = m[0] * vec_all(norm(pairs, -1));
  FALT_UNROLL
  for (int j = 1; j < taps; j++) g[j] = j + 1 == taps ? m[2 * pairs + 1] : (vec){0};
  FALT_UNROLL
  for (int i = 0; i < pairs; i++) {
    const vec sum = m[1 + 2 * i] + m[2 + 2 * i], difference = m[1 + 2 * i] - m[2 + 2 * i];
    FALT_UNROLL
    for (int j = 0; j < taps; j++)
      g[j] = vec_madd(g[j], vec_all(norm(pairs, i) * power(points[pairs][i], j)), j % 2 == 0 ? sum : difference);
  }
}

/* ---- tiles */

FALT_INLINE vec load_channels(const float *from, int64_t n) {
  return n >= VEC ? vec_load(from) : vec_load_part(from, (int)n);
}

/* Of 0 times each result: whether all results are finite. */
FALT_INLINE bool all_zero(vec zeros) {
  bool all = true;
  for (int i = 0; i < VEC; i++) all &= zeros[i] == 0;
  return all;
}

FALT_INLINE void clear_channels(const falt_winograd_input *call, const int elements) {
  for (int e = 0; e < elements; e++)
    for (int64_t c = (call->n + VEC - 1) / VEC * VEC; c < call->depth; c += VEC)
      vec_store(call->to + e * call->pitch + c, (vec){0});
}

FALT_INLINE void input(const falt_winograd_input *call, const int axes, const int pairs) {
  const int size = 2 * pairs + 2, rows = axes == 2 ? size : 1;
  for (int64_t c = 0; c < call->n; c += VEC) {
    vec d[SIZE], t[SIZE], along[SIZE][SIZE];
    FALT_UNROLL
    for (int i = 0; i < rows; i++) {
      FALT_UNROLL
      for (int j = 0; j < size; j++)
        d[j] = load_channels(call->pixels[i * call->row + j] + call->offset + c, call->n - c);
      transform_input(pairs, d, along[i]);
    }
    FALT_UNROLL
    for (int j = 0; j < size; j++) {
      FALT_UNROLL
      for (int i = 0; i < rows; i++) d[i] = t[i] = along[i][j];
      if (axes == 2) transform_input(pairs, d, t);
      FALT_UNROLL
      for (int i = 0; i < rows; i++) vec_store(call->to + (i * size + j) * call->pitch + c, t[i]);
    }
  }
  clear_channels(call, rows * size);
}

/* The pixels of a tile's outputs. */
FALT_INLINE void gradient(const falt_winograd_input *call, const int axes, const int pairs, const int outputs) {
  const int size = 2 * pairs + 2, rows = axes == 2 ? outputs : 1, lines = axes == 2 ? size : 1;
  for (int64_t c = 0; c < call->n; c += VEC) {
    vec d[SIZE], t[SIZE], along[SIZE][SIZE];
    FALT_UNROLL
    for (int i = 0; i < rows; i++) {
      FALT_UNROLL
      for (int j = 0; j < outputs; j++)
        d[j] = load_channels(call->pixels[i * call->row + j] + call->offset + c, call->n - c);
      transform_gradient(pairs, outputs, d, along[i]);
    }
    FALT_UNROLL
    for (int j = 0; j < size; j++) {
      FALT_UNROLL
      for (int i = 0; i < rows; i++) d[i] = t[i] = along[i][j];
      if (axes == 2) transform_gradient(pairs, outputs, d, t);
      FALT_UNROLL
      for (int i = 0; i < lines; i++) vec_store(call->to + (i * size + j) * call->pitch + c, t[i]);
    }
  }
  clear_channels(call, lines * size);
}

/* The loops of filter and output are written out for each, although alike: bounds are constants where they are
 * unrolled, and each loads and stores its own operands. */
FALT_INLINE void filter(const falt_winograd_filter *call, const int axes, const int pairs, const int taps) {
  const int size = 2 * pairs + 2, rows = axes == 2 ? taps : 1, lines = axes == 2 ? size : 1;
  for (int64_t k = 0; k < call->n; k += VEC) {
    vec g[SIZE], t[SIZE], along[SIZE][SIZE];
    FALT_UNROLL
    for (int r = 0; r < rows; r++) {
      FALT_UNROLL
      for (int s = 0; s < taps; s++) g[s] = vec_load(call->from + (r * taps + s) * call->from_pitch + k);
      transform_filter(pairs, taps, g, along[r]);
    }
    FALT_UNROLL
    for (int j = 0; j < size; j++) {
      FALT_UNROLL
      for (int r = 0; r < rows; r++) g[r] = t[r] = along[r][j];
      if (axes == 2) transform_filter(pairs, taps, g, t);
      FALT_UNROLL
      for (int i = 0; i < lines; i++) vec_store(call->to + (i * size + j) * call->to_pitch + k, t[i]);
    }
  }
}

/* Alike, but apart for the reason above. */
FALT_INLINE bool products(const falt_winograd_output *call, const int axes, const int pairs, const int taps) {
  const int size = 2 * pairs + 2, rows = axes == 2 ? size : 1, lines = axes == 2 ? taps : 1;
  vec zeros = {0};
  for (int64_t k = 0; k < call->n; k += VEC) {
    vec m[SIZE], g[SIZE], along[SIZE][SIZE];
    FALT_UNROLL
    for (int i = 0; i < rows; i++) {
      FALT_UNROLL
      for (int j = 0; j < size; j++) m[j] = vec_load(call->from + (i * size + j) * call->from_pitch + k);
      transform_products(pairs, taps, m, along[i]);
    }
    FALT_UNROLL
    for (int j = 0; j < taps; j++) {
      FALT_UNROLL
      for (int i = 0; i < rows; i++) m[i] = g[i] = along[i][j];
      if (axes == 2) transform_products(pairs, taps, m, g);
      FALT_UNROLL
      for (int i = 0; i < lines; i++) {
        vec_store(call->to + (i * taps + j) * call->to_pitch + k, g[i]);
        zeros = vec_madd(zeros, g[i], (vec){0});
      }
    }
  }
  return all_zero(zeros);
}

/* Alike, but apart for the reason above. */
FALT_INLINE bool output(const falt_winograd_output *call, const int axes, const int pairs, const int outputs) {
  const int size = 2 * pairs + 2, rows = axes == 2 ? size : 1, lines = axes == 2 ? outputs : 1;
  vec zeros = {0}; /* 0 times each output: NaN where one is not finite */
  for (int64_t k = 0; k < call->n; k += VEC) {
    vec m[SIZE], y[SIZE], along[SIZE][SIZE];
    FALT_UNROLL
    for (int i = 0; i < rows; i++) {
      FALT_UNROLL
      for (int j = 0; j < size; j++) m[j] = vec_load(call->from + (i * size + j) * call->from_pitch + k);
      transform_output(pairs, outputs, m, along[i]);
    }
    FALT_UNROLL
    for (int j = 0; j < outputs; j++) {
      FALT_UNROLL
      for (int i = 0; i < rows; i++) m[i] = y[i] = along[i][j];
      if (axes == 2) transform_output(pairs, outputs, m, y);
      FALT_UNROLL
      for (int i = 0; i < lines; i++) {
        vec_store(call->to + (i * outputs + j) * call->to_pitch + k, y[i]);
        zeros = vec_madd(zeros, y[i], (vec){0});
      }
    }
  }
  return all_zero(zeros);
}

/* Forms by pairs of points, outputs and taps, for the compiler to know. */
#define FORM(name, axes, pairs, outputs, taps)                             \
  static void input_##name##_##axes(const falt_winograd_input *call) {     \
    input(call, axes, pairs);                                              \
  }                                                                        \
  static void filter_##name##_##axes(const falt_winograd_filter *call) {   \
    filter(call, axes, pairs, taps);                                       \
  }                                                                        \
  static bool output_##name##_##axes(const falt_winograd_output *call) {   \
    return output(call, axes, pairs, outputs);                             \
  }                                                                        \
  static void gradient_##name##_##axes(const falt_winograd_input *call) {  \
    gradient(call, axes, pairs, outputs);                                  \
  }                                                                        \
  static bool products_##name##_##axes(const falt_winograd_output *call) { \
    return products(call, axes, pairs, taps);                              \
  }
FORM(2_3, 1, 1, 2, 3)
FORM(4_3, 1, 2, 4, 3)
FORM(6_3, 1, 3, 6, 3)
FORM(2_5, 1, 2, 2, 5)
FORM(4_5, 1, 3, 4, 5)
FORM(2_3, 2, 1, 2, 3)
FORM(4_3, 2, 2, 4, 3)
FORM(6_3, 2, 3, 6, 3)
FORM(2_5, 2, 2, 2, 5)
FORM(4_5, 2, 3, 4, 5)

#define FORMS(what, axes) \
  { what##_2_3_##axes, what##_4_3_##axes, what##_6_3_##axes, what##_2_5_##axes, what##_4_5_##axes }

extern const falt_winograd_kernels JOIN(falt_winograd_kernels_, FALT_ISA_SUFFIX);
const falt_winograd_kernels JOIN(falt_winograd_kernels_, FALT_ISA_SUFFIX) = {
    .input = {FORMS(input, 1), FORMS(input, 2)},
    .filter = {FORMS(filter, 1), FORMS(filter, 2)},
    .output = {FORMS(output, 1), FORMS(output, 2)},
    .gradient = {FORMS(gradient, 1), FORMS(gradient, 2)},
    .products = {FORMS(products, 1), FORMS(products, 2)},
};
