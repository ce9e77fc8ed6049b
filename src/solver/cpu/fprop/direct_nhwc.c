/* Solver direct-nhwc: fprop of dense NHWC layers by indirect convolution, with vectors along output channels.
 *
 *     y[p, k] = sum over taps j and channels c of  x[p*stride + j*dilation - pad, c] * w[k, c, j]
 *
 * A register block of positions by up to 4 vectors of channels loops over all (j, c), without a padded copy of x. With
 * few input channels, a row of taps is one segment of S*C elements. Small groups share a vector. */
#include "solver/cpu/fprop/direct_nhwc.h"

#include <math.h>

#include "core/memory.h"
#include "solver/cpu/common/rows.h"

enum {
  FEW_CHANNELS = 16,
  BLOCK = 96,
  LARGE_BLOCK = 400,
  FOLDED_BLOCK = 384,
  WIDE_BLOCK = 120,
  MOST_SEGMENTS = 1 << 14
};
static const double LEAST_OUTSIDE = 0.0065;    /* of the taps, for each row of a call: calls of many are seldom full */
enum { SHORT_ROW = 64, MOST_SLOTS = 1 << 17 }; /* positions; elements */

static void print(const falt_plan *base, falt_text *text) {
  const falt_direct_nhwc_plan *plan = (const falt_direct_nhwc_plan *)base;
  const falt_layer *layer = &plan->layer;
  falt_text_add(text, "(direct-nhwc %s %lldx%lld%s%s%s block=%lld threads=%d)", falt_isa_name(base->device->isa),
                (long long)plan->rows, (long long)(falt_layer_most(&plan->panels) * layer->kernels->width),
                plan->folds        ? " folded"
                : plan->joined > 1 ? " joined"
                : plan->skips      ? " inside"
                                   : "",
                plan->in_place ? "" : " gathered", plan->just_in_time ? " just-in-time" : "",
                (long long)(falt_layer_most(&plan->blocks) * plan->unit), falt_threads_count(base->device->threads));
}

static void destroy(falt_plan *plan) {
  falt_free(((falt_direct_nhwc_plan *)plan)->packed);
  falt_free(plan);
}

/* ---- applicable, in addition to the conditions of all layers */

/* Filters whose elements repeat one another may be far larger than memory, and whole vectors larger still. */
static bool can_be_packed(const falt_direct_nhwc_plan *plan) {
  const int64_t columns = plan->vectors * plan->layer.kernels->width, groups = plan->layer.p.output.size[FALT_G];
  int64_t elements, bytes;
  return falt_mul(columns * groups, plan->segments * plan->length, &elements) &&
         falt_mul(elements, (int64_t)plan->layer.kernels->lane_size, &bytes);
}

static const char *refusal(const falt_direct_nhwc_plan *plan) {
  return plan->segments > MOST_SEGMENTS ? "its filter has too many taps for a list of addresses"
         : !can_be_packed(plan)         ? "its packed filter exceeds 2^63 bytes"
                                        : NULL;
}

/* ---- estimate */

/* The multiply-adds that take as long as moving one isolated element. */
static const double apart = 64;
/* Steps of the depth that take as long as beginning a block of sums and storing it. */
static const double leaving = 16;

static int64_t task_count(const falt_direct_nhwc_plan *plan) {
  return plan->spans * plan->blocks.count * plan->chunks.count;
}

/* Seconds in which a thread loads the panels of its tasks: which all threads have packed, or beyond an equal share,
 * where each task packs them for itself. */
static double loads_panels(const falt_direct_nhwc_plan *plan, const falt_device *device, double filter) {
  const double threads = falt_threads_count(device->threads), tasks = ceil((double)task_count(plan) / threads);
  const double part = fmin(1, tasks / (double)plan->chunks.count);
  if (plan->base.packed || (plan->just_in_time && plan->blocks.count == 1)) return 0;
  return falt_load_shared(device, filter * (plan->just_in_time ? fmax(0, part - 1 / threads) : part));
}

static double estimate(const falt_direct_nhwc_plan *plan, const falt_device *device) {
  const falt_layer *layer = &plan->layer;
  const double lanes = (double)(plan->vectors * layer->kernels->width) / (double)layer->results;
  const double depth = (double)(plan->segments * plan->length);
  const double switches = 1 + 3 / (double)plan->length + leaving / depth; /* a segment's addresses are loaded */
  const double gathers = plan->in_place ? 0 : apart * (double)plan->chunks.count / (double)layer->results;
  const double results = falt_tensor_unit(&layer->p.output, FALT_C) ? 0 : apart / depth;
  const double work = plan->joined > 1 ? 1.5 : plan->skips ? plan->inside_share : 1;
  const double uneven = falt_far_imbalance(device, task_count(plan));
  const double stretch = work * lanes * switches + gathers + results;
  const double filter = (double)plan->group * layer->kernels->lane_size * (double)layer->p.output.size[FALT_G];
  return falt_roofline(device, layer->p.accumulator,
                       (falt_problem_flops(&layer->p) * stretch + falt_direct_nhwc_pack_work(plan)) * uneven,
                       falt_layer_share(falt_layer_most(&plan->panels)), falt_problem_bytes(&layer->p)) +
         falt_filter_loads(device, filter, plan->spans * plan->blocks.count, plan->chunks.count) +
         loads_panels(plan, device, filter);
}

/* ---- plan */

/* The number of pieces of a whole, raised a little for equal work of threads. */
static int64_t even(int64_t pieces, int64_t whole, int64_t threads) {
  return pieces < threads ? pieces : falt_min(whole, falt_round_up(pieces, threads));
}

/* Blocks of a plane: the input of its rows' taps is in slots at the same time. Short rows are copied whole for all rows
 * that read them, and blocks are whole rows. Other rows are read in place except at their ends. Returns false and
 * leaves the plan's blocks if slots would not fit into a cache. */
static bool set_slots(falt_direct_nhwc_plan *plan) {
  const falt_layer *layer = &plan->layer;
  const falt_tensor *y = &layer->p.output;
  const falt_axis *axis = &layer->p.axis[2];
  const int64_t width = y->size[FALT_W], height = y->size[FALT_H],
                threads = falt_threads_count(plan->base.device->threads);
  const bool ends = width > SHORT_ROW || (axis->pad[0] <= 0 && axis->pad[1] <= 0);
  const int64_t wanted = threads == 1 ? 1 : falt_ceil_div(4 * threads * width * height, layer->positions);
  int64_t lines = ends ? falt_ceil_div(BLOCK, width) + 1 : falt_min(height, FOLDED_BLOCK / width);
  while (!ends && lines > 1 && falt_ceil_div(height, lines) < wanted) lines--;
  plan->slots = falt_slots_for(layer, falt_min(width, BLOCK), lines, ends);
  if (plan->slots.count > MOST_SLOTS / plan->slots.size) return false;
  plan->unit = ends ? 1 : width;
  plan->span = width * height;
  plan->spans = layer->positions / plan->span;
  const int64_t units = plan->span / plan->unit, pieces = falt_ceil_div(plan->span, ends ? BLOCK : lines * width);
  plan->blocks = falt_layer_cut(units, plan->spans % threads == 0 ? pieces : even(pieces, units, threads));
  return true;
}

static void set_segments(falt_direct_nhwc_plan *plan) {
  const falt_layer *layer = &plan->layer;
  const falt_tensor *x = &layer->p.input;
  const int64_t s = layer->p.filter.size[FALT_W];
  plan->spans = plan->unit = 1;
  plan->span = layer->positions;
  plan->in_place = falt_tensor_unit(x, FALT_C);
  const bool together = plan->in_place && (x->stride[FALT_W] == layer->channels || x->size[FALT_W] == 1);
  plan->folds =
      s > 1 && layer->channels < FEW_CHANNELS && together && layer->p.axis[2].dilation == 1 && set_slots(plan);
  plan->segments = plan->folds ? layer->taps / s : layer->taps;
  plan->length = plan->folds ? s * layer->channels : layer->channels;
}

/* Whether so many taps are outside that skipping them pays for separate calls. */
static void set_inside(falt_direct_nhwc_plan *plan) {
  plan->inside_share = plan->folds || plan->joined > 1 ? 1 : falt_inside_share(&plan->layer);
  plan->skips = 1 - plan->inside_share > LEAST_OUTSIDE * (double)plan->rows;
  if (plan->skips) falt_inside_init(&plan->inside, &plan->layer);
}

/* Whether the groups' channels follow each other. */
static bool are_adjacent(const falt_tensor *t) {
  return t->stride[FALT_C] == 1 && t->stride[FALT_G] == t->size[FALT_C];
}

static int64_t joinable(const falt_direct_nhwc_plan *plan) {
  const falt_layer *layer = &plan->layer;
  const falt_problem *p = &layer->p;
  const int64_t room = layer->kernels->width / falt_max(layer->channels, layer->results);
  int64_t count = falt_min(room, p->output.size[FALT_G]);
  if (!plan->shares || !are_adjacent(&p->output) || (p->has_residual && !are_adjacent(&p->residual))) return 1;
  while (count > 1 && p->output.size[FALT_G] % count > 0) count--;
  return falt_max(count, 1);
}

static void join(falt_tensor *t, int64_t count, bool channels) {
  t->size[FALT_G] /= count;
  t->stride[FALT_G] *= count;
  if (channels) t->size[FALT_C] *= count;
}

/* Merges groups that share lists, and groups that share vectors, whose rows keep one group's channels. */
static void set_groups(falt_direct_nhwc_plan *plan) {
  falt_problem *p = &plan->layer.p;
  plan->shares = plan->in_place && !plan->folds && (p->input.size[FALT_G] == 1 || are_adjacent(&p->input));
  plan->joined = joinable(plan);
  if (plan->joined == 1) return;
  join(&p->input, plan->joined, false);
  join(&p->output, plan->joined, true);
  join(&p->residual, plan->joined, true);
  plan->layer.results *= plan->joined;
}

/* Panels of so many vectors at most. */
static void set_panels(falt_direct_nhwc_plan *plan, int64_t most) {
  const falt_layer_kernels *kernels = plan->layer.kernels;
  plan->vectors = falt_ceil_div(plan->layer.results, kernels->width);
  plan->panels = falt_layer_cut(plan->vectors, falt_ceil_div(plan->vectors, most));
  plan->rows = plan->joined > 1 ? kernels->group_rows : kernels->rows[falt_layer_most(&plan->panels)];
  plan->group = (size_t)(plan->vectors * kernels->width) * (size_t)(plan->segments * plan->length);
}

/* Whether a filter that is given with each execution may be divided by panels, each packed just in time by the tasks
 * that multiply it, one for each of so many blocks of positions. */
static bool may_own_panels(const falt_direct_nhwc_plan *plan, int64_t blocks) {
  return !plan->base.packed && plan->in_place && !plan->folds && plan->joined == 1 &&
         plan->layer.positions <= blocks * LARGE_BLOCK;
}

/* Blocks so large that a filter which does not stay in the cache is read seldom, and so small that threads have enough
 * of them; chunks of panels where positions are too few. */
static void set_tasks(falt_direct_nhwc_plan *plan, int64_t owned) {
  const int64_t panels = plan->layer.p.output.size[FALT_G] * plan->panels.count; /* of all groups */
  const int64_t threads = falt_threads_count(plan->base.device->threads), wanted = threads == 1 ? 1 : 4 * threads;
  const int64_t positions = plan->layer.positions;
  const bool stays = plan->group * plan->layer.kernels->lane_size <= plan->base.device->caches.l2 / 2;
  int64_t block = stays ? BLOCK : LARGE_BLOCK;
  while (block >= 2 * BLOCK && falt_ceil_div(positions, block) * panels < wanted) block /= 2;
  const bool alone =
      may_own_panels(plan, falt_max(1, owned)) && (owned > 0 || panels % threads == 0 || panels >= 4 * threads);
  if (alone) block = positions;
  if (!plan->in_place) block = falt_min(block, falt_max(1, (INT64_C(1) << 17) / (plan->segments * plan->length)));
  if (!plan->folds)
    plan->blocks = falt_layer_cut(
        positions, alone ? falt_max(1, owned) : even(falt_ceil_div(positions, block), positions, threads));
  plan->owned = owned > 0 && alone;
  plan->chunks = falt_layer_cut(panels, falt_min(panels, falt_ceil_div(wanted, plan->spans * plan->blocks.count)));
}

/* Cuts the work into panels of so many vectors at most, and into tasks: by panels that tasks own and so many blocks of
 * positions, or as positions require. */
static void cut(falt_direct_nhwc_plan *plan, int64_t most, int64_t owned) {
  set_panels(plan, most);
  set_inside(plan);
  set_tasks(plan, owned);
  falt_direct_nhwc_set_parts(plan);
  plan->base.cost.seconds = estimate(plan, plan->base.device);
}

/* Panels that tasks own, for first to last blocks of positions: the cut of the lowest estimate below a limit. */
static void try_owned_panels(falt_direct_nhwc_plan *plan, int64_t first, int64_t last, double limit) {
  for (int64_t most = plan->layer.kernels->vectors; most >= 1; most /= 2)
    for (int64_t blocks = first; blocks <= last; blocks++) {
      falt_direct_nhwc_plan other = *plan;
      if (!may_own_panels(plan, blocks)) continue;
      cut(&other, most, blocks);
      if (!other.just_in_time || other.base.cost.seconds >= limit) continue;
      limit = other.base.cost.seconds;
      *plan = other;
    }
}

/* Of the estimate without: several tasks pack the same panel only for a clear gain. */
static const double clear_gain = 0.9;

/* Where caches are far from each other, it may be faster if tasks pack panels just in time, each for itself: panels so
 * narrow that each thread has its own, or wider ones and some blocks of positions. */
static void own_panels(falt_direct_nhwc_plan *plan) {
  const int64_t threads = falt_threads_count(plan->base.device->threads);
  try_owned_panels(plan, 1, 1, plan->base.cost.seconds);
  try_owned_panels(plan, 2, falt_min(threads, plan->layer.positions), clear_gain * plan->base.cost.seconds);
}

static void lay_memory(falt_direct_nhwc_plan *plan) {
  const size_t block = (size_t)(falt_layer_most(&plan->blocks) * plan->unit), segments = (size_t)plan->segments;
  const size_t width = (size_t)(falt_layer_most(&plan->panels) * plan->layer.kernels->width);
  const size_t length = (size_t)plan->length, slots = plan->folds ? (size_t)plan->slots.count : 0;
  const size_t channels = (size_t)plan->layer.p.output.size[FALT_G] * (size_t)plan->layer.results; /* of all groups */
  const size_t lane = plan->layer.kernels->lane_size;
  falt_direct_nhwc_scratch *at = &plan->at;
  at->list = falt_place_part(&at->parts, block * segments * sizeof(void *));
  at->out = falt_place_part(&at->parts, block * sizeof(int64_t));
  at->residual = falt_place_part(&at->parts, block * sizeof(int64_t));
  at->constant = falt_place_part(&at->parts, (size_t)falt_direct_nhwc_constant_length(plan) * lane);
  at->gathered = falt_place_part(&at->parts, plan->in_place ? 0 : block * segments * length * lane);
  at->slots = falt_place_part(&at->parts, slots * (size_t)plan->slots.size * lane);
  at->tags = falt_place_part(&at->parts, slots * sizeof(falt_slot_tag));
  at->sums = falt_place_part(&at->parts, (plan->parts > 1 ? block : FALT_LAYER_ROWS) * FALT_LAYER_WIDEST * lane);
  at->panel = falt_place_part(&at->parts, plan->just_in_time ? (size_t)plan->part_most * width * lane : 0);
  at->taps = falt_place_part(&at->parts, plan->skips ? block * sizeof(falt_box) : 0);
  at->calls = falt_place_part(&at->parts, plan->skips ? (block + 1) * sizeof(falt_inside_call) : 0);
  at->which = falt_place_part(&at->parts, plan->skips ? segments * sizeof(int32_t) : 0);
  at->jumps = falt_place_part(&at->parts, plan->skips ? segments * sizeof(falt_layer_jump) : 0);
  falt_memory_layout *all = &plan->base.layout;
  falt_rows_place(all, plan->base.device, &at->parts);
  plan->factors = falt_place_part(all, 2 * channels * lane);
  plan->filter = falt_place_part(all, plan->base.packed || plan->just_in_time
                                          ? 0
                                          : (size_t)plan->layer.p.output.size[FALT_G] * plan->group * lane);
  plan->base.workspace = all->total;
}

/* Packs a filter that is known: only for the plan that was chosen. */
static falt_status ready(falt_plan *base) {
  falt_direct_nhwc_plan *plan = (falt_direct_nhwc_plan *)base;
  if (!plan->values) return FALT_OK;
  const size_t elements = (size_t)plan->layer.p.output.size[FALT_G] * plan->group;
  float *packed;
  FALT_TRY(falt_layer_room(&packed, elements * (plan->layer.kernels->lane_size / sizeof *packed)));
  plan->packed = packed;
  falt_direct_nhwc_pack(plan, plan->values, plan->packed);
  plan->values = NULL;
  return FALT_OK;
}

static const char *choose(falt_plan *base, falt_ask *ask) {
  falt_direct_nhwc_plan *plan = (falt_direct_nhwc_plan *)base;
  const char *why = falt_layer_init_lane(&plan->layer, ask->problem, ask->device->isa);
  if (why) return why;
  set_segments(plan);
  set_groups(plan);
  set_panels(plan, plan->layer.kernels->vectors);
  why = refusal(plan);
  if (why) return why;
  plan->values = ask->filter_values;
  base->packed = plan->values != NULL;
  plan->tap_step = falt_tensor_tap_step(&plan->layer.p.filter);
  cut(plan, plan->layer.kernels->vectors, 0);
  if (falt_caches_are_far(ask->device)) own_panels(plan);
  lay_memory(plan);
  return NULL;
}

static const falt_plan_steps steps = {
    sizeof(falt_direct_nhwc_plan), {falt_direct_nhwc_execute, print, destroy, ready}, NULL, choose};

extern const falt_solver falt_solver_direct_nhwc;
const falt_solver falt_solver_direct_nhwc = {
    .name = "direct-nhwc", .device_kind = "cpu", .avx2 = 1.15, .plan = falt_plan_make, .steps = &steps};
