/* Row by row: sharpens an image of any height while it is read, in the memory of a few rows.
 *   cc scan.c $(pkg-config --cflags --libs faltung) -o scan
 *   ./scan <IN.pgm >OUT.pgm     binary PGM or PPM of 8 bits, without comments */
#include <faltung/faltung.h>
#include <stdio.h>
#include <stdlib.h>

enum { LATENCY = 15 }; /* output rows that wait to be computed together */

static void fail(const char *what, const char *why) {
  fprintf(stderr, "scan: %s: %s\n", what, why);
  exit(EXIT_FAILURE);
}

static void check(falt_status status) {
  if (status != FALT_OK) fail(falt_status_name(status), falt_message());
}

/* The details that a Gaussian of sigma 2 takes away, added once more. */
static falt_convolver_rows *make_convolver(falt_device *device, int height, int width, int channels) {
  static const double sigma[3] = {0, 2, 2};
  static float values[64];
  const falt_const_array image = falt_const_image(NULL, FALT_U8, height, width, channels, (int64_t)width * channels);
  falt_convolver_rows *rows;
  falt_convolver_rows_options how;
  falt_problem problem;
  falt_options options;
  falt_kernel kernel;
  falt_options_default(&options);
  for (int axis = 1; axis < 3; axis++) options.axis[axis].boundary[0] = options.axis[axis].boundary[1] = FALT_SYMMETRIC;
  check(falt_kernel_unsharp(&kernel, 2, sigma, 1, 3));
  if (kernel.count > (int64_t)(sizeof values / sizeof *values)) fail("kernel", "too long; use a smaller sigma");
  check(falt_kernel_problem(&problem, &image.tensor, &kernel, FALT_F32, FALT_U8, false, &options));
  check(falt_kernel_pack(&kernel, FALT_F32, values));
  falt_convolver_rows_options_default(&how);
  how.latency = LATENCY;
  check(falt_convolver_rows_create(&rows, device, &problem, &how, values));
  falt_kernel_free(&kernel);
  return rows;
}

static void write_rows(const uint8_t *output, int64_t rows, size_t bytes) {
  if (fwrite(output, bytes, (size_t)rows, stdout) != (size_t)rows) fail("standard output", "cannot be written");
}

int main(void) {
  char kind;
  int width, height, most;
  if (scanf("P%c %d %d %d", &kind, &width, &height, &most) != 4 || getchar() == EOF || (kind != '5' && kind != '6') ||
      width < 1 || height < 1 || most != 255)
    fail("standard input", "no image; give a binary PGM or PPM of 8 bits, without comments");
  const int channels = kind == '6' ? 3 : 1;
  const size_t bytes = (size_t)width * (size_t)channels;
  uint8_t *input = malloc(bytes), *output = malloc((LATENCY + 1) * bytes);
  if (!input || !output) fail("memory", "a row does not fit");
  falt_device *device;
  check(falt_device_cpu(&device, NULL));
  falt_convolver_rows *rows = make_convolver(device, height, width, channels);
  int64_t written;
  printf("P%c\n%d %d\n255\n", kind, width, height);
  for (int row = 0; row < height; row++) {
    if (fread(input, bytes, 1, stdin) != 1) fail("standard input", "ends early");
    check(falt_convolver_rows_push(rows, input, 1, NULL, output, LATENCY + 1, &written));
    write_rows(output, written, bytes);
  }
  do {
    check(falt_convolver_rows_finish(rows, output, LATENCY + 1, &written));
    write_rows(output, written, bytes);
  } while (written > 0);
  if (fflush(stdout) != 0) fail("standard output", "cannot be written");
  falt_convolver_rows_destroy(&rows);
  falt_device_destroy(&device);
  free(input), free(output);
  return EXIT_SUCCESS;
}
