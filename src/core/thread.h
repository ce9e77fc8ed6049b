/* Threads: one parallel loop over a pool of at most the requested number of threads. */
#ifndef FALT_CORE_THREAD_H
#define FALT_CORE_THREAD_H

#include "faltung/faltung.h"

typedef struct falt_threads falt_threads;

/* A pool of `count` threads, the caller's own included: count - 1 are made, by falt_threads_start or by the first loop.
 * pool, if not NULL, is the caller's and replaces them. NULL when memory is short. */
falt_threads *falt_threads_create(int count, falt_pool pool, void *pool_data);
void falt_threads_destroy(falt_threads *threads); /* accepts NULL */
int falt_threads_count(const falt_threads *threads);
/* Creates the threads, so that no later loop allocates. Does nothing if they exist. */
void falt_threads_start(falt_threads *threads);

/* Runs body(context, i) for i in [0, count) and returns when all are done. Each thread starts with its own share of
 * neighbouring indices, the same for every loop of equal count, and then takes indices from other shares. Inside a
 * body, or while another thread uses the pool, the loop runs in the calling thread alone and takes no lock. Once the
 * call of this thread is cancelled (core/call.h), the remaining indices are skipped. */
void falt_parallel_for(falt_threads *threads, int64_t count, void (*body)(void *context, int64_t index), void *context);

/* Cores that this process may run on (affinity and cgroup quota), at least 1. */
int falt_cores_available(void);

#endif
