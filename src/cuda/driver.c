/* Loads NVIDIA's driver and turns its errors into a status with a line that says what to do. */
#include "cuda/driver.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/status.h"
#include "core/text.h"

enum { CU_NO_DEVICE = 100 };

static falt_cuda_driver table;
static bool loaded, no_gpu;
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

void *falt_cuda_open_named(const char *variable, const char *const *names, int count) {
  const char *named = getenv(variable);
  return named && *named ? dlopen(named, RTLD_NOW | RTLD_LOCAL) : falt_cuda_open_library(names, count);
}

const char *falt_cuda_find(void *library, const falt_cuda_entry *entries, size_t count) {
  const char *absent = NULL;
  for (size_t i = 0; i < count; i++) {
    void *symbol = dlsym(library, entries[i].name);
    memcpy(entries[i].pointer, &symbol, sizeof symbol); /* an object pointer becomes a function pointer */
    if (!symbol && !absent) absent = entries[i].name;
  }
  return absent;
}

static void load_once(void) {
  static const char *const names[] = {"libcuda.so.1", "libcuda.so"};
  const falt_cuda_entry entries[] = {{"cuInit", &table.init},
                                     {"cuDriverGetVersion", &table.version},
                                     {"cuGetErrorName", &table.error_name},
                                     {"cuGetErrorString", &table.error_text},
                                     {"cuDeviceGetCount", &table.device_count},
                                     {"cuDeviceGet", &table.device_get},
                                     {"cuDeviceGetName", &table.device_name},
                                     {"cuDeviceGetAttribute", &table.device_attribute},
                                     {"cuDevicePrimaryCtxRetain", &table.primary_retain},
                                     {"cuDevicePrimaryCtxRelease_v2", &table.primary_release},
                                     {"cuCtxGetCurrent", &table.context_current},
                                     {"cuCtxPushCurrent_v2", &table.context_push},
                                     {"cuCtxPopCurrent_v2", &table.context_pop},
                                     {"cuCtxGetDevice", &table.context_device},
                                     {"cuCtxSynchronize", &table.context_synchronize},
                                     {"cuStreamCreate", &table.stream_create},
                                     {"cuStreamDestroy_v2", &table.stream_destroy},
                                     {"cuStreamSynchronize", &table.stream_synchronize},
                                     {"cuStreamIsCapturing", &table.stream_captures},
                                     {"cuStreamWaitEvent", &table.stream_follow},
                                     {"cuEventCreate", &table.event_create},
                                     {"cuEventDestroy_v2", &table.event_destroy},
                                     {"cuEventRecord", &table.event_record},
                                     {"cuEventSynchronize", &table.event_synchronize},
                                     {"cuEventElapsedTime", &table.event_elapsed},
                                     {"cuMemHostAlloc", &table.pin},
                                     {"cuMemFreeHost", &table.unpin},
                                     {"cuMemcpyHtoDAsync_v2", &table.send},
                                     {"cuMemcpyDtoHAsync_v2", &table.receive},
                                     {"cuMemGetInfo_v2", &table.room},
                                     {"cuPointerGetAttributes", &table.pointer_facts},
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
                                     {"cuMemcpyDtoDAsync_v2", &table.copy_within},
                                     {"cuLaunchHostFunc", &table.launch_host}};
  const falt_cuda_entry newer[] = {{"cuLaunchKernelEx", &table.launch_by},
                                   {"cuTensorMapEncodeTiled", &table.map_box},
                                   {"cuTensorMapEncodeIm2col", &table.map_pixels}};
  void *library = falt_cuda_open_library(names, 2);
  if (!library) return;
  const char *absent = falt_cuda_find(library, entries, sizeof entries / sizeof *entries);
  falt_cuda_find(library, newer, sizeof newer / sizeof *newer);
  if (absent) strncpy(missing, absent, sizeof missing - 1);
  loaded = !absent;
}

bool falt_cuda_driver_absent(void) {
  return (!loaded && !missing[0]) || no_gpu;
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
  no_gpu = error == CU_NO_DEVICE;
  if (error == CU_NO_DEVICE) return falt_fail(FALT_NO_DEVICE, "cuda: the driver finds no GPU; use the cpu");
  return falt_cuda_check(&table, error, "cuda: the driver does not start");
}

/* The advice for an error. */
typedef struct remedy {
  int error;
  falt_status status;
  const char *text;
} remedy;

static const remedy remedies[] = {
    {1, FALT_INVALID_ARGUMENT, "the driver refuses a value; check that the pointers belong to the device"},
    {2, FALT_NO_MEMORY, "the GPU's memory is full; free some or use a smaller problem"},
    {4, FALT_NO_DEVICE, "the driver is shutting down; use the device before the process ends"},
    {46, FALT_NO_DEVICE, "the GPU is busy or taken by another process; wait or use another"},
    {200, FALT_NO_DEVICE, "the driver refuses the kernel; install a newer driver"},
    {201, FALT_INVALID_ARGUMENT, "the context is not valid; keep it until the device is destroyed"},
    {209, FALT_NO_DEVICE, "the driver has no code for this GPU; install a newer driver or NVRTC"},
    {222, FALT_NO_DEVICE, "the driver is too old for the kernel; install a newer one"},
    {400, FALT_INVALID_ARGUMENT, "a stream does not belong to the device's context; make it there or pass NULL"},
    {709, FALT_INVALID_ARGUMENT, "the context is destroyed; keep it until the device is destroyed"},
    {700, FALT_NO_DEVICE, "a kernel reached memory that is not the device's; the device is lost: make a new process"},
    {802, FALT_NO_DEVICE, "the GPUs' fabric is not ready; start nvidia-fabricmanager"},
    {803, FALT_NO_DEVICE, "the driver's library and its kernel module differ; restart the machine"},
    {804, FALT_NO_DEVICE, "the driver is too old for this library of it; install a newer driver"},
    {900, FALT_INVALID_ARGUMENT, "the stream is being captured and may not be waited for; use falt_execute"},
};

falt_status falt_cuda_check(const falt_cuda_driver *driver, int error, const char *what) {
  const char *name = "unknown error", *text = "no description";
  if (!error) return FALT_OK;
  driver->error_name(error, &name);
  driver->error_text(error, &text);
  for (size_t i = 0; i < sizeof remedies / sizeof *remedies; i++)
    if (remedies[i].error == error) return falt_fail(remedies[i].status, "%s: %s (%s)", what, remedies[i].text, name);
  return falt_fail(FALT_NO_DEVICE, "%s: %s (%s); the device may be lost: make a new process", what, text, name);
}
