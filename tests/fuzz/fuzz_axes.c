/* Fuzzes numbers by axis and boundaries: accepted text names axes of the data, and printed boundaries parse to the
 * same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "axes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_numbers(const char *text, int space) {
  enum { NOBODYS = 77 };
  cli_axes axes;
  io_error error;
  int64_t value[3] = {NOBODYS, NOBODYS, NOBODYS};
  if (!cli_axes_parse(text, &axes, &error)) return;
  if (!cli_axes_resolve(&axes, space, "fuzz", value, &error)) return;
  for (int axis = 0; axis < 3 - space; axis++)
    if (axes.count != 1 && value[axis] != NOBODYS) abort();
}

/* Whether the text is accepted. */
static bool check_boundaries(const char *text, cli_dialect dialect, int space) {
  cli_boundaries boundaries, again;
  io_error error;
  char printed[256];
  cli_boundaries_default(dialect, FALT_SAME, &boundaries);
  again = boundaries;
  if (!cli_boundaries_parse(text, dialect, space, &boundaries, &error)) return false;
  cli_boundaries_print(&boundaries, space, printed, sizeof printed);
  if (!cli_boundaries_parse(printed, CLI_DIALECT_NONE, space, &again, &error)) abort();
  for (int axis = 3 - space; axis < 3; axis++)
    for (int side = 0; side < 2; side++)
      if (again.side[axis][side] != boundaries.side[axis][side]) abort();
  return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *text = malloc(size + 1);
  if (!text) return 0;
  memcpy(text, data, size);
  text[size] = '\0';
  const bool has_dialects = strstr(text, "reflect") || strstr(text, "mirror"); /* other words mean the same in all */
  for (int space = 1; space <= 3; space++) {
    check_numbers(text, space);
    if (!check_boundaries(text, CLI_DIALECT_NONE, space) && !has_dialects) continue;
    for (int dialect = 1; dialect < CLI_DIALECT_COUNT; dialect++) check_boundaries(text, (cli_dialect)dialect, space);
  }
  free(text);
  return 0;
}
