/* Plans layers of small groups: which problems they take, their vectors, their packed weights, the spans of a row, and
 * the terms of the estimates. depthwise_task.c runs them. */
#include "solver/cpu/depthwise/depthwise.h"

enum { LONGEST = 64 /* tiles of a span: rows of 1D layers are shared out by spans */ };
static const int64_t MOST_TABLE = 1 << 24;

/* ---- which problems */

/* Filters of narrow types are read in any order of channels, and to the last bit, by solvers of their own. */
static const char *type_refusal(const falt_problem *p) {
  return falt_problem_is_f32(p) ? NULL : p->is_filter ? "a filter that is not f32" : falt_widen_refusal(p);
}

/* The channels of all groups in their order. */
static bool are_adjacent(const falt_tensor *t) {
  return t->size[FALT_C] == 1
             ? falt_tensor_unit(t, FALT_G)
             : t->stride[FALT_C] == 1 && (t->size[FALT_G] == 1 || t->stride[FALT_G] == t->size[FALT_C]);
}

static const char *refusal(const falt_problem *p) {
  return falt_is_pooling(p->operation) ? "only layers and filters"
         : type_refusal(p)             ? type_refusal(p)
         : !are_adjacent(&p->input) || !are_adjacent(&p->output) || (p->has_residual && !are_adjacent(&p->residual))
             ? "channels are not adjacent in memory"
             : NULL;
}

/* ---- units: as many groups as fit into a vector, or one */

static int64_t group_results(const falt_depthwise *d) {
  return d->relation.result.size[FALT_C];
}

static void set_unit(falt_depthwise *d) {
  const int64_t width = d->kernels->width, results = group_results(d), room = width / falt_max(results, d->depth);
  const int64_t groups = d->relation.result.size[FALT_G], joined = falt_max(1, room);
  falt_depthwise_unit *unit = &d->unit;
  unit->reads = room < 2 ? FALT_READS_ALL : results == 1 && d->depth == 1 ? FALT_READS_EACH : FALT_READS_PICK;
  unit->results = joined * results;
  unit->sources = joined * d->depth;
  if (unit->reads == FALT_READS_PICK)
    for (int64_t i = 0; i < unit->results; i++) unit->pick[i] = (int32_t)(i / results * d->depth);
  d->channels = groups * results;
  d->units = falt_ceil_div(groups, joined);
  d->unit_vectors = falt_ceil_div(unit->results, width);
}

/* Filters whose elements repeat one another may be far larger than memory, and whole vectors larger still. */
static bool set_weights(falt_depthwise *d, int64_t extra) {
  const falt_tensor *w = &d->layer.p.filter;
  int64_t bytes;
  return falt_mul(d->units, d->unit_vectors, &d->vectors) && falt_mul(w->size[FALT_D], w->size[FALT_H], &d->taps) &&
         falt_mul(d->taps, w->size[FALT_W], &d->taps) && falt_mul(d->taps, d->depth, &d->pitch) &&
         falt_mul(d->pitch + extra, d->kernels->width, &d->pitch) && falt_mul(d->pitch, d->vectors, &bytes) &&
         falt_mul(bytes, (int64_t)sizeof(float), &bytes);
}

/* ---- weights */

int64_t falt_depthwise_lanes(const falt_depthwise *d, int64_t vector, int64_t *lanes) {
  const int64_t width = d->kernels->width, first = vector % d->unit_vectors * width;
  const int64_t result = vector / d->unit_vectors * d->unit.results + first;
  *lanes = falt_min(falt_min(width, d->unit.results - first), d->channels - result);
  return result;
}

bool falt_depthwise_next_patch(const falt_depthwise *d, int64_t vector, falt_depthwise_patch *patch) {
  const falt_tensor *w = &d->layer.p.filter;
  const int64_t results = group_results(d);
  const int dim = d->relation.gathers ? FALT_C : FALT_K, other = d->relation.gathers ? FALT_K : FALT_C;
  int64_t lanes;
  const int64_t lane = patch->lane + patch->lanes, result = falt_depthwise_lanes(d, vector, &lanes) + lane;
  if (lane == lanes) return false;
  const int64_t within = result % results;
  *patch = (falt_depthwise_patch){.lane = lane,
                                  .lanes = results == 1 ? lanes : falt_min(lanes - lane, results - within),
                                  .k = d->relation.gathers ? 0 : within,
                                  .g = result / results,
                                  .c = d->relation.gathers ? within : 0,
                                  .lane_step = w->stride[results == 1 ? FALT_G : dim],
                                  .source_step = w->stride[other]};
  return true;
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
  return u < 0 ? FALT_DEPTHWISE_NONE : u * b->d->pixel;
}

/* Columns of a near piece from result q on that are read, if they follow each other: a boundary that leaves out what
 * is outside needs no table. */
static bool add_range(builder *b, const falt_link *link, falt_depthwise_piece piece, int64_t q, int64_t count,
                      int64_t s) {
  const int64_t every = piece.tap_every;
  if (!piece.near || !falt_link_covers(link, q) || !falt_link_covers(link, q + count - 1)) return false;
  piece.begin = piece.end = 0;
  for (int64_t i = 0; i < count + piece.taps - 1; i++) {
    const int64_t beyond = falt_max(0, i - (count - 1)); /* columns that only later taps of the last result read */
    const int64_t at = column(b, link, q + i - beyond, s + beyond * every, false);
    if (at == FALT_DEPTHWISE_NONE) continue;
    if (at != piece.from + i * piece.step || (piece.end > 0 && piece.end < i)) return false;
    if (piece.end == 0) piece.begin = i;
    piece.end = i + 1;
  }
  if (piece.end > 0) add_piece(b, &piece);
  return true;
}

/* Taps s, s + tap_every, ... of results [q, q + count), by a table; left out if nothing is read. */
static void add_listed(builder *b, const falt_link *link, falt_depthwise_piece piece, int64_t q, int64_t count,
                       int64_t s) {
  const int64_t start = b->d->table_length;
  bool any = false;
  for (int64_t j = 0; j < piece.taps; j++)
    for (int64_t i = 0; i < count; i++) {
      const int64_t at = column(b, link, q + i, s + j * piece.tap_every, piece.constant);
      any |= at != FALT_DEPTHWISE_NONE;
      add_table(b, at);
    }
  piece.near = false;
  piece.table = start;
  piece.table_length = piece.taps * count;
  if (any)
    add_piece(b, &piece);
  else
    b->d->table_length = start;
}

/* Every `every`-th tap of a link from `first` on, cut as kernels want them. */
static void add_taps(builder *b, const falt_link *link, int64_t q, int64_t count, bool edge, int64_t first,
                     int64_t every) {
  const int64_t pixel = b->d->pixel;
  falt_depthwise_piece piece = {.step = link->step * pixel,
                                .tap_step = link->tap_step * every * pixel,
                                .tap_next = link->tap_next * every,
                                .tap_every = every,
                                .near = link->step == link->tap_step * every};
  for (int64_t s = first; s < link->taps; s += piece.taps * every) {
    piece.from = (link->base + link->step * q + link->tap_step * s) * pixel;
    piece.tap = link->tap_first + link->tap_next * s;
    piece.taps = falt_depthwise_taps(b->d->unit.reads, falt_ceil_div(link->taps - s, every));
    piece.begin = 0;
    piece.end = count + piece.taps - 1;
    if (!edge)
      add_piece(b, &piece);
    else if (!add_range(b, link, piece, q, count, s))
      add_listed(b, link, piece, q, count, s);
    falt_depthwise_piece constant = piece;
    constant.constant = true;
    if (edge && b->d->relation.fill != 0) add_listed(b, link, constant, q, count, s);
  }
}

/* Where a stride is a few taps, taps that far apart are neighbours: a position reads by the one what the next position
 * reads by the other. Groups of one channel have nothing to spare but loads. */
static void add_link(builder *b, const falt_link *link, int64_t q, int64_t count, bool edge) {
  const int64_t ratio = link->tap_step != 0 ? link->step / link->tap_step : 0;
  const bool spares = b->d->unit.reads != FALT_READS_EACH;
  const int64_t every = spares && ratio > 0 && ratio * link->tap_step == link->step ? falt_min(ratio, link->taps) : 1;
  for (int64_t first = 0; first < every; first++) add_taps(b, link, q, count, edge, first, every);
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
  d->longest = falt_max(d->longest, end - q);
  d->span_count++;
}

/* Tiles of a phase; those inside that follow each other are one span. */
static void add_phase(builder *b) {
  const int64_t tile = b->d->kernels->tile;
  int64_t begin = 0; /* of the span inside that is being made */
  for (int64_t q = 0, end; q < b->phase.count && b->d->table_length <= MOST_TABLE && !falt_cancelled(); q = end) {
    end = falt_min(q + tile, b->phase.count);
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
  if (d->table_length > MOST_TABLE || falt_cancelled()) return false;
  d->spans = falt_alloc((size_t)d->span_count * sizeof *d->spans);
  d->pieces = falt_alloc((size_t)d->piece_count * sizeof *d->pieces);
  d->tables = falt_alloc((size_t)b.table_most * sizeof *d->tables);
  if (!d->spans || !d->pieces || !d->tables) return false;
  add_phases(&b, false);
  return !falt_cancelled();
}

/* ---- the whole */

static int64_t meets_most(const falt_depthwise *d, int axis) {
  const falt_axis *a = &d->relation.p.axis[axis];
  const int64_t taps = d->relation.p.filter.size[FALT_D + axis];
  int64_t most = taps;
  if (!d->relation.gathers || (a->boundary[0] == FALT_CONSTANT && a->boundary[1] == FALT_CONSTANT)) return taps;
  for (int64_t i = 0; i < d->relation.result.size[FALT_D + axis] && !falt_cancelled(); i++) {
    int64_t count = 0;
    for (falt_meet m = falt_meet_start(&d->relation, axis, i); falt_meet_next(&m);) count++;
    most = falt_max(most, count);
  }
  return most;
}

double falt_depthwise_inside(const falt_problem *p, int axis) {
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

/* How many units' windows and weights stay in half of the second-level cache, at least a line of channels. */
static int64_t block_of(const falt_depthwise *d, const falt_device *device) {
  enum { LINE = 64 };
  const int64_t rows = falt_min(d->rows_most, d->relation.source.size[FALT_D] * d->relation.source.size[FALT_H]);
  const double window = (double)rows * (double)d->relation.source.size[FALT_W] * (double)d->unit.sources;
  const double weights = (double)d->unit_vectors * (double)d->pitch;
  const double most = (double)device->caches.l2 / 2 / ((window + weights) * sizeof(float));
  const int64_t least = falt_ceil_div(LINE, d->unit.sources);
  return most >= (double)d->units ? d->units : falt_min(d->units, falt_max(least, (int64_t)most));
}

/* Columns of the source that are shuffled for a multiply-add: one, or fewer where taps share them. */
static double shuffles(const falt_depthwise *d) {
  double columns = 0, products = 0;
  for (const falt_depthwise_span *span = d->spans; span < d->spans + d->span_count; span++)
    for (const falt_depthwise_piece *p = d->pieces + span->first; p < d->pieces + span->first + span->pieces; p++) {
      columns += (double)(p->near ? span->count + p->taps - 1 : span->count * p->taps);
      products += (double)span->count * (double)p->taps;
    }
  return d->unit.reads == FALT_READS_PICK && products > 0 ? columns / products : 0;
}

int64_t falt_depthwise_tiles(const falt_depthwise *d) {
  int64_t tiles = 0;
  for (int64_t i = 0; i < d->span_count; i++) tiles += falt_ceil_div(d->spans[i].count, d->kernels->tile);
  return tiles;
}

double falt_depthwise_flops(const falt_depthwise *d) {
  const double lanes = (double)(d->vectors * d->kernels->width) / (double)d->channels;
  /* what a call costs beside its sums: a few hundred multiply-adds a span and source row */
  const double calls = 300.0 * (double)falt_depthwise_rows(d) * (double)(d->span_count * d->rows_most);
  return falt_problem_flops(&d->layer.p) / d->kernels->speed * d->useful * lanes * (1 + shuffles(d)) + 2 * calls;
}

double falt_depthwise_reread(const falt_depthwise *d, const falt_device *device) {
  const double unit = (double)(d->unit_vectors * d->pitch) * sizeof(float);
  const double tiles = (double)falt_depthwise_rows(d) * (double)falt_depthwise_tiles(d);
  return 2 * unit > (double)device->caches.l2 ? unit * (double)d->units * tiles : 0;
}

/* A vector of results is summed by itself here: every source is read once for each, where a block of many vectors and
 * positions reads it once for all. What is small has few sources, and no second vector unless groups are many. */
static bool is_small(const falt_depthwise *d) {
  const int64_t width = d->kernels->width;
  return d->depth <= width && (d->relation.p.input.size[FALT_G] > 1 || d->unit.results <= width);
}

/* Words of groups, of one type with their weights, that lie in place as such; where there is an instruction for them.
 */
static falt_tiles_kind kind_of(const falt_problem *p, falt_isa isa) {
  const falt_tensor *source = p->operation == FALT_BACKWARD_DATA ? &p->output : &p->input;
  const int64_t size = (int64_t)falt_type_size(source->type), word = (int64_t)sizeof(float);
  const bool pairs = source->type == FALT_BF16 && p->filter.type == FALT_BF16;
  const bool bytes = source->type == FALT_U8 && p->filter.type == FALT_S8;
  const falt_tiles_kind kind = pairs ? FALT_TILES_BF16 : bytes ? FALT_TILES_U8 : FALT_TILES_F32;
  const bool fits = p->operation != FALT_BACKWARD_FILTER && source->size[FALT_C] * size % word == 0 &&
                    source->stride[FALT_W] * size % word == 0 && falt_layer_has_constant(p) &&
                    falt_depthwise_kernels_of(kind, isa)->speed >= 1;
  return fits ? kind : FALT_TILES_F32;
}

/* The problem as kernels take it, words of f32 being all f32: tensors keep their strides, so that elements have the
 * same numbers; a filter that is widened is dense. */
static bool set_problem(falt_depthwise *d, const falt_problem *problem) {
  const bool gathers = problem->operation == FALT_BACKWARD_DATA;
  falt_problem wide = *problem;
  size_t bytes;
  wide.input.type = wide.output.type = wide.residual.type = wide.accumulator = FALT_F32;
  if (d->kind == FALT_TILES_F32 && problem->filter.type != FALT_F32 &&
      !falt_widen_shape(&wide.filter, &problem->filter, &bytes))
    return false;
  falt_layer_epilogue(&d->layer, &wide);
  d->relation.p = wide;
  d->relation.gathers = gathers;
  d->relation.result = gathers ? wide.input : wide.output;
  d->relation.source = gathers ? wide.output : wide.input;
  d->relation.fill = gathers ? 0 : wide.boundary_value;
  d->source_type = gathers ? problem->output.type : problem->input.type;
  d->result_type = gathers ? problem->input.type : problem->output.type;
  d->widens = d->kind == FALT_TILES_F32 && d->source_type != FALT_F32;
  d->word = d->kind == FALT_TILES_F32 ? 1 : (int64_t)sizeof(float) / falt_depthwise_source_bytes(d);
  return true;
}

/* How source rows lie for kernels. False if widened rows do not stay in a cache. */
static bool set_window(falt_depthwise *d, const falt_device *device) {
  const falt_tensor *source = &d->relation.source;
  d->block = block_of(d, device);
  d->pixel = source->stride[FALT_W] / d->word;
  if (!d->widens) return true;
  d->slots = falt_min(d->rows_most, source->size[FALT_D] * source->size[FALT_H]);
  d->pixel = falt_min(d->block * d->unit.sources, falt_depthwise_source_channels(d));
  const double row = (double)source->size[FALT_W] * (double)d->pixel * sizeof(float);
  return (double)d->slots * row <= (double)device->caches.l2;
}

const char *falt_depthwise_init(falt_depthwise *d, const falt_problem *problem, const falt_device *device,
                                int64_t extra, bool *no_memory) {
  *d = (falt_depthwise){.kind = kind_of(problem, device->isa), .convert = falt_filter_kernels_for(device->isa)};
  d->kernels = falt_depthwise_kernels_of(d->kind, device->isa);
  const char *reason = refusal(problem);
  if (reason) return reason;
  if (!set_problem(d, problem)) return "its filter in f32 exceeds 2^63 bytes";
  d->depth = d->relation.source.size[FALT_C] / d->word;
  set_unit(d);
  if (!is_small(d)) return "its groups have more channels than a vector has lanes";
  if (!set_weights(d, extra)) return "its packed filter exceeds 2^63 bytes";
  d->rows_most = meets_most(d, 0) * meets_most(d, 1);
  if (!set_window(d, device)) return "its rows in f32 are larger than a cache";
  d->useful = falt_depthwise_inside(problem, 0) * falt_depthwise_inside(problem, 1) * falt_depthwise_inside(problem, 2);
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
