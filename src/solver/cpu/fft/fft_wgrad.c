/* Solver fft-wgrad: wgrad of depthwise layers of many taps by fast transforms: dw is the correlation of x and dy.
 *
 *     dw = inverse(sum over images and parts of X * conj(G)),    X and G the spectra of x and dy
 *
 * Pairs of images or parts are the real and imaginary parts of x and of dy, so the real part of the sum is that of
 * both. Products are summed in the order of spectra, and each block of taps is transformed back once. The planner picks
 * it where filters have hundreds of taps. */
#include "solver/cpu/fft/fft_wgrad.h"

#include <math.h>

static const int64_t ENOUGH_TASKS = 64, MOST_SUMS = INT64_C(64) << 20; /* bytes, of all slices */

/* ---- workspace */

static size_t bytes_of(const falt_fft_wgrad_plan *plan, int64_t elements) {
  return (size_t)elements * plan->rows.lane_size;
}

static void lay_out_sums(falt_fft_wgrad_plan *plan) {
  const falt_fft_wgrad_cut *cut = plan->tile.cut;
  plan->sums = (falt_memory_layout){0};
  plan->spectrum_at = falt_place_part(&plan->sums, bytes_of(plan, falt_fft_spectrum_count(&plan->shape)));
  plan->direct_at = falt_place_part(&plan->sums, bytes_of(plan, cut[0].block * cut[1].block * cut[2].block));
  plan->about_at = falt_place_part(&plan->sums, sizeof(falt_fft_wgrad_about));
}

static void lay_out(falt_fft_wgrad_plan *plan) {
  const falt_fft_wgrad_cut *x = &plan->tile.cut[2];
  falt_memory_layout *scratch = &plan->scratch, *all = &plan->base.layout;
  *scratch = *all = (falt_memory_layout){0};
  plan->planes_at = falt_place_part(scratch, bytes_of(plan, 2 * plan->shape.plane));
  plan->row_at = falt_place_part(scratch, bytes_of(plan, falt_max(x->block, x->part)));
  plan->factors_at = falt_place_part(scratch, bytes_of(plan, falt_fft_spectrum_count(&plan->shape)));
  plan->own_at = plan->slices == 1 ? falt_place_each(scratch, 1, &plan->sums) : 0;
  falt_rows_place(all, plan->base.device, scratch);
  plan->sums_at = plan->slices > 1 ? falt_place_each(all, plan->units * plan->slices, &plan->sums) : 0;
  plan->base.workspace = all->total;
}

/* Slices of the terms, so that few units occupy many threads. Their number depends on the tile alone, as do the bits of
 * the results. */
static void set_slices(falt_fft_wgrad_plan *plan, int64_t most) {
  const int64_t pairs = falt_ceil_div(plan->terms, 2), each = (int64_t)plan->sums.total * plan->units;
  plan->slices = falt_min(pairs, falt_ceil_div(ENOUGH_TASKS, plan->units));
  plan->slices = falt_max(1, falt_min(plan->slices, MOST_SUMS / each));
  lay_out(plan);
  if (most < 0 || plan->base.workspace <= (size_t)most) return;
  plan->slices = 1;
  lay_out(plan);
}

/* ---- the problem as rows */

/* A forward problem whose filter is dy: tap j of dw is output j, so strides and dilations change places. */
static falt_problem as_forward(const falt_problem *p) {
  falt_problem f = *p;
  f.operation = FALT_FORWARD;
  f.has_bias = false;
  f.filter = p->output;
  f.filter.size[FALT_C] = f.filter.size[FALT_K] = 1;
  f.output = p->filter;
  f.output.stride[FALT_N] = p->filter.stride[FALT_K];
  for (int i = 0; i < 3; i++) {
    f.axis[i].stride = p->axis[i].dilation;
    f.axis[i].dilation = p->axis[i].stride;
  }
  return f;
}

static falt_rows rows_of_output(const falt_rows *rows, const falt_tensor *dy) {
  static const int dims[5] = {FALT_N, FALT_G, FALT_D, FALT_H, FALT_W};
  falt_rows by = *rows;
  by.in_type = dy->type;
  by.in_size = (int64_t)falt_type_size(dy->type);
  by.in_offset = dy->offset;
  by.boundary_value = 0;
  for (int i = 0; i < 5; i++) by.in_stride[i] = dy->stride[dims[i]];
  for (int i = 0; i < 3; i++) {
    by.in[i] = rows->taps[i];
    by.axis[i] = (falt_axis){.stride = 1, .dilation = 1, .boundary = {FALT_CONSTANT, FALT_CONSTANT}};
  }
  return by;
}

static const char *set_rows(falt_fft_wgrad_plan *plan, const falt_ask *ask) {
  const falt_problem *p = ask->problem, forward = as_forward(p);
  falt_problem permuted;
  falt_rows_permute(&permuted, &forward);
  const char *reason = falt_rows_init(&plan->rows, &permuted, ask->device->isa, NULL);
  if (reason) return reason;
  plan->rows.groups = p->input.size[FALT_G];
  plan->rows.pixel = 1;
  plan->by = rows_of_output(&plan->rows, &permuted.filter);
  plan->by_step = p->output.stride[FALT_C];
  plan->outputs = p->filter.size[FALT_K];
  return NULL;
}

/* ---- estimate */

static const double EFFICIENCY = 0.4; /* as of the solver fft */

/* Bytes of x and dy: a row of elements that are far apart moves whole cache lines. */
static double bytes_moved(const falt_fft_wgrad_plan *plan) {
  const double line = 64 / (double)plan->rows.in_size;
  const double apart = fmax(1, fmin(line, fabs((double)plan->rows.in_stride[4])));
  return falt_problem_bytes(&plan->base.problem) * apart;
}

/* ---- plan */

static bool set_tile(falt_fft_wgrad_plan *plan, const falt_ask *ask) {
  const falt_rows *rows = &plan->rows;
  const falt_fft_lane *lane = falt_fft_lane_for(ask->device->isa, rows->lane_size);
  const int64_t filters = rows->groups * plan->outputs;
  if (!falt_fft_wgrad_tile_choose(&plan->tile, rows, lane, filters, ask->device, ask->budget->deterministic,
                                  ask->budget->max_workspace))
    return false;
  const falt_fft_wgrad_cut *cut = plan->tile.cut;
  const int64_t size[3] = {cut[0].size, cut[1].size, cut[2].size};
  falt_fft_shape_set(&plan->shape, lane, rows->lane_size, size, (bool[3]){size[0] > 1, size[1] > 1, true});
  plan->units = filters * cut[0].blocks * cut[1].blocks * cut[2].blocks;
  plan->terms = falt_fft_wgrad_terms(rows, &plan->tile);
  return true;
}

static const char *choose(falt_plan *base, falt_ask *ask) {
  falt_fft_wgrad_plan *plan = (falt_fft_wgrad_plan *)base;
  const char *reason = set_rows(plan, ask);
  if (reason) return reason;
  if (!set_tile(plan, ask)) return "its tiles do not fit: the filter reaches too far, or the workspace is limited";
  lay_out_sums(plan);
  set_slices(plan, ask->budget->max_workspace);
  base->cost.seconds =
      falt_roofline(base->device, falt_lane_type(plan->rows.lane), 2 * plan->tile.work, EFFICIENCY, bytes_moved(plan));
  return NULL;
}

static const char *inapplicable(const falt_ask *ask) {
  const falt_problem *p = ask->problem;
  return p->operation != FALT_BACKWARD_FILTER                                          ? "only backward-filter"
         : p->filter.size[FALT_C] != 1                                                 ? "it sums over one channel only"
         : p->filter.size[FALT_G] > 1 && p->filter.stride[FALT_G] == 0                 ? "all channels share the filter"
         : falt_type_is_integer(p->input.type) || falt_type_is_integer(p->output.type) ? "it sums floats only"
                                                                                       : NULL;
}

static falt_status ready(falt_plan *base) {
  return falt_fft_made(falt_fft_shape_ready(&((falt_fft_wgrad_plan *)base)->shape));
}

static void print(const falt_plan *base, falt_text *text) {
  const falt_fft_wgrad_plan *plan = (const falt_fft_wgrad_plan *)base;
  falt_fft_print(base, &plan->rows, &plan->shape, plan->slices, text);
}

static void destroy(falt_plan *base) {
  falt_fft_destroy(base, &((falt_fft_wgrad_plan *)base)->shape, NULL, NULL, NULL);
}

static const falt_plan_steps steps = {
    sizeof(falt_fft_wgrad_plan), {falt_fft_wgrad_execute, print, destroy, ready}, inapplicable, choose};

extern const falt_solver falt_solver_fft_wgrad;
const falt_solver falt_solver_fft_wgrad = {
    .name = "fft-wgrad", .device_kind = "cpu", .plan = falt_plan_make, .steps = &steps, .mixes = true};
