/* Named kernels: taps against their definitions, factors against taps, refusals, and a filter by factors against
 * separate passes. */
#include "api_fixture.h"

#include <math.h>

#include "core/memory.h"

static const double every[3] = {2, 2, 2};

static double tap(const falt_kernel *k, int64_t z, int64_t y, int64_t x) {
  assert_int_equal(k->factors, 0);
  return k->values[(z * k->size[1] + y) * k->size[2] + x];
}

static void expand(falt_kernel *k, int factors) {
  assert_int_equal(k->factors, factors);
  assert_int_equal(k->count, factors * (k->size[0] + k->size[1] + k->size[2]));
  assert_int_equal(falt_kernel_expand(k), FALT_OK);
  assert_int_equal(k->count, k->size[0] * k->size[1] * k->size[2]);
  assert_int_equal(falt_kernel_expand(k), FALT_OK); /* does nothing more */
}

/* Sum of taps times z^a y^b x^c, from the middle. */
static double moment(const falt_kernel *k, int a, int b, int c) {
  double sum = 0;
  for (int64_t z = 0; z < k->size[0]; z++)
    for (int64_t y = 0; y < k->size[1]; y++)
      for (int64_t x = 0; x < k->size[2]; x++)
        sum += tap(k, z, y, x) * pow((double)(z - k->size[0] / 2), a) * pow((double)(y - k->size[1] / 2), b) *
               pow((double)(x - k->size[2] / 2), c);
  return sum;
}

static void expect(double value, double expected, double error) {
  if (!(fabs(value - expected) <= error)) fail_msg("%.9g, and %.9g is expected", value, expected);
}

/* ---- Gaussians */

static void test_gaussian(UNUSED void **state) {
  const double sigma[3] = {1, 2, 0.5};
  falt_kernel k;
  assert_int_equal(falt_kernel_gaussian(&k, 3, sigma, NULL, 4), FALT_OK);
  assert_true(k.size[0] == 9 && k.size[1] == 17 && k.size[2] == 5);
  expand(&k, 1);
  expect(moment(&k, 0, 0, 0), 1, 1e-14);
  expect(moment(&k, 2, 0, 0), 1, 2e-3); /* variances */
  expect(moment(&k, 0, 2, 0), 4, 8e-3);
  expect(tap(&k, 5, 8, 2) / tap(&k, 4, 8, 2), exp(-0.5), 1e-14);
  expect(tap(&k, 4, 9, 3) / tap(&k, 4, 8, 2), exp(-0.125 - 2), 1e-14);
  falt_kernel_free(&k);
  assert_int_equal(falt_kernel_gaussian(&k, 2, every, NULL, 3), FALT_OK);
  assert_true(k.size[0] == 1 && k.size[1] == 13 && k.size[2] == 13);
  falt_kernel_free(&k);
  assert_int_equal(falt_kernel_gaussian(&k, 1, (const double[3]){NAN, NAN, 0}, NULL, 4), FALT_OK);
  assert_true(k.size[2] == 1 && k.values[2] == 1);
  falt_kernel_free(&k);
}

/* Gaussians of boxes: the sum, the variance, and the errors that docs/guide/kernels.md states. */
static void test_gaussian_fast(UNUSED void **state) {
  static const struct {
    double sigma, most, all; /* the largest difference relative to the peak; the sum of all */
  } cases[] = {{2, 0.009, 0.0145}, {2.5, 0.009, 0.009}, {3, 0.005, 0.007},  {4, 0.004, 0.005},  {5, 0.003, 0.004},
               {8, 0.003, 0.004},  {16, 0.002, 0.003},  {32, 0.002, 0.003}, {64, 0.002, 0.003}, {200, 0.002, 0.003}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const double sigma = cases[i].sigma, peak = 1 / (sigma * sqrt(2 * 3.14159265358979323846));
    falt_kernel k;
    double most = 0, all = 0;
    assert_int_equal(falt_kernel_gaussian_fast(&k, 1, (const double[3]){0, 0, sigma}), FALT_OK);
    expand(&k, 1);
    expect(moment(&k, 0, 0, 0), 1, 1e-13);
    expect(moment(&k, 0, 0, 2) / (sigma * sigma), 1, 1e-12);
    for (int64_t x = 0; x < k.size[2]; x++) {
      const double t = (double)(x - k.size[2] / 2) / sigma, error = fabs(tap(&k, 0, 0, x) - peak * exp(-0.5 * t * t));
      most = fmax(most, error / peak);
      all += error;
    }
    if (most > cases[i].most || all > cases[i].all) fail_msg("sigma %g: %g of the peak, %g in all", sigma, most, all);
    falt_kernel_free(&k);
  }
  falt_kernel k, exact;
  assert_int_equal(falt_kernel_gaussian_fast(&k, 3, (const double[3]){1, 3, 0}), FALT_OK);
  assert_int_equal(falt_kernel_gaussian(&exact, 1, (const double[3]){0, 0, 1}, NULL, 4), FALT_OK);
  assert_true(k.size[0] == 9 && k.size[1] == 23 && k.size[2] == 1);
  assert_memory_equal(k.values, exact.values + 2, 9 * sizeof(double)); /* below 2: the taps of a Gaussian */
  falt_kernel_free(&k);
  falt_kernel_free(&exact);
  assert_int_equal(falt_kernel_gaussian_fast(&k, 1, (const double[3]){0, 0, -1}), FALT_INVALID_ARGUMENT);
  assert_int_equal(falt_kernel_gaussian_fast(&k, 1, (const double[3]){0, 0, 1e9}), FALT_INVALID_SIZE);
  assert_int_equal(falt_kernel_gaussian_fast(&k, 1, NULL), FALT_INVALID_ARGUMENT);
}

/* A derivative of order n takes n! from x^n and nothing from lower powers; it is positive where values rise. */
static void test_derivatives(UNUSED void **state) {
  static const double factorial[] = {1, 1, 2, 6, 24};
  for (int n = 1; n <= 4; n++) {
    falt_kernel k;
    assert_int_equal(falt_kernel_gaussian(&k, 2, every, (const int[3]){0, n, 0}, 8), FALT_OK);
    expand(&k, 1);
    expect(moment(&k, 0, n, 0), factorial[n], 1e-8);
    for (int m = 0; m < n; m++) expect(moment(&k, 0, m, 0), 0, 1e-8);
    falt_kernel_free(&k);
  }
}

static void test_log_and_unsharp(UNUSED void **state) {
  falt_kernel k, bell;
  assert_int_equal(falt_kernel_log(&k, 2, every, 8), FALT_OK);
  expand(&k, 2);
  expect(moment(&k, 0, 0, 0), 0, 1e-8);
  expect(moment(&k, 0, 2, 0), 2, 1e-8); /* the Laplacian of y^2 */
  expect(moment(&k, 0, 0, 2), 2, 1e-8);
  falt_kernel_free(&k);
  assert_int_equal(falt_kernel_unsharp(&k, 2, every, 0.5, 4), FALT_OK);
  assert_int_equal(falt_kernel_gaussian(&bell, 2, every, NULL, 4), FALT_OK);
  expand(&k, 2);
  expand(&bell, 1);
  for (int64_t i = 0; i < k.count; i++) expect(k.values[i], (i == k.count / 2 ? 1.5 : 0) - 0.5 * bell.values[i], 1e-15);
  falt_kernel_free(&k);
  falt_kernel_free(&bell);
}

/* ---- small ones */

static void expect_taps(falt_kernel *k, falt_status status, int factors, const double *taps) {
  assert_int_equal(status, FALT_OK);
  if (factors) expand(k, factors);
  for (int64_t i = 0; i < k->count; i++) expect(k->values[i], taps[i], 0);
  falt_kernel_free(k);
  assert_null(k->values);
}

static void test_small(UNUSED void **state) {
  falt_kernel k;
  expect_taps(&k, falt_kernel_gradient(&k, FALT_SOBEL, 2, 2), 1, (const double[]){-1, 0, 1, -2, 0, 2, -1, 0, 1});
  expect_taps(&k, falt_kernel_gradient(&k, FALT_PREWITT, 2, 1), 1, (const double[]){-1, -1, -1, 0, 0, 0, 1, 1, 1});
  expect_taps(&k, falt_kernel_gradient(&k, FALT_SCHARR, 2, 2), 1, (const double[]){-3, 0, 3, -10, 0, 10, -3, 0, 3});
  expect_taps(&k, falt_kernel_gradient(&k, FALT_SOBEL, 1, 2), 1, (const double[]){-1, 0, 1});
  expect_taps(&k, falt_kernel_laplace(&k, 2), 2, (const double[]){0, 1, 0, 1, -4, 1, 0, 1, 0});
  expect_taps(&k, falt_kernel_laplace(&k, 1), 1, (const double[]){1, -2, 1});
  expect_taps(&k, falt_kernel_sharpen(&k, 2), 3, (const double[]){0, -1, 0, -1, 5, -1, 0, -1, 0});
  expect_taps(&k, falt_kernel_emboss(&k), 0, (const double[]){-2, -1, 0, -1, 1, 1, 0, 1, 2});
  expect_taps(&k, falt_kernel_identity(&k), 1, (const double[]){1});
  expect_taps(&k, falt_kernel_box(&k, (const int64_t[3]){1, 2, 4}), 1,
              (const double[]){.125, .125, .125, .125, .125, .125, .125, .125});
  expect_taps(&k, falt_kernel_motion(&k, 4, 0), 0, (const double[]){.125, .25, .25, .25, .125});
}

/* ---- refusals */

static void refused(falt_status status, falt_status expected, const char *word) {
  assert_int_equal(status, expected);
  expect_message(word);
}

static void test_refusals(UNUSED void **state) {
  falt_kernel k;
  refused(falt_kernel_gaussian(NULL, 2, every, NULL, 4), FALT_INVALID_ARGUMENT, "kernel: NULL");
  refused(falt_kernel_gaussian(&k, 2, NULL, NULL, 4), FALT_INVALID_ARGUMENT, "sigma: NULL");
  refused(falt_kernel_gaussian(&k, 4, every, NULL, 4), FALT_INVALID_ARGUMENT, "space: 4");
  refused(falt_kernel_gaussian(&k, 1, (const double[3]){0, 0, -1}, NULL, 4), FALT_INVALID_ARGUMENT, "0 or more");
  refused(falt_kernel_gaussian(&k, 1, (const double[3]){0, 0, 1e8}, NULL, 4), FALT_INVALID_SIZE, "too wide");
  refused(falt_kernel_gaussian(&k, 1, every, NULL, NAN), FALT_INVALID_ARGUMENT, "truncate");
  refused(falt_kernel_gaussian(&k, 1, every, (const int[3]){0, 0, 17}, 4), FALT_INVALID_ARGUMENT, "order: 17");
  refused(falt_kernel_gaussian(&k, 1, (const double[3]){0, 0, 0}, (const int[3]){0, 0, 1}, 4), FALT_INVALID_ARGUMENT,
          "above 0");
  refused(falt_kernel_log(&k, 1, (const double[3]){1, 1, 1e-200}, 4), FALT_INVALID_ARGUMENT, "infinite");
  refused(falt_kernel_unsharp(&k, 1, every, INFINITY, 4), FALT_INVALID_ARGUMENT, "amount");
  refused(falt_kernel_box(&k, (const int64_t[3]){1, 0, 1}), FALT_INVALID_SIZE, "a size of 0");
  refused(falt_kernel_gradient(&k, FALT_SOBEL, 2, 0), FALT_INVALID_ARGUMENT, "axis: 0");
  refused(falt_kernel_gradient(&k, (falt_gradient)3, 2, 1), FALT_INVALID_ARGUMENT, "gradient");
  refused(falt_kernel_motion(&k, 0, 0), FALT_INVALID_SIZE, "1 to 10000");
  refused(falt_kernel_motion(&k, 10000, 45), FALT_INVALID_SIZE, "2^24");
  refused(falt_kernel_motion(&k, 5, INFINITY), FALT_INVALID_ARGUMENT, "angle");
  refused(falt_kernel_expand(NULL), FALT_INVALID_ARGUMENT, "kernel");
  assert_int_equal(falt_kernel_gaussian(&k, 2, (const double[3]){0, 1e4, 1e4}, NULL, 4), FALT_OK);
  refused(falt_kernel_expand(&k), FALT_INVALID_SIZE, "use its factors");
  refused(falt_kernel_pack(&k, FALT_S8, k.values), FALT_INVALID_TYPE, "s8 does not hold");
  refused(falt_kernel_pack(&k, FALT_F32, NULL), FALT_INVALID_ARGUMENT, "values");
  refused(falt_kernel_problem(NULL, NULL, &k, FALT_F32, FALT_F32, false, NULL), FALT_INVALID_ARGUMENT, "problem");
  falt_kernel_free(&k);
  falt_kernel_free(&k);
  falt_kernel_free(NULL);
}

/* Whatever sigma and truncate are, a kernel has finite taps, or there is none. */
static void test_hostile_numbers(UNUSED void **state) {
  static const double numbers[] = {0, -0.0, -1, 1e-310, 1e-300, 1e-10, 1e-3, 1, 50, 1e300, INFINITY, -INFINITY, NAN};
  enum { COUNT = sizeof numbers / sizeof *numbers };
  for (int i = 0; i < COUNT * COUNT * 18; i++) {
    const double sigma[3] = {1, 1, numbers[i % COUNT]}, truncate = numbers[i / COUNT % COUNT];
    const int order = i / COUNT / COUNT;
    falt_kernel k = {.factors = 7};
    const falt_status status = order < 17 ? falt_kernel_gaussian(&k, 1, sigma, (const int[3]){0, 0, order}, truncate)
                                          : falt_kernel_log(&k, 1, sigma, truncate);
    if (status != FALT_OK && (k.values || k.factors || k.count)) fail_msg("values after a failure");
    for (int64_t tap = 0; tap < k.count; tap++)
      if (!isfinite(k.values[tap]))
        fail_msg("sigma %g, cut at %g, order %d: %g", sigma[2], truncate, order, k.values[tap]);
    falt_kernel_free(&k);
  }
}

/* A struct that nobody made, or that was freed. */
static void test_empty_kernels(UNUSED void **state) {
  falt_kernel k = {.factors = 0};
  falt_problem p;
  float value;
  const falt_tensor src = falt_volume(NULL, FALT_F32, 4, 4, 4).tensor;
  refused(falt_kernel_expand(&k), FALT_INVALID_ARGUMENT, "without values");
  refused(falt_kernel_pack(&k, FALT_F32, &value), FALT_INVALID_ARGUMENT, "without values");
  assert_int_not_equal(falt_kernel_problem(&p, &src, &k, FALT_F32, FALT_F32, false, NULL), FALT_OK);
  assert_int_not_equal(falt_kernel_problem(&p, NULL, &k, FALT_F32, FALT_F32, false, NULL), FALT_OK);
}

static falt_status make_any(falt_kernel *k, int which) {
  switch (which) {
    case 0:
      return falt_kernel_gaussian(k, 3, every, NULL, 4);
    case 1:
      return falt_kernel_log(k, 3, every, 4);
    case 2:
      return falt_kernel_unsharp(k, 3, every, 1, 4);
    case 3:
      return falt_kernel_gradient(k, FALT_SOBEL, 2, 1);
    case 4:
      return falt_kernel_laplace(k, 2);
    case 5:
      return falt_kernel_sharpen(k, 2);
    case 6:
      return falt_kernel_emboss(k);
    case 7:
      return falt_kernel_motion(k, 9, 30);
    default:
      return falt_kernel_identity(k);
  }
}

/* A maker without memory leaves an empty kernel; an expansion without memory leaves the factors. */
static void test_failing_allocations(UNUSED void **state) {
  for (int which = 0; which < 9; which++) {
    falt_kernel k = {.factors = 7};
    falt_alloc_fail_after(0);
    const falt_status made = make_any(&k, which);
    falt_alloc_fail_after(-1);
    assert_int_equal(made, FALT_NO_MEMORY);
    assert_true(!k.values && !k.factors && !k.count);
    assert_int_equal(make_any(&k, which), FALT_OK);
    const falt_kernel before = k;
    falt_alloc_fail_after(0);
    const falt_status expanded = falt_kernel_expand(&k);
    falt_alloc_fail_after(-1);
    assert_int_equal(expanded, before.factors ? FALT_NO_MEMORY : FALT_OK);
    assert_memory_equal(&k, &before, sizeof k);
    falt_kernel_free(&k);
  }
}

/* ---- a filter */

enum { D = 28, H = 24, W = 20, COUNT = D * H * W };

/* One pass of f32 taps along an axis of the volume. */
static void pass(const float *from, float *to, const float *taps, int64_t count, int axis) {
  int64_t size[3] = {1, 1, 1};
  size[axis] = count;
  falt_options options;
  falt_options_default(&options);
  options.space = 3;
  for (int a = 0; a < 3; a++) options.axis[a].boundary[0] = options.axis[a].boundary[1] = FALT_SYMMETRIC;
  const falt_const_array src = falt_const_volume(from, FALT_F32, D, H, W),
                         line = falt_const_volume(taps, FALT_F32, size[0], size[1], size[2]);
  const falt_array dst = falt_volume(to, FALT_F32, D, H, W);
  assert_int_equal(falt_correlate(&src, &line, &dst, &options), FALT_OK);
}

/* A Gaussian far wider than its volume, whose dense taps nobody has. */
static void test_wide_gaussian(UNUSED void **state) {
  static float input[COUNT], expected[COUNT], between[COUNT], output[COUNT];
  const double sigma[3] = {32, 20, 31.8};
  falt_device *device = device_with("", 2);
  falt_options options;
  falt_problem p;
  falt_kernel k;
  falt_plan *plan;
  falt_random_fill(input, FALT_F32, COUNT, 3);
  assert_int_equal(falt_kernel_gaussian(&k, 3, sigma, NULL, 4), FALT_OK);
  float *values = malloc((size_t)k.count * sizeof *values);
  assert_non_null(values);
  assert_int_equal(falt_kernel_pack(&k, FALT_F32, values), FALT_OK);
  falt_options_default(&options);
  options.space = 3;
  for (int a = 0; a < 3; a++) options.axis[a].boundary[0] = options.axis[a].boundary[1] = FALT_SYMMETRIC;
  const falt_tensor src = falt_volume(input, FALT_F32, D, H, W).tensor;
  assert_int_equal(falt_kernel_problem(&p, &src, &k, FALT_F32, FALT_F32, true, &options), FALT_OK);
  assert_int_equal(p.factors, 1);
  assert_int_equal(falt_problem_filter_elements(&p), k.count);
  if (falt_plan_create(&plan, device, &p, NULL, values) != FALT_OK) fail_msg("%s", falt_message());
  assert_string_not_equal(falt_plan_solver(plan), "reference");
  assert_int_equal(falt_execute_host(plan, &(falt_operands){.input = input, .output = output}), FALT_OK);
  pass(input, expected, values + k.size[0] + k.size[1], k.size[2], 2);
  pass(expected, between, values + k.size[0], k.size[1], 1);
  pass(between, expected, values, k.size[0], 0);
  for (int i = 0; i < COUNT; i++) expect((double)output[i], (double)expected[i], 1e-6);
  falt_plan_destroy(&plan);
  falt_device_destroy(&device);
  falt_kernel_free(&k);
  free(values);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_gaussian),
                                     cmocka_unit_test(test_gaussian_fast),
                                     cmocka_unit_test(test_derivatives),
                                     cmocka_unit_test(test_log_and_unsharp),
                                     cmocka_unit_test(test_small),
                                     cmocka_unit_test(test_refusals),
                                     cmocka_unit_test(test_hostile_numbers),
                                     cmocka_unit_test(test_empty_kernels),
                                     cmocka_unit_test(test_failing_allocations),
                                     cmocka_unit_test_setup(test_wide_gaussian, set_up)};
  return run_in_directory(tests, sizeof tests / sizeof *tests);
}
