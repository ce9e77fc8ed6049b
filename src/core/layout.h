/* The layout of one block of memory: a plan's workspace, a worker's scratch, packed filters. Every part is aligned to
 * FALT_ALIGN. A layout records its parts, so that verification can put gaps (red zones) between them and detect
 * accesses. */
#ifndef FALT_CORE_LAYOUT_H
#define FALT_CORE_LAYOUT_H

#include "core/memory.h"

enum { FALT_MEMORY_PARTS = 20, FALT_RED_ZONE = 64 };

typedef struct falt_memory_layout falt_memory_layout;

/* `count` blocks of `bytes` each, `pitch` apart. */
typedef struct falt_memory_part {
  size_t at, bytes, pitch;
  int64_t count;
  const falt_memory_layout *inner; /* the parts of each block, or NULL */
} falt_memory_part;

struct falt_memory_layout {
  size_t total; /* bytes of all parts, a multiple of FALT_ALIGN */
  int count;
  falt_memory_part part[FALT_MEMORY_PARTS]; /* in order; a part too many is counted to the last one */
};

/* Adds a part and returns its offset. No bytes make no part. */
size_t falt_place_part(falt_memory_layout *layout, size_t bytes);
/* Adds `count` blocks with the layout `inner`. *inner must outlive this layout and must not change any more. */
size_t falt_place_each(falt_memory_layout *layout, int64_t count, const falt_memory_layout *inner);

/* Sets the gap after each part that this thread adds from now on, in bytes (0, or a multiple of FALT_ALIGN). Returns
 * the previous gap. */
size_t falt_place_apart(size_t bytes);

/* Visits every byte of memory that is laid out so and belongs to no part, in runs. */
typedef void (*falt_gap_visit)(void *context, char *gap, size_t bytes);
void falt_place_gaps(const falt_memory_layout *layout, char *memory, falt_gap_visit visit, void *context);

#endif
