/* A table of GPUs from their vendor's documentation, behind the driver's entry points. */
#include "cuda/described.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/status.h"
#include "core/text.h"
#include "cuda/machine.h"

enum { OK = 0, INVALID_VALUE = 1, NO_DEVICE = 100, NOT_SUPPORTED = 801 };

/* Clocks are the boost clocks; the memory's is half its transfer rate, as the driver counts. */
typedef struct known_gpu {
  const char *word, *name;
  int major, minor, multiprocessors, clock_mhz, memory_mhz, bus_bits, l2_mib;
} known_gpu;

static const known_gpu known[] = {
    {"h200", "NVIDIA H200", 9, 0, 132, 1980, 3201, 6144, 60},
    {"h100", "NVIDIA H100 80GB HBM3", 9, 0, 132, 1980, 2619, 5120, 50},
    {"h100-pcie", "NVIDIA H100 PCIe", 9, 0, 114, 1755, 1593, 5120, 50},
    {"b200", "NVIDIA B200", 10, 0, 148, 1965, 3996, 8192, 126},
    {"a100", "NVIDIA A100-SXM4-80GB", 8, 0, 108, 1410, 1593, 5120, 40},
    {"a100-40gb", "NVIDIA A100-SXM4-40GB", 8, 0, 108, 1410, 1215, 5120, 40},
    {"a10", "NVIDIA A10", 8, 6, 72, 1695, 6251, 384, 6},
    {"rtx3090", "NVIDIA GeForce RTX 3090", 8, 6, 82, 1695, 9751, 384, 6},
    {"l40s", "NVIDIA L40S", 8, 9, 142, 2520, 9001, 384, 96},
    {"l4", "NVIDIA L4", 8, 9, 58, 2040, 6251, 192, 48},
    {"rtx4090", "NVIDIA GeForce RTX 4090", 8, 9, 128, 2520, 10501, 384, 72},
    {"rtx5090", "NVIDIA GeForce RTX 5090", 12, 0, 170, 2407, 14001, 512, 96},
    {"t4", "Tesla T4", 7, 5, 40, 1590, 5001, 256, 4},
    {"v100", "Tesla V100-SXM2-16GB", 7, 0, 80, 1530, 877, 4096, 6},
};
enum { KNOWN = sizeof known / sizeof *known };

/* ---- finding */

static bool is_called(const known_gpu *gpu, const char *name) {
  char *end;
  if (strcmp(gpu->word, name) == 0) return true;
  if (strncmp(name, "sm_", 3) != 0) return false;
  const long number = strtol(name + 3, &end, 10);
  return number == gpu->major * 10 + gpu->minor && (!*end || (strcmp(end, "a") == 0 && gpu->major >= 9));
}

falt_status falt_cuda_described_find(const char *name, int *ordinal) {
  char list[256];
  falt_text text = falt_text_over(list, sizeof list);
  for (*ordinal = 0; *ordinal < KNOWN; ++*ordinal) {
    const known_gpu *gpu = &known[*ordinal];
    if (is_called(gpu, name)) return FALT_OK;
    falt_text_add(&text, "%s%s", *ordinal ? ", " : "", gpu->word);
  }
  return falt_fail(FALT_INVALID_ARGUMENT,
                   "options.described: no GPU is known as '%.40s'; use %s, or an architecture of theirs such as sm_90a",
                   name, list);
}

/* ---- entry points: queries of planning are answered, executions fail */

static int init(unsigned flags) {
  return flags ? INVALID_VALUE : OK;
}

static int version(int *number) {
  *number = 13000;
  return OK;
}

static int error_name(int error, const char **name) {
  *name = error == NOT_SUPPORTED ? "not supported" : "invalid value";
  return OK;
}

static int error_text(int error, const char **text) {
  *text = error == NOT_SUPPORTED ? "the GPU is described, not present" : "more than the described GPU has";
  return OK;
}

static int device_count(int *count) {
  *count = KNOWN;
  return OK;
}

static int device_get(int *device, int ordinal) {
  *device = ordinal;
  return ordinal >= 0 && ordinal < KNOWN ? OK : NO_DEVICE;
}

static int device_name(char *name, int length, int device) {
  snprintf(name, (size_t)length, "%s", known[device].name);
  return OK;
}

static int device_attribute(int *value, int attribute, int device) {
  const known_gpu *gpu = &known[device];
  const struct {
    int attribute, value;
  } facts[] = {{FALT_CU_CLOCK_KHZ, gpu->clock_mhz * 1000},
               {FALT_CU_MULTIPROCESSORS, gpu->multiprocessors},
               {FALT_CU_MEMORY_CLOCK_KHZ, gpu->memory_mhz * 1000},
               {FALT_CU_MEMORY_BUS_BITS, gpu->bus_bits},
               {FALT_CU_L2_BYTES, gpu->l2_mib << 20},
               {FALT_CU_MAJOR, gpu->major},
               {FALT_CU_MINOR, gpu->minor}};
  for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
    if (facts[i].attribute != attribute) continue;
    *value = facts[i].value;
    return OK;
  }
  return INVALID_VALUE;
}

/* A context is its device's entry in the table; so is a module, and a function. */
static int primary_retain(falt_cu_context *context, int device) {
  *context = (falt_cu_context)(uintptr_t)&known[device];
  return OK;
}

static int primary_release(int device) {
  (void)device;
  return OK;
}

static _Thread_local falt_cu_context current;

static int context_current(falt_cu_context *context) {
  *context = current;
  return OK;
}

static int context_push(falt_cu_context context) {
  current = context;
  return OK;
}

static int context_pop(falt_cu_context *context) {
  *context = current;
  current = NULL;
  return OK;
}

static int context_synchronize(void) {
  return NOT_SUPPORTED;
}

static int module_load(falt_cu_module *module, const void *image) {
  (void)image;
  *module = (falt_cu_module)(void *)current;
  return OK;
}

static int module_unload(falt_cu_module module) {
  (void)module;
  return OK;
}

static int module_function(falt_cu_function *function, falt_cu_module module, const char *name) {
  (void)name;
  *function = (falt_cu_function)(void *)module;
  return OK;
}

static int function_set(falt_cu_function function, int attribute, int value) {
  const known_gpu *gpu = (const known_gpu *)(const void *)function;
  const int limit = falt_architecture_of(gpu->major, gpu->minor)->block_shared;
  return attribute != FALT_CU_FUNCTION_SHARED_BYTES || value <= limit ? OK : INVALID_VALUE;
}

static int launch(falt_cu_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                  unsigned block_y, unsigned block_z, unsigned shared_bytes, falt_cu_stream stream, void **parameters,
                  void **extra) {
  (void)function, (void)grid_x, (void)grid_y, (void)grid_z, (void)block_x, (void)block_y, (void)block_z;
  (void)shared_bytes, (void)stream, (void)parameters, (void)extra;
  return NOT_SUPPORTED;
}

static int allocate(falt_cu_pointer *pointer, size_t bytes) {
  *pointer = (falt_cu_pointer)1 << 40; /* nobody looks there */
  return bytes ? OK : INVALID_VALUE;
}

static int release(falt_cu_pointer pointer) {
  (void)pointer;
  return OK;
}

static int copy_in(falt_cu_pointer to, const void *from, size_t bytes) {
  (void)to, (void)from, (void)bytes;
  return OK;
}

static int send(falt_cu_pointer to, const void *from, size_t bytes, falt_cu_stream stream) {
  (void)stream;
  return copy_in(to, from, bytes);
}

static int stream_synchronize(falt_cu_stream stream) {
  (void)stream;
  return OK;
}

static int pointer_facts(unsigned count, int *attributes, void **data, falt_cu_pointer pointer) {
  (void)count, (void)attributes, (void)data, (void)pointer;
  return NOT_SUPPORTED;
}

static int copy_out(void *to, falt_cu_pointer from, size_t bytes) {
  (void)to, (void)from, (void)bytes;
  return NOT_SUPPORTED;
}

/* Designated initializers, as in api/device_cuda.c: such tables of functions look alike. */
const falt_cuda_driver *falt_cuda_described_driver(void) {
  static const falt_cuda_driver driver = {.init = init,
                                          .version = version,
                                          .error_name = error_name,
                                          .error_text = error_text,
                                          .device_count = device_count,
                                          .device_get = device_get,
                                          .device_name = device_name,
                                          .device_attribute = device_attribute,
                                          .primary_retain = primary_retain,
                                          .primary_release = primary_release,
                                          .context_current = context_current,
                                          .context_push = context_push,
                                          .context_pop = context_pop,
                                          .context_synchronize = context_synchronize,
                                          .module_load = module_load,
                                          .module_unload = module_unload,
                                          .module_function = module_function,
                                          .function_set = function_set,
                                          .launch = launch,
                                          .allocate = allocate,
                                          .release = release,
                                          .copy_in = copy_in,
                                          .send = send,
                                          .stream_synchronize = stream_synchronize,
                                          .pointer_facts = pointer_facts,
                                          .copy_out = copy_out};
  return &driver;
}
