/* Devices as callers see them. */
#include "planner/planner.h"

void falt_device_destroy(falt_device **device) {
  if (!device || !*device) return;
  (*device)->destroy(*device);
  *device = NULL;
}

void falt_device_limits(const falt_device *device, falt_limits *limits) {
  *limits = device->limits;
}

falt_status falt_device_measure(falt_device *device) {
  if (!device) return falt_fail(FALT_INVALID_ARGUMENT, "device: NULL; make one with falt_device_cpu");
  return device->measure(device);
}

const char *falt_device_name(const falt_device *device) {
  return device->name;
}

int falt_device_threads(const falt_device *device) {
  return falt_threads_count(device->threads);
}
