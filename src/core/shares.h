/* Work distribution of a parallel loop: each thread gets one share of neighbouring indices.
 */
#ifndef FALT_CORE_SHARES_H
#define FALT_CORE_SHARES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/memory.h"

/* A thread has the same share in every loop of the same length, so the data that it wrote is still in its cache. A
 * thread whose share is empty takes single indices from other shares, which balances uneven work. */

typedef struct falt_share {
  _Alignas(FALT_ALIGN) _Atomic int64_t next;
  int64_t end;
} falt_share;

/* Cuts [0, count) as evenly as possible; call it before threads take part. */
static inline void falt_shares_cut(falt_share *share, int64_t shares, int64_t count) {
  const int64_t each = count / shares, larger = count % shares;
  int64_t begin = 0;
  for (int64_t i = 0; i < shares; i++) {
    atomic_init(&share[i].next, begin);
    share[i].end = begin += each + (i < larger);
  }
}

/* How many of [0, count) were taken. */
static inline int64_t falt_shares_taken(falt_share *share, int64_t shares, int64_t count) {
  int64_t left = 0;
  for (int64_t i = 0; i < shares; i++)
    left += falt_max(0, share[i].end - atomic_load_explicit(&share[i].next, memory_order_relaxed));
  return count - left;
}

/* The shares from which a thread takes indices: `left` shares from `at` on, its own first. */
typedef struct falt_taker {
  falt_share *share;
  int64_t shares, at, left;
} falt_taker;

static inline falt_taker falt_taker_of(falt_share *share, int64_t shares, int64_t self) {
  return (falt_taker){share, shares, self % shares, shares};
}

/* The next index; false when none is left. */
static inline bool falt_take(falt_taker *taker, int64_t *index) {
  for (; taker->left > 0; taker->left--, taker->at = (taker->at + 1) % taker->shares) {
    falt_share *share = &taker->share[taker->at];
    if (atomic_load_explicit(&share->next, memory_order_relaxed) >= share->end) continue;
    *index = atomic_fetch_add_explicit(&share->next, 1, memory_order_relaxed);
    if (*index < share->end) return true;
  }
  return false;
}

#endif
