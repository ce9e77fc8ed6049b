/* Aligned allocation, a fuse with which tests make it fail, and checked arithmetic on sizes. */
#include "core/memory.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

#include "core/sanitize.h"

static _Atomic int64_t fuse = -1; /* allocations left before they fail; negative: they do not */

void falt_alloc_fail_after(int64_t n) {
  atomic_store(&fuse, n);
}

/* Burns one step of the fuse; true once it has burnt down. */
static bool must_fail(void) {
  int64_t left = atomic_load_explicit(&fuse, memory_order_relaxed);
  while (left > 0)
    if (atomic_compare_exchange_weak(&fuse, &left, left - 1)) return false;
  return left == 0;
}

/* Large blocks ask for huge pages: the first writes to a packed filter would otherwise take longer than packing it. */
enum { HUGE_PAGE = 2 << 20, LARGE = 2 * HUGE_PAGE };

static bool is_large(size_t size) {
  return size >= LARGE && !FALT_EXACT_ALLOCATION;
}

static void ask_for_huge_pages(void *memory, size_t size) {
#ifdef MADV_HUGEPAGE
  madvise(memory, size / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE); /* advice: if it is refused nothing is lost */
#else
  (void)memory, (void)size;
#endif
}

void *falt_alloc(size_t size) {
  if (size > PTRDIFF_MAX - FALT_ALIGN || must_fail()) return NULL;
  void *memory = NULL;
  const size_t rounded = FALT_EXACT_ALLOCATION ? size : (size + FALT_ALIGN - 1) / FALT_ALIGN * FALT_ALIGN;
  const size_t align = is_large(rounded) ? HUGE_PAGE : FALT_ALIGN;
  if (posix_memalign(&memory, align, rounded ? rounded : 1) != 0) return NULL;
  if (is_large(rounded)) ask_for_huge_pages(memory, rounded);
  return memory;
}

void *falt_alloc_zero(size_t size) {
  void *memory = falt_alloc(size);
  if (memory) memset(memory, 0, size);
  return memory;
}

void falt_free(void *memory) {
  free(memory);
}

bool falt_mul(int64_t a, int64_t b, int64_t *product) {
  return !__builtin_mul_overflow(a, b, product);
}

bool falt_add(int64_t a, int64_t b, int64_t *sum) {
  return !__builtin_add_overflow(a, b, sum);
}
