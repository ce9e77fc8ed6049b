/* Solvers depthwise-wgrad and grouped-wgrad: wgrad of NHWC layers of small groups, with the bias gradient.
 *
 *     dw[g, k, c, j] = sum over images and positions p of  dy[p, g, k] * x[p*stride + j*dilation - pad, g, c]
 */
#include <math.h>
#include <string.h>

#include "solver/cpu/common/rows.h"
#include "solver/cpu/depthwise/depthwise.h"
#include "solver/cpu/wgrad/wgrad_kernels.h"

/* Vectors run along the output channels k. Output rows are processed as in fprop. The sums of the taps of one segment
 * stay in registers for a run of positions; in between they are in memory, packed as the weights of fprop are. The bias
 * gradient is one more tap, which always reads ones.
 *
 * Rows are cut into bands with their own sums, which are added in order. The number of bands depends only on the
 * problem, so the bits of the output do not depend on the number of threads. */

typedef struct wgrad_plan {
  falt_plan base;
  falt_depthwise d;
  const falt_outer_kernels *transposing;
  falt_layer_pieces blocks;  /* of units of channels */
  falt_layer_pieces bands;   /* of rows of outputs */
  bool ahead;                /* the next row is prefetched during the sums of one */
  size_t sums, wide;         /* offsets into the workspace; wide: a narrow output in f32 */
  size_t ones, by;           /* in each worker's scratch; by: a row of dy in f32 */
  falt_depthwise_scratch at; /* the rest of it */
} wgrad_plan;

/* ---- execute */

typedef struct execution {
  const wgrad_plan *plan;
  const falt_operands *operands;
  float *sums; /* (band, vector, tap, channel) */
  float *filter;
} execution;

/* The element 1 for all lanes, which the gradient of the bias is multiplied by. */
static falt_depthwise_segment bias_segment(const falt_depthwise *d, const float *ones) {
  const int64_t width = d->kernels->width;
  return (falt_depthwise_segment){.row = ones, .weight = d->taps * d->depth * width, .taps = 1, .depth = 1};
}

/* The task's channels of a row of dy. `room` is used where it is narrow. */
static const float *row_of(const execution *run, const falt_depthwise_task *t, int64_t row, float *room) {
  const falt_depthwise *d = t->d;
  const falt_tensor *y = &d->relation.result;
  const falt_depthwise_strip strip = {y->size[FALT_W], t->results, y->stride[FALT_W], t->results};
  const char *from = (const char *)run->operands->output +
                     (falt_depthwise_at(d, y, row) + t->result) * (int64_t)falt_type_size(d->result_type);
  if (d->result_type == FALT_F32) return (const float *)(const void *)from;
  falt_depthwise_upconvert(d, &strip, d->result_type, from, room);
  return room;
}

static void run_row(const falt_depthwise_task *t, const float *by, float *sums, const float *ones) {
  const falt_depthwise *d = t->d;
  const int64_t pixel = d->result_type == FALT_F32 ? d->relation.result.stride[FALT_W] : t->results;
  for (const falt_depthwise_span *span = d->spans; span < d->spans + d->span_count; span++) {
    falt_depthwise_gradient g = {.call = falt_depthwise_call_of(t, span),
                                 .by = by + span->origin * pixel,
                                 .by_step = span->step * pixel,
                                 .sums = sums};
    if (d->layer.p.has_bias) t->segments[g.call.count++] = bias_segment(d, ones);
    d->kernels->gradient(&g);
  }
}

static void run_task(void *context, int64_t index, void *scratch) {
  const execution *run = context;
  const wgrad_plan *plan = run->plan;
  const falt_depthwise *d = &plan->d;
  const int64_t band = falt_generic_digit(&index, plan->bands.count);
  const int64_t begin = falt_layer_piece(&plan->bands, band), last = falt_layer_piece(&plan->bands, band + 1);
  const int64_t unit = falt_layer_piece(&plan->blocks, index), end = falt_layer_piece(&plan->blocks, index + 1);
  falt_depthwise_task t = falt_depthwise_open(d, &plan->at, scratch, run->operands->input, unit, end);
  float *sums = run->sums + (band * d->vectors + t.vector) * d->pitch;
  float *ones = (float *)(void *)((char *)scratch + plan->ones), *by = (float *)(void *)((char *)scratch + plan->by);
  t.ahead = plan->ahead;
  for (int64_t i = 0; i < (end - unit) * d->unit.sources; i++) ones[i] = 1;
  memset(sums, 0, (size_t)((end - unit) * d->unit_vectors * d->pitch) * sizeof *sums);
  for (int64_t row = begin; row < last && !falt_cancelled(); row++) {
    falt_depthwise_advance(&t, row, row == begin, last);
    run_row(&t, row_of(run, &t, row, by), sums, ones);
  }
}

/* ---- outputs out */

/* All taps of a patch to the filter's place; `sums` are of its first lane. */
static void store_patch(const execution *run, const falt_depthwise_patch *patch, const float *sums) {
  const falt_depthwise *d = &run->plan->d;
  const falt_tensor *w = &d->layer.p.filter;
  const int64_t width = d->kernels->width;
  for (int64_t t = 0; t < w->size[FALT_D]; t++)
    for (int64_t r = 0; r < w->size[FALT_H]; r++)
      for (int64_t s = 0; s < w->size[FALT_W]; s++, sums += d->depth * width) {
        float *to = run->filter + falt_tensor_at(w, patch->k, patch->g, patch->c, t, r, s);
        if (d->depth > 1 && patch->source_step == 1) {
          run->plan->transposing->transpose(&(falt_transpose){.from = sums,
                                                              .to = to,
                                                              .from_pitch = width,
                                                              .to_pitch = patch->lane_step,
                                                              .n = d->depth,
                                                              .count = patch->lanes});
          continue;
        }
        for (int64_t j = 0; j < d->depth; j++)
          for (int64_t i = 0; i < patch->lanes; i++)
            to[i * patch->lane_step + j * patch->source_step] = sums[j * width + i];
      }
}

/* The sums of all bands, to the filter's place. */
static void add_bands(void *context, int64_t v) {
  const execution *run = context;
  const wgrad_plan *plan = run->plan;
  const falt_depthwise *d = &plan->d;
  const int64_t all = d->vectors * d->pitch;
  float *sums = run->sums + v * d->pitch;
  for (int64_t b = 1; b < plan->bands.count; b++)
    for (int64_t i = 0; i < d->pitch; i++) sums[i] += sums[b * all + i];
  int64_t lanes;
  const int64_t result = falt_depthwise_lanes(d, v, &lanes);
  if (d->layer.p.has_bias)
    memcpy((float *)run->operands->bias + result, sums + d->taps * d->depth * d->kernels->width,
           (size_t)lanes * sizeof *sums);
  falt_depthwise_patch patch = {0};
  while (falt_depthwise_next_patch(d, v, &patch)) store_patch(run, &patch, sums + patch.lane);
}

static void execute(const falt_plan *base, const falt_operands *operands) {
  const wgrad_plan *plan = (const wgrad_plan *)base;
  char *workspace = operands->workspace;
  const falt_tensor *filter = &base->problem.filter;
  const bool narrow = filter->type != FALT_F32;
  execution run = {.plan = plan,
                   .operands = operands,
                   .sums = (float *)(void *)(workspace + plan->sums),
                   .filter = narrow ? (float *)(void *)(workspace + plan->wide) : operands->filter};
  const falt_row_job job = {run_task, &run, plan->blocks.count * plan->bands.count, plan->at.parts.total};
  falt_rows_run(base->device, &job, workspace);
  falt_parallel_for(base->device->threads, plan->d.vectors, add_bands, &run);
  if (narrow) falt_downconvert(base->device, &plan->d.layer.p.filter, run.filter, filter, operands->filter);
}

static void print(const falt_plan *base, falt_text *text) {
  const wgrad_plan *plan = (const wgrad_plan *)base;
  falt_text_add(text, "(%s %s channels=%lld bands=%lld threads=%d)", base->solver->name,
                falt_isa_name(base->device->isa), (long long)(falt_layer_most(&plan->blocks) * plan->d.unit.results),
                (long long)plan->bands.count, falt_threads_count(base->device->threads));
}

static void destroy(falt_plan *base) {
  falt_depthwise_free(&((wgrad_plan *)base)->d);
  falt_free(base);
}

/* ---- applicable, in addition to the conditions of falt_depthwise_init */

extern const falt_solver falt_solver_depthwise_wgrad, falt_solver_grouped_wgrad;

static const char *refusal(const falt_solver *solver, const falt_problem *p) {
  const bool grouped = solver == &falt_solver_grouped_wgrad;
  return p->operation != FALT_BACKWARD_FILTER       ? "only backward-filter"
         : grouped && !falt_depthwise_is_grouped(p) ? "a group has one channel in and out"
         : !grouped && falt_depthwise_is_grouped(p) ? "a group has more than one channel in and out"
         : grouped && p->input.size[FALT_G] == 1    ? "it has one group"
                                                    : NULL;
}

/* ---- estimate */

/* Fraction of the multiply-add peak of spans inside the input: each multiply-add has its own load. */
static const double shares[] = {[FALT_READS_EACH] = 0.55, [FALT_READS_PICK] = 0.8, [FALT_READS_ALL] = 0.7};

/* A multiply-add waits for the previous one of the same sum, one of `taps` by four sources or by the remaining sources:
 * relative to the time of eight sums. */
static double waits(const falt_depthwise *d) {
  const double depth = (double)d->depth, fours = (double)(d->depth / 4 * 4);
  double time = 0, products = 0;
  for (int taps = 1; taps <= FALT_DEPTHWISE_TAPS; taps++) {
    const double count = d->products[taps];
    time += count * (fours * fmax(1, 2.0 / taps) + (depth - fours) * fmax(1, 8.0 / taps));
    products += count * depth;
  }
  return products > 0 ? time / products : 1;
}

/* Positions in the time of loading and storing the sums of a row of taps for each row of outputs. */
static const double per_row = 4;

/* The memory's time relative to a copy's, where both operands come from memory: two streams of pieces of lines,
 * measured on Zen 4. */
static const double two_streams = 3;

static double estimate(const wgrad_plan *plan, const falt_device *device) {
  const falt_depthwise *d = &plan->d;
  const double bytes = falt_problem_bytes(&plan->base.problem);
  const double row = (double)falt_max(1, d->relation.result.size[FALT_W]);
  const double slower = d->unit.reads == FALT_READS_ALL ? 0.2 + waits(d) : 1 + per_row / row;
  return falt_roofline(
      device, FALT_F32, falt_depthwise_flops(d) * slower + falt_depthwise_conversions(d, &plan->base.problem),
      shares[d->unit.reads],
      bytes * (bytes > (double)device->caches.l3 ? two_streams : 1) +
          8 * (double)plan->bands.count * (double)(d->vectors * d->pitch) + 2 * falt_depthwise_reread(d, device));
}

/* ---- plan */

static void set_tasks(wgrad_plan *plan) {
  const falt_depthwise *d = &plan->d;
  const int64_t threads = falt_threads_count(plan->base.device->threads), wanted = threads == 1 ? 1 : 4 * threads;
  const int64_t blocks = falt_ceil_div(d->units, d->block);
  plan->ahead = falt_problem_bytes(&d->layer.p) > (double)plan->base.device->caches.l2 && !d->upconverts;
  plan->bands = falt_depthwise_bands(falt_depthwise_rows(d), d->relation.result.size[FALT_W], d->vectors * d->pitch);
  plan->blocks =
      falt_layer_cut(d->units, falt_max(blocks, falt_min(d->units, falt_ceil_div(wanted, plan->bands.count))));
}

static void lay_memory(wgrad_plan *plan) {
  const falt_depthwise *d = &plan->d;
  const int64_t units = falt_layer_most(&plan->blocks);
  plan->at = falt_depthwise_lay(d, units, 1);
  const int64_t row = d->result_type != FALT_F32 ? d->relation.result.size[FALT_W] * units * d->unit.results : 0;
  plan->ones = falt_place_part(&plan->at.parts, (size_t)(units * d->unit.sources) * sizeof(float));
  plan->by = falt_place_part(&plan->at.parts, (size_t)row * sizeof(float));
  falt_memory_layout *all = &plan->base.layout;
  falt_rows_place(all, plan->base.device, &plan->at.parts);
  plan->sums = falt_place_part(all, (size_t)(plan->bands.count * d->vectors * d->pitch) * sizeof(float));
  plan->wide = falt_place_part(all, falt_depthwise_wide_bytes(d, &plan->base.problem));
  plan->base.workspace = all->total;
}

static falt_status ready(falt_plan *base) {
  return falt_depthwise_ready(&((wgrad_plan *)base)->d);
}

static const char *choose(falt_plan *base, falt_ask *ask) {
  wgrad_plan *plan = (wgrad_plan *)base;
  const char *why = refusal(base->solver, ask->problem);
  if (!why) why = falt_depthwise_init(&plan->d, ask->problem, ask->device, 1, &ask->no_memory);
  if (why) return why;
  plan->transposing = falt_outer_kernels_for(ask->device->isa);
  set_tasks(plan);
  lay_memory(plan);
  base->cost.seconds = estimate(plan, ask->device);
  return NULL;
}

static const falt_plan_steps steps = {sizeof(wgrad_plan), {execute, print, destroy, ready}, NULL, choose};

const falt_solver falt_solver_depthwise_wgrad = {
    .name = "depthwise-wgrad", .device_kind = "cpu", .plan = falt_plan_make, .steps = &steps};
const falt_solver falt_solver_grouped_wgrad = {
    .name = "grouped-wgrad", .device_kind = "cpu", .plan = falt_plan_make, .steps = &steps};
