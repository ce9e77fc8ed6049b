/* The example's output file against sums in f64. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "faltung/faltung.h"

#define UNUSED __attribute__((unused))
enum { SAMPLES = 9001, TAPS = 5000, OUTPUTS = SAMPLES + TAPS - 1 };

static float x[SAMPLES], h[TAPS], y[OUTPUTS + 1];

static void write_file(const char *name, const float *values, size_t count) {
  FILE *file = fopen(name, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(values, sizeof *values, count, file), count);
  assert_int_equal(fclose(file), 0);
}

static void check_outputs(void) {
  for (int n = 0; n < OUTPUTS; n++) {
    double sum = 0;
    for (int j = n < SAMPLES ? 0 : n - SAMPLES + 1; j < TAPS && j <= n; j++) sum += (double)h[j] * (double)x[n - j];
    if (!(fabs(sum - (double)y[n]) <= 1e-3)) fail_msg("sample %d: %g instead of %g", n, (double)y[n], sum);
  }
}

static void test_file(UNUSED void **state) {
  char folder[] = "/tmp/test_reverb_XXXXXX";
  falt_random_fill(x, FALT_F32, SAMPLES, 1);
  falt_random_fill(h, FALT_F32, TAPS, 2);
  assert_non_null(mkdtemp(folder));
  assert_int_equal(chdir(folder), 0);
  write_file("signal", x, SAMPLES);
  write_file("response", h, TAPS);
  assert_int_equal(system(FALT_EXAMPLE_REVERB " signal response output >log"), 0);
  FILE *file = fopen("output", "rb");
  assert_non_null(file);
  assert_int_equal(fread(y, sizeof *y, OUTPUTS + 1, file), OUTPUTS);
  fclose(file);
  check_outputs();
  assert_int_not_equal(system(FALT_EXAMPLE_REVERB " signal missing output 2>log"), 0);
  assert_int_equal(remove("signal") | remove("response") | remove("output") | remove("log") | rmdir(folder), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_file)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
