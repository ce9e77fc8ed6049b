/* NVIDIA's driver, loaded when a CUDA device is first opened. Declares the few entry points in use, so building needs
 * no CUDA. Every failure becomes a status with a line that says what to install or free. */
#ifndef FALT_CUDA_DRIVER_H
#define FALT_CUDA_DRIVER_H

#include "faltung/faltung.h"

typedef struct CUctx_st *falt_cu_context;
typedef struct CUmod_st *falt_cu_module;
typedef struct CUfunc_st *falt_cu_function;
typedef struct CUstream_st *falt_cu_stream;
typedef struct CUevent_st *falt_cu_event;
typedef unsigned long long falt_cu_pointer;

/* Numbers of CUdevice_attribute and CUfunction_attribute. */
enum {
  FALT_CU_CLOCK_KHZ = 13,
  FALT_CU_MULTIPROCESSORS = 16,
  FALT_CU_MEMORY_CLOCK_KHZ = 36,
  FALT_CU_MEMORY_BUS_BITS = 37,
  FALT_CU_L2_BYTES = 38,
  FALT_CU_MAJOR = 75,
  FALT_CU_MINOR = 76,
  FALT_CU_FUNCTION_LOCAL_BYTES = 3,
  FALT_CU_FUNCTION_REGISTERS = 4,
  FALT_CU_FUNCTION_SHARED_BYTES = 8
};

/* Of cuPointerGetAttribute, CUmemorytype, cuStreamCreate, and the device attribute of hosts whose memory GPUs reach. */
enum {
  FALT_CU_POINTER_MEMORY = 2,
  FALT_CU_POINTER_DEVICE = 9,
  FALT_CU_MEMORY_HOST = 1,
  FALT_CU_MEMORY_DEVICE = 2,
  FALT_CU_STREAM_NON_BLOCKING = 1,
  FALT_CU_PAGEABLE_ACCESS = 88
};

/* Structs of cuLaunchKernelEx in the layout of NVIDIA's headers: one attribute, whose value takes 64 bytes. */
enum { FALT_CU_LAUNCH_EARLY = 6 }; /* CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION */
typedef struct falt_cu_launch_attribute {
  int which, unused, value[16];
} falt_cu_launch_attribute;
typedef struct falt_cu_launch_config {
  unsigned grid[3], block[3], shared_bytes;
  falt_cu_stream stream;
  falt_cu_launch_attribute *attributes;
  unsigned count;
} falt_cu_launch_config;

/* Values of CUtensorMap: swizzle of rows of that many bytes, promotion of L2 fetches to 128 bytes. */
enum {
  FALT_CU_MAP_SWIZZLE_32 = 1,
  FALT_CU_MAP_SWIZZLE_64 = 2,
  FALT_CU_MAP_SWIZZLE_128 = 3,
  FALT_CU_MAP_PROMOTE_128 = 2
};

typedef struct falt_cuda_driver {
  int (*init)(unsigned flags);
  int (*version)(int *version);
  int (*error_name)(int error, const char **name);
  int (*error_text)(int error, const char **text);
  int (*device_count)(int *count);
  int (*device_get)(int *device, int ordinal);
  int (*device_name)(char *name, int length, int device);
  int (*device_attribute)(int *value, int attribute, int device);
  int (*primary_retain)(falt_cu_context *context, int device);
  int (*primary_release)(int device);
  int (*context_current)(falt_cu_context *context);
  int (*context_push)(falt_cu_context context);
  int (*context_pop)(falt_cu_context *context);
  int (*context_device)(int *device);
  int (*context_synchronize)(void);
  int (*stream_create)(falt_cu_stream *stream, unsigned flags);
  int (*stream_destroy)(falt_cu_stream stream);
  int (*stream_synchronize)(falt_cu_stream stream);
  int (*stream_captures)(falt_cu_stream stream, int *status);
  int (*stream_follow)(falt_cu_stream stream, falt_cu_event event, unsigned flags);
  int (*event_create)(falt_cu_event *event, unsigned flags);
  int (*event_destroy)(falt_cu_event event);
  int (*event_record)(falt_cu_event event, falt_cu_stream stream);
  int (*event_synchronize)(falt_cu_event event);
  int (*event_elapsed)(float *milliseconds, falt_cu_event begin, falt_cu_event end);
  int (*module_load)(falt_cu_module *module, const void *image);
  int (*module_unload)(falt_cu_module module);
  int (*module_function)(falt_cu_function *function, falt_cu_module module, const char *name);
  int (*function_set)(falt_cu_function function, int attribute, int value);
  int (*function_attribute)(int *value, int attribute, falt_cu_function function);
  int (*launch)(falt_cu_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                unsigned block_y, unsigned block_z, unsigned shared_bytes, falt_cu_stream stream, void **parameters,
                void **extra);
  int (*allocate)(falt_cu_pointer *pointer, size_t bytes);
  int (*release)(falt_cu_pointer pointer);
  int (*copy_in)(falt_cu_pointer to, const void *from, size_t bytes);
  int (*copy_out)(void *to, falt_cu_pointer from, size_t bytes);
  int (*pin)(void **memory, size_t bytes, unsigned flags);
  int (*unpin)(void *memory);
  int (*send)(falt_cu_pointer to, const void *from, size_t bytes, falt_cu_stream stream);
  int (*receive)(void *to, falt_cu_pointer from, size_t bytes, falt_cu_stream stream);
  int (*room)(size_t *free_bytes, size_t *all_bytes);
  int (*pointer_facts)(unsigned count, int *attributes, void **data, falt_cu_pointer pointer);
  int (*copy_within)(falt_cu_pointer to, falt_cu_pointer from, size_t bytes, falt_cu_stream stream);
  int (*launch_host)(falt_cu_stream stream, void (*function)(void *context), void *context);
  /* NULL in drivers before CUDA 12. */
  int (*launch_by)(const falt_cu_launch_config *config, falt_cu_function function, void **parameters, void **extra);
  /* Tensors as TMA sees them; NULL in drivers before CUDA 12. */
  int (*map_box)(void *map, int type, unsigned rank, void *data, const uint64_t *size, const uint64_t *stride,
                 const uint32_t *box, const uint32_t *pace, int interleave, int swizzle, int promotion, int fill);
  int (*map_pixels)(void *map, int type, unsigned rank, void *data, const uint64_t *size, const uint64_t *stride,
                    const int *lower, const int *upper, uint32_t channels, uint32_t pixels, const uint32_t *pace,
                    int interleave, int swizzle, int promotion, int fill);
} falt_cuda_driver;

/* Loads the driver once in a process. FALT_NO_DEVICE where it is absent or finds no GPU. */
falt_status falt_cuda_driver_load(const falt_cuda_driver **driver);

/* Whether a failure to load it means that there is nothing to load: no driver, or no GPU. */
bool falt_cuda_driver_absent(void);

/* FALT_OK for 0; otherwise the driver's error as a status, with `what` at the start of the message. */
falt_status falt_cuda_check(const falt_cuda_driver *driver, int error, const char *what);

/* Opens the first of `count` library names: as the loader finds it, in FALTUNG_CUDA_PATH (directories with a colon
 * between them, their lib64 too), in /usr/local/cuda/lib64. NULL if there is none. */
void *falt_cuda_open_library(const char *const *names, int count);
/* The library that an environment variable names; where that is not set, as above. */
void *falt_cuda_open_named(const char *variable, const char *const *names, int count);

/* An entry point of a library, and the address of its function pointer. */
typedef struct falt_cuda_entry {
  const char *name;
  void *pointer;
} falt_cuda_entry;
/* Sets all pointers, to NULL if the library lacks a name. Returns the first missing name, or NULL. */
const char *falt_cuda_find(void *library, const falt_cuda_entry *entries, size_t count);

#endif
