/* Fixture of the tests of the public functions: a private cache directory, a clean environment, devices. */
#ifndef FALT_TESTS_API_FIXTURE_H
#define FALT_TESTS_API_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "faltung/faltung.h"

#define UNUSED __attribute__((unused))

UNUSED static char directory[] = "/tmp/falt-api-XXXXXX";

UNUSED static int set_up(UNUSED void **state) {
  static const char *const names[] = {"FALTUNG_ISA", "FALTUNG_THREADS", "FALTUNG_DEVICE", "FALTUNG_VERBOSE"};
  for (int i = 0; i < 4; i++) unsetenv(names[i]);
  setenv("FALTUNG_CACHE", directory, 1);
  char command[64];
  snprintf(command, sizeof command, "rm -rf %s/*", directory);
  return system(command);
}

UNUSED static falt_device *device_with(const char *isa, int threads) {
  falt_device *device;
  falt_cpu_options options;
  falt_cpu_options_default(&options);
  options.threads = threads;
  snprintf(options.isa, sizeof options.isa, "%s", isa);
  assert_int_equal(falt_device_cpu(&device, &options), FALT_OK);
  return device;
}

UNUSED static falt_problem parse(const char *line) {
  falt_problem problem;
  if (falt_problem_parse(&problem, NULL, line) != FALT_OK) fail_msg("%s: %s", line, falt_message());
  return problem;
}

UNUSED static void expect_message(const char *word) {
  if (!strstr(falt_message(), word)) fail_msg("no '%s' in '%s'", word, falt_message());
}

UNUSED static int run_in_directory(const struct CMUnitTest *tests, size_t count) {
  if (!mkdtemp(directory)) return 1;
  const int failed = _cmocka_run_group_tests("tests", tests, count, NULL, NULL);
  char command[64];
  snprintf(command, sizeof command, "rm -r %s", directory);
  return system(command) != 0 || failed;
}

#endif
