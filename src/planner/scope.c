/* The solvers that can compute a problem in principle; explanations leave out the others. */
#include "planner/planner.h"

/* One filter for all groups: its values repeat along them. */
static bool has_one_filter(const falt_problem *p) {
  return p->filter.size[FALT_C] == 1 && p->filter.size[FALT_K] == 1 &&
         (p->filter.size[FALT_G] == 1 || p->filter.stride[FALT_G] == 0);
}

static bool is_pooled(const falt_problem *p) {
  return p->pool[0] > 1 || p->pool[1] > 1 || p->pool[2] > 1;
}

static unsigned structures_of(const falt_problem *p) {
  if (is_pooled(p)) return FALT_SCOPE_POOLED;
  const bool one_to_one = p->filter.size[FALT_C] == 1 && p->filter.size[FALT_K] == 1, one = has_one_filter(p);
  return (one || p->is_filter ? FALT_SCOPE_FILTERS : 0u) |
         (p->filter.size[FALT_C] == 1 && !(one && p->is_filter) ? FALT_SCOPE_DEPTHWISE : 0u) |
         (one_to_one ? 0u : FALT_SCOPE_LAYERS);
}

static unsigned direction_of(falt_operation operation) {
  return operation == FALT_FORWARD         ? FALT_SCOPE_FORWARD
         : operation == FALT_BACKWARD_DATA ? FALT_SCOPE_DATA
                                           : FALT_SCOPE_WEIGHTS;
}

static bool covers(unsigned scope, const falt_problem *p) {
  if (falt_is_pooling(p->operation)) return scope & FALT_SCOPE_POOLING;
  return scope & structures_of(p) && scope & direction_of(p->operation);
}

bool falt_solver_covers(const falt_solver *solver, const falt_problem *problem) {
  for (int i = 0; falt_solvers[i]; i++) {
    if (falt_solvers[i] == solver) return covers(falt_solver_notes[i].scope, problem);
  }
  return true;
}
