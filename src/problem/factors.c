/* Filters as terms of one factor an axis: their values in the order of a correlation, and the dense taps they stand
 * for. Along an axis that `filter` walks backwards, as a true convolution does, values are taken from the last. */
#include "problem/problem.h"

int64_t falt_problem_filter_elements(const falt_problem *p) {
  if (!p || falt_is_pooling(p->operation)) return 0;
  const int64_t *size = p->filter.size;
  return p->factors ? p->factors * (size[FALT_D] + size[FALT_H] + size[FALT_W]) : falt_tensor_span(&p->filter);
}

double falt_factor_value(const falt_problem *p, const void *values, int term, int axis, int64_t tap) {
  const int64_t *size = &p->filter.size[FALT_D];
  int64_t at = term * (size[0] + size[1] + size[2]);
  for (int before = 0; before < axis; before++) at += size[before];
  const bool backwards = size[axis] > 1 && p->filter.stride[FALT_D + axis] < 0;
  return falt_load(values, p->filter.type, at + (backwards ? size[axis] - 1 - tap : tap));
}

void falt_factor_values(const falt_problem *p, const void *values, falt_type type, void *out) {
  int64_t at = 0;
  for (int term = 0; term < p->factors; term++)
    for (int axis = 0; axis < 3; axis++)
      for (int64_t tap = 0; tap < p->filter.size[FALT_D + axis]; tap++)
        falt_store(out, type, at++, falt_factor_value(p, values, term, axis, tap));
}

double falt_factors_tap(const falt_problem *p, const void *values, int64_t t, int64_t r, int64_t s) {
  double sum = 0;
  for (int term = 0; term < p->factors; term++)
    sum += falt_factor_value(p, values, term, 0, t) * falt_factor_value(p, values, term, 1, r) *
           falt_factor_value(p, values, term, 2, s);
  return sum;
}

void falt_factors_expand(const falt_problem *p, const void *values, falt_type type, void *taps) {
  const int64_t *size = &p->filter.size[FALT_D];
  int64_t at = 0;
  for (int64_t t = 0; t < size[0]; t++)
    for (int64_t r = 0; r < size[1]; r++)
      for (int64_t s = 0; s < size[2]; s++) falt_store(taps, type, at++, falt_factors_tap(p, values, t, r, s));
}
