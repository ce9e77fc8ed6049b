/* Box filters: sums of all elements under the window in a time that does not depend on the window's size.
 *
 * Applies where the filter's values are known when planning and are all equal. Rows are summed along z and y as the
 * window goes down, and the sums then along x. Integers are exact: u32 sums from which the row that leaves is
 * subtracted. Floats are only added (van Herk, 1992): nothing cancels, and what is not finite stays in its windows.
 * How it runs: running_sums_run.c. */
#include "solver/cpu/running_sums/running_sums.h"

#include <math.h>

#include "solver/common/boxes.h"

enum { STRIP = 4096 /* sums of a row */, LEAST_STRIP = 64, MAX_SCRATCH = 64 << 20 };

typedef struct running_plan {
  falt_plan base;
  falt_running how;
} running_plan;

static void running_execute(const falt_plan *base, const falt_operands *operands) {
  falt_running_run(&((const running_plan *)base)->how, base->device, operands);
}

static void running_print(const falt_plan *base, falt_text *text) {
  const falt_running *how = &((const running_plan *)base)->how;
  const int64_t *taps = how->rows.taps;
  falt_text_add(text, "(running-sums %s %s ", falt_isa_name(base->device->isa),
                how->whole ? "s32" : falt_type_name(falt_lane_type(how->rows.lane)));
  if (taps[0] > 1) falt_text_add(text, "%lldx", (long long)taps[0]);
  falt_text_add(text, "%lldx%lld strip=%lldx%lld threads=%d)", (long long)taps[1], (long long)taps[2],
                (long long)how->block[1], (long long)how->block[2], falt_threads_count(base->device->threads));
}

/* ---------------------------------------------------------------------------------------------------- applicable */

/* Why the shape of the problem is not for it, or NULL. */
static const char *why_not(const falt_rows *rows) {
  enum { MAX_SPAN = 1 << 22, MAX_STRIDE = 1 << 12, MAX_OUTSIDE = 1 << 24 };
  const falt_axis *axis = rows->axis;
  int64_t begin, end;
  falt_rows_interior(rows, 0, rows->out[2], &begin, &end);
  if (rows->taps[0] == 1 && rows->taps[1] == 1 && rows->taps[2] == 1) return "the filter has one tap";
  for (int i = 0; i < 2; i++)
    if (rows->taps[i] > 1 && axis[i].dilation > 1) return "the taps are apart along an axis other than the nearest one";
  if (axis[2].stride > MAX_STRIDE) return "a stride above 2^12: most sums would not be wanted";
  if ((double)rows->taps[2] * (double)axis[2].dilation > MAX_SPAN || rows->out[2] - (end - begin) > MAX_OUTSIDE)
    return "its rows reach too far beyond the image";
  return NULL;
}

/* ---------------------------------------------------------------------------------------------------------- sums */

/* Integers are summed as such where their sums have 31 bits, and else in f64, which holds 53. */
static void choose_sums(falt_running *how, const falt_device *device, double largest) {
  falt_rows *rows = &how->rows;
  how->whole = largest < 0x1p31;
  if (!how->whole && isfinite(largest) && rows->lane == FALT_LANE_F32) {
    rows->lane = FALT_LANE_F64;
    rows->lane_size = sizeof(double);
    rows->out_place = false;
  }
  how->kernels = how->whole                    ? falt_running_u32_for(device->isa)
                 : rows->lane == FALT_LANE_F32 ? falt_running_f32_for(device->isa)
                                               : falt_running_f64_for(device->isa);
  how->size = how->whole ? sizeof(uint32_t) : rows->lane_size;
  how->in_place = (how->whole || rows->in_type == falt_lane_type(rows->lane)) &&
                  (rows->in_stride[4] == rows->pixel || (rows->pixel == 1 && rows->in[2] == 1));
}

/* --------------------------------------------------------------------------------------------------------- sizes */

static int64_t reach(const falt_rows *rows, int axis, int64_t outputs) {
  int64_t first, count;
  falt_rows_reach(rows, axis, 0, outputs, &first, &count);
  return count;
}

/* Bands for so many threads, each much higher than the rows that it sums before its first output. Results do not depend
 * on them. */
static int64_t band_of(const falt_running *how, int axis, int64_t tasks, int64_t threads) {
  const falt_rows *rows = &how->rows;
  const int64_t wanted = falt_ceil_div(4 * threads, tasks),
                most = falt_ceil_div(rows->out[axis], falt_ceil_div(threads, tasks));
  const int64_t high = falt_max(falt_ceil_div(rows->out[axis], wanted), 8 * rows->taps[axis] / rows->axis[axis].stride);
  return falt_max(1, falt_min(high, falt_max(most, rows->taps[axis] / rows->axis[axis].stride)));
}

static void cut_for_threads(falt_running *how, int64_t threads) {
  const falt_rows *rows = &how->rows;
  const bool planes = rows->taps[0] > 1;
  how->block[1] = rows->out[1];
  how->block[0] = planes ? rows->out[0] : 1;
  int64_t tasks = falt_rows_task_count(rows, how->block);
  how->block[1] = falt_min(rows->out[1], band_of(how, 1, tasks, threads));
  if (!planes) return;
  how->block[1] = falt_min(how->block[1], falt_max(32, 2 * rows->taps[1] / rows->axis[1].stride));
  tasks = falt_rows_task_count(rows, how->block);
  how->block[0] = falt_min(rows->out[0], band_of(how, 0, tasks, threads));
}

/* Strips as wide as STRIP, or several times the columns that two of them sum; narrower until the scratch is in bounds.
 */
static bool choose_blocks(falt_running *how, falt_ask *ask, falt_memory_layout *layout) {
  const falt_rows *rows = &how->rows;
  const int64_t limit = ask->budget->max_workspace, wide = falt_max(STRIP / rows->pixel, 4 * reach(rows, 2, 1));
  how->block[2] = falt_min(rows->out[2], falt_max(LEAST_STRIP, wide / rows->axis[2].stride));
  for (;; how->block[2] = falt_max(LEAST_STRIP, how->block[2] / 2)) {
    cut_for_threads(how, falt_threads_count(ask->device->threads));
    const size_t scratch = falt_running_scratch(how),
                 workspace = falt_rows_place_whole(layout, ask->device, &how->scratch, scratch);
    if (scratch <= MAX_SCRATCH && (limit < 0 || workspace <= (size_t)limit)) return true;
    if (how->block[2] > LEAST_STRIP) continue;
    falt_refuse(ask, "its rows need %zu bytes of workspace", workspace);
    return false;
  }
}

/* ------------------------------------------------------------------------------------------------------ estimate */

/* Of a sum along a row: the passes by 4 and 16 that the window has, and the additions of what is left over. */
static double along_cost(int64_t taps) {
  const double passes = (taps >= 4 ? 6 : 0) + (taps >= 16 ? 7 : 0) + (taps >= 32 ? 6 : 0);
  return 1 + passes + 2.4 * (double)(taps % 16 / 4 + taps % 4);
}

/* In multiply-adds at the peak, as measured with AVX-512 on boxes of 3x3 to 301x301, and of 3 to 201 rows. Tasks sum
 * some rows and columns twice; each row has a cost of its own. */
static double seconds(const running_plan *plan) {
  const falt_running *how = &plan->how;
  const falt_rows *rows = &how->rows;
  const double slide = how->whole           ? 5
                       : rows->taps[1] == 1 ? 10
                       : rows->taps[2] == 1 ? 20
                                            : 40,
               copy = 5, results = how->whole ? 3 : 8, each_row = 2600;
  const double outputs = (double)falt_tensor_count(&plan->base.problem.output);
  double reads[3], work; /* rows or columns of a task for each of its outputs */
  for (int i = 0; i < 3; i++) reads[i] = (double)reach(rows, i, how->block[i]) / (double)how->block[i];
  work = slide * reads[1] * reads[2] + along_cost(rows->taps[2]) * reads[2] + results;
  if (rows->taps[0] > 1) work += slide * reads[0] * reads[1] * reads[2];
  if (!how->in_place) work += 2 * copy * reads[0] * reads[1] * reads[2];
  work += each_row / (double)(how->block[2] * rows->pixel);
  return falt_roofline(plan->base.device, falt_lane_type(rows->lane), 2 * outputs * work, 1,
                       falt_problem_bytes(&plan->base.problem));
}

/* ---------------------------------------------------------------------------------------------------------- plan */

static falt_plan *plan_running(const falt_solver *solver, falt_ask *ask) {
  static const falt_plan_table table = {.execute = running_execute, .print = running_print, .destroy = falt_plan_free};
  falt_problem permuted;
  falt_running how = {0};
  if (!ask->filter_values) return falt_refuse(ask, "the filter's values are not known when planning");
  falt_rows_permute(&permuted, ask->problem);
  const char *why = falt_rows_init(&how.rows, &permuted, ask->device->isa, ask->filter_values);
  if (!why) why = why_not(&how.rows);
  if (why) return falt_refuse(ask, "%s", why);
  falt_box box;
  why = falt_box_of(&box, &permuted, ask->filter_values);
  if (!why && (box.ends[0] || box.ends[1] || box.ends[2])) why = "the filter's taps are not all one finite number";
  if (why) return falt_refuse(ask, "%s", why);
  how.weight = box.weight;
  running_plan *plan = falt_plan_new(sizeof *plan, &table, solver, ask);
  if (!plan) return NULL;
  choose_sums(&how, ask->device, falt_box_largest_sum(&box, &permuted));
  how.stream = falt_bypasses_caches(ask->device, falt_problem_bytes(ask->problem));
  plan->how = how;
  if (!choose_blocks(&plan->how, ask, &plan->base.layout)) {
    falt_plan_free(&plan->base);
    return NULL;
  }
  plan->base.workspace = plan->base.layout.total;
  plan->base.packed = true;
  plan->base.cost.seconds = seconds(plan);
  return &plan->base;
}

extern const falt_solver falt_solver_running_sums;
const falt_solver falt_solver_running_sums = {.name = "running-sums", .device_kind = "cpu", .plan = plan_running};
