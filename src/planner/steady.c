/* The device for reproducible plan choices: fixed limits, no wisdom, one thread; see falt_device.steady. */
#include "core/memory.h"
#include "planner/planner.h"

bool falt_device_steady_make(falt_device *device, const falt_limits *limits) {
  falt_device *steady = falt_alloc(sizeof *steady);
  if (!steady) return false;
  *steady = *device;
  steady->limits = *limits;
  steady->wisdom = NULL;
  steady->steady = NULL;
  steady->threads = falt_threads_create(1, NULL, NULL);
  device->steady = steady;
  return steady->threads != NULL;
}

void falt_device_steady_free(falt_device *device) {
  if (!device->steady) return;
  falt_threads_destroy(device->steady->threads);
  falt_free(device->steady);
}
