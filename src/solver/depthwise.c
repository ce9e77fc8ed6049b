/* Depthwise layers whose channels are adjacent in memory (NHWC): forward, and the gradient by the data.
 *
 *     y[p, g] = sum over taps j of  w[g, j] * x[p*stride + j*dilation - pad, g]
 *     dx[i, g] = sum over the pairs (p, j) with p*stride + j*dilation - pad = i of  w[g, j] * dy[p, g]
 *
 * Vectors run along channels. Both are sums over (tap, source position) pairs; the gradient's pairs, for the positions
 * that share a phase of the stride, are those of a correlation with every (stride)-th tap, last tap first, so no zero
 * is multiplied (solver/generic_axis.c). Taps outside are left out, by rows and by columns, where the constant is zero.
 *
 * A task is a band of rows by a block of channels so small that the rows under the window stay in the second-level
 * cache: each byte comes from memory once. */
#include <stdint.h>
#include <string.h>

#include "solver/depthwise.h"
#include "solver/filter_rows.h"

typedef struct scratch_map {
  size_t rows, next, segments, constant, total;
} scratch_map;

typedef struct depthwise_plan {
  falt_plan base;
  falt_depthwise d;
  falt_layer_pieces blocks; /* of vectors of channels */
  falt_layer_pieces bands;  /* of rows of results */
  falt_layer_pieces parts;  /* of spans */
  bool ahead;               /* the next row is brought nearer while one is summed */
  bool stream;              /* results bypass the caches */
  float *packed;            /* or NULL if the filter comes with each execution */
  size_t factors, filter;   /* offsets into the workspace */
  scratch_map at;           /* in each worker's scratch */
} depthwise_plan;

/* ---- packing: vectors of (tap, channel) */

typedef struct packing {
  const falt_depthwise *d;
  const float *filter;
  float *packed;
} packing;

static void pack_vector(void *context, int64_t v) {
  const packing *pack = context;
  const falt_depthwise *d = pack->d;
  const falt_tensor *w = &d->layer.p.filter;
  const int64_t width = d->kernels->width, count = falt_min(width, d->channels - v * width);
  float *to = pack->packed + v * d->pitch;
  memset(to, 0, (size_t)d->pitch * sizeof *to);
  for (int64_t t = 0; t < w->size[FALT_D]; t++)
    for (int64_t r = 0; r < w->size[FALT_H]; r++)
      for (int64_t s = 0; s < w->size[FALT_W]; s++, to += width)
        for (int64_t i = 0; i < count; i++) to[i] = pack->filter[falt_tensor_at(w, 0, v * width + i, 0, t, r, s)];
}

static void pack(const depthwise_plan *plan, const float *filter, float *packed) {
  packing p = {&plan->d, filter, packed};
  falt_parallel_for(plan->base.device->threads, plan->d.vectors, pack_vector, &p);
}

/* ---- execute */

typedef struct execution {
  const depthwise_plan *plan;
  const falt_operands *operands;
  const float *source, *weights, *factors;
  float *result;
  bool stream;
} execution;

typedef struct task {
  const execution *run;
  int64_t channel, channels;
  falt_depthwise_row *rows, *next; /* under the window of this row of results and of the one after it */
  int64_t sources, next_sources;
  falt_depthwise_segment *segments;
  const float *constant;
} task;

static void run_row(const task *t, int64_t row, int64_t first_span, int64_t last_span) {
  const execution *run = t->run;
  const falt_depthwise *d = &run->plan->d;
  const falt_tensor *y = &d->relation.result, *z = &d->layer.p.residual;
  const int64_t y_row = falt_depthwise_at(d, y, row) + t->channel, z_row = falt_depthwise_at(d, z, row) + t->channel;
  const float *residual = d->layer.p.has_residual ? (const float *)run->operands->residual + z_row : NULL;
  falt_depthwise_finish finish = {.scale = run->factors + t->channel,
                                  .offset = run->factors + d->channels + t->channel,
                                  .curve = d->layer.curve,
                                  .slope = (float)d->layer.p.act_a,
                                  .low = d->layer.low,
                                  .high = d->layer.high};
  falt_depthwise_call call = {.segments = t->segments,
                              .weights = run->weights + t->channel / d->kernels->width * d->pitch,
                              .weights_pitch = d->pitch,
                              .n = t->channels,
                              .stream = run->stream,
                              .finish = d->layer.plain ? NULL : &finish};
  for (int64_t i = first_span; i < last_span; i++) {
    const falt_depthwise_span *span = &d->spans[i];
    call.count =
        falt_depthwise_segments(d, span, t->rows, t->sources, run->source + t->channel, t->constant, t->segments);
    call.positions = span->count;
    call.out = run->result + y_row + span->origin * y->stride[FALT_W];
    call.out_step = span->step * y->stride[FALT_W];
    finish.residual = residual ? residual + span->origin * z->stride[FALT_W] : NULL;
    finish.residual_step = span->step * z->stride[FALT_W];
    if (run->plan->ahead)
      falt_depthwise_ahead(d, span, t->rows, t->sources, t->next, t->next_sources, run->source + t->channel, &call);
    d->kernels->sums(&call);
  }
}

static void run_task(void *context, int64_t index, void *scratch) {
  const execution *run = context;
  const depthwise_plan *plan = run->plan;
  const falt_depthwise *d = &plan->d;
  char *memory = scratch;
  float *constant = (float *)(void *)(memory + plan->at.constant);
  const int64_t part = falt_generic_digit(&index, plan->parts.count);
  const int64_t band = falt_generic_digit(&index, plan->bands.count);
  const int64_t end = falt_layer_piece(&plan->blocks, index + 1) * d->kernels->width;
  task t = {.run = run,
            .channel = falt_layer_piece(&plan->blocks, index) * d->kernels->width,
            .rows = (falt_depthwise_row *)(void *)(memory + plan->at.rows),
            .next = (falt_depthwise_row *)(void *)(memory + plan->at.next),
            .segments = (falt_depthwise_segment *)(void *)(memory + plan->at.segments),
            .constant = constant};
  t.channels = falt_min(end, d->channels) - t.channel;
  if (d->relation.fill != 0)
    for (int64_t i = 0; i < t.channels; i++) constant[i] = (float)d->relation.fill;
  const int64_t first = falt_layer_piece(&plan->bands, band), last = falt_layer_piece(&plan->bands, band + 1);
  t.next_sources = falt_depthwise_sources(d, first, t.next);
  for (int64_t row = first; row < last; row++) {
    falt_depthwise_row *const done = t.rows;
    t.rows = t.next;
    t.sources = t.next_sources;
    t.next = done;
    t.next_sources = row + 1 < last ? falt_depthwise_sources(d, row + 1, t.next) : 0;
    run_row(&t, row, falt_layer_piece(&plan->parts, part), falt_layer_piece(&plan->parts, part + 1));
  }
}

static void execute(const falt_plan *base, const falt_operands *operands) {
  const depthwise_plan *plan = (const depthwise_plan *)base;
  const falt_depthwise *d = &plan->d;
  char *workspace = operands->workspace;
  float *factors = (float *)(void *)(workspace + plan->factors), *room = (float *)(void *)(workspace + plan->filter);
  if (!plan->packed) pack(plan, operands->filter, room);
  if (!d->layer.plain) falt_layer_factors(&d->layer, operands, factors);
  execution run = {.plan = plan,
                   .operands = operands,
                   .source = d->relation.gathers ? operands->output : operands->input,
                   .result = d->relation.gathers ? operands->input : operands->output,
                   .weights = plan->packed ? plan->packed : room,
                   .factors = factors};
  run.stream = plan->stream && (uintptr_t)run.result % FALT_ALIGN == 0;
  falt_rows_run(base->device,
                &(falt_row_job){.run = run_task,
                                .context = &run,
                                .tasks = plan->blocks.count * plan->bands.count * plan->parts.count,
                                .scratch = plan->at.total},
                workspace);
}

static void print(const falt_plan *base, falt_text *text) {
  const depthwise_plan *plan = (const depthwise_plan *)base;
  falt_text_add(text, "(depthwise %s channels=%lld rows=%lld threads=%d)", falt_isa_name(base->device->isa),
                (long long)(falt_layer_most(&plan->blocks) * plan->d.kernels->width),
                (long long)falt_layer_most(&plan->bands), falt_threads_count(base->device->threads));
}

static void destroy(falt_plan *base) {
  depthwise_plan *plan = (depthwise_plan *)base;
  falt_depthwise_free(&plan->d);
  falt_free(plan->packed);
  falt_free(plan);
}

/* ---- estimate */

/* Share of the multiply-add peak of spans inside the input. */
static const double share = 0.7;

static double estimate(const depthwise_plan *plan, const falt_device *device) {
  const falt_depthwise *d = &plan->d;
  const double lanes = (double)(d->vectors * d->kernels->width) / (double)d->channels;
  /* what a call costs beside its sums: a few hundred multiply-adds a span and source row */
  const double calls = 300.0 * (double)falt_depthwise_rows(d) * (double)(d->span_count * d->rows_most);
  const double filter = plan->packed ? 0 : 50 * (double)falt_tensor_count(&d->layer.p.filter);
  return falt_roofline(device, FALT_F32, falt_problem_flops(&d->layer.p) * d->useful * lanes + 2 * (calls + filter),
                       share, falt_problem_bytes(&d->layer.p));
}

/* ---- plan */

/* Enough tasks for all threads, first by bands of rows: what they share is read twice. */
static void set_tasks(depthwise_plan *plan) {
  const falt_depthwise *d = &plan->d;
  const int64_t threads = falt_threads_count(plan->base.device->threads), wanted = threads == 1 ? 1 : 4 * threads;
  const int64_t most = falt_depthwise_block(d, plan->base.device), rows = falt_depthwise_rows(d);
  int64_t blocks = falt_ceil_div(d->vectors, most);
  const int64_t bands = falt_min(rows, falt_ceil_div(wanted, blocks));
  const int64_t parts = falt_min(d->span_count, falt_ceil_div(wanted, blocks * bands));
  blocks = falt_max(blocks, falt_min(d->vectors, falt_ceil_div(wanted, bands * parts)));
  plan->blocks = falt_layer_cut(d->vectors, blocks);
  plan->bands = falt_layer_cut(rows, bands);
  plan->parts = falt_layer_cut(d->span_count, parts);
}

/* Whether every vector of the results begins at a line. */
static bool whole_lines(const falt_tensor *t) {
  const int64_t line = FALT_ALIGN / (int64_t)sizeof(float);
  bool whole = t->offset % line == 0;
  for (int dim = 0; dim < FALT_DIMS; dim++)
    if (dim != FALT_G && t->size[dim] > 1) whole = whole && t->stride[dim] % line == 0;
  return whole;
}

static void set_traffic(depthwise_plan *plan) {
  const falt_depthwise *d = &plan->d;
  const double bytes = falt_problem_bytes(&d->layer.p), near = (double)plan->base.device->caches.l2;
  plan->ahead = bytes > near;
  plan->stream = bytes > 4 * near && whole_lines(&d->relation.result);
}

static size_t place(size_t *total, size_t bytes) {
  const size_t at = *total;
  *total += (bytes + FALT_ALIGN - 1) / FALT_ALIGN * FALT_ALIGN;
  return at;
}

static void lay_memory(depthwise_plan *plan) {
  const falt_depthwise *d = &plan->d;
  const size_t block = (size_t)(falt_layer_most(&plan->blocks) * d->kernels->width);
  plan->at.rows = place(&plan->at.total, (size_t)d->rows_most * sizeof(falt_depthwise_row));
  plan->at.next = place(&plan->at.total, (size_t)d->rows_most * sizeof(falt_depthwise_row));
  plan->at.segments = place(&plan->at.total, (size_t)falt_depthwise_segments_most(d) * sizeof(falt_depthwise_segment));
  plan->at.constant = place(&plan->at.total, d->relation.fill != 0 ? block * sizeof(float) : 0);
  size_t total = falt_rows_workspace(plan->base.device, plan->at.total);
  plan->factors = place(&total, d->layer.plain ? 0 : 2 * (size_t)d->channels * sizeof(float));
  plan->filter = place(&total, plan->packed ? 0 : (size_t)(d->vectors * d->pitch) * sizeof(float));
  plan->base.workspace = total;
}

static bool take_filter(depthwise_plan *plan, const void *values) {
  if (!values) return true;
  plan->packed = falt_alloc((size_t)(plan->d.vectors * plan->d.pitch) * sizeof(float));
  if (plan->packed) pack(plan, values, plan->packed);
  plan->base.packed = plan->packed != NULL;
  return plan->base.packed;
}

static falt_plan *plan_depthwise(const falt_solver *solver, falt_ask *ask) {
  static const falt_plan_table table = {.execute = execute, .print = print, .destroy = destroy};
  if (ask->problem->operation == FALT_BACKWARD_FILTER) return falt_refuse(ask, "not the gradient by the filter");
  depthwise_plan *plan = falt_plan_new(sizeof *plan, &table, solver, ask);
  if (!plan) return NULL;
  bool no_memory = false;
  const char *reason = falt_depthwise_init(&plan->d, ask->problem, ask->device->isa, 0, &no_memory);
  if (!reason) {
    set_tasks(plan);
    set_traffic(plan);
  }
  if (reason || !take_filter(plan, ask->filter_values)) {
    destroy(&plan->base);
    return reason && !no_memory ? falt_refuse(ask, "%s", reason) : falt_refuse_memory(ask);
  }
  lay_memory(plan);
  plan->base.cost.seconds = estimate(plan, ask->device);
  return &plan->base;
}

extern const falt_solver falt_solver_depthwise;
const falt_solver falt_solver_depthwise = {.name = "depthwise", .device_kind = "cpu", .plan = plan_depthwise};
