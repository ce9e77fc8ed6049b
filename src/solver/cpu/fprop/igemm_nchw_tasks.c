/* Cuts the work of igemm-nchw into tasks, and estimates a cut. */
#include <math.h>

#include "solver/cpu/fprop/igemm_nchw.h"

/* A task multiplies a chunk of output channels by a band of panels. With two threads tasks are single panels. Where
 * caches are far from each other, cuts of several chunks and bands are compared: each chunk reads the whole input once
 * more, and each band may pack the chunk's rows for itself, instead of waiting for rows from other cores' caches. */

enum { LEAST_CHUNK = 8 /* rows that keep a kernel busy */ };

int64_t falt_igemm_nchw_tasks(const falt_igemm_nchw_plan *plan) {
  return plan->layer.p.output.size[FALT_G] * plan->bands.count * plan->chunks.count;
}

/* ---- estimate */

/* Fraction of the multiply-add peak, measured on layers of 7 x 7 to 56 x 56, AVX-512. */
static const double share = 0.85;
/* The multiply-adds that take as long as moving one isolated element. */
static const double apart = 32;
/* Of the time of one line after the other: both operands are read in order, while others are multiplied. */
static const double in_order = 0.25;

/* The multiply-adds that take as long as packing one element of the panel: neighbours by vectors, in pieces that end
 * with the output rows and are computed once for all channels; others one by one. */
static double element_cost(const falt_layer *layer) {
  const falt_tensor *x = &layer->p.input;
  const double row = (double)falt_min(layer->p.output.size[FALT_W], FALT_LAYER_WIDEST);
  const int64_t step = x->stride[FALT_W] * layer->p.axis[2].stride;
  return step == 1 ? 4 + (64 + 2400 / (double)layer->channels) / row : apart;
}

/* The work of the thread with most of it, as a multiple of an equal share: neighbouring panels are equal shares. */
static double uneven(const falt_igemm_nchw_plan *plan, double threads) {
  const double rounds = ceil((double)falt_igemm_nchw_tasks(plan) / threads);
  const double panels = rounds * (double)falt_layer_most(&plan->bands) / (double)plan->panels.count;
  const double vectors = panels < 1 ? ceil(panels * (double)plan->vectors) : panels * (double)plan->vectors;
  const double groups = (double)plan->layer.p.output.size[FALT_G];
  return vectors * (double)falt_layer_most(&plan->chunks) * threads /
         ((double)(plan->vectors * plan->layer.results) * groups);
}

/* Bytes of a chunk's lines that each of its calls loads again: rows that are read in place with a stride, if the lines
 * of a strip of rows do not stay in the second-level cache. */
static double lines_again(const falt_igemm_nchw_plan *plan, const falt_device *device) {
  const int64_t calls = falt_ceil_div(falt_layer_most(&plan->chunks), plan->rows);
  const int64_t stride = plan->step * (int64_t)sizeof(float);
  const bool again = plan->step > 1 && !falt_igemm_nchw_lines_stay(&plan->layer, stride, device->caches.l2);
  return again ? (double)(calls * plan->layer.channels * FALT_IGEMM_NCHW_LINE) * sizeof(float) : 0;
}

/* Bytes of the lines of outputs that a thread writes in part, so that it loads what other threads have written. */
static double lines_in_part(const falt_igemm_nchw_plan *plan, double threads) {
  const falt_tensor *y = &plan->layer.p.output;
  const int64_t stride = falt_min(y->stride[FALT_W], FALT_IGEMM_NCHW_LINE);
  return y->size[FALT_W] > 1 && stride > 1 ? falt_tensor_bytes(y) * (double)stride / threads : 0;
}

/* Seconds in which a thread loads the input once more for each further chunk, and the rows of its chunk, which other
 * threads may have just packed; and lines that it loads more than once or to write a part. */
static double loads(const falt_igemm_nchw_plan *plan, const falt_device *device) {
  const falt_problem *p = &plan->layer.p;
  const double threads = falt_threads_count(device->threads), chunks = (double)plan->chunks.count;
  const double input = falt_tensor_bytes(&p->input) * (chunks - 1) / threads,
               rows = falt_tensor_bytes(&p->filter) / chunks;
  const bool written = falt_igemm_nchw_packs_all(plan);
  const double lines = lines_again(plan, device) + lines_in_part(plan, threads);
  return in_order * (falt_load_shared(device, input + (written ? 0 : rows)) +
                     falt_load_written(device, (written ? rows : 0) + lines));
}

static double estimate(const falt_igemm_nchw_plan *plan, const falt_device *device) {
  const falt_layer *layer = &plan->layer;
  const bool far = falt_caches_are_far(device);
  const double lanes = (double)(plan->vectors * layer->kernels->width) / (double)layer->positions;
  const double copies = element_cost(layer) * (double)plan->chunks.count / (double)layer->results;
  const double results = layer->p.output.stride[FALT_W] == 1 ? 0 : apart / (double)plan->depth;
  const double work = falt_problem_flops(&layer->p) * (lanes + copies + results);
  const double pack = falt_igemm_nchw_pack_work(plan);
  const double most = far ? falt_layer_share(falt_layer_most(&plan->panels)) : share;
  const double tasks = far ? uneven(plan, falt_threads_count(device->threads)) : 1;
  return falt_roofline(device, FALT_F32, work * tasks + pack, most, falt_problem_bytes(&layer->p)) +
         loads(plan, device);
}

/* ---- cuts */

static void cut(falt_igemm_nchw_plan *plan, int64_t panels, int64_t chunks, int64_t bands) {
  plan->panels = falt_layer_cut(plan->vectors, panels);
  plan->chunks = falt_layer_cut(plan->layer.results, chunks);
  plan->bands = falt_layer_cut(panels, bands);
  plan->rows = falt_min(plan->layer.results, plan->layer.kernels->rows[falt_layer_most(&plan->panels)]);
  plan->base.cost.seconds = estimate(plan, plan->base.device);
}

/* Panels of the widest kernel, or of half its width where positions are few; then output channels are shared out too.
 */
static void cut_near(falt_igemm_nchw_plan *plan) {
  const falt_layer *layer = &plan->layer;
  const falt_layer_kernels *kernels = layer->kernels;
  const int64_t groups = layer->p.output.size[FALT_G], threads = falt_threads_count(plan->base.device->threads);
  const int64_t wanted = threads == 1 ? 1 : 2 * threads;
  int64_t most = kernels->vectors;
  const bool packs = !plan->base.packed && plan->step == 0 && plan->vectors <= most; /* by rows: once, in one panel */
  while (!packs && most > 2 && falt_ceil_div(plan->vectors, most) * groups < wanted) most--;
  const int64_t panels = falt_ceil_div(plan->vectors, most);
  const int64_t rows = falt_min(layer->results, kernels->rows[falt_ceil_div(plan->vectors, panels)]);
  const int64_t calls = falt_ceil_div(layer->results, rows);
  plan->just_in_time = packs;
  cut(plan, panels, falt_min(calls, falt_ceil_div(wanted, panels * groups)), panels);
}

static void keep_better(falt_igemm_nchw_plan *plan, const falt_igemm_nchw_plan *other) {
  if (other->base.cost.seconds < plan->base.cost.seconds) *plan = *other;
}

/* Whether a task may pack its rows: they and a panel stay in the second-level cache. */
static bool may_own_rows(const falt_igemm_nchw_plan *plan, int64_t chunks) {
  const int64_t elements = falt_ceil_div(plan->layer.results, chunks) * plan->depth;
  return !plan->base.packed && plan->step == 0 &&
         elements * (int64_t)sizeof(float) <= (int64_t)plan->base.device->caches.l2 / 4;
}

/* So many chunks of output channels, by panels of so many vectors at most. */
static void try_chunks(falt_igemm_nchw_plan *plan, int64_t chunks, int64_t most) {
  const int64_t threads = falt_threads_count(plan->base.device->threads), vectors = plan->vectors;
  const int64_t parts = chunks * plan->layer.p.output.size[FALT_G], panels = falt_ceil_div(vectors, most);
  const int64_t bands = falt_min(vectors, falt_ceil_div(threads, parts));
  falt_igemm_nchw_plan other = *plan;
  other.just_in_time = other.own_rows = false;
  for (int64_t more = panels; more < panels + threads && more <= vectors; more++) {
    if (more > panels && more * parts % threads > 0) continue; /* panels for equal numbers of tasks */
    cut(&other, more, chunks, more);
    keep_better(plan, &other);
  }
  if (!may_own_rows(plan, chunks)) return;
  other.own_rows = true;
  cut(&other, falt_min(vectors, falt_round_up(panels, bands)), chunks, bands);
  keep_better(plan, &other);
}

void falt_igemm_nchw_cut(falt_igemm_nchw_plan *plan) {
  const falt_layer *layer = &plan->layer;
  const int64_t threads = falt_threads_count(plan->base.device->threads);
  plan->vectors = falt_ceil_div(layer->positions, layer->kernels->width);
  cut_near(plan);
  if (!falt_caches_are_far(plan->base.device)) return;
  const int64_t chunks = falt_max(1, falt_min(threads, layer->results / LEAST_CHUNK));
  for (int64_t i = 1; i <= chunks; i++)
    for (int64_t most = layer->kernels->vectors; most > 1; most--) try_chunks(plan, i, most);
}
