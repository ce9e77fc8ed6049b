/* Solver fft: filters of many taps by overlap-save (Stockham 1966), with every boundary, anchor and stride:
 *
 *     y = inverse(X * W) in tiles of N inputs, of which N - taps + 1 sums along each axis are outputs
 *
 * Two real tiles are one complex tile. Tiles that hold NaN or infinity are summed tap by tap. The planner picks it
 * where transforms need less arithmetic than taps. */
#include "solver/cpu/fft/fft.h"

#include <math.h>

static const int64_t MOST_SPECTRA = INT64_C(32) << 20; /* bytes, of several filters */

/* ---- whole numbers */

static bool is_whole_problem(const falt_problem *p) {
  return falt_problem_sums_integers(p) && p->boundary_value == rint(p->boundary_value);
}

/* Sums of whole numbers are exact if transforms in f64 stay within a quarter of them. */
static const char *set_whole(falt_fft_plan *plan) {
  const double levels = 25, bound = falt_problem_sum_bound(&plan->problem);
  falt_rows *rows = &plan->rows;
  if (!is_whole_problem(&plan->problem)) return NULL;
  rows->lane = FALT_LANE_F64;
  rows->lane_size = sizeof(double);
  plan->exact = true;
  return bound * 2 * levels * 0x1p-53 < 0.25 ? NULL : "sums of these integers may be too large to be exact";
}

/* ---- workspace */

static size_t spectra_bytes(const falt_fft_plan *plan) {
  return (size_t)falt_fft_spectrum_count(&plan->shape) * plan->rows.lane_size;
}

static size_t taps_bytes(const falt_fft_plan *plan) {
  return (size_t)(plan->filters * plan->tap_count) * plan->rows.lane_size;
}

static void lay_out(falt_fft_plan *plan, bool known) {
  const size_t element = plan->rows.lane_size, filters = (size_t)plan->filters;
  falt_memory_layout *layout = &plan->base.layout, *scratch = &plan->scratch;
  plan->planes_at = falt_place_part(scratch, 2 * (size_t)plan->shape.plane * element);
  plan->row_at = falt_place_part(scratch, (size_t)plan->shape.size[2] * element);
  plan->spectrum_at = falt_place_part(scratch, plan->each ? spectra_bytes(plan) : 0);
  falt_rows_place(layout, plan->base.device, scratch);
  if (!known) {
    plan->taps_at = falt_place_part(layout, taps_bytes(plan));
    plan->about_at = falt_place_part(layout, filters * sizeof *plan->about);
    plan->spectra_at = falt_place_part(layout, plan->each ? 0 : filters * spectra_bytes(plan));
  }
  plan->base.workspace = layout->total;
}

/* ---- estimate */

/* Share of the multiply-add peak that passes reach, counted with their loads and stores: measured with AVX-512. */
static const double EFFICIENCY = 0.5;

static double estimate(const falt_fft_plan *plan) {
  const falt_rows *rows = &plan->rows;
  double points = 1;
  for (int i = 0; i < 3; i++) points *= (double)plan->shape.size[i];
  const double filters = plan->base.packed && !plan->each ? 0 : (double)plan->filters;
  const double work = plan->tile.work + filters * points * 60;
  return falt_roofline(plan->base.device, falt_lane_type(rows->lane), 2 * work, EFFICIENCY,
                       falt_problem_bytes(&plan->problem));
}

/* ---- plan */

/* What only a plan that runs needs: tables, and the spectra of a filter that is known. */
static bool make_tables(falt_fft_plan *plan) {
  const size_t element = plan->rows.lane_size, filters = (size_t)plan->filters;
  if (!falt_fft_shape_ready(&plan->shape)) return false;
  if (!plan->values) return true;
  plan->taps = falt_alloc(taps_bytes(plan));
  plan->about = falt_alloc(filters * sizeof *plan->about);
  plan->spectra = falt_alloc(plan->each ? 0 : filters * spectra_bytes(plan));
  char *tile = falt_alloc(2 * (size_t)plan->shape.plane * element);
  const bool fits = plan->taps && plan->about && plan->spectra && tile;
  for (int64_t f = 0; fits && f < plan->filters && !falt_cancelled(); f++) {
    char *taps = plan->taps + (size_t)(f * plan->tap_count) * element;
    falt_problem_taps(&plan->problem, plan->values, f, falt_lane_type(plan->rows.lane), taps);
    plan->about[f] = falt_fft_filter_about(plan, taps);
    char *spectrum = plan->spectra + (size_t)f * spectra_bytes(plan);
    if (!plan->each) falt_fft_filter_make(plan, taps, plan->about[f].exponent, tile, spectrum);
  }
  falt_free(tile);
  return fits;
}

static falt_status ready(falt_plan *base) {
  falt_fft_plan *plan = (falt_fft_plan *)base;
  const bool fits = make_tables(plan);
  plan->values = NULL;
  return falt_fft_made(fits);
}

static void print(const falt_plan *base, falt_text *text) {
  const falt_fft_plan *plan = (const falt_fft_plan *)base;
  falt_fft_print(base, &plan->rows, &plan->shape, 1, text);
}

static void destroy(falt_plan *base) {
  falt_fft_plan *plan = (falt_fft_plan *)base;
  falt_fft_destroy(base, &plan->shape, plan->taps, plan->spectra, plan->about);
}

static const falt_plan_table table = {falt_fft_execute, print, destroy, ready};

static bool set_tile(falt_fft_plan *plan, const falt_ask *ask, int64_t most) {
  const falt_rows *rows = &plan->rows;
  const falt_fft_lane *lane = falt_fft_lane_for(ask->device->isa, rows->lane_size);
  if (!falt_fft_tile_choose(&plan->tile, rows, lane, plan->filters, ask->device, ask->budget->deterministic, most))
    return false;
  const falt_fft_cut *cut = plan->tile.cut;
  const int64_t size[3] = {cut[0].size, cut[1].size, cut[2].size};
  falt_fft_shape_set(&plan->shape, lane, rows->lane_size, size,
                     (bool[3]){cut[0].transformed, cut[1].transformed, true});
  for (int i = 0; i < 3; i++) plan->block[i] = cut[i].block;
  return true;
}

static void set_filters(falt_fft_plan *plan, const void *values) {
  const falt_rows *rows = &plan->rows;
  const falt_tensor *filter = &plan->problem.filter;
  plan->tap_count = rows->taps[0] * rows->taps[1] * rows->taps[2];
  plan->filters = rows->groups == 1 || filter->stride[FALT_G] == 0 ? 1 : rows->groups;
  plan->values = values;
  plan->base.packed = values != NULL;
}

static const char *fill(falt_fft_plan *plan, const falt_ask *ask) {
  const char *reason = set_whole(plan);
  if (reason) return reason;
  set_filters(plan, ask->filter_values);
  plan->stream = falt_bypasses_caches(ask->device, falt_problem_bytes(&plan->problem));
  const int64_t limit = ask->budget->max_workspace;
  for (int64_t tiles = limit, over = 1; over > 0; tiles -= over) { /* what tiles may take */
    if ((limit >= 0 && tiles < 0) || !set_tile(plan, ask, tiles))
      return "its tiles do not fit: the filter reaches too far, or the workspace is limited";
    plan->each = plan->filters > 1 && (double)plan->filters * (double)spectra_bytes(plan) > (double)MOST_SPECTRA;
    plan->base.layout = plan->scratch = (falt_memory_layout){0};
    lay_out(plan, ask->filter_values != NULL);
    over = limit < 0 ? 0 : (int64_t)plan->base.workspace - limit;
  }
  plan->base.cost.seconds = estimate(plan);
  return NULL;
}

/* The problem as rows. A layer's scale and bias become the epilogue of its channel's rows. */
static const char *init_rows(falt_rows *rows, const falt_problem *permuted, const falt_ask *ask) {
  falt_problem sums = *permuted;
  sums.has_scale = sums.has_bias = false;
  const char *reason = falt_rows_init(rows, &sums, ask->device->isa, ask->filter_values);
  const bool by_channel = permuted->has_scale || permuted->has_bias;
  return reason ? reason : by_channel && rows->pixel > 1 ? "channels of one pixel have a scale or bias each" : NULL;
}

static falt_plan *plan_fft(const falt_solver *solver, falt_ask *ask) {
  falt_problem permuted;
  falt_rows rows;
  falt_rows_permute(&permuted, ask->problem);
  const char *reason = init_rows(&rows, &permuted, ask);
  if (reason) return falt_refuse(ask, "%s", reason);
  falt_fft_plan *plan = falt_plan_new(sizeof *plan, &table, solver, ask);
  if (!plan) return NULL;
  plan->problem = permuted;
  plan->rows = rows;
  reason = fill(plan, ask);
  if (!reason) return &plan->base;
  destroy(&plan->base);
  return falt_refuse(ask, "%s", reason);
}

const falt_solver falt_solver_fft = {.name = "fft", .device_kind = "cpu", .avx2 = 0.9, .plan = plan_fft, .mixes = true};
