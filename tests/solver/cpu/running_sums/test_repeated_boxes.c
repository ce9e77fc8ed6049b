/* repeated-boxes against the reference: boxes repeated, of two levels and like Gaussians, along every axis, of every
 * type and boundary, on every instruction set and with equal bits for 1 to 3 threads. What is not finite reaches the
 * windows that hold it and no others. The planner takes it for wide Gaussians of boxes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "box_sample.h"
#include "problem/box_chain.h"

enum { COUNT = 300, MOST_TAPS = 4096 };

/* ---- one problem */

static void make_sample(sample *s, const char *line, const falt_box_chain *chain) {
  static double taps[MOST_TAPS], scratch[MOST_TAPS];
  const int64_t count = falt_box_chain_length(chain);
  open_sample(s, line);
  assert_int_equal(falt_tensor_span(&s->problem.filter), count);
  falt_box_chain_taps(chain, taps, scratch);
  for (int64_t i = 0; i < count; i++) {
    falt_store(s->taps, s->problem.filter.type, i, taps[i]);
    s->weight += fabs(taps[i]);
  }
}

/* Integers: one unit, since a tie may fall either way. */
static double tolerance(const sample *s, double expected) {
  const falt_type type = s->problem.output.type;
  const double own = falt_type_is_integer(type) ? 1 : 2 * falt_type_epsilon(type) * fabs(expected);
  const bool wide = s->problem.accumulator == FALT_F64;
  const double taps = wide && s->problem.filter.type == FALT_F64 ? 0x1p-48 : 0; /* how near chains are to taps */
  return own + (16 * falt_type_epsilon(wide ? FALT_F64 : FALT_F32) + taps) * (s->scale + fabs(expected));
}

/* ---- random chains */

static falt_box_chain draw_chain(uint64_t *seed) {
  falt_box_chain chain = {.inner = falt_random_int(seed, 2, 12), .at_inner = 0.37};
  const int kind = (int)falt_random_int(seed, 0, 3);
  if (kind == 0) {
    assert_true(falt_box_chain_gaussian(&chain, 2 + 6 * falt_random_unit(seed)));
  } else if (kind == 1) {
    chain.outer = chain.inner + 2 * falt_random_int(seed, 1, 9);
    chain.at_outer = 0.11;
  } else {
    chain.count = (int)falt_random_int(seed, 0, FALT_MOST_BOXES);
    for (int i = 0; i < chain.count; i++) chain.size[i] = chain.inner;
    for (int i = 0; i < chain.count; i++) chain.at_inner /= (double)chain.inner;
  }
  return chain;
}

static void draw_line(char line[LINE], int64_t taps, uint64_t *seed) {
  static const char *const boundaries[] = {"constant", "edge", "symmetric", "reflect101", "wrap"};
  static const char *const places[] = {"",          " anchor=0",           " mode=full",
                                       " stride=2", " stride=3 mode=full", " dilation=2"};
  static const char *const types[] = {"u8",  "s8",  "u16", "s16", "s32", "f16 weight-type=f32", "bf16 weight-type=f32",
                                      "f32", "f32", "f64"};
  const int space = (int)falt_random_int(seed, 1, 3), axis = (int)falt_random_int(seed, 3 - space, 2);
  int64_t size[3], tap[3] = {1, 1, 1};
  for (int i = 0; i < 3; i++) size[i] = falt_random_int(seed, 1, i == 2 ? 90 : 20);
  tap[axis] = taps;
  strcpy(line, "correlate");
  if (space > 2) add_words(line, " d=%d t=%d", (int)size[0], (int)tap[0]);
  if (space > 1) add_words(line, " h=%d r=%d", (int)size[1], (int)tap[1]);
  add_words(line, " w=%d s=%d type=%s", (int)size[2], (int)tap[2], types[falt_random_int(seed, 0, 9)]);
  add_words(line, "%s boundary=%s", places[falt_random_int(seed, 0, 5)], boundaries[falt_random_int(seed, 0, 4)]);
  if (falt_random_int(seed, 0, 2) == 0) add_words(line, " pixel=3");
  if (falt_random_int(seed, 0, 2) == 0) add_words(line, " n=2");
  if (falt_random_int(seed, 0, 4) == 0) add_words(line, " alpha=0.5 beta=3 act=clip:-9:90");
  if (falt_random_int(seed, 0, 3) == 0) add_words(line, " value=%d", (int)falt_random_int(seed, -300, 300));
}

static void test_random_chains(void **state) {
  (void)state;
  const char *text = getenv("FALTUNG_TEST_SEED"), *many = getenv("FALTUNG_TEST_COUNT");
  const uint64_t first = text ? strtoull(text, NULL, 10) : 1, count = many ? strtoull(many, NULL, 10) : COUNT;
  for (uint64_t i = 0; i < count; i++) {
    uint64_t seed = first + i;
    char line[LINE];
    sample s;
    const falt_box_chain chain = draw_chain(&seed);
    draw_line(line, falt_box_chain_length(&chain), &seed);
    make_sample(&s, line, &chain);
    set_input(&s, &seed, 1);
    check(&s, "repeated-boxes", tolerance);
    drop_sample(&s);
  }
}

/* ---- long lines, cut into several tasks, and results of more than the caches hold; sigma 0 is a box of 31 */

static void test_long_lines(void **state) {
  (void)state;
  static const struct {
    double sigma;
    const char *taps, *line;
  } cases[] = {
      {20, "s", "w=70000 boundary=symmetric"},
      {20, "s", "w=70000 type=f64 boundary=wrap"},
      {40, "r", "h=9000 w=9 s=1 boundary=wrap"},
      {9.3, "s", "h=70 w=900 r=1 type=u8 pixel=3"},
      {3, "t", "d=40 h=9 w=150 r=1 s=1 boundary=edge"},
      {100, "s", "w=300 boundary=reflect101"},
      {0, "r", "h=1100 w=1024 s=1 value=3"},
      {5, "r", "h=1100 w=1040 s=1 boundary=wrap"},
      {0, "s", "h=1100 w=1024 r=1 boundary=edge"},
      {0, "t", "d=90 h=30 w=432 r=1 s=1 boundary=symmetric"},
  };
  uint64_t seed = 3;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    falt_box_chain chain;
    char line[LINE];
    sample s;
    if (cases[i].sigma > 0)
      assert_true(falt_box_chain_gaussian(&chain, cases[i].sigma));
    else
      chain = (falt_box_chain){.inner = 31, .at_inner = 0.03};
    snprintf(line, sizeof line, "correlate %s %s=%d", cases[i].line, cases[i].taps, (int)falt_box_chain_length(&chain));
    make_sample(&s, line, &chain);
    set_input(&s, &seed, 1);
    check(&s, "repeated-boxes", tolerance);
    drop_sample(&s);
  }
}

/* ---- what must not spread */

static void test_nothing_spreads(void **state) {
  (void)state;
  static const double values[] = {NAN, INFINITY, -INFINITY, 1e30};
  uint64_t seed = 11;
  falt_box_chain chain;
  assert_true(falt_box_chain_gaussian(&chain, 3));
  for (int axis = 1; axis < 3; axis++)
    for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
      char line[LINE] = "correlate";
      const int taps = (int)falt_box_chain_length(&chain);
      sample s;
      add_words(line, " h=80 w=90 r=%d s=%d boundary=reflect101", axis == 1 ? taps : 1, axis == 2 ? taps : 1);
      make_sample(&s, line, &chain);
      set_input(&s, &seed, 0x1p-20); /* the tolerance is that of the small elements */
      for (int times = 0; times < 3; times++)
        falt_store(s.input, s.problem.input.type, falt_random_int(&seed, 0, 80 * 90 - 1), values[k]);
      run(&s, devices[FALT_ISA_PORTABLE][0], "reference", s.expected);
      for (int isa = 0; isa < FALT_ISA_COUNT; isa++) {
        if (!falt_isa_runs((falt_isa)isa)) continue;
        run(&s, devices[isa][0], "repeated-boxes", s.output);
        compare(&s, falt_isa_name((falt_isa)isa), tolerance);
      }
      drop_sample(&s);
    }
}

/* ---- filters of several axes, by passes */

/* Plans `line` for a Gaussian of boxes that comes as factors, on limits that are not this machine's. */
static bool uses_boxes(falt_type type, int64_t size, double sigma) {
  const falt_array image = falt_image(NULL, type, size, size, 1, 0);
  falt_kernel kernel;
  falt_problem problem;
  falt_budget budget;
  falt_plan *plan = NULL;
  char text[1000] = "";
  falt_budget_default(&budget);
  budget.deterministic = true;
  assert_int_equal(falt_kernel_gaussian_fast(&kernel, 2, (const double[3]){sigma, sigma, sigma}), FALT_OK);
  assert_int_equal(falt_kernel_problem(&problem, &image.tensor, &kernel, FALT_F32, type, false, NULL), FALT_OK);
  float *taps = malloc((size_t)kernel.count * sizeof *taps);
  assert_int_equal(falt_kernel_pack(&kernel, FALT_F32, taps), FALT_OK);
  assert_int_equal(falt_plan_create(&plan, devices[FALT_ISA_PORTABLE][0], &problem, &budget, taps), FALT_OK);
  falt_plan_print(plan, text, sizeof text);
  falt_plan_destroy(&plan);
  falt_kernel_free(&kernel);
  free(taps);
  return strstr(text, "(repeated-boxes") != NULL;
}

static void test_choice(void **state) {
  (void)state;
  assert_true(uses_boxes(FALT_F32, 1024, 32));
  assert_true(uses_boxes(FALT_U8, 1024, 32));
  assert_false(uses_boxes(FALT_F32, 1024, 2));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_chains), cmocka_unit_test(test_long_lines),
                                     cmocka_unit_test(test_nothing_spreads), cmocka_unit_test(test_choice)};
  return cmocka_run_group_tests(tests, make_devices, drop_devices);
}
