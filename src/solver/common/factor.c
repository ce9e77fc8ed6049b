/* Factors filters into sums of separable terms by power iteration on the singular value decomposition. C. Eckart and G.
 * Young, 1936; applied to filters by S. Treitel and J. Shanks, 1971, and P. Perona, 1995. Filters of integers of rank
 * one are factored exactly. A random sketch rejects filters of high rank early (Charikar, Chen, Farach-Colton, 2002).
 */
#include "solver/common/factor.h"

#include <math.h>
#include <string.h>

#include "core/call.h"
#include "core/memory.h"

/* A matrix of rank one is an outer product, and a filter that is one costs R + S multiply-adds instead of R*S. The best
 * sum of k outer products is the first k terms of the singular value decomposition. The terms are computed one at a
 * time. With a unit vector h from the row space of A, the step
 *
 *     g = A h,   A - g h^T = A (I - h h^T),
 *
 * lowers the rank by exactly one for any h. Power iteration (h <- A^T A h, normalised) converges to the dominant
 * singular vector, for which g h^T removes the most. So a filter of exact rank k is used up after k steps.
 *
 * A volume is unfolded into a matrix T x (R*S) first; each of its right vectors is a matrix R x S, factored in the same
 * way.
 *
 * Most large filters have no such terms. One pass over the taps detects this: sums of rows and columns, each with a
 * random sign and added to one of SKETCH, form a small matrix whose rank is at most the filter's.
 *
 * Filters of integers (times a power of two) of rank one are factored in integers: the row and the column through the
 * largest tap, divided by their greatest common divisors, divide the filter without a remainder. So integer data gives
 * exact sums. */

enum { POWER_STEPS = 12, SKETCH = 32 };

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

/* Sums in four chains, which do not wait for one another. */
static double sum_abs(const double *a, int64_t count) {
  double sum[4] = {0};
  const int64_t whole = count / 4 * 4;
  for (int64_t i = 0; i < whole; i += 4)
    for (int k = 0; k < 4; k++) sum[k] += fabs(a[i + k]);
  for (int64_t i = whole; i < count; i++) sum[0] += fabs(a[i]);
  return sum[0] + sum[1] + (sum[2] + sum[3]);
}

static double dot(const double *a, const double *b, int64_t count) {
  double sum[4] = {0};
  const int64_t whole = count / 4 * 4;
  for (int64_t i = 0; i < whole; i += 4)
    for (int k = 0; k < 4; k++) sum[k] += a[i + k] * b[i + k];
  for (int64_t i = whole; i < count; i++) sum[0] += a[i] * b[i];
  return sum[0] + sum[1] + (sum[2] + sum[3]);
}

/* ------------------------------------------------------------------------------------------------------- integers */

bool falt_are_integers(const double *a, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    if (a[i] != nearbyint(a[i])) return false;
  return true;
}

double falt_integer_scale(const double *a, int64_t count, int limit) {
  const double most = ldexp(1, limit);
  double largest = 0, scale = 1;
  for (int64_t i = 0; i < count; i++) {
    largest = fmax(largest, fabs(a[i]));
    if (!(fabs(a[i]) * scale <= most)) return 0;
    while (largest * scale <= most && a[i] * scale != (double)(int64_t)(a[i] * scale)) scale *= 2;
  }
  return largest * scale <= most ? scale : 0;
}

static double gcd(double a, double b) {
  while (b != 0) {
    const double rest = fmod(a, b);
    a = b;
    b = rest;
  }
  return a;
}

/* out = the primitive integer vector along a[0], a[step], ... times scale, with its sign. */
static void primitive(double *out, const double *a, double scale, int64_t step, int64_t count) {
  double common = 0;
  for (int64_t i = 0; i < count; i++) common = gcd(fabs(a[i * step] * scale), common);
  for (int64_t i = 0; i < count; i++) out[i] = a[i * step] * scale / common;
}

/* The index of the element of the largest magnitude. */
static int64_t largest_of(const double *a, int64_t count) {
  int64_t largest = 0;
  for (int64_t i = 1; i < count; i++) largest = fabs(a[i]) > fabs(a[largest]) ? i : largest;
  return largest;
}

/* One exact term of a times scale, which is integers: the lines through its largest tap. False if the rank is not one.
 */
static bool factor_integers(const double *a, double scale, const int64_t size[3], double *f, double *g, double *h) {
  const int64_t plane = size[1] * size[2], pivot = largest_of(a, size[0] * plane);
  if (a[pivot] == 0) return false;
  const int64_t z = pivot / plane, y = pivot / size[2] % size[1], x = pivot % size[2];
  primitive(f, a + y * size[2] + x, scale, plane, size[0]);
  primitive(g, a + z * plane + x, scale, size[2], size[1]);
  for (int64_t j = 0; j < size[2]; j++) {
    h[j] = a[z * plane + y * size[2] + j] * scale / (f[z] * g[y]);
    if (h[j] != nearbyint(h[j])) return false;
  }
  for (int64_t row = 0; row < size[0] * size[1]; row++) {
    const double by = f[row / size[1]] * g[row % size[1]];
    for (int64_t j = 0; j < size[2]; j++)
      if (by * h[j] != a[row * size[2] + j] * scale) return false;
  }
  return true;
}

/* --------------------------------------------------------------------------------------------------------- matrices */

/* Euclidean length of v; v becomes a unit vector unless it is zero. Scaled first, so no square overflows. */
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
  for (int64_t i = 0; i < rows; i++) g[i] = dot(a + i * columns, h, columns);
}

static void transposed_times(const double *a, int64_t rows, int64_t columns, const double *g, double *h) {
  memset(h, 0, (size_t)columns * sizeof *h);
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < columns; j++) h[j] += a[i * columns + j] * g[i];
}

/* to = a - g h^T; to may be a. */
static void subtract_product(double *to, const double *a, int64_t rows, int64_t columns, const double *g,
                             const double *h) {
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < columns; j++) to[i * columns + j] = a[i * columns + j] - g[i] * h[j];
}

/* The sum of magnitudes that would leave. */
static double left_by_product(const double *a, int64_t rows, int64_t columns, const double *g, const double *h) {
  double sum[4] = {0};
  const int64_t whole = columns / 4 * 4;
  for (int64_t i = 0; i < rows; i++, a += columns) {
    for (int64_t j = 0; j < whole; j += 4)
      for (int k = 0; k < 4; k++) sum[k] += fabs(a[j + k] - g[i] * h[j + k]);
    for (int64_t j = whole; j < columns; j++) sum[0] += fabs(a[j] - g[i] * h[j]);
  }
  return sum[0] + sum[1] + (sum[2] + sum[3]);
}

/* g h^T = the part of a along its dominant singular vector, h of length one. */
static void dominant(const double *a, int64_t rows, int64_t columns, double *g, double *h) {
  int64_t start = 0;
  double most = 0, length = 0;
  for (int64_t i = 0; i < rows; i++) {
    const double sum = sum_abs(a + i * columns, columns);
    if (sum > most) start = i;
    most = fmax(most, sum);
  }
  memcpy(h, a + start * columns, (size_t)columns * sizeof *h);
  normalise(h, columns);
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

/* Subtracts outer products from a until at most `rest` (sum of magnitudes) remains. Term k goes to g + k*rows and h +
 * k*columns. The remainder is in `work`, which may be a. Returns the number of terms, or -1 if max are not enough. */
static int factor_matrix(const double *a, double *work, int64_t rows, int64_t columns, double rest, int max, double *g,
                         double *h) {
  double left = sum_abs(a, rows * columns);
  int k = 0;
  for (; left > rest && k < max && !falt_cancelled(); k++, g += rows, h += columns) {
    const double *from = k > 0 ? work : a;
    if (k > 0) subtract_product(work, k > 1 ? work : a, rows, columns, g - rows, h - columns);
    dominant(from, rows, columns, g, h);
    left = left_by_product(from, rows, columns, g, h);
  }
  return left <= rest ? k : -1;
}

/* ----------------------------------------------------------------------------------------------------------- sketch */

static double sign_of(int64_t i) {
  const uint64_t bits = (uint64_t)(i + 1) * UINT64_C(0x9e3779b97f4a7c15);
  return (bits ^ bits << 27) >> 63 ? -1 : 1;
}

/* z = sums of the rows and columns of a by their numbers modulo SKETCH, each with its sign. */
static void sketch(const double *a, int64_t rows, int64_t columns, double *z) {
  double sign[SKETCH];
  memset(z, 0, SKETCH * SKETCH * sizeof *z);
  for (int64_t first = 0; first < columns; first += SKETCH) {
    const int64_t count = falt_min(SKETCH, columns - first);
    for (int64_t j = 0; j < count; j++) sign[j] = sign_of(first + j);
    for (int64_t i = 0; i < rows; i++) {
      const double *row = a + i * columns + first, mine = sign_of(rows + columns + i);
      double *to = z + i % SKETCH * SKETCH;
      for (int64_t j = 0; j < count; j++) to[j] += mine * sign[j] * row[j];
    }
  }
}

/* Whether no sum of `max` outer products is within `rest` (sum of magnitudes) of the matrix. The sketch of such a sum
 * would be such a sum, too, at most as far from the matrix's sketch z, and at most SKETCH times as far in the norm in
 * which the first `max` singular vectors are the best. False for some matrices that are farther; those are factored in
 * vain. */
static bool needs_more(const double *a, int64_t rows, int64_t columns, double rest, int max) {
  double z[SKETCH * SKETCH], g[SKETCH * SKETCH], h[SKETCH * SKETCH];
  if (rows * columns <= 4 * SKETCH * SKETCH || max >= SKETCH || max >= falt_min(rows, columns)) return false;
  sketch(a, rows, columns, z);
  return factor_matrix(z, z, SKETCH, SKETCH, SKETCH * rest, max, g, h) < 0;
}

/* ---------------------------------------------------------------------------------------------------------- volumes */

/* Makes sum |f| = sum |g| = 1 and moves the scale to h: no intermediate output exceeds the largest input. */
static void balance(falt_factors *factors, int term) {
  double *h = falt_factors_taps(factors, term, 2);
  for (int axis = 0; axis < 2; axis++) {
    double *v = falt_factors_taps(factors, term, axis);
    const double sum = sum_abs(v, factors->size[axis]);
    for (int64_t i = 0; i < factors->size[axis] && sum > 0; i++) v[i] /= sum;
    for (int64_t i = 0; i < factors->size[2]; i++) h[i] *= sum;
  }
}

/* Sum |a - terms|, a piece of a row at a time. */
static double sum_left(const falt_factors *factors, const double *a) {
  enum { PIECE = 256 };
  const int64_t *size = factors->size;
  double sum = 0, left[PIECE];
  for (int64_t row = 0; row < size[0] * size[1]; row++)
    for (int64_t x = 0; x < size[2]; x += PIECE) {
      const int64_t count = falt_min(PIECE, size[2] - x);
      memcpy(left, a + row * size[2] + x, (size_t)count * sizeof *left);
      for (int k = 0; k < factors->terms; k++) {
        const double *h = falt_factors_taps(factors, k, 2) + x;
        const double by =
            falt_factors_taps(factors, k, 0)[row / size[1]] * falt_factors_taps(factors, k, 1)[row % size[1]];
        for (int64_t i = 0; i < count; i++) left[i] -= by * h[i];
      }
      sum += sum_abs(left, count);
    }
  return sum;
}

/* Adds the terms of f x matrix (R x S), at most max. The remainder is in `work`. False if they are not enough. */
static bool add_terms(falt_factors *factors, const double *f, const double *matrix, double *work, double rest, int max,
                      double *scratch) {
  const int64_t *size = factors->size;
  double *g = scratch, *h = scratch + max * size[1];
  const int terms = factor_matrix(matrix, work, size[1], size[2], rest, max - factors->terms, g, h);
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

/* Unfolds a to T x (R*S): f_k x matrix_k, of which half of the allowed rest is for the unfolding, and half for the
 * matrices, by their number. */
static falt_factoring factor_volume(falt_factors *factors, const double *a, int max, double rest, double *work) {
  const int64_t *size = factors->size, plane = size[1] * size[2];
  double *matrices = work + size[0] * plane, *f = matrices + max * plane, *scratch = f + max * size[0];
  const int outer = factor_matrix(a, work, size[0], plane, 0.5 * rest, max, f, matrices);
  if (outer < 0) return FALT_FACTOR_RANK;
  for (int k = 0; k < outer; k++) {
    const double part = 0.5 * rest / (outer * sum_abs(f + k * size[0], size[0]));
    double *matrix = matrices + k * plane;
    if (!add_terms(factors, f + k * size[0], matrix, matrix, part, max, scratch)) return FALT_FACTOR_RANK;
  }
  return FALT_FACTORED;
}

/* A single plane is its own matrix. */
static falt_factoring factor_plane(falt_factors *factors, const double *a, int max, double rest, double *work) {
  const double one = 1;
  double *scratch = work + factors->size[1] * factors->size[2];
  return add_terms(factors, &one, a, work, rest, max, scratch) ? FALT_FACTORED : FALT_FACTOR_RANK;
}

/* Doubles that either needs. */
static int64_t work_size(const int64_t size[3], int64_t max) {
  const int64_t plane = size[1] * size[2];
  return (size[0] > 1 ? size[0] + max : 1) * plane + max * taps_per_term(size);
}

/* Exactly, if the filter is integers of moderate size and of rank one. */
static bool factor_exactly(falt_factors *factors, const double *a) {
  enum { INTEGER_BITS = 31 };
  const int64_t count = factors->size[0] * factors->size[1] * factors->size[2];
  const double scale = falt_integer_scale(a, count, INTEGER_BITS);
  double *f = falt_factors_taps(factors, 0, 0), *g = falt_factors_taps(factors, 0, 1);
  double *h = falt_factors_taps(factors, 0, 2);
  if (scale == 0 || !factor_integers(a, scale, factors->size, f, g, h)) return false;
  for (int64_t i = 0; i < factors->size[2]; i++) h[i] /= scale;
  factors->terms = factors->groups = 1;
  factors->group[0] = 0;
  return factors->exact = true;
}

/* One term: the row, column and depth line through the largest tap. An outer product of doubles equals their product
 * except for a few roundings; singular vectors would add the rounding errors of their sums. Returns false if the
 * residual exceeds that. `whole` is the sum of |a|. */
static bool factor_lines(falt_factors *factors, const double *a, double tolerance, double whole) {
  const double rounding = ldexp(1, -50);
  const int64_t *size = factors->size, plane = size[1] * size[2], pivot = largest_of(a, size[0] * plane);
  const int64_t z = pivot / plane, y = pivot / size[2] % size[1], x = pivot % size[2];
  double *f = falt_factors_taps(factors, 0, 0), *g = falt_factors_taps(factors, 0, 1);
  if (a[pivot] == 0) return false;
  for (int64_t i = 0; i < size[0]; i++) f[i] = a[i * plane + y * size[2] + x] / a[pivot];
  for (int64_t i = 0; i < size[1]; i++) g[i] = a[z * plane + i * size[2] + x] / a[pivot];
  memcpy(falt_factors_taps(factors, 0, 2), a + z * plane + y * size[2], (size_t)size[2] * sizeof *a);
  factors->terms = factors->groups = 1;
  if (sum_left(factors, a) <= fmin(tolerance, rounding) * whole) {
    balance(factors, 0);
    return true;
  }
  factors->terms = factors->groups = 0;
  return false;
}

/* Sum |a| is `whole`. */
static falt_factoring factor_into(falt_factors *factors, const double *a, int max, double tolerance, double whole,
                                  double *work) {
  const double sketch_rounding = 1e-12, rest = fmax(tolerance, sketch_rounding) * whole;
  const int64_t *size = factors->size;
  if (needs_more(a, size[0] * size[1], size[2], rest, max)) return FALT_FACTOR_RANK;
  if (needs_more(a, size[0], size[1] * size[2], rest, max)) return FALT_FACTOR_RANK;
  if (factor_exactly(factors, a)) return FALT_FACTORED;
  if (!factor_lines(factors, a, tolerance, whole)) {
    const falt_factoring answer =
        (size[0] > 1 ? factor_volume : factor_plane)(factors, a, max, tolerance * whole, work);
    if (answer != FALT_FACTORED) return answer;
  }
  if (factors->terms == 0) { /* nothing but zeros: one term of zeros */
    memset(factors->taps, 0, (size_t)taps_per_term(size) * sizeof *factors->taps);
    factors->terms = factors->groups = 1;
    factors->exact = true;
  }
  factors->residual = whole > 0 ? sum_left(factors, a) / whole : 0;
  return FALT_FACTORED;
}

/* A sum of magnitudes is infinite if one of them is, or if it overflows. */
static bool all_finite(const double *a, int64_t count, double sum) {
  if (isfinite(sum)) return true;
  for (int64_t i = 0; i < count; i++)
    if (!isfinite(a[i])) return false;
  return true;
}

falt_factoring falt_factor(falt_factors *factors, const double *a, const int64_t size[3], int max_terms,
                           double tolerance) {
  const int64_t count = size[0] * size[1] * size[2], max = max_terms;
  memset(factors, 0, sizeof *factors);
  const double whole = sum_abs(a, count);
  if (!all_finite(a, count, whole)) return FALT_FACTOR_VALUES;
  memcpy(factors->size, size, sizeof factors->size);
  double *work = falt_alloc((size_t)work_size(size, max) * sizeof *work);
  factors->taps = falt_alloc_zero((size_t)(max * taps_per_term(size)) * sizeof *factors->taps);
  factors->group = falt_alloc_zero((size_t)max * sizeof *factors->group);
  falt_factoring answer = FALT_FACTOR_MEMORY;
  if (work && factors->taps && factors->group) answer = factor_into(factors, a, max_terms, tolerance, whole, work);
  if (answer != FALT_FACTORED) falt_factors_free(factors);
  falt_free(work);
  return answer;
}
