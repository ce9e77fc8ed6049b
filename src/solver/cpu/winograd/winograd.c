/* Solver winograd: dense f32 layers of 3 or 5 taps and stride 1, forward, by Winograd's minimal filtering:
 *
 *     Y = A^T [ sum over c of (G w_c G^T) .* (B^T x_c B) ] A
 *
 * A. Lavin, S. Gray, "Fast Algorithms for Convolutional Neural Networks", 2016; docs/internals/cpu-winograd.md has
 * the points. The planner picks it where there are many channels and tiles are full. */
#include "solver/cpu/winograd/winograd.h"

#include <math.h>

#include "core/memory.h"

enum { CHAIN = 16, LEAST_BLOCK = 24, PAD = 16, NEVER = INT32_MAX };

/* tests/solver/cpu/winograd/test_winograd.c measures the errors again. */
const falt_winograd_traits falt_winograd_forms[FALT_WINOGRAD_FORMS] = {
    [FALT_WINOGRAD_2_3] = {"F(2,3)", 3, 2, {2, 2}, {32, 16}, 0, {60, 50}, {1024, 64}},
    [FALT_WINOGRAD_4_3] = {"F(4,3)", 3, 4, {5, 8}, {128, 160}, CHAIN, {80, 90}, {1024, 1024}},
    [FALT_WINOGRAD_6_3] = {"F(6,3)", 3, 6, {14, 48}, {NEVER, NEVER}, CHAIN, {120, 230}, {2048, 8192}},
    [FALT_WINOGRAD_2_5] = {"F(2,5)", 5, 2, {3, 4}, {64, 64}, CHAIN, {120, 220}, {2048, 8192}},
    [FALT_WINOGRAD_4_5] = {"F(4,5)", 5, 4, {8, 24}, {256, NEVER}, CHAIN, {150, 500}, {2048, 16384}},
};

static void print(const falt_plan *base, falt_text *text) {
  const falt_winograd_plan *plan = (const falt_winograd_plan *)base;
  falt_text_add(text, "(winograd %s %s%s%s %lldx%lld block=%lld threads=%d)", falt_isa_name(base->device->isa),
                falt_winograd_forms[plan->tiling.form].name, plan->tiling.axes == 2 ? "x2" : "",
                plan->in_place ? "" : " gathered", (long long)plan->rows, (long long)plan->width,
                (long long)falt_layer_most(&plan->blocks), falt_threads_count(base->device->threads));
}

static void destroy(falt_plan *base) {
  falt_winograd_plan *plan = (falt_winograd_plan *)base;
  falt_free(plan->packed);
  falt_free(plan->taps);
  falt_free(plan);
}

/* ---- applicable, besides what all layers must be */

static bool has_form(int64_t taps) {
  return taps == 3 || taps == 5;
}

static bool has_steps(const falt_axis *axis) {
  return axis->stride != 1 || axis->dilation != 1;
}

const char *falt_winograd_refusal(const falt_problem *p) {
  const int64_t *taps = p->filter.size;
  return taps[FALT_D] != 1                                   ? "more than one tap along the depth"
         : !has_form(taps[FALT_W])                           ? "only filters of 3 or 5 taps along the width"
         : taps[FALT_H] != 1 && taps[FALT_H] != taps[FALT_W] ? "only square filters, or one row of taps"
         : has_steps(&p->axis[2]) || (taps[FALT_H] > 1 && has_steps(&p->axis[1])) ? "only a stride and dilation of 1"
                                                                                  : NULL;
}

/* Filters whose elements repeat one another may be far larger than memory, and their transforms larger still. */
static bool can_be_packed(const falt_winograd_plan *plan) {
  int64_t columns, floats, bytes;
  return falt_mul(plan->vectors * plan->layer.kernels->width, plan->layer.p.output.size[FALT_G], &columns) &&
         falt_mul(columns, plan->depth * plan->tiling.elements, &floats) && falt_mul(floats, 2 * sizeof(float), &bytes);
}

/* ---- estimate */

/* Operations in the time of transforming one element of an input or of a sum and storing it, as measured. */
static const double each_input = 36, each_sum = 36, gathered = 24, scattered = 24;
/* Steps of the depth that take as long as beginning a block of sums and storing it. */
static const double leaving = 16;
/* Bytes that memory copies while products read one of the filter, which is read for each block unless the last cache
 * has it. */
static const double reading = 3;

static double estimate(const falt_winograd_plan *plan, const falt_device *device) {
  const falt_layer *layer = &plan->layer;
  const falt_problem *p = &layer->p;
  const double groups = (double)p->output.size[FALT_G], tiles = groups * (double)plan->tiling.all;
  const double columns = (double)(plan->vectors * layer->kernels->width), depth = (double)plan->depth;
  const double chunks = falt_max(1, plan->chunks.count / p->output.size[FALT_G]),
               elements = (double)plan->tiling.elements;
  const double chains = (plan->chain ? 1.1 : 1) * (1 + leaving / depth);
  const double products = 2 * tiles * elements * depth * columns * chains;
  const double inputs = tiles * elements * depth * chunks * (plan->in_place ? each_input : each_input + gathered);
  const double outputs =
      tiles * elements * columns * (falt_tensor_unit(&p->output, FALT_C) ? each_sum : each_sum + scattered);
  const double filter = (double)plan->group * groups * sizeof(float);
  const double times = filter > (double)device->caches.l3 / 2 ? (double)plan->blocks.count : 1;
  const double bytes = falt_problem_bytes(p) + filter * times * reading;
  const double share = falt_layer_share(falt_layer_most(&plan->panels));
  const double work = products + share * (inputs + outputs + falt_winograd_pack_work(plan));
  return falt_roofline(device, FALT_F32, work, share, bytes) +
         falt_filter_loads(device, filter, plan->blocks.count, plan->chunks.count);
}

/* ---- plan */

/* Errors of few channels do not cancel: down from 16 they grow with the root of their number. */
static double error_of(const falt_winograd_traits *traits, int axes, int64_t channels) {
  const double few = fmax(1, sqrt(16.0 / (double)channels));
  return channels < traits->least_channels[axes - 1] ? ldexp(few * traits->error[axes - 1], -24) : 0;
}

falt_winograd_tiling falt_winograd_tile(falt_winograd_form form, int axes, const falt_tensor *y) {
  const falt_winograd_traits *traits = &falt_winograd_forms[form];
  falt_winograd_tiling t = {.form = form, .axes = axes};
  for (int i = 0; i < 2; i++) {
    const bool transformed = i == 1 || axes == 2;
    t.outputs[i] = transformed ? traits->outputs : 1;
    t.size[i] = transformed ? traits->outputs + traits->taps - 1 : 1;
    t.tiles[i] = falt_ceil_div(y->size[FALT_H + i], t.outputs[i]);
  }
  t.elements = t.size[0] * t.size[1];
  t.all = y->size[FALT_N] * y->size[FALT_D] * t.tiles[0] * t.tiles[1];
  return t;
}

static void set_form(falt_winograd_plan *plan, falt_winograd_form form) {
  const falt_winograd_traits *traits = &falt_winograd_forms[form];
  const int axes = plan->layer.p.filter.size[FALT_H] > 1 ? 2 : 1;
  const int64_t channels = plan->layer.channels;
  plan->tiling = falt_winograd_tile(form, axes, &plan->layer.p.output);
  plan->chain = traits->chain;
  plan->depth = falt_round_up(channels, falt_max(plan->chain, plan->layer.kernels->width));
  plan->group = (size_t)(plan->vectors * plan->layer.kernels->width) * (size_t)(plan->depth * plan->tiling.elements);
  plan->base.cost.error = error_of(traits, plan->tiling.axes, channels);
}

static void set_panels(falt_winograd_plan *plan) {
  const falt_layer_kernels *kernels = plan->layer.kernels;
  plan->vectors = falt_ceil_div(plan->layer.results, kernels->width);
  plan->panels = falt_layer_cut(plan->vectors, falt_ceil_div(plan->vectors, kernels->vectors));
  plan->width = falt_layer_most(&plan->panels) * kernels->width;
  plan->rows = kernels->rows[falt_layer_most(&plan->panels)];
}

/* Blocks whose transforms and sums stay in the second-level cache, so many that threads have equal shares; chunks of
 * panels where tiles are too few. */
static void set_tasks(falt_winograd_plan *plan, const falt_device *device) {
  const int64_t threads = falt_threads_count(device->threads), wanted = threads == 1 ? 1 : 2 * threads;
  const int64_t panels = plan->layer.p.output.size[FALT_G] * plan->panels.count; /* of all groups */
  const int64_t tile = plan->tiling.elements * (plan->depth + plan->width) * (int64_t)sizeof(float);
  const int64_t cached = (int64_t)(device->caches.l2 * 3 / 4) / tile;
  const int64_t block = falt_max(LEAST_BLOCK, cached / plan->rows * plan->rows);
  int64_t blocks = falt_ceil_div(plan->tiling.all, block);
  if (blocks >= threads || panels < threads) blocks = falt_min(plan->tiling.all, falt_round_up(blocks, threads));
  plan->blocks = falt_layer_cut(plan->tiling.all, blocks);
  plan->chunks = falt_layer_cut(panels, falt_min(panels, falt_ceil_div(wanted, plan->blocks.count)));
  const int64_t most = falt_layer_most(&plan->blocks);
  plan->pitch = most * plan->depth + PAD;
  plan->sums_pitch = most * plan->width + PAD;
}

static void lay_memory(falt_winograd_plan *plan) {
  const size_t most = (size_t)falt_layer_most(&plan->blocks), elements = (size_t)plan->tiling.elements;
  const size_t columns = (size_t)((FALT_WINOGRAD_RUN - 1) * plan->tiling.outputs[1] + plan->tiling.size[1]);
  const size_t pixels = (size_t)plan->tiling.size[0] * columns, groups = (size_t)plan->layer.p.output.size[FALT_G];
  const size_t chains = plan->chain ? (size_t)(plan->depth / plan->chain) : 1;
  const size_t outputs = (size_t)(plan->tiling.outputs[0] * plan->tiling.outputs[1]);
  falt_winograd_scratch *at = &plan->at;
  at->pixels = falt_place_part(&at->parts, pixels * sizeof(float *));
  at->gathered = falt_place_part(&at->parts, plan->in_place ? 0 : pixels * FALT_WINOGRAD_CHUNK * sizeof(float));
  at->constant = falt_place_part(&at->parts, (size_t)plan->layer.channels * sizeof(float));
  at->inputs = falt_place_part(&at->parts, elements * (size_t)plan->pitch * sizeof(float));
  at->list = falt_place_part(&at->parts, chains * most * sizeof(float *));
  at->sums = falt_place_part(&at->parts, elements * (size_t)plan->sums_pitch * sizeof(float));
  at->outputs = falt_place_part(&at->parts, outputs * FALT_LAYER_WIDEST * sizeof(float));
  falt_memory_layout *all = &plan->base.layout;
  falt_rows_place(all, plan->base.device, &at->parts);
  plan->factors = falt_place_part(all, 2 * groups * (size_t)plan->layer.results * sizeof(float));
  plan->filter = falt_place_part(all, plan->base.packed ? 0 : groups * plan->group * sizeof(float));
  plan->base.workspace = all->total;
}

/* The filter with contiguous output channels; its taps are the outermost dimension but for groups. */
static falt_tensor taps_tensor(const falt_tensor *filter) {
  static const int outwards[] = {FALT_K, FALT_C, FALT_W, FALT_H, FALT_D, FALT_G};
  falt_tensor w = *filter;
  falt_tensor_order(&w, outwards);
  return w;
}

/* Transforms a filter that is known: only for the plan that was chosen. */
static falt_status ready(falt_plan *base) {
  falt_winograd_plan *plan = (falt_winograd_plan *)base;
  if (!plan->values) return FALT_OK;
  FALT_TRY(falt_layer_room(&plan->packed, (size_t)plan->layer.p.output.size[FALT_G] * plan->group));
  FALT_TRY(falt_layer_room(&plan->taps, (size_t)falt_tensor_count(&plan->taps_tensor)));
  falt_winograd_pack(plan, plan->values, plan->packed);
  falt_winograd_copy_taps(plan, plan->values, plan->taps);
  plan->values = NULL;
  return FALT_OK;
}

/* The fastest form whose error the budget allows; if there is none, the form of the smallest error. Forms have
 * different bits, so a deterministic choice knows nothing of this machine. */
static falt_winograd_form best_form(falt_winograd_plan *plan, const falt_ask *ask) {
  falt_winograd_form best = FALT_WINOGRAD_FORMS;
  double seconds = INFINITY, error = INFINITY;
  const bool steady = ask->budget->deterministic && ask->device->steady;
  const falt_device *device = steady ? ask->device->steady : ask->device;
  for (int i = 0; i < FALT_WINOGRAD_FORMS; i++) {
    if (falt_winograd_forms[i].taps != plan->layer.p.filter.size[FALT_W]) continue;
    set_form(plan, (falt_winograd_form)i);
    if (!can_be_packed(plan)) continue;
    set_tasks(plan, device);
    const double expected = estimate(plan, device), excess = fmax(plan->base.cost.error, ask->budget->max_error);
    if (excess > error || (excess == error && expected >= seconds)) continue;
    best = (falt_winograd_form)i;
    seconds = expected;
    error = excess;
  }
  return best;
}

static falt_plan *plan_winograd(const falt_solver *solver, falt_ask *ask) {
  static const falt_plan_table table = {falt_winograd_execute, print, destroy, ready};
  falt_layer layer;
  const char *reason = falt_layer_init(&layer, ask->problem, ask->device->isa);
  if (!reason) reason = falt_winograd_refusal(&layer.p);
  if (reason) return falt_refuse(ask, "%s", reason);
  falt_winograd_plan *plan = falt_plan_new(sizeof *plan, &table, solver, ask);
  if (!plan) return NULL;
  plan->layer = layer;
  plan->kernels = falt_winograd_kernels_for(ask->device->isa);
  plan->in_place = falt_tensor_unit(&layer.p.input, FALT_C);
  plan->values = ask->filter_values;
  plan->base.packed = plan->values != NULL;
  plan->taps_tensor = taps_tensor(&layer.p.filter);
  set_panels(plan);
  const falt_winograd_form form = best_form(plan, ask);
  if (form == FALT_WINOGRAD_FORMS) {
    destroy(&plan->base);
    return falt_refuse(ask, "its transformed filter exceeds 2^63 bytes");
  }
  set_form(plan, form);
  set_tasks(plan, ask->device);
  lay_memory(plan);
  plan->base.cost.seconds = estimate(plan, ask->device);
  return &plan->base;
}

extern const falt_solver falt_solver_winograd;
const falt_solver falt_solver_winograd = {
    .name = "winograd", .device_kind = "cpu", .avx2 = 1.35, .mixes = true, .plan = plan_winograd};
