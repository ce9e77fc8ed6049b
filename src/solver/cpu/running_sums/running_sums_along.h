/* Box sums along a row of `element`, in a time that does not depend on their length. They only add, so NaN and
 * infinity reach the sums that contain them and no other. Two passes make sums of 4 and of 16 neighbours at every
 * position. A window of 16*q + r taps is q sums of 16 and the r taps behind them. Sums 16*step apart are a chain,
 * cut into blocks of q: a window is the end of one block and the beginning of the next (van Herk, 1992; Gil and
 * Werman, 1993). Chains are lanes. */
#ifndef FALT_SOLVER_CPU_RUNNING_SUMS_RUNNING_SUMS_ALONG_H
#define FALT_SOLVER_CPU_RUNNING_SUMS_RUNNING_SUMS_ALONG_H

#include "solver/cpu/running_sums/running_sums_kernels.h"

typedef element elements __attribute__((vector_size(FALT_VECTOR_BYTES), may_alias, aligned(sizeof(element))));
enum { ELEMENTS = FALT_VECTOR_BYTES / sizeof(element), FOUR = 4, SIXTEEN = 16 };

FALT_INLINE elements at(const element *from) {
  return *(const elements *)from;
}
FALT_INLINE void put(element *to, elements v) {
  *(elements *)to = v;
}

/* The windows of r < 16 taps from `first` on. */
typedef struct rest {
  const element *fours, *row; /* the first sum of four, the first single tap */
  int four, single;
  int64_t step;
} rest;

FALT_INLINE elements rest_at(const rest *r, int64_t e) {
  elements sum = {0};
  for (int i = 0; i < r->four; i++) sum += at(r->fours + e + i * FOUR * r->step);
  for (int i = 0; i < r->single; i++) sum += at(r->row + e + i * r->step);
  return sum;
}

static void sum_four(element *out, const element *row, int64_t step, int64_t n) {
  for (int64_t e = 0; e < n; e += ELEMENTS)
    put(out + e, (at(row + e) + at(row + e + step)) + (at(row + e + 2 * step) + at(row + e + 3 * step)));
}

/* One block of a vector's chains: windows [0, count), count <= q, of q sums `group` elements apart. */
FALT_INLINE void slide_block(element *out, element *sums, int64_t q, int64_t group, int64_t count) {
  elements back = at(sums + (q - 1) * group), ahead = {0};
  for (int64_t i = q - 2; i >= 0; i--) {
    back += at(sums + i * group);
    put(sums + i * group, back);
  }
  put(out, back);
  for (int64_t i = 1; i < count; i++) {
    ahead += at(sums + (i + q - 1) * group);
    put(out + i * group, at(sums + i * group) + ahead);
  }
}

static void slide(element *out, element *sums, int64_t q, int64_t group, int64_t n) {
  for (int64_t lane0 = 0; lane0 < falt_min(group, n); lane0 += ELEMENTS) {
    const int64_t windows = falt_ceil_div(n - lane0, group);
    for (int64_t i = 0; i < windows; i += q)
      slide_block(out + lane0 + i * group, sums + lane0 + i * group, q, group, falt_min(q, windows - i));
  }
}

/* What is behind the sums of 16. */
static rest rest_of(const falt_running_along *call) {
  const int64_t whole = call->taps / SIXTEEN * SIXTEEN, left = call->taps % SIXTEEN;
  const element *fours = call->fours, *row = call->row;
  return (rest){.fours = fours + whole * call->step,
                .row = row + (whole + left / FOUR * FOUR) * call->step,
                .four = (int)(left / FOUR),
                .single = (int)(left % FOUR),
                .step = call->step};
}

/* All sums of 4 and 16 neighbours inside the row. */
static void sum_neighbours(const falt_running_along *call) {
  const int64_t step = call->step, n = call->n;
  if (call->taps >= FOUR) sum_four(call->fours, call->row, step, n + (call->taps - FOUR) * step);
  if (call->taps >= SIXTEEN) sum_four(call->sixteens, call->fours, FOUR * step, n + (call->taps - SIXTEEN) * step);
}

FALT_INLINE void along_by_blocks(const falt_running_along *call) {
  const int64_t q = call->taps / SIXTEEN, left = call->taps % SIXTEEN, group = SIXTEEN * call->step;
  element *sixteens = call->sixteens, *out = call->out;
  const rest tail = rest_of(call);
  sum_neighbours(call);
  if (q > 1) slide(out, sixteens, q, group, call->n);
  if (q > 1 && left == 0) return;
  for (int64_t e = 0; e < call->n; e += ELEMENTS) {
    elements sum = rest_at(&tail, e);
    if (q > 0) sum += at((q > 1 ? out : sixteens) + e);
    put(out + e, sum);
  }
}

#endif
