/* Any text as a kernel: a name or a literal, in one, two and three dimensions. Whatever it is, reading ends, and a
 * kernel that is accepted has finite taps, no more axes than the data, and packs into the type chosen for it. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kernel.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A name may ask for a kernel of many taps, which takes time and finds nothing. */
static bool is_small(const char *text) {
  int digits = 0, longest = 0;
  for (; *text; text++) {
    digits = *text >= '0' && *text <= '9' ? digits + 1 : 0;
    if (digits > longest) longest = digits;
  }
  return longest < 2;
}

static void check_packing(const cli_kernel *kernel, falt_type input) {
  io_error error;
  falt_type type = cli_kernel_type(kernel, input);
  void *weights = cli_kernel_pack(kernel, type, &error);
  if (weights && input == FALT_U8 && type == FALT_S8 && *(const int8_t *)weights != kernel->value[0]) abort();
  free(weights);
}

static void check_kernel(cli_kernel *kernel, int space) {
  io_error error;
  if (cli_kernel_check(kernel, space, &error)) {
    if (space < 3 && kernel->size[0] != 1) abort();
    for (int64_t i = 0; i < cli_kernel_count(kernel); i++) {
      if (!isfinite(kernel->value[i])) abort();
    }
    for (int type = 0; type < FALT_TYPE_COUNT; type++) check_packing(kernel, (falt_type)type);
    cli_kernel_normalize(kernel, &error);
  }
  cli_kernel_free(kernel);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *text = malloc(size + 1);
  if (!text) return 0;
  memcpy(text, data, size);
  text[size] = '\0';
  for (int space = 1; space <= 3; space++) {
    io_error error;
    cli_kernel kernel;
    bool is_name = cli_kernel_is_name(text);
    if (is_name && is_small(text) && cli_kernel_named(text, space, false, &kernel, &error))
      check_kernel(&kernel, space);
    if (!is_name && cli_kernel_literal(text, &kernel, &error)) check_kernel(&kernel, space);
  }
  free(text);
  return 0;
}
