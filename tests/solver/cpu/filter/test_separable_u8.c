/* separable-u8 has the bits of the reference for integer taps, the nearest byte for a Gaussian, and leaves other
 * filters alone. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/random.h"
#include "faltung/faltung.h"
#include "method_plan.h"

enum { MOST = 1 << 16, TAPS = 17 * 17 };

static void run(falt_device *device, const char *line, const float *taps, const char *method, uint8_t *input,
                uint8_t *output) {
  falt_plan *plan = plan_of(device, line, taps, method);
  if (!plan) fail_msg("%s: %s: %s", method, line, falt_message());
  void *workspace = aligned_alloc(64, (falt_plan_workspace(plan) + 64) / 64 * 64);
  falt_operands operands = {.input = input, .output = output, .workspace = workspace};
  assert_non_null(workspace);
  assert_int_equal(falt_execute(plan, &operands), FALT_OK);
  free(workspace);
  falt_plan_destroy(&plan);
}

static void fill(uint8_t *input) {
  uint64_t random = 7;
  for (int i = 0; i < MOST; i++) input[i] = (uint8_t)falt_random_int(&random, 0, 255);
}

static void test_integer_taps(void **state) {
  (void)state;
  static const struct {
    const char *line;
    int r, s;
  } cases[] = {
      {"correlate h=70 w=90 r=5 s=5 type=u8 boundary=reflect101", 5, 5},
      {"correlate h=33 w=41 r=4 s=6 pixel=3 type=u8 boundary=edge", 4, 6},
      {"convolve h=7 w=3 r=5 s=9 type=u8 boundary=symmetric", 5, 9},
      {"correlate h=33 w=41 r=3 s=3 pixel=4 type=u8 value=7", 3, 3},
      {"correlate h=33 w=400 r=3 s=5 type=u8 dilation=1x3 boundary=wrap", 3, 5},
      {"correlate d=1 h=33 w=41 t=1 r=3 s=3 pad=-1:1x1x1 type=u8 value=7", 3, 3},
      {"correlate d=1 h=33 w=41 t=1 r=3 s=3 pad=1:-1x1x1 type=u8 boundary=z=edge,y=constant,x=wrap", 3, 3},
  };
  static uint8_t input[MOST], found[MOST], expected[MOST];
  falt_device *device = make_device();
  uint64_t random = 3;
  fill(input);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    float taps[TAPS], along[2][9];
    for (int k = 0; k < 18; k++) along[k / 9][k % 9] = (float)falt_random_int(&random, -2, 3);
    along[0][0] = along[1][0] = 1; /* not all of them zeros */
    for (int k = 0; k < cases[i].r * cases[i].s; k++) taps[k] = along[0][k / cases[i].s] * along[1][k % cases[i].s];
    run(device, cases[i].line, taps, "separable-u8", input, found);
    run(device, cases[i].line, taps, "reference", input, expected);
    if (memcmp(found, expected, MOST) != 0) fail_msg("%s: results differ from the reference's", cases[i].line);
  }
  falt_device_destroy(&device);
}

static void gaussian(float *taps, int size, double sigma) {
  double sum = 0, values[17];
  for (int i = 0; i < size; i++) sum += values[i] = exp(-pow(i - size / 2, 2) / (2 * sigma * sigma));
  for (int i = 0; i < size * size; i++) taps[i] = (float)(values[i / size] * values[i % size] / (sum * sum));
}

/* A byte differs where a sum lies within f32 rounding of the middle between two: about one in ten thousand. */
static void test_gaussian(void **state) {
  (void)state;
  static uint8_t input[MOST], found[MOST], expected[MOST];
  const char *line = "correlate h=120 w=130 pixel=3 r=17 s=17 type=u8 boundary=reflect101";
  float taps[TAPS];
  falt_device *device = make_device();
  int differ = 0;
  fill(input);
  gaussian(taps, 17, 2);
  run(device, line, taps, "separable-u8", input, found);
  run(device, line, taps, "reference", input, expected);
  for (int i = 0; i < MOST; i++) {
    assert_true(abs(found[i] - expected[i]) <= 1);
    differ += found[i] != expected[i];
  }
  assert_true(differ <= 20);
  falt_device_destroy(&device);
}

static void refuses(falt_device *device, const char *line, const float *taps) {
  if (plan_of(device, line, taps, "separable-u8")) fail_msg("%s: is not refused", line);
}

static void test_other_filters(void **state) {
  (void)state;
  float ones[9], taps[9];
  falt_device *device = make_device();
  for (int i = 0; i < 9; i++) taps[i] = ones[i] = 1;
  taps[4] = 2; /* rank 2 */
  refuses(device, "correlate h=8 w=8 r=3 s=3 type=u8", taps);
  refuses(device, "correlate h=8 w=8 r=3 s=3 type=u8", NULL);
  refuses(device, "correlate h=8 w=8 r=3 s=3 type=f32", ones);
  refuses(device, "correlate h=8 w=8 r=3 s=3 type=u8 out-type=s16", ones);
  refuses(device, "correlate h=8 w=8 r=3 s=3 type=u8 stride=2", ones);
  refuses(device, "correlate h=8 w=8 r=3 s=3 pixel=5 type=u8", ones);
  refuses(device, "correlate h=8 w=8 r=1 s=9 type=u8", ones);
  for (int i = 0; i < 9; i++) taps[i] = (float)((i / 3 + 2) * (i % 3 == 0 ? 9973 : 9967)); /* sums above 2^24 */
  refuses(device, "correlate h=8 w=8 r=3 s=3 type=u8", taps);
  falt_device_destroy(&device);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_integer_taps), cmocka_unit_test(test_gaussian),
                                     cmocka_unit_test(test_other_filters)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
