/* Output sizes and the placement of filters: E = dilation*(taps - 1) + 1, O = floor((I + pads - E) / stride) + 1. */
#include <string.h>

#include "problem/line.h"

int64_t falt_axis_output(const falt_axis *axis, int64_t in, int64_t taps) {
  int64_t room = in + axis->pad[0] + axis->pad[1] - falt_extent(axis, taps);
  return room < 0 ? 0 : room / axis->stride + 1;
}

/* pad[1] as the output's size implies it. */
static int64_t pad_after(const falt_axis *axis, int64_t in, int64_t taps, int64_t out) {
  return (out - 1) * axis->stride + falt_extent(axis, taps) - in - axis->pad[0];
}

bool falt_axis_place(falt_axis *axis, int64_t in, int64_t taps, falt_mode mode, int64_t anchor, bool flip,
                     int64_t *out) {
  int64_t extent = falt_extent(axis, taps);
  int64_t tap = anchor == FALT_ANCHOR_CENTER ? taps / 2 : anchor;
  const int64_t before[] = {(flip ? taps - 1 - tap : tap) * axis->dilation, 0, extent - 1};
  /* the last output of `same` lies at in - 1, of `valid` its window ends there, of `full` it begins there */
  const int64_t last[] = {in - 1, in - extent, in + extent - 2};
  if (last[mode] < 0) return false;
  axis->pad[0] = before[mode];
  *out = last[mode] / axis->stride + 1;
  axis->pad[1] = pad_after(axis, in, taps, *out);
  return true;
}

int64_t falt_axis_pooled(const falt_axis *axis, int64_t in, int64_t taps, int64_t pool) {
  return falt_axis_output(axis, in, taps) / pool;
}

falt_status falt_axis_too_short(const falt_axis *axis, int index, int64_t in, int64_t taps, int64_t pool) {
  const int64_t out = falt_axis_output(axis, in, taps);
  if (out > 0)
    return falt_fail(FALT_INVALID_SHAPE, "problem: no output on axis %s: pool takes %lld values and the sums are %lld",
                     falt_axis_names[index], (long long)pool, (long long)out);
  return falt_fail(
      FALT_INVALID_SHAPE, "problem: no output on axis %s: the filter covers %lld, the input with its pad %lld",
      falt_axis_names[index], (long long)falt_extent(axis, taps), (long long)(in + axis->pad[0] + axis->pad[1]));
}

/* Where dimension `dim` stands in memory: the stride, or the next inner dimension's where the size of 1 leaves none. */
static int64_t memory_rank(const falt_tensor *tensor, int dim) {
  while (dim < FALT_W && (tensor->size[dim] == 1 || tensor->stride[dim] == 0)) dim++;
  int64_t stride = tensor->size[dim] == 1 ? 0 : tensor->stride[dim];
  return stride < 0 ? -stride : stride;
}

/* Dense strides for `tensor` in the order of memory that `like` has. */
static bool dense_like(falt_tensor *tensor, const falt_tensor *like) {
  for (falt_layout layout = FALT_NCHW; layout <= FALT_NHWC; layout++) {
    if (falt_tensor_is(like, layout)) return falt_layout_dense(tensor, layout);
  }
  int order[FALT_DIMS];
  for (int dim = 0; dim < FALT_DIMS; dim++) {
    int at = dim;
    for (; at > 0 && memory_rank(like, order[at - 1]) < memory_rank(like, dim); at--) order[at] = order[at - 1];
    order[at] = dim;
  }
  int64_t next = 1;
  for (int i = FALT_DIMS; i-- > 0;) {
    tensor->stride[order[i]] = next;
    if (!falt_mul(next, tensor->size[order[i]], &next)) return false;
  }
  tensor->offset = 0;
  return true;
}

falt_status falt_problem_output(falt_problem *problem) {
  if (!problem) return falt_fail(FALT_INVALID_ARGUMENT, "problem: NULL");
  falt_tensor output = problem->output;
  const int64_t *in = problem->input.size, *filter = problem->filter.size;
  for (int dim = 0; dim < FALT_DIMS; dim++) {
    if (in[dim] < 1 || filter[dim] < 1 || in[dim] > FALT_LIMIT || filter[dim] > FALT_LIMIT)
      return falt_fail(FALT_INVALID_SIZE, "problem: size[%d] of input or filter is out of range", dim);
    if (problem->input.stride[dim] == INT64_MIN)
      return falt_fail(FALT_INVALID_ARGUMENT, "problem: input.stride[%d] is out of range", dim);
  }
  output.size[FALT_N] = in[FALT_N];
  output.size[FALT_G] = in[FALT_G];
  output.size[FALT_C] = filter[FALT_K];
  for (int i = 0; i < 3; i++) {
    int64_t taps = filter[FALT_D + i];
    FALT_TRY(falt_axis_check(&problem->axis[i], i, taps));
    if (problem->pool[i] < 1)
      return falt_fail(FALT_INVALID_SIZE, "problem: pool on axis %s is below 1", falt_axis_names[i]);
    output.size[FALT_D + i] = falt_axis_pooled(&problem->axis[i], in[FALT_D + i], taps, problem->pool[i]);
    if (output.size[FALT_D + i] < 1)
      return falt_axis_too_short(&problem->axis[i], i, in[FALT_D + i], taps, problem->pool[i]);
  }
  if (!dense_like(&output, &problem->input))
    return falt_fail(FALT_INVALID_SIZE, "problem: the output's sizes have a product beyond 2^63 - 1");
  problem->output = output;
  return FALT_OK;
}
