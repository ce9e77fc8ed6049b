/* The directory of a test's files, and checks of error lines, for the tests of readers and writers. */
#ifndef FALT_TESTS_IO_FIXTURE_H
#define FALT_TESTS_IO_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "io/io.h"

#define UNUSED __attribute__((unused))

UNUSED static char directory[] = "/tmp/faltung-io-XXXXXX";

/* A path in the directory, valid until the next call but one. */
UNUSED static const char *in_directory(const char *name) {
  static char path[2][256];
  static int next;
  next ^= 1;
  snprintf(path[next], sizeof path[next], "%s/%s", directory, name);
  return path[next];
}

UNUSED static int set_up(UNUSED void **state) {
  return mkdtemp(directory) ? 0 : -1;
}

UNUSED static int tear_down(UNUSED void **state) {
  return rmdir(directory); /* fails if a test, or a temporary, left a file */
}

/* "NAME: why; what to do" */
UNUSED static void expect_line(const io_error *error, const char *name) {
  const size_t length = strlen(name);
  if (strncmp(error->text, name, length) != 0 || strncmp(error->text + length, ": ", 2) != 0)
    fail_msg("does not begin with \"%s: \": %s", name, error->text);
  if (!strstr(error->text, "; ")) fail_msg("does not say what to do: %s", error->text);
}

#endif
