/* Solver fft-dense: layers that sum over channels and have many taps, by fast transforms (overlap-save).
 *
 *     Y[k] = sum over c of X[c] * conj(W[k, c])    at each frequency of a tile
 *
 * Each input channel of a pair of tiles is transformed once, and each output channel transformed back once. The planner
 * picks it for dozens of taps and few channels: spectra then need fewer products than direct sums. */
#include "solver/cpu/fft/fft_dense.h"

#include <math.h>

enum { LENGTHS = 32, OCTAVES = 4 };
static const double MOST_POINTS = 1 << 22, MOST_BYTES = 512 << 20; /* of spectra: a worker's, and the filter's */

/* Multiply-adds a point beside those of the passes: transforms across lanes, loads and stores; a product; beside a tap.
 * Measured with AVX-512. */
static const double BESIDE = 34, PRODUCT = 15, TAP = 400, EFFICIENCY = 0.4;

/* ---- tiles */

typedef struct lengths {
  falt_fft_wgrad_cut list[LENGTHS];
  double work[LENGTHS]; /* of one transform, for each point */
  int count;
} lengths;

static void add(lengths *all, const falt_rows *rows, const falt_fft_lane *lane, int i, int64_t size, int64_t block,
                bool cyclic) {
  if (all->count == LENGTHS || block < 1) return;
  block = falt_min(block, rows->out[i]);
  all->work[all->count] = falt_fft_work(lane, i == 2 ? size / lane->width : size) / 2;
  all->list[all->count++] = (falt_fft_wgrad_cut){.size = size,
                                                 .block = block,
                                                 .blocks = falt_ceil_div(rows->out[i], block),
                                                 .part = rows->taps[i],
                                                 .parts = 1,
                                                 .cyclic = cyclic};
}

static void list_lengths(lengths *all, const falt_rows *rows, const falt_fft_lane *lane, int i) {
  static const int odd[] = {1, 3, 5};
  const bool alone = rows->taps[0] == 1 && rows->taps[1] == 1;
  const int64_t unit = i < 2 ? 1 : alone ? lane->width * lane->width : lane->width;
  const int64_t extent = falt_extent(&rows->axis[i], rows->taps[i]);
  const double reach = (double)(rows->out[i] - 1) * (double)rows->axis[i].stride + (double)extent;
  const double most = fmin(fmin(2 * reach + (double)unit, ldexp((double)extent + 64, OCTAVES)), MOST_POINTS);
  all->count = 0;
  if (i < 2 && rows->taps[i] == 1) {
    add(all, rows, lane, i, 1, 1, false);
    return;
  }
  const int64_t once = falt_max((rows->out[i] - 1) * rows->axis[i].stride, extent - 1);
  const int64_t period = falt_fft_period(rows, i, once, unit, MOST_POINTS);
  if (period > 0) add(all, rows, lane, i, period, rows->out[i], true);
  for (int k = 0; k < 3; k++)
    for (double n = (double)(odd[k] * unit); n <= most; n *= 2)
      if (n >= (double)extent)
        add(all, rows, lane, i, (int64_t)n, ((int64_t)n - extent) / rows->axis[i].stride + 1, false);
}

static double pairs_of(const falt_fft_dense_plan *plan, const falt_fft_wgrad_cut *const cut[3]) {
  const double boxes =
      (double)plan->rows.batch * (double)cut[0]->blocks * (double)cut[1]->blocks * (double)cut[2]->blocks;
  return (double)plan->groups * ceil(boxes / 2);
}

/* Bytes of the spectra of all taps. */
static double filter_bytes(const falt_fft_dense_plan *plan, double points) {
  return 2 * points * (double)plan->rows.lane_size * (double)(plan->groups * plan->channels * plan->outputs);
}

static double scratch_bytes(const falt_fft_dense_plan *plan, double points) {
  return 2.1 * points * (double)plan->rows.lane_size * (double)(plan->channels + 4);
}

typedef struct search {
  const falt_fft_dense_plan *plan;
  lengths all[3];
  double threads, most;
} search;

/* Multiply-adds of all tiles; infinite if the tile does not fit. */
static double cost_of(const void *context, const int at[3]) {
  const search *s = context;
  const falt_fft_dense_plan *plan = s->plan;
  const lengths *l = s->all;
  const falt_fft_wgrad_cut *const cut[] = {&l[0].list[at[0]], &l[1].list[at[1]], &l[2].list[at[2]]};
  const double work = l[0].work[at[0]] + l[1].work[at[1]] + l[2].work[at[2]], threads = s->threads;
  const double points = (double)cut[0]->size * (double)cut[1]->size * (double)cut[2]->size;
  const double pairs = pairs_of(plan, cut), c = (double)plan->channels, k = (double)plan->outputs;
  const double filter = filter_bytes(plan, points), scratch = scratch_bytes(plan, points);
  if (points > MOST_POINTS || scratch > MOST_BYTES || filter > MOST_BYTES) return INFINITY;
  if (threads * scratch + (plan->values ? 0 : filter) > s->most) return INFINITY;
  const double kept = 0.6 * (double)plan->base.device->caches.l2;
  const double slower = scratch > kept ? 1 + 0.1 * log2(scratch / kept) : 1;
  const double started = 4e3 + 1500 * (double)cut[0]->size * (double)cut[1]->size; /* a tile, and its rows */
  const double each = (c + k) * (points * slower * (work + BESIDE) + started) + c * k * points * slower * PRODUCT;
  const double taps = (double)(plan->rows.taps[0] * plan->rows.taps[1] * plan->rows.taps[2]);
  const double spectrum = points * slower * (work + BESIDE) + started + TAP * taps;
  const double made = plan->values ? 0 : (double)plan->groups * c * k * spectrum;
  return each * ceil(pairs / threads) * threads + made;
}

static double choose_tile(falt_fft_dense_plan *plan, const falt_fft_lane *lane, const falt_budget *budget) {
  search s = {.plan = plan,
              .threads = budget->deterministic ? 1 : falt_threads_count(plan->base.device->threads),
              .most = budget->max_workspace < 0 ? INFINITY : (double)budget->max_workspace};
  int best[3], count[3];
  for (int i = 0; i < 3; i++) list_lengths(&s.all[i], &plan->rows, lane, i);
  for (int i = 0; i < 3; i++) count[i] = s.all[i].count;
  const double least = falt_fft_cheapest(count, cost_of, &s, best);
  for (int i = 0; i < 3 && isfinite(least); i++) plan->cut[i] = s.all[i].list[best[i]];
  return least;
}

/* ---- workspace */

static size_t bytes_of(const falt_fft_dense_plan *plan, int64_t elements) {
  return (size_t)elements * plan->rows.lane_size;
}

static void lay_out(falt_fft_dense_plan *plan) {
  const int64_t spectrum = falt_fft_dense_spectrum(plan), outputs = plan->groups * plan->outputs;
  const falt_fft_wgrad_cut *cut = plan->cut;
  falt_memory_layout *scratch = &plan->scratch, *all = &plan->base.layout;
  plan->planes_at = falt_place_part(scratch, bytes_of(plan, 2 * plan->shape.plane));
  plan->inputs_at = falt_place_part(scratch, bytes_of(plan, plan->channels * spectrum));
  plan->sums_at = falt_place_part(scratch, bytes_of(plan, spectrum));
  plan->row_at = falt_place_part(scratch, bytes_of(plan, cut[2].block));
  plan->spare_at = falt_place_part(scratch, bytes_of(plan, 2 * plan->shape.plane));
  plan->direct_at = falt_place_part(scratch, bytes_of(plan, cut[0].block * cut[1].block * cut[2].block));
  falt_rows_place(all, plan->base.device, scratch);
  if (!plan->values) {
    plan->spectra_at = falt_place_part(all, bytes_of(plan, outputs * plan->channels * spectrum));
    plan->about_at = falt_place_part(all, (size_t)outputs * sizeof *plan->about);
  }
  plan->base.workspace = all->total;
}

/* ---- plan */

/* One input and one output channel of each group. */
static const char *set_rows(falt_fft_dense_plan *plan, const falt_ask *ask) {
  falt_rows_permute(&plan->problem, ask->problem);
  falt_problem one = plan->problem;
  one.has_bias = one.has_scale = false;
  one.input.size[FALT_C] = one.output.size[FALT_C] = one.filter.size[FALT_C] = one.filter.size[FALT_K] = 1;
  const char *reason = falt_rows_init(&plan->rows, &one, ask->device->isa, NULL);
  if (reason) return reason;
  plan->rows.groups = plan->groups = one.input.size[FALT_G];
  plan->rows.pixel = 1;
  plan->channels = plan->problem.filter.size[FALT_C];
  plan->outputs = plan->problem.filter.size[FALT_K];
  return NULL;
}

static const char *choose(falt_plan *base, falt_ask *ask) {
  falt_fft_dense_plan *plan = (falt_fft_dense_plan *)base;
  const char *reason = set_rows(plan, ask);
  if (reason) return reason;
  const falt_fft_lane *lane = falt_fft_lane_for(ask->device->isa, plan->rows.lane_size);
  plan->values = ask->filter_values;
  base->packed = plan->values != NULL;
  const double work = choose_tile(plan, lane, ask->budget);
  if (!isfinite(work)) return "its tiles do not fit: the filter reaches too far, or the workspace is limited";
  const falt_fft_wgrad_cut *cut = plan->cut;
  const int64_t size[3] = {cut[0].size, cut[1].size, cut[2].size};
  falt_fft_shape_set(&plan->shape, lane, plan->rows.lane_size, size, (bool[3]){size[0] > 1, size[1] > 1, true});
  plan->boxes = plan->rows.batch * cut[0].blocks * cut[1].blocks * cut[2].blocks;
  lay_out(plan);
  const double filter = filter_bytes(plan, (double)size[0] * (double)size[1] * (double)size[2]);
  const double again = filter > (double)ask->device->caches.l2 ? filter * (double)falt_ceil_div(plan->boxes, 2) : 0;
  base->cost.seconds = falt_roofline(base->device, falt_lane_type(plan->rows.lane), 2 * work, EFFICIENCY,
                                     falt_problem_bytes(&plan->problem) + again);
  return NULL;
}

static const char *inapplicable(const falt_ask *ask) {
  const falt_problem *p = ask->problem;
  return p->operation != FALT_FORWARD                           ? "only forward"
         : p->filter.size[FALT_C] * p->filter.size[FALT_K] == 1 ? "it has one channel, which is fft's"
         : p->has_residual                                      ? "residuals are not fused here"
         : falt_type_is_integer(p->input.type)                  ? "it sums floats only"
         : p->filter.size[FALT_D] * p->filter.size[FALT_H] * p->filter.size[FALT_W] == 1 ? "it has one tap"
                                                                                         : NULL;
}

static int64_t tap_count(const falt_fft_dense_plan *plan) {
  return plan->rows.taps[0] * plan->rows.taps[1] * plan->rows.taps[2];
}

static falt_status ready(falt_plan *base) {
  falt_fft_dense_plan *plan = (falt_fft_dense_plan *)base;
  const int64_t outputs = plan->groups * plan->outputs, each = plan->channels * falt_fft_dense_spectrum(plan);
  bool fits = falt_fft_shape_ready(&plan->shape);
  if (fits && plan->values) {
    plan->spectra = falt_alloc(bytes_of(plan, outputs * each));
    plan->taps = falt_alloc(bytes_of(plan, outputs * plan->channels * tap_count(plan)));
    plan->about = falt_alloc((size_t)outputs * sizeof *plan->about);
    char *tile = falt_alloc(bytes_of(plan, 2 * plan->shape.plane));
    fits = plan->spectra && plan->taps && plan->about && tile;
    if (fits) falt_fft_dense_taps(plan, plan->values, plan->taps);
    for (int64_t k = 0; fits && k < outputs && !falt_cancelled(); k++)
      falt_fft_dense_filter(plan, NULL, k, tile, plan->spectra + bytes_of(plan, k * each), &plan->about[k]);
    falt_free(tile);
  }
  plan->values = NULL;
  return falt_fft_made(fits);
}

static void print(const falt_plan *base, falt_text *text) {
  const falt_fft_dense_plan *plan = (const falt_fft_dense_plan *)base;
  falt_fft_print(base, &plan->rows, &plan->shape, 1, text);
}

static void destroy(falt_plan *base) {
  falt_fft_dense_plan *plan = (falt_fft_dense_plan *)base;
  falt_fft_destroy(base, &plan->shape, plan->taps, plan->spectra, plan->about);
}

static const falt_plan_steps steps = {
    sizeof(falt_fft_dense_plan), {falt_fft_dense_execute, print, destroy, ready}, inapplicable, choose};

extern const falt_solver falt_solver_fft_dense;
const falt_solver falt_solver_fft_dense = {
    .name = "fft-dense", .device_kind = "cpu", .plan = falt_plan_make, .steps = &steps, .mixes = true};
