/* Calls of a convolver of rows: outputs without latency, empty images, refusals, interruption, memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "faltung/faltung.h"

#define UNUSED __attribute__((unused))

static falt_device *device;

/* ---- an image of ones */

enum { HEIGHT = 9, WIDTH = 5 };
static const float ones[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};

static falt_problem parse(const char *line) {
  falt_problem problem;
  if (falt_problem_parse(&problem, NULL, line) != FALT_OK) fail_msg("%s: %s", line, falt_message());
  return problem;
}

static falt_convolver_rows *make(const char *line, bool any_height) {
  falt_convolver_rows *rows;
  falt_convolver_rows_options options;
  const falt_problem problem = parse(line);
  falt_convolver_rows_options_default(&options);
  options.any_height = any_height;
  assert_int_equal(falt_convolver_rows_create(&rows, device, &problem, &options, ones), FALT_OK);
  return rows;
}

/* Without latency each row completes the output row above it. */
static void test_no_latency(UNUSED void **state) {
  float x[WIDTH] = {1, 1, 1, 1, 1}, y[2 * WIDTH];
  falt_convolver_rows *rows = make("correlate h=1 w=5 r=3 s=3 boundary=edge", true);
  int64_t written;
  for (int i = 0; i < 1000; i++) {
    assert_int_equal(falt_convolver_rows_push(rows, x, 1, NULL, y, 2, &written), FALT_OK);
    assert_int_equal(written, i > 0);
    if (i > 0) assert_true(y[0] == 9 && y[4] == 9);
  }
  assert_int_equal(falt_convolver_rows_finish(rows, y, 2, &written), FALT_OK);
  assert_int_equal(written, 1);
  assert_int_equal(falt_convolver_rows_finish(rows, y, 2, &written), FALT_OK);
  assert_int_equal(written, 0);
  falt_convolver_rows_destroy(&rows);
}

/* With it outputs come in groups, and none stays behind. */
static void test_latency(UNUSED void **state) {
  enum { LATENCY = 4 };
  float x[WIDTH] = {1, 1, 1, 1, 1}, y[(LATENCY + 1) * WIDTH];
  const falt_problem problem = parse("correlate h=21 w=5 r=3 s=3 boundary=edge");
  falt_convolver_rows *rows;
  falt_convolver_rows_options options;
  int64_t written, all = 0;
  falt_convolver_rows_options_default(&options);
  options.latency = LATENCY;
  assert_int_equal(falt_convolver_rows_create(&rows, device, &problem, &options, ones), FALT_OK);
  for (int i = 1; i <= 21; i++, all += written) {
    assert_int_equal(falt_convolver_rows_push(rows, x, 1, NULL, y, LATENCY + 1, &written), FALT_OK);
    assert_int_equal(written, (i - 1) % (LATENCY + 1) || i == 1 ? 0 : LATENCY + 1);
  }
  assert_int_equal(all, 20);
  assert_int_equal(falt_convolver_rows_finish(rows, y, LATENCY + 1, &written), FALT_OK);
  assert_int_equal(written, 1);
  falt_convolver_rows_destroy(&rows);
}

/* Of an image whose last rows no output reads: they need no memory, and the last output does not wait. */
static void test_crop(UNUSED void **state) {
  enum { ROWS = 3000, OUTPUTS = 4 };
  static float x[ROWS * WIDTH], y[OUTPUTS * WIDTH];
  const falt_problem problem = parse("correlate h=3000 w=5 r=3 s=3 out=4x5");
  falt_convolver_rows *rows;
  falt_convolver_rows_options options;
  int64_t taken, written;
  falt_convolver_rows_options_default(&options);
  options.latency = 20;
  assert_int_equal(falt_convolver_rows_create(&rows, device, &problem, &options, ones), FALT_OK);
  assert_int_equal(falt_convolver_rows_push(rows, x, 4, NULL, y, OUTPUTS, &written), FALT_OK);
  assert_int_equal(written, 0);
  assert_int_equal(falt_convolver_rows_push(rows, x, ROWS - 4, &taken, y, 1, &written), FALT_OK);
  assert_true(taken < 5 && written == 1);
  assert_int_equal(falt_convolver_rows_push(rows, x, ROWS - 4 - taken, NULL, y, OUTPUTS, &written), FALT_OK);
  assert_int_equal(written, OUTPUTS - 1);
  assert_int_equal(falt_convolver_rows_finish(rows, y, OUTPUTS, &written), FALT_OK);
  assert_int_equal(written, 0);
  falt_convolver_rows_destroy(&rows);
}

static void test_no_rows(UNUSED void **state) {
  static const char *const lines[] = {"correlate h=1 w=5 r=3 s=3 boundary=edge", "correlate h=1 w=5 r=3 s=3",
                                      "forward c=1 k=1 h=1 w=5 r=3 s=3 pad=1"};
  float y[2 * WIDTH];
  for (int i = 0; i < 3; i++) {
    falt_convolver_rows *rows = make(lines[i], true);
    int64_t written = -1;
    assert_int_equal(falt_convolver_rows_push(rows, NULL, 0, NULL, y, 2, &written), FALT_OK);
    assert_int_equal(written, 0);
    assert_int_equal(falt_convolver_rows_finish(rows, y, 2, &written), FALT_OK);
    assert_int_equal(written, 0);
    falt_convolver_rows_destroy(&rows);
  }
}

/* ---- refusals */

static void refuse(const char *line, falt_status status, const char *says) {
  falt_convolver_rows *rows = (void *)&rows;
  const falt_problem problem = parse(line);
  assert_int_equal(falt_convolver_rows_create(&rows, device, &problem, NULL, ones), status);
  assert_null(rows);
  if (!strstr(falt_message(), says)) fail_msg("%s: %s", line, falt_message());
}

static void test_refused_problems(UNUSED void **state) {
  refuse("correlate h=9 w=9 r=3 s=3 boundary=wrap", FALT_INVALID_ARGUMENT, "wrap along the rows' axis needs the last");
  refuse("correlate h=9 w=9 r=3 s=3 boundary=y=edge:wrap", FALT_INVALID_ARGUMENT, "wrap along the rows' axis");
  refuse("forward c=1 k=1 n=2 h=9 w=9 r=3 s=3", FALT_INVALID_ARGUMENT, "batch of 2");
  refuse("forward c=2 h=9 w=9 k=1 r=1 s=3", FALT_INVALID_ARGUMENT, "interleave channels");
  refuse("forward c=1 k=1 h=9 w=9 r=3 s=3 residual=1", FALT_INVALID_ARGUMENT, "residual");
  refuse("forward c=1 k=1 h=9 w=9 r=3 s=3 bias=1", FALT_INVALID_ARGUMENT, "options.bias: NULL");
  refuse("backward-data c=1 k=1 h=9 w=9 r=3 s=3", FALT_INVALID_ARGUMENT, "only forward");
  refuse("maxpool c=1 h=9 w=9 r=3 s=3", FALT_INVALID_ARGUMENT, "only forward");
  refuse("correlate h=9 w=9 r=3 s=3 filter=given", FALT_INVALID_ARGUMENT, "filter=given");
}

static falt_status create_with(falt_convolver_rows_options *options) {
  falt_convolver_rows *rows;
  const falt_problem problem = parse("correlate h=9 w=5 r=3 s=3");
  const falt_status status = falt_convolver_rows_create(&rows, device, &problem, options, ones);
  falt_convolver_rows_destroy(&rows);
  falt_convolver_rows_options_default(options);
  return status;
}

static void test_refused_arguments(UNUSED void **state) {
  falt_convolver_rows_options options;
  falt_convolver_rows *rows = NULL;
  const falt_problem problem = parse("correlate h=9 w=5 r=3 s=3");
  falt_convolver_rows_options_default(NULL);
  falt_convolver_rows_options_default(&options);
  options.reserved[3] = 1;
  assert_int_equal(create_with(&options), FALT_INVALID_ARGUMENT);
  options.latency = -1;
  assert_int_equal(create_with(&options), FALT_INVALID_ARGUMENT);
  options.mode = (falt_mode)3;
  assert_int_equal(create_with(&options), FALT_INVALID_ARGUMENT);
  snprintf(options.budget.method, sizeof options.budget.method, "nobody");
  assert_int_equal(create_with(&options), FALT_INVALID_METHOD);
  assert_int_equal(create_with(&options), FALT_OK);
  assert_int_equal(falt_convolver_rows_create(NULL, device, &problem, NULL, ones), FALT_INVALID_ARGUMENT);
  assert_int_equal(falt_convolver_rows_create(&rows, NULL, &problem, NULL, ones), FALT_INVALID_ARGUMENT);
  assert_int_equal(falt_convolver_rows_create(&rows, device, NULL, NULL, ones), FALT_INVALID_ARGUMENT);
  assert_int_equal(falt_convolver_rows_create(&rows, device, &problem, NULL, NULL), FALT_INVALID_ARGUMENT);
  falt_convolver_rows_reset(NULL);
  falt_convolver_rows_destroy(NULL);
  falt_convolver_rows_destroy(&rows);
}

static void test_refused_calls(UNUSED void **state) {
  static float x[HEIGHT * WIDTH], y[HEIGHT * WIDTH];
  falt_convolver_rows *rows = make("correlate h=9 w=5 r=3 s=3", false);
  int64_t n, taken;
  assert_int_equal(falt_convolver_rows_push(NULL, x, 1, NULL, y, 1, &n), FALT_INVALID_ARGUMENT);
  assert_int_equal(falt_convolver_rows_push(rows, NULL, 1, NULL, y, 1, &n), FALT_INVALID_ARGUMENT);
  assert_int_equal(falt_convolver_rows_push(rows, x, -1, NULL, y, 1, &n), FALT_INVALID_ARGUMENT);
  assert_int_equal(falt_convolver_rows_push(rows, x, 1, NULL, NULL, 1, &n), FALT_INVALID_ARGUMENT);
  assert_int_equal(falt_convolver_rows_push(rows, x, 1, NULL, y, -1, &n), FALT_INVALID_ARGUMENT);
  assert_int_equal(falt_convolver_rows_push(rows, x, 1, NULL, y, 1, NULL), FALT_INVALID_ARGUMENT);
  assert_int_equal(falt_convolver_rows_push(rows, x, 4, NULL, x + WIDTH, 4, &n), FALT_INVALID_ARGUMENT);
  assert_int_equal(falt_convolver_rows_push(rows, x, 10, NULL, y, 9, &n), FALT_INVALID_SIZE);
  assert_int_equal(falt_convolver_rows_push(rows, x, 9, NULL, y, 7, &n), FALT_INVALID_SIZE);
  assert_int_equal(falt_convolver_rows_finish(rows, y, 9, &n), FALT_INVALID_SIZE);
  assert_int_equal(falt_convolver_rows_push(rows, x, 9, &taken, y, 7, &n), FALT_OK); /* refusals took nothing */
  assert_true(taken == 8 && n == 7);
  assert_int_equal(falt_convolver_rows_push(rows, x, 1, NULL, y, 1, &n), FALT_OK);
  assert_int_equal(falt_convolver_rows_push(rows, x, 1, NULL, y, 1, &n), FALT_INVALID_SIZE);
  assert_int_equal(falt_convolver_rows_finish(NULL, y, 1, &n), FALT_INVALID_ARGUMENT);
  assert_int_equal(falt_convolver_rows_finish(rows, NULL, 1, &n), FALT_INVALID_ARGUMENT);
  assert_int_equal(falt_convolver_rows_finish(rows, y, 1, &n), FALT_OK);
  assert_int_equal(n, 1);
  assert_int_equal(falt_convolver_rows_push(rows, x, 0, NULL, y, 1, &n), FALT_INVALID_ARGUMENT); /* ended */
  falt_convolver_rows_destroy(&rows);
}

static void test_interruption(UNUSED void **state) {
  static float x[HEIGHT * WIDTH], y[HEIGHT * WIDTH];
  falt_convolver_rows *rows = make("correlate h=9 w=5 r=3 s=3", false), *other;
  const falt_problem problem = parse("correlate h=9 w=5 r=3 s=3");
  int64_t n;
  assert_int_equal(falt_convolver_rows_push(rows, x, 4, NULL, y, 9, &n), FALT_OK);
  falt_device_interrupt(device);
  assert_int_equal(falt_convolver_rows_push(rows, x, 5, NULL, y, 9, &n), FALT_CANCELLED);
  assert_int_equal(n, 0);
  assert_int_equal(falt_convolver_rows_create(&other, device, &problem, NULL, ones), FALT_CANCELLED);
  assert_null(other);
  falt_device_resume(device);
  assert_int_equal(falt_convolver_rows_push(rows, x, 5, NULL, y, 9, &n), FALT_INVALID_ARGUMENT);
  assert_non_null(strstr(falt_message(), "falt_convolver_rows_reset"));
  falt_convolver_rows_reset(rows);
  assert_int_equal(falt_convolver_rows_push(rows, x, 9, NULL, y, 9, &n), FALT_OK);
  assert_int_equal(n, 8);
  falt_convolver_rows_destroy(&rows);
}

static int make_device(UNUSED void **state) {
  return falt_device_cpu(&device, NULL) != FALT_OK;
}

static int end_device(UNUSED void **state) {
  falt_device_destroy(&device);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_no_latency),
      cmocka_unit_test(test_no_rows),
      cmocka_unit_test(test_crop),
      cmocka_unit_test(test_latency),
      cmocka_unit_test(test_refused_problems),
      cmocka_unit_test(test_refused_arguments),
      cmocka_unit_test(test_refused_calls),
      cmocka_unit_test(test_interruption),
  };
  return cmocka_run_group_tests(tests, make_device, end_device);
}
