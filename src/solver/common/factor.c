/* Filters as sums of separable terms.
 *
 * A matrix of rank one is an outer product, and a filter that is one costs R + S multiply-adds instead of R*S. By
 * Eckart and Young (1936) the best sum of k outer products is the first k of the singular value decomposition; Treitel
 * and Shanks (1971) and Perona (1995) apply it to filters. Only the first few are wanted, so they are found one at a
 * time: with a unit vector h from the row space of A,
 *
 *     g = A h,   A - g h^T = A (I - h h^T),
 *
 * lowers the rank by exactly one whatever h is, and power iteration (h <- A^T A h, normalised) turns h to the dominant
 * singular vector, where g h^T takes away the most. A filter of exact rank k is therefore used up after k steps.
 *
 * A volume is unfolded into a matrix T x (R*S) first; each of its right vectors is a matrix R x S, factored in turn.
 *
 * Filters of integers (times a power of two) of rank one are factored in integers: the row and the column through the
 * largest tap, made primitive (divided by their greatest common divisor), divide the filter without a remainder, so
 * that integer data gives exact sums. */
#include "solver/common/factor.h"

#include <math.h>
#include <string.h>

#include "core/call.h"
#include "core/memory.h"

enum { POWER_STEPS = 12 };

static int64_t taps_per_term(const int64_t size[3]) {
  return size[0] + size[1] + size[2];
}

double *falt_factors_taps(const falt_factors *factors, int term, int axis) {
  double *taps = factors->taps + term * taps_per_term(factors->size);
  for (int i = 0; i < axis; i++) taps += factors->size[i];
  return taps;
}

void falt_factors_free(falt_factors *factors) {
  falt_free(factors->taps);
  falt_free(factors->group);
  memset(factors, 0, sizeof *factors);
}

static double sum_abs(const double *a, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; i++) sum += fabs(a[i]);
  return sum;
}

/* ------------------------------------------------------------------------------------------------------- integers */

double falt_integer_scale(const double *a, int64_t count, int limit) {
  int lowest = 0;
  double largest = 0;
  for (int64_t i = 0; i < count; i++) {
    if (!isfinite(a[i])) return 0;
    largest = fmax(largest, fabs(a[i]));
    while (lowest < 2 * limit && ldexp(a[i], lowest) != nearbyint(ldexp(a[i], lowest))) lowest++;
  }
  const double scale = ldexp(1, lowest);
  return largest * scale <= ldexp(1, limit) ? scale : 0;
}

static double gcd(double a, double b) {
  while (b != 0) {
    const double rest = fmod(a, b);
    a = b;
    b = rest;
  }
  return a;
}

/* out = the primitive integer vector along a[0], a[step], ..., its sign as it stands. */
static void primitive(double *out, const double *a, int64_t step, int64_t count) {
  double common = 0;
  for (int64_t i = 0; i < count; i++) common = gcd(fabs(a[i * step]), common);
  for (int64_t i = 0; i < count; i++) out[i] = a[i * step] / common;
}

/* One exact term of an integer filter a: the lines through its largest tap. False if the rank is not one. */
static bool factor_integers(const double *a, const int64_t size[3], double *f, double *g, double *h) {
  const int64_t plane = size[1] * size[2], count = size[0] * plane;
  int64_t pivot = 0;
  for (int64_t i = 1; i < count; i++) pivot = fabs(a[i]) > fabs(a[pivot]) ? i : pivot;
  if (a[pivot] == 0) return false;
  const int64_t z = pivot / plane, y = pivot / size[2] % size[1], x = pivot % size[2];
  primitive(f, a + y * size[2] + x, plane, size[0]);
  primitive(g, a + z * plane + x, size[2], size[1]);
  for (int64_t j = 0; j < size[2]; j++) h[j] = a[z * plane + y * size[2] + j] / (f[z] * g[y]);
  for (int64_t i = 0; i < count; i++) {
    const double product = f[i / plane] * g[i / size[2] % size[1]] * h[i % size[2]];
    if (product != a[i] || h[i % size[2]] != nearbyint(h[i % size[2]])) return false;
  }
  return true;
}

/* --------------------------------------------------------------------------------------------------------- matrices */

/* Euclidean length of v; v becomes a unit vector unless it is zero. Scaled first, so that no square overflows. */
static double normalise(double *v, int64_t count) {
  double largest = 0, squares = 0;
  for (int64_t i = 0; i < count; i++) largest = fmax(largest, fabs(v[i]));
  if (largest == 0) return 0;
  for (int64_t i = 0; i < count; i++) squares += (v[i] / largest) * (v[i] / largest);
  const double length = largest * sqrt(squares);
  for (int64_t i = 0; i < count; i++) v[i] /= length;
  return length;
}

static void times(const double *a, int64_t rows, int64_t columns, const double *h, double *g) {
  for (int64_t i = 0; i < rows; i++) {
    double sum = 0;
    for (int64_t j = 0; j < columns; j++) sum += a[i * columns + j] * h[j];
    g[i] = sum;
  }
}

static void transposed_times(const double *a, int64_t rows, int64_t columns, const double *g, double *h) {
  memset(h, 0, (size_t)columns * sizeof *h);
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < columns; j++) h[j] += a[i * columns + j] * g[i];
}

static void subtract_product(double *a, int64_t rows, int64_t columns, const double *g, const double *h) {
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < columns; j++) a[i * columns + j] -= g[i] * h[j];
}

/* g h^T = the part of a along its dominant singular vector, h of length one. */
static void dominant(const double *a, int64_t rows, int64_t columns, double *g, double *h) {
  int64_t start = 0;
  for (int64_t i = 1; i < rows; i++)
    if (sum_abs(a + i * columns, columns) > sum_abs(a + start * columns, columns)) start = i;
  memcpy(h, a + start * columns, (size_t)columns * sizeof *h);
  normalise(h, columns);
  double length = 0;
  for (int step = 0; step < POWER_STEPS && !falt_cancelled(); step++) {
    times(a, rows, columns, h, g);
    const double before = length;
    length = normalise(g, rows);
    transposed_times(a, rows, columns, g, h);
    normalise(h, columns);
    if (length - before <= 1e-15 * length) break;
  }
  times(a, rows, columns, h, g);
}

/* Takes outer products out of a until at most `rest` (sum of magnitudes) is left. Term k goes to g + k*rows and
 * h + k*columns. Returns how many, or -1 if max are not enough. */
static int factor_matrix(double *a, int64_t rows, int64_t columns, double rest, int max, double *g, double *h) {
  for (int k = 0; k <= max; k++) {
    if (sum_abs(a, rows * columns) <= rest) return k;
    if (k == max) break;
    dominant(a, rows, columns, g + k * rows, h + k * columns);
    subtract_product(a, rows, columns, g + k * rows, h + k * columns);
  }
  return -1;
}

/* ---------------------------------------------------------------------------------------------------------- volumes */

/* Makes sum |f| = sum |g| = 1 and moves the scale to h: no intermediate result exceeds the largest input. */
static void balance(falt_factors *factors, int term) {
  double *h = falt_factors_taps(factors, term, 2);
  for (int axis = 0; axis < 2; axis++) {
    double *v = falt_factors_taps(factors, term, axis);
    const double sum = sum_abs(v, factors->size[axis]);
    for (int64_t i = 0; i < factors->size[axis] && sum > 0; i++) v[i] /= sum;
    for (int64_t i = 0; i < factors->size[2]; i++) h[i] *= sum;
  }
}

static double measure_residual(const falt_factors *factors, const double *a, double *work) {
  const int64_t *size = factors->size, count = size[0] * size[1] * size[2];
  memcpy(work, a, (size_t)count * sizeof *a);
  for (int k = 0; k < factors->terms; k++) {
    const double *f = falt_factors_taps(factors, k, 0);
    for (int64_t z = 0; z < size[0]; z++)
      for (int64_t y = 0; y < size[1]; y++)
        for (int64_t x = 0; x < size[2]; x++)
          work[(z * size[1] + y) * size[2] + x] -=
              f[z] * falt_factors_taps(factors, k, 1)[y] * falt_factors_taps(factors, k, 2)[x];
  }
  const double whole = sum_abs(a, count);
  return whole > 0 ? sum_abs(work, count) / whole : 0;
}

/* Adds the terms of f x matrix, where matrix (R x S) is used up; at most max. False if that is not enough. */
static bool add_terms(falt_factors *factors, const double *f, double *matrix, double rest, int max, double *scratch) {
  const int64_t *size = factors->size;
  double *g = scratch, *h = scratch + max * size[1];
  const int terms = factor_matrix(matrix, size[1], size[2], rest, max - factors->terms, g, h);
  for (int k = 0; k < terms; k++) {
    const int term = factors->terms++;
    factors->group[term] = factors->groups;
    memcpy(falt_factors_taps(factors, term, 0), f, (size_t)size[0] * sizeof *f);
    memcpy(falt_factors_taps(factors, term, 1), g + k * size[1], (size_t)size[1] * sizeof *g);
    memcpy(falt_factors_taps(factors, term, 2), h + k * size[2], (size_t)size[2] * sizeof *h);
    balance(factors, term);
  }
  factors->groups += terms > 0;
  return terms >= 0;
}

/* a as f_k x matrix_k, unfolded to T x (R*S). Returns how many, or -1. A single plane is its own matrix. */
static int unfold(const falt_factors *factors, double *a, double rest, int max, double *f, double *matrices) {
  const int64_t plane = factors->size[1] * factors->size[2];
  if (factors->size[0] > 1) return factor_matrix(a, factors->size[0], plane, rest, max, f, matrices);
  memcpy(matrices, a, (size_t)plane * sizeof *a);
  f[0] = 1;
  return 1;
}

/* Half of the allowed rest goes to the unfolding, half to the matrices that it gives, by their number. */
static falt_factoring factor_volume(falt_factors *factors, const double *a, int max, double rest, double *work) {
  const int64_t *size = factors->size, plane = size[1] * size[2], count = size[0] * plane;
  double *f = work + count, *matrices = f + max * size[0], *scratch = matrices + max * plane;
  memcpy(work, a, (size_t)count * sizeof *a);
  const double share = size[0] > 1 ? 0.5 : 1;
  const int outer = unfold(factors, work, share * rest, max, f, matrices);
  if (outer < 0) return FALT_FACTOR_RANK;
  for (int k = 0; k < outer; k++) {
    const double part = share * rest / (outer * sum_abs(f + k * size[0], size[0]));
    if (!add_terms(factors, f + k * size[0], matrices + k * plane, part, max, scratch)) return FALT_FACTOR_RANK;
  }
  return FALT_FACTORED;
}

/* Exactly, if the filter is integers of moderate size and of rank one. */
static bool factor_exactly(falt_factors *factors, const double *a, double *work) {
  enum { INTEGER_BITS = 31 };
  const int64_t count = factors->size[0] * factors->size[1] * factors->size[2];
  const double scale = falt_integer_scale(a, count, INTEGER_BITS);
  if (scale == 0) return false;
  for (int64_t i = 0; i < count; i++) work[i] = a[i] * scale;
  double *h = falt_factors_taps(factors, 0, 2);
  if (!factor_integers(work, factors->size, falt_factors_taps(factors, 0, 0), falt_factors_taps(factors, 0, 1), h))
    return false;
  for (int64_t i = 0; i < factors->size[2]; i++) h[i] /= scale;
  factors->terms = factors->groups = 1;
  factors->group[0] = 0;
  return factors->exact = true;
}

static falt_factoring factor_into(falt_factors *factors, const double *a, int max, double tolerance, double *work) {
  const int64_t count = factors->size[0] * factors->size[1] * factors->size[2];
  if (factor_exactly(factors, a, work)) return FALT_FACTORED;
  const falt_factoring answer = factor_volume(factors, a, max, tolerance * sum_abs(a, count), work);
  if (answer != FALT_FACTORED) return answer;
  if (factors->terms == 0) { /* nothing but zeros: one term of zeros, which falt_alloc_zero left there */
    factors->terms = factors->groups = 1;
    factors->exact = true;
  }
  factors->residual = measure_residual(factors, a, work);
  return FALT_FACTORED;
}

falt_factoring falt_factor(falt_factors *factors, const double *a, const int64_t size[3], int max_terms,
                           double tolerance) {
  const int64_t plane = size[1] * size[2], count = size[0] * plane, max = max_terms;
  memset(factors, 0, sizeof *factors);
  for (int64_t i = 0; i < count; i++)
    if (!isfinite(a[i])) return FALT_FACTOR_VALUES;
  memcpy(factors->size, size, sizeof factors->size);
  const int64_t scratch = count + max * (size[0] + plane + size[1] + size[2]);
  double *work = falt_alloc((size_t)scratch * sizeof *work);
  factors->taps = falt_alloc_zero((size_t)(max * taps_per_term(size)) * sizeof *factors->taps);
  factors->group = falt_alloc_zero((size_t)max * sizeof *factors->group);
  falt_factoring answer = FALT_FACTOR_MEMORY;
  if (work && factors->taps && factors->group) answer = factor_into(factors, a, max_terms, tolerance, work);
  if (answer != FALT_FACTORED) falt_factors_free(factors);
  falt_free(work);
  return answer;
}
