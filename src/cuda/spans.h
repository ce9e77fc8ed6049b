/* Address ranges of allocated GPU memory, to identify pointers without asking the driver. Thread-safe. */
#ifndef FALT_CUDA_SPANS_H
#define FALT_CUDA_SPANS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct falt_span {
  uintptr_t begin, end;
} falt_span;

typedef struct falt_spans {
  pthread_mutex_t lock;
  falt_span *span; /* by address; they do not overlap */
  size_t count, room;
} falt_spans;

void falt_spans_init(falt_spans *spans);
void falt_spans_free(falt_spans *spans);

/* Adds [begin, begin + bytes). Without memory it is not added: "has" then says no, which is never wrong. */
void falt_spans_add(falt_spans *spans, uintptr_t begin, size_t bytes);
/* Removes the range that starts there, if there is one. */
void falt_spans_remove(falt_spans *spans, uintptr_t begin);
bool falt_spans_have(falt_spans *spans, uintptr_t address);

#endif
