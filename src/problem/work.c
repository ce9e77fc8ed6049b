/* Work as the problem counts it, and the epilogue's values. */
#include <math.h>

#include "problem/problem.h"

bool falt_problem_pools(const falt_problem *problem) {
  return problem->pool[0] != 1 || problem->pool[1] != 1 || problem->pool[2] != 1;
}

bool falt_epilogue_is_identity(const falt_problem *problem) {
  return problem->alpha == 1 && problem->beta == 0 && !problem->has_scale && !problem->has_bias &&
         !problem->has_residual && problem->activation == FALT_IDENTITY;
}

/* Comparisons are written so that NaN passes through. */
static double clip(double x, double low, double high) {
  if (x < low) return low;
  return x > high ? high : x;
}

double falt_activate(const falt_problem *problem, double x) {
  switch (problem->activation) {
    case FALT_RELU:
      return x < 0 ? 0 : x;
    case FALT_RELU6:
      return clip(x, 0, 6);
    case FALT_LEAKY:
      return x < 0 ? problem->act_a * x : x;
    case FALT_SILU: /* far below zero the limit: at -infinity the formulas of both give NaN */
      return x < -1000 ? -0.0 : x / (1 + exp(-x));
    case FALT_GELU:
      return x < -1000 ? -0.0 : x / 2 * (1 + erf(x * M_SQRT1_2));
    case FALT_SIGMOID:
      return 1 / (1 + exp(-x));
    case FALT_TANH:
      return tanh(x);
    case FALT_CLIP:
      return clip(x, problem->act_a, problem->act_b);
    default:
      return x;
  }
}

static double count(const falt_tensor *tensor) {
  double product = 1;
  for (int dim = 0; dim < FALT_DIMS; dim++) product *= (double)tensor->size[dim];
  return product;
}

/* Of factors: the multiply-adds of their passes. */
static double taps(const falt_problem *problem) {
  const int64_t *size = problem->filter.size;
  double along = 0;
  for (int dim = FALT_D; dim < FALT_DIMS; dim++) along += size[dim] > 1 ? (double)size[dim] : 0;
  if (problem->factors) return problem->factors * fmax(1, along);
  return (double)size[FALT_D] * (double)size[FALT_H] * (double)size[FALT_W];
}

double falt_problem_flops(const falt_problem *problem) {
  double windows = count(&problem->output) * taps(problem);
  if (falt_is_pooling(problem->operation)) return windows; /* one comparison or addition a tap */
  for (int i = 0; i < 3; i++) windows *= (double)problem->pool[i];
  return 2 * windows * (double)problem->input.size[FALT_C];
}

/* Bytes of a tensor, an element that strides of 0 repeat counted once. */
static double bytes(const falt_tensor *tensor) {
  double elements = 1;
  for (int dim = 0; dim < FALT_DIMS; dim++) {
    if (tensor->stride[dim] != 0) elements *= (double)tensor->size[dim];
  }
  return elements * (double)falt_type_size(tensor->type);
}

double falt_problem_bytes(const falt_problem *problem) {
  double sum = bytes(&problem->input) + bytes(&problem->output);
  if (problem->operation == FALT_BACKWARD_MAXPOOL) return sum + bytes(&problem->input); /* x read, dx written */
  if (falt_is_pooling(problem->operation)) return sum;
  double channels = (double)problem->filter.size[FALT_G] * (double)problem->filter.size[FALT_K];
  double vectors = channels * (double)falt_type_size(falt_type_real(problem->output.type));
  const falt_tensor filter = falt_operand_tensor(problem, FALT_FILTER);
  sum += bytes(&filter) + vectors * (problem->has_bias + problem->has_scale);
  return problem->has_residual ? sum + bytes(&problem->residual) : sum;
}

/* Windows' positions beyond one side of the input, counted over all outputs and taps of an axis. */
static double outside(const falt_axis *axis, int64_t in, int64_t taps_count, int64_t out, int side) {
  double positions = 0;
  for (int64_t tap = 0; tap < taps_count; tap++) {
    int64_t first = tap * axis->dilation - axis->pad[0]; /* position of output 0 */
    int64_t inside = side ? in - 1 - first : -first - 1;
    int64_t reached = inside < 0 ? 0 : falt_min(inside / axis->stride + 1, out); /* outputs up to that position */
    positions += (double)(side ? out - reached : reached);
  }
  return positions;
}

enum { COUNTED_TAPS = 65536 }; /* beyond, counting takes longer than a rough bound is worth */

/* The most windows' positions that one input element serves on an axis: a bound where boundaries fold. */
static double gathered(const falt_problem *problem, int i) {
  const falt_axis *axis = &problem->axis[i];
  int64_t in = problem->input.size[FALT_D + i], out = problem->output.size[FALT_D + i];
  int64_t taps_count = problem->filter.size[FALT_D + i];
  double most = (double)falt_min(taps_count, out), all = (double)taps_count * (double)out;
  if (taps_count > COUNTED_TAPS) return all;
  for (int side = 0; side < 2; side++) {
    if (axis->boundary[side] != FALT_CONSTANT) most += outside(axis, in, taps_count, out, side);
  }
  return fmin(most, all);
}

int64_t falt_problem_depth(const falt_problem *problem) {
  const int64_t *out = problem->output.size;
  double depth = taps(problem);
  if (problem->operation == FALT_FORWARD)
    depth *= (double)problem->input.size[FALT_C];
  else if (problem->operation == FALT_BACKWARD_FILTER)
    depth = (double)out[FALT_N] * (double)out[FALT_D] * (double)out[FALT_H] * (double)out[FALT_W];
  else if (falt_operations[problem->operation].is_gradient)
    depth = (double)problem->filter.size[FALT_K] * gathered(problem, 0) * gathered(problem, 1) * gathered(problem, 2);
  return depth < 0x1p62 ? (int64_t)depth : INT64_C(1) << 62;
}

/* The share of an axis's taps that one window has inside the input, where nothing stands outside. */
static double most_inside(const falt_problem *p, int i) {
  const falt_axis *a = &p->axis[i];
  const double taps = (double)p->filter.size[FALT_D + i];
  if (a->boundary[0] != FALT_CONSTANT || a->boundary[1] != FALT_CONSTANT || p->boundary_value != 0) return 1;
  return fmin(taps, (double)falt_ceil_div(p->input.size[FALT_D + i], a->dilation)) / taps;
}

double falt_problem_sum_bound(const falt_problem *p) {
  const bool pooling = falt_is_pooling(p->operation);
  if (p->boundary_value != rint(p->boundary_value)) return INFINITY;
  const double x = fmax(falt_type_largest(p->input.type), fabs(p->boundary_value));
  double depth = (double)falt_problem_depth(p);
  for (int i = 0; i < 3 && p->operation == FALT_FORWARD; i++) depth *= most_inside(p, i);
  return x * (pooling ? 1 : falt_type_largest(p->filter.type)) * depth;
}
