/* Runs a task of a layer of small groups: finds the source rows under the window of each output row, and lists the
 * segments that a span reads of them for the kernels. */
#include "solver/cpu/depthwise/depthwise.h"

/* ---- rows */

static void split(const falt_depthwise *d, int64_t row, int64_t at[3]) {
  const int64_t *size = d->relation.result.size, within = falt_generic_digit(&row, size[FALT_D] * size[FALT_H]);
  const int64_t first = within / (d->strip * size[FALT_D]) * d->strip, lines = falt_min(d->strip, size[FALT_H] - first);
  const int64_t rest = within - first * size[FALT_D];
  at[2] = first + rest % lines;
  at[1] = rest / lines;
  at[0] = row;
}

int64_t falt_depthwise_at(const falt_depthwise *d, const falt_tensor *tensor, int64_t row) {
  int64_t at[3];
  split(d, row, at);
  return falt_tensor_at(tensor, at[0], 0, 0, at[1], at[2], 0);
}

/* Rows under the window of `row`, at most rows_most; their number. */
static int64_t list_sources(const falt_depthwise *d, int64_t row, falt_depthwise_row *list) {
  const int64_t *taps = d->relation.p.filter.size;
  int64_t at[3], count = 0;
  split(d, row, at);
  for (falt_meet z = falt_meet_start(&d->relation, 0, at[1]); falt_meet_next(&z);)
    for (falt_meet y = falt_meet_start(&d->relation, 1, at[2]); falt_meet_next(&y);) {
      const bool constant = z.source < 0 || y.source < 0;
      if (constant && d->relation.fill == 0) continue;
      list[count++] = (falt_depthwise_row){
          .source = constant ? -1 : falt_tensor_at(&d->relation.source, at[0], 0, 0, z.source, y.source, 0),
          .tap = (z.tap * taps[FALT_H] + y.tap) * taps[FALT_W]};
    }
  return count;
}

/* ---- segments */

/* All taps of a row of the constant. */
static int64_t constant_segments(const falt_depthwise_task *t, int64_t tap, falt_depthwise_segment *segments) {
  const falt_depthwise *d = t->d;
  const int64_t taps = d->relation.p.filter.size[FALT_W], weights = d->depth * d->kernels->width;
  int64_t count = 0;
  for (int64_t s = 0; s < taps; s += segments[count++].taps)
    segments[count] = (falt_depthwise_segment){.row = t->constant,
                                               .weight = (tap + s) * weights,
                                               .weight_step = weights,
                                               .taps = falt_depthwise_taps(d->unit.reads, taps - s),
                                               .depth = d->depth};
  return count;
}

/* Lists the segments that a span reads; returns their number. */
static int64_t list_segments(const falt_depthwise_task *t, const falt_depthwise_span *span) {
  const falt_depthwise *d = t->d;
  const int64_t weights = d->depth * d->kernels->width;
  int64_t n = 0;
  for (int64_t r = 0; r < t->sources; r++) {
    if (t->rows[r].source < 0) {
      n += constant_segments(t, t->rows[r].tap, t->segments + n);
      continue;
    }
    for (int64_t i = span->first; i < span->first + span->pieces; i++) {
      const falt_depthwise_piece *p = &d->pieces[i];
      const bool listed = p->table_length > 0;
      falt_depthwise_segment segment = {.row = p->constant ? t->constant : t->rows[r].at + (listed ? 0 : p->from),
                                        .at = listed ? d->tables + p->table : NULL,
                                        .step = p->step,
                                        .tap_step = p->tap_step,
                                        .begin = p->begin,
                                        .end = p->end,
                                        .weight = (t->rows[r].tap + p->tap) * weights,
                                        .weight_step = p->tap_next * weights,
                                        .taps = p->taps,
                                        .depth = d->depth,
                                        .near = p->near};
      for (int64_t k = 0; k <= p->repeats; k++) {
        t->segments[n++] = segment;
        segment.row += p->taps * p->tap_step;
        segment.weight += p->taps * segment.weight_step;
      }
    }
  }
  return n;
}

/* ---- a task */

static int64_t segments_most(const falt_depthwise *d) {
  return d->rows_most * falt_max(d->segments_most, d->layer.p.filter.size[FALT_W]);
}

falt_depthwise_scratch falt_depthwise_lay(const falt_depthwise *d, int64_t units, int64_t extra) {
  falt_depthwise_scratch at = {.rows = 0};
  at.rows = falt_place_part(&at.parts, (size_t)d->rows_most * sizeof(falt_depthwise_row));
  at.next = falt_place_part(&at.parts, (size_t)d->rows_most * sizeof(falt_depthwise_row));
  at.segments = falt_place_part(&at.parts, (size_t)(segments_most(d) + extra) * sizeof(falt_depthwise_segment));
  at.constant =
      falt_place_part(&at.parts, d->relation.fill != 0 ? (size_t)(units * d->unit.sources) * sizeof(float) : 0);
  at.slots = falt_place_part(&at.parts, (size_t)d->slots * sizeof(falt_depthwise_slot));
  at.window = falt_place_part(&at.parts, (size_t)(d->slots * falt_depthwise_slot_floats(d)) * sizeof(float));
  return at;
}

falt_depthwise_task falt_depthwise_open(const falt_depthwise *d, const falt_depthwise_scratch *at, void *scratch,
                                        const void *source, int64_t unit, int64_t end) {
  char *memory = scratch;
  falt_depthwise_task t = {
      .d = d,
      .source = (const char *)source + unit * d->unit.sources * d->word * falt_depthwise_source_bytes(d),
      .unit = unit,
      .vector = unit * d->unit_vectors,
      .result = unit * d->unit.results,
      .rows = (falt_depthwise_row *)(void *)(memory + at->rows),
      .next = (falt_depthwise_row *)(void *)(memory + at->next),
      .segments = (falt_depthwise_segment *)(void *)(memory + at->segments),
      .constant = (float *)(void *)(memory + at->constant),
      .slots = (falt_depthwise_slot *)(void *)(memory + at->slots),
      .window = (float *)(void *)(memory + at->window)};
  t.results = falt_min(end * d->unit.results, d->channels) - t.result;
  t.channels = falt_min(end * d->unit.sources, falt_depthwise_source_channels(d)) - unit * d->unit.sources;
  for (int64_t i = 0; i < d->slots; i++) t.slots[i] = (falt_depthwise_slot){-1, -1};
  if (d->relation.fill != 0)
    for (int64_t i = 0; i < (end - unit) * d->unit.sources * d->word; i++)
      falt_store(t.constant, d->upconverts ? FALT_F32 : d->source_type, i, d->relation.fill);
  return t;
}

static const float *row_at(const falt_depthwise_task *t, int64_t element) {
  return (const float *)(const void *)(t->source + element * falt_depthwise_source_bytes(t->d));
}

static void find_rows(falt_depthwise_task *t) {
  for (int64_t r = 0; r < t->sources; r++)
    if (t->rows[r].source >= 0) t->rows[r].at = row_at(t, t->rows[r].source);
}

void falt_depthwise_advance(falt_depthwise_task *task, int64_t row, bool first, int64_t last) {
  falt_depthwise_row *const done = task->rows;
  if (first) task->next_sources = list_sources(task->d, row, task->next);
  task->rows = task->next;
  task->sources = task->next_sources;
  task->next = done;
  task->next_sources = row + 1 < last ? list_sources(task->d, row + 1, task->next) : 0;
  if (task->d->upconverts)
    falt_depthwise_bring(task);
  else
    find_rows(task);
}

/* Prefetches the source rows that the next output row reads first: one column for each of the span's positions (and
 * those between, if there is a stride). */
static void look_ahead(const falt_depthwise_task *t, const falt_depthwise_span *span, falt_depthwise_call *call) {
  const falt_generic_plan *relation = &t->d->relation;
  const int64_t stride = t->d->layer.p.axis[2].stride, pixel = t->d->pixel;
  const int64_t columns = relation->gathers ? 1 : stride;
  const int64_t first = relation->gathers ? span->origin / stride : span->origin * stride;
  int64_t last = -1;
  for (int64_t i = 0; i < t->sources; i++) last = falt_max(last, t->rows[i].source);
  call->ahead_step = columns * pixel;
  for (int64_t i = 0; i < t->next_sources; i++)
    for (int64_t c = 0; c < columns && call->ahead_count < FALT_DEPTHWISE_AHEAD; c++)
      if (t->next[i].source > last)
        call->ahead[call->ahead_count++] = row_at(t, t->next[i].source) + (first + c) * pixel;
}

falt_depthwise_call falt_depthwise_call_of(const falt_depthwise_task *task, const falt_depthwise_span *span) {
  falt_depthwise_call call = {.segments = task->segments,
                              .count = list_segments(task, span),
                              .unit = &task->d->unit,
                              .weights_pitch = task->d->pitch,
                              .positions = span->count,
                              .n = task->results};
  if (task->ahead) look_ahead(task, span, &call);
  return call;
}

/* ---- bands of a weight gradient */

falt_layer_pieces falt_depthwise_bands(int64_t rows, int64_t positions, int64_t sums) {
  enum { BANDS = 32 /* at most */, FEWEST = 256 /* positions of a band */ };
  const int64_t most_sums = 1 << 20; /* elements of all bands, beyond one band */
  const int64_t enough = falt_max(1, rows / falt_ceil_div(FEWEST, positions));
  return falt_layer_cut(rows, falt_min(falt_min(enough, BANDS), falt_max(1, most_sums / sums)));
}
