/* One line for the user. */
#include <stdarg.h>
#include <stdio.h>

#include "io/format.h"

bool io_fail(io_error *error, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(error->text, sizeof error->text, format, list);
  va_end(list);
  for (char *c = error->text; *c; c++)
    if ((unsigned char)*c < ' ' || *c == 127) *c = '?'; /* a file's name or header must not break the line */
  return false;
}
