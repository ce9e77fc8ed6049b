/* Compiles an embedded kernel source with its compile-time parameters by NVRTC, which is loaded on first use. */
#ifndef FALT_CUDA_COMPILE_H
#define FALT_CUDA_COMPILE_H

#include "cuda/sources.h"
#include "faltung/faltung.h"

enum { FALT_CUDA_DEFINES = 40, FALT_CUDA_DEFINE = 48 };

/* A source and its compile-time parameters, each "NAME=VALUE". Filled by falt_cuda_define. */
typedef struct falt_cuda_kernel {
  const char *source; /* "cuda_direct.cu" */
  const char *entry;  /* the function in it */
  char define[FALT_CUDA_DEFINES][FALT_CUDA_DEFINE];
  int defines;
  const falt_cuda_source *sources; /* where the source and its headers are; NULL: among the library's */
  bool cut;         /* a parameter was longer than FALT_CUDA_DEFINE or one too many: it cannot be compiled */
  int shared_bytes; /* the most dynamic shared memory of its launches */
} falt_cuda_kernel;

/* The texts that a kernel is compiled from. */
const falt_cuda_source *falt_cuda_kernel_sources(const falt_cuda_kernel *kernel);

void falt_cuda_define(falt_cuda_kernel *kernel, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Compile-time parameters of whole numbers, in this order. */
typedef struct falt_cuda_named_define {
  const char *name;
  int64_t value; /* an int's */
} falt_cuda_named_define;
void falt_cuda_defines(falt_cuda_kernel *kernel, const falt_cuda_named_define *defines, size_t count);

/* Whether a kernel names an embedded source and all its parameters fit; FALT_INTERNAL otherwise. */
falt_status falt_cuda_kernel_check(const falt_cuda_kernel *kernel);

/* Resource usage of a kernel as ptxas reports it; for a source with several kernels the largest of each. -1: not
 * reported. */
typedef struct falt_cuda_use {
  int registers, spill_bytes, stack_bytes, shared_bytes; /* a thread's, and a block's static shared memory */
} falt_cuda_use;

/* A cubin, allocated by falt_alloc. */
typedef struct falt_cuda_binary {
  char *data;
  size_t size;
  int compiler; /* version of the NVRTC that made it, as falt_cuda_compiler */
  falt_cuda_use use;
} falt_cuda_binary;

/* NVRTC's version as major*1000 + minor, or 0 if there is none. */
int falt_cuda_compiler(void);

/* Compiles for an architecture such as "sm_90a". FALT_NO_DEVICE without NVRTC or with one that does not know the
 * architecture, FALT_INTERNAL with the log's first error in the message. log may be NULL; otherwise it receives what
 * the compiler says, registers and spills included; free it with falt_free. */
falt_status falt_cuda_compile(const falt_cuda_kernel *kernel, const char *arch, falt_cuda_binary *binary, char **log);

#endif
