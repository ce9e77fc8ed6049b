/* running-sums against the reference: random boxes of every dimension, type and boundary, on every instruction set and
 * 1 to 3 threads with equal bits. Integers agree to the bit; what is not finite reaches the windows that hold it, and
 * numbers of very different size do not spoil the sums beside them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "box_sample.h"

enum { COUNT = 400 };

/* ---- one problem */

static void make_sample(sample *s, const char *line, double weight) {
  open_sample(s, line);
  s->weight = weight * (double)falt_problem_depth(&s->problem);
  for (int64_t i = 0; i < falt_tensor_span(&s->problem.filter); i++)
    falt_store(s->taps, s->problem.filter.type, i, weight);
}

/* Integers: to the bit where nothing on the way is a fraction, else one unit, since a tie may fall either way. */
static double tolerance(const sample *s, double expected) {
  const falt_type type = s->problem.output.type;
  const double own = falt_type_is_integer(type) ? 0 : 2 * falt_type_epsilon(type) * fabs(expected);
  const bool whole = falt_type_is_integer(s->problem.input.type);
  if (whole && falt_type_is_integer(s->problem.filter.type)) return own;
  const double accumulator = falt_type_epsilon(s->problem.accumulator == FALT_F64 ? FALT_F64 : FALT_F32);
  return own + 64 * accumulator * (s->scale + fabs(expected)) + (falt_type_is_integer(type) ? 1 : 0);
}

/* ---- random boxes */

static void test_random_boxes(void **state) {
  (void)state;
  const char *text = getenv("FALTUNG_TEST_SEED"), *many = getenv("FALTUNG_TEST_COUNT");
  const uint64_t first = text ? strtoull(text, NULL, 10) : 1, count = many ? strtoull(many, NULL, 10) : COUNT;
  for (uint64_t i = 0; i < count; i++) {
    uint64_t seed = first + i;
    char line[LINE];
    sample s;
    draw_box_line(line, &seed);
    if (falt_random_int(&seed, 0, 4) == 0) add_words(line, " act=clip:-9:90");
    make_sample(&s, line, strstr(line, "weight-type") ? 3 : 0.37);
    set_input(&s, &seed, 1);
    check(&s, "running-sums", tolerance);
    drop_sample(&s);
  }
}

/* ---- large windows, strips and bands */

static void test_large_boxes(void **state) {
  (void)state;
  static const char *const lines[] = {
      "correlate h=40 w=9000 r=7 s=33 boundary=wrap type=u8 weight-type=s32 out-type=s32",
      "correlate h=40 w=9000 r=7 s=33 boundary=wrap",
      "correlate h=300 w=64 r=101 s=5 boundary=reflect101",
      "correlate w=30000 s=1001 boundary=symmetric",
      "correlate w=300 s=1001 boundary=reflect101 type=u16 weight-type=s32 out-type=s32",
      "correlate w=5000 s=40 dilation=3 boundary=edge",
      "correlate h=2000 w=1 r=33 s=1 boundary=wrap",
      "correlate d=40 h=30 w=50 t=9 r=7 s=20 boundary=edge",
      "correlate h=40 w=5000 pixel=3 r=3 s=17 boundary=wrap type=u8",
  };
  uint64_t seed = 3;
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
    sample s;
    make_sample(&s, lines[i], 1);
    set_input(&s, &seed, 1);
    check(&s, "running-sums", tolerance);
    drop_sample(&s);
  }
}

/* ---- what must not spread */

/* One element is not finite, or so large that a difference of sums would lose all others. */
static void test_nothing_spreads(void **state) {
  (void)state;
  static const char *const lines[] = {
      "correlate h=50 w=60 r=7 s=19 boundary=reflect101", "correlate h=50 w=60 r=7 s=19 type=f64 boundary=wrap",
      "correlate w=900 s=33 type=bf16 out-type=f32",      "correlate d=12 h=13 w=50 t=5 r=3 s=34 boundary=edge",
      "correlate h=50 w=60 r=19 s=3 stride=2 type=f16",
  };
  static const double values[] = {NAN, INFINITY, -INFINITY, 30000, 1e30};
  uint64_t seed = 11;
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
    for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
      sample s;
      make_sample(&s, lines[i], 0.25);
      const int64_t count = falt_tensor_span(&s.problem.input);
      set_input(&s, &seed, 0x1p-20); /* the tolerance is that of the small elements */
      for (int times = 0; times < 3; times++)
        falt_store(s.input, s.problem.input.type, falt_random_int(&seed, 0, count - 1), values[k]);
      run(&s, devices[FALT_ISA_PORTABLE][0], "reference", s.expected);
      for (int isa = 0; isa < FALT_ISA_COUNT; isa++) {
        if (!falt_isa_runs((falt_isa)isa)) continue;
        run(&s, devices[isa][0], "running-sums", s.output);
        compare(&s, falt_isa_name((falt_isa)isa), tolerance);
      }
      drop_sample(&s);
    }
}

/* ---- refusals */

static void refuses(const char *line, const float *taps, const char *reason) {
  falt_problem problem;
  falt_budget budget;
  falt_plan *plan = NULL;
  assert_int_equal(falt_problem_parse(&problem, &budget, line), FALT_OK);
  snprintf(budget.method, sizeof budget.method, "running-sums");
  assert_int_not_equal(falt_plan_create(&plan, devices[FALT_ISA_PORTABLE][0], &problem, &budget, taps), FALT_OK);
  if (!strstr(falt_message(), reason)) fail_msg("%s: %s", line, falt_message());
}

static void test_refusals(void **state) {
  (void)state;
  const float even[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1}, other[9] = {1, 1, 1, 1, 2, 1, 1, 1, 1};
  const float none[9] = {NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN};
  refuses("correlate h=9 w=9 r=3 s=3", other, "not equal and finite");
  refuses("correlate h=9 w=9 r=3 s=3", none, "not equal and finite");
  refuses("correlate h=9 w=9 r=3 s=3", NULL, "not known");
  refuses("correlate h=9 w=9 r=3 s=3 dilation=2", even, "apart");
  refuses("correlate w=9 s=1", even, "one tap");
}

/* ---- choice */

/* Whether the planner chooses a solver, on limits that are not this machine's. */
static bool chooses(const char *line, const float *taps, const char *solver) {
  falt_problem problem;
  falt_budget budget;
  falt_plan *plan;
  assert_int_equal(falt_problem_parse(&problem, &budget, line), FALT_OK);
  budget.deterministic = true;
  assert_int_equal(falt_plan_create(&plan, devices[FALT_ISA_PORTABLE][0], &problem, &budget, taps), FALT_OK);
  const bool chosen = strcmp(falt_plan_solver(plan), solver) == 0;
  falt_plan_destroy(&plan);
  return chosen;
}

/* The planner takes it for large boxes and not for small ones. */
static void test_choice(void **state) {
  (void)state;
  static float taps[301 * 301];
  static const float smooth[27] = {1, 2, 1, 2, 4, 2, 1, 2, 1, 2, 4, 2, 4, 8, 4, 2, 4, 2, 1, 2, 1, 2, 4, 2, 1, 2, 1};
  for (int t = 0; t < 301 * 301; t++) taps[t] = 1;
  assert_false(chooses("correlate h=1024 w=1024 r=3 s=3", taps, "running-sums"));
  assert_false(chooses("correlate h=1024 w=1024 r=5 s=5", taps, "running-sums"));
  assert_true(chooses("correlate h=1024 w=1024 r=101 s=101", taps, "running-sums"));
  assert_true(chooses("correlate h=1024 w=1024 r=301 s=301", taps, "running-sums"));
  /* Rows of 64 elements: `separable` pays for each row. */
  assert_true(chooses("correlate d=64 h=64 w=64 t=15 r=15 s=15 type=u8", taps, "running-sums"));
  assert_true(chooses("correlate d=64 h=64 w=64 t=3 r=3 s=3", smooth, "direct"));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_boxes), cmocka_unit_test(test_large_boxes),
                                     cmocka_unit_test(test_nothing_spreads), cmocka_unit_test(test_refusals),
                                     cmocka_unit_test(test_choice)};
  return cmocka_run_group_tests(tests, make_devices, drop_devices);
}
