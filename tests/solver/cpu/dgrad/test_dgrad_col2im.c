/* dgrad-col2im against the reference: strides, pads on either side, gaps between rows of taps, volumes and
 * rows; the filter known or given; every instruction set, and the same bits for 1 to 3 threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/memory.h"
#include "core/random.h"
#include "core/types.h"
#include "faltung/faltung.h"
#include "isa_devices.h"

static const char *const lines[] = {
    "backward-data n=2 c=3 h=30 w=34 k=16 r=7 s=7 pad=3 stride=2 layout=nhwc",
    "backward-data n=1 c=3 h=21 w=19 k=70 r=5 s=4 pad=2x1 layout=nhwc",
    "backward-data n=3 c=5 h=17 w=40 k=9 r=3 s=9 pad=0x4 stride=3x4 layout=nhwc",
    "backward-data n=2 c=4 h=15 w=23 k=33 r=4 s=3 pad=2:0x0:5 stride=1x2 layout=nhwc",
    "backward-data n=1 c=2 h=20 w=31 k=20 r=3 s=5 pad=4x2 stride=2 dilation=3x1 layout=nhwc",
    "backward-data n=2 c=12 h=11 w=13 k=18 r=3 s=3 pad=1 stride=2 layout=nhwc",
    "backward-data n=2 c=1 w=300 k=40 s=16 stride=8 layout=nwc",
    "backward-data n=1 c=3 d=7 h=9 w=12 k=21 t=3 r=2 s=3 pad=1x0x2 stride=2 layout=ndhwc",
    "backward-data n=2 c=3 h=12 w=9 k=30 r=2 s=2 pad=-1:2x2:-1 layout=nhwc",
    "backward-data n=1 c=90 h=6 w=7 k=40 r=3 s=3 pad=1 weight-layout=hwio layout=nhwc", /* several panels */
};

typedef struct sample {
  const char *line;
  falt_problem problem;
  float *dy, *w, *dx, *expected;
  int64_t count; /* elements of dx */
} sample;

static float *numbers(const falt_tensor *t, uint64_t values) {
  const int64_t count = falt_tensor_span(t);
  float *data = falt_alloc((size_t)count * sizeof *data);
  assert_non_null(data);
  for (int64_t i = 0; i < count; i++) data[i] = (float)falt_random_int(&values, -3, 3);
  return data;
}

static void run(const sample *s, falt_device *device, const char *method, bool known, float *dx) {
  falt_budget budget;
  falt_plan *plan;
  falt_budget_default(&budget);
  snprintf(budget.method, sizeof budget.method, "%s", method);
  if (falt_plan_create(&plan, device, &s->problem, &budget, known ? s->w : NULL) != FALT_OK)
    fail_msg("%s: %s", s->line, falt_message());
  const falt_operands o = {.input = dx,
                           .filter = known ? NULL : s->w,
                           .output = s->dy,
                           .workspace = falt_alloc(falt_plan_workspace(plan) + 1)};
  memset(o.workspace, 0xff, falt_plan_workspace(plan));
  memset(dx, 0xff, (size_t)s->count * sizeof *dx);
  assert_int_equal(falt_execute(plan, &o), FALT_OK);
  falt_free(o.workspace);
  falt_plan_destroy(&plan);
}

/* Sums of small whole numbers are exact, so bits are equal. */
static void check(const sample *s, falt_isa isa) {
  for (int i = 0; i < 2 * THREADS; i++) {
    run(s, devices[isa][i / 2], "dgrad-col2im", i % 2, s->dx);
    for (int64_t e = 0; e < s->count; e++)
      if (s->dx[e] != s->expected[e])
        fail_msg("%s on %s, %d threads, filter %s: dx[%lld] is %g instead of %g", s->line, falt_isa_name(isa),
                 i / 2 + 1, i % 2 ? "known" : "given", (long long)e, s->dx[e], s->expected[e]);
  }
}

static void test_values(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
    sample s = {.line = lines[i]};
    if (falt_problem_parse(&s.problem, NULL, lines[i]) != FALT_OK) fail_msg("%s: %s", lines[i], falt_message());
    s.dy = numbers(&s.problem.output, 2 * i + 1);
    s.w = numbers(&s.problem.filter, 2 * i + 2);
    s.dx = numbers(&s.problem.input, 0);
    s.expected = numbers(&s.problem.input, 0);
    s.count = falt_tensor_span(&s.problem.input);
    run(&s, devices[FALT_ISA_PORTABLE][0], "reference", false, s.expected);
    for (int isa = 0; isa < FALT_ISA_COUNT; isa++)
      if (falt_isa_runs((falt_isa)isa)) check(&s, (falt_isa)isa);
    falt_free(s.dy);
    falt_free(s.w);
    falt_free(s.dx);
    falt_free(s.expected);
  }
}

static void test_refusals(void **state) {
  (void)state;
  static const char *const cases[][2] = {
      {"forward n=1 c=3 h=9 w=9 k=8 r=3 s=3 layout=nhwc", "only backward-data"},
      {"backward-data n=1 c=3 h=9 w=9 k=8 r=3 s=3 pad=1 boundary=wrap layout=nhwc", "beyond the boundary"},
      {"backward-data n=1 c=3 h=9 w=9 k=8 r=3 s=1 layout=nhwc", "one tap"},
      {"backward-data n=1 c=3 h=9 w=9 k=8 r=3 s=3 dilation=2 layout=nhwc", "dilated along the width"},
      {"backward-data n=1 c=3 h=9 w=9 k=8 r=3 s=3", "not adjacent"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    falt_problem problem;
    falt_budget budget;
    falt_plan *plan = NULL;
    falt_budget_default(&budget);
    assert_int_equal(falt_problem_parse(&problem, NULL, cases[i][0]), FALT_OK);
    snprintf(budget.method, sizeof budget.method, "dgrad-col2im");
    assert_int_not_equal(falt_plan_create(&plan, devices[FALT_ISA_PORTABLE][0], &problem, &budget, NULL), FALT_OK);
    if (!strstr(falt_message(), cases[i][1])) fail_msg("%s: %s", cases[i][0], falt_message());
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_values), cmocka_unit_test(test_refusals)};
  return cmocka_run_group_tests(tests, make_devices, drop_devices);
}
