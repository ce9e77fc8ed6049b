/* One GPU in one context: its facts, its memory, its kernels, launches. All functions may be called from any thread. */
#ifndef FALT_CUDA_GPU_H
#define FALT_CUDA_GPU_H

#include "cuda/compile.h"
#include "cuda/driver.h"

typedef struct falt_gpu falt_gpu;

typedef struct falt_gpu_facts {
  int ordinal, major, minor, multiprocessors;
  int clock_khz, memory_khz, bus_bits, l2_bytes;
  char name[64], arch[16]; /* "sm_90a" */
} falt_gpu_facts;

/* The device with this number, in its primary context; or in the caller's context, whose device then counts. */
falt_status falt_gpu_open(falt_gpu **gpu, int ordinal, void *context);
void falt_gpu_close(falt_gpu *gpu);
const falt_gpu_facts *falt_gpu_about(const falt_gpu *gpu);

/* The function of a kernel: loaded already, from the disk's cache, or compiled. Lives as long as the device. */
falt_status falt_gpu_kernel(falt_gpu *gpu, const falt_cuda_kernel *kernel, falt_cu_function *function);

typedef struct falt_gpu_launch {
  falt_cu_function function;
  int64_t blocks;
  int threads[2];   /* x, y */
  int shared_bytes; /* dynamic; the kernel's shared_bytes at most */
  void *stream;     /* a CUstream of the context, or NULL */
} falt_gpu_launch;

/* Starts a kernel; parameters are the addresses of its arguments. What goes wrong is kept for this thread. */
void falt_gpu_start(falt_gpu *gpu, const falt_gpu_launch *launch, void **parameters);
/* The first failure of a start on this thread since the last call, or FALT_OK. */
falt_status falt_gpu_trouble(void);

falt_status falt_gpu_allocate(falt_gpu *gpu, void **memory, size_t bytes);
void falt_gpu_release(falt_gpu *gpu, void *memory);
falt_status falt_gpu_copy_in(falt_gpu *gpu, void *to, const void *from, size_t bytes);
falt_status falt_gpu_copy_out(falt_gpu *gpu, void *to, const void *from, size_t bytes);
falt_status falt_gpu_copy_within(falt_gpu *gpu, void *to, const void *from, size_t bytes);
/* Waits for everything, or for a stream. */
falt_status falt_gpu_synchronize(falt_gpu *gpu);

#endif
