/* Solver separable-u8: separable filters of bytes, u8 to u8: 2D, stride 1, one term, known taps. Sums are f32, as in
 * `separable`. A block of rows is filtered along y and along x while it is in the first-level cache
 * (separable_u8_tmpl.c). Symmetric taps, such as a Gaussian's, need half of the multiplications. The planner picks
 * it where its estimate is lower; docs/internals/filters.md has the counts. */
#include <math.h>

#include "solver/common/factor.h"
#include "solver/cpu/filter/byte_lines.h"
#include "solver/cpu/filter/separable_u8_kernels.h"

enum { MOST_TAPS = 256 /* along an axis */, STRIP = 16384 /* elements */ };

typedef struct separable_u8_plan {
  falt_plan base;
  falt_rows rows;
  const falt_separable_u8_kernels *kernels;
  float taps[2][MOST_TAPS]; /* along y, along x */
  bool symmetric[2];
  bool stream;  /* results bypass the caches */
  size_t space; /* the kernel's, in a worker's scratch */
  falt_byte_lines lines;
} separable_u8_plan;

/* ---- execute */

static falt_separable_u8_taps taps_of(const separable_u8_plan *plan, int axis) {
  return (falt_separable_u8_taps){plan->taps[axis], (int)plan->rows.taps[1 + axis], plan->symmetric[axis]};
}

static int step_of(const falt_rows *rows) {
  return (int)(rows->pixel * rows->axis[2].dilation);
}

static void run_block(const falt_plan *base, const uint8_t **list, void **out, int64_t n, char *scratch) {
  const separable_u8_plan *plan = (const separable_u8_plan *)base;
  plan->kernels->run(&(falt_separable_u8_call){.rows = list,
                                               .out = out,
                                               .along_y = taps_of(plan, 0),
                                               .along_x = taps_of(plan, 1),
                                               .step = step_of(&plan->rows),
                                               .n = n,
                                               .stream = plan->stream,
                                               .space = scratch + plan->space});
}

static void execute(const falt_plan *base, const falt_operands *operands) {
  const separable_u8_plan *plan = (const separable_u8_plan *)base;
  falt_byte_lines_run(base, &plan->lines, &plan->rows, operands, run_block);
}

static void print(const falt_plan *base, falt_text *text) {
  const separable_u8_plan *plan = (const separable_u8_plan *)base;
  falt_text_add(text, "(separable-u8 %s %lldx%lld%s strip=%lldx%lld threads=%d)", falt_isa_name(base->device->isa),
                (long long)plan->rows.taps[1], (long long)plan->rows.taps[2],
                plan->symmetric[0] && plan->symmetric[1] ? " symmetric" : "", (long long)plan->lines.block[1],
                (long long)plan->lines.block[2], falt_threads_count(base->device->threads));
}

/* ---- applicable */

static const char *refusal(const falt_rows *rows, const falt_problem *p) {
  const char *reason = falt_byte_lines_refusal(rows, p, FALT_SEPARABLE_U8_STEP);
  return reason                                                   ? reason
         : rows->out_type != FALT_U8                              ? "results are not bytes (u8)"
         : rows->lane != FALT_LANE_F32                            ? "sums need more than 24 bits"
         : rows->taps[1] < 2 || rows->taps[2] < 2                 ? "the filter has one axis only"
         : rows->taps[1] > MOST_TAPS || rows->taps[2] > MOST_TAPS ? "the filter has more than 256 taps along an axis"
                                                                  : NULL;
}

/* ---- taps */

static const double ROUNDING = 0x1p-22; /* of f32, relative to the sum of the taps */

/* The term's vector along y (axis 0) or x, as f32. A factor of a symmetric filter is symmetric up to the rounding of
 * f64, which f32 does not see but in ties: halves that differ by no more are made equal. */
static void set_taps(separable_u8_plan *plan, int axis, const double *values, double scale) {
  const int64_t count = plan->rows.taps[1 + axis];
  double most = 0;
  bool symmetric = true;
  for (int64_t i = 0; i < count; i++) most = fmax(most, fabs(values[i]));
  for (int64_t i = 0; i < count; i++) symmetric &= fabs(values[i] - values[count - 1 - i]) <= 0x1p-40 * most;
  for (int64_t i = 0; i < count; i++)
    plan->taps[axis][i] = (float)(scale * values[symmetric ? falt_min(i, count - 1 - i) : i]);
  plan->symmetric[axis] = symmetric;
}

/* Why the filter is not one term, or NULL. */
static const char *factor(separable_u8_plan *plan, const falt_ask *ask, double *dense) {
  const int64_t *size = plan->rows.taps;
  const double tolerance = fmin(fmax(ROUNDING, ask->budget->max_error), 0.5);
  falt_factors factors;
  falt_problem_taps(ask->problem, ask->filter_values, 0, FALT_F64, dense);
  if (falt_factor(&factors, dense, size, 1, tolerance) != FALT_FACTORED) return "the filter is not one separable term";
  const bool rounds = falt_are_integers(dense, size[1] * size[2]) && !factors.exact && ask->budget->max_error == 0;
  if (factors.residual > ROUNDING) plan->base.cost.error = factors.residual;
  set_taps(plan, 0, falt_factors_taps(&factors, 0, 1), 1);
  set_taps(plan, 1, falt_factors_taps(&factors, 0, 2), falt_factors_taps(&factors, 0, 0)[0]);
  falt_factors_free(&factors);
  return rounds ? "the filter has integer taps: a term would round where sums are exact" : NULL;
}

/* ---- estimate */

/* In multiply-adds of f32 for a result; blocks of rows and their halo are computed whole. */
static double seconds(const separable_u8_plan *plan) {
  const falt_rows *rows = &plan->rows;
  const double efficiency = 0.8, tile = plan->kernels->rows, halo = (double)((rows->taps[2] - 1) * step_of(rows));
  const double along_y = (double)rows->taps[1] * (plan->symmetric[0] ? 0.7 : 1);
  const double along_x = (double)rows->taps[2] * (plan->symmetric[1] ? 0.7 : 1);
  const double rows_in = 3 * (tile + (double)rows->taps[1]) / tile, transposed = 6, results = 6;
  const double high = (double)falt_round_up(rows->out[1], plan->kernels->rows),
               wide = (double)(rows->out[2] * rows->pixel);
  const double strips = ceil((double)rows->out[2] / (double)plan->lines.block[2]);
  const double columns = (wide + strips * halo) * (rows_in + along_y + transposed), lines = wide * (along_x + results);
  return falt_roofline(plan->base.device, FALT_F32, 2 * high * (double)(rows->batch * rows->groups) * (columns + lines),
                       efficiency, falt_problem_bytes(&plan->base.problem));
}

/* ---- plan */

static const char *prepare(separable_u8_plan *plan, falt_ask *ask) {
  const falt_rows *rows = &plan->rows;
  double *dense = falt_alloc((size_t)(rows->taps[1] * rows->taps[2]) * sizeof *dense);
  const char *reason = dense ? factor(plan, ask, dense) : "memory for the filter's taps is short";
  falt_free(dense);
  if (reason) return reason;
  falt_byte_lines_init(&plan->lines, rows, ask->device, plan->kernels->rows, STRIP, FALT_SEPARABLE_U8_BEYOND);
  plan->space = falt_place_part(&plan->lines.scratch, plan->kernels->space((int)rows->taps[2], step_of(rows)));
  falt_rows_place(&plan->base.layout, ask->device, &plan->lines.scratch);
  plan->base.workspace = plan->base.layout.total;
  plan->stream = falt_bypasses_caches(ask->device, falt_problem_bytes(ask->problem));
  plan->base.packed = true;
  plan->base.cost.seconds = seconds(plan);
  return NULL;
}

static falt_plan *plan_separable_u8(const falt_solver *solver, falt_ask *ask) {
  static const falt_plan_table table = {.execute = execute, .print = print, .destroy = falt_plan_free};
  falt_rows rows;
  if (!ask->filter_values) return falt_refuse(ask, "the filter's values are not known when planning");
  const char *reason = falt_rows_init(&rows, ask->problem, ask->device->isa, ask->filter_values);
  if (!reason) reason = refusal(&rows, ask->problem);
  if (reason) return falt_refuse(ask, "%s", reason);
  separable_u8_plan *plan = falt_plan_new(sizeof *plan, &table, solver, ask);
  if (!plan) return NULL;
  plan->rows = rows;
  plan->kernels = falt_separable_u8_kernels_for(ask->device->isa);
  reason = prepare(plan, ask);
  if (!reason) return &plan->base;
  falt_free(plan);
  return falt_refuse(ask, "%s", reason);
}

extern const falt_solver falt_solver_separable_u8;
const falt_solver falt_solver_separable_u8 = {
    .name = "separable-u8", .device_kind = "cpu", .avx2 = 1.35, .plan = plan_separable_u8, .factors = true};
