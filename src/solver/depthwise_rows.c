/* Rows, spans and segments of depthwise layers. */
#include "solver/depthwise.h"

enum { LONGEST = 64 /* tiles of a span: rows of 1D layers are shared out by spans */ };
static const int64_t MOST_TABLE = 1 << 24;

/* ---- which problems */

static bool all_f32(const falt_problem *p) {
  return p->input.type == FALT_F32 && p->filter.type == FALT_F32 && p->output.type == FALT_F32 &&
         p->accumulator == FALT_F32 && (!p->has_residual || p->residual.type == FALT_F32);
}

static const char *refusal(const falt_problem *p) {
  return falt_is_pooling(p->operation)                               ? "only layers and filters"
         : p->input.size[FALT_C] != 1 || p->output.size[FALT_C] != 1 ? "a group has more than one channel in and out"
         : !all_f32(p)                                               ? "only f32"
         : !falt_tensor_unit(&p->input, FALT_G) || !falt_tensor_unit(&p->output, FALT_G) ||
                 (p->has_residual && !falt_tensor_unit(&p->residual, FALT_G))
             ? "channels are not adjacent in memory"
             : NULL;
}

/* ---- spans */

/* Lists are made twice: counted, then filled. */
typedef struct builder {
  falt_depthwise *d;
  bool counts;
  falt_phase phase;
  int64_t table_most; /* with tables that are taken back */
} builder;

static void add_table(builder *b, int64_t at) {
  if (!b->counts) b->d->tables[b->d->table_length] = at;
  b->d->table_length++;
  b->table_most = falt_max(b->table_most, b->d->table_length);
}

static void add_piece(builder *b, const falt_depthwise_piece *piece) {
  if (!b->counts) b->d->pieces[b->d->piece_count] = *piece;
  b->d->piece_count++;
}

/* The column that result q of the phase reads by tap s of the link: an element, or NONE; of the constants' row if that
 * is asked for. */
static int64_t column(const builder *b, const falt_link *link, int64_t q, int64_t s, bool constant) {
  if (!falt_link_covers(link, q)) return FALT_DEPTHWISE_NONE;
  const int64_t u = falt_link_source(link, q, s);
  if (constant) return u < 0 ? 0 : FALT_DEPTHWISE_NONE;
  return u < 0 ? FALT_DEPTHWISE_NONE : u * b->d->relation.source.stride[FALT_W];
}

/* Taps [s, s + piece->taps) of results [q, q + count), by a table; left out if nothing is read. */
static void add_listed(builder *b, const falt_link *link, falt_depthwise_piece piece, int64_t q, int64_t count,
                       int64_t s) {
  const int64_t start = b->d->table_length;
  bool any = false;
  piece.near = piece.near && falt_link_covers(link, q) && falt_link_covers(link, q + count - 1);
  const int64_t lists = piece.near ? 1 : piece.taps, length = piece.near ? count + piece.taps - 1 : count;
  for (int64_t j = 0; j < lists; j++)
    for (int64_t i = 0; i < length; i++) {
      const int64_t beyond = falt_max(0, i - (count - 1)); /* columns that only later taps of the last result read */
      const int64_t at = column(b, link, q + i - beyond, s + j + beyond, piece.constant);
      any |= at != FALT_DEPTHWISE_NONE;
      add_table(b, at);
    }
  piece.table = start;
  piece.table_length = lists * length;
  if (any)
    add_piece(b, &piece);
  else
    b->d->table_length = start;
}

static void add_link(builder *b, const falt_link *link, int64_t q, int64_t count, bool edge) {
  const int64_t stride = b->d->relation.source.stride[FALT_W];
  const bool near = link->step == link->tap_step && link->taps > 1;
  const falt_layer_pieces chunks = falt_layer_cut(link->taps, falt_ceil_div(link->taps, FALT_DEPTHWISE_TAPS));
  for (int64_t c = 0; c < chunks.count; c++) {
    const int64_t s = falt_layer_piece(&chunks, c);
    falt_depthwise_piece piece = {.from = (link->base + link->step * q + link->tap_step * s) * stride,
                                  .step = link->step * stride,
                                  .tap_step = link->tap_step * stride,
                                  .tap = link->tap_first + link->tap_next * s,
                                  .tap_next = link->tap_next,
                                  .taps = (int)(falt_layer_piece(&chunks, c + 1) - s),
                                  .near = near};
    if (!edge) {
      add_piece(b, &piece);
      continue;
    }
    add_listed(b, link, piece, q, count, s);
    piece.constant = true;
    if (b->d->relation.fill != 0) add_listed(b, link, piece, q, count, s);
  }
}

static bool meets(const falt_link *link, int64_t q, int64_t end) {
  return link->first < end && link->first + link->count > q;
}

/* Whether results [q, end) read by the main link alone, and all of its taps inside the source. */
static bool is_inside(const builder *b, int64_t q, int64_t end) {
  falt_link link;
  bool main = false;
  for (bool any = falt_link_first(&b->d->relation, 2, b->phase, &link); any;
       any = falt_link_next(&b->d->relation, 2, b->phase, &link)) {
    const int64_t first = link.base + link.step * q;
    const int64_t last = link.base + link.step * (end - 1) + link.tap_step * (link.taps - 1);
    if (!meets(&link, q, end)) continue;
    if (!falt_link_is_main(&link) || first < 0 || last >= link.size) return false;
    main = true;
  }
  return main;
}

static void add_span(builder *b, int64_t q, int64_t end, bool edge) {
  falt_depthwise *d = b->d;
  falt_link link;
  if (q >= end) return;
  const int64_t first = d->piece_count;
  for (bool any = falt_link_first(&d->relation, 2, b->phase, &link); any;
       any = falt_link_next(&d->relation, 2, b->phase, &link))
    if (meets(&link, q, end)) add_link(b, &link, q, end - q, edge);
  if (!b->counts)
    d->spans[d->span_count] = (falt_depthwise_span){b->phase.origin + b->phase.step * q, b->phase.step, end - q, first,
                                                    d->piece_count - first};
  d->pieces_most = falt_max(d->pieces_most, d->piece_count - first);
  d->span_count++;
}

/* Tiles of a phase; those inside that follow each other are one span. */
static void add_phase(builder *b) {
  const int64_t tile = b->d->kernels->tile;
  const falt_layer_pieces tiles = falt_layer_cut(b->phase.count, falt_ceil_div(b->phase.count, tile));
  int64_t begin = 0; /* of the span inside that is being made */
  for (int64_t i = 0; i < tiles.count; i++) {
    const int64_t q = falt_layer_piece(&tiles, i), end = falt_layer_piece(&tiles, i + 1);
    const bool inside = is_inside(b, q, end);
    if (!inside || end - begin > LONGEST * tile) {
      add_span(b, begin, q, false);
      begin = q;
    }
    if (inside) continue;
    add_span(b, q, end, true);
    begin = end;
  }
  add_span(b, begin, b->phase.count, false);
}

static void add_phases(builder *b, bool counts) {
  falt_depthwise *d = b->d;
  b->counts = counts;
  d->span_count = d->piece_count = d->table_length = 0;
  for (int64_t i = 0; i < falt_phase_count(&d->relation, 2); i++) {
    b->phase = falt_phase_at(&d->relation, 2, i);
    add_phase(b);
  }
}

static bool build_spans(falt_depthwise *d) {
  builder b = {.d = d};
  add_phases(&b, true);
  if (d->table_length > MOST_TABLE) return false;
  d->spans = falt_alloc((size_t)d->span_count * sizeof *d->spans);
  d->pieces = falt_alloc((size_t)d->piece_count * sizeof *d->pieces);
  d->tables = falt_alloc((size_t)b.table_most * sizeof *d->tables);
  if (!d->spans || !d->pieces || !d->tables) return false;
  add_phases(&b, false);
  return true;
}

/* ---- rows */

static int64_t meets_most(const falt_depthwise *d, int axis) {
  const falt_axis *a = &d->relation.p.axis[axis];
  const int64_t taps = d->relation.p.filter.size[FALT_D + axis];
  int64_t most = taps;
  if (!d->relation.gathers || (a->boundary[0] == FALT_CONSTANT && a->boundary[1] == FALT_CONSTANT)) return taps;
  for (int64_t i = 0; i < d->relation.result.size[FALT_D + axis]; i++) {
    int64_t count = 0;
    for (falt_meet m = falt_meet_start(&d->relation, axis, i); falt_meet_next(&m);) count++;
    most = falt_max(most, count);
  }
  return most;
}

static void split(const falt_depthwise *d, int64_t row, int64_t at[3]) {
  const int64_t *size = d->relation.result.size;
  at[2] = falt_generic_digit(&row, size[FALT_H]);
  at[1] = falt_generic_digit(&row, size[FALT_D]);
  at[0] = row;
}

int64_t falt_depthwise_at(const falt_depthwise *d, const falt_tensor *tensor, int64_t row) {
  int64_t at[3];
  split(d, row, at);
  return falt_tensor_at(tensor, at[0], 0, 0, at[1], at[2], 0);
}

int64_t falt_depthwise_sources(const falt_depthwise *d, int64_t row, falt_depthwise_row *list) {
  const int64_t *taps = d->relation.p.filter.size;
  int64_t at[3], count = 0;
  split(d, row, at);
  for (falt_meet z = falt_meet_start(&d->relation, 0, at[1]); falt_meet_next(&z);)
    for (falt_meet y = falt_meet_start(&d->relation, 1, at[2]); falt_meet_next(&y);) {
      const bool constant = z.source < 0 || y.source < 0;
      if (constant && d->relation.fill == 0) continue;
      list[count++] =
          (falt_depthwise_row){constant ? -1 : falt_tensor_at(&d->relation.source, at[0], 0, 0, z.source, y.source, 0),
                               (z.tap * taps[FALT_H] + y.tap) * taps[FALT_W]};
    }
  return count;
}

/* ---- segments */

/* All taps of a row of the constant. */
static int64_t constant_segments(const falt_depthwise *d, int64_t tap, const float *constant,
                                 falt_depthwise_segment *segments) {
  const int64_t taps = d->relation.p.filter.size[FALT_W], width = d->kernels->width;
  int64_t count = 0;
  for (int64_t s = 0; s < taps; s += FALT_DEPTHWISE_TAPS)
    segments[count++] = (falt_depthwise_segment){.row = constant,
                                                 .weight = (tap + s) * width,
                                                 .weight_step = width,
                                                 .taps = (int)falt_min(FALT_DEPTHWISE_TAPS, taps - s)};
  return count;
}

int64_t falt_depthwise_segments(const falt_depthwise *d, const falt_depthwise_span *span,
                                const falt_depthwise_row *rows, int64_t count, const float *source,
                                const float *constant, falt_depthwise_segment *segments) {
  const int64_t width = d->kernels->width;
  int64_t n = 0;
  for (int64_t r = 0; r < count; r++) {
    if (rows[r].source < 0) {
      n += constant_segments(d, rows[r].tap, constant, segments + n);
      continue;
    }
    for (int64_t i = span->first; i < span->first + span->pieces; i++) {
      const falt_depthwise_piece *p = &d->pieces[i];
      const bool listed = p->table_length > 0;
      segments[n++] =
          (falt_depthwise_segment){.row = p->constant ? constant : source + rows[r].source + (listed ? 0 : p->from),
                                   .at = listed ? d->tables + p->table : NULL,
                                   .step = p->step,
                                   .tap_step = p->tap_step,
                                   .weight = (rows[r].tap + p->tap) * width,
                                   .weight_step = p->tap_next * width,
                                   .taps = p->taps,
                                   .near = p->near};
    }
  }
  return n;
}

void falt_depthwise_ahead(const falt_depthwise *d, const falt_depthwise_span *span, const falt_depthwise_row *rows,
                          int64_t count, const falt_depthwise_row *next, int64_t next_count, const float *source,
                          falt_depthwise_call *call) {
  const int64_t stride = d->layer.p.axis[2].stride, pixel = d->relation.source.stride[FALT_W];
  const int64_t columns = d->relation.gathers ? 1 : stride;
  const int64_t first = d->relation.gathers ? span->origin / stride : span->origin * stride;
  int64_t last = -1;
  for (int64_t i = 0; i < count; i++) last = falt_max(last, rows[i].source);
  call->ahead_count = 0;
  call->ahead_step = columns * pixel;
  for (int64_t i = 0; i < next_count; i++)
    for (int64_t c = 0; c < columns && call->ahead_count < FALT_DEPTHWISE_AHEAD; c++)
      if (next[i].source > last) call->ahead[call->ahead_count++] = source + next[i].source + (first + c) * pixel;
}

/* ---- the whole */

/* Of an axis's taps over all outputs, the share that stands inside the input. */
static double share_inside(const falt_problem *p, int axis) {
  const falt_axis *a = &p->axis[axis];
  const int64_t in = p->input.size[FALT_D + axis], taps = p->filter.size[FALT_D + axis],
                out = p->output.size[FALT_D + axis];
  double inside = 0;
  if (a->boundary[0] != FALT_CONSTANT || a->boundary[1] != FALT_CONSTANT || p->boundary_value != 0) return 1;
  for (int64_t j = 0; j < taps; j++) {
    const falt_axis tap = {.stride = a->stride, .dilation = 1, .pad = {a->pad[0] - j * a->dilation, 0}};
    int64_t begin, end;
    falt_axis_interior(&tap, in, 1, out, &begin, &end);
    inside += (double)(end - begin);
  }
  return inside / ((double)taps * (double)out);
}

int64_t falt_depthwise_block(const falt_depthwise *d, const falt_device *device) {
  const int64_t pixel = d->kernels->width * (int64_t)sizeof(float);
  const int64_t rows = falt_min(d->rows_most, d->relation.source.size[FALT_D] * d->relation.source.size[FALT_H]);
  const double window = (double)rows * (double)d->relation.source.size[FALT_W] * (double)pixel;
  const double most = (double)device->caches.l2 / 2 / window;
  return most >= (double)d->vectors ? d->vectors : falt_min(d->vectors, falt_max(4, (int64_t)most));
}

const char *falt_depthwise_init(falt_depthwise *d, const falt_problem *problem, falt_isa isa, int64_t extra,
                                bool *no_memory) {
  *d = (falt_depthwise){.kernels = falt_depthwise_kernels_for(isa)};
  const char *reason = refusal(problem);
  if (reason) return reason;
  const bool gathers = problem->operation == FALT_BACKWARD_DATA;
  falt_layer_epilogue(&d->layer, problem);
  d->relation.p = *problem;
  d->relation.gathers = gathers;
  d->relation.result = gathers ? problem->input : problem->output;
  d->relation.source = gathers ? problem->output : problem->input;
  d->relation.fill = gathers ? 0 : problem->boundary_value;
  d->channels = problem->input.size[FALT_G];
  d->vectors = falt_ceil_div(d->channels, d->kernels->width);
  d->taps = problem->filter.size[FALT_D] * problem->filter.size[FALT_H] * problem->filter.size[FALT_W];
  d->pitch = (d->taps + extra) * d->kernels->width;
  d->rows_most = meets_most(d, 0) * meets_most(d, 1);
  d->useful = share_inside(problem, 0) * share_inside(problem, 1) * share_inside(problem, 2);
  if (!build_spans(d)) {
    *no_memory = d->table_length <= MOST_TABLE;
    return "its table of columns is too large";
  }
  return NULL;
}

void falt_depthwise_free(falt_depthwise *d) {
  falt_free(d->spans);
  falt_free(d->pieces);
  falt_free(d->tables);
}
