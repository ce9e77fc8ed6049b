/* Taps of the filter solvers, and the accumulator type that they need. */
#include <math.h>

#include "solver/cpu/common/rows.h"

static double tap_at(const falt_tensor *filter, const void *values, int64_t group, int64_t t, int64_t r, int64_t s) {
  return falt_load(values, filter->type, falt_tensor_at(filter, 0, group, 0, t, r, s));
}

/* Sum of |taps| of one group; NaN unless all of them are integers. */
static double integer_weight(const falt_problem *problem, const void *values, int64_t group) {
  const falt_tensor *filter = &problem->filter;
  double sum = 0;
  for (int64_t t = 0; t < filter->size[FALT_D]; t++)
    for (int64_t r = 0; r < filter->size[FALT_H]; r++)
      for (int64_t s = 0; s < filter->size[FALT_W]; s++) {
        double tap = tap_at(filter, values, group, t, r, s);
        sum += tap == rint(tap) ? fabs(tap) : NAN;
      }
  return sum;
}

/* The largest sum of |taps| over the groups, NaN if the taps need not be integers. */
static double largest_weight(const falt_problem *problem, const void *values) {
  const falt_tensor *filter = &problem->filter;
  if (!values) {
    double range = fmax(-falt_type_min(filter->type), falt_type_max(filter->type));
    double taps = (double)filter->size[FALT_D] * (double)filter->size[FALT_H] * (double)filter->size[FALT_W];
    return falt_type_is_integer(filter->type) ? taps * range : NAN;
  }
  int64_t groups = filter->stride[FALT_G] == 0 ? 1 : filter->size[FALT_G];
  double largest = 0;
  for (int64_t g = 0; g < groups; g++) {
    double weight = integer_weight(problem, values, g);
    if (!(weight <= largest)) largest = weight;
    if (isnan(weight)) break;
  }
  return largest;
}

static bool has_constant(const falt_problem *problem) {
  for (int i = 0; i < 3; i++)
    for (int side = 0; side < 2; side++)
      if (problem->axis[i].boundary[side] == FALT_CONSTANT) return true;
  return false;
}

/* The largest |value| that taps are multiplied with; NaN if it need not be an integer. */
static double largest_input(const falt_problem *problem) {
  falt_type type = problem->input.type;
  double largest = fmax(-falt_type_min(type), falt_type_max(type)), constant = problem->boundary_value;
  if (!has_constant(problem)) return largest;
  return constant == rint(constant) ? fmax(largest, fabs(constant)) : NAN;
}

falt_lane falt_rows_lane(const falt_problem *problem, const void *values) {
  const falt_lane lane = problem->accumulator == FALT_F64 ? FALT_LANE_F64 : FALT_LANE_F32;
  if (!falt_type_is_integer(problem->input.type)) return lane;
  double weight = largest_weight(problem, values);
  if (isnan(weight)) return lane;
  double sum = weight * largest_input(problem);
  if (isnan(sum)) return FALT_LANE_F64;
  return sum < 0x1p24 && lane == FALT_LANE_F32 ? FALT_LANE_F32 : sum < 0x1p53 ? FALT_LANE_F64 : FALT_LANE_COUNT;
}
