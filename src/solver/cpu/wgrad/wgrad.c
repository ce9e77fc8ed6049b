/* Solver wgrad: weight and bias gradients of dense layers as sums of outer products over all positions.
 *
 *     dw[k, c, j] = sum over positions p of  x[p*stride + j*dilation - pad, c] * dy[p, k],    db[k] = sum of dy[p, k]
 *
 * The bias is one more row, whose input is 1 everywhere. If there are few tasks, positions are cut into slices, whose
 * sums are added in order. Deterministic plans cut slices by the problem alone, so the output does not depend on the
 * number of threads. */
#include "solver/cpu/wgrad/wgrad.h"

#include <math.h>

#include "core/memory.h"
#include "solver/cpu/common/rows.h"

enum {
  FEW_CHANNELS = 16,
  MOST_CHUNK = 256,  /* positions */
  FEWEST_ROWS = 48,  /* of a block, so that copying a panel pays */
  LEAST_ROWS = 12,   /* the same where threads would be idle: two calls of a kernel */
  MOST_ROWS = 1024,  /* of a block */
  FEW_TASKS = 32,    /* below, positions are sliced */
  SHORT_SLICE = 256, /* positions */
  LINE = 16,         /* floats of a cache line */
};

/* Of the largest block. */
static int64_t block_rows(const falt_wgrad_plan *plan) {
  return falt_layer_most(&plan->blocks) * falt_wgrad_unit(plan);
}

static void print(const falt_plan *base, falt_text *text) {
  const falt_wgrad_plan *plan = (const falt_wgrad_plan *)base;
  falt_text_add(text, "(wgrad %s %lldx%lld%s%s", falt_isa_name(base->device->isa), (long long)block_rows(plan),
                (long long)(falt_layer_most(&plan->panels) * plan->layer.kernels->width), plan->folds ? " folded" : "",
                plan->in_place ? "" : " copied");
  falt_text_add(text, " chunk=%lld slices=%lld threads=%d)", (long long)plan->chunk, (long long)plan->slices.count,
                falt_threads_count(base->device->threads));
}

/* ---- estimate */

/* The multiply-adds that take as long as moving an element: in runs, transposed in squares, alone; and as finding a
 * position's pixel for a segment. */
static const double near = 3, transposed = 12, apart = 64, listed = 96;
/* The same for an element of the result, by falt_wgrad_apart. */
static const double stored[] = {12, [FALT_APART_NEAR] = 12, [FALT_APART_FAR] = 120}, stored_runs = 24;
/* Concurrent sums, so that no multiply-add waits for the previous one. */
static const double at_once = 8;

/* A row for each of a panel's positions, by its elements. Copies of many channels with a stride take as long as those
 * of neighbours; on two threads wgrad-nchw is faster then, and this cost leaves the choice to it. */
static double row_cost(const falt_wgrad_plan *plan) {
  const falt_tensor *x = &plan->layer.p.input, *y = &plan->layer.p.output;
  const bool many = plan->layer.channels >= FEW_CHANNELS && falt_caches_are_far(plan->base.device);
  const bool near_rows = x->stride[FALT_W] == 1 && (plan->layer.p.axis[2].stride == 1 || many);
  return plan->in_place ? near / 2 + listed / (double)plan->length
         : near_rows    ? near + 64 / (double)falt_min(y->size[FALT_W], 64)
                        : apart;
}

falt_apart falt_wgrad_apart(const falt_tensor *filter, const falt_device *device) {
  const int64_t taps = filter->size[FALT_D] * filter->size[FALT_H] * filter->size[FALT_W];
  const double bytes = (double)falt_tensor_count(filter) * (double)falt_type_size(filter->type);
  if (taps == 1 || filter->stride[FALT_C] == 1) return FALT_APART_NO;
  return bytes > (double)device->caches.l2 ? FALT_APART_FAR : FALT_APART_NEAR;
}

/* Parts of the cost of a byte that another core has written: to load one in order, which the hardware fetches ahead,
 * and to store one. Fitted to bf16 gradients on 16 threads of a Xeon, where a byte takes 0.13 to 0.18 ns to load and
 * 0.38 ns to store, and all products take 1.8 times their estimates: these are smaller by that. */
static const double in_order = 0.1, stores = 0.3;
/* The same for f32 operands, whose products hide more of it, fitted to 21 layers. */
static const double f32_in_order = 0.05;
/* Factor of bytes that do not stay: the operands of one tap are used for too few products to hide it. */
static const double one_tap_beyond = 2.8;

static double equal_part(const falt_device *device, const falt_problem *p) {
  return (falt_tensor_bytes(&p->input) + falt_tensor_bytes(&p->output)) / falt_threads_count(device->threads);
}

double falt_wgrad_loading(const falt_device *device, const falt_problem *p, double bytes) {
  return in_order * falt_load_written(device, fmax(0, bytes - equal_part(device, p)));
}

double falt_wgrad_loading_f32(const falt_device *device, const falt_problem *p, double bytes, falt_wgrad_rate rate) {
  const double stays = (double)device->caches.l2 / 2, equal = equal_part(device, p);
  const double inside = rate.staying * fmax(0, fmin(bytes, stays) - equal);
  const double beyond = rate.beyond * fmax(0, bytes - stays);
  return f32_in_order * falt_load_written(device, inside + beyond);
}

double falt_wgrad_storing(const falt_device *device, double bytes) {
  return stores * falt_load_written(device, bytes);
}

/* Seconds in which a thread loads the operands of its tasks: neighbouring tasks are slices of one block, then blocks of
 * one panel. What they share is loaded once if all of it stays in the second-level cache. */
static double loading(const falt_wgrad_plan *plan, const falt_device *device) {
  const double slices = (double)plan->slices.count, tasks = (double)falt_wgrad_parts(plan) * slices;
  const double own = fmax(1, tasks / (double)falt_threads_count(device->threads)), cuts = fmin(own, slices);
  const double blocks = fmin(own / cuts, (double)plan->blocks.count), panels = own / cuts / blocks;
  const double rows = (double)block_rows(plan) / (double)(plan->by_channels ? plan->segments : 1);
  const double channels = (double)plan->layer.channels, slice = sizeof(float) * (double)plan->layer.positions / slices;
  const double width = (double)(falt_layer_most(&plan->panels) * plan->layer.kernels->width);
  const double once = cuts * slice * (fmin(channels, blocks * rows) + panels * width);
  const double again = own * slice * (fmin(channels, rows) + width);
  const double bytes = once < (double)device->caches.l2 ? once : again;
  return falt_wgrad_loading_f32(device, &plan->layer.p, bytes,
                                (falt_wgrad_rate){1, plan->layer.taps == 1 ? one_tap_beyond : 1});
}

/* Seconds in which a thread adds the slices of its parts, which other threads have summed. */
static double joining(const falt_wgrad_plan *plan, const falt_device *device) {
  const double width = (double)(falt_layer_most(&plan->panels) * plan->layer.kernels->width);
  const double joins = (double)(falt_wgrad_parts(plan) * plan->joins), all = (double)plan->slices.count;
  const double own = ceil(joins / (double)falt_threads_count(device->threads)) / (double)plan->joins; /* parts */
  const double bytes = sizeof(float) * own * all * (double)block_rows(plan) * width;
  return plan->slices.count == 1 ? 0 : falt_loop_starts(device, 1) + in_order * falt_load_written(device, bytes);
}

static double estimate(const falt_wgrad_plan *plan, const falt_device *device) {
  const falt_layer *layer = &plan->layer;
  const falt_tensor *y = &layer->p.output;
  const double columns =
      (double)(plan->panels.size * plan->panels.count + plan->panels.larger) * (double)layer->kernels->width;
  const double sums = (double)(plan->in_place ? plan->length : plan->rows) * (double)falt_layer_most(&plan->panels);
  const double lanes = columns / (double)layer->results * (sums < at_once ? at_once / sums : 1);
  const double panel = falt_tensor_unit(y, FALT_C) ? near : y->stride[FALT_W] == 1 ? transposed : apart;
  const double stretch =
      lanes + panel * (double)plan->blocks.count / (double)plan->rows +
      row_cost(plan) * (double)plan->panels.count / (double)layer->results +
      (plan->by_channels ? stored_runs : stored[falt_wgrad_apart(&layer->p.filter, device)]) / (double)layer->positions;
  return falt_roofline(device, FALT_F32, falt_problem_flops(&plan->base.problem) * stretch,
                       falt_layer_gradient_share(falt_layer_most(&plan->panels)),
                       falt_problem_bytes(&plan->base.problem)) +
         loading(plan, device) + joining(plan, device);
}

/* ---- plan */

static void set_rows(falt_wgrad_plan *plan) {
  const falt_layer *layer = &plan->layer;
  const falt_tensor *x = &layer->p.input;
  const int64_t s = layer->p.filter.size[FALT_W];
  plan->in_place = falt_tensor_unit(x, FALT_C);
  const bool together = plan->in_place && (x->stride[FALT_W] == layer->channels || x->size[FALT_W] == 1);
  plan->folds = s > 1 && layer->channels < FEW_CHANNELS && together && layer->p.axis[2].dilation == 1;
  plan->segments = plan->folds ? layer->taps / s : layer->taps;
  plan->length = plan->folds ? s * layer->channels : layer->channels;
  plan->rows = plan->segments * plan->length + plan->base.problem.has_bias;
  plan->by_channels = !plan->folds && !plan->base.problem.has_bias && falt_tensor_tap_step(&layer->p.filter) == 1 &&
                      falt_wgrad_apart(&layer->p.filter, plan->base.device) == FALT_APART_FAR;
}

/* Panels as wide as kernels allow; chunks whose panel leaves room in the L1 cache for sums and pixels that are read in
 * place. Rows with gaps justify longer chunks, as long as the panel fits into the L2 cache. */
static void set_panels(falt_wgrad_plan *plan) {
  const falt_layer_kernels *kernels = plan->layer.kernels;
  const int64_t vectors = falt_ceil_div(plan->layer.results, kernels->width);
  plan->panels = falt_layer_cut(vectors, falt_ceil_div(vectors, kernels->vectors));
  const int64_t row = falt_layer_most(&plan->panels) * kernels->width * (int64_t)sizeof(float);
  const falt_caches *caches = &plan->base.device->caches;
  const int64_t fits = (int64_t)(plan->in_place ? caches->l1d / 3 : caches->l2 / 8) / row;
  plan->chunk = falt_max(1, falt_min(falt_min(fits, MOST_CHUNK), plan->layer.positions));
}

/* The rows of the thread with most of them, as a multiple of an equal share. */
static double uneven(const falt_wgrad_plan *plan) {
  const double blocks = (double)plan->blocks.count * (double)block_rows(plan) / (double)plan->rows;
  return blocks * falt_load_imbalance(plan->base.device, falt_wgrad_parts(plan) * plan->slices.count);
}

/* By so much blocks must be uneven, and other blocks or slices faster, to be worth others. */
static const double clearly = 1.05;

/* As many tasks to add the slices of a part as threads need, each of whole cache lines of dw. */
static void set_joins(falt_wgrad_plan *plan) {
  const int64_t threads = falt_threads_count(plan->base.device->threads);
  const bool lines = falt_wgrad_apart(&plan->layer.p.filter, plan->base.device) == FALT_APART_NO;
  const int64_t most = falt_caches_are_far(plan->base.device) && lines ? block_rows(plan) / LINE : 1;
  plan->joins = falt_max(1, falt_min(most, falt_ceil_div(threads, falt_wgrad_parts(plan))));
}

/* Seconds with so many blocks, which are set. */
static double expected_of(falt_wgrad_plan *plan, int64_t blocks) {
  plan->blocks = falt_layer_cut(plan->rows / falt_wgrad_unit(plan), blocks);
  set_joins(plan);
  return estimate(plan, plan->base.device) * uneven(plan);
}

/* On many threads, other numbers of blocks where the default gives some threads more work. Each block copies the panel
 * and lists pixels again. */
static double set_even_blocks(falt_wgrad_plan *plan) {
  const int64_t threads = falt_threads_count(plan->base.device->threads), usual = plan->blocks.count;
  const int64_t units = plan->rows / falt_wgrad_unit(plan);
  const int64_t most = falt_min(units, falt_min(plan->rows / LEAST_ROWS, usual + 2 * threads));
  int64_t best = usual;
  double lowest = expected_of(plan, usual);
  if (!falt_caches_are_far(plan->base.device) || uneven(plan) < clearly) return lowest;
  lowest /= clearly;
  for (int64_t blocks = falt_ceil_div(usual, 2); blocks <= most; blocks++) {
    const double seconds = expected_of(plan, blocks);
    if (seconds >= lowest || block_rows(plan) > MOST_ROWS) continue;
    lowest = seconds;
    best = blocks;
  }
  return expected_of(plan, best);
}

/* The same with so many slices, and blocks for them. */
static double set_blocks(falt_wgrad_plan *plan, int64_t slices) {
  const int64_t groups = plan->layer.p.filter.size[FALT_G], threads = falt_threads_count(plan->base.device->threads);
  const int64_t row = falt_layer_most(&plan->panels) * plan->layer.kernels->width * (int64_t)sizeof(float);
  const int64_t most = falt_max(1, falt_min(MOST_ROWS, (int64_t)plan->base.device->caches.l2 / 8 / row));
  const int64_t columns = groups * plan->panels.count, few = falt_ceil_div(plan->rows, FEWEST_ROWS);
  plan->slices = falt_layer_cut(plan->layer.positions, slices);
  const int64_t wanted = threads == 1 ? 1 : falt_ceil_div(4 * threads, columns * plan->slices.count);
  const int64_t units = plan->rows / falt_wgrad_unit(plan);
  const int64_t blocks = falt_max(falt_ceil_div(plan->rows, most), falt_min(wanted, few));
  plan->blocks = falt_layer_cut(units, falt_min(units, blocks));
  return set_even_blocks(plan);
}

/* Slices by the problem alone in deterministic plans. Else, of one tap on many threads, also up to one a thread, which
 * then loads fewer operands. */
static void set_tasks(falt_wgrad_plan *plan, bool deterministic) {
  const int64_t columns = plan->layer.p.filter.size[FALT_G] * plan->panels.count;
  const int64_t few = falt_ceil_div(plan->rows, FEWEST_ROWS), threads = falt_threads_count(plan->base.device->threads);
  const int64_t most = plan->layer.positions / SHORT_SLICE;
  const int64_t usual = falt_max(1, falt_min(FEW_TASKS / falt_min(FEW_TASKS, columns * few), most));
  int64_t best = usual;
  double lowest = set_blocks(plan, usual) / clearly;
  const bool searches = !deterministic && plan->layer.taps == 1 && falt_caches_are_far(plan->base.device);
  for (int64_t slices = 2 * usual; searches && slices <= falt_min(threads, most); slices *= 2) {
    const double seconds = set_blocks(plan, slices);
    if (seconds >= lowest) continue;
    lowest = seconds;
    best = slices;
  }
  set_blocks(plan, best);
  plan->block = (size_t)(block_rows(plan) * falt_layer_most(&plan->panels) * plan->layer.kernels->width);
}

static void lay_memory(falt_wgrad_plan *plan) {
  const size_t chunk = (size_t)plan->chunk, length = (size_t)plan->length;
  const size_t width = (size_t)(falt_layer_most(&plan->panels) * plan->layer.kernels->width);
  const bool sliced = plan->slices.count > 1;
  falt_wgrad_scratch *at = &plan->at;
  at->panel = falt_place_part(&at->parts, chunk * width * sizeof(float));
  at->list = falt_place_part(&at->parts, chunk * sizeof(float *));
  at->rows = falt_place_part(&at->parts, chunk *
                                             (!plan->in_place ? FALT_WGRAD_PACKED_ROWS
                                              : plan->folds   ? length
                                                              : 0) *
                                             sizeof(float));
  at->constant = falt_place_part(&at->parts, length * sizeof(float));
  at->ones = falt_place_part(&at->parts, sizeof(float));
  at->sums = falt_place_part(&at->parts, sliced ? 0 : plan->block * sizeof(float));
  falt_memory_layout *all = &plan->base.layout;
  falt_rows_place(all, plan->base.device, &at->parts);
  plan->partial = falt_place_part(
      all, sliced ? (size_t)(falt_wgrad_parts(plan) * plan->slices.count) * plan->block * sizeof(float) : 0);
  plan->base.workspace = all->total;
}

static const char *choose(falt_plan *base, falt_ask *ask) {
  falt_wgrad_plan *plan = (falt_wgrad_plan *)base;
  const char *why = falt_layer_init_gradient(&plan->layer, ask->problem, ask->device->isa);
  if (why) return why;
  plan->kernels = falt_outer_kernels_for(ask->device->isa);
  set_rows(plan);
  set_panels(plan);
  set_tasks(plan, ask->budget->deterministic);
  lay_memory(plan);
  base->cost.seconds = estimate(plan, ask->device);
  return NULL;
}

static const falt_plan_steps steps = {
    sizeof(falt_wgrad_plan), {falt_wgrad_execute, print, falt_plan_free, NULL}, NULL, choose};

extern const falt_solver falt_solver_wgrad;
const falt_solver falt_solver_wgrad = {
    .name = "wgrad", .device_kind = "cpu", .avx2 = 1.25, .plan = falt_plan_make, .steps = &steps};
