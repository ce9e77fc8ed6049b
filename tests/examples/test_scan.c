/* The example's output against one call on the whole image. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "faltung/faltung.h"

#define UNUSED __attribute__((unused))
enum { HEIGHT = 50, WIDTH = 37, CHANNELS = 3, COUNT = HEIGHT * WIDTH * CHANNELS };

static uint8_t image[COUNT], expected[COUNT], result[COUNT + 1];
static const char header[] = "P6\n37 50\n255\n";

static void sharpen(void) {
  static const double sigma[3] = {0, 2, 2};
  falt_kernel kernel;
  falt_options options;
  assert_int_equal(falt_kernel_unsharp(&kernel, 2, sigma, 1, 3), FALT_OK);
  assert_int_equal(falt_kernel_expand(&kernel), FALT_OK);
  falt_options_default(&options);
  for (int axis = 1; axis < 3; axis++) options.axis[axis].boundary[0] = options.axis[axis].boundary[1] = FALT_SYMMETRIC;
  const falt_const_array src = falt_const_image(image, FALT_U8, HEIGHT, WIDTH, CHANNELS, WIDTH * CHANNELS);
  const falt_const_array taps = falt_const_volume(kernel.values, FALT_F64, 1, kernel.size[1], kernel.size[2]);
  const falt_array dst = falt_image(expected, FALT_U8, HEIGHT, WIDTH, CHANNELS, WIDTH * CHANNELS);
  assert_int_equal(falt_correlate(&src, &taps, &dst, &options), FALT_OK);
  falt_kernel_free(&kernel);
}

static void test_image(UNUSED void **state) {
  char folder[] = "/tmp/test_scan_XXXXXX", start[sizeof header];
  falt_random_fill(image, FALT_U8, COUNT, 1);
  sharpen();
  assert_non_null(mkdtemp(folder));
  assert_int_equal(chdir(folder), 0);
  FILE *file = fopen("in.ppm", "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(header, 1, strlen(header), file), strlen(header));
  assert_int_equal(fwrite(image, 1, COUNT, file), COUNT);
  assert_int_equal(fclose(file), 0);
  assert_int_equal(system(FALT_EXAMPLE_SCAN " <in.ppm >out.ppm"), 0);
  file = fopen("out.ppm", "rb");
  assert_non_null(file);
  assert_int_equal(fread(start, 1, strlen(header), file), strlen(header));
  assert_memory_equal(start, header, strlen(header));
  assert_int_equal(fread(result, 1, COUNT + 1, file), COUNT);
  fclose(file);
  for (int i = 0; i < COUNT; i++) /* sums in f32 and f64 may differ where they are rounded */
    if (abs(result[i] - expected[i]) > 1) fail_msg("byte %d: %d instead of %d", i, result[i], expected[i]);
  assert_int_equal(system("head -c 1000 in.ppm >cut.ppm"), 0);
  assert_int_not_equal(system(FALT_EXAMPLE_SCAN " <cut.ppm >out.ppm 2>log"), 0);
  assert_int_not_equal(system(FALT_EXAMPLE_SCAN " <log >out.ppm 2>in.ppm"), 0);
  assert_int_equal(remove("in.ppm") | remove("out.ppm") | remove("cut.ppm") | remove("log") | rmdir(folder), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_image)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
