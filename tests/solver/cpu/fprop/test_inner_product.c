/* Fully connected layers and others of few outputs: the reference's results to the bit where sums are exact, and the
 * planner's choice. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/random.h"
#include "core/types.h"
#include "faltung/faltung.h"
#include "planner/planner.h"

enum { MOST = 1 << 18 /* bytes of an operand */ };

typedef struct operands {
  _Alignas(64) char input[MOST], filter[MOST], output[MOST], residual[MOST];
  float bias[MOST / 64], scale[MOST / 64];
} operands;

static falt_plan *plan_of(falt_device *device, const char *line, const char *method) {
  falt_problem problem;
  falt_budget budget;
  falt_plan *plan = NULL;
  if (falt_problem_parse(&problem, &budget, line) != FALT_OK) fail_msg("%s: %s", line, falt_message());
  if (method[0]) snprintf(budget.method, sizeof budget.method, "%s", method);
  if (falt_plan_create(&plan, device, &problem, &budget, NULL) != FALT_OK)
    fail_msg("%s: %s: %s", method, line, falt_message());
  return plan;
}

static void run(falt_device *device, const char *line, const char *method, operands *o) {
  falt_plan *plan = plan_of(device, line, method);
  void *workspace = aligned_alloc(64, (falt_plan_workspace(plan) + 64) / 64 * 64);
  const falt_operands list = {.input = o->input,
                              .filter = o->filter,
                              .output = o->output,
                              .bias = o->bias,
                              .scale = o->scale,
                              .residual = strstr(line, "residual") ? o->residual : NULL,
                              .workspace = workspace};
  assert_non_null(workspace);
  if (falt_execute(plan, &list) != FALT_OK) fail_msg("%s: %s: %s", method, line, falt_message());
  free(workspace);
  falt_plan_destroy(&plan);
}

/* Small integers, which every type holds and whose sums every path forms exactly. */
static void fill(void *to, falt_type type, size_t bytes, uint64_t seed) {
  for (size_t i = 0; i < bytes / falt_type_size(type); i++)
    falt_store(to, type, (int64_t)i, (double)falt_random_int(&seed, -1, 1));
}

static void check(falt_device *device, const char *line, falt_type type) {
  static operands found, expected;
  memset(&found, 0, sizeof found);
  fill(found.input, type, MOST, 1);
  fill(found.filter, type, MOST, 2);
  fill(found.residual, type, MOST, 3);
  fill(found.bias, FALT_F32, sizeof found.bias, 4);
  fill(found.scale, FALT_F32, sizeof found.scale, 5);
  expected = found;
  run(device, line, "inner-product", &found);
  run(device, line, "reference", &expected);
  if (memcmp(&found, &expected, sizeof found) != 0) fail_msg("%s: results differ from the reference's", line);
}

static void test_results(void **state) {
  (void)state;
  falt_device *device;
  assert_int_equal(falt_device_cpu(&device, NULL), FALT_OK);
  check(device, "forward n=1 c=300 h=1 w=1 k=129 r=1 s=1 filter=given", FALT_F32);
  check(device, "forward n=4 c=301 h=1 w=1 k=131 r=1 s=1 type=bf16 bias=1 filter=given", FALT_BF16);
  check(device, "forward n=3 c=31 h=5 w=7 k=17 r=5 s=7 type=f16 residual=1 filter=given", FALT_F16);
  check(device, "forward n=1 c=31 h=5 w=7 k=17 r=5 s=7 layout=nhwc scale=1 act=relu filter=given", FALT_F32);
  check(device, "forward n=1 c=6 d=2 h=3 w=4 k=9 t=2 r=3 s=4 pad=0x1x0 boundary=wrap layout=ndhwc filter=given",
        FALT_F32);
  check(device, "forward n=2 c=60 h=1 w=2 k=30 r=1 s=1 groups=3 type=bf16 out-type=f32 filter=given", FALT_BF16);
  check(device, "forward n=1 c=9 h=1 w=3 k=5 r=3 s=3 pad=1:1x0:0 value=2 stride=2 filter=given", FALT_F32);
  falt_device_destroy(&device);
}

/* Filters whose output channels are adjacent, so that columns are read in place. */
static void test_columns(void **state) {
  (void)state;
  falt_device *device;
  assert_int_equal(falt_device_cpu(&device, NULL), FALT_OK);
  check(device, "forward n=1 c=300 h=1 w=1 k=129 r=1 s=1 weight-layout=hwio filter=given", FALT_F32);
  check(device, "forward n=4 c=301 h=1 w=1 k=131 r=1 s=1 weight-layout=hwio type=bf16 bias=1 filter=given", FALT_BF16);
  check(device, "forward n=3 c=31 h=5 w=7 k=17 r=5 s=7 weight-layout=hwio type=f16 residual=1 filter=given", FALT_F16);
  check(device, "forward n=2 c=31 h=5 w=7 k=5 r=5 s=7 layout=nhwc weight-layout=hwio scale=1 act=relu filter=given",
        FALT_F32);
  check(device, "forward n=1 c=7 h=1 w=1 k=9000 r=1 s=1 weight-layout=hwio filter=given", FALT_F32);
  check(device, "forward n=2 c=60 h=1 w=2 k=30 r=1 s=1 groups=3 weight-layout=hwio type=bf16 out-type=f32 filter=given",
        FALT_BF16);
  check(device, "forward n=1 c=9 h=1 w=3 k=5 r=3 s=3 pad=1:1x0:0 value=2 weight-layout=hwio filter=given", FALT_F32);
  falt_device_destroy(&device);
}

/* Equal terms, whose roundings in one chain would all err to the same side, by 5,000 units. */
static void test_long_sums(void **state) {
  (void)state;
  enum { DEPTH = 15000, RESULTS = 4 };
  static operands o;
  falt_device *device;
  float *x = (float *)(void *)o.input, *w = (float *)(void *)o.filter, *y = (float *)(void *)o.output;
  const float third = 1.0F / 3, tenth = 0.1F;
  assert_int_equal(falt_device_cpu(&device, NULL), FALT_OK);
  for (int i = 0; i < DEPTH; i++) x[i] = third;
  for (int i = 0; i < DEPTH * RESULTS; i++) w[i] = tenth;
  run(device, "forward c=15000 h=1 w=1 k=4 r=1 s=1 weight-layout=hwio filter=given", "inner-product", &o);
  for (int k = 0; k < RESULTS; k++) {
    const double exact = (double)third * (double)tenth * DEPTH;
    if (fabs((double)y[k] - exact) > 2e-5 * exact) fail_msg("%.9g instead of %.9g", (double)y[k], exact);
  }
  falt_device_destroy(&device);
}

static void test_choice(void **state) {
  (void)state;
  falt_device *device;
  assert_int_equal(falt_device_cpu(&device, NULL), FALT_OK);
  device->limits.copy_bytes_per_s =
      1e12; /* arithmetic decides: where memory is the limit, all estimates are the same */
  device->limits.cache_bytes_per_s = 2e12;
  falt_plan *plan = plan_of(device, "forward n=1 c=4096 h=1 w=1 k=1000 r=1 s=1 filter=given", "");
  assert_string_equal(falt_plan_solver(plan), "inner-product");
  falt_plan_destroy(&plan);
  falt_device_destroy(&device);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_results), cmocka_unit_test(test_columns),
                                     cmocka_unit_test(test_long_sums), cmocka_unit_test(test_choice)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
