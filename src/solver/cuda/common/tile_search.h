/* Tile search. A solver family enumerates candidates and offers each with an estimated time or a reason for rejection.
 * The search keeps the fastest candidate (the first of equals). If all are rejected, it keeps the first one for its
 * reason. Plain C, no GPU needed. */
#ifndef FALT_SOLVER_CUDA_COMMON_TILE_SEARCH_H
#define FALT_SOLVER_CUDA_COMMON_TILE_SEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Either `best` or `visit` is set. */
typedef struct falt_tile_search {
  void *best;                                     /* where the best candidate is copied to */
  size_t bytes;                                   /* of a candidate */
  void (*visit)(void *context, const void *tile); /* called for each candidate */
  void *context;
  bool found, seen; /* a candidate that can run; any candidate */
  double seconds;   /* of the candidate that is kept */
} falt_tile_search;

/* A search that keeps the best candidate. Zeroes *best, which stays zero if no candidate is offered. */
falt_tile_search falt_tile_search_best(void *best, size_t bytes);

/* Offers a candidate. `rejected` is the reason that it cannot run, or NULL; `seconds` counts only if it is NULL. */
void falt_tile_offer(falt_tile_search *search, const void *tile, const char *rejected, double seconds);

/* The largest piece below `limit` that cuts `whole` into at most `most` pieces of equal size, the last of which may be
 * smaller; 0 if there is none. Starting at limit = whole + 1, repeated calls visit each such size once. */
int64_t falt_piece_below(int64_t whole, int64_t most, int64_t limit);

static inline int larger(int a, int b) {
  return a > b ? a : b;
}
static inline int smaller(int a, int b) {
  return a < b ? a : b;
}

#endif
