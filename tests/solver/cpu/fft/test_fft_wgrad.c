/* The solver fft-wgrad beside the definition in f64: errors are rounding of the largest input times the sum of |dy|;
 * NaN and infinity reach exactly the taps that meet them, in a time that does not grow with their number; numbers far
 * from one; limits of the workspace; when the planner takes it, and fft for dgrad of the same layers. */
#include "fft_trial.h"

/* 2 eps log2(points), and the rounding of narrow results. */
static double tolerance(const trial *t) {
  const double positions = (double)t->problem.input.size[FALT_D] * (double)t->problem.input.size[FALT_H] *
                           (double)t->problem.input.size[FALT_W];
  const double lane = t->problem.accumulator == FALT_F64 ? 0x1p-53 : 0x1p-24;
  return 2 * (lane * fmax(4, log2(2 * positions)) + falt_type_epsilon(t->filter.tensor.type)) * largest(&t->input) *
         weight(&t->output);
}

static void check_trial(trial *t, const char *line, const char *isa, int64_t most) {
  trial *expected = expected_of(t);
  run(t, "fft-wgrad", isa, false, most);
  compare(&t->filter, &expected->filter, tolerance(t), line, isa);
  if (t->problem.has_bias) compare(&t->bias, &expected->bias, 0x1p-22 * weight(&t->output), line, isa);
  close_trial(t);
  close_trial(expected);
}

static void check(const char *line, double x, double dy, const char *isa, int64_t most) {
  check_trial(open_trial(line, x, dy), line, isa, most);
}

/* ---- errors */

static const char *const layers[] = {
    "backward-filter n=3 c=4 w=300 k=4 s=300 pad=299:0 groups=4",                   /* causal */
    "backward-filter n=2 c=3 w=256 k=3 s=256 pad=255:0 groups=3 boundary=wrap",     /* circular, a power of two */
    "backward-filter n=1 c=2 w=300 k=2 s=77 pad=38 groups=2 boundary=wrap bias=1",  /* circular, one image */
    "backward-filter n=2 c=3 w=5000 k=3 s=65 pad=32 groups=3 boundary=edge bias=1", /* a long dy in parts */
    "backward-filter n=2 c=2 w=700 k=4 s=129 pad=64 groups=2 boundary=reflect101",  /* two outputs a group */
    "backward-filter n=2 c=3 w=900 k=3 s=100 stride=3 dilation=2 pad=70 groups=3",  /* gaps in both */
    "backward-filter n=2 c=3 w=64 k=3 s=400 pad=399 groups=3 boundary=symmetric",   /* longer than its signal */
    "backward-filter n=3 c=2 h=50 w=60 k=2 r=15 s=17 pad=7 groups=2",               /* images */
    "backward-filter n=1 c=2 h=32 w=48 k=2 r=15 s=17 pad=7 groups=2 boundary=wrap", /* circular images */
    "backward-filter n=2 c=2 h=40 w=90 k=2 r=1 s=31 pad=0x15 groups=2 stride=2x1",  /* rows apart */
    "backward-filter n=2 c=2 d=12 h=20 w=24 k=2 t=5 r=5 s=5 pad=2 groups=2",        /* volumes */
    "backward-filter n=3 c=4 w=400 k=4 s=200 pad=199:0 groups=4 layout=nwc",        /* channels adjacent */
    "backward-filter n=3 c=4 w=300 k=4 s=300 pad=299:0 groups=4 type=f16",
    "backward-filter n=3 c=4 w=300 k=4 s=300 pad=299:0 groups=4 type=bf16",
    "backward-filter n=3 c=4 w=300 k=4 s=300 pad=299:0 groups=4 type=f64 bias=1",
};
enum { LAYERS = sizeof layers / sizeof *layers };

static void test_errors_are_rounding(void **state) {
  (void)state;
  for (int isa = 0; isa <= FALT_ISA_AVX512; isa++)
    for (int i = 0; i < LAYERS && falt_isa_runs((falt_isa)isa); i++)
      check(layers[i], 1, 1, falt_isa_name((falt_isa)isa), -1);
}

/* Lengths around powers of two. */
static void test_lengths(void **state) {
  (void)state;
  for (int length = 64; length <= 2048; length *= 2)
    for (int more = -1; more <= 1; more++) {
      char line[128];
      snprintf(line, sizeof line, "backward-filter n=2 c=2 w=%d k=2 s=%d pad=%d:0 groups=2", length + more,
               length + more, length + more - 1);
      check(line, 1, 1, "", -1);
      snprintf(line, sizeof line, "backward-filter n=2 c=2 w=%d k=2 s=%d pad=%d:0 groups=2 boundary=wrap",
               length + more, length + more, length + more - 1);
      check(line, 1, 1, "", -1);
    }
}

/* Products that would be subnormal or infinite. */
static void test_numbers_far_from_one(void **state) {
  (void)state;
  static const int exponents[][2] = {{-120, 0}, {-60, -50}, {100, 0}, {100, -120}, {0, -120}, {-100, 120}, {60, 50}};
  for (size_t i = 0; i < sizeof exponents / sizeof *exponents; i++) {
    const double x = ldexp(1, exponents[i][0]), dy = ldexp(1, exponents[i][1]);
    check("backward-filter n=3 c=2 w=300 k=2 s=100 pad=50 groups=2", x, dy, "", -1);
    check("backward-filter n=2 c=2 h=40 w=50 k=2 r=9 s=11 pad=4 groups=2", x, dy, "", -1);
  }
  check("backward-filter n=2 c=2 w=300 k=2 s=100 groups=2 type=f64", ldexp(1, 900), ldexp(1, -1000), "", -1);
}

/* Images whose numbers have other exponents, in sums of their own and in one. */
static void test_images_of_other_magnitudes(void **state) {
  (void)state;
  trial *t = open_trial("backward-filter n=12 c=1 w=3000 k=1 s=65 pad=32", 1, 1);
  for (int64_t i = 0; i < t->input.count; i++) put(&t->input, i, ldexp(at(&t->input, i), (int)(i / 3000) * 10 - 60));
  check_trial(t, "images of other magnitudes", "", -1);
}

/* ---- what is not finite */

static void check_contained(const char *line, double wrong, bool in_x) {
  trial *t = open_trial(line, 1, 1);
  const operand *o = in_x ? &t->input : &t->output;
  for (int i = 0; i < 3; i++) put(o, falt_random_int(&seed, 0, o->count - 1), wrong);
  check_trial(t, line, "", -1);
}

static void test_not_finite_is_contained(void **state) {
  (void)state;
  static const double wrong[] = {NAN, INFINITY, -INFINITY};
  for (int i = 0; i < LAYERS; i++) check_contained(layers[i], wrong[i % 3], true);
  for (int i = 0; i < 3; i++) { /* every tap meets all of dy, and no constant beyond an edge */
    check_contained("backward-filter n=3 c=4 w=300 k=4 s=100 groups=4", wrong[i], false);
    check_contained("backward-filter n=2 c=3 w=256 k=3 s=256 pad=255:0 groups=3 boundary=wrap", wrong[i], false);
  }
}

/* Quadratic work would take minutes. */
static void test_only_nan(void **state) {
  (void)state;
  trial *t = open_trial("backward-filter n=1 c=1 w=1048576 k=1 s=1048576 pad=1048575:0", 1, 1);
  for (int64_t i = 0; i < t->input.count; i++) put(&t->input, i, NAN);
  run(t, "fft-wgrad", "", false, -1);
  for (int64_t i = 0; i < t->filter.count; i++) assert_true(isnan(at(&t->filter, i)));
  close_trial(t);
}

/* ---- planning */

static void test_tiles_fit_the_workspace(void **state) {
  (void)state;
  static const int64_t limits[] = {4000000, 1000000, 200000};
  for (int i = 0; i < 3; i++) {
    check("backward-filter n=2 c=2 w=30000 k=2 s=513 pad=256 groups=2", 1, 1, "", limits[i]);
    check("backward-filter n=2 c=1 w=6000 k=1 s=6000 pad=5999:0", 1, 1, "", limits[i]);
  }
}

static void expect_plan(falt_device *device, const char *line, const char *word) {
  falt_plan *plan;
  char text[512];
  if (falt_plan_create_line(&plan, device, line, NULL) != FALT_OK) fail_msg("%s: %s", line, falt_message());
  falt_plan_print(plan, text, sizeof text);
  if (!strstr(text, word)) fail_msg("%s: by %s", line, text);
  falt_plan_destroy(&plan);
}

static void test_it_is_taken_where_it_pays(void **state) {
  (void)state;
  falt_device *device = device_with("", 2);
  for (int64_t length = 4096; length <= 1 << 20; length *= 4)
    for (int circular = 0; circular < 2; circular++)
      for (int operation = 0; operation < 3; operation++) {
        static const char *const names[] = {"forward", "backward-data", "backward-filter"};
        const long long l = (long long)length;
        char line[192];
        snprintf(line, sizeof line, "%s n=2 c=8 w=%lld k=8 s=%lld pad=%lld:0 groups=8%s", names[operation], l, l, l - 1,
                 circular ? " boundary=wrap" : "");
        expect_plan(device, line, operation == 2 ? "(fft-wgrad" : "(fft ");
      }
  expect_plan(device, "backward-filter n=8 c=64 h=56 w=56 k=64 r=3 s=3 pad=1 groups=64 layout=nhwc", "(depthwise");
  falt_device_destroy(&device);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(test_errors_are_rounding, set_up),
      cmocka_unit_test_setup(test_lengths, set_up),
      cmocka_unit_test_setup(test_numbers_far_from_one, set_up),
      cmocka_unit_test_setup(test_images_of_other_magnitudes, set_up),
      cmocka_unit_test_setup(test_not_finite_is_contained, set_up),
      cmocka_unit_test_setup(test_only_nan, set_up),
      cmocka_unit_test_setup(test_tiles_fit_the_workspace, set_up),
      cmocka_unit_test_setup(test_it_is_taken_where_it_pays, set_up),
  };
  return run_in_directory(tests, sizeof tests / sizeof *tests);
}
