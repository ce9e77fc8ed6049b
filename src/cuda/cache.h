/* Compiled kernels on disk: falt_cache_path("cuda/KEY.cubin"), so that a process compiles only what no other did. */
#ifndef FALT_CUDA_CACHE_H
#define FALT_CUDA_CACHE_H

#include "cuda/compile.h"

enum { FALT_CUDA_KEY = 33 };

/* 128 bits in hexadecimal: the sources, the kernel's name and holes, the architecture. Which NVRTC compiled stands in
 * the file: another version's file is replaced where there is an NVRTC and taken as it is where there is none. */
void falt_cuda_key(const falt_cuda_kernel *kernel, const char *arch, char key[FALT_CUDA_KEY]);

/* False if the file is absent, of another NVRTC, cut or altered. */
bool falt_cuda_cache_read(const char *key, falt_cuda_binary *binary);
/* Failing to write is no error: the kernel is compiled again another time. Keeps the directory below 256 MiB by
 * removing the oldest files. */
void falt_cuda_cache_write(const char *key, const falt_cuda_binary *binary);

#endif
