/* Sums of many taps in f32 stay within a few units of their last place by every solver of the GPU. */
#include "../chains.h"

static int failures;

static void judge(void *context, const char *solver, double error) {
  const bool fine = error >= 0 && error <= CHAINS_MOST;
  printf("%s %-22s %5.2f  %s\n", fine ? "ok    " : "FAILED", solver, error, (const char *)context);
  failures += !fine;
}

int main(void) {
  static const float values[][2] = {{1.1F, 0.7F}, {1.37F, 1.91F}};
  falt_device *device = NULL;
  if (falt_device_cuda(&device, NULL) != FALT_OK) {
    fprintf(stderr, "%s\n", falt_message());
    return 3;
  }
  for (int l = 0; l < CHAINS_LINES; l++)
    for (size_t v = 0; v < sizeof values / sizeof *values; v++)
      if (!chains_measure(device, chains_lines[l], values[v][0], values[v][1], judge,
                          (void *)(uintptr_t)chains_lines[l])) {
        fprintf(stderr, "FAILED %s: %s\n", chains_lines[l], falt_message());
        failures++;
      }
  falt_device_destroy(&device);
  printf("chains: %d failed\n", failures);
  return failures != 0;
}
