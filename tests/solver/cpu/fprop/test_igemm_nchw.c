/* igemm-nchw on every instruction set, by 1 to 3 threads: a sum that rounds to -0 has that sign in every panel, whether
 * the kernel writes the output or its sums pass through the epilogue; and a filter that is read in place, its elements
 * adjacent or a stride apart, gives the bits of a packed one. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "isa_devices.h"

enum { C = 4, K = 9, POSITIONS = 3 * 29 };

static void check(falt_device *device) {
  static float input[C * POSITIONS], filter[K * C], output[K * POSITIONS];
  falt_problem problem;
  falt_budget budget;
  falt_plan *plan;
  assert_int_equal(falt_problem_parse(&problem, &budget, "forward n=3 c=4 w=29 k=9 s=1 filter=given method=igemm-nchw"),
                   FALT_OK);
  assert_int_equal(falt_plan_create(&plan, device, &problem, &budget, NULL), FALT_OK);
  for (int i = 0; i < C * POSITIONS; i++) input[i] = 1e-30f;
  for (int i = 0; i < K * C; i++) filter[i] = -1e-30f; /* each product rounds to -0; fused with the sum, it too */
  for (int i = 0; i < K * POSITIONS; i++) output[i] = 1;
  void *workspace = aligned_alloc(64, (falt_plan_workspace(plan) + 64) / 64 * 64);
  assert_non_null(workspace);
  const falt_operands operands = {.input = input, .filter = filter, .output = output, .workspace = workspace};
  assert_int_equal(falt_execute(plan, &operands), FALT_OK);
  for (int i = 0; i < K * POSITIONS; i++)
    if (output[i] != 0 || signbit(output[i]) != signbit(output[0]))
      fail_msg("result %d is %g, the first %g", i, (double)output[i], (double)output[0]);
  free(workspace);
  falt_plan_destroy(&plan);
}

static void test_negative_zero(void **state) {
  (void)state;
  for (int isa = 0; isa < FALT_ISA_COUNT; isa++)
    for (int i = 0; i < THREADS && devices[isa][i]; i++) check(devices[isa][i]);
}

/* ---- filters in place */

enum { DEPTH = 700 /* more than one chain of sums */, ROWS = 37, PIXELS = 5 * 31 };

/* A filter known at planning is packed; one that is given is read where it is. */
static void run(falt_device *device, const char *line, float *input, float *filter, bool known, float *out) {
  falt_problem problem;
  falt_budget budget;
  falt_plan *plan;
  assert_int_equal(falt_problem_parse(&problem, &budget, line), FALT_OK);
  problem.filter_when = known ? FALT_FILTER_KNOWN : FALT_FILTER_GIVEN;
  assert_int_equal(falt_plan_create(&plan, device, &problem, &budget, known ? filter : NULL), FALT_OK);
  void *workspace = aligned_alloc(64, (falt_plan_workspace(plan) + 64) / 64 * 64);
  assert_non_null(workspace);
  const falt_operands operands = {.input = input, .filter = filter, .output = out, .workspace = workspace};
  assert_int_equal(falt_execute(plan, &operands), FALT_OK);
  free(workspace);
  falt_plan_destroy(&plan);
}

static void check_in_place(falt_device *device, const char *line) {
  static float input[DEPTH * PIXELS], filter[ROWS * DEPTH], given[ROWS * PIXELS], known[ROWS * PIXELS];
  for (int i = 0; i < DEPTH * PIXELS; i++) input[i] = (float)(i * 37 % 101 - 50) / 7;
  for (int i = 0; i < ROWS * DEPTH; i++) filter[i] = (float)(i * 53 % 89 - 44) / 9;
  run(device, line, input, filter, false, given);
  run(device, line, input, filter, true, known);
  assert_memory_equal(given, known, sizeof given);
}

static void test_in_place(void **state) {
  static const char *const lines[] = {
      "forward c=700 h=5 w=31 k=37 r=1 s=1 method=igemm-nchw",
      "forward c=700 h=5 w=31 k=37 r=1 s=1 method=igemm-nchw weight-layout=hwio",
      "forward n=5 c=140 w=31 k=37 s=5 pad=2 method=igemm-nchw weight-layout=wio",
      "forward n=5 c=140 w=31 k=37 s=5 pad=2 method=igemm-nchw weight-layout=owi",
  };
  (void)state;
  for (int isa = 0; isa < FALT_ISA_COUNT; isa++)
    for (int i = 0; i < THREADS && devices[isa][i]; i++)
      for (size_t l = 0; l < sizeof lines / sizeof *lines; l++) check_in_place(devices[isa][i], lines[l]);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_negative_zero), cmocka_unit_test(test_in_place)};
  return cmocka_run_group_tests(tests, make_devices, drop_devices);
}
