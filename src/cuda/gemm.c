/* A layer and its gradient by the data read the same way: results that lie a pitch apart, taps a fixed way apart.
 *
 * Forward, output o and tap j meet u = o*stride + j*dilation - pad. Backwards, input i takes from output o = (i + pad -
 * j*dilation) / stride where that is whole. For i = f + q*stride the taps of which it is are j = from + n*pace with
 * pace = stride / gcd(stride, dilation), and o = q + first - n*pace*dilation/stride: again steps of fixed length, of
 * one stride, with no product that is zero. */
#include "cuda/gemm.h"

#include <limits.h>

/* ---- phases */

falt_gemm_phase falt_gemm_forward(const falt_gemm_axis *a) {
  return (falt_gemm_phase){.pitch = 1,
                           .results = a->results,
                           .step = a->stride,
                           .first = -a->pad,
                           .delta = a->dilation,
                           .taps = a->taps,
                           .pace = 1};
}

int64_t falt_gemm_phases(const falt_gemm_axis *a) {
  return a->stride < a->results ? a->stride : a->results;
}

static int64_t common_divisor(int64_t a, int64_t b) {
  while (b) {
    const int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

falt_gemm_phase falt_gemm_backward(const falt_gemm_axis *a, int64_t phase) {
  const int64_t pace = a->stride / common_divisor(a->stride, a->dilation);
  falt_gemm_phase p = {.begin = phase,
                       .pitch = a->stride,
                       .results = (a->results - phase + a->stride - 1) / a->stride,
                       .step = 1,
                       .pace = pace,
                       .delta = -(pace * a->dilation / a->stride)};
  while (p.from < a->taps && p.from < pace && (phase + a->pad - p.from * a->dilation) % a->stride != 0) p.from++;
  if (p.from == a->taps || p.from == pace) return p;
  p.first = (phase + a->pad - p.from * a->dilation) / a->stride;
  p.taps = (a->taps - 1 - p.from) / pace + 1;
  return p;
}

void falt_gemm_divisor(int64_t d, unsigned *reciprocal, int *shift) {
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

static void advance(walk *w, const falt_gemm_depth *d, const falt_gemm_phase phase[3]) {
  w->channel += d->piece;
  if (w->channel < d->channels) return;
  w->channel = 0;
  for (int axis = 2; axis >= 0; axis--) {
    if (++w->tap[axis] < phase[axis].taps) return;
    w->tap[axis] = 0;
  }
  w->ended = true;
}

static walk first_of(const falt_gemm_phase phase[3]) {
  return (walk){.ended = phase[0].taps * phase[1].taps * phase[2].taps == 0};
}

static bool fits_int(int64_t value) {
  return value >= INT_MIN && value <= INT_MAX;
}

bool falt_gemm_entries(const falt_gemm_depth *d, const falt_gemm_phase phase[3], falt_cuda_gemm_entry *entry) {
  walk w = first_of(phase);
  for (int64_t i = 0; i < d->entries; i++) {
    int64_t way = w.channel * d->channel_bytes, bit = 0;
    entry[i] = (falt_cuda_gemm_entry){0, FALT_CUDA_GEMM_NOWHERE | FALT_CUDA_GEMM_EXISTS};
    if (w.ended) continue;
    entry[i].bits = FALT_CUDA_GEMM_EXISTS;
    for (int axis = 0; axis < 3; axis++) {
      way += w.tap[axis] * phase[axis].delta * d->axis_bytes[axis];
      entry[i].bits |= 1u << (bit + w.tap[axis]);
      bit += phase[axis].taps;
    }
    if (!fits_int(way)) return false;
    entry[i].delta = (int)way;
    advance(&w, d, phase);
  }
  return true;
}

bool falt_gemm_places(const falt_gemm_depth *d, const falt_gemm_phase phase[3], falt_cuda_gemm_place *place) {
  walk w = first_of(phase);
  for (int64_t i = 0; i < d->entries; i++) {
    place[i] = (falt_cuda_gemm_place){.channel = FALT_CUDA_GEMM_NO_CHANNEL};
    if (w.ended) continue;
    if (!fits_int(w.channel * d->channel_bytes)) return false;
    place[i].channel = (int)(w.channel * d->channel_bytes);
    for (int axis = 0; axis < 3; axis++) place[i].at[axis] = (int)(phase[axis].first + w.tap[axis] * phase[axis].delta);
    advance(&w, d, phase);
  }
  return true;
}
