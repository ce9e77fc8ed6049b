/* One axis: boundaries as index maps, their inverse, and the outputs that need no boundary.
 *
 * A boundary continues a signal of n elements to all integers. edge clamps; wrap has period n; symmetric has period 2n
 * and is even about -1/2; reflect101 has period 2n - 2 and is even about 0. Before the first element the axis's first
 * boundary holds, after the last its second: each continues the whole signal on its own side. */
#include "problem/problem.h"

/* u modulo period, in [0, period). */
static int64_t wrap(int64_t u, int64_t period) {
  int64_t rest = u % period;
  return rest < 0 ? rest + period : rest;
}

static int64_t map_constant(int64_t size, int64_t u) {
  (void)size;
  (void)u;
  return -1;
}

static int64_t map_edge(int64_t size, int64_t u) {
  return u < 0 ? 0 : size - 1;
}

static int64_t map_symmetric(int64_t size, int64_t u) {
  int64_t at = wrap(u, 2 * size);
  return at < size ? at : 2 * size - 1 - at;
}

static int64_t map_reflect101(int64_t size, int64_t u) {
  if (size == 1) return 0;
  int64_t at = wrap(u, 2 * size - 2);
  return at < size ? at : 2 * size - 2 - at;
}

static int64_t map_wrap(int64_t size, int64_t u) {
  return wrap(u, size);
}

int64_t falt_axis_map(const falt_axis *axis, int64_t size, int64_t u) {
  static int64_t (*const maps[FALT_BOUNDARY_COUNT])(int64_t, int64_t) = {map_constant, map_edge, map_symmetric,
                                                                         map_reflect101, map_wrap};
  if (u >= 0 && u < size) return u;
  return maps[axis->boundary[u >= size]](size, u);
}

int64_t falt_axis_piece(const falt_axis *axis, int64_t size, int64_t u, int *slope) {
  const int64_t last = size - 1, beyond = u < 0 ? -u : INT64_MAX - u; /* to the end of this side */
  const falt_boundary boundary = axis->boundary[u >= size];
  int64_t at;
  *slope = 1;
  if (u >= 0 && u < size) return size - u;
  if (boundary == FALT_WRAP) return falt_min(beyond, size - wrap(u, size));
  if (boundary == FALT_SYMMETRIC) {
    at = wrap(u, 2 * size);
    *slope = at < size ? 1 : -1;
    return falt_min(beyond, (at < size ? size : 2 * size) - at);
  }
  if (boundary == FALT_REFLECT101 && size > 1) {
    at = wrap(u, 2 * last);
    *slope = at < last ? 1 : -1;
    return falt_min(beyond, (at < last ? last : 2 * last) - at + 1);
  }
  *slope = 0;
  return beyond;
}

/* The smallest position at or after `from` that is congruent to i. */
static int64_t next_congruent(int64_t from, int64_t i, int64_t period) {
  return from + wrap(i - from, period);
}

/* The smallest position v >= from that the boundary maps to i, were the axis to have no inside: the caller cuts it to
 * its side. False if there is none. */
static bool next_outside(falt_boundary boundary, int64_t size, int64_t i, int64_t from, int64_t *v) {
  int64_t last = size - 1;
  switch (boundary) {
    case FALT_EDGE:
      *v = from;
      return i == (from < 0 ? 0 : last);
    case FALT_WRAP:
      *v = next_congruent(from, i, size);
      return true;
    case FALT_SYMMETRIC:
      *v = falt_min(next_congruent(from, i, 2 * size), next_congruent(from, 2 * size - 1 - i, 2 * size));
      return true;
    case FALT_REFLECT101:
      *v = size == 1 ? from : falt_min(next_congruent(from, i, 2 * last), next_congruent(from, -i, 2 * last));
      return true;
    default:
      return false;
  }
}

bool falt_axis_preimage(const falt_axis *axis, int64_t size, int64_t i, int64_t low, int64_t high, int64_t *u) {
  int64_t from = falt_max(*u + 1, low), v = 0;
  bool found = false;
  if (from < 0) {
    found = next_outside(axis->boundary[0], size, i, from, &v) && v < 0;
    if (!found) from = 0;
  }
  if (!found && from < size) {
    found = from <= i;
    v = i;
    if (!found) from = size;
  }
  if (!found) found = next_outside(axis->boundary[1], size, i, from, &v);
  if (found && v <= high) *u = v;
  return found && v <= high;
}

/* Floor of a/b for b > 0. */
static int64_t floor_div(int64_t a, int64_t b) {
  return a / b - (a % b < 0);
}

void falt_axis_interior(const falt_axis *axis, int64_t in, int64_t taps, int64_t out, int64_t *begin, int64_t *end) {
  int64_t first = -floor_div(-axis->pad[0], axis->stride);
  int64_t last = floor_div(in - falt_extent(axis, taps) + axis->pad[0], axis->stride);
  *begin = falt_min(falt_max(first, 0), out);
  *end = falt_max(*begin, falt_min(last + 1, out));
}

/* Sum over i < n of floor((a*i + b) / m), a, b >= 0 and m > 0, by Euclid's algorithm on a and m. */
static double floor_sum(int64_t n, int64_t m, int64_t a, int64_t b) {
  double sum = 0;
  for (;;) {
    sum += (double)(a / m) * ((double)n * (double)(n - 1) / 2) + (double)(b / m) * (double)n;
    a %= m;
    b %= m;
    const int64_t most = a * n + b, swap = a;
    if (most < m) return sum;
    n = most / m;
    b = most % m;
    a = m;
    m = swap;
  }
}

/* Pairs of a tap and an output that stand before position `end` of the input. */
static double pairs_before(const falt_axis *axis, int64_t end, int64_t taps, int64_t out) {
  const int64_t s = axis->stride, d = axis->dilation, reach = end + axis->pad[0]; /* o*s + j*d < reach */
  const int64_t some = falt_max(0, falt_min(taps, -floor_div(-reach, d)));
  const int64_t all = falt_max(0, falt_min(some, floor_div(reach - 1 - (out - 1) * s, d) + 1));
  /* tap j of [all, some) stands before it for floor((reach - 1 - j*d) / s) + 1 outputs; the last tap is the first term
   */
  const double between = (double)(some - all);
  return (double)all * (double)out +
         (some > all ? between + floor_sum(some - all, s, d, reach - 1 - (some - 1) * d) : 0);
}

double falt_axis_inside(const falt_axis *axis, int64_t in, int64_t taps, int64_t out) {
  const double pairs = pairs_before(axis, in, taps, out) - pairs_before(axis, 0, taps, out);
  return pairs / ((double)taps * (double)out);
}

int64_t falt_axis_tap_step(const falt_axis *axis) {
  return axis->stride / falt_gcd(axis->stride, axis->dilation);
}

bool falt_problem_axis_folds(const falt_problem *p, int a) {
  const falt_axis *axis = &p->axis[a];
  const int64_t last = (p->output.size[FALT_D + a] - 1) * axis->stride + falt_extent(axis, p->filter.size[FALT_D + a]) -
                       1 - axis->pad[0];
  return (axis->boundary[0] != FALT_CONSTANT && axis->pad[0] > 0) ||
         (axis->boundary[1] != FALT_CONSTANT && last >= p->input.size[FALT_D + a]);
}

bool falt_problem_folds(const falt_problem *p) {
  return falt_problem_axis_folds(p, 0) || falt_problem_axis_folds(p, 1) || falt_problem_axis_folds(p, 2);
}

bool falt_problem_axis_is_circular(const falt_problem *p, int a) {
  const falt_axis *axis = &p->axis[a];
  return axis->boundary[0] == FALT_WRAP && axis->boundary[1] == FALT_WRAP && axis->stride == 1 &&
         p->output.size[FALT_D + a] == p->input.size[FALT_D + a];
}
