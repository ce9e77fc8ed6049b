/* Separable factors: ranks found, filters rebuilt, integers exact, tolerances kept. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/memory.h"
#include "core/random.h"
#include "solver/common/factor.h"

enum { MOST = 24 * 24 * 24 };

typedef struct sizes {
  int64_t size[3];
} sizes;

static const sizes shapes[] = {{{1, 1, 1}}, {{1, 3, 3}}, {{1, 2, 9}},  {{1, 17, 17}},  {{1, 24, 5}},
                               {{3, 3, 3}}, {{5, 1, 4}}, {{2, 7, 11}}, {{13, 13, 13}}, {{1, 24, 24}}};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static double symmetric_unit(uint64_t *seed) {
  return 2 * falt_random_unit(seed) - 1;
}

/* a += a random outer product, of integers in [-9, 9] or reals in [-1, 1). */
static void add_product(double *a, const int64_t size[3], bool integers, uint64_t *seed) {
  double v[3][24];
  for (int axis = 0; axis < 3; axis++)
    for (int64_t i = 0; i < size[axis]; i++)
      v[axis][i] = integers ? (double)falt_random_int(seed, -9, 9) : symmetric_unit(seed);
  for (int64_t z = 0; z < size[0]; z++)
    for (int64_t y = 0; y < size[1]; y++)
      for (int64_t x = 0; x < size[2]; x++) a[(z * size[1] + y) * size[2] + x] += v[0][z] * v[1][y] * v[2][x];
}

/* Fills a with a random outer product of reals. Returns its shape. */
static const int64_t *random_product(double a[MOST], uint64_t seed) {
  const int64_t *size = shapes[seed % SHAPES].size;
  memset(a, 0, MOST * sizeof *a);
  add_product(a, size, false, &seed);
  return size;
}

static double rebuilt(const falt_factors *factors, int64_t z, int64_t y, int64_t x) {
  double sum = 0;
  for (int k = 0; k < factors->terms; k++)
    sum +=
        falt_factors_taps(factors, k, 0)[z] * falt_factors_taps(factors, k, 1)[y] * falt_factors_taps(factors, k, 2)[x];
  return sum;
}

/* sum |a - factors| / sum |a|, from the outside. */
static double distance(const falt_factors *factors, const double *a) {
  const int64_t *size = factors->size;
  double difference = 0, whole = 0;
  for (int64_t i = 0; i < size[0] * size[1] * size[2]; i++) {
    difference += fabs(a[i] - rebuilt(factors, i / (size[1] * size[2]), i / size[2] % size[1], i % size[2]));
    whole += fabs(a[i]);
  }
  return whole > 0 ? difference / whole : difference;
}

static int64_t middle(const int64_t size[3]) {
  const int64_t low = size[0] < size[1] ? size[0] : size[1], high = size[0] < size[1] ? size[1] : size[0];
  return size[2] < low ? low : size[2] > high ? high : size[2];
}

/* Products of doubles are one term, at the tolerance of f64 and below. */
static void products_of_doubles_are_one_term(void **state) {
  (void)state;
  static double a[MOST];
  for (uint64_t seed = 1; seed <= 400; seed++) {
    const int64_t *size = random_product(a, seed);
    falt_factors factors;
    assert_int_equal(falt_factor(&factors, a, size, 9, 0x1p-49), FALT_FACTORED);
    assert_int_equal(factors.terms, 1);
    assert_true(distance(&factors, a) < 0x1p-49);
    falt_factors_free(&factors);
  }
}

static void rebuilds_random_sums(void **state) {
  (void)state;
  static double a[MOST];
  for (uint64_t seed = 1; seed <= 400; seed++) {
    uint64_t random = seed;
    const int64_t *size = shapes[seed % SHAPES].size;
    const int rank = 1 + (int)(seed / SHAPES % 3);
    memset(a, 0, sizeof a);
    for (int k = 0; k < rank; k++) add_product(a, size, false, &random);
    falt_factors factors;
    assert_int_equal(falt_factor(&factors, a, size, 9, 1e-14), FALT_FACTORED);
    assert_true(factors.terms >= 1 && (size[0] > 1 || factors.terms <= rank));
    if (middle(size) > rank && size[0] == 1) assert_int_equal(factors.terms, rank);
    assert_true(distance(&factors, a) < 2e-14);
    assert_true(factors.residual < 2e-14);
    falt_factors_free(&factors);
  }
}

static void finds_one_term_in_products(void **state) {
  (void)state;
  static double a[MOST];
  for (uint64_t seed = 1; seed <= 200; seed++) {
    const int64_t *size = random_product(a, seed);
    for (int i = 0; i < MOST; i++) a[i] = (float)a[i]; /* a filter that was rounded once */
    falt_factors factors;
    assert_int_equal(falt_factor(&factors, a, size, 1, 4 * ldexp(1, -24)), FALT_FACTORED);
    assert_int_equal(factors.terms, 1);
    assert_true(distance(&factors, a) < 4 * ldexp(1, -24));
    falt_factors_free(&factors);
  }
}

static void keeps_integers_exact(void **state) {
  (void)state;
  static double a[MOST];
  for (uint64_t seed = 1; seed <= 300; seed++) {
    uint64_t random = seed;
    const int64_t *size = shapes[seed % SHAPES].size;
    memset(a, 0, sizeof a);
    add_product(a, size, true, &random);
    const double scale = ldexp(1, -(int)(seed % 9)); /* also in sixteenths and so on */
    for (int i = 0; i < MOST; i++) a[i] *= scale;
    falt_factors factors;
    assert_int_equal(falt_factor(&factors, a, size, 1, 1e-14), FALT_FACTORED);
    assert_true(factors.exact);
    assert_true(factors.residual == 0);
    assert_true(distance(&factors, a) == 0);
    for (int axis = 0; axis < 2; axis++)
      for (int64_t i = 0; i < size[axis]; i++) {
        const double tap = falt_factors_taps(&factors, 0, axis)[i];
        assert_true(tap == nearbyint(tap));
      }
    falt_factors_free(&factors);
  }
}

static void knows_binomials(void **state) {
  (void)state;
  const double a[9] = {1, 2, 1, 2, 4, 2, 1, 2, 1}, sobel[9] = {-1, 0, 1, -2, 0, 2, -1, 0, 1};
  const double *filters[2] = {a, sobel};
  const double rows[2][3] = {{1, 2, 1}, {-1, 0, 1}};
  const int64_t size[3] = {1, 3, 3};
  for (int i = 0; i < 2; i++) {
    falt_factors factors;
    assert_int_equal(falt_factor(&factors, filters[i], size, 1, 0), FALT_FACTORED);
    assert_true(factors.exact);
    const double *g = falt_factors_taps(&factors, 0, 1), *h = falt_factors_taps(&factors, 0, 2);
    assert_true(fabs(g[0]) == 1 && g[1] == 2 * g[0] && g[2] == g[0]);
    for (int j = 0; j < 3; j++) assert_true(falt_factors_taps(&factors, 0, 0)[0] * g[0] * h[j] == rows[i][j]);
    falt_factors_free(&factors);
  }
}

static void says_that_the_rank_is_too_high(void **state) {
  (void)state;
  static double a[MOST];
  falt_factors factors;
  const int64_t size[3] = {1, 9, 9}, cube[3] = {3, 3, 3};
  uint64_t random = 7;
  for (int k = 0; k < 5; k++) add_product(a, size, false, &random);
  for (int max = 1; max < 5; max++) assert_int_equal(falt_factor(&factors, a, size, max, 1e-12), FALT_FACTOR_RANK);
  assert_int_equal(falt_factor(&factors, a, size, 5, 1e-12), FALT_FACTORED);
  falt_factors_free(&factors);
  for (int i = 0; i < 27; i++) a[i] = symmetric_unit(&random);
  assert_int_equal(falt_factor(&factors, a, cube, 2, 1e-12), FALT_FACTOR_RANK);
  const double laplace[9] = {0, 1, 0, 1, -4, 1, 0, 1, 0};
  const int64_t square[3] = {1, 3, 3};
  assert_int_equal(falt_factor(&factors, laplace, square, 1, 1e-6), FALT_FACTOR_RANK);
  assert_null(factors.taps);
}

/* Laplacian of a Gaussian: rank two, with a bound in between rank one. Looser tolerances never need more terms. */
static void trades_terms_for_error(void **state) {
  (void)state;
  double a[15 * 15];
  uint64_t random = 3;
  const int64_t size[3] = {1, 15, 15};
  for (int i = 0; i < 225; i++) {
    const double x = i % 15 - 7, y = i / 15 - 7, q = (x * x + y * y) / 18;
    a[i] = (1 - q) * exp(-q) + 1e-5 * symmetric_unit(&random);
  }
  int before = 15;
  for (double tolerance = 1e-7; tolerance < 1; tolerance *= 4) {
    falt_factors factors;
    assert_int_equal(falt_factor(&factors, a, size, 15, tolerance), FALT_FACTORED);
    assert_true(factors.terms <= before);
    assert_true(factors.residual <= tolerance);
    assert_true(fabs(distance(&factors, a) - factors.residual) < 1e-12);
    if (tolerance > 1e-4 && tolerance < 1e-3) assert_int_equal(factors.terms, 2);
    before = factors.terms;
    falt_factors_free(&factors);
  }
  assert_int_equal(before, 1);
}

static void shares_planes(void **state) {
  (void)state;
  double a[5 * 25];
  const double z[5] = {1, 4, 6, 4, 1};
  for (int i = 0; i < 125; i++) { /* a Gaussian in z times a rank two matrix */
    const double x = i % 5 - 2, y = i / 5 % 5 - 2;
    a[i] = z[i / 25] * (x * x + 0.3 * y * y * y);
  }
  const int64_t size[3] = {5, 5, 5};
  falt_factors factors;
  assert_int_equal(falt_factor(&factors, a, size, 4, 1e-14), FALT_FACTORED);
  assert_int_equal(factors.terms, 2);
  assert_int_equal(factors.groups, 1);
  assert_int_equal(factors.group[1], 0);
  for (int i = 0; i < 5; i++) assert_true(falt_factors_taps(&factors, 0, 0)[i] == falt_factors_taps(&factors, 1, 0)[i]);
  falt_factors_free(&factors);
}

static void takes_odd_values(void **state) {
  (void)state;
  const int64_t size[3] = {1, 2, 2};
  const double zeros[4] = {0, -0.0, 0, 0}, bad[4] = {1, NAN, 1, 1}, endless[4] = {1, 1, -INFINITY, 1};
  const double large[4] = {1e300, 2e300, -1e300, -2e300}, tiny[4] = {1e-310, 3e-310, 1e-310, 3e-310};
  falt_factors factors;
  assert_int_equal(falt_factor(&factors, zeros, size, 1, 0), FALT_FACTORED);
  assert_int_equal(factors.terms, 1);
  assert_true(distance(&factors, zeros) == 0);
  falt_factors_free(&factors);
  assert_int_equal(falt_factor(&factors, bad, size, 1, 0.5), FALT_FACTOR_VALUES);
  assert_int_equal(falt_factor(&factors, endless, size, 1, 0.5), FALT_FACTOR_VALUES);
  assert_int_equal(falt_factor(&factors, large, size, 1, 1e-14), FALT_FACTORED);
  assert_true(distance(&factors, large) < 1e-14);
  falt_factors_free(&factors);
  assert_int_equal(falt_factor(&factors, tiny, size, 1, 1e-10), FALT_FACTORED);
  falt_factors_free(&factors);
}

/* Filters so large that a sketch of them is looked at first: `terms` products, and noise. */
static double *large_filter(const int64_t size[3], int terms, double noise) {
  const int64_t count = size[0] * size[1] * size[2];
  double *a = malloc((size_t)count * sizeof *a);
  uint64_t random = 11;
  for (int64_t i = 0; i < count; i++) {
    const double z = (double)(i / (size[1] * size[2])), y = (double)(i / size[2] % size[1]), x = (double)(i % size[2]);
    a[i] = noise * symmetric_unit(&random);
    for (int k = 1; k <= terms; k++) a[i] += cos(0.7 * k * z + k) * sin(0.11 * k * y + 1) * cos(0.05 * k * x + k) / k;
  }
  return a;
}

static void check_large(const int64_t size[3], int terms, double noise, int max, double tolerance,
                        falt_factoring expected) {
  double *a = large_filter(size, terms, noise);
  falt_factors factors;
  assert_int_equal(falt_factor(&factors, a, size, max, tolerance), expected);
  if (expected == FALT_FACTORED) {
    assert_true(factors.terms == terms);
    assert_true(factors.residual <= tolerance);
    assert_true(distance(&factors, a) <= 1.001 * tolerance);
    falt_factors_free(&factors);
  }
  free(a);
}

static void sketches_large_filters(void **state) {
  (void)state;
  const int64_t large[3][3] = {{1, 150, 170}, {1, 2000, 33}, {5, 90, 70}};
  for (int i = 0; i < 3; i++)
    for (int terms = 1; terms < (large[i][0] > 1 ? 2 : 5); terms++) { /* volumes may take more than there are */
      check_large(large[i], terms, 0, terms, 1e-12, FALT_FACTORED);
      check_large(large[i], terms, 1e-6, terms + 3, 1e-4, FALT_FACTORED);
      if (terms > 1) check_large(large[i], terms, 0, terms - 1, 1e-12, FALT_FACTOR_RANK);
      check_large(large[i], terms, 1e-3, 16, 1e-7, FALT_FACTOR_RANK);
    }
}

/* Few taps that no sample of rows and columns need meet, and integers that have to stay exact without a tolerance. */
static void sketches_all_taps(void **state) {
  (void)state;
  const int64_t size[3] = {1, 300, 200};
  double *a = calloc(300 * 200, sizeof *a);
  falt_factors factors;
  for (int i = 0; i < 20; i++) a[(7 + 14 * i) * 200 + 3 + 9 * i] = 1 + i;
  assert_int_equal(falt_factor(&factors, a, size, 16, 1e-7), FALT_FACTOR_RANK);
  for (int i = 0; i < 300 * 200; i++) a[i] = (1 + i / 200 % 7) * (1 + i % 200 % 5);
  assert_int_equal(falt_factor(&factors, a, size, 1, 0), FALT_FACTORED);
  assert_true(factors.exact);
  falt_factors_free(&factors);
  free(a);
}

static void survives_lack_of_memory(void **state) {
  (void)state;
  const double a[4] = {0.1, 0.2, 0.2, 0.4};
  const int64_t size[3] = {1, 2, 2};
  falt_factors factors;
  for (int n = 0; n < 3; n++) {
    falt_alloc_fail_after(n);
    assert_int_equal(falt_factor(&factors, a, size, 1, 1e-14), FALT_FACTOR_MEMORY);
    falt_alloc_fail_after(-1);
    assert_null(factors.taps);
  }
}

static void scales_to_integers(void **state) {
  (void)state;
  const double a[3] = {0.5, -0.125, 3}, b[2] = {1.0 / 3, 1}, c[2] = {4, -6}, d[2] = {5e9, 1};
  assert_true(falt_integer_scale(a, 3, 20) == 8);
  assert_true(falt_integer_scale(b, 2, 20) == 0);
  assert_true(falt_integer_scale(c, 2, 20) == 1);
  assert_true(falt_integer_scale(d, 2, 31) == 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rebuilds_random_sums),
      cmocka_unit_test(products_of_doubles_are_one_term),
      cmocka_unit_test(finds_one_term_in_products),
      cmocka_unit_test(keeps_integers_exact),
      cmocka_unit_test(knows_binomials),
      cmocka_unit_test(trades_terms_for_error),
      cmocka_unit_test(says_that_the_rank_is_too_high),
      cmocka_unit_test(shares_planes),
      cmocka_unit_test(takes_odd_values),
      cmocka_unit_test(sketches_large_filters),
      cmocka_unit_test(sketches_all_taps),
      cmocka_unit_test(scales_to_integers),
      cmocka_unit_test(survives_lack_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
