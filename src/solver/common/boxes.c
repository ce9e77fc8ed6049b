/* Box filters, single and repeated. */
#include "solver/common/boxes.h"

#include <math.h>
#include <string.h>

#include "core/memory.h"

enum { LEAST_EXTENDED = 5 /* taps: shorter ones are any symmetric taps */ };

/* ---- one box */

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
  return found && isfinite(box->weight) ? NULL : "the filter's taps are not all one finite number, but for the ends";
}

/* ---- repeated boxes */

/* out = taps of `count` convolved with one box. */
static void convolve_box(const falt_box_chain *chain, const double *taps, int64_t count, double *out) {
  double sum = 0; /* of the taps under the inner box */
  for (int64_t i = 0; i < count + chain->size - 1; i++) {
    const int64_t enters = i - 1, leaves = i - chain->size + 1;
    if (enters >= 0 && enters < count) sum += taps[enters];
    if (leaves >= 0 && leaves < count) sum -= taps[leaves];
    out[i] = chain->inside * sum + chain->edge * ((i < count ? taps[i] : 0) + (leaves >= 0 ? taps[leaves] : 0));
  }
}

void falt_box_chain_taps(const falt_box_chain *chain, double *out, double *scratch) {
  const int64_t size = chain->size;
  for (int64_t i = 0; i < size; i++) out[i] = i == 0 || i == size - 1 ? chain->edge : chain->inside;
  for (int k = 1; k < chain->count; k++) {
    const int64_t count = k * (size - 1) + 1;
    memcpy(scratch, out, (size_t)count * sizeof *out);
    convolve_box(chain, scratch, count, out);
  }
}

static double sum_of(const double *taps, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; i++) sum += taps[i];
  return sum;
}

/* The only boxes that it can be: the first tap is edge^count, the sum (2 edge + (size - 2) inside)^count. */
static bool guess(falt_box_chain *chain, const double *taps, int64_t count, int boxes) {
  if ((count - 1) % boxes || (count - 1) / boxes + 1 < LEAST_EXTENDED) return false;
  const double sum = sum_of(taps, count);
  chain->count = boxes;
  chain->size = (count - 1) / boxes + 1;
  chain->edge = pow(taps[0], 1.0 / boxes);
  chain->inside = (pow(sum, 1.0 / boxes) - 2 * chain->edge) / (double)(chain->size - 2);
  const double second = boxes * pow(chain->edge, boxes - 1) * chain->inside;
  return chain->inside > 0 && fabs(second - taps[1]) <= 1e-4 * taps[1];
}

bool falt_box_chain_find(falt_box_chain *chain, const double *taps, int64_t count, double tolerance) {
  double *made = NULL;
  bool found = false;
  for (int64_t i = 0; i < count; i++)
    if (!(taps[i] > 0 && isfinite(taps[i]))) return false;
  for (int boxes = 2; boxes <= FALT_MOST_BOXES && !found; boxes++) {
    if (!guess(chain, taps, count, boxes)) continue;
    if (!made) made = falt_alloc(2 * (size_t)count * sizeof *made);
    if (!made) return false;
    falt_box_chain_taps(chain, made, made + count);
    double error = 0;
    for (int64_t i = 0; i < count; i++) error += fabs(made[i] - taps[i]);
    found = error <= tolerance * sum_of(taps, count);
  }
  falt_free(made);
  return found;
}
