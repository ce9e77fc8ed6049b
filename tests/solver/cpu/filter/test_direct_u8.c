/* direct-u8 has the bits of the reference for taps that it takes, ties included, and leaves others alone. */
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

enum { MOST = 1 << 16 };

static void run(const falt_plan *plan, uint8_t *input, uint8_t *output) {
  void *workspace = aligned_alloc(64, (falt_plan_workspace(plan) + 64) / 64 * 64);
  falt_operands operands = {.input = input, .output = output, .workspace = workspace};
  assert_non_null(workspace);
  assert_int_equal(falt_execute(plan, &operands), FALT_OK);
  free(workspace);
}

/* Whether the machine has kernels at all. */
static bool applies(falt_device *device) {
  const float taps[9] = {1, 2, 1, 2, 4, 2, 1, 2, 1};
  falt_plan *plan = plan_of(device, "correlate h=8 w=8 r=3 s=3 type=u8", taps, "direct-u8");
  const bool found = plan != NULL;
  falt_plan_destroy(&plan);
  return found;
}

static void check(falt_device *device, const char *line, const float *taps, uint8_t *input) {
  static uint8_t found[MOST], expected[MOST];
  falt_plan *fast = plan_of(device, line, taps, "direct-u8"), *slow = plan_of(device, line, taps, "reference");
  if (!fast || !slow) fail_msg("%s: %s", line, falt_message());
  memset(found, 0, sizeof found);
  memset(expected, 0, sizeof expected);
  run(fast, input, found);
  run(slow, input, expected);
  if (memcmp(found, expected, sizeof found) != 0) fail_msg("%s: results differ from the reference's", line);
  falt_plan_destroy(&fast);
  falt_plan_destroy(&slow);
}

static void test_same_bits(void **state) {
  (void)state;
  static const char *const lines[] = {
      "correlate h=70 w=90 r=3 s=3 type=u8 boundary=reflect101",
      "correlate h=70 w=90 r=5 s=5 type=u8 boundary=wrap",
      "correlate h=7 w=3 r=5 s=9 type=u8 boundary=symmetric",
      "correlate h=33 w=41 r=4 s=6 pixel=3 type=u8 boundary=edge",
      "correlate h=33 w=41 r=3 s=3 pixel=4 type=u8 value=7",
      "correlate h=33 w=41 r=3 s=5 type=u8 dilation=1x3 out-type=s16",
      "correlate d=1 h=33 w=41 t=1 r=3 s=3 pad=-1:1x1x1 type=u8 value=7",
      "correlate d=1 h=33 w=41 t=1 r=3 s=3 pad=1:-1x1x1 type=u8 boundary=z=edge,y=constant,x=wrap",
      "convolve w=5000 s=7 type=u8 out-type=f32 boundary=reflect101",
  };
  static const float scales[] = {1, 2, 16, 512};
  static uint8_t input[MOST];
  float taps[128];
  uint64_t random = 5;
  falt_device *device = make_device();
  if (!applies(device)) skip();
  for (int i = 0; i < MOST; i++) input[i] = (uint8_t)falt_random_int(&random, 0, 255);
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
    for (size_t k = 0; k < sizeof scales / sizeof *scales; k++) {
      for (int t = 0; t < 128; t++) taps[t] = (float)falt_random_int(&random, -9, 12) / scales[k];
      check(device, lines[i], taps, input);
    }
  falt_device_destroy(&device);
}

static void test_other_taps(void **state) {
  (void)state;
  static const float other[] = {1.0f / 3, 128, -129, 127.5f, 0x1p-17f, 1e30f};
  float taps[9] = {1, 2, 1, 2, 4, 2, 1, 2, 1};
  falt_device *device = make_device();
  for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
    taps[4] = other[i];
    assert_null(plan_of(device, "correlate h=8 w=8 r=3 s=3 type=u8", taps, "direct-u8"));
  }
  static float large[32 * 32]; /* sums of more than 24 bits, which f32 rounds */
  for (int i = 0; i < 32 * 32; i++) large[i] = 127;
  assert_null(plan_of(device, "correlate h=40 w=40 r=32 s=32 type=u8", large, "direct-u8"));
  taps[4] = 4;
  assert_null(plan_of(device, "correlate h=8 w=8 r=3 s=3 type=u8 value=0.5", taps, "direct-u8"));
  assert_null(plan_of(device, "correlate h=8 w=8 r=3 s=3 type=f32", taps, "direct-u8"));
  assert_null(plan_of(device, "correlate h=8 w=8 r=3 s=3 type=u8", NULL, "direct-u8"));
  falt_device_destroy(&device);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_bits), cmocka_unit_test(test_other_taps)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
