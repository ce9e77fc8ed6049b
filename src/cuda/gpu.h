/* One GPU in one context: facts, memory, kernels, launches. All functions may be called from any thread. */
#ifndef FALT_CUDA_GPU_H
#define FALT_CUDA_GPU_H

#include "cuda/compile.h"
#include "cuda/driver.h"
#include "cuda/machine.h"
#include "cuda/types.h"

typedef struct falt_gpu falt_gpu;

typedef struct falt_gpu_facts {
  int ordinal, major, minor, multiprocessors;
  int clock_khz, memory_khz, bus_bits, l2_bytes;
  char name[64], arch[16]; /* "sm_90a" */
  const falt_architecture *architecture;
} falt_gpu_facts;

/* GPUs that the driver finds; 0 without a driver. */
falt_status falt_gpu_count(int *count);

/* Opens the device with this number, in its primary context; or the device of the caller's context, in that context. */
falt_status falt_gpu_open(falt_gpu **gpu, int ordinal, void *context);
/* A GPU of src/cuda/described.h. Its kernels are only checked, or, if `compile`, compiled into the cache. */
falt_status falt_gpu_open_described(falt_gpu **gpu, const char *name, bool compile);
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

/* A tensor as TMA sees it, dimensions from the innermost on; strides count bytes, that of dimension 0 is
 * its element's. It reads and writes lines of 32, 64 or 128 bytes, swizzled in shared memory. */
typedef struct falt_gpu_map {
  falt_type type; /* f16, bf16 or f32 */
  int rank;
  void *data;
  uint64_t size[5], stride[5];
  uint32_t box[5];        /* of boxes: elements along each dimension */
  uint32_t pixels;        /* pixels of an im2col copy; 0: boxes */
  int lower[3], upper[3]; /* their corners, from dimension 1 on */
  uint32_t pace[5];       /* and their strides, in elements */
} falt_gpu_map;

/* Whether the driver knows maps. */
bool falt_gpu_has_maps(const falt_gpu *gpu);
/* Writes the TMA descriptor (128 bytes) to an address aligned to 64. Errors are stored per thread; see
 * falt_gpu_trouble. */
void falt_gpu_encode(falt_gpu *gpu, const falt_gpu_map *map, void *to);

/* Launches a kernel; parameters are the addresses of its arguments. Errors are stored per thread, and no further launch
 * runs on it until falt_gpu_trouble has returned the error. */
void falt_gpu_start(falt_gpu *gpu, const falt_gpu_launch *launch, void **parameters);
/* The same for grids of more axes: blocks along y and z, threads along z. */
void falt_gpu_start_grid(falt_gpu *gpu, const falt_gpu_launch *launch, const int blocks_yz[2], int threads_z,
                         void **parameters);
/* The same by programmatic dependent launch, for a kernel that waits for its predecessors itself
 * (device/ptx/early.cuh), if the GPU and the driver support it. */
void falt_gpu_start_early(falt_gpu *gpu, const falt_gpu_launch *launch, const int blocks_yz[2], void **parameters);
/* Calls body with the GPU's context current: for libraries that work in whichever is. False, with body not called, if
 * it cannot be made current; the driver's error is then kept as that of a start is. */
bool falt_gpu_within(const falt_gpu *gpu, void (*body)(void *context), void *context);
/* Stores the error of a library's launch, one line, as a launch error. */
void falt_gpu_fail(falt_status status, const char *line);
/* The first failure of a start on this thread since the last call, or FALT_OK. */
falt_status falt_gpu_trouble(void);

falt_status falt_gpu_allocate(falt_gpu *gpu, void **memory, size_t bytes);
void falt_gpu_release(falt_gpu *gpu, void *memory);
falt_status falt_gpu_copy_in(falt_gpu *gpu, void *to, const void *from, size_t bytes);
falt_status falt_gpu_copy_out(falt_gpu *gpu, void *to, const void *from, size_t bytes);
falt_status falt_gpu_copy_within(falt_gpu *gpu, void *to, const void *from, size_t bytes);
/* Waits for everything. */
falt_status falt_gpu_synchronize(falt_gpu *gpu);

/* Where a pointer leads. */
typedef enum falt_gpu_place {
  FALT_GPU_FOREIGN, /* the host's memory, or another GPU's: kernels do not reach it */
  FALT_GPU_OWN,     /* the GPU's memory, managed memory, and on machines that allow it the host's */
  FALT_GPU_PINNED   /* the host's, reached by kernels and copies */
} falt_gpu_place;
falt_gpu_place falt_gpu_locate(falt_gpu *gpu, const void *pointer);

/* Host memory that copies reach directly, and the GPU's memory that is free. */
falt_status falt_gpu_pin(falt_gpu *gpu, void **memory, size_t bytes);
void falt_gpu_unpin(falt_gpu *gpu, void *memory);
falt_status falt_gpu_room(falt_gpu *gpu, size_t *bytes);

/* Streams and timing events; copies on a stream return at once if the host memory is pinned. */
falt_status falt_gpu_stream(falt_gpu *gpu, void **stream);
void falt_gpu_stream_close(falt_gpu *gpu, void *stream);
falt_status falt_gpu_event(falt_gpu *gpu, void **event);
void falt_gpu_event_close(falt_gpu *gpu, void *event);
falt_status falt_gpu_send(falt_gpu *gpu, void *to, const void *from, size_t bytes, void *stream);
falt_status falt_gpu_receive(falt_gpu *gpu, void *to, const void *from, size_t bytes, void *stream);
falt_status falt_gpu_record(falt_gpu *gpu, void *event, void *stream);
falt_status falt_gpu_follow(falt_gpu *gpu, void *stream, void *event);
falt_status falt_gpu_wait(falt_gpu *gpu, void *event);
double falt_gpu_between(falt_gpu *gpu, void *begin, void *end);

/* Seconds of GPU time for a number of consecutive calls of body, each of which queues its work on the stream: the time
 * between two events. The host gets a head start, so its launch overhead is excluded. Negative if the driver fails, and
 * without a call if the stream is being captured. */
double falt_gpu_time(falt_gpu *gpu, void *stream, void (*body)(void *context), void *context, long iterations);

#endif
