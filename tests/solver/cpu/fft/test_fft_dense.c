/* The solver fft-dense beside the definition in f64: errors are rounding of the largest input times the sum of |w|; NaN
 * and infinity, of the input or of the filter, reach exactly the outputs that read them; numbers far from one; limits
 * of the workspace; when the planner takes it. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api_fixture.h"
#include "core/cpu.h"
#include "core/random.h"
#include "core/types.h"
#include "problem/problem.h"

static uint64_t seed = 1;

typedef struct operand {
  falt_tensor tensor;
  int64_t count; /* elements, those between others included */
  void *data;
} operand;

typedef struct trial {
  falt_problem problem;
  operand x, w, y;
} trial;

static operand operand_of(const falt_tensor *tensor) {
  operand o = {*tensor, falt_tensor_span(tensor), NULL};
  o.data = calloc((size_t)o.count, falt_type_size(tensor->type));
  assert_non_null(o.data);
  return o;
}

static double at(const operand *o, int64_t i) {
  return falt_load(o->data, o->tensor.type, i);
}

static void put(const operand *o, int64_t i, double value) {
  falt_store(o->data, o->tensor.type, i, value);
}

static trial open_trial(const char *line, double x, double w) {
  trial t = {.problem = parse(line)};
  t.x = operand_of(&t.problem.input);
  t.w = operand_of(&t.problem.filter);
  t.y = operand_of(&t.problem.output);
  for (int64_t i = 0; i < t.x.count; i++) put(&t.x, i, (2 * falt_random_unit(&seed) - 1) * x);
  for (int64_t i = 0; i < t.w.count; i++) put(&t.w, i, (2 * falt_random_unit(&seed) - 1) * w);
  return t;
}

static void close_trial(trial *t) {
  free(t->x.data);
  free(t->w.data);
  free(t->y.data);
}

/* With the filter known or given. */
static void run(const trial *t, const char *method, const char *isa, bool known, int64_t most) {
  falt_device *device = device_with(isa, 2);
  falt_plan *plan;
  falt_budget budget;
  falt_budget_default(&budget);
  budget.max_workspace = most;
  snprintf(budget.method, sizeof budget.method, "%s", method);
  if (falt_plan_create(&plan, device, &t->problem, &budget, known ? t->w.data : NULL) != FALT_OK)
    fail_msg("%s: %s", method, falt_message());
  falt_operands operands = {.input = t->x.data, .filter = known ? NULL : t->w.data, .output = t->y.data};
  operands.workspace = aligned_alloc(64, (falt_plan_workspace(plan) + 64) / 64 * 64);
  assert_true(most < 0 || falt_plan_workspace(plan) <= (size_t)most);
  memset(t->y.data, 0xFF, (size_t)t->y.count * falt_type_size(t->y.tensor.type));
  if (falt_execute(plan, &operands) != FALT_OK) fail_msg("%s: %s", method, falt_message());
  free(operands.workspace);
  falt_plan_destroy(&plan);
  falt_device_destroy(&device);
}

/* The same problem in f64 by its definition. */
static trial expected_of(const trial *t) {
  trial wide = {.problem = t->problem};
  wide.problem.input.type = wide.problem.filter.type = wide.problem.output.type = FALT_F64;
  wide.problem.accumulator = FALT_F64;
  wide.x = operand_of(&wide.problem.input);
  wide.w = operand_of(&wide.problem.filter);
  wide.y = operand_of(&wide.problem.output);
  for (int64_t i = 0; i < t->x.count; i++) put(&wide.x, i, at(&t->x, i));
  for (int64_t i = 0; i < t->w.count; i++) put(&wide.w, i, at(&t->w, i));
  run(&wide, "generic", "", false, -1);
  return wide;
}

static double largest(const operand *o) {
  double found = 0;
  for (int64_t i = 0; i < o->count; i++) found = isfinite(at(o, i)) ? fmax(found, fabs(at(o, i))) : found;
  return found;
}

/* 2 eps log2(points) of the largest input times the magnitudes of an output channel's taps, with room for their
 * differences; and the rounding of narrow results. */
static double tolerance(const trial *t) {
  const double taps = (double)falt_problem_depth(&t->problem);
  const double lane = t->problem.accumulator == FALT_F64 ? 0x1p-53 : 0x1p-24;
  return 2 * (lane * fmax(8, log2(4 * taps)) + falt_type_epsilon(t->y.tensor.type)) * largest(&t->x) * taps *
         largest(&t->w);
}

static void compare(const trial *t, const trial *expected, const char *line) {
  const double most = tolerance(t);
  for (int64_t i = 0; i < t->y.count; i++) {
    const double a = at(&t->y, i), e = at(&expected->y, i);
    const bool same = isnan(e) ? isnan(a) != 0 : isinf(e) ? a == e : fabs(a - e) <= most;
    if (!same) fail_msg("%s: result %lld is %g instead of %g, at most %g away", line, (long long)i, a, e, most);
  }
}

static void check(const char *line, double x, double w, const char *isa, bool known, int64_t most) {
  trial t = open_trial(line, x, w), expected = expected_of(&t);
  run(&t, "fft-dense", isa, known, most);
  compare(&t, &expected, line);
  close_trial(&t);
  close_trial(&expected);
}

static const char *const layers[] = {
    "forward n=3 c=3 w=1000 k=5 s=129 pad=64",
    "forward n=1 c=8 w=700 k=2 s=700 pad=699:0",                             /* causal */
    "forward n=2 c=4 w=256 k=3 s=200 pad=199:0 boundary=wrap",               /* circular */
    "forward n=2 c=3 h=40 w=50 k=4 r=15 s=13 pad=7x6 boundary=reflect101",   /* images */
    "forward n=1 c=2 h=32 w=48 k=3 r=9 s=9 pad=4 boundary=wrap act=relu",    /* circular images */
    "forward n=2 c=3 h=30 w=41 k=4 r=7 s=9 pad=3x4 stride=2x3 dilation=2x1", /* gaps */
    "forward n=2 c=6 h=20 w=90 k=4 groups=2 r=1 s=31 pad=0x15 stride=2x1",   /* rows apart, groups */
    "forward n=1 c=2 d=12 h=20 w=24 k=2 t=5 r=5 s=5 pad=2",                  /* volumes */
    "forward n=2 c=3 h=30 w=40 k=4 r=9 s=9 pad=4 layout=nhwc",
    "forward n=2 c=3 h=30 w=40 k=4 r=9 s=9 pad=4 type=f16",
    "forward n=2 c=1 h=30 w=40 k=4 r=9 s=9 pad=4 type=f64",
};
enum { LAYERS = sizeof layers / sizeof *layers };

static void test_errors_are_rounding(void **state) {
  (void)state;
  for (int isa = 0; isa <= FALT_ISA_AVX512; isa++)
    for (int i = 0; i < LAYERS && falt_isa_runs((falt_isa)isa); i++)
      check(layers[i], 1, 1, falt_isa_name((falt_isa)isa), (i + isa) % 2, -1);
}

static void test_numbers_far_from_one(void **state) {
  (void)state;
  static const int exponents[][2] = {{-120, 0}, {-60, -50}, {100, 0}, {100, -120}, {0, -120}, {-100, 120}, {60, 40}};
  for (size_t i = 0; i < sizeof exponents / sizeof *exponents; i++)
    for (int l = 0; l < 4; l++)
      check(layers[l], ldexp(1, exponents[i][0]), ldexp(1, exponents[i][1]), "", (int)i % 2 == l % 2, -1);
}

/* Input channels whose numbers have other exponents. */
static void test_channels_of_other_magnitudes(void **state) {
  (void)state;
  trial t = open_trial("forward n=2 c=6 w=900 k=3 s=65 pad=32", 1, 1);
  for (int64_t i = 0; i < t.x.count; i++) put(&t.x, i, ldexp(at(&t.x, i), (int)(i / 900) * 10 - 60));
  trial expected = expected_of(&t);
  run(&t, "fft-dense", "", true, -1);
  compare(&t, &expected, "channels of other magnitudes");
  close_trial(&t);
  close_trial(&expected);
}

static void check_contained(const char *line, double wrong, bool in_x, bool known) {
  trial t = open_trial(line, 1, 1);
  const operand *o = in_x ? &t.x : &t.w;
  for (int i = 0; i < 2; i++) put(o, falt_random_int(&seed, 0, o->count - 1), wrong);
  trial expected = expected_of(&t);
  run(&t, "fft-dense", "", known, -1);
  compare(&t, &expected, line);
  close_trial(&t);
  close_trial(&expected);
}

static void test_not_finite_is_contained(void **state) {
  (void)state;
  static const double wrong[] = {NAN, INFINITY, -INFINITY};
  for (int i = 0; i < LAYERS; i++) check_contained(layers[i], wrong[i % 3], true, i % 2);
  for (int i = 0; i < 6; i++) /* no tap meets a constant beyond an edge */
    check_contained(i % 2 ? "forward n=3 c=3 w=600 k=5 s=129" : layers[3], wrong[i / 2], false, i % 2);
}

static void test_tiles_fit_the_workspace(void **state) {
  (void)state;
  static const int64_t limits[] = {8000000, 2000000};
  for (int i = 0; i < 2; i++) check("forward n=2 c=3 h=60 w=70 k=4 r=15 s=13 pad=7x6", 1, 1, "", i, limits[i]);
}

static void test_it_is_taken_where_it_pays(void **state) {
  (void)state;
  static const struct {
    const char *line;
    bool is_fft;
  } cases[] = {{"forward n=1 c=8 w=65536 k=8 s=4097 pad=4096:0", true},
               {"forward n=1 c=3 h=256 w=256 k=8 r=31 s=31 pad=15", true},
               {"forward n=1 c=16 h=128 w=128 k=16 r=15 s=15 pad=7", true},
               {"forward n=1 c=3 h=224 w=224 k=64 r=7 s=7 stride=2 pad=3", false},
               {"forward n=1 c=64 h=56 w=56 k=64 r=3 s=3 pad=1", false},
               {"forward n=1 c=64 h=56 w=56 k=64 r=7 s=7 pad=3", false}};
  falt_device *device = device_with("", 2);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    falt_plan *plan;
    assert_int_equal(falt_plan_create_line(&plan, device, cases[i].line, NULL), FALT_OK);
    if ((strcmp(falt_plan_solver(plan), "fft-dense") == 0) != cases[i].is_fft)
      fail_msg("%s: by %s", cases[i].line, falt_plan_solver(plan));
    falt_plan_destroy(&plan);
  }
  falt_device_destroy(&device);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(test_errors_are_rounding, set_up),
      cmocka_unit_test_setup(test_numbers_far_from_one, set_up),
      cmocka_unit_test_setup(test_channels_of_other_magnitudes, set_up),
      cmocka_unit_test_setup(test_not_finite_is_contained, set_up),
      cmocka_unit_test_setup(test_tiles_fit_the_workspace, set_up),
      cmocka_unit_test_setup(test_it_is_taken_where_it_pays, set_up),
  };
  return run_in_directory(tests, sizeof tests / sizeof *tests);
}
