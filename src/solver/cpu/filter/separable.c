/* Separable filters, and sums of a few of them: T + R + S multiply-adds an output and term instead of T*R*S.
 *
 * Applies where the filter's values are known when planning and are, up to rounding or the error that the budget
 * allows, a sum of fewer outer products than would cost as much as the filter itself, and where the filter comes as
 * factors, known or given. How terms are found: factor.h. How they are applied, in one pass over the image:
 * separable_rows.h. Treitel and Shanks (1971). */
#include <math.h>
#include <string.h>

#include "solver/common/factor_cost.h"
#include "solver/cpu/filter/separable_rows.h"

enum { MAX_TERMS = 16, MIN_STRIP = 64 };

typedef struct separable_plan {
  falt_plan base;
  falt_separable how;
  size_t taps; /* in the workspace: of factors that are given */
} separable_plan;

static size_t taps_bytes(const falt_separable *how) {
  const int64_t *size = how->factors.size;
  return (size_t)(how->factors.terms * (size[0] + size[1] + size[2])) * how->rows.lane_size;
}

/* Fills `taps` from factors that are given. */
static void give(const falt_separable *how, const falt_problem *p, const void *values) {
  const falt_type type = falt_lane_type(how->rows.lane);
  const int64_t *size = how->factors.size;
  falt_factor_values(p, values, type, how->taps);
  for (int term = 0; term < p->factors && !how->has_z; term++) {
    const double depth = falt_factor_value(p, values, term, 0, 0);
    const int64_t x = term * (size[0] + size[1] + size[2]) + size[0] + size[1];
    for (int64_t j = 0; j < size[2]; j++)
      falt_store(how->taps, type, x + j, depth * falt_factor_value(p, values, term, 2, j));
  }
}

static void separable_execute(const falt_plan *base, const falt_operands *operands) {
  const separable_plan *plan = (const separable_plan *)base;
  falt_separable how = plan->how;
  if (!base->packed) {
    how.taps = (char *)operands->workspace + plan->taps;
    give(&how, &base->problem, operands->filter);
  }
  falt_separable_run(&how, base->device, operands);
}

static void separable_print(const falt_plan *base, falt_text *text) {
  const falt_separable *how = &((const separable_plan *)base)->how;
  const int64_t *taps = how->rows.taps;
  falt_text_add(text, "(separable %s rank=%d ", falt_isa_name(how->rows.kernels->isa), how->factors.terms);
  if (base->problem.space == 3) falt_text_add(text, "%lldx", (long long)taps[0]);
  falt_text_add(text, "%lldx%lld strip=%lldx%lld threads=%d)", (long long)taps[1], (long long)taps[2],
                (long long)how->block[1], (long long)how->block[2], falt_threads_count(base->device->threads));
}

static void separable_destroy(falt_plan *base) {
  falt_separable_free(&((separable_plan *)base)->how);
  falt_free(base);
}

static const falt_plan_table separable_table = {
    .execute = separable_execute, .print = separable_print, .destroy = separable_destroy};

/* ---------------------------------------------------------------------------------------------------- applicable */

/* Most terms that need fewer multiply-adds than the whole filter. */
static int most_terms(const int64_t taps[3]) {
  const double whole = (double)taps[0] * (double)taps[1] * (double)taps[2];
  const double term = (taps[0] > 1 ? (double)taps[0] : 0) + (double)taps[1] + (double)taps[2];
  return (int)fmin(MAX_TERMS, ceil(whole / term) - 1);
}

/* Why the shape of the problem has nothing to separate, or NULL. */
static const char *why_not(const falt_problem *problem, const falt_rows *rows) {
  enum { MAX_TAPS = 1 << 22, MAX_SPAN = 1 << 16 };
  const int64_t *taps = rows->taps;
  if (problem->filter.size[FALT_G] > 1 && problem->filter.stride[FALT_G] != 0)
    return "the groups have filters of their own";
  if ((taps[0] > 1) + (taps[1] > 1) + (taps[2] > 1) < 2) return "the filter has one axis only: nothing to separate";
  if (!problem->factors && (double)taps[0] * (double)taps[1] * (double)taps[2] > MAX_TAPS)
    return "the filter has more than 2^22 taps, too many to factor";
  for (int axis = 0; axis < 3; axis++)
    if ((double)taps[axis] * (double)rows->axis[axis].dilation > MAX_SPAN || rows->axis[axis].stride > MAX_SPAN)
      return "its rows lie too far apart to be kept (stride, or dilation times taps, above 2^16)";
  if (!problem->factors && most_terms(taps) < 1)
    return "the filter is so small that separable terms would not need fewer multiply-adds";
  return NULL;
}

static void refuse_factoring(falt_ask *ask, falt_factoring why, int max) {
  if (why == FALT_FACTOR_MEMORY)
    falt_refuse_memory(ask);
  else if (why == FALT_FACTOR_VALUES)
    falt_refuse(ask, "the filter has infinite or undefined taps");
  else
    falt_refuse(ask, "the filter's rank is above %d: more separable terms would not need fewer multiply-adds", max);
}

/* What is further from the filter than this is not a filter like it, whatever the budget allows. */
static const double WORST_ERROR = 0.5;

/* Factors the filter within the budget's error. False with the reason set. */
static bool factor(separable_plan *plan, falt_ask *ask, double *dense) {
  const falt_rows *rows = &plan->how.rows;
  falt_factors *factors = &plan->how.factors;
  const double rounding = rows->lane == FALT_LANE_F32 ? ldexp(1, -22) : ldexp(1, -48);
  const double tolerance = fmin(fmax(rounding, ask->budget->max_error), WORST_ERROR);
  const int max = most_terms(rows->taps);
  falt_problem_taps(ask->problem, ask->filter_values, 0, FALT_F64, dense);
  const bool integers =
      falt_type_is_integer(rows->in_type) && falt_are_integers(dense, rows->taps[0] * rows->taps[1] * rows->taps[2]);
  const falt_factoring answer = falt_factor(factors, dense, rows->taps, max, tolerance);
  if (answer != FALT_FACTORED) {
    refuse_factoring(ask, answer, max);
    return false;
  }
  if (factors->residual > rounding) plan->base.cost.error = factors->residual;
  if (!integers || factors->exact || ask->budget->max_error > 0) return true;
  falt_refuse(ask, "the filter has integer taps and rank %d: terms would round where sums are exact", factors->terms);
  return false;
}

/* --------------------------------------------------------------------------------------------------------- sizes */

/* Bytes of input that one step reads where it lies. */
static size_t raw_bytes(const falt_separable *how) {
  const falt_rows *rows = &how->rows;
  if (!rows->in_place) return 0;
  const int64_t lines = how->has_z ? rows->taps[0] + how->planes : rows->taps[1] + how->lines;
  return (size_t)(lines * how->block[2] * rows->pixel) * rows->lane_size;
}

/* Blocks depend on the problem and the caches, not on the number of threads. The strip is halved until a step's rows
 * fit into half of the second cache, and the workers' scratch into the budget. */
static bool choose_blocks(falt_separable *how, falt_ask *ask, falt_memory_layout *layout) {
  enum { LINES = 64, STRIP = 4096, MAX_SCRATCH = 16 << 20 };
  const falt_rows *rows = &how->rows;
  const int64_t limit = ask->budget->max_workspace;
  how->block[0] = how->has_z ? 4 * how->planes : 1;
  how->block[1] = falt_round_up(falt_max(LINES, falt_separable_span(rows, 1, 1) / rows->axis[1].stride), how->lines);
  how->block[2] = falt_max(MIN_STRIP, STRIP / rows->pixel / MIN_STRIP * MIN_STRIP);
  for (;; how->block[2] = falt_round_up(how->block[2] / 2, MIN_STRIP)) {
    const size_t scratch = falt_separable_scratch(how),
                 workspace = falt_rows_place_whole(layout, ask->device, &how->scratch, scratch);
    const bool fits = scratch <= MAX_SCRATCH && (limit < 0 || workspace <= (size_t)limit);
    if (fits && scratch + raw_bytes(how) <= ask->device->caches.l2 / 2) return true;
    if (how->block[2] > MIN_STRIP) continue;
    if (!fits) falt_refuse(ask, "its rows need %zu bytes of workspace", workspace);
    return fits;
  }
}

/* In units of a multiply-add of the pass along y. Along x each has a load of its own, mostly across a cache line, and
 * takes two, as along z, whose rows come from farther caches; rows in and out take a few more. Rows that two bands read
 * come from memory twice, and the passes along z and y make the columns that two strips read twice. The calls for a row
 * and term have a cost that narrow rows show, in volumes for each plane: measured on rows of 64 pixels. */
static double seconds(const separable_plan *plan) {
  const double each_row = 2000, each_row_of_planes = 2700, each_plane = 300, along_z = 2;
  const falt_separable *how = &plan->how;
  const falt_rows *rows = &how->rows;
  const falt_factors *factors = &how->factors;
  const double efficiency = 0.7, outputs = (double)falt_tensor_count(&plan->base.problem.output);
  const double again = 1 + (double)falt_separable_span(rows, 1, 1) / (double)(how->block[1] * rows->axis[1].stride);
  const double width = (double)falt_min(how->block[2], rows->out[2]);
  const double halo = (double)(falt_separable_span(rows, 2, 1) - 1) / (double)rows->axis[2].stride;
  const double columns = (double)falt_min(rows->axis[2].stride, rows->taps[2]) * (1 + halo / width);
  double work = factors->terms * (columns * (double)rows->taps[1] + (how->along ? 1.5 : 2) * (double)rows->taps[2]);
  if (how->has_z) work += along_z * factors->groups * again * columns * (double)(rows->taps[0] * rows->axis[1].stride);
  work += factors->terms * (each_row + (how->has_z ? each_row_of_planes + each_plane * (double)rows->taps[0] : 0)) /
          (width * (double)rows->pixel);
  work += (rows->in_place ? 4 : 6) * columns * (double)rows->axis[1].stride + (rows->out_place ? 4 : 6);
  return falt_roofline(plan->base.device, falt_lane_type(rows->lane), 2 * outputs * work, efficiency,
                       (again + 1) / 2 * falt_problem_bytes(&plan->base.problem));
}

/* ---------------------------------------------------------------------------------------------------------- plan */

static bool factor_taps(separable_plan *plan, falt_ask *ask) {
  const int64_t *taps = plan->how.rows.taps;
  double *dense = falt_alloc((size_t)(taps[0] * taps[1] * taps[2]) * sizeof *dense);
  const bool factored = dense && factor(plan, ask, dense);
  if (!dense) falt_refuse_memory(ask);
  falt_free(dense);
  return factored;
}

/* The problem's own factors; zeros stand for those that are given. */
static bool take_factors(separable_plan *plan, falt_ask *ask) {
  const falt_problem *p = ask->problem;
  falt_factors *factors = &plan->how.factors;
  *factors = (falt_factors){.terms = p->factors, .groups = p->factors};
  memcpy(factors->size, plan->how.rows.taps, sizeof factors->size);
  factors->taps = falt_alloc_zero((size_t)falt_problem_filter_elements(p) * sizeof *factors->taps);
  factors->group = falt_alloc((size_t)p->factors * sizeof *factors->group);
  if (!factors->taps || !factors->group) return falt_refuse_memory(ask);
  for (int term = 0; term < p->factors; term++) factors->group[term] = term;
  if (ask->filter_values) falt_factor_values(p, ask->filter_values, FALT_F64, factors->taps);
  return true;
}

static bool prepare(separable_plan *plan, falt_ask *ask) {
  falt_separable *how = &plan->how;
  if (!(ask->problem->factors ? take_factors(plan, ask) : factor_taps(plan, ask))) return false;
  if (!falt_separable_init(how)) {
    falt_refuse_memory(ask);
    return false;
  }
  how->stream = falt_bypasses_caches(plan->base.device, falt_problem_bytes(&plan->base.problem));
  if (!choose_blocks(how, ask, &plan->base.layout)) return false;
  if (!ask->filter_values) plan->taps = falt_place_part(&plan->base.layout, taps_bytes(how));
  plan->base.workspace = plan->base.layout.total;
  return true;
}

static falt_plan *plan_separable(const falt_solver *solver, falt_ask *ask) {
  falt_rows rows;
  if (!ask->filter_values && !ask->problem->factors)
    return falt_refuse(ask, "the filter's values are not known when planning");
  const char *why =
      falt_rows_init(&rows, ask->problem, ask->device->isa, ask->problem->factors ? NULL : ask->filter_values);
  if (!why) why = why_not(ask->problem, &rows);
  if (!why && !falt_factor_pays(ask)) why = falt_factor_too_long;
  if (why) return falt_refuse(ask, "%s", why);
  separable_plan *plan = falt_plan_new(sizeof *plan, &separable_table, solver, ask);
  if (!plan) return NULL;
  plan->how.rows = rows;
  if (!prepare(plan, ask)) {
    separable_destroy(&plan->base);
    return NULL;
  }
  plan->base.packed = ask->filter_values != NULL;
  plan->base.cost.seconds = seconds(plan);
  return &plan->base;
}

const falt_solver falt_solver_separable = {.name = "separable",
                                           .avx2 = 1.35,
                                           .device_kind = "cpu",
                                           .plan = plan_separable,
                                           .spreads = true,
                                           .factors = true,
                                           .takes_factors = true};
