/* Checks that a problem is legal: one condition at a time, each with an error message. */
#include <math.h>
#include <string.h>

#include "problem/line.h"

const char *const falt_axis_names[3] = {"d", "h", "w"};

static const char *const size_names[FALT_DIMS] = {"n", "groups", "channels", "d", "h", "w"};

static bool in_range(int64_t value, int64_t limit) {
  return value >= -limit && value <= limit;
}

falt_status falt_axis_check(const falt_axis *axis, int index, int64_t taps) {
  const char *name = falt_axis_names[index];
  int64_t extent = 0;
  if (axis->stride < 1 || axis->stride > FALT_AXIS_LIMIT)
    return falt_fail(FALT_INVALID_SIZE, "problem: stride on axis %s is %lld; it must be from 1 to 2^40", name,
                     (long long)axis->stride);
  if (axis->dilation < 1 || axis->dilation > FALT_AXIS_LIMIT)
    return falt_fail(FALT_INVALID_SIZE, "problem: dilation on axis %s is %lld; it must be from 1 (none) to 2^40", name,
                     (long long)axis->dilation);
  if (taps < 1 || !falt_mul(axis->dilation, taps - 1, &extent) || extent >= FALT_LIMIT)
    return falt_fail(FALT_INVALID_SIZE,
                     "problem: the filter on axis %s has %lld taps; its extent must be from 1 to 2^60", name,
                     (long long)taps);
  for (int side = 0; side < 2; side++) {
    /* after a filter the pad follows from the sizes, which have their own limit */
    if (!in_range(axis->pad[side], side == 0 ? falt_max(FALT_AXIS_LIMIT, extent) : 4 * FALT_LIMIT))
      return falt_fail(FALT_INVALID_SIZE, "problem: pad on axis %s is %lld; at most 2^40 makes sense", name,
                       (long long)axis->pad[side]);
    if ((unsigned)axis->boundary[side] >= FALT_BOUNDARY_COUNT)
      return falt_fail(FALT_INVALID_ARGUMENT, "problem: boundary on axis %s has no enumerator %d", name,
                       (int)axis->boundary[side]);
  }
  return FALT_OK;
}

/* Adds how far a tensor reaches below and above its offset. */
static falt_status tensor_reach(const falt_tensor *t, const char *name, int64_t *low, int64_t *high) {
  *low = *high = t->offset;
  if (!in_range(t->offset, FALT_LIMIT)) return falt_fail(FALT_INVALID_SIZE, "problem: %s offset is out of range", name);
  for (int dim = 0; dim < FALT_DIMS; dim++) {
    int64_t stride = t->stride[dim], reach = 0;
    if (!in_range(stride, FALT_LIMIT) || !falt_mul(t->size[dim] - 1, stride < 0 ? -stride : stride, &reach) ||
        reach > FALT_LIMIT)
      return falt_fail(FALT_INVALID_SIZE, "problem: %s stride of %s is out of range: the tensor would exceed 2^60",
                       name, size_names[dim]);
    *(stride < 0 ? low : high) += stride < 0 ? -reach : reach;
  }
  return FALT_OK;
}

static falt_status check_tensor(const falt_tensor *t, const char *name) {
  if ((unsigned)t->type >= FALT_TYPE_COUNT)
    return falt_fail(FALT_INVALID_ARGUMENT, "problem: %s type has no enumerator %d", name, (int)t->type);
  int64_t bytes = (int64_t)falt_type_size(t->type), low, high;
  for (int dim = 0; dim < FALT_DIMS; dim++) {
    if (t->size[dim] < 1)
      return falt_fail(FALT_INVALID_SIZE, "problem: %s size %s is %lld; sizes are at least 1", name, size_names[dim],
                       (long long)t->size[dim]);
    if (!falt_mul(bytes, t->size[dim], &bytes))
      return falt_fail(FALT_INVALID_SIZE, "problem: %s has more than 2^63 - 1 bytes", name);
  }
  for (int dim = 0; dim < FALT_DIMS; dim++) {
    if (t->size[dim] > FALT_LIMIT)
      return falt_fail(FALT_INVALID_SIZE, "problem: %s size %s exceeds 2^60", name, size_names[dim]);
  }
  FALT_TRY(tensor_reach(t, name, &low, &high));
  if (low < 0)
    return falt_fail(FALT_INVALID_ARGUMENT, "problem: %s reaches %lld elements before data[0]; raise its offset", name,
                     (long long)-low);
  if (high >= FALT_LIMIT) return falt_fail(FALT_INVALID_SIZE, "problem: %s spans more than 2^60 elements", name);
  return FALT_OK;
}

/* Dimensions with more than one element, by rising stride. */
static int by_stride(const falt_tensor *t, int64_t stride[FALT_DIMS], int64_t size[FALT_DIMS]) {
  int count = 0;
  for (int dim = 0; dim < FALT_DIMS; dim++) {
    if (t->size[dim] == 1) continue;
    int64_t step = t->stride[dim] < 0 ? -t->stride[dim] : t->stride[dim];
    int at = count++;
    for (; at > 0 && stride[at - 1] > step; at--) {
      stride[at] = stride[at - 1];
      size[at] = size[at - 1];
    }
    stride[at] = step;
    size[at] = t->size[dim];
  }
  return count;
}

/* Elements of the result must not overlap: each stride is larger than the reach of all smaller ones. */
static falt_status check_result(const falt_problem *problem) {
  int64_t stride[FALT_DIMS], size[FALT_DIMS], reach = 0;
  int count = by_stride(falt_problem_result(problem), stride, size);
  for (int i = 0; i < count; i++) {
    if (stride[i] <= reach)
      return falt_fail(FALT_INVALID_ARGUMENT,
                       "problem: the result's elements overlap in memory (stride %lld); each "
                       "needs its own place",
                       (long long)stride[i]);
    reach += (size[i] - 1) * stride[i];
  }
  return FALT_OK;
}

static falt_status check_enumerations(const falt_problem *problem) {
  const falt_problem *p = problem;
  FALT_TRY(FALT_CHECK_RESERVED(problem, "falt_problem_default"));
  if ((unsigned)p->operation >= FALT_OPERATION_COUNT)
    return falt_fail(FALT_INVALID_ARGUMENT, "problem: operation has no enumerator %d", (int)p->operation);
  if ((unsigned)p->activation >= FALT_ACTIVATION_COUNT)
    return falt_fail(FALT_INVALID_ARGUMENT, "problem: activation has no enumerator %d", (int)p->activation);
  if (p->space < 1 || p->space > 3)
    return falt_fail(FALT_INVALID_ARGUMENT, "problem: space is %d; it is 1, 2 or 3", p->space);
  for (int i = 0; i < 3; i++) {
    if (p->pool[i] < 1 || p->pool[i] > FALT_AXIS_LIMIT)
      return falt_fail(FALT_INVALID_SIZE, "problem: pool on axis %s is %lld; it must be from 1 (none) to 2^40",
                       falt_axis_names[i], (long long)p->pool[i]);
  }
  if (p->rank < 0) return falt_fail(FALT_INVALID_ARGUMENT, "problem: rank is %d; 0 means not known", p->rank);
  return FALT_OK;
}

static falt_status check_filter_when(const falt_problem *p) {
  if ((unsigned)p->filter_when > FALT_FILTER_KNOWN)
    return falt_fail(FALT_INVALID_ARGUMENT, "problem: filter_when has no enumerator %d", (int)p->filter_when);
  if (p->filter_when == FALT_FILTER_AUTO || falt_reads_filter(p->operation)) return FALT_OK;
  return falt_fail(FALT_INVALID_ARGUMENT, "problem: filter=%s: %s reads no filter; leave the word out",
                   falt_filter_when_names[p->filter_when - FALT_FILTER_GIVEN], falt_operations[p->operation].name);
}

/* The tensor of dense taps that factors stand for, forwards or backwards along all axes. */
static bool is_dense_filter(const falt_problem *p, bool flip) {
  falt_tensor dense = p->filter;
  if (falt_filter_taps(&dense, p->filter.size[FALT_G], flip) != FALT_OK) return false;
  bool same = dense.offset == p->filter.offset;
  for (int dim = 0; dim < FALT_DIMS; dim++) same &= dense.size[dim] == 1 || dense.stride[dim] == p->filter.stride[dim];
  return same;
}

static falt_status check_factors(const falt_problem *p) {
  if (p->factors == 0) return FALT_OK;
  if (p->factors < 0) return falt_fail(FALT_INVALID_ARGUMENT, "problem: factors is %d; 0 means dense taps", p->factors);
  if (!p->is_filter)
    return falt_fail(FALT_INVALID_ARGUMENT, "problem: factors: only correlate and convolve take them; leave them out");
  if (p->rank) return falt_fail(FALT_INVALID_ARGUMENT, "problem: factors and rank exclude each other; give one");
  if (falt_type_is_integer(p->filter.type))
    return falt_fail(FALT_INVALID_TYPE, "problem: factors of type %s: floats are expected; add weight-type=f32",
                     falt_type_name(p->filter.type));
  if (!is_dense_filter(p, false) && !is_dense_filter(p, true))
    return falt_fail(FALT_INVALID_ARGUMENT, "problem: factors lie densely; leave filter-strides and filter-offset out");
  return FALT_OK;
}

static falt_status disagree(const char *what, int64_t a, const char *one, int64_t b, const char *other) {
  return falt_fail(FALT_INVALID_SHAPE, "problem: %s disagree: %lld in the %s, %lld in the %s", what, (long long)a, one,
                   (long long)b, other);
}

static falt_status check_agreement(const falt_problem *p) {
  const int64_t *in = p->input.size, *filter = p->filter.size, *out = p->output.size;
  bool pooling = falt_is_pooling(p->operation);
  if (in[FALT_N] != out[FALT_N]) return disagree("batch sizes", in[FALT_N], "input", out[FALT_N], "output");
  if (in[FALT_G] != out[FALT_G]) return disagree("groups", in[FALT_G], "input", out[FALT_G], "output");
  if (filter[FALT_G] != (pooling ? 1 : in[FALT_G]))
    return disagree("groups", filter[FALT_G], pooling ? "pooling window (1 expected)" : "filter", in[FALT_G], "input");
  if (filter[FALT_C] != in[FALT_C])
    return disagree("channels of a group", filter[FALT_C], "filter", in[FALT_C], "input");
  if (filter[FALT_K] != out[FALT_C])
    return disagree("outputs of a group", filter[FALT_K], "filter", out[FALT_C], "output");
  if ((pooling || p->is_filter) && (in[FALT_C] != 1 || filter[FALT_K] != 1))
    return falt_fail(FALT_INVALID_SHAPE, "problem: %s has one channel a group; put all channels in groups",
                     pooling ? "pooling" : "a filter");
  if (p->is_filter && p->operation != FALT_FORWARD)
    return falt_fail(FALT_INVALID_ARGUMENT, "problem: is_filter needs the forward operation");
  if (p->has_residual && memcmp(p->residual.size, out, sizeof p->residual.size) != 0)
    return falt_fail(FALT_INVALID_SHAPE, "problem: residual and output differ in size");
  return FALT_OK;
}

/* An axis before the last `space` ones is one position, and nothing may move it. */
static falt_status check_unused(const falt_problem *p, int i) {
  int dim = FALT_D + i;
  const falt_axis *axis = &p->axis[i];
  bool single = p->input.size[dim] == 1 && p->filter.size[dim] == 1 && p->output.size[dim] == 1;
  if (single && axis->stride == 1 && axis->dilation == 1 && axis->pad[0] == 0 && p->pool[i] == 1) return FALT_OK;
  return falt_fail(FALT_INVALID_SHAPE,
                   "problem: axis %s is unused with space %d; leave its sizes, stride, dilation and pool 1"
                   " and its pad 0",
                   falt_axis_names[i], p->space);
}

/* A pooling window that sees no element has no maximum and no average. */
static bool sees_input(const falt_axis *axis, int64_t in, int64_t taps, int64_t out) {
  bool starts_outside = axis->pad[0] > 0;
  if ((out - 1) * axis->stride - axis->pad[0] >= in) return false;
  return !starts_outside || (axis->pad[0] < falt_extent(axis, taps) && axis->dilation <= in);
}

static falt_status check_axes(const falt_problem *p) {
  for (int i = 0; i < 3; i++) {
    const falt_axis *axis = &p->axis[i];
    int64_t in = p->input.size[FALT_D + i], taps = p->filter.size[FALT_D + i], out = p->output.size[FALT_D + i], reach;
    FALT_TRY(falt_axis_check(axis, i, taps));
    if (!falt_mul(out, p->pool[i], &reach) || !falt_mul(reach - 1, axis->stride, &reach) || reach > FALT_LIMIT)
      return falt_fail(FALT_INVALID_SIZE, "problem: output size times stride exceeds 2^60 on axis %s",
                       falt_axis_names[i]);
    if (i < 3 - p->space) {
      FALT_TRY(check_unused(p, i));
      continue;
    }
    if (!falt_is_pooling(p->operation)) continue;
    if (axis->boundary[0] != FALT_CONSTANT || axis->boundary[1] != FALT_CONSTANT)
      return falt_fail(FALT_INVALID_ARGUMENT,
                       "problem: pooling skips positions outside; its boundary must be constant");
    if (!sees_input(axis, in, taps, out))
      return falt_fail(FALT_INVALID_SHAPE, "problem: a pooling window on axis %s sees no input; lower the pad",
                       falt_axis_names[i]);
  }
  return FALT_OK;
}

static falt_status check_gradient_types(const falt_problem *p) {
  bool pooling = falt_is_pooling(p->operation);
  const falt_tensor *used[] = {&p->input, &p->output, &p->filter};
  for (int i = 0; i < (pooling ? 2 : 3); i++) {
    if (falt_type_is_integer(used[i]->type))
      return falt_fail(FALT_INVALID_TYPE, "problem: %s needs floating-point types, not %s",
                       falt_operations[p->operation].name, falt_type_name(used[i]->type));
  }
  return FALT_OK;
}

static falt_status check_types(const falt_problem *p) {
  bool pooling = falt_is_pooling(p->operation);
  bool in_integer = falt_type_is_integer(p->input.type), weight_integer = falt_type_is_integer(p->filter.type);
  if (falt_operations[p->operation].is_gradient) FALT_TRY(check_gradient_types(p));
  if (p->operation == FALT_MAXPOOL && p->input.type != p->output.type &&
      (in_integer || falt_type_is_integer(p->output.type)))
    return falt_fail(FALT_INVALID_TYPE, "problem: maxpool from %s to %s; integers keep their type",
                     falt_type_name(p->input.type), falt_type_name(p->output.type));
  if (p->accumulator != FALT_F32 && p->accumulator != FALT_F64 && p->accumulator != FALT_S32)
    return falt_fail(FALT_INVALID_TYPE, "problem: acc is f32, f64 or s32");
  if (p->accumulator == FALT_S32 && !(in_integer && (pooling || weight_integer)))
    return falt_fail(FALT_INVALID_TYPE, "problem: acc=s32 needs integer input and weights, not %s and %s",
                     falt_type_name(p->input.type), falt_type_name(p->filter.type));
  return FALT_OK;
}

/* Whether the accumulator can hold a value that enters the sum. */
static falt_status check_value(const falt_problem *p, const char *name, double value) {
  bool fits = isfinite(value) && (p->accumulator == FALT_F64 || fabs(value) <= 0x1.fffffep127);
  if (fits) return FALT_OK;
  return falt_fail(FALT_INVALID_ARGUMENT, "problem: %s is %g; it must be finite and fit %s", name, value,
                   falt_type_name(p->accumulator));
}

static falt_status check_epilogue(const falt_problem *p) {
  FALT_TRY(check_value(p, "value", p->boundary_value));
  FALT_TRY(check_value(p, "alpha", p->alpha));
  FALT_TRY(check_value(p, "beta", p->beta));
  if (p->accumulator == FALT_S32 &&
      (p->boundary_value != rint(p->boundary_value) || fabs(p->boundary_value) > falt_type_max(FALT_S32)))
    return falt_fail(FALT_INVALID_TYPE, "problem: value %g does not fit the accumulator s32", p->boundary_value);
  if (p->activation == FALT_LEAKY) FALT_TRY(check_value(p, "the slope of leaky", p->act_a));
  if (p->activation == FALT_CLIP && !(p->act_a <= p->act_b))
    return falt_fail(FALT_INVALID_ARGUMENT, "problem: clip from %g to %g is empty", p->act_a, p->act_b);
  if (falt_problem_pools(p) && (p->operation != FALT_FORWARD || p->is_filter))
    return falt_fail(FALT_INVALID_ARGUMENT, "problem: only forward layers pool their results");
  if (falt_problem_pools(p) && p->has_residual)
    return falt_fail(FALT_INVALID_ARGUMENT, "problem: pool and residual exclude each other; give one");
  if (p->operation == FALT_FORWARD) return FALT_OK;
  falt_problem rest = *p;
  if (p->operation == FALT_BACKWARD_FILTER) rest.has_bias = false; /* db beside dw */
  if (!falt_epilogue_is_identity(&rest) || (falt_is_pooling(p->operation) && p->rank))
    return falt_fail(FALT_INVALID_ARGUMENT, "problem: %s has no alpha, beta, scale, bias, residual, act or rank",
                     falt_operations[p->operation].name);
  return FALT_OK;
}

falt_status falt_problem_check_values(const falt_problem *p, const void *filter_values) {
  if (p->filter_when == FALT_FILTER_GIVEN && filter_values)
    return falt_fail(FALT_INVALID_ARGUMENT,
                     "filter_values: not NULL, and the problem says filter=given; pass NULL, or leave the word out");
  if (p->filter_when == FALT_FILTER_KNOWN && !filter_values)
    return falt_fail(FALT_INVALID_ARGUMENT,
                     "filter_values: NULL, and the problem says filter=known; pass the values, or leave the word out");
  return FALT_OK;
}

falt_status falt_problem_check(const falt_problem *p) {
  if (!p) return falt_fail(FALT_INVALID_ARGUMENT, "problem: NULL");
  FALT_TRY(check_enumerations(p));
  FALT_TRY(check_filter_when(p));
  FALT_TRY(check_tensor(&p->input, "input"));
  if (!falt_is_pooling(p->operation)) FALT_TRY(check_tensor(&p->filter, "filter"));
  FALT_TRY(check_tensor(&p->output, "output"));
  if (p->has_residual) FALT_TRY(check_tensor(&p->residual, "residual"));
  FALT_TRY(check_agreement(p));
  FALT_TRY(check_axes(p));
  FALT_TRY(check_types(p));
  FALT_TRY(check_factors(p));
  FALT_TRY(check_epilogue(p));
  return check_result(p);
}
