/* Depthwise layers whose channels are adjacent in memory (NHWC): the gradient by the filter.
 *
 *     dw[g, j] = sum over images and positions p of  dy[p, g] * x[p*stride + j*dilation - pad, g]
 *
 * Vectors run along channels. Rows of outputs are walked as forward walks them; the sums of the taps of one segment
 * stay in registers for a run of positions and then wait among the others, packed as forward packs weights. The
 * gradient of the bias is one more tap, which always reads ones.
 *
 * Rows are cut into bands, each with sums of its own, which are added in the order of the bands. Their number depends
 * on the problem alone, so the result's bits do not depend on the number of threads. */
#include <string.h>

#include "solver/depthwise.h"
#include "solver/filter_rows.h"

enum { BANDS = 32 /* at most */, TASKS = 32 };
static const int64_t MOST_SUMS = 1 << 20; /* elements of all bands, beyond one band */

typedef struct scratch_map {
  size_t rows, next, segments, constant, ones, total;
} scratch_map;

typedef struct gradient_plan {
  falt_plan base;
  falt_depthwise d;
  falt_layer_pieces blocks; /* of vectors of channels */
  falt_layer_pieces bands;  /* of rows of outputs */
  bool ahead;               /* the next row is brought nearer while one is summed */
  size_t sums;              /* offset into the workspace */
  scratch_map at;           /* in each worker's scratch */
} gradient_plan;

/* ---- execute */

typedef struct execution {
  const gradient_plan *plan;
  const falt_operands *operands;
  float *sums; /* (band, vector, tap, channel) */
} execution;

typedef struct task {
  const execution *run;
  int64_t channel, channels;
  float *sums;
  falt_depthwise_row *rows, *next; /* under the window of this row of outputs and of the one after it */
  int64_t sources, next_sources;
  falt_depthwise_segment *segments;
  const float *constant, *ones;
} task;

static void run_row(const task *t, int64_t row) {
  const falt_operands *operands = t->run->operands;
  const falt_depthwise *d = &t->run->plan->d;
  const falt_tensor *y = &d->relation.result;
  const float *by = (const float *)operands->output + falt_depthwise_at(d, y, row) + t->channel;
  falt_depthwise_gradient call = {.call = {.segments = t->segments, .weights_pitch = d->pitch, .n = t->channels},
                                  .sums = t->sums};
  for (const falt_depthwise_span *span = d->spans; span < d->spans + d->span_count; span++) {
    int64_t count = falt_depthwise_segments(d, span, t->rows, t->sources, (const float *)operands->input + t->channel,
                                            t->constant, t->segments);
    if (d->layer.p.has_bias)
      t->segments[count++] = (falt_depthwise_segment){.row = t->ones, .weight = d->taps * d->kernels->width, .taps = 1};
    call.call.count = count;
    call.call.positions = span->count;
    if (t->run->plan->ahead)
      falt_depthwise_ahead(d, span, t->rows, t->sources, t->next, t->next_sources,
                           (const float *)operands->input + t->channel, &call.call);
    call.by = by + span->origin * y->stride[FALT_W];
    call.by_step = span->step * y->stride[FALT_W];
    d->kernels->gradient(&call);
  }
}

static void run_task(void *context, int64_t index, void *scratch) {
  const execution *run = context;
  const gradient_plan *plan = run->plan;
  const falt_depthwise *d = &plan->d;
  char *memory = scratch;
  float *constant = (float *)(void *)(memory + plan->at.constant), *ones = (float *)(void *)(memory + plan->at.ones);
  const int64_t band = falt_generic_digit(&index, plan->bands.count);
  const int64_t first = falt_layer_piece(&plan->blocks, index), end = falt_layer_piece(&plan->blocks, index + 1);
  task t = {.run = run,
            .channel = first * d->kernels->width,
            .sums = run->sums + (band * d->vectors + first) * d->pitch,
            .rows = (falt_depthwise_row *)(void *)(memory + plan->at.rows),
            .next = (falt_depthwise_row *)(void *)(memory + plan->at.next),
            .segments = (falt_depthwise_segment *)(void *)(memory + plan->at.segments),
            .constant = constant,
            .ones = ones};
  t.channels = falt_min(end * d->kernels->width, d->channels) - t.channel;
  for (int64_t i = 0; i < t.channels; i++) {
    constant[i] = (float)d->relation.fill;
    ones[i] = 1;
  }
  memset(t.sums, 0, (size_t)((end - first) * d->pitch) * sizeof *t.sums);
  const int64_t begin = falt_layer_piece(&plan->bands, band), last = falt_layer_piece(&plan->bands, band + 1);
  t.next_sources = falt_depthwise_sources(d, begin, t.next);
  for (int64_t row = begin; row < last; row++) {
    falt_depthwise_row *const done = t.rows;
    t.rows = t.next;
    t.sources = t.next_sources;
    t.next = done;
    t.next_sources = row + 1 < last ? falt_depthwise_sources(d, row + 1, t.next) : 0;
    run_row(&t, row);
  }
}

/* The sums of all bands, to the filter's place. */
static void add_bands(void *context, int64_t v) {
  const execution *run = context;
  const gradient_plan *plan = run->plan;
  const falt_depthwise *d = &plan->d;
  const falt_tensor *w = &d->layer.p.filter;
  const int64_t width = d->kernels->width, count = falt_min(width, d->channels - v * width),
                all = d->vectors * d->pitch;
  float *sums = run->sums + v * d->pitch, *filter = run->operands->filter;
  for (int64_t b = 1; b < plan->bands.count; b++)
    for (int64_t i = 0; i < d->pitch; i++) sums[i] += sums[b * all + i];
  if (d->layer.p.has_bias)
    memcpy((float *)run->operands->bias + v * width, sums + d->taps * width, (size_t)count * sizeof *sums);
  for (int64_t t = 0; t < w->size[FALT_D]; t++)
    for (int64_t r = 0; r < w->size[FALT_H]; r++)
      for (int64_t s = 0; s < w->size[FALT_W]; s++, sums += width)
        for (int64_t i = 0; i < count; i++) filter[falt_tensor_at(w, 0, v * width + i, 0, t, r, s)] = sums[i];
}

static void execute(const falt_plan *base, const falt_operands *operands) {
  const gradient_plan *plan = (const gradient_plan *)base;
  char *workspace = operands->workspace;
  execution run = {.plan = plan, .operands = operands, .sums = (float *)(void *)(workspace + plan->sums)};
  falt_rows_run(
      base->device,
      &(falt_row_job){
          .run = run_task, .context = &run, .tasks = plan->blocks.count * plan->bands.count, .scratch = plan->at.total},
      workspace);
  falt_parallel_for(base->device->threads, plan->d.vectors, add_bands, &run);
}

static void print(const falt_plan *base, falt_text *text) {
  const gradient_plan *plan = (const gradient_plan *)base;
  falt_text_add(text, "(depthwise-filter %s channels=%lld bands=%lld threads=%d)", falt_isa_name(base->device->isa),
                (long long)(falt_layer_most(&plan->blocks) * plan->d.kernels->width), (long long)plan->bands.count,
                falt_threads_count(base->device->threads));
}

static void destroy(falt_plan *base) {
  falt_depthwise_free(&((gradient_plan *)base)->d);
  falt_free(base);
}

/* ---- estimate */

/* Share of the multiply-add peak of spans inside the input: each multiply-add has a load of its own. */
static const double share = 0.55;

static double estimate(const gradient_plan *plan, const falt_device *device) {
  const falt_depthwise *d = &plan->d;
  const double lanes = (double)(d->vectors * d->kernels->width) / (double)d->channels;
  const double calls = 300.0 * (double)falt_depthwise_rows(d) * (double)(d->span_count * d->rows_most);
  return falt_roofline(
      device, FALT_F32, falt_problem_flops(&d->layer.p) * d->useful * lanes + 2 * calls, share,
      falt_problem_bytes(&d->layer.p) + 8 * (double)plan->bands.count * (double)(d->vectors * d->pitch));
}

/* ---- plan */

static void set_tasks(gradient_plan *plan) {
  const falt_depthwise *d = &plan->d;
  const int64_t rows = falt_depthwise_rows(d), sums = d->vectors * d->pitch;
  const int64_t bands = falt_min(falt_min(rows, BANDS), falt_max(1, MOST_SUMS / sums));
  const int64_t blocks = falt_ceil_div(d->vectors, falt_depthwise_block(d, plan->base.device));
  plan->ahead = falt_problem_bytes(&d->layer.p) > (double)plan->base.device->caches.l2;
  plan->bands = falt_layer_cut(rows, bands);
  plan->blocks = falt_layer_cut(d->vectors, falt_max(blocks, falt_min(d->vectors, falt_ceil_div(TASKS, bands))));
}

static size_t place(size_t *total, size_t bytes) {
  const size_t at = *total;
  *total += (bytes + FALT_ALIGN - 1) / FALT_ALIGN * FALT_ALIGN;
  return at;
}

static void lay_memory(gradient_plan *plan) {
  const falt_depthwise *d = &plan->d;
  const size_t block = (size_t)(falt_layer_most(&plan->blocks) * d->kernels->width) * sizeof(float);
  scratch_map *at = &plan->at;
  at->rows = place(&at->total, (size_t)d->rows_most * sizeof(falt_depthwise_row));
  at->next = place(&at->total, (size_t)d->rows_most * sizeof(falt_depthwise_row));
  at->segments = place(&at->total, (size_t)(falt_depthwise_segments_most(d) + 1) * sizeof(falt_depthwise_segment));
  at->constant = place(&at->total, block);
  at->ones = place(&at->total, block);
  size_t total = falt_rows_workspace(plan->base.device, at->total);
  plan->sums = place(&total, (size_t)(plan->bands.count * d->vectors * d->pitch) * sizeof(float));
  plan->base.workspace = total;
}

static falt_plan *plan_gradient(const falt_solver *solver, falt_ask *ask) {
  static const falt_plan_table table = {.execute = execute, .print = print, .destroy = destroy};
  if (ask->problem->operation != FALT_BACKWARD_FILTER) return falt_refuse(ask, "only the gradient by the filter");
  gradient_plan *plan = falt_plan_new(sizeof *plan, &table, solver, ask);
  if (!plan) return NULL;
  bool no_memory = false;
  const char *reason = falt_depthwise_init(&plan->d, ask->problem, ask->device->isa, 1, &no_memory);
  if (reason) {
    destroy(&plan->base);
    return no_memory ? falt_refuse_memory(ask) : falt_refuse(ask, "%s", reason);
  }
  set_tasks(plan);
  lay_memory(plan);
  plan->base.cost.seconds = estimate(plan, ask->device);
  return &plan->base;
}

extern const falt_solver falt_solver_depthwise_filter;
const falt_solver falt_solver_depthwise_filter = {
    .name = "depthwise-filter", .device_kind = "cpu", .plan = plan_gradient};
