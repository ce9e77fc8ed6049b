/* The pooling kernels of one lane type: a template for pooling_f32_tmpl.c and pooling_f64_tmpl.c. */
#include <math.h>
#include <stdbool.h>

#include "cpu/vector.h"
#include "solver/cpu/pooling/pooling_kernels.h"

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

FALT_INLINE vec choose(vec_bits mask, vec yes, vec no) {
  return (vec)((mask & (vec_bits)yes) | (~mask & (vec_bits)no));
}

/* The larger of two; not a number if one of them is none. */
FALT_INLINE vec vec_larger(vec a, vec b) {
#if FALT_VECTOR_BYTES == 64 && FALT_LANE_BITS == 32
  const __m512 larger = _mm512_max_ps((__m512)b, (__m512)a); /* a if either is none */
  return (vec)_mm512_mask_mov_ps(larger, _mm512_cmp_ps_mask((__m512)b, (__m512)b, _CMP_UNORD_Q), (__m512)b);
#elif FALT_VECTOR_BYTES == 32 && FALT_LANE_BITS == 32
  const __m256 larger = _mm256_max_ps((__m256)b, (__m256)a);
  return (vec)_mm256_blendv_ps(larger, (__m256)b, _mm256_cmp_ps((__m256)b, (__m256)b, _CMP_UNORD_Q));
#else
  return choose((b > a) | (b != b), b, a);
#endif
}

FALT_INLINE vec fold_two(vec a, vec b, const falt_pooling_fold how) {
  return how == FALT_POOLING_SUM ? a + b : vec_larger(a, b);
}

FALT_INLINE vec load_up_to(const lane *p, int64_t n) {
  return n >= VEC ? vec_load(p) : vec_load_part(p, (int)n);
}
FALT_INLINE void store_up_to(lane *p, vec v, int64_t n) {
  if (n >= VEC)
    vec_store(p, v);
  else
    vec_store_part(p, v, (int)n);
}

/* ---- rows into one */

enum { AT_ONCE = 4 };

FALT_INLINE void fold_known(const void *const *rows, const int count, int64_t n, lane *out,
                            const falt_pooling_fold how) {
  int64_t i = 0;
  for (; i + VEC <= n; i += VEC) {
    vec v = vec_load((const lane *)rows[0] + i);
    FALT_UNROLL
    for (int k = 1; k < count; k++) v = fold_two(v, vec_load((const lane *)rows[k] + i), how);
    vec_store(out + i, v);
  }
  if (i == n) return;
  vec v = vec_load_part((const lane *)rows[0] + i, (int)(n - i));
  FALT_UNROLL
  for (int k = 1; k < count; k++) v = fold_two(v, vec_load_part((const lane *)rows[k] + i, (int)(n - i)), how);
  vec_store_part(out + i, v, (int)(n - i));
}

FALT_INLINE void fold_few(const void *const *rows, int count, int64_t n, lane *out, const falt_pooling_fold how) {
  if (count == 1)
    fold_known(rows, 1, n, out, how);
  else if (count == 2)
    fold_known(rows, 2, n, out, how);
  else if (count == 3)
    fold_known(rows, 3, n, out, how);
  else
    fold_known(rows, AT_ONCE, n, out, how);
}

/* Many rows over a few vectors: sums stay in registers over all of them. */
FALT_INLINE void fold_deep(const void *const *rows, int count, int64_t i, int64_t n, lane *out,
                           const falt_pooling_fold how) {
  vec v = load_up_to((const lane *)rows[0] + i, n - i);
  for (int k = 1; k < count; k++) v = fold_two(v, load_up_to((const lane *)rows[k] + i, n - i), how);
  store_up_to(out + i, v, n - i);
}

FALT_INLINE void fold(const void *const *rows, int count, int64_t n, lane *out, const falt_pooling_fold how) {
  if (count <= AT_ONCE)
    fold_few(rows, count, n, out, how);
  else
    for (int64_t i = 0; i < n; i += VEC) fold_deep(rows, count, i, n, out, how);
}

static void fold_largest(const void *const *rows, int count, int64_t n, void *out) {
  fold(rows, count, n, out, FALT_POOLING_LARGEST);
}
static void fold_sum(const void *const *rows, int count, int64_t n, void *out) {
  fold(rows, count, n, out, FALT_POOLING_SUM);
}

FALT_INLINE void folds(const falt_pooling_folds *call, const falt_pooling_fold how) {
  const void *rows[FALT_POOLING_LIST];
  for (int64_t i = 0; i < call->copies; i++) {
    for (int k = 0; k < call->count; k++) rows[k] = (const lane *)call->rows[k] + i * call->step;
    fold(rows, call->count, call->n, (lane *)call->out + i * call->out_step, how);
  }
}

static void folds_largest(const falt_pooling_folds *call) {
  folds(call, FALT_POOLING_LARGEST);
}
static void folds_sum(const falt_pooling_folds *call) {
  folds(call, FALT_POOLING_SUM);
}

/* ---- neighbours into one */

FALT_INLINE lane across(vec v, const falt_pooling_fold how) {
  lane part[VEC];
  vec_store(part, v);
  for (int half = VEC / 2; half > 0; half /= 2)
    for (int i = 0; i < half; i++) {
      const lane other = part[i + half];
      const bool wins = (other > part[i]) | (other != other);
      part[i] = how == FALT_POOLING_SUM ? part[i] + other : wins ? other : part[i];
    }
  return part[0];
}

FALT_INLINE lane run(const lane *x, int64_t taps, const falt_pooling_fold how) {
  const vec nothing = vec_all(how == FALT_POOLING_SUM ? 0 : -(lane)INFINITY);
  vec v = nothing;
  int64_t j = 0;
  for (; j + VEC <= taps; j += VEC) v = fold_two(v, vec_load(x + j), how);
  if (j < taps) {
    const vec rest = vec_load_part(x + j, (int)(taps - j));
    v = fold_two(v, choose(vec_first((int)(taps - j)), rest, nothing), how);
  }
  return across(v, how);
}

static void runs_largest(const void *from, int64_t step, int64_t taps, int64_t n, void *out) {
  for (int64_t o = 0; o < n; o++) ((lane *)out)[o] = run((const lane *)from + o * step, taps, FALT_POOLING_LARGEST);
}
static void runs_sum(const void *from, int64_t step, int64_t taps, int64_t n, void *out) {
  for (int64_t o = 0; o < n; o++) ((lane *)out)[o] = run((const lane *)from + o * step, taps, FALT_POOLING_SUM);
}

/* ---- polyphase parts */

static void split_two(const lane *restrict x, int64_t n, lane *restrict even, lane *restrict odd) {
  for (int64_t q = 0; q < n; q++) {
    even[q] = x[2 * q];
    odd[q] = x[2 * q + 1];
  }
}
static void join_two(const lane *restrict even, const lane *restrict odd, int64_t n, lane *restrict x) {
  for (int64_t q = 0; q < n; q++) {
    x[2 * q] = even[q];
    x[2 * q + 1] = odd[q];
  }
}

FALT_INLINE void copy_some(lane *to, const lane *from, int64_t n) {
  for (int64_t c = 0; c < n; c++) to[c] = from[c];
}

static void split(const falt_pooling_polyphases *call) {
  const int64_t inner = call->inner, pairs = call->positions / 2;
  const lane *line = call->line;
  lane *to = call->split;
  if (call->polyphases == 2 && inner == 1) {
    split_two(line, pairs, to, to + call->pitch);
    if (call->positions % 2) to[pairs] = line[2 * pairs];
    return;
  }
  for (int64_t p = 0; p < call->polyphases; p++) {
    lane *row = to + p * call->pitch;
    for (int64_t at = p; at < call->positions; at += call->polyphases, row += inner)
      copy_some(row, line + at * inner, inner);
  }
}

static void join(const falt_pooling_polyphases *call) {
  const int64_t inner = call->inner, pairs = call->positions / 2;
  const lane *from = call->split;
  lane *line = call->line;
  if (call->polyphases == 2 && inner == 1) {
    join_two(from, from + call->pitch, pairs, line);
    if (call->positions % 2) line[2 * pairs] = from[pairs];
    return;
  }
  if (call->polyphases == 1) {
    copy_some(line, from, call->positions * inner);
    return;
  }
  for (int64_t p = 0; p < call->polyphases; p++) {
    const lane *row = from + p * call->pitch;
    for (int64_t at = p; at < call->positions; at += call->polyphases, row += inner)
      copy_some(line + at * inner, row, inner);
  }
}

/* ---- averages and first maxima */

static void divide(void *x, double by, int64_t n) {
  lane *out = x;
  const vec all = vec_all((lane)by);
  for (int64_t i = 0; i < n; i += VEC) store_up_to(out + i, load_up_to(out + i, n - i) / all, n - i);
}

static void first(const void *const *rows, int count, int64_t tag, int64_t n, void *top, void *which) {
  for (int64_t i = 0; i < n; i += VEC) {
    vec most = load_up_to((lane *)top + i, n - i), tags = load_up_to((lane *)which + i, n - i);
    for (int k = 0; k < count; k++) {
      const vec x = load_up_to((const lane *)rows[k] + i, n - i);
      const vec_bits wins = (x > most) | ((x != x) & (most == most));
      most = choose(wins, x, most);
      tags = choose(wins, (vec)((vec_bits){0} + (lane_bits)(tag + k)), tags);
    }
    store_up_to((lane *)top + i, most, n - i);
    store_up_to((lane *)which + i, tags, n - i);
  }
}

static void add_where(const void *x, const void *which, int64_t tag, int64_t n, void *sums) {
  for (int64_t i = 0; i < n; i += VEC) {
    const vec_bits here = (vec_bits)load_up_to((const lane *)which + i, n - i) == (lane_bits)tag;
    const vec more = (vec)(here & (vec_bits)load_up_to((const lane *)x + i, n - i));
    store_up_to((lane *)sums + i, load_up_to((lane *)sums + i, n - i) + more, n - i);
  }
}

static void fill(void *x, double value, int64_t n) {
  for (int64_t i = 0; i < n; i++) ((lane *)x)[i] = (lane)value;
}
static void fill_tags(void *which, int64_t tag, int64_t n) {
  for (int64_t i = 0; i < n; i++) memcpy((lane *)which + i, &(lane_bits){(lane_bits)tag}, sizeof(lane));
}

extern const falt_pooling_lane JOIN(FALT_POOLING_LANE, FALT_ISA_SUFFIX);
const falt_pooling_lane JOIN(FALT_POOLING_LANE, FALT_ISA_SUFFIX) = {
    .element = sizeof(lane),
    .width = VEC,
    .fold = {fold_largest, fold_sum},
    .folds = {folds_largest, folds_sum},
    .runs = {runs_largest, runs_sum},
    .split = split,
    .join = join,
    .divide = divide,
    .first = first,
    .add_where = add_where,
    .fill = fill,
    .fill_tags = fill_tags,
};
