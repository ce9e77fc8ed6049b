/* CPU devices of every instruction set that runs here, with 1 to THREADS threads: setup and teardown of a test group.
 * Included once by a test. */
#ifndef FALT_TESTS_ISA_DEVICES_H
#define FALT_TESTS_ISA_DEVICES_H

#include <stdio.h>

#include "core/cpu.h"
#include "faltung/faltung.h"

enum { THREADS = 3 };

static falt_device *devices[FALT_ISA_COUNT][THREADS];

static int make_devices(void **state) {
  (void)state;
  for (int isa = 0; isa < FALT_ISA_COUNT; isa++)
    for (int i = 0; i < THREADS && falt_isa_runs((falt_isa)isa); i++) {
      falt_cpu_options options;
      falt_cpu_options_default(&options);
      options.threads = i + 1;
      snprintf(options.isa, sizeof options.isa, "%s", falt_isa_name((falt_isa)isa));
      if (falt_device_cpu(&devices[isa][i], &options) != FALT_OK) return -1;
    }
  return 0;
}

static int drop_devices(void **state) {
  (void)state;
  for (int isa = 0; isa < FALT_ISA_COUNT; isa++)
    for (int i = 0; i < THREADS; i++) falt_device_destroy(&devices[isa][i]);
  return 0;
}

#endif
