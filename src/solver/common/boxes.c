/* Box filters: which known filters are boxes, and what their sums may be. */
#include "solver/common/boxes.h"

#include <math.h>

enum { LEAST_EXTENDED = 5 /* taps: shorter ones are any symmetric taps */ };

/* The taps of an axis, from a dense filter of this one axis or from the only term. */
static double tap_at(const falt_problem *p, const void *values, int axis, int64_t i) {
  if (p->factors) return falt_factor_value(p, values, 0, axis, i);
  return falt_load(values, p->filter.type,
                   falt_tensor_at(&p->filter, 0, 0, 0, axis == 0 ? i : 0, axis == 1 ? i : 0, axis == 2 ? i : 0));
}

static bool along_axis(falt_box *box, const falt_problem *p, const void *values, int axis) {
  const int64_t size = p->filter.size[FALT_D + axis];
  if (size == 1 && !p->factors) return true; /* the taps are those of another axis */
  const double edge = tap_at(p, values, axis, 0);
  double inside = edge;
  if (size >= LEAST_EXTENDED) inside = tap_at(p, values, axis, 1);
  for (int64_t i = 0; i < size; i++)
    if (tap_at(p, values, axis, i) != (i == 0 || i == size - 1 ? edge : inside)) return false;
  box->weight *= inside;
  box->ends[axis] = edge != inside;
  box->end[axis] = box->ends[axis] ? edge / inside : 1;
  return isfinite(box->end[axis]);
}

static bool is_constant(falt_box *box, const falt_problem *p, const void *values) {
  const falt_tensor *filter = &p->filter;
  const int64_t *size = filter->size, groups = filter->stride[FALT_G] == 0 ? 1 : size[FALT_G];
  box->weight = falt_load(values, filter->type, falt_tensor_at(filter, 0, 0, 0, 0, 0, 0));
  for (int64_t g = 0; g < groups; g++)
    for (int64_t t = 0; t < size[FALT_D]; t++)
      for (int64_t r = 0; r < size[FALT_H]; r++)
        for (int64_t s = 0; s < size[FALT_W]; s++)
          if (falt_load(values, filter->type, falt_tensor_at(filter, 0, g, 0, t, r, s)) != box->weight) return false;
  return true;
}

static bool one_axis(const falt_problem *p) {
  const int64_t *size = &p->filter.size[FALT_D];
  const bool shared = p->filter.size[FALT_G] == 1 || p->filter.stride[FALT_G] == 0;
  return shared && (size[0] > 1) + (size[1] > 1) + (size[2] > 1) == 1;
}

const char *falt_box_of(falt_box *box, const falt_problem *p, const void *values) {
  *box = (falt_box){.weight = 1, .end = {1, 1, 1}};
  if (!values) return "the filter's values are not known when planning";
  if (p->factors > 1) return "the filter is more than one term";
  bool found = !p->factors && is_constant(box, p, values);
  if (!found && (p->factors || one_axis(p))) {
    *box = (falt_box){.weight = 1, .end = {1, 1, 1}};
    found = true;
    for (int axis = 0; axis < 3 && found; axis++) found = along_axis(box, p, values, axis);
  }
  return found && isfinite(box->weight) ? NULL
                                        : "the filter's taps are not equal and finite (the first and last may differ)";
}

double falt_box_largest_sum(const falt_box *box, const falt_problem *p) {
  const falt_type x = p->input.type;
  const int64_t *taps = &p->filter.size[FALT_D];
  double constant = 0;
  for (int i = 0; i < 3; i++)
    for (int side = 0; side < 2; side++)
      if (p->axis[i].boundary[side] == FALT_CONSTANT) constant = fabs(p->boundary_value);
  if (!falt_type_is_integer(x) || constant != rint(constant) || box->ends[0] || box->ends[1] || box->ends[2])
    return INFINITY;
  return (double)taps[0] * (double)taps[1] * (double)taps[2] *
         fmax(constant, fmax(-falt_type_min(x), falt_type_max(x)));
}
