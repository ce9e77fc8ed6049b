/* A library to preload: after FALT_FAIL_AFTER allocations all further ones fail. glibc only: it calls __libc_malloc. */
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

static _Atomic long left = -1; /* negative: no allocation fails */

__attribute__((constructor)) static void begin(void) {
  const char *after = getenv("FALT_FAIL_AFTER");
  if (after) atomic_store(&left, atol(after));
}

static int fails(void) {
  long now = atomic_load(&left);
  while (now > 0)
    if (atomic_compare_exchange_weak(&left, &now, now - 1)) return 0;
  if (now == 0) errno = ENOMEM;
  return now == 0;
}

void *malloc(size_t size) {
  return fails() ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
  return fails() ? NULL : __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size) {
  return fails() ? NULL : __libc_realloc(memory, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
  return fails() ? NULL : __libc_memalign(alignment, size);
}

int posix_memalign(void **memory, size_t alignment, size_t size) {
  *memory = fails() ? NULL : __libc_memalign(alignment, size);
  return *memory ? 0 : ENOMEM;
}
