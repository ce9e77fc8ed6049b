/* Blurs an image in a GPU's memory, with one copy to the device and one back. Without a GPU the same calls run on
 * the CPU.
 *
 *     cc gpu_blur.c $(pkg-config --cflags --libs faltung)
 *
 * operands.stream takes your CUstream (or cudaStream_t); NULL is the default stream. Any pointer that kernels can
 * follow is allowed. */
#include <faltung/faltung.h>
#include <stdio.h>
#include <stdlib.h>

enum { HEIGHT = 480, WIDTH = 640, PASSES = 4 };

static void check(falt_status status) {
  if (status == FALT_OK) return;
  fprintf(stderr, "%s: %s\n", falt_status_name(status), falt_message());
  exit(EXIT_FAILURE);
}

static falt_device *open_device(void) {
  falt_device *device;
  if (falt_device_cuda(&device, NULL) == FALT_OK) return device;
  printf("no GPU, the same on the CPU (%s)\n", falt_message());
  check(falt_device_cpu(&device, NULL));
  return device;
}

int main(void) {
  static float image[HEIGHT * WIDTH], row[5] = {1 / 16.f, 4 / 16.f, 6 / 16.f, 4 / 16.f, 1 / 16.f}, taps[5 * 5];
  for (int i = 0; i < 5 * 5; i++) taps[i] = row[i / 5] * row[i % 5];
  image[HEIGHT / 2 * WIDTH + WIDTH / 2] = 1000;

  falt_device *device = open_device();
  falt_plan *plan = NULL;
  check(falt_plan_create_line(&plan, device, "correlate h=480 w=640 r=5 s=5 boundary=symmetric", taps));

  falt_operands operands = {.stream = NULL};
  void *one = NULL, *other = NULL;
  check(falt_device_alloc(device, &one, falt_plan_bytes(plan, "input")));
  check(falt_device_alloc(device, &other, falt_plan_bytes(plan, "output")));
  check(falt_device_alloc(device, &operands.workspace, falt_plan_workspace(plan)));
  check(falt_device_write(device, one, image, sizeof image));
  for (int pass = 0; pass < PASSES; pass++) { /* each is only put on the stream; nobody waits */
    operands.input = pass % 2 ? other : one;
    operands.output = pass % 2 ? one : other;
    check(falt_execute(plan, &operands));
  }
  check(falt_device_synchronize(device)); /* or on your stream, whenever it suits you */
  check(falt_device_read(device, image, operands.output, sizeof image));

  printf("%s: after %d passes of %s the bright pixel is %.2f\n", falt_device_name(device), PASSES,
         falt_plan_solver(plan), (double)image[HEIGHT / 2 * WIDTH + WIDTH / 2]);
  falt_device_free(device, &operands.workspace);
  falt_device_free(device, &other);
  falt_device_free(device, &one);
  falt_plan_destroy(&plan);
  falt_device_destroy(&device);
  return EXIT_SUCCESS;
}
