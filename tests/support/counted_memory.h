/* Memory of a device that is the host's, counted: a test's device takes these functions. Included once by a test. */
#ifndef FALT_TESTS_COUNTED_MEMORY_H
#define FALT_TESTS_COUNTED_MEMORY_H

#include <string.h>

#include "api_fixture.h"
#include "core/memory.h"

static int live; /* allocations; of one thread at a time */

/* Filled with NaN, and the largest integers. */
static falt_status allocate(UNUSED falt_device *device, void **memory, size_t bytes) {
  *memory = falt_alloc(bytes);
  live += *memory != NULL;
  if (*memory) memset(*memory, 0xff, bytes);
  return *memory ? FALT_OK : FALT_NO_MEMORY;
}

static void release(UNUSED falt_device *device, void *memory) {
  live -= memory != NULL;
  falt_free(memory);
}

static falt_status copy(UNUSED falt_device *device, void *to, const void *from, size_t bytes) {
  memcpy(to, from, bytes);
  return FALT_OK;
}

#endif
