/* Fuzzes wisdom, with and without the right head: refused text changes nothing; accepted text is written and read
 * back. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"
#include "planner/wisdom.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static falt_plan *never(const falt_solver *solver, falt_ask *ask) {
  (void)solver;
  return falt_refuse(ask, "it is only a name");
}

static const falt_solver direct = {.name = "direct", .device_kind = "fuzz", .plan = never};
static const falt_solver *const solvers[] = {&direct, NULL};
static const char known[] = "correlate w=9 s=3";

static void count_entry(void *context, const char *line, uint64_t among, const char *solver, double seconds) {
  (void)line, (void)among, (void)solver, (void)seconds;
  ++*(int *)context;
}

static int entries(falt_device *device) {
  int count = 0;
  falt_wisdom_each(device->wisdom, count_entry, &count);
  return count;
}

static void check_round_trip(falt_device *device) {
  size_t length;
  int sections, before = entries(device);
  char *text = falt_wisdom_export(device, solvers, NULL, &length);
  if (!text) abort();
  falt_wisdom_clear(device->wisdom);
  if (falt_wisdom_import(device, solvers, text, length, &sections) != FALT_OK) abort();
  if (sections != 1 || entries(device) != before) abort();
  falt_free(text);
}

static void try_text(falt_device *device, const char *text, size_t length) {
  int sections;
  falt_wisdom_clear(device->wisdom);
  if (!falt_wisdom_learn(device->wisdom, known, 1, "direct", 1e-6)) abort();
  if (falt_wisdom_import(device, solvers, text, length, &sections) == FALT_OK)
    check_round_trip(device);
  else if (entries(device) != 1)
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  falt_device device = {.kind = "fuzz", .name = "fuzz", .model = "none", .wisdom = falt_wisdom_create()};
  size_t head;
  if (!device.wisdom) abort();
  char *header = falt_wisdom_export(&device, solvers, NULL, &head), *text = malloc(head + size);
  if (!header || !text) abort();
  memcpy(text, header, head);
  if (size) memcpy(text + head, data, size);
  try_text(&device, text, head + size);
  try_text(&device, text + head, size);
  falt_free(header);
  free(text);
  falt_wisdom_destroy(device.wisdom);
  return 0;
}
