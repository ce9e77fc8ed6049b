/* Fprop and dgrad as one index relation per axis: outputs at a constant pitch read taps at a constant distance. Dgrad
 * is split into the polyphase parts of the stride. Also the table of the GEMM depth. Plain C. */
#include "solver/cuda/common/igemm.h"

#include <limits.h>

#include "core/memory.h"

/* Forward, output o and tap j read position u = o*stride + j*dilation - pad.
 *
 * Dgrad: dx[i] reads output o = (i + pad - j*dilation) / stride for each tap j for which the division is exact. With i
 * = f + q*stride these taps are j = from + n*pace, pace = stride / gcd(stride, dilation), and o = q + first -
 * n*pace*dilation/stride. This is again a correlation of stride 1 with a constant tap distance, without zero products.
 */

/* ---- polyphase parts */

falt_igemm_polyphase falt_igemm_forward(const falt_igemm_axis *a) {
  return (falt_igemm_polyphase){.pitch = 1,
                                .results = a->results,
                                .step = a->stride,
                                .first = -a->pad,
                                .delta = a->dilation,
                                .taps = a->taps,
                                .pace = 1};
}

int64_t falt_igemm_polyphases(const falt_igemm_axis *a) {
  return a->stride < a->results ? a->stride : a->results;
}

falt_igemm_polyphase falt_igemm_backward(const falt_igemm_axis *a, int64_t polyphase) {
  const int64_t pace = a->stride / falt_gcd(a->stride, a->dilation);
  falt_igemm_polyphase p = {.begin = polyphase,
                            .pitch = a->stride,
                            .results = (a->results - polyphase + a->stride - 1) / a->stride,
                            .step = 1,
                            .pace = pace,
                            .delta = -(pace * a->dilation / a->stride)};
  while (p.from < a->taps && p.from < pace && (polyphase + a->pad - p.from * a->dilation) % a->stride != 0) p.from++;
  if (p.from == a->taps || p.from == pace) return p;
  p.first = (polyphase + a->pad - p.from * a->dilation) / a->stride;
  p.taps = (a->taps - 1 - p.from) / pace + 1;
  return p;
}

void falt_igemm_divisor(int64_t d, unsigned *reciprocal, int *shift) {
  int bits = 0;
  while ((INT64_C(1) << bits) < d) bits++;
  *shift = 31 + bits;
  *reciprocal = (unsigned)(((UINT64_C(1) << *shift) + (uint64_t)d - 1) / (uint64_t)d);
}

/* ---- the table */

/* A walk over a depth: taps, and the channels of each. */
typedef struct walk {
  int64_t tap[3], channel;
  bool ended;
} walk;

static void advance(walk *w, const falt_igemm_depth *d, const falt_igemm_polyphase polyphase[3]) {
  w->channel += d->piece;
  if (w->channel < d->channels) return;
  w->channel = 0;
  for (int axis = 2; axis >= 0; axis--) {
    if (++w->tap[axis] < polyphase[axis].taps) return;
    w->tap[axis] = 0;
  }
  w->ended = true;
}

static walk first_of(const falt_igemm_polyphase polyphase[3]) {
  return (walk){.ended = polyphase[0].taps * polyphase[1].taps * polyphase[2].taps == 0};
}

enum { SPAN = 16 }; /* bytes */

static bool fits_int(int64_t value) {
  return value >= INT_MIN && value <= INT_MAX;
}

static const falt_cuda_igemm_entry nowhere = {0, FALT_CUDA_IGEMM_NOWHERE | FALT_CUDA_IGEMM_EXISTS};

static int64_t way_of(const walk *w, const falt_igemm_depth *d, const falt_igemm_polyphase polyphase[3]) {
  int64_t way = 0;
  for (int axis = 0; axis < 3; axis++) way += w->tap[axis] * polyphase[axis].delta * d->axis_bytes[axis];
  return way;
}

static unsigned bits_of(const walk *w, const falt_igemm_polyphase polyphase[3]) {
  unsigned bits = FALT_CUDA_IGEMM_EXISTS;
  int64_t bit = 0;
  for (int axis = 0; axis < 3; bit += polyphase[axis++].taps) bits |= 1u << (bit + w->tap[axis]);
  return bits;
}

bool falt_igemm_entries(const falt_igemm_depth *d, const falt_igemm_polyphase polyphase[3],
                        falt_cuda_igemm_entry *entry) {
  walk w = first_of(polyphase);
  for (int64_t i = 0; i < d->entries; i++) {
    entry[i] = nowhere;
    if (w.ended) continue;
    const int64_t way = way_of(&w, d, polyphase) + w.channel * d->channel_bytes;
    if (!fits_int(way)) return false;
    entry[i] = (falt_cuda_igemm_entry){(int)way, bits_of(&w, polyphase)};
    advance(&w, d, polyphase);
  }
  return true;
}

bool falt_igemm_lie_evenly(const int64_t results[4], const int64_t step_bytes[4], const int64_t bytes[4],
                           int64_t group_bytes, falt_igemm_evenly *e) {
  int64_t count = 1;
  *e = (falt_igemm_evenly){.even = SPAN};
  for (int i = 3; i >= 0; i--) {
    if (bytes[i] < 0) return false;
    e->even = falt_gcd(e->even, bytes[i]);
    if (results[i] == 1) continue;
    if (count == 1) e->apart = step_bytes[i] % SPAN;
    if ((step_bytes[i] - count % SPAN * e->apart) % SPAN != 0) return false;
    count *= results[i];
  }
  if (group_bytes % SPAN) {
    if (e->apart || group_bytes < 0) return false;
    *e = (falt_igemm_evenly){.apart = group_bytes % SPAN, .even = falt_gcd(e->even, group_bytes), .groups = true};
  }
  e->polyphases = (int)(SPAN / falt_gcd(SPAN, e->apart));
  return true;
}

/* The channels of a tap start at most 16 - (divisor of all offsets) bytes after a multiple of 16. */
int64_t falt_igemm_span_bytes(const falt_igemm_depth *d) {
  return (d->channels * d->channel_bytes + SPAN - d->even + SPAN - 1) / SPAN * SPAN;
}

bool falt_igemm_spans(const falt_igemm_depth *d, const falt_igemm_polyphase polyphase[3], int64_t lead,
                      falt_cuda_igemm_entry *entry) {
  const int64_t bytes = d->channels * d->channel_bytes;
  const falt_igemm_depth aligned = {.channels = falt_igemm_span_bytes(d), .piece = SPAN};
  walk w = first_of(polyphase);
  for (int64_t i = 0; i < d->entries; i++) {
    entry[i] = nowhere;
    if (w.ended) continue;
    const int64_t way = way_of(&w, d, polyphase), ahead = (lead + way) & (SPAN - 1);
    const int64_t head = w.channel ? 0 : ahead, left = ahead + bytes - w.channel, end = left < SPAN ? left : SPAN;
    if (!fits_int(way - ahead + w.channel)) return false;
    if (end > head)
      entry[i] = (falt_cuda_igemm_entry){
          (int)(way - ahead + w.channel),
          bits_of(&w, polyphase) | (unsigned)head << FALT_CUDA_IGEMM_HEAD | (unsigned)(end - 1) << FALT_CUDA_IGEMM_END};
    advance(&w, &aligned, polyphase);
  }
  return true;
}

bool falt_igemm_places(const falt_igemm_depth *d, const falt_igemm_polyphase polyphase[3],
                       falt_cuda_igemm_place *place) {
  walk w = first_of(polyphase);
  for (int64_t i = 0; i < d->entries; i++) {
    place[i] = (falt_cuda_igemm_place){.channel = FALT_CUDA_IGEMM_NO_CHANNEL};
    if (w.ended) continue;
    const int64_t way = w.channel * d->channel_bytes;
    if (!fits_int(way) || way <= FALT_CUDA_IGEMM_ONES) return false;
    place[i].channel = (int)way;
    for (int axis = 0; axis < 3; axis++)
      place[i].at[axis] = (int)(polyphase[axis].first + w.tap[axis] * polyphase[axis].delta);
    advance(&w, d, polyphase);
  }
  return true;
}
