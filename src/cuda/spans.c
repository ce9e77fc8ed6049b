/* Address ranges of allocated GPU memory, sorted, behind a lock. */
#include "cuda/spans.h"

#include <string.h>

#include "core/memory.h"

void falt_spans_init(falt_spans *spans) {
  *spans = (falt_spans){.count = 0};
  pthread_mutex_init(&spans->lock, NULL);
}

void falt_spans_free(falt_spans *spans) {
  falt_free(spans->span);
  pthread_mutex_destroy(&spans->lock);
}

/* How many begin at the address or before. */
static size_t position(const falt_spans *spans, uintptr_t address) {
  size_t low = 0, high = spans->count;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (spans->span[middle].begin <= address)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static bool make_room(falt_spans *spans) {
  if (spans->count < spans->room) return true;
  const size_t room = spans->room ? 2 * spans->room : 16;
  falt_span *larger = room > SIZE_MAX / sizeof *larger ? NULL : falt_alloc(room * sizeof *larger);
  if (!larger) return false;
  if (spans->count) memcpy(larger, spans->span, spans->count * sizeof *larger);
  falt_free(spans->span);
  spans->span = larger;
  spans->room = room;
  return true;
}

void falt_spans_add(falt_spans *spans, uintptr_t begin, size_t bytes) {
  pthread_mutex_lock(&spans->lock);
  if (bytes <= UINTPTR_MAX - begin && make_room(spans)) {
    const size_t at = position(spans, begin);
    memmove(spans->span + at + 1, spans->span + at, (spans->count++ - at) * sizeof *spans->span);
    spans->span[at] = (falt_span){begin, begin + bytes};
  }
  pthread_mutex_unlock(&spans->lock);
}

void falt_spans_remove(falt_spans *spans, uintptr_t begin) {
  pthread_mutex_lock(&spans->lock);
  const size_t after = position(spans, begin);
  if (after > 0 && spans->span[after - 1].begin == begin)
    memmove(spans->span + after - 1, spans->span + after, (spans->count-- - after) * sizeof *spans->span);
  pthread_mutex_unlock(&spans->lock);
}

bool falt_spans_have(falt_spans *spans, uintptr_t address) {
  pthread_mutex_lock(&spans->lock);
  const size_t after = position(spans, address);
  const bool has = after > 0 && address < spans->span[after - 1].end;
  pthread_mutex_unlock(&spans->lock);
  return has;
}
