/* Loading NVIDIA's driver, and what its errors mean to somebody who has to do something about them. */
#include "cuda/driver.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/status.h"
#include "core/text.h"

enum { CU_OUT_OF_MEMORY = 2, CU_NO_DEVICE = 100, CU_INVALID_IMAGE = 200, CU_NO_BINARY = 209 };

static falt_cuda_driver table;
static bool loaded;
static char missing[64]; /* the entry point that an old driver lacks */

static void *open_in(const char *directory, size_t length, const char *below, const char *name) {
  char path[PATH_MAX];
  falt_text text = falt_text_over(path, sizeof path);
  falt_text_add(&text, "%.*s%s/%s", (int)length, directory, below, name);
  return text.length < sizeof path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
}

static void *open_along(const char *path, const char *name) {
  void *library = NULL;
  while (!library && path && *path) {
    const size_t length = strcspn(path, ":");
    if (length) library = open_in(path, length, "", name);
    if (length && !library) library = open_in(path, length, "/lib64", name);
    if (length && !library) library = open_in(path, length, "/lib", name);
    path += length + (path[length] == ':');
  }
  return library;
}

void *falt_cuda_open_library(const char *const *names, int count) {
  void *library = NULL;
  for (int i = 0; i < count && !library; i++) library = open_along(getenv("FALTUNG_CUDA_PATH"), names[i]);
  for (int i = 0; i < count && !library; i++) library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
  for (int i = 0; i < count && !library; i++) library = open_along("/usr/local/cuda/lib64", names[i]);
  return library;
}

static void load_once(void) {
  static const char *const names[] = {"libcuda.so.1", "libcuda.so"};
  const struct {
    const char *name;
    void *entry;
  } entries[] = {{"cuInit", &table.init},
                 {"cuDriverGetVersion", &table.version},
                 {"cuGetErrorName", &table.error_name},
                 {"cuGetErrorString", &table.error_text},
                 {"cuDeviceGetCount", &table.device_count},
                 {"cuDeviceGet", &table.device_get},
                 {"cuDeviceGetName", &table.device_name},
                 {"cuDeviceGetAttribute", &table.device_attribute},
                 {"cuDevicePrimaryCtxRetain", &table.primary_retain},
                 {"cuDevicePrimaryCtxRelease_v2", &table.primary_release},
                 {"cuCtxPushCurrent_v2", &table.context_push},
                 {"cuCtxPopCurrent_v2", &table.context_pop},
                 {"cuCtxGetDevice", &table.context_device},
                 {"cuCtxSynchronize", &table.context_synchronize},
                 {"cuStreamSynchronize", &table.stream_synchronize},
                 {"cuModuleLoadData", &table.module_load},
                 {"cuModuleUnload", &table.module_unload},
                 {"cuModuleGetFunction", &table.module_function},
                 {"cuFuncGetAttribute", &table.function_attribute},
                 {"cuFuncSetAttribute", &table.function_set},
                 {"cuLaunchKernel", &table.launch},
                 {"cuMemAlloc_v2", &table.allocate},
                 {"cuMemFree_v2", &table.release},
                 {"cuMemcpyHtoD_v2", &table.copy_in},
                 {"cuMemcpyDtoH_v2", &table.copy_out},
                 {"cuMemcpyDtoDAsync_v2", &table.copy_within}};
  void *library = falt_cuda_open_library(names, 2);
  for (size_t i = 0; library && !missing[0] && i < sizeof entries / sizeof *entries; i++) {
    void *symbol = dlsym(library, entries[i].name);
    memcpy(entries[i].entry, &symbol, sizeof symbol); /* an object pointer becomes a function pointer */
    if (!symbol) strncpy(missing, entries[i].name, sizeof missing - 1);
  }
  loaded = library && !missing[0];
}

falt_status falt_cuda_driver_load(const falt_cuda_driver **driver) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, load_once);
  *driver = &table;
  if (missing[0])
    return falt_fail(FALT_NO_DEVICE, "cuda: the driver (libcuda.so.1) has no %s; install a newer one", missing);
  if (!loaded)
    return falt_fail(FALT_NO_DEVICE, "cuda: libcuda.so.1 was not found; install NVIDIA's driver or use the cpu");
  const int error = table.init(0);
  if (error == CU_NO_DEVICE) return falt_fail(FALT_NO_DEVICE, "cuda: the driver finds no GPU; use the cpu");
  return falt_cuda_check(&table, error, "cuda: the driver does not start");
}

falt_status falt_cuda_check(const falt_cuda_driver *driver, int error, const char *what) {
  const char *name = "unknown error", *text = "no description";
  if (!error) return FALT_OK;
  driver->error_name(error, &name);
  driver->error_text(error, &text);
  if (error == CU_OUT_OF_MEMORY)
    return falt_fail(FALT_NO_MEMORY, "%s: the GPU's memory is full; free some or use a smaller problem", what);
  if (error == CU_INVALID_IMAGE || error == CU_NO_BINARY)
    return falt_fail(FALT_NO_DEVICE, "%s: the driver refuses the kernel (%s); install a newer driver", what, name);
  return falt_fail(FALT_NO_DEVICE, "%s: %s (%s); the device may be lost: make a new one", what, text, name);
}
