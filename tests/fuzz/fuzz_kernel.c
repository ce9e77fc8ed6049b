/* Any text as a kernel: a name or a literal, in one, two and three dimensions. Whatever it is, reading ends, and a
 * kernel that is accepted has finite taps, no more axes than the data, and packs into the type chosen for it. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kernel.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A number of more than one digit before or behind the point, or with an exponent of 0 or more. */
static bool is_large(const char *at, int digits) {
  const bool exponent = digits > 0 && (*at == 'e' || *at == 'E');
  return digits > 1 || (exponent && at[1] != '-') || strncmp(at, "0x", 2) == 0 || strncmp(at, "0X", 2) == 0;
}

/* A name may ask for a kernel of many taps, such as gaussian:1e-3,9e9, which takes time and finds nothing. */
static bool is_small(const char *text) {
  for (int digits = 0; *text; text++) {
    if (is_large(text, digits)) return false;
    digits = *text >= '0' && *text <= '9' ? digits + 1 : 0;
    if (digits > 1) return false;
  }
  return true;
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
