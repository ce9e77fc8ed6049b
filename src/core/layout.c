/* The parts of one block of memory, and the gaps between them. */
#include "core/layout.h"

static _Thread_local size_t apart;

size_t falt_place_apart(size_t bytes) {
  const size_t before = apart;
  apart = bytes;
  return before;
}

static size_t rounded(size_t bytes) {
  return (bytes + FALT_ALIGN - 1) / FALT_ALIGN * FALT_ALIGN;
}

static void record(falt_memory_layout *layout, falt_memory_part part) {
  if (layout->count < FALT_MEMORY_PARTS) {
    layout->part[layout->count++] = part;
    return;
  }
  falt_memory_part *last = &layout->part[FALT_MEMORY_PARTS - 1];
  const size_t end = part.at + (size_t)(part.count - 1) * part.pitch + part.bytes;
  *last = (falt_memory_part){.at = last->at, .bytes = end - last->at, .pitch = end - last->at, .count = 1};
}

size_t falt_place_part(falt_memory_layout *layout, size_t bytes) {
  const size_t at = layout->total;
  if (!bytes) return at;
  record(layout, (falt_memory_part){.at = at, .bytes = bytes, .pitch = bytes, .count = 1});
  layout->total += rounded(bytes) + apart;
  return at;
}

size_t falt_place_each(falt_memory_layout *layout, int64_t count, const falt_memory_layout *inner) {
  const size_t at = layout->total, pitch = rounded(inner->total);
  if (!pitch || count < 1) return at;
  record(layout, (falt_memory_part){.at = at, .bytes = inner->total, .pitch = pitch, .count = count, .inner = inner});
  layout->total += (size_t)count * pitch;
  return at;
}

static void visit_run(char *from, const char *to, falt_gap_visit visit, void *context) {
  if (to > from) visit(context, from, (size_t)(to - from));
}

void falt_place_gaps(const falt_memory_layout *layout, char *memory, falt_gap_visit visit, void *context) {
  char *end = memory; /* of the parts added */
  if (!memory) return;
  for (int i = 0; i < layout->count; i++) {
    const falt_memory_part *part = &layout->part[i];
    for (int64_t block = 0; block < part->count; block++) {
      char *begin = memory + part->at + (size_t)block * part->pitch;
      visit_run(end, begin, visit, context);
      if (part->inner) falt_place_gaps(part->inner, begin, visit, context);
      end = begin + part->bytes;
    }
  }
  visit_run(end, memory + layout->total, visit, context);
}
