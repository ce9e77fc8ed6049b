/* Exact overlap of strided arrays: a bounded Diophantine equation in at most twelve unknowns. Equal and nested steps
 * are merged first, which leaves one to three for arrays of one buffer; a search from the largest step down then has
 * one or two values to try at each. */
#include "problem/overlap.h"

#include "core/memory.h"
#include "problem/problem.h"

enum { PATIENCE = 1 << 16 };                     /* steps of a search */
static const int64_t LARGEST = INT64_C(1) << 61; /* bytes that an array may span, so that no sum overflows */

static void drop(falt_overlap *o, int at) {
  o->count--;
  for (int i = at; i < o->count; i++) {
    o->step[i] = o->step[i + 1];
    o->last[i] = o->last[i + 1];
  }
}

/* Inserts by falling step. */
static void add_step(falt_overlap *o, int64_t step, int64_t last) {
  int at = o->count++;
  for (; at > 0 && o->step[at - 1] < step; at--) {
    o->step[at] = o->step[at - 1];
    o->last[at] = o->last[at - 1];
  }
  o->step[at] = step;
  o->last[at] = last;
}

/* Adds a tensor's steps and returns, in bytes, its lowest offset and what it reaches above that. */
static bool add_tensor(falt_overlap *o, const falt_tensor *t, int64_t *lowest, int64_t *reach) {
  const int64_t bytes = (int64_t)falt_type_size(t->type);
  int64_t most;
  if (!falt_mul(falt_tensor_span(t), bytes, &most) || most > LARGEST) return false;
  *lowest = t->offset * bytes;
  *reach = 0;
  for (int dim = 0; dim < FALT_DIMS; dim++) {
    if (t->size[dim] == 1 || t->stride[dim] == 0) continue;
    const int64_t step = (t->stride[dim] < 0 ? -t->stride[dim] : t->stride[dim]) * bytes, last = t->size[dim] - 1;
    if (t->stride[dim] < 0) *lowest -= last * step;
    *reach += last * step;
    add_step(o, step, last);
  }
  return true;
}

/* Steps that are multiples of a smaller one and do not skip what that one reaches are more of it. */
static void merge(falt_overlap *o) {
  for (int small = o->count - 1; small > 0; small--) {
    for (int large = small - 1; large >= 0; large--) {
      const int64_t times = o->step[large] / o->step[small];
      if (o->step[large] % o->step[small] != 0 || times > o->last[small] + 1) continue;
      o->last[small] += times * o->last[large];
      drop(o, large);
      small--;
    }
  }
}

static void sum_up(falt_overlap *o) {
  o->reach[o->count] = o->unit[o->count] = 0;
  o->dense[o->count] = true;
  for (int i = o->count - 1; i >= 0; i--) {
    o->reach[i] = o->reach[i + 1] + o->last[i] * o->step[i];
    o->unit[i] = falt_gcd(o->step[i], o->unit[i + 1]);
    const bool no_gap =
        i + 1 == o->count || (o->unit[i] == o->unit[i + 1] && o->step[i] <= o->reach[i + 1] + o->unit[i]);
    o->dense[i] = o->dense[i + 1] && no_gap;
  }
}

bool falt_overlap_prepare(falt_overlap *overlap, const falt_tensor *a, const falt_tensor *b) {
  int64_t low_a, low_b, reach_a, reach_b;
  *overlap = (falt_overlap){.bytes_a = (int64_t)falt_type_size(a->type), .bytes_b = (int64_t)falt_type_size(b->type)};
  if (!add_tensor(overlap, a, &low_a, &reach_a) || !add_tensor(overlap, b, &low_b, &reach_b)) return false;
  overlap->base = low_b - (low_a + reach_a);
  merge(overlap);
  sum_up(overlap);
  return true;
}

void falt_overlap_spans(const falt_overlap *overlap, int64_t *first, int64_t *last) {
  *first = 1 - overlap->bytes_b - overlap->base - overlap->reach[0];
  *last = overlap->bytes_a - 1 - overlap->base;
}

/* Whether steps from `level` on add up to something in low .. high. */
static bool can_add(const falt_overlap *o, int level, int64_t low, int64_t high, int *patience) {
  low = falt_max(low, 0);
  high = falt_min(high, o->reach[level]);
  if (low > high) return false;
  if (low == 0) return true;
  if (--*patience < 0) return true;
  if (falt_round_up(low, o->unit[level]) > high) return false;
  if (o->dense[level]) return true;
  const int64_t step = o->step[level], rest = o->reach[level + 1];
  const int64_t first = low > rest ? falt_ceil_div(low - rest, step) : 0, last = falt_min(o->last[level], high / step);
  for (int64_t i = first; i <= last; i++)
    if (can_add(o, level + 1, low - i * step, high - i * step, patience)) return true;
  return false;
}

bool falt_overlap_at(const falt_overlap *overlap, int64_t distance) {
  int64_t first, last;
  int patience = PATIENCE;
  falt_overlap_spans(overlap, &first, &last);
  if (distance < first || distance > last) return false;
  const int64_t start = distance + overlap->base;
  return can_add(overlap, 0, 1 - overlap->bytes_b - start, overlap->bytes_a - 1 - start, &patience);
}

bool falt_tensors_overlap(const falt_tensor *a, const void *a_data, const falt_tensor *b, const void *b_data) {
  falt_overlap overlap;
  return falt_overlap_prepare(&overlap, a, b) &&
         falt_overlap_at(&overlap, (int64_t)((uintptr_t)b_data - (uintptr_t)a_data));
}
