/* Passes along one axis each, on the CPU's solvers: the GPU's differ in their kernels only. Against the reference. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/memory.h"
#include "core/random.h"
#include "core/types.h"
#include "planner/search.h"
#include "problem/problem.h"

extern const falt_solver falt_solver_separable_passes, falt_solver_direct, falt_solver_generic;
static falt_solver passes;
static const falt_solver *const list[] = {&passes, &falt_solver_direct, &falt_solver_generic, NULL};

/* Taps of rank one: products of three random vectors. */
static void fill_taps(const falt_problem *p, float *w) {
  const int64_t *size = p->filter.size, n[3] = {size[FALT_D], size[FALT_H], size[FALT_W]};
  float factor[3][64];
  for (int a = 0; a < 3; a++) falt_random_fill(factor[a], FALT_F32, n[a], (uint64_t)a + 7);
  for (int64_t i = 0; i < n[0] * n[1] * n[2]; i++)
    w[i] = factor[0][i / n[2] / n[1]] * factor[1][i / n[2] % n[1]] * factor[2][i % n[2]];
}

static void *run(falt_plan *plan, const falt_problem *p, const void *x, const void *w, const void *residual) {
  void *y = falt_alloc((size_t)falt_tensor_span(&p->output) * falt_type_size(p->output.type));
  void *workspace = falt_alloc(falt_plan_workspace(plan) + 1);
  assert_non_null(y);
  assert_non_null(workspace);
  const falt_operands o = {
      .input = (void *)x, .filter = (void *)w, .output = y, .residual = (void *)residual, .workspace = workspace};
  memset(y, 0xff, (size_t)falt_tensor_span(&p->output) * falt_type_size(p->output.type));
  assert_int_equal(falt_execute(plan, &o), FALT_OK);
  falt_free(workspace);
  return y;
}

/* Passes of a plan: what stands in its brackets, not deeper. */
static int count_passes(const falt_plan *plan) {
  char text[1024];
  int count = 0, depth = 0;
  falt_plan_print(plan, text, sizeof text);
  for (const char *at = text; *at; at++) {
    count += *at == '(' && depth == 1;
    depth += (*at == '(') - (*at == ')');
  }
  return count;
}

/* Returns the number of passes. */
static int check(falt_device *device, const char *line, double tolerance) {
  falt_problem p;
  falt_budget budget;
  falt_plan *plan = NULL, *reference = NULL;
  assert_int_equal(falt_problem_parse(&p, NULL, line), FALT_OK);
  const int64_t inputs = falt_tensor_span(&p.input), results = falt_tensor_span(&p.output);
  float *w = falt_alloc((size_t)falt_tensor_span(&p.filter) * sizeof *w);
  void *x = falt_alloc((size_t)inputs * 8), *residual = falt_alloc((size_t)results * 8);
  fill_taps(&p, w);
  falt_random_fill(x, p.input.type, inputs, 1);
  falt_random_fill(residual, p.residual.type, results, 2);
  falt_budget_default(&budget);
  budget.max_error = 1e-6; /* the products are rounded to f32 */
  snprintf(budget.method, sizeof budget.method, "passes");
  if (falt_plan_search(&plan, list, device, &p, &budget, w) != FALT_OK) fail_msg("%s: %s", line, falt_message());
  snprintf(budget.method, sizeof budget.method, "reference");
  assert_int_equal(falt_plan_create(&reference, device, &p, &budget, w), FALT_OK);
  void *y = run(plan, &p, x, w, residual), *expected = run(reference, &p, x, w, residual);
  for (int64_t i = 0; i < results; i++) {
    const double a = falt_load(y, p.output.type, i), b = falt_load(expected, p.output.type, i);
    if (!(fabs(a - b) <= tolerance * (1 + fabs(b))))
      fail_msg("%s: result %lld is %g instead of %g", line, (long long)i, a, b);
  }
  const int count = count_passes(plan);
  falt_plan_destroy(&plan);
  falt_plan_destroy(&reference);
  falt_free(w);
  falt_free(x);
  falt_free(residual);
  falt_free(y);
  falt_free(expected);
  return count;
}

static void test_results(void **state) {
  falt_device *device = NULL;
  (void)state;
  passes = falt_solver_separable_passes;
  passes.name = "passes";
  passes.device_kind = "cpu";
  assert_int_equal(falt_device_cpu(&device, NULL), FALT_OK);
  check(device, "correlate h=70 w=91 r=33 s=17 boundary=symmetric", 1e-4);
  check(device, "correlate h=40 w=91 r=3 s=7 boundary=y=wrap,x=edge", 1e-4);
  check(device, "correlate h=40 w=33 r=5 s=7 boundary=constant=2.5", 1e-4);
  check(device, "correlate h=40 w=33 r=5 s=7 boundary=y=constant:edge,x=reflect101 value=-3", 1e-4);
  check(device, "correlate d=12 h=19 w=33 t=3 r=5 s=7 boundary=z=edge,y=constant,x=wrap value=2", 1e-4);
  check(device, "convolve d=12 h=19 w=33 t=4 r=1 s=5 mode=full", 1e-4);
  check(device, "correlate pixel=3 n=2 h=20 w=31 r=5 s=9 boundary=edge type=u8 out-type=f32", 1e-4);
  check(device, "correlate c=2 h=20 w=31 r=4 s=3 stride=2x3 dilation=3x2 alpha=0.5 beta=2 residual=1", 1e-4);
  check(device, "correlate h=20 w=31 r=9 s=9 boundary=symmetric type=f64 weight-type=f32", 1e-5);
  falt_device_destroy(&device);
}

/* A volume's rows and columns are one pass where that is faster: few taps, whatever the boundaries. */
static void test_pairs(void **state) {
  falt_device *device = NULL;
  (void)state;
  passes = falt_solver_separable_passes;
  passes.name = "passes";
  passes.device_kind = "cpu";
  assert_int_equal(falt_device_cpu(&device, NULL), FALT_OK);
  assert_int_equal(check(device, "correlate d=20 h=40 w=64 t=3 r=2 s=3 boundary=edge", 1e-4), 2);
  assert_int_equal(check(device, "correlate d=20 h=40 w=64 t=5 r=2 s=2 boundary=constant=2.5", 1e-4), 2);
  assert_int_equal(
      check(device, "correlate d=20 h=33 w=64 t=3 r=3 s=2 boundary=z=constant,y=wrap,x=symmetric:constant value=-2",
            1e-4),
      2);
  assert_int_equal(check(device, "convolve d=20 h=40 w=64 t=4 r=3 s=2 mode=full boundary=constant=1", 1e-4), 2);
  assert_int_equal(
      check(device, "correlate d=20 h=40 w=64 t=2 r=3 s=2 stride=1x2x3 dilation=2x3x2 boundary=edge", 1e-4), 2);
  assert_int_equal(
      check(device,
            "correlate pixel=3 n=2 d=9 h=20 w=31 t=3 r=2 s=2 alpha=0.5 beta=2 boundary=wrap type=u8 out-type=f32",
            1e-4),
      2);
  assert_int_equal(
      check(device, "correlate d=12 h=24 w=32 t=3 r=2 s=2 boundary=reflect101 type=f64 weight-type=f32", 1e-5), 2);
  assert_int_equal(check(device, "correlate d=12 h=40 w=64 t=3 r=33 s=31 boundary=symmetric", 1e-4), 3);
  falt_device_destroy(&device);
}

static void refuse(falt_device *device, const char *line, const float *w, const char *why) {
  falt_problem p;
  falt_budget budget;
  falt_plan *plan = NULL;
  falt_budget_default(&budget);
  snprintf(budget.method, sizeof budget.method, "passes");
  assert_int_equal(falt_problem_parse(&p, NULL, line), FALT_OK);
  assert_int_not_equal(falt_plan_search(&plan, list, device, &p, &budget, w), FALT_OK);
  assert_non_null(strstr(falt_message(), why));
}

static void test_refusals(void **state) {
  falt_device *device = NULL;
  const float diagonal[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
  (void)state;
  assert_int_equal(falt_device_cpu(&device, NULL), FALT_OK);
  refuse(device, "correlate h=9 w=9 r=3 s=3", diagonal, "rank is above 1");
  refuse(device, "correlate h=9 w=9 r=3 s=3", NULL, "not known");
  refuse(device, "correlate w=9 s=3", diagonal, "one axis only");
  refuse(device, "correlate h=2 w=11 r=3 s=3 dilation=1000 value=0.5 factors=2", diagonal, "rows beyond the ends");
  falt_device_destroy(&device);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_results), cmocka_unit_test(test_pairs),
                                     cmocka_unit_test(test_refusals)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
