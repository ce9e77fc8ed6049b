/* The cache of compiled kernels on disk, falt_cache_path("cuda/KEY.cubin"): a process compiles only what no other
 * process has compiled. A directory filled here also serves machines with a driver and without NVRTC. */
#ifndef FALT_CUDA_CACHE_H
#define FALT_CUDA_CACHE_H

#include "cuda/cubin.h"

enum { FALT_CUDA_KEY = 33 };

/* 128 bits in hexadecimal: the sources, the kernel's name and parameters, the architecture. Which NVRTC compiled is
 * written in the file and is no part of the key: a cubin is right whoever made it, so one from another version is used,
 * and reading never loads NVRTC. */
void falt_cuda_key(const falt_cuda_kernel *kernel, const char *arch, char key[FALT_CUDA_KEY]);

/* False if the file is absent, cut or altered. */
bool falt_cuda_cache_read(const char *key, falt_cuda_binary *binary);
/* Where the cache cannot be written the kernel is compiled again another time; most callers need not care. Keeps the
 * directory below FALT_CACHE_BYTES by removing the oldest files. */
falt_status falt_cuda_cache_write(const char *key, const falt_cuda_kernel *kernel, const char *arch,
                                  const falt_cuda_binary *binary);

/* Calls report for every file that is or was to be a kernel, newest first. FALT_NO_FILE without a cache directory. */
falt_status falt_cuda_cache_each(void (*report)(void *context, const falt_cached_kernel *kernel), void *context);
/* Removes them; *removed counts. FALT_NO_FILE if one cannot be removed. */
falt_status falt_cuda_cache_clear(int64_t *removed);

#endif
