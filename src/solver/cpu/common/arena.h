/* Scratch memory that a worker divides for each task. A red zone for the address sanitizer follows each part. */
#ifndef FALT_SOLVER_CPU_COMMON_ARENA_H
#define FALT_SOLVER_CPU_COMMON_ARENA_H

#include "core/layout.h"
#include "core/sanitize.h"

typedef struct falt_arena {
  char *base; /* NULL: only count */
  size_t used;
} falt_arena;

/* The next part, aligned to FALT_ALIGN. */
static inline void *falt_arena_take(falt_arena *arena, size_t bytes) {
  const int64_t end = falt_round_up((int64_t)bytes, FALT_ALIGN) + (FALT_EXACT_ALLOCATION ? FALT_RED_ZONE : 0);
  char *at = arena->base ? arena->base + arena->used : NULL;
  if (at) FALT_FORBID(at + bytes, (size_t)end - bytes);
  arena->used += (size_t)end;
  return at;
}

/* Frees all parts: the scratch can be divided again. */
static inline void falt_arena_close(falt_arena *arena) {
  FALT_ALLOW(arena->base, arena->used);
  arena->used = 0;
}

#endif
