/* im2col, which runs only if named: random layers and filters against the reference, with the BLAS that FALTUNG_BLAS
 * names or the machine has; equal bits for any number of threads; refusals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/memory.h"
#include "cpu/blas.h"
#include "problem/problem.h"

enum { PROBLEMS = 1500, MOST_THREADS = 3 };

static falt_device *devices[MOST_THREADS];

static int open_devices(void **state) {
  (void)state;
  for (int t = 0; t < MOST_THREADS; t++) {
    falt_cpu_options options;
    falt_cpu_options_default(&options);
    options.threads = t + 1;
    if (falt_device_cpu(&devices[t], &options) != FALT_OK) return -1;
  }
  return 0;
}

static int close_devices(void **state) {
  (void)state;
  for (int t = 0; t < MOST_THREADS; t++) falt_device_destroy(&devices[t]);
  return 0;
}

static void need_blas(void) {
  if (falt_blas_load()) return;
  print_message("skipped: no BLAS\n");
  skip();
}

typedef struct tally {
  const char *line;
  int runs;
} tally;

static void note(void *context, const falt_verdict *verdict) {
  tally *t = context;
  t->runs++;
  assert_string_equal(verdict->solver, "im2col");
  if (!verdict->ok) fail_msg("error %g, tolerance %g: %s", verdict->max_abs_error, verdict->tolerance, t->line);
}

static bool verify(tally *t, int threads, const char *line, uint64_t seed) {
  falt_problem problem;
  falt_budget budget;
  t->line = line;
  assert_int_equal(falt_problem_parse(&problem, &budget, line), FALT_OK);
  strcpy(budget.method, "im2col");
  const int before = t->runs;
  assert_int_equal(falt_verify(devices[threads - 1], &problem, &budget, seed, note, t), FALT_OK);
  return t->runs > before;
}

static void test_random(void **state) {
  (void)state;
  need_blas();
  tally t = {0};
  for (uint64_t seed = 1; seed <= PROBLEMS; seed++) {
    char line[2048];
    falt_problem_random(seed, line, sizeof line);
    verify(&t, 1 + (int)(seed % MOST_THREADS), line, seed);
  }
  print_message("%d of %d problems\n", t.runs, PROBLEMS);
  assert_true(t.runs > PROBLEMS / 25);
}

/* Several bands, both orders of memory, groups, all that the epilogue may have. */
static void test_layers(void **state) {
  (void)state;
  need_blas();
  static const char *const lines[] = {
      "forward n=3 c=2 h=150 w=140 k=9 r=3 s=4 pad=5 value=2",
      "forward n=2 c=12 h=61 w=57 k=24 r=5 s=4 pad=1x2 groups=2 stride=2x1 boundary=edge layout=nhwc bias=1 act=relu",
      "forward n=1 c=5 h=31 w=27 k=7 r=2 s=3 pad=2 dilation=2x1 scale=1 alpha=0.5 beta=1 act=tanh",
      "forward n=2 c=6 d=7 h=11 w=9 k=10 t=3 r=2 s=3 pad=2 boundary=wrap type=f64 bias=1 act=gelu weight-layout=odhwi",
      "forward n=4 c=3 w=5000 k=5 s=9 pad=4 stride=3 beta=1",
      "forward n=2 c=4 h=1 w=1 k=3 r=1 s=1 layout=nhwc"};
  tally t = {0};
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) assert_true(verify(&t, 1 + (int)i % 3, lines[i], i + 1));
}

static falt_status plan(const char *line, falt_plan **made) {
  falt_problem problem;
  falt_budget budget;
  assert_int_equal(falt_problem_parse(&problem, &budget, line), FALT_OK);
  const falt_status status = falt_plan_create(made, devices[0], &problem, &budget, NULL);
  falt_plan_destroy(made);
  return status;
}

static void test_refusals(void **state) {
  (void)state;
  falt_plan *made = NULL;
  assert_int_equal(plan("backward-data c=1 k=1 w=9 s=3 method=im2col", &made), FALT_NO_SOLVER);
  assert_non_null(strstr(falt_message(), "only forward"));
  assert_int_equal(plan("forward c=1 k=1 w=9 s=3 type=bf16 method=im2col", &made), FALT_NO_SOLVER);
  assert_non_null(strstr(falt_message(), "only f32 and f64"));
  assert_int_equal(plan("forward c=1 k=1 w=9 s=3 residual=1 method=im2col", &made), FALT_NO_SOLVER);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_random), cmocka_unit_test(test_layers),
                                     cmocka_unit_test(test_refusals)};
  return cmocka_run_group_tests(tests, open_devices, close_devices);
}
