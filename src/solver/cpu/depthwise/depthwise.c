/* Solvers depthwise and grouped: NHWC layers of small groups, fprop and dgrad, with vectors along channels. For
 * depthwise layers:
 *
 *     y[p, g] = sum over taps j of  w[g, j] * x[p*stride + j*dilation - pad, g]
 *     dx[i, g] = sum over the pairs (p, j) with p*stride + j*dilation - pad = i of  w[g, j] * dy[p, g]
 */
#include <stdint.h>
#include <string.h>

#include "solver/cpu/common/rows.h"
#include "solver/cpu/depthwise/depthwise.h"

/* Both are sums over (tap, source position) pairs. In dgrad the positions of one polyphase part of the stride have the
 * pairs of a correlation with every (stride)-th tap, last tap first, so no zero is multiplied
 * (solver/generic/generic_axis.c). Taps outside are skipped by rows and by columns if the constant is zero.
 *
 * A task is a band of rows by a block of channels, so small that the rows under the window stay in the L2 cache: each
 * byte is loaded from memory once. */

typedef struct depthwise_plan {
  falt_plan base;
  falt_depthwise d;
  falt_layer_pieces blocks;  /* of units of channels */
  falt_layer_pieces bands;   /* of rows of outputs */
  falt_layer_pieces parts;   /* of spans */
  bool ahead;                /* the next row is prefetched during the sums of one */
  bool stream;               /* outputs bypass the caches */
  bool waits;                /* the outputs of a span are f32 first, then narrowed */
  const void *values;        /* the filter, from planning until it is packed */
  float *packed;             /* or NULL if the filter is given with each execution */
  size_t factors, filter;    /* offsets into the workspace */
  size_t wide;               /* the filter in f32 */
  falt_depthwise_scratch at; /* in each worker's scratch */
  size_t results, residual;  /* the same, behind it: of a span, in f32 */
} depthwise_plan;

/* ---- packing: vectors of (tap, source, lane) */

typedef struct packing {
  const falt_depthwise *d;
  const falt_layer_kernels *copies;
  const char *filter;
  float *packed;
  falt_layer_pieces tasks; /* of vectors */
} packing;

enum { PACKED_BY_TASK = 1 << 14 }; /* elements: less is not worth waking a thread for */

/* Weights of neighbouring lanes, one element of a word of each. */
static void pack_lanes(const char *from, int64_t step, int64_t n, int64_t size, char *to) {
  for (int64_t i = 0; i < n; i++, from += step * size, to += sizeof(float))
    if (size == sizeof(float))
      memcpy(to, from, sizeof(float));
    else
      memcpy(to, from, (size_t)size);
}

/* All taps of a patch of floats; `to` is of its first lane. */
static void pack_floats(const packing *pack, const falt_depthwise_patch *patch, float *to) {
  const falt_depthwise *d = pack->d;
  const falt_tensor *w = &d->layer.p.filter;
  const float *from =
      (const float *)(const void *)pack->filter + falt_tensor_at(w, patch->k, patch->g, patch->c, 0, 0, 0);
  for (int64_t j = 0; j < d->depth; j++)
    falt_layer_copy_taps(pack->copies, w, from + j * patch->source_step, patch->lane_step, patch->lanes,
                         to + j * d->kernels->width, d->depth * d->kernels->width);
}

/* The same for words of narrow elements. */
static void pack_words(const packing *pack, const falt_depthwise_patch *patch, float *to) {
  const falt_depthwise *d = pack->d;
  const falt_tensor *w = &d->layer.p.filter;
  const int64_t width = d->kernels->width, size = (int64_t)falt_type_size(w->type);
  for (int64_t t = 0; t < w->size[FALT_D]; t++)
    for (int64_t r = 0; r < w->size[FALT_H]; r++)
      for (int64_t s = 0; s < w->size[FALT_W]; s++) {
        const char *from = pack->filter + falt_tensor_at(w, patch->k, patch->g, patch->c, t, r, s) * size;
        for (int64_t j = 0; j < d->depth; j++, to += width)
          for (int64_t e = 0; e < d->word; e++, from += patch->source_step * size)
            pack_lanes(from, patch->lane_step, patch->lanes, size, (char *)to + e * size);
      }
}

static bool packs_words(const falt_depthwise *d) {
  return d->word > 1 || d->layer.p.filter.type != FALT_F32;
}

static void pack_vector(const packing *pack, int64_t v) {
  float *to = pack->packed + v * pack->d->pitch;
  memset(to, 0, (size_t)pack->d->pitch * sizeof *to);
  falt_depthwise_patch patch = {0};
  while (falt_depthwise_next_patch(pack->d, v, &patch))
    (packs_words(pack->d) ? pack_words : pack_floats)(pack, &patch, to + patch.lane);
}

static void pack_task(void *context, int64_t index) {
  const packing *pack = context;
  const int64_t end = falt_layer_piece(&pack->tasks, index + 1);
  for (int64_t v = falt_layer_piece(&pack->tasks, index); v < end && !falt_cancelled(); v++) pack_vector(pack, v);
}

/* `wide` has room for a narrow filter in f32. */
static void pack(const depthwise_plan *plan, const void *filter, float *wide, float *packed) {
  const falt_tensor *given = &plan->base.problem.filter;
  const falt_tensor *taken = &plan->d.layer.p.filter;
  const bool upconverts = given->type != taken->type;
  if (upconverts) falt_upconvert(plan->base.device, given, filter, taken, wide);
  const int64_t vectors = plan->d.vectors, tasks = falt_ceil_div(vectors * plan->d.pitch, PACKED_BY_TASK);
  packing p = {.d = &plan->d,
               .copies = falt_layer_kernels_for(plan->base.device->isa),
               .filter = upconverts ? (const char *)wide : filter,
               .packed = packed,
               .tasks = falt_layer_cut(vectors, falt_min(vectors, tasks))};
  falt_parallel_for(plan->base.device->threads, p.tasks.count, pack_task, &p);
}

/* ---- execute */

typedef struct execution {
  const depthwise_plan *plan;
  const falt_operands *operands;
  const float *weights, *factors;
  const void *source;
  char *result;
  bool stream;
} execution;

/* The elements of a tensor that a span reads or writes: from `element` on, or in f32 in a worker's scratch. */
typedef struct place {
  falt_depthwise_strip strip;
  falt_type type;
  char *there; /* NULL: no such tensor */
  float *here;
} place;

/* `scratch`, if there is any, is used where the tensor is narrow. */
static place place_of(const falt_depthwise_task *t, const falt_depthwise_span *span, const falt_tensor *tensor,
                      falt_type type, const void *data, int64_t row, float *scratch) {
  const int64_t pixel = tensor->stride[FALT_W], size = (int64_t)falt_type_size(type);
  const bool waits = type != FALT_F32 && scratch;
  place p = {.strip = {span->count, t->results, span->step * pixel, t->results}, .type = type};
  if (!data) return p;
  p.there = (char *)(uintptr_t)data + (row + t->result + span->origin * pixel) * size;
  p.here = waits ? scratch : (float *)(void *)p.there;
  if (!waits) p.strip.pixel = p.strip.step;
  return p;
}

static void run_row(const execution *run, const falt_depthwise_task *t, int64_t row, int64_t first_span,
                    int64_t last_span, char *scratch) {
  const depthwise_plan *plan = run->plan;
  const falt_depthwise *d = t->d;
  const falt_tensor *y = &d->relation.result, *z = &d->layer.p.residual;
  const int64_t y_row = falt_depthwise_at(d, y, row), z_row = falt_depthwise_at(d, z, row);
  const void *residuals = d->layer.p.has_residual ? run->operands->residual : NULL;
  float *wide_results = plan->waits ? (float *)(void *)(scratch + plan->results) : NULL;
  float *wide_residual = (float *)(void *)(scratch + plan->residual);
  falt_depthwise_finish finish = {.scale = run->factors + t->result,
                                  .offset = run->factors + d->channels + t->result,
                                  .curve = d->layer.curve,
                                  .slope = (float)d->layer.p.act_a,
                                  .low = (float)d->layer.low,
                                  .high = (float)d->layer.high};
  for (int64_t i = first_span; i < last_span && !falt_cancelled(); i++) {
    const falt_depthwise_span *span = &d->spans[i];
    const place out = place_of(t, span, y, d->result_type, run->result, y_row, wide_results);
    const place residual = place_of(t, span, z, plan->base.problem.residual.type, residuals, z_row, wide_residual);
    if (residual.there && residual.type != FALT_F32)
      falt_depthwise_upconvert(d, &residual.strip, residual.type, residual.there, residual.here);
    finish.residual = residual.here;
    finish.residual_step = residual.strip.pixel;
    falt_depthwise_call call = falt_depthwise_call_of(t, span);
    call.weights = run->weights + t->vector * d->pitch;
    call.type = plan->waits ? FALT_F32 : d->result_type;
    call.out = out.here;
    call.out_step = out.strip.pixel;
    call.stream = run->stream;
    call.finish = d->layer.plain ? NULL : &finish;
    d->kernels->sums(&call);
    if (plan->waits) falt_depthwise_narrow(d, &out.strip, out.type, out.here, out.there);
  }
}

static void run_task(void *context, int64_t index, void *scratch) {
  const execution *run = context;
  const depthwise_plan *plan = run->plan;
  const int64_t part = falt_generic_digit(&index, plan->parts.count);
  const int64_t band = falt_generic_digit(&index, plan->bands.count);
  const int64_t first = falt_layer_piece(&plan->bands, band), last = falt_layer_piece(&plan->bands, band + 1);
  falt_depthwise_task t =
      falt_depthwise_open(&plan->d, &plan->at, scratch, run->source, falt_layer_piece(&plan->blocks, index),
                          falt_layer_piece(&plan->blocks, index + 1));
  t.ahead = plan->ahead;
  for (int64_t row = first; row < last && !falt_cancelled(); row++) {
    falt_depthwise_advance(&t, row, row == first, last);
    run_row(run, &t, row, falt_layer_piece(&plan->parts, part), falt_layer_piece(&plan->parts, part + 1), scratch);
  }
}

static void execute(const falt_plan *base, const falt_operands *operands) {
  const depthwise_plan *plan = (const depthwise_plan *)base;
  const falt_depthwise *d = &plan->d;
  char *workspace = operands->workspace;
  float *factors = (float *)(void *)(workspace + plan->factors), *room = (float *)(void *)(workspace + plan->filter);
  if (!plan->packed) pack(plan, operands->filter, (float *)(void *)(workspace + plan->wide), room);
  if (!d->layer.plain) falt_layer_factors(&d->layer, operands, factors);
  execution run = {.plan = plan,
                   .operands = operands,
                   .source = falt_factor_data(base->problem.operation, operands, 0),
                   .result = falt_result_data(base->problem.operation, operands),
                   .weights = plan->packed ? plan->packed : room,
                   .factors = factors};
  run.stream = plan->stream && (uintptr_t)run.result % FALT_ALIGN == 0;
  const falt_row_job job = {run_task, &run, plan->blocks.count * plan->bands.count * plan->parts.count,
                            plan->at.parts.total};
  falt_rows_run(base->device, &job, workspace);
}

static void print(const falt_plan *base, falt_text *text) {
  static const char *const words[FALT_TILES_KIND_COUNT] = {
      [FALT_TILES_U8] = " quads", [FALT_TILES_BF16] = " pairs", [FALT_TILES_F32] = ""};
  const depthwise_plan *plan = (const depthwise_plan *)base;
  falt_text_add(text, "(%s %s%s channels=%lld rows=%lld threads=%d)", base->solver->name,
                falt_isa_name(base->device->isa), words[plan->d.kind],
                (long long)(falt_layer_most(&plan->blocks) * plan->d.unit.results),
                (long long)falt_layer_most(&plan->bands), falt_threads_count(base->device->threads));
}

static void destroy(falt_plan *base) {
  depthwise_plan *plan = (depthwise_plan *)base;
  falt_depthwise_free(&plan->d);
  falt_free(plan->packed);
  falt_free(plan);
}

/* ---- applicable, in addition to the conditions of falt_depthwise_init */

extern const falt_solver falt_solver_depthwise, falt_solver_grouped;

static const char *refusal(const falt_solver *solver, const falt_problem *p) {
  const bool grouped = solver == &falt_solver_grouped;
  return p->operation == FALT_BACKWARD_FILTER       ? "not backward-filter"
         : grouped && !falt_depthwise_is_grouped(p) ? "a group has one channel in and out"
         : !grouped && falt_depthwise_is_grouped(p) ? "a group has more than one channel in and out"
                                                    : NULL;
}

/* ---- estimate */

/* Fraction of the multiply-add peak of spans inside the input. */
static const double shares[] = {[FALT_READS_EACH] = 0.7, [FALT_READS_PICK] = 0.85, [FALT_READS_ALL] = 0.8};
/* Operations in the time of packing an element: a word's one by one, floats in a transpose. */
static const double word_packed = 100, float_packed = 32;
static const double share_of_words = 0.93; /* the same where words have several elements, of large groups */

/* The overhead of tiles of large groups, in operations: to begin and end one, and each of its segments. */
static double beside(const falt_depthwise *d) {
  const double per_tile = 3000, per_segment = 1000;
  const double tiles = (double)falt_depthwise_rows(d) * (double)d->tile_count * (double)d->vectors;
  const double segments = (double)(d->rows_most * d->pieces_most);
  return d->unit.reads == FALT_READS_ALL ? tiles * (per_tile + segments * per_segment) : 0;
}

static double estimate(const depthwise_plan *plan, const falt_device *device) {
  const falt_depthwise *d = &plan->d;
  const bool words = d->word > 1 && d->unit.reads == FALT_READS_ALL;
  const double each = packs_words(d) ? word_packed : float_packed;
  const double filter = plan->base.packed ? 0 : each * (double)falt_tensor_count(&d->layer.p.filter);
  return falt_roofline(
      device, FALT_F32,
      falt_depthwise_flops(d) + beside(d) + filter + falt_depthwise_conversions(d, &plan->base.problem),
      words ? share_of_words : shares[d->unit.reads],
      falt_problem_bytes(&plan->base.problem) + falt_depthwise_reread(d, device));
}

/* ---- plan */

/* Enough tasks for all threads, first by bands of rows, whose common rows are read twice. */
static void set_tasks(depthwise_plan *plan) {
  const falt_depthwise *d = &plan->d;
  const int64_t threads = falt_threads_count(plan->base.device->threads), wanted = threads == 1 ? 1 : 4 * threads;
  const int64_t rows = falt_depthwise_rows(d);
  int64_t blocks = falt_ceil_div(d->units, d->block);
  const int64_t bands = falt_min(rows, falt_ceil_div(wanted, blocks));
  const int64_t parts = falt_min(d->span_count, falt_ceil_div(wanted, blocks * bands));
  blocks = falt_max(blocks, falt_min(d->units, falt_ceil_div(wanted, bands * parts)));
  plan->blocks = falt_layer_cut(d->units, blocks);
  plan->bands = falt_layer_cut(rows, bands);
  plan->parts = falt_layer_cut(d->span_count, parts);
}

/* Whether every vector of the outputs begins at a line. */
static bool whole_lines(const falt_depthwise *d) {
  const falt_tensor *t = &d->relation.result;
  const int64_t line = FALT_ALIGN / (int64_t)sizeof(float);
  bool whole = t->offset % line == 0 && (d->units == 1 || d->unit.results % d->kernels->width == 0);
  for (int dim = 0; dim < FALT_DIMS; dim++)
    if (dim != FALT_G && dim != FALT_C && t->size[dim] > 1) whole = whole && t->stride[dim] % line == 0;
  return whole;
}

static void set_traffic(depthwise_plan *plan) {
  const falt_depthwise *d = &plan->d;
  const double bytes = falt_problem_bytes(&plan->base.problem), near = (double)plan->base.device->caches.l2;
  plan->waits = d->kind == FALT_TILES_F32 && d->result_type != FALT_F32;
  plan->ahead = bytes > near && !d->upconverts;
  plan->stream = falt_bypasses_caches(plan->base.device, bytes) && d->result_type == FALT_F32 && whole_lines(d);
}

static void lay_memory(depthwise_plan *plan) {
  const falt_depthwise *d = &plan->d;
  const falt_problem *p = &plan->base.problem;
  const size_t span = (size_t)(d->longest * falt_layer_most(&plan->blocks) * d->unit.results) * sizeof(float);
  plan->at = falt_depthwise_lay(d, falt_layer_most(&plan->blocks), 0);
  plan->results = falt_place_part(&plan->at.parts, plan->waits ? span : 0);
  plan->residual = falt_place_part(&plan->at.parts, p->has_residual && p->residual.type != FALT_F32 ? span : 0);
  falt_memory_layout *all = &plan->base.layout;
  falt_rows_place(all, plan->base.device, &plan->at.parts);
  plan->factors = falt_place_part(all, d->layer.plain ? 0 : 2 * (size_t)d->channels * sizeof(float));
  plan->filter = falt_place_part(all, plan->base.packed ? 0 : (size_t)(d->vectors * d->pitch) * sizeof(float));
  plan->wide = falt_place_part(all, plan->base.packed ? 0 : falt_depthwise_wide_bytes(d, p));
  plan->base.workspace = all->total;
}

/* Makes the spans and packs a filter that is known: only for the plan that was chosen. */
static falt_status ready(falt_plan *base) {
  depthwise_plan *plan = (depthwise_plan *)base;
  FALT_TRY(falt_depthwise_ready(&plan->d));
  if (!plan->values) return FALT_OK;
  float *wide = falt_alloc(falt_depthwise_wide_bytes(&plan->d, &base->problem));
  plan->packed = falt_alloc((size_t)(plan->d.vectors * plan->d.pitch) * sizeof(float));
  const bool fits = wide && plan->packed;
  if (fits) pack(plan, plan->values, wide, plan->packed);
  falt_free(wide);
  plan->values = NULL;
  return fits ? FALT_OK : falt_fail(FALT_NO_MEMORY, "planning: memory for the packed filter ran out");
}

static const char *choose(falt_plan *base, falt_ask *ask) {
  depthwise_plan *plan = (depthwise_plan *)base;
  const char *why = refusal(base->solver, ask->problem);
  if (!why) why = falt_depthwise_init(&plan->d, ask->problem, ask->device, 0, &ask->no_memory);
  if (why) return why;
  set_tasks(plan);
  set_traffic(plan);
  plan->values = ask->filter_values;
  base->packed = plan->values != NULL;
  lay_memory(plan);
  base->cost.seconds = estimate(plan, ask->device);
  return NULL;
}

static const falt_plan_steps steps = {sizeof(depthwise_plan), {execute, print, destroy, ready}, NULL, choose};

const falt_solver falt_solver_depthwise = {
    .name = "depthwise", .device_kind = "cpu", .plan = falt_plan_make, .steps = &steps};
const falt_solver falt_solver_grouped = {
    .name = "grouped", .device_kind = "cpu", .plan = falt_plan_make, .steps = &steps};
