/* A made-up CUDA driver: enough of libcuda for the command to find a GPU whose memory is the host's. FAKE_CUDA names
 * one failure: init, context, memory or launch. Without it, kernels do nothing. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENTRY __attribute__((visibility("default")))

enum { OUT_OF_MEMORY = 2, UNAVAILABLE = 46, MISMATCH = 803, LAUNCH_FAILED = 719 };

static int fails(const char *what, int error) {
  const char *failure = getenv("FAKE_CUDA");
  return failure && strcmp(failure, what) == 0 ? error : 0;
}

ENTRY int cuInit(unsigned flags) {
  (void)flags;
  return fails("init", MISMATCH);
}

ENTRY int cuDriverGetVersion(int *version) {
  *version = 13000;
  return 0;
}

ENTRY int cuGetErrorName(int error, const char **name) {
  (void)error;
  *name = "CUDA_ERROR_FAKE";
  return 0;
}

ENTRY int cuGetErrorString(int error, const char **text) {
  (void)error;
  *text = "a made-up failure";
  return 0;
}

/* ---- one device, one context */

static int context;

ENTRY int cuDeviceGetCount(int *count) {
  *count = 1;
  return 0;
}

ENTRY int cuDeviceGet(int *device, int ordinal) {
  *device = ordinal;
  return 0;
}

ENTRY int cuDeviceGetName(char *name, int length, int device) {
  (void)device;
  snprintf(name, (size_t)length, "made-up GPU");
  return 0;
}

ENTRY int cuDeviceGetAttribute(int *value, int attribute, int device) {
  static const int table[][2] = {{13, 1980000}, {16, 132}, {36, 3201000}, {37, 6144}, {38, 50 << 20}, {75, 9}, {76, 0}};
  (void)device;
  *value = 0;
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (table[i][0] == attribute) *value = table[i][1];
  return 0;
}

ENTRY int cuDevicePrimaryCtxRetain(void **made, int device) {
  (void)device;
  *made = &context;
  return fails("context", UNAVAILABLE);
}

ENTRY int cuDevicePrimaryCtxRelease_v2(int device) {
  (void)device;
  return 0;
}

ENTRY int cuCtxGetCurrent(void **current) {
  *current = &context;
  return 0;
}

ENTRY int cuCtxPushCurrent_v2(void *pushed) {
  (void)pushed;
  return 0;
}

ENTRY int cuCtxPopCurrent_v2(void **popped) {
  *popped = &context;
  return 0;
}

ENTRY int cuCtxGetDevice(int *device) {
  *device = 0;
  return 0;
}

ENTRY int cuCtxSynchronize(void) {
  return 0;
}

/* ---- kernels */

ENTRY int cuModuleLoadData(void **module, const void *image) {
  (void)image;
  *module = &context;
  return 0;
}

ENTRY int cuModuleUnload(void *module) {
  (void)module;
  return 0;
}

ENTRY int cuModuleGetFunction(void **function, void *module, const char *name) {
  (void)module, (void)name;
  *function = &context;
  return 0;
}

ENTRY int cuFuncGetAttribute(int *value, int attribute, void *function) {
  (void)attribute, (void)function;
  *value = 0;
  return 0;
}

ENTRY int cuFuncSetAttribute(void *function, int attribute, int value) {
  (void)function, (void)attribute, (void)value;
  return 0;
}

ENTRY int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                         unsigned shared, void *stream, void **parameters, void **extra) {
  (void)function, (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)stream;
  (void)parameters, (void)extra;
  return fails("launch", LAUNCH_FAILED);
}

/* ---- memory */

static int provide(void **memory, size_t bytes) {
  *memory = aligned_alloc(256, (bytes + 255) / 256 * 256);
  return *memory ? 0 : OUT_OF_MEMORY;
}

ENTRY int cuMemAlloc_v2(unsigned long long *pointer, size_t bytes) {
  void *memory = NULL;
  const int error = fails("memory", OUT_OF_MEMORY) ? OUT_OF_MEMORY : provide(&memory, bytes);
  *pointer = (unsigned long long)(uintptr_t)memory;
  return error;
}

ENTRY int cuMemFree_v2(unsigned long long pointer) {
  free((void *)(uintptr_t)pointer);
  return 0;
}

ENTRY int cuMemHostAlloc(void **memory, size_t bytes, unsigned flags) {
  (void)flags;
  return provide(memory, bytes);
}

ENTRY int cuMemFreeHost(void *memory) {
  free(memory);
  return 0;
}

ENTRY int cuMemGetInfo_v2(size_t *free_bytes, size_t *all_bytes) {
  *free_bytes = *all_bytes = (size_t)1 << 30;
  return 0;
}

ENTRY int cuPointerGetAttributes(unsigned count, int *attributes, void **data, unsigned long long pointer) {
  (void)pointer;
  for (unsigned i = 0; i < count; i++) *(int *)data[i] = attributes[i] == 2 ? 2 : 0; /* memory of device 0 */
  return 0;
}

ENTRY int cuMemcpyHtoD_v2(unsigned long long to, const void *from, size_t bytes) {
  memcpy((void *)(uintptr_t)to, from, bytes);
  return 0;
}

ENTRY int cuMemcpyDtoH_v2(void *to, unsigned long long from, size_t bytes) {
  memcpy(to, (const void *)(uintptr_t)from, bytes);
  return 0;
}

ENTRY int cuMemcpyHtoDAsync_v2(unsigned long long to, const void *from, size_t bytes, void *stream) {
  (void)stream;
  return cuMemcpyHtoD_v2(to, from, bytes);
}

ENTRY int cuMemcpyDtoHAsync_v2(void *to, unsigned long long from, size_t bytes, void *stream) {
  (void)stream;
  return cuMemcpyDtoH_v2(to, from, bytes);
}

ENTRY int cuMemcpyDtoDAsync_v2(unsigned long long to, unsigned long long from, size_t bytes, void *stream) {
  (void)stream;
  return cuMemcpyHtoD_v2(to, (const void *)(uintptr_t)from, bytes);
}

/* ---- streams and events */

ENTRY int cuStreamCreate(void **stream, unsigned flags) {
  (void)flags;
  *stream = &context;
  return 0;
}

ENTRY int cuStreamDestroy_v2(void *stream) {
  (void)stream;
  return 0;
}

ENTRY int cuStreamSynchronize(void *stream) {
  (void)stream;
  return 0;
}

ENTRY int cuStreamIsCapturing(void *stream, int *status) {
  (void)stream;
  *status = 0;
  return 0;
}

ENTRY int cuStreamWaitEvent(void *stream, void *event, unsigned flags) {
  (void)stream, (void)event, (void)flags;
  return 0;
}

ENTRY int cuEventCreate(void **event, unsigned flags) {
  (void)flags;
  *event = &context;
  return 0;
}

ENTRY int cuEventDestroy_v2(void *event) {
  (void)event;
  return 0;
}

ENTRY int cuEventRecord(void *event, void *stream) {
  (void)event, (void)stream;
  return 0;
}

ENTRY int cuEventSynchronize(void *event) {
  (void)event;
  return 0;
}

ENTRY int cuEventElapsedTime(float *milliseconds, void *begin, void *end) {
  (void)begin, (void)end;
  *milliseconds = 1;
  return 0;
}

ENTRY int cuLaunchHostFunc(void *stream, void (*function)(void *context), void *with) {
  (void)stream;
  function(with);
  return 0;
}
