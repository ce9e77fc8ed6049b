/* The CUDA context of a GPU, private to this folder. */
#ifndef FALT_CUDA_GPU_CONTEXT_H
#define FALT_CUDA_GPU_CONTEXT_H

#include <pthread.h>

#include "cuda/cache.h"
#include "cuda/gpu.h"
#include "cuda/spans.h"

/* The context is made current for each call and popped afterwards, so the caller's context does not change. If it is
 * current already, as in programs with one GPU, nothing is done. */

typedef struct falt_gpu_module {
  char key[FALT_CUDA_KEY];
  falt_cu_module module;
  struct falt_gpu_module *next;
} falt_gpu_module;

struct falt_gpu {
  const falt_cuda_driver *driver;
  falt_cu_context context;
  bool primary;             /* the context is retained */
  bool reaches_host;        /* kernels reach all of the host's memory */
  bool described, compiles; /* not present; its kernels go into the cache */
  bool early;               /* programmatic dependent launch is supported */
  int device;
  falt_gpu_facts facts;
  pthread_mutex_t lock;
  falt_gpu_module *modules;
  falt_spans given; /* memory by falt_gpu_allocate */
};

/* A call within the context. */
typedef struct falt_gpu_visit {
  int error;
  bool pushed;
} falt_gpu_visit;

static inline falt_gpu_visit falt_gpu_enter(const falt_gpu *gpu) {
  falt_cu_context current = NULL;
  if (gpu->driver->context_current(&current) == 0 && current == gpu->context) return (falt_gpu_visit){0, false};
  const int error = gpu->driver->context_push(gpu->context);
  return (falt_gpu_visit){error, error == 0};
}

static inline void falt_gpu_leave(const falt_gpu *gpu, falt_gpu_visit v) {
  falt_cu_context before;
  if (v.pushed) gpu->driver->context_pop(&before);
}

static inline falt_cu_pointer falt_gpu_address(const void *memory) {
  return (falt_cu_pointer)(uintptr_t)memory;
}

static inline falt_status falt_gpu_finish(const falt_gpu *gpu, falt_gpu_visit v, int error, const char *what) {
  falt_gpu_leave(gpu, v);
  return falt_cuda_check(gpu->driver, v.error ? v.error : error, what);
}

#endif
