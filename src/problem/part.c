/* Describes a range of output rows as a problem of its own, for results that are computed in parts. Output rows [b,
 * b + n) read input rows [b*stride - pad, (b + n - 1)*stride - pad + extent); with fused pooling b and n count
 * pooled rows. Rows outside the input: a constant boundary stays in the part's problem. For every other boundary the
 * caller copies the input rows that it names, and the part's problem has no boundary. All parts of one size in the
 * middle are the same problem. */
#include "problem/problem.h"

static falt_status check(const falt_problem *problem, int axis, int64_t begin, int64_t count) {
  if (axis < 0 || axis > 2)
    return falt_fail(FALT_INVALID_ARGUMENT, "axis: %d; depth, height and width are 0 to 2", axis);
  if (problem->operation != FALT_FORWARD)
    return falt_fail(FALT_INVALID_ARGUMENT, "problem: only forward problems have parts along an axis");
  const int64_t rows = problem->output.size[FALT_D + axis];
  if (begin < 0 || count < 1 || count > rows || begin > rows - count)
    return falt_fail(FALT_INVALID_ARGUMENT, "begin, count: %lld and %lld are not within the output's %lld rows",
                     (long long)begin, (long long)count, (long long)rows);
  return FALT_OK;
}

/* A constant needs no rows beyond the input, but a problem needs one row. */
static void cut_constants(falt_part *part, const falt_axis *axis, int64_t rows) {
  if (axis->boundary[0] == FALT_CONSTANT) {
    part->first = falt_max(part->first, 0);
    part->last = falt_max(part->last, 1);
  }
  if (axis->boundary[1] == FALT_CONSTANT) {
    part->first = falt_min(part->first, rows - 1);
    part->last = falt_min(part->last, rows);
  }
}

falt_status falt_problem_part(falt_part *part, const falt_problem *problem, int axis, int64_t begin, int64_t count) {
  if (!part || !problem) return falt_fail(FALT_INVALID_ARGUMENT, "%s: NULL", part ? "problem" : "part");
  FALT_TRY(check(problem, axis, begin, count));
  const int dim = FALT_D + axis;
  const falt_axis *whole = &problem->axis[axis];
  *part = (falt_part){.first = 0, .last = problem->input.size[dim], .problem = *problem};
  if (count == problem->output.size[dim]) return FALT_OK;
  const int64_t pool = problem->pool[axis], low = begin * pool * whole->stride - whole->pad[0];
  const int64_t high = low + (count * pool - 1) * whole->stride + falt_extent(whole, problem->filter.size[dim]);
  part->first = low;
  part->last = high;
  cut_constants(part, whole, problem->input.size[dim]);
  part->problem.input.size[dim] = part->last - part->first;
  part->problem.output.size[dim] = count;
  if (problem->has_residual) part->problem.residual.size[dim] = count;
  falt_axis *own = &part->problem.axis[axis];
  own->pad[0] = part->first - low;
  own->pad[1] = high - part->last;
  own->boundary[0] = own->boundary[1] = FALT_CONSTANT; /* met only where it was constant before */
  return FALT_OK;
}

int64_t falt_problem_row(const falt_problem *problem, int axis, int64_t row) {
  if (!problem || axis < 0 || axis > 2) return -1;
  return falt_axis_map(&problem->axis[axis], problem->input.size[FALT_D + axis], row);
}
