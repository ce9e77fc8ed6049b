/* What choosing a cut shares. Kept is the fastest that is not rejected, and where all are, the first, for its reason.
 */
#ifndef FALT_SOLVER_CUDA_COMMON_CHOICE_H
#define FALT_SOLVER_CUDA_COMMON_CHOICE_H

#include <stdbool.h>

typedef struct falt_choice {
  bool found, seen; /* one that can be used; any */
  double seconds;   /* of the one that is kept */
} falt_choice;

/* Whether the next cut takes the place of the one kept so far. */
static inline bool falt_choice_takes(falt_choice *c, bool rejected, double seconds) {
  const bool takes = rejected ? !c->seen : !c->found || seconds < c->seconds;
  c->found |= !rejected;
  c->seen = true;
  if (takes) c->seconds = seconds;
  return takes;
}

static inline int larger(int a, int b) {
  return a > b ? a : b;
}
static inline int smaller(int a, int b) {
  return a < b ? a : b;
}

#endif
