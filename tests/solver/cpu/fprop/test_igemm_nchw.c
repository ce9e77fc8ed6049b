/* igemm-nchw on every instruction set, by 1 to 3 threads: a sum that rounds to -0 has that sign in every panel, whether
 * the kernel writes the output or its sums pass through the epilogue. */
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

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_negative_zero)};
  return cmocka_run_group_tests(tests, make_devices, drop_devices);
}
