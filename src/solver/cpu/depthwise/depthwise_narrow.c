/* Layers of small groups of narrow types: converts rows to f32 in a worker's scratch. */
#include <math.h>

#include "solver/cpu/depthwise/depthwise.h"

/* ---- strips */

/* How many of `count` columns are one run in both memories. */
static falt_depthwise_strip join_columns(const falt_depthwise_strip *s) {
  const bool joined = s->step == s->n && s->pixel == s->n;
  return joined ? (falt_depthwise_strip){1, s->count * s->n, 0, 0} : *s;
}

void falt_depthwise_upconvert(const falt_depthwise *d, const falt_depthwise_strip *strip, falt_type type,
                              const void *narrow, float *wide) {
  const falt_depthwise_strip s = join_columns(strip);
  const char *from = narrow;
  for (int64_t i = 0; i < s.count; i++, from += s.step * (int64_t)falt_type_size(type), wide += s.pixel)
    d->convert->load[FALT_LANE_F32][type](wide, from, 1, s.n);
}

void falt_depthwise_narrow(const falt_depthwise *d, const falt_depthwise_strip *strip, falt_type type,
                           const float *wide, void *narrow) {
  static const falt_row_epilogue none = {.alpha = 1, .low = -INFINITY, .high = INFINITY};
  const falt_depthwise_strip s = join_columns(strip);
  char *to = narrow;
  for (int64_t i = 0; i < s.count; i++, to += s.step * (int64_t)falt_type_size(type), wide += s.pixel)
    d->convert->store[FALT_LANE_F32][type](to, 1, wide, s.n, &none, false);
}

/* ---- the window */

/* The slot whose row was read last longest ago; of these the first row's. */
static int64_t oldest_slot(const falt_depthwise_task *t) {
  int64_t oldest = 0;
  for (int64_t i = 1; i < t->d->slots; i++) {
    const falt_depthwise_slot *a = &t->slots[i], *b = &t->slots[oldest];
    if (a->step < b->step || (a->step == b->step && a->source < b->source)) oldest = i;
  }
  return oldest;
}

/* Converts a source row to a slot that no row of this step uses. */
static void upconvert_row(falt_depthwise_task *t, int64_t source) {
  const falt_depthwise *d = t->d;
  const int64_t *stride = d->relation.source.stride, size = (int64_t)falt_type_size(d->source_type);
  const falt_depthwise_strip strip = {d->relation.source.size[FALT_W], t->channels, stride[FALT_W], d->pixel};
  const int64_t i = oldest_slot(t);
  t->slots[i] = (falt_depthwise_slot){source, t->step};
  falt_depthwise_upconvert(d, &strip, d->source_type, t->source + source * size,
                           t->window + i * falt_depthwise_slot_floats(d));
}

/* The slot that has a source row; none: their number. */
static int64_t slot_of(const falt_depthwise_task *t, int64_t source) {
  int64_t i = 0;
  while (i < t->d->slots && t->slots[i].source != source) i++;
  return i;
}

/* The task's rows in f32. Present rows are kept before missing ones are converted. */
void falt_depthwise_bring(falt_depthwise_task *t) {
  const falt_depthwise *d = t->d;
  t->step++;
  for (int64_t r = 0; r < t->sources; r++) {
    const int64_t slot = t->rows[r].source < 0 ? d->slots : slot_of(t, t->rows[r].source);
    if (slot < d->slots) t->slots[slot].step = t->step;
  }
  for (int64_t r = 0; r < t->sources; r++) {
    const int64_t source = t->rows[r].source;
    if (source < 0) continue;
    if (slot_of(t, source) == d->slots) upconvert_row(t, source);
    t->rows[r].at = t->window + slot_of(t, source) * falt_depthwise_slot_floats(d);
  }
}

/* ---- filters and estimates */

size_t falt_depthwise_wide_bytes(const falt_depthwise *d, const falt_problem *p) {
  falt_tensor wide;
  size_t bytes = 0;
  if (p->filter.type != d->layer.p.filter.type) falt_upconvert_shape(&wide, &p->filter, &bytes);
  return bytes;
}

/* Conversions of narrow data tensors: on load and on store, or in kernels of narrow types. */
double falt_depthwise_conversions(const falt_depthwise *d, const falt_problem *p) {
  static const double per_narrow = 4;
  const bool narrows = p->operation != FALT_BACKWARD_FILTER;
  const falt_tensor *source = d->relation.gathers ? &p->output : &p->input;
  const falt_tensor *result = d->relation.gathers ? &p->input : &p->output;
  double flops = d->upconverts ? falt_upconvert_flops(source) : 0;
  if (d->kind != FALT_TILES_F32)
    flops += per_narrow * (double)falt_tensor_count(result);
  else if (result->type != FALT_F32)
    flops += (narrows ? falt_downconvert_flops : falt_upconvert_flops)(result);
  if (p->has_residual && p->residual.type != FALT_F32) flops += falt_upconvert_flops(&p->residual);
  return flops;
}
