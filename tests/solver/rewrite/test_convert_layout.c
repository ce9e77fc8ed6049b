/* Tests of convert-layout and pad-channels on a GPU that is described and not present: which of them takes which
 * layouts, and what their plans hold. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "faltung/faltung.h"
#include "planner/backend.h"

#define UNUSED __attribute__((unused))

static falt_device *device;

#define NCHW "forward n=8 c=64 h=28 w=28 k=64 r=3 s=3 pad=1 type=f16"
#define PADDED "forward n=8 c=63 h=28 w=28 k=64 r=3 s=3 pad=1 type=f16 layout=nhwc"

/* Each problem is one solver's, and the other one says why it is not its own. */
static void test_kinds(UNUSED void **state) {
  static const struct {
    const char *line, *method, *begins; /* NULL: refused, for the reason `begins` */
  } cases[] = {
      {NCHW, "convert-layout", "(convert-layout x"},
      {NCHW, "pad-channels", NULL},
      {PADDED, "pad-channels", "(pad-channels x"},
      {PADDED, "convert-layout", NULL},
      {"backward-filter n=8 c=63 h=28 w=28 k=64 r=3 s=3 pad=1 type=f16 layout=nhwc", "pad-channels", "(pad-channels x"},
      {"forward n=8 c=63 h=28 w=28 k=64 r=3 s=3 pad=1 type=f16", "convert-layout", "(convert-layout x"},
      {"forward n=8 c=64 h=28 w=28 k=63 r=3 s=3 pad=1 type=f16 layout=nhwc weight-layout=ohwi", "pad-channels",
       "(pad-channels y"},
      {"forward n=8 c=64 h=28 w=28 k=64 r=3 s=3 pad=1 type=f16 layout=nhwc weight-layout=ohwi", "pad-channels", NULL},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char line[256], text[1024];
    falt_plan *plan = NULL;
    snprintf(line, sizeof line, "%s method=%s", cases[i].line, cases[i].method);
    const falt_status status = falt_plan_create_line(&plan, device, line, NULL);
    if (!cases[i].begins) {
      assert_int_equal(status, FALT_NO_SOLVER);
      continue;
    }
    if (status != FALT_OK) fail_msg("%s: %s", line, falt_message());
    falt_plan_print(plan, text, sizeof text);
    if (strncmp(text, cases[i].begins, strlen(cases[i].begins)) != 0) fail_msg("%s: %s", line, text);
    falt_plan_destroy(&plan);
  }
}

/* Each device has its back end; a CPU has no copies on a stream. */
static void test_backends(UNUSED void **state) {
  falt_device *cpu;
  assert_int_equal(falt_device_cpu(&cpu, NULL), FALT_OK);
  assert_string_equal(falt_backend_of(device)->kind, "cuda");
  assert_string_equal(falt_backend_of(cpu)->kind, "cpu");
  assert_non_null(falt_backend_of(device)->copy);
  assert_null(falt_backend_of(cpu)->copy);
  assert_non_null(falt_backend_of(cpu)->convert);
  falt_device_destroy(&cpu);
}

/* Lines, rows and pitches beyond what a launch numbers are refused when planning. */
static void test_too_large(UNUSED void **state) {
  const falt_backend *b = falt_backend_of(device);
  falt_copy squares = {.bytes = 2, .channel = 49, .lines = {1, 1, 1}, .pixels = 49, .channels = 63, .pitch = 64};
  falt_copy rows = {.bytes = 2, .lines = {1, 1, 1}, .pixels = 49, .channels = 63, .pitch = 64, .pixel = 63, .row = 64};
  assert_true(b->can_copy(&squares) && b->can_copy(&rows));
  squares.lines[0] = squares.lines[1] = 1 << 20;
  assert_false(b->can_copy(&squares));
  squares.lines[0] = INT64_C(1) << 32;
  squares.lines[1] = 1;
  assert_false(b->can_copy(&squares));
  rows.pixel = (INT64_C(1) << 32) + 63;
  assert_false(b->can_copy(&rows));
  rows.pixel = 63;
  rows.pixels = INT64_C(1) << 32;
  assert_false(b->can_copy(&rows));
}

static int set_up(UNUSED void **state) {
  falt_cuda_options options;
  falt_cuda_options_default(&options);
  snprintf(options.described, sizeof options.described, "h200");
  return falt_device_cuda(&device, &options) == FALT_OK ? 0 : -1;
}

static int tear_down(UNUSED void **state) {
  falt_device_destroy(&device);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_kinds), cmocka_unit_test(test_backends),
                                     cmocka_unit_test(test_too_large)};
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
