/* The index relation of the generic solver between outputs and sources along one axis. */
#include "solver/generic/generic.h"

/* Forward, output q reads position u = q*stride + t*dilation - pad, which the boundary folds: one link.
 *
 * Backward, element i of backward-data is at every position u that folds onto it: u = i (the main link), and further u
 * in the folded outside. There the fold is a row of pieces on which u = c +- i, and each is a link. Position u belongs
 * to output o and tap j with u + pad = o*stride + j*dilation, so the taps of an element are those with u + pad -
 * j*dilation divisible by the stride. They are the same for all i of one polyphase part, i = origin + q*stride. With e
 * = gcd(stride, dilation), every (stride/e)-th tap is one of them and moves o by dilation/e. So each link is a plain
 * correlation of the output's gradient with every (stride/e)-th tap, and no zero is multiplied. */

static int64_t floor_div(int64_t a, int64_t b) {
  return a / b - (a % b < 0);
}

int64_t falt_polyphase_count(const falt_generic_plan *plan, int axis) {
  return plan->gathers ? falt_min(plan->p.axis[axis].stride, plan->result.size[FALT_D + axis]) : 1;
}

falt_polyphase falt_polyphase_at(const falt_generic_plan *plan, int axis, int64_t index) {
  const int64_t size = plan->result.size[FALT_D + axis];
  if (!plan->gathers) return (falt_polyphase){0, 1, size};
  const int64_t step = plan->p.axis[axis].stride;
  return (falt_polyphase){index, step, falt_ceil_div(size - index, step)};
}

/* ---- links */

static bool forward_link(const falt_generic_plan *plan, int axis, falt_polyphase polyphase, falt_link *link) {
  const falt_axis *a = &plan->p.axis[axis];
  *link = (falt_link){.count = polyphase.count,
                      .base = -a->pad[0],
                      .step = a->stride,
                      .tap_step = a->dilation,
                      .taps = plan->p.filter.size[FALT_D + axis],
                      .tap_next = 1,
                      .size = plan->source.size[FALT_D + axis],
                      .axis = a,
                      .at = INT64_MIN};
  return true;
}

/* Removes the taps that read no source for any output. False if none remains. */
static bool cut_taps(falt_link *link) {
  const int64_t at[2] = {link->base + link->step * link->first,
                         link->base + link->step * (link->first + link->count - 1)};
  const int64_t least = falt_min(at[0], at[1]), most = falt_max(at[0], at[1]);
  const int64_t begin = falt_max(0, -floor_div(most, link->tap_step));
  const int64_t end = falt_min(link->taps, floor_div(link->size - 1 - least, link->tap_step) + 1);
  link->base += begin * link->tap_step;
  link->tap_first += begin * link->tap_next;
  link->taps = end - begin;
  return begin < end;
}

/* The link of the piece u = c + slope*i, for i in [low, high]. False if no output or no tap is in it. */
static bool gather_link(const falt_generic_plan *plan, int axis, falt_polyphase polyphase, int64_t c, int64_t slope,
                        int64_t low, int64_t high, falt_link *link) {
  const falt_axis *a = &plan->p.axis[axis];
  const int64_t taps = plan->p.filter.size[FALT_D + axis], e = falt_gcd(a->stride, a->dilation), every = a->stride / e;
  const int64_t first = falt_max(0, -floor_div(polyphase.origin - low, polyphase.step));
  const int64_t end = falt_min(polyphase.count, floor_div(high - polyphase.origin, polyphase.step) + 1);
  const int64_t reach = c + slope * polyphase.origin + a->pad[0]; /* o*stride + j*dilation at q = 0 */
  int64_t tap = 0;
  while (tap < falt_min(every, taps) && (reach - tap * a->dilation) % a->stride != 0) tap++;
  if (first >= end || tap >= falt_min(every, taps)) return false;
  link->taps = (taps - 1 - tap) / every + 1;
  link->tap_first = tap + every * (link->taps - 1); /* from the last tap down, for ascending sources */
  link->tap_next = -every;
  link->first = first;
  link->count = end - first;
  link->base = (reach - link->tap_first * a->dilation) / a->stride;
  link->step = slope;
  link->tap_step = a->dilation / e;
  link->size = plan->source.size[FALT_D + axis];
  link->axis = NULL;
  return cut_taps(link);
}

/* Length of the longest piece of [u, end) on which the fold is affine, and its slope; where that is 0, one position. */
static int64_t piece_length(const falt_axis *a, int64_t size, int64_t u, int64_t end, int64_t *slope) {
  int bend;
  const int64_t length = falt_min(falt_axis_piece(a, size, u, &bend), end - u);
  *slope = length > 1 && bend < 0 ? -1 : 1;
  return bend == 0 ? 1 : length;
}

/* The first position at or after u that is outside and folds, with the end of its side; false if there is none. */
static bool outside_at(const falt_generic_plan *plan, int axis, int64_t *u, int64_t *end) {
  const falt_axis *a = &plan->p.axis[axis];
  const int64_t size = plan->p.input.size[FALT_D + axis];
  const int64_t reach = (plan->p.output.size[FALT_D + axis] - 1) * a->stride +
                        falt_extent(a, plan->p.filter.size[FALT_D + axis]) - a->pad[0];
  *u = falt_max(*u, -a->pad[0]);
  *end = falt_min(0, reach);
  if (*u < *end && a->boundary[0] != FALT_CONSTANT) return true;
  *u = falt_max(*u, size);
  *end = reach;
  return *u < *end && a->boundary[1] != FALT_CONSTANT;
}

bool falt_link_first(const falt_generic_plan *plan, int axis, falt_polyphase polyphase, falt_link *link) {
  link->at = INT64_MIN;
  if (!plan->gathers) return forward_link(plan, axis, polyphase, link);
  if (gather_link(plan, axis, polyphase, 0, 1, 0, plan->result.size[FALT_D + axis] - 1, link)) return true;
  return falt_link_next(plan, axis, polyphase, link);
}

bool falt_link_next(const falt_generic_plan *plan, int axis, falt_polyphase polyphase, falt_link *link) {
  const falt_axis *a = &plan->p.axis[axis];
  const int64_t size = plan->p.input.size[FALT_D + axis];
  int64_t u = link->at, end, slope;
  if (!plan->gathers) return false;
  while (outside_at(plan, axis, &u, &end)) {
    const int64_t length = piece_length(a, size, u, end, &slope), i = falt_axis_map(a, size, u);
    const int64_t last = i + slope * (length - 1);
    const bool found =
        gather_link(plan, axis, polyphase, u - slope * i, slope, falt_min(i, last), falt_max(i, last), link);
    link->at = u += length;
    if (found) return true;
  }
  return false;
}

bool falt_links_first(const falt_generic_plan *plan, const falt_polyphase polyphase[3], falt_link link[3]) {
  for (int axis = 0; axis < 3; axis++)
    if (!falt_link_first(plan, axis, polyphase[axis], &link[axis])) return false;
  return true;
}

bool falt_links_next(const falt_generic_plan *plan, const falt_polyphase polyphase[3], falt_link link[3]) {
  int axis = 2;
  while (axis >= 0 && !falt_link_next(plan, axis, polyphase[axis], &link[axis])) axis--;
  if (axis < 0) return false;
  for (axis++; axis < 3; axis++) falt_link_first(plan, axis, polyphase[axis], &link[axis]);
  return true;
}

bool falt_link_is_main(const falt_link *link) {
  return link->at == INT64_MIN;
}

/* ---- pair by pair */

falt_meet falt_meet_start(const falt_generic_plan *plan, int axis, int64_t i) {
  const falt_axis *a = &plan->p.axis[axis];
  falt_meet meet = {.axis = a,
                    .gathers = plan->gathers,
                    .i = i,
                    .in = plan->p.input.size[FALT_D + axis],
                    .taps = plan->p.filter.size[FALT_D + axis],
                    .out = plan->p.output.size[FALT_D + axis],
                    .tap = -1};
  if (!plan->gathers) return meet;
  meet.low = -a->pad[0];
  meet.high = (meet.out - 1) * a->stride + falt_extent(a, meet.taps) - 1 - a->pad[0];
  meet.u = meet.low - 1;
  meet.tap = meet.taps; /* nothing at this u */
  return meet;
}

static bool next_gathered(falt_meet *m) {
  const falt_axis *a = m->axis;
  for (;;) {
    while (++m->tap < m->taps) {
      const int64_t rest = m->u + a->pad[0] - m->tap * a->dilation;
      if (rest < 0) break;
      if (rest % a->stride != 0 || rest / a->stride >= m->out) continue;
      m->source = rest / a->stride;
      return true;
    }
    if (!falt_axis_preimage(a, m->in, m->i, m->low, m->high, &m->u)) return false;
    m->tap = -1;
  }
}

bool falt_meet_next(falt_meet *m) {
  if (m->gathers) return next_gathered(m);
  if (++m->tap >= m->taps) return false;
  const int64_t u = m->i * m->axis->stride + m->tap * m->axis->dilation - m->axis->pad[0];
  m->source = u >= 0 && u < m->in ? u : falt_axis_map(m->axis, m->in, u);
  return true;
}

/* ---- rows */

falt_cut falt_generic_cut(const falt_link *link, int64_t base, int64_t step, int64_t n) {
  const falt_axis *a = link->axis;
  const bool folds = a && (a->boundary[0] != FALT_CONSTANT || a->boundary[1] != FALT_CONSTANT);
  int64_t begin = step == 1 ? -base : step > 0 ? -floor_div(base, step) : base - link->size + 1;
  int64_t end = step == 1 ? link->size - base : step > 0 ? -floor_div(base - link->size, step) : base + 1;
  begin = falt_min(falt_max(begin, 0), n);
  end = falt_max(begin, falt_min(end, n));
  return (falt_cut){base, step, n, begin, end, folds ? link : NULL};
}

static void load_folded(const falt_generic_run *run, char *dst, int64_t row, const falt_cut *cut, int64_t from,
                        int64_t to) {
  const falt_generic_plan *plan = run->plan;
  for (int64_t i = from; i < to; i++) {
    const int64_t at = falt_link_fold(cut->link, cut->base + cut->step * i);
    if (at >= 0)
      falt_generic_load(plan, dst + (size_t)i * plan->lane->element, run->source, plan->source.type,
                        row + at * plan->source.stride[FALT_W], 1, 1);
  }
}

void falt_generic_load_cut(const falt_generic_run *run, void *dst, int64_t row, const falt_cut *cut) {
  const falt_generic_plan *plan = run->plan;
  const int64_t stride = plan->source.stride[FALT_W];
  if (cut->begin < cut->end)
    falt_generic_load(plan, (char *)dst + (size_t)cut->begin * plan->lane->element, run->source, plan->source.type,
                      row + (cut->base + cut->step * cut->begin) * stride, cut->step * stride, cut->end - cut->begin);
  if (!cut->link) return;
  load_folded(run, dst, row, cut, 0, cut->begin);
  load_folded(run, dst, row, cut, cut->end, cut->n);
}

void falt_generic_load_row(const falt_generic_run *run, void *dst, int64_t row, int64_t base, int64_t step, int64_t n,
                           const falt_link *link) {
  const falt_cut cut = falt_generic_cut(link, base, step, n);
  char *after = (char *)dst + (size_t)cut.end * run->plan->lane->element;
  if (cut.begin > 0) falt_generic_fill(run->plan, dst, run->plan->fill, cut.begin);
  if (cut.end < n) falt_generic_fill(run->plan, after, run->plan->fill, n - cut.end);
  falt_generic_load_cut(run, dst, row, &cut);
}
