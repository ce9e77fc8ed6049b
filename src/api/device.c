/* Public entries: devices. */
#include <string.h>

#include "api/pipeline.h"
#include "core/memory.h"
#include "planner/planner.h"

void falt_device_destroy(falt_device **device) {
  if (!device || !*device) return;
  falt_pipeline_destroy(*device);
  (*device)->destroy(*device);
  *device = NULL;
}

void falt_device_limits(const falt_device *device, falt_limits *limits) {
  if (limits) *limits = device ? device->limits : (falt_limits){0};
}

static falt_status check(const falt_device *device) {
  if (device) return FALT_OK;
  return falt_fail(FALT_INVALID_ARGUMENT, "device: NULL; make one with falt_device_cpu or falt_device_cuda");
}

falt_status falt_device_measure(falt_device *device) {
  FALT_TRY(check(device));
  falt_call call;
  falt_call_begin(&call, &device->control, "measure");
  return falt_call_end(&call, device->measure(device));
}

/* ---- interrupting, progress */

void falt_device_interrupt(falt_device *device) {
  if (device) atomic_fetch_or(&device->control.interrupts, 1);
}

void falt_device_resume(falt_device *device) {
  if (!device) return;
  uint32_t count = atomic_load(&device->control.interrupts);
  while (count & 1 && !atomic_compare_exchange_weak(&device->control.interrupts, &count, count + 1)) continue;
}

bool falt_device_interrupted(const falt_device *device) {
  return device && atomic_load(&device->control.interrupts) & 1;
}

void falt_device_progress(falt_device *device, falt_progress progress, void *context) {
  if (!device) return;
  device->control.progress = progress;
  device->control.context = context;
}

const char *falt_device_name(const falt_device *device) {
  return device ? device->name : "";
}

int falt_device_threads(const falt_device *device) {
  return device ? falt_threads_count(device->threads) : 0;
}

/* ---- memory */

falt_status falt_device_alloc(falt_device *device, void **memory, size_t bytes) {
  FALT_TRY(check(device));
  if (!memory) return falt_fail(FALT_INVALID_ARGUMENT, "memory: NULL; pass the address of a pointer");
  *memory = NULL;
  if (device->memory) return device->memory->allocate(device, memory, bytes);
  *memory = falt_alloc(bytes);
  return *memory ? FALT_OK : falt_fail(FALT_NO_MEMORY, "bytes: %zu are not available", bytes);
}

void falt_device_free(falt_device *device, void **memory) {
  if (!device || !memory) return;
  if (device->memory)
    device->memory->release(device, *memory);
  else
    falt_free(*memory);
  *memory = NULL;
}

static falt_status check_copy(const falt_device *device, const void *to, const void *from, size_t bytes) {
  FALT_TRY(check(device));
  if (bytes == 0 || (to && from)) return FALT_OK;
  return falt_fail(FALT_INVALID_ARGUMENT, "%s: NULL; pass the address of %zu bytes", to ? "from" : "to", bytes);
}

falt_status falt_device_write(falt_device *device, void *to, const void *from, size_t bytes) {
  FALT_TRY(check_copy(device, to, from, bytes));
  if (bytes == 0) return FALT_OK;
  if (device->memory) return device->memory->copy_in(device, to, from, bytes);
  memcpy(to, from, bytes);
  return FALT_OK;
}

falt_status falt_device_read(falt_device *device, void *to, const void *from, size_t bytes) {
  FALT_TRY(check_copy(device, to, from, bytes));
  if (bytes == 0) return FALT_OK;
  if (device->memory) return device->memory->copy_out(device, to, from, bytes);
  memcpy(to, from, bytes);
  return FALT_OK;
}

falt_status falt_device_synchronize(falt_device *device) {
  FALT_TRY(check(device));
  return device->memory ? device->memory->synchronize(device) : FALT_OK;
}
