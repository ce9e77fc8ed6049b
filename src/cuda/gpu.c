/* The context is made current for each call and taken off again, so that the caller's own stays what it was. */
#include "cuda/gpu.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "cuda/cache.h"

typedef struct loaded {
  char key[FALT_CUDA_KEY];
  falt_cu_module module;
  struct loaded *next;
} loaded;

struct falt_gpu {
  const falt_cuda_driver *driver;
  falt_cu_context context;
  bool primary; /* the context is retained */
  int device;
  falt_gpu_facts facts;
  pthread_mutex_t lock;
  loaded *modules;
};

static _Thread_local struct {
  int error;
  const falt_cuda_driver *driver;
} trouble;

static int enter(const falt_gpu *gpu) {
  return gpu->driver->context_push(gpu->context);
}

static void leave(const falt_gpu *gpu) {
  falt_cu_context before;
  gpu->driver->context_pop(&before);
}

/* ---- opening */

static falt_status find_device(falt_gpu *gpu, int ordinal, void *context) {
  const falt_cuda_driver *cu = gpu->driver;
  int count = 0;
  if (context) {
    gpu->context = context;
    FALT_TRY(falt_cuda_check(cu, enter(gpu), "options.context: cannot be made current"));
    const int error = cu->context_device(&gpu->device);
    leave(gpu);
    return falt_cuda_check(cu, error, "options.context: has no device");
  }
  FALT_TRY(falt_cuda_check(cu, cu->device_count(&count), "cuda: devices cannot be counted"));
  if (ordinal < 0 || ordinal >= count)
    return falt_fail(FALT_NO_DEVICE, "options.ordinal: there is no device cuda:%d; this machine has %d", ordinal,
                     count);
  FALT_TRY(falt_cuda_check(cu, cu->device_get(&gpu->device, ordinal), "cuda: the device cannot be opened"));
  FALT_TRY(falt_cuda_check(cu, cu->primary_retain(&gpu->context, gpu->device), "cuda: the context cannot be made"));
  gpu->primary = true;
  return FALT_OK;
}

static int attribute(const falt_gpu *gpu, int which) {
  int value = 0;
  gpu->driver->device_attribute(&value, which, gpu->device);
  return value;
}

static void learn(falt_gpu *gpu) {
  falt_gpu_facts *f = &gpu->facts;
  f->ordinal = gpu->device; /* the driver numbers devices by ordinal */
  f->major = attribute(gpu, FALT_CU_MAJOR);
  f->minor = attribute(gpu, FALT_CU_MINOR);
  f->multiprocessors = attribute(gpu, FALT_CU_MULTIPROCESSORS);
  f->clock_khz = attribute(gpu, FALT_CU_CLOCK_KHZ);
  f->memory_khz = attribute(gpu, FALT_CU_MEMORY_CLOCK_KHZ);
  f->bus_bits = attribute(gpu, FALT_CU_MEMORY_BUS_BITS);
  f->l2_bytes = attribute(gpu, FALT_CU_L2_BYTES);
  gpu->driver->device_name(f->name, sizeof f->name, gpu->device);
  snprintf(f->arch, sizeof f->arch, "sm_%d%d%s", f->major, f->minor, f->major >= 9 ? "a" : "");
}

falt_status falt_gpu_open(falt_gpu **gpu, int ordinal, void *context) {
  const falt_cuda_driver *driver;
  *gpu = NULL;
  FALT_TRY(falt_cuda_driver_load(&driver));
  falt_gpu *made = falt_alloc_zero(sizeof *made);
  if (!made) return falt_fail(FALT_NO_MEMORY, "device: memory ran out");
  made->driver = driver;
  const falt_status status = find_device(made, ordinal, context);
  if (status != FALT_OK) {
    falt_free(made);
    return status;
  }
  pthread_mutex_init(&made->lock, NULL);
  learn(made);
  *gpu = made;
  return FALT_OK;
}

void falt_gpu_close(falt_gpu *gpu) {
  if (!gpu) return;
  enter(gpu);
  for (loaded *m = gpu->modules, *next; m; m = next) {
    next = m->next;
    gpu->driver->module_unload(m->module);
    falt_free(m);
  }
  leave(gpu);
  if (gpu->primary) gpu->driver->primary_release(gpu->device);
  pthread_mutex_destroy(&gpu->lock);
  falt_free(gpu);
}

const falt_gpu_facts *falt_gpu_about(const falt_gpu *gpu) {
  return &gpu->facts;
}

/* ---- kernels */

static loaded *find(falt_gpu *gpu, const char *key) {
  loaded *m = gpu->modules;
  while (m && strcmp(m->key, key) != 0) m = m->next;
  return m;
}

static falt_status load(falt_gpu *gpu, const char *key, const falt_cuda_binary *binary, loaded **module) {
  loaded *made = falt_alloc_zero(sizeof *made);
  if (!made) return falt_fail(FALT_NO_MEMORY, "cuda: memory ran out");
  const falt_status status =
      falt_cuda_check(gpu->driver, gpu->driver->module_load(&made->module, binary->data), "cuda: loading a kernel");
  if (status != FALT_OK) {
    falt_free(made);
    return status;
  }
  memcpy(made->key, key, sizeof made->key);
  made->next = gpu->modules;
  gpu->modules = *module = made;
  return FALT_OK;
}

/* With the lock held and the context current. */
static falt_status provide(falt_gpu *gpu, const falt_cuda_kernel *kernel, const char *key, loaded **module) {
  falt_cuda_binary binary;
  if ((*module = find(gpu, key))) return FALT_OK;
  if (falt_cuda_cache_read(key, &binary)) {
    const falt_status status = load(gpu, key, &binary, module);
    falt_free(binary.data);
    if (status == FALT_OK || !falt_cuda_compiler()) return status;
  }
  FALT_TRY(falt_cuda_compile(kernel, gpu->facts.arch, &binary, NULL));
  const falt_status status = load(gpu, key, &binary, module);
  if (status == FALT_OK) falt_cuda_cache_write(key, kernel, gpu->facts.arch, &binary);
  falt_free(binary.data);
  return status;
}

falt_status falt_gpu_kernel(falt_gpu *gpu, const falt_cuda_kernel *kernel, falt_cu_function *function) {
  char key[FALT_CUDA_KEY];
  loaded *module = NULL;
  falt_cuda_key(kernel, gpu->facts.arch, key);
  pthread_mutex_lock(&gpu->lock);
  falt_status status = falt_cuda_check(gpu->driver, enter(gpu), "cuda: the context cannot be made current");
  if (status == FALT_OK) {
    status = provide(gpu, kernel, key, &module);
    if (status == FALT_OK)
      status = falt_cuda_check(gpu->driver, gpu->driver->module_function(function, module->module, kernel->entry),
                               "cuda: finding a kernel");
    if (status == FALT_OK && kernel->shared_bytes > 0)
      status = falt_cuda_check(
          gpu->driver, gpu->driver->function_set(*function, FALT_CU_FUNCTION_SHARED_BYTES, kernel->shared_bytes),
          "cuda: a kernel needs more shared memory than a block has");
    leave(gpu);
  }
  pthread_mutex_unlock(&gpu->lock);
  return status;
}

/* ---- launches */

void falt_gpu_start(falt_gpu *gpu, const falt_gpu_launch *launch, void **parameters) {
  int error = enter(gpu);
  if (!error) {
    error = gpu->driver->launch(launch->function, (unsigned)launch->blocks, 1, 1, (unsigned)launch->threads[0],
                                (unsigned)launch->threads[1], 1, (unsigned)launch->shared_bytes, launch->stream,
                                parameters, NULL);
    leave(gpu);
  }
  if (!error || trouble.error) return;
  trouble.error = error;
  trouble.driver = gpu->driver;
}

falt_status falt_gpu_trouble(void) {
  const int error = trouble.error;
  trouble.error = 0;
  return error ? falt_cuda_check(trouble.driver, error, "cuda: a kernel could not be started") : FALT_OK;
}

/* ---- memory */

falt_status falt_gpu_allocate(falt_gpu *gpu, void **memory, size_t bytes) {
  falt_cu_pointer pointer = 0;
  *memory = NULL;
  int error = enter(gpu);
  if (!error) {
    error = gpu->driver->allocate(&pointer, bytes ? bytes : 1);
    leave(gpu);
  }
  *memory = (void *)(uintptr_t)pointer;
  return falt_cuda_check(gpu->driver, error, "cuda: allocating");
}

void falt_gpu_release(falt_gpu *gpu, void *memory) {
  if (!memory || enter(gpu)) return;
  gpu->driver->release((falt_cu_pointer)(uintptr_t)memory);
  leave(gpu);
}

falt_status falt_gpu_copy_in(falt_gpu *gpu, void *to, const void *from, size_t bytes) {
  int error = enter(gpu);
  if (!error) {
    error = gpu->driver->copy_in((falt_cu_pointer)(uintptr_t)to, from, bytes);
    leave(gpu);
  }
  return falt_cuda_check(gpu->driver, error, "cuda: copying to the device");
}

falt_status falt_gpu_copy_out(falt_gpu *gpu, void *to, const void *from, size_t bytes) {
  int error = enter(gpu);
  if (!error) {
    error = gpu->driver->copy_out(to, (falt_cu_pointer)(uintptr_t)from, bytes);
    leave(gpu);
  }
  return falt_cuda_check(gpu->driver, error, "cuda: copying from the device");
}

falt_status falt_gpu_copy_within(falt_gpu *gpu, void *to, const void *from, size_t bytes) {
  int error = enter(gpu);
  if (!error) {
    error = gpu->driver->copy_within((falt_cu_pointer)(uintptr_t)to, (falt_cu_pointer)(uintptr_t)from, bytes, NULL);
    leave(gpu);
  }
  return falt_cuda_check(gpu->driver, error, "cuda: copying on the device");
}

falt_status falt_gpu_synchronize(falt_gpu *gpu) {
  int error = enter(gpu);
  if (!error) {
    error = gpu->driver->context_synchronize();
    leave(gpu);
  }
  return falt_cuda_check(gpu->driver, error, "cuda: waiting for the device");
}
