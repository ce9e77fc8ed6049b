/* The solver fft beside the definition: NaN and infinity reach exactly the windows that hold them; errors are below
 * 2 eps log2(N) of max|x| times the sum of |w|, and below those of sums in f32; numbers far from one; whole numbers;
 * limits of the workspace; when the planner takes it. */
#include "fft_trial.h"

/* Points of the smallest transform that holds the filter. */
static double levels(const trial *t) {
  return fmax(4, log2((double)falt_tensor_count(&t->problem.filter)));
}

/* ---- what is not finite */

static const char *const contained[] = {
    "correlate w=3000 s=65",
    "correlate w=500 s=701 boundary=wrap",
    "correlate w=40 s=100",
    "convolve h=90 w=70 r=9 s=15 boundary=reflect101",
    "correlate h=96 w=128 r=7 s=7 boundary=wrap",
    "correlate h=61 w=80 pixel=3 r=5 s=7 boundary=edge",
    "correlate h=60 w=80 r=7 s=9 stride=2x3 dilation=2",
    "correlate d=14 h=20 w=30 t=3 r=5 s=5",
    "forward n=2 c=5 h=20 w=30 k=5 r=7 s=7 pad=3 groups=5",
    "correlate h=40 w=300 r=1 s=31 type=f64",
};
enum { CONTAINED = sizeof contained / sizeof *contained };

static void check_contained(const char *line, const char *isa, bool known, double wrong) {
  trial *t = open_trial(line, 1, 1);
  for (int i = 0; i < 6; i++) put(&t->input, falt_random_int(&seed, 0, t->input.count - 1), wrong);
  trial *expected = expected_of(t);
  run(t, "fft", isa, known, -1);
  const double most = 2 * falt_type_epsilon(t->output.tensor.type) * 25 * largest(&t->input) * weight(&t->filter);
  compare(&t->output, &expected->output, most, line, isa);
  int64_t reached = 0;
  for (int64_t i = 0; i < t->output.count; i++) reached += !isfinite(at(&expected->output, i));
  if (!reached) fail_msg("%s: nothing reached", line);
  close_trial(expected);
  close_trial(t);
}

static void test_not_finite_is_contained(void **state) {
  (void)state;
  static const double wrong[] = {NAN, INFINITY, -INFINITY};
  for (int isa = 0; isa < FALT_ISA_COUNT; isa++)
    for (int i = 0; i < CONTAINED && isa <= FALT_ISA_AVX512 && falt_isa_runs((falt_isa)isa); i++)
      check_contained(contained[i], falt_isa_name((falt_isa)isa), i % 2, wrong[i % 3]);
}

/* ---- errors */

static double worst_error(const trial *t, const trial *expected) {
  double worst = 0;
  for (int64_t i = 0; i < t->output.count; i++) worst = fmax(worst, fabs(at(&t->output, i) - at(&expected->output, i)));
  return worst;
}

static void check_error(const char *line, double input, double filter) {
  trial *t = open_trial(line, input, filter), *expected = expected_of(t);
  run(t, "fft", "", true, -1);
  const double most =
      2 * falt_type_epsilon(t->output.tensor.type) * levels(t) * largest(&t->input) * weight(&t->filter);
  const double worst = worst_error(t, expected);
  if (!(worst <= most)) fail_msg("%s times %g and %g: error %g, at most %g", line, input, filter, worst, most);
  close_trial(expected);
  close_trial(t);
}

/* Lengths around powers of two; a filter longer than its signal. */
static void test_errors_are_rounding(void **state) {
  (void)state;
  for (int length = 64; length <= 4096; length *= 2)
    for (int more = -1; more <= 1; more++) {
      char line[96];
      snprintf(line, sizeof line, "correlate w=%d s=%d", 3 * length + more, length + more);
      check_error(line, 1, 1);
      snprintf(line, sizeof line, "correlate w=%d s=%d boundary=wrap", length + more, length - more);
      check_error(line, 1, 1);
    }
  check_error("correlate w=100 s=1001", 1, 1);
  check_error("correlate w=100 s=1001 boundary=symmetric type=f64", 1, 1);
  check_error("correlate h=257 w=255 r=31 s=33", 1, 1);
  check_error("correlate d=33 h=31 w=32 t=9 r=7 s=8", 1, 1);
}

/* Transforms of numbers whose products would be subnormal or infinite. */
static void test_numbers_far_from_one(void **state) {
  (void)state;
  static const int exponents[][2] = {{-126, 0}, {-140, 20}, {100, 0}, {100, -120}, {0, -130}, {-100, 120}, {120, -126}};
  for (size_t i = 0; i < sizeof exponents / sizeof *exponents; i++) {
    check_error("correlate w=900 s=100", ldexp(1, exponents[i][0]), ldexp(1, exponents[i][1]));
    check_error("correlate h=50 w=60 r=9 s=11", ldexp(1, exponents[i][0]), ldexp(1, exponents[i][1]));
  }
  check_error("correlate w=900 s=100 type=f64", ldexp(1, -1000), ldexp(1, 900));
  check_error("correlate w=900 s=100 type=f64", ldexp(1, 990), ldexp(1, -800));
}

/* Sums one after the other, in f32. */
static double error_of_sums(const trial *t, const trial *expected) {
  const float *x = t->input.data, *w = t->filter.data;
  const int64_t taps = t->filter.count;
  double worst = 0;
  for (int64_t o = 0; o < t->output.count; o++) {
    volatile float sum = 0;
    for (int64_t i = 0; i < taps; i++) sum += x[o + i] * w[i];
    worst = fmax(worst, fabs(sum - at(&expected->output, o)));
  }
  return worst;
}

static void test_errors_are_below_those_of_sums(void **state) {
  (void)state;
  for (int taps = 128; taps <= 4096; taps *= 2) {
    char line[96];
    snprintf(line, sizeof line, "correlate w=%d s=%d mode=valid", 2000 + taps, taps);
    trial *t = open_trial(line, 1, 1), *expected = expected_of(t);
    run(t, "fft", "", true, -1);
    const double fft = worst_error(t, expected), sums = error_of_sums(t, expected);
    if (!(fft <= sums)) fail_msg("%s: error %g, %g of sums", line, fft, sums);
    close_trial(expected);
    close_trial(t);
  }
}

/* ---- whole numbers */

static void test_whole_numbers_are_exact(void **state) {
  (void)state;
  static const char *const lines[] = {"correlate h=60 w=70 r=15 s=15 type=u8 weight-type=s8 out-type=s32",
                                      "correlate w=5000 s=1000 type=s16 weight-type=s16 out-type=s32",
                                      "correlate h=60 w=70 pixel=3 r=9 s=9 type=u8 weight-type=s8 out-type=s16"};
  for (size_t l = 0; l < sizeof lines / sizeof *lines; l++) {
    trial *t = open_trial(lines[l], 1, 1), *expected = expected_of(t);
    run(t, "fft", "", l % 2, -1);
    const double low = falt_type_min(t->output.tensor.type), high = falt_type_max(t->output.tensor.type);
    for (int64_t i = 0; i < t->output.count; i++) {
      const double y = at(&t->output, i), e = at(&expected->output, i);
      if (y != fmin(fmax(e, low), high)) fail_msg("%s: %g instead of %g", lines[l], y, e);
    }
    close_trial(expected);
    close_trial(t);
  }
}

static void test_sums_too_large_to_be_exact_are_refused(void **state) {
  (void)state;
  falt_device *device = device_with("", 1);
  falt_plan *plan;
  assert_int_equal(
      falt_plan_create_line(&plan, device, "correlate w=900 s=100 type=s32 weight-type=s16 method=fft", NULL),
      FALT_NO_SOLVER);
  expect_message("too large to be exact");
  falt_device_destroy(&device);
}

/* ---- planning */

/* Also where the limit is a byte less than the best tiles need. */
static void test_tiles_fit_the_workspace(void **state) {
  (void)state;
  falt_device *device = device_with("", 2);
  const float taps[31 * 31] = {1};
  for (int known = 0; known < 2; known++) {
    int64_t limit = -1;
    for (int i = 0; i < 8; i++) {
      falt_problem problem = parse("correlate h=600 w=600 r=31 s=31");
      falt_budget budget;
      falt_plan *plan;
      falt_budget_default(&budget);
      budget.max_workspace = limit;
      strcpy(budget.method, "fft");
      if (falt_plan_create(&plan, device, &problem, &budget, known ? taps : NULL) != FALT_OK)
        fail_msg("workspace of %lld bytes: %s", (long long)limit, falt_message());
      assert_true(limit < 0 || falt_plan_workspace(plan) <= (size_t)limit);
      limit = (int64_t)falt_plan_workspace(plan) - 1;
      falt_plan_destroy(&plan);
      if (limit < 150000) break;
    }
  }
  falt_device_destroy(&device);
}

static void test_it_is_taken_where_it_pays(void **state) {
  (void)state;
  static const choice cases[] = {{"correlate h=4096 w=4096 r=3 s=3", false},
                                 {"correlate h=4096 w=4096 r=31 s=31", true},
                                 {"correlate h=4096 w=4096 r=127 s=127", true},
                                 {"correlate w=4194304 s=9", false},
                                 {"correlate w=4194304 s=1025", true},
                                 {"correlate w=4194304 s=16385", true},
                                 {"correlate d=128 h=128 w=128 t=3 r=3 s=3", false},
                                 {"correlate d=128 h=128 w=128 t=15 r=15 s=15", true}};
  check_choices(cases, sizeof cases / sizeof *cases, "fft");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(test_not_finite_is_contained, set_up),
      cmocka_unit_test_setup(test_errors_are_rounding, set_up),
      cmocka_unit_test_setup(test_numbers_far_from_one, set_up),
      cmocka_unit_test_setup(test_errors_are_below_those_of_sums, set_up),
      cmocka_unit_test_setup(test_whole_numbers_are_exact, set_up),
      cmocka_unit_test_setup(test_sums_too_large_to_be_exact_are_refused, set_up),
      cmocka_unit_test_setup(test_tiles_fit_the_workspace, set_up),
      cmocka_unit_test_setup(test_it_is_taken_where_it_pays, set_up),
  };
  return run_in_directory(tests, sizeof tests / sizeof *tests);
}
