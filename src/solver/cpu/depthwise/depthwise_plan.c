/* Plans layers of small groups: applicability, vectors, packed weights, and the estimate. depthwise_spans.c cuts rows
 * into spans, depthwise_task.c runs them. */
#include "solver/cpu/depthwise/depthwise.h"

/* ---- which problems */

/* Filters of narrow types are read in any order of channels, and to the last bit, by solvers of their own. */
static const char *type_refusal(const falt_problem *p) {
  return falt_problem_is_f32(p) ? NULL : p->is_filter ? "a filter that is not f32" : falt_upconvert_refusal(p);
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

/* ---- the whole */

/* Taps of output q of the link. */
static int64_t taps_inside(const falt_link *link, int64_t q) {
  const int64_t at = link->base + link->step * q;
  const int64_t first = at < 0 ? falt_ceil_div(-at, link->tap_step) : 0;
  const int64_t end = at < link->size ? falt_min(link->taps, (link->size - 1 - at) / link->tap_step + 1) : 0;
  return falt_max(0, end - first);
}

/* counts[i] = the taps of output i along the axis. */
static void count_meets(const falt_depthwise *d, int axis, int64_t *counts) {
  falt_link link;
  for (int64_t index = 0; index < falt_polyphase_count(&d->relation, axis) && !falt_cancelled(); index++) {
    const falt_polyphase polyphase = falt_polyphase_at(&d->relation, axis, index);
    for (bool any = falt_link_first(&d->relation, axis, polyphase, &link); any && !falt_cancelled();
         any = falt_link_next(&d->relation, axis, polyphase, &link))
      for (int64_t q = link.first; q < link.first + link.count; q++)
        counts[polyphase.origin + polyphase.step * q] += taps_inside(&link, q);
  }
}

/* The most sources of one output along the axis; 0 if memory ran out. */
static int64_t meets_most(const falt_depthwise *d, int axis) {
  const falt_axis *a = &d->relation.p.axis[axis];
  const int64_t size = d->relation.result.size[FALT_D + axis];
  int64_t most = d->relation.p.filter.size[FALT_D + axis];
  if (!d->relation.gathers || (a->boundary[0] == FALT_CONSTANT && a->boundary[1] == FALT_CONSTANT)) return most;
  int64_t *counts = falt_alloc_zero((size_t)size * sizeof *counts);
  if (!counts) return 0;
  count_meets(d, axis, counts);
  for (int64_t i = 0; i < size; i++) most = falt_max(most, counts[i]);
  falt_free(counts);
  return most;
}

double falt_depthwise_inside(const falt_problem *p, int axis) {
  const falt_axis *a = &p->axis[axis];
  const int dim = FALT_D + axis;
  if (a->boundary[0] != FALT_CONSTANT || a->boundary[1] != FALT_CONSTANT || p->boundary_value != 0) return 1;
  return falt_axis_inside(a, p->input.size[dim], p->filter.size[dim], p->output.size[dim]);
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

/* Columns of the source that are shuffled for a multiply-add: one, or fewer if taps share them. */
static double shuffles(const falt_depthwise *d) {
  double products = 0;
  for (int taps = 1; taps <= FALT_DEPTHWISE_TAPS; taps++) products += d->products[taps];
  return d->unit.reads == FALT_READS_PICK && products > 0 ? d->columns / products : 0;
}

double falt_depthwise_flops(const falt_depthwise *d) {
  const double lanes = (double)(d->vectors * d->kernels->width) / (double)d->channels;
  /* the overhead of a call: a few hundred multiply-adds a span and source row */
  const double calls = 300.0 * (double)falt_depthwise_rows(d) * (double)(d->span_count * d->rows_most);
  return falt_problem_flops(&d->layer.p) / d->kernels->speed * d->useful * lanes * (1 + shuffles(d)) + 2 * calls;
}

double falt_depthwise_reread(const falt_depthwise *d, const falt_device *device) {
  const double unit = (double)(d->unit_vectors * d->pitch) * sizeof(float);
  const double tiles = (double)falt_depthwise_rows(d) * (double)d->tile_count;
  return 2 * unit > (double)device->caches.l2 ? unit * (double)d->units * tiles : 0;
}

/* Each vector of outputs is summed separately here: every source is read once for each, where a block of many vectors
 * and positions reads it once for all. Small groups have few sources, and a second vector only with many groups. */
static bool is_small(const falt_depthwise *d) {
  const int64_t width = d->kernels->width;
  return d->depth <= width && (d->relation.p.input.size[FALT_G] > 1 || d->unit.results <= width);
}

/* Words of groups, of one type with their weights, that exist in place, if the instruction set multiplies them. */
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

/* The problem for kernels of f32 words: tensors keep their strides, so elements keep their numbers; a converted filter
 * is dense. */
static bool set_problem(falt_depthwise *d, const falt_problem *problem) {
  const bool gathers = problem->operation == FALT_BACKWARD_DATA;
  falt_problem wide = *problem;
  size_t bytes;
  wide.input.type = wide.output.type = wide.residual.type = wide.accumulator = FALT_F32;
  if (d->kind == FALT_TILES_F32 && problem->filter.type != FALT_F32 &&
      !falt_upconvert_shape(&wide.filter, &problem->filter, &bytes))
    return false;
  falt_layer_epilogue(&d->layer, &wide);
  d->relation.p = wide;
  d->relation.gathers = gathers;
  d->relation.result = gathers ? wide.input : wide.output;
  d->relation.source = gathers ? wide.output : wide.input;
  d->relation.fill = gathers ? 0 : wide.boundary_value;
  d->source_type = gathers ? problem->output.type : problem->input.type;
  d->result_type = gathers ? problem->input.type : problem->output.type;
  d->upconverts = d->kind == FALT_TILES_F32 && d->source_type != FALT_F32;
  d->word = d->kind == FALT_TILES_F32 ? 1 : (int64_t)sizeof(float) / falt_depthwise_source_bytes(d);
  return true;
}

/* Rows under the windows of a strip of one plane, at most. */
static int64_t strip_rows(const falt_depthwise *d, int64_t lines) {
  const falt_tensor *source = &d->relation.source;
  const int64_t lines_most = d->relation.p.filter.size[FALT_H], planes = falt_max(1, d->rows_most / lines_most);
  const int64_t step = d->relation.gathers ? 1 : d->relation.p.axis[1].stride;
  return planes * falt_min(source->size[FALT_H], lines_most + (lines - 1) * step);
}

/* Converted rows of volumes are read by the outputs of several planes: a strip of lines goes through all planes, so a
 * row is converted once for the strip, not for each plane. */
static void set_strip(falt_depthwise *d, double most) {
  enum { LINES = 4 };
  if (d->relation.p.filter.size[FALT_D] == 1 || d->strip <= LINES) return;
  const double row = (double)d->relation.source.size[FALT_W] * (double)d->pixel * sizeof(float);
  const int64_t slots = strip_rows(d, LINES);
  if ((double)slots * row > most) return;
  d->strip = LINES;
  d->slots = falt_max(d->slots, falt_min(slots, d->relation.source.size[FALT_D] * d->relation.source.size[FALT_H]));
}

/* The layout of source rows for kernels. False if converted rows do not fit into a cache. */
static bool set_window(falt_depthwise *d, const falt_device *device) {
  const falt_tensor *source = &d->relation.source;
  d->block = block_of(d, device);
  d->pixel = source->stride[FALT_W] / d->word;
  d->strip = d->relation.result.size[FALT_H];
  if (!d->upconverts) return true;
  d->slots = falt_min(d->rows_most, source->size[FALT_D] * source->size[FALT_H]);
  d->pixel = falt_min(d->block * d->unit.sources, falt_depthwise_source_channels(d));
  const double row = (double)source->size[FALT_W] * (double)d->pixel * sizeof(float);
  set_strip(d, (double)device->caches.l2 / 2);
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
  *no_memory = d->rows_most == 0;
  if (*no_memory) return "memory ran out while planning";
  if (!set_window(d, device)) return "its rows in f32 are larger than a cache";
  d->useful = falt_depthwise_inside(problem, 0) * falt_depthwise_inside(problem, 1) * falt_depthwise_inside(problem, 2);
  return falt_depthwise_count(d, no_memory);
}
