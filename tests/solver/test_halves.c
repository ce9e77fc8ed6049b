/* f16 layers with inputs or weights that are not finite. A matrix unit multiplies f16 as the sum of two bf16, of
 * which one may be zero, and infinity times zero is NaN. The results must still be the reference's. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/random.h"
#include "core/types.h"
#include "faltung/faltung.h"

enum { IMAGE = 9 * 20 * 33, FILTER = 40 * 9 * 33, RESULTS = 9 * 20 * 40 };

static uint16_t input[IMAGE], filter[FILTER], found[RESULTS], wanted[RESULTS];

static void fill(uint16_t *to, int count, uint64_t *state) {
  static const double special[] = {INFINITY, -INFINITY, NAN, 0};
  for (int i = 0; i < count; i++) {
    const bool is_special = falt_random_int(state, 0, count / 4) == 0;
    falt_store(to, FALT_F16, i, is_special ? special[falt_random_int(state, 0, 3)] : 2 * falt_random_unit(state) - 1);
  }
}

/* With the filter at planning or at execution. */
static void run(falt_device *device, const char *line, bool early, uint16_t *output) {
  falt_plan *plan = NULL;
  void *workspace = NULL;
  assert_int_equal(falt_plan_create_line(&plan, device, line, early ? filter : NULL), FALT_OK);
  assert_int_equal(falt_device_alloc(device, &workspace, falt_plan_workspace(plan) + 1), FALT_OK);
  const falt_operands operands = {.input = input, .filter = filter, .output = output, .workspace = workspace};
  assert_int_equal(falt_execute(plan, &operands), FALT_OK);
  falt_device_free(device, &workspace);
  falt_plan_destroy(&plan);
}

static void test_infinities(void **state) {
  (void)state;
  static const char problem[] = "forward n=1 c=33 h=9 w=20 k=40 r=3 s=3 pad=1 type=f16 layout=nhwc method=%s";
  falt_device *device = NULL;
  assert_int_equal(falt_device_cpu(&device, NULL), FALT_OK);
  uint64_t seed = 20261121;
  for (int round = 0; round < 6; round++) {
    char line[200];
    fill(input, IMAGE, &seed);
    fill(filter, FILTER, &seed);
    snprintf(line, sizeof line, problem, "reference");
    run(device, line, false, wanted);
    snprintf(line, sizeof line, problem, "igemm-vnni");
    run(device, line, round % 2, found);
    for (int i = 0; i < RESULTS; i++) {
      const double a = falt_load(found, FALT_F16, i), b = falt_load(wanted, FALT_F16, i);
      assert_true(isfinite(b) ? fabs(a - b) < 0.02 : isnan(b) ? isnan(a) : a == b);
    }
  }
  falt_device_destroy(&device);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_infinities)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
