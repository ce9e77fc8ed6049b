/* Element access of the generic solver: conversion to a lane and back, epilogue, averages. */
#include <math.h>
#include <string.h>

#include "solver/generic/generic.h"

void falt_generic_load_wide(int64_t *dst, const void *data, falt_type type, int64_t index, int64_t stride, int64_t n) {
  for (int64_t i = 0; i < n; i++) dst[i] = (int64_t)falt_load(data, type, index + i * stride);
}

void falt_generic_fill(const falt_generic_plan *plan, void *dst, double value, int64_t n) {
  switch (plan->lane_index) {
    case FALT_GENERIC_F32:
      for (int64_t i = 0; i < n; i++) ((float *)dst)[i] = (float)value;
      break;
    case FALT_GENERIC_F64:
      for (int64_t i = 0; i < n; i++) ((double *)dst)[i] = value;
      break;
    default:
      for (int64_t i = 0; i < n; i++) ((int64_t *)dst)[i] = (int64_t)value;
  }
}

const void *falt_generic_in_place(const falt_generic_plan *plan, const void *data, falt_type type, int64_t index) {
  if (plan->lane_index == FALT_GENERIC_F32 && type == FALT_F32) return (const float *)data + index;
  if (plan->lane_index == FALT_GENERIC_F64 && type == FALT_F64) return (const double *)data + index;
  return NULL;
}

/* ---- epilogue, in double: (alpha*scale)*sum, + (bias + beta), + residual, activation, one rounding */

enum { STORE_CHUNK = 128 };

static void sums_to_doubles(int lane_index, const void *sums, int64_t from, int64_t n, double *out) {
  switch (lane_index) {
    case FALT_GENERIC_F32:
      for (int64_t i = 0; i < n; i++) out[i] = ((const float *)sums)[from + i];
      break;
    case FALT_GENERIC_F64:
      memcpy(out, (const double *)sums + from, (size_t)n * sizeof *out);
      break;
    default:
      for (int64_t i = 0; i < n; i++) out[i] = (double)((const __int128 *)sums)[from + i];
  }
}

static double vector_at(const falt_problem *p, const void *vector, int64_t channel) {
  return p->output.type == FALT_F64 ? ((const double *)vector)[channel] : (double)((const float *)vector)[channel];
}

static void affine(const falt_generic_run *run, double *v, int64_t n, int64_t channel, int64_t step) {
  const falt_problem *p = &run->plan->p;
  double scale = p->alpha, offset = p->beta;
  if (p->has_scale) scale *= vector_at(p, run->operands->scale, channel);
  if (p->has_bias) offset += vector_at(p, run->operands->bias, channel);
  for (int64_t i = 0; i < n; i++) {
    if (i > 0 && step != 0 && p->has_scale) scale = p->alpha * vector_at(p, run->operands->scale, channel + i * step);
    if (i > 0 && step != 0 && p->has_bias) offset = p->beta + vector_at(p, run->operands->bias, channel + i * step);
    v[i] = v[i] * scale + offset;
  }
}

/* Clips are loops that the compiler turns into vectors; NaN passes through. */
static void clip(double *v, int64_t n, double low, double high) {
  for (int64_t i = 0; i < n; i++) {
    const double x = v[i] < low ? low : v[i];
    v[i] = x > high ? high : x;
  }
}

static void activate(const falt_problem *p, double *v, int64_t n) {
  switch (p->activation) {
    case FALT_IDENTITY:
      return;
    case FALT_RELU:
      clip(v, n, 0, INFINITY);
      return;
    case FALT_RELU6:
      clip(v, n, 0, 6);
      return;
    case FALT_CLIP:
      clip(v, n, p->act_a, p->act_b);
      return;
    default:
      for (int64_t i = 0; i < n; i++) v[i] = falt_activate(p, v[i]);
  }
}

static void add_residual(const falt_generic_run *run, double *v, int64_t n, int64_t index, int64_t stride) {
  const falt_type type = run->plan->p.residual.type;
  double more[STORE_CHUNK];
  run->plan->convert->load[FALT_LANE_F64][type](
      more, (const char *)run->operands->residual + index * (int64_t)falt_type_size(type), stride, n);
  for (int64_t i = 0; i < n; i++) v[i] += more[i];
}

static const falt_row_epilogue as_is = {.alpha = 1, .low = -INFINITY, .high = INFINITY};

static void *result_at(const falt_generic_run *run, int64_t index) {
  return (char *)run->result + index * (int64_t)falt_type_size(run->plan->result.type);
}

/* v[i] = the maximum of v[i] and the old output; NaN wins, but is 0 as an integer before the comparison. */
static void merge(const falt_generic_run *run, double *v, int64_t n, int64_t index, int64_t stride) {
  double there[STORE_CHUNK];
  if (falt_type_is_integer(run->plan->result.type))
    for (int64_t i = 0; i < n; i++) v[i] = isnan(v[i]) ? 0 : v[i];
  run->plan->convert->load[FALT_LANE_F64][run->plan->result.type](there, result_at(run, index), stride, n);
  for (int64_t i = 0; i < n; i++) v[i] = there[i] > v[i] || isnan(there[i]) ? there[i] : v[i];
}

static void store_chunk(const falt_generic_run *run, double *v, int64_t n, const falt_generic_target *to, int64_t at) {
  const falt_problem *p = &run->plan->p;
  affine(run, v, n, to->channel + at * to->channel_step, to->channel_step);
  if (p->has_residual) add_residual(run, v, n, to->residual + at * to->residual_stride, to->residual_stride);
  activate(p, v, n);
  if (run->merges) merge(run, v, n, to->index + at * to->stride, to->stride);
  run->plan->convert->store[FALT_LANE_F64][run->plan->result.type](result_at(run, to->index + at * to->stride),
                                                                   to->stride, v, n, &as_is, false);
}

void falt_generic_store(const falt_generic_run *run, const void *sums, int64_t n, const falt_generic_target *target) {
  const falt_generic_plan *plan = run->plan;
  if (plan->lane_index != FALT_GENERIC_WIDE && falt_epilogue_is_identity(&plan->p) && !run->merges) {
    plan->convert->store[plan->lane_index][plan->result.type](result_at(run, target->index), target->stride, sums, n,
                                                              &as_is, false);
    return;
  }
  double v[STORE_CHUNK];
  for (int64_t at = 0; at < n; at += STORE_CHUNK) {
    const int64_t count = falt_min(STORE_CHUNK, n - at);
    sums_to_doubles(plan->lane_index, sums, at, count, v);
    store_chunk(run, v, count, target, at);
  }
}

void falt_generic_store_totals(const falt_generic_run *run, const double *totals, int64_t n, int64_t index,
                               int64_t stride) {
  run->plan->convert->store[FALT_LANE_F64][run->plan->result.type](result_at(run, index), stride, totals, n, &as_is,
                                                                   false);
}

/* ---- averages */

/* Taps of output o that count along one axis. */
static int64_t axis_count(const falt_generic_plan *plan, int axis, int64_t o) {
  const falt_axis *a = &plan->p.axis[axis];
  const int64_t size = plan->p.input.size[FALT_D + axis], taps = plan->p.filter.size[FALT_D + axis];
  const int64_t low = plan->p.count_pad ? falt_min(0, -a->pad[0]) : 0;
  const int64_t end = plan->p.count_pad ? falt_max(size, size + a->pad[1]) : size;
  const int64_t first = o * a->stride - a->pad[0];
  const int64_t begin = first < low ? falt_ceil_div(low - first, a->dilation) : 0;
  const int64_t stop = first < end ? falt_min(taps, falt_ceil_div(end - first, a->dilation)) : 0;
  return falt_max(0, stop - begin);
}

double falt_generic_window_count(const falt_generic_plan *plan, int64_t od, int64_t oh, int64_t ow) {
  return (double)axis_count(plan, 0, od) * (double)axis_count(plan, 1, oh) * (double)axis_count(plan, 2, ow);
}

static void *element_at(const falt_generic_plan *plan, void *sums, int64_t i) {
  return (char *)sums + (size_t)i * plan->lane->element;
}

void falt_generic_average(const falt_generic_plan *plan, void *sums, int64_t od, int64_t oh, int64_t ow, int64_t n) {
  const double rows = (double)axis_count(plan, 0, od) * (double)axis_count(plan, 1, oh);
  int64_t begin, end;
  falt_axis_interior(&plan->p.axis[2], plan->p.input.size[FALT_W], plan->p.filter.size[FALT_W],
                     plan->p.output.size[FALT_W], &begin, &end);
  begin = falt_min(falt_max(begin - ow, 0), n);
  end = falt_max(begin, falt_min(end - ow, n));
  falt_generic_divide(plan, element_at(plan, sums, begin), rows * (double)plan->p.filter.size[FALT_W], end - begin);
  for (int64_t i = 0; i < n; i++) {
    if (i == begin) i = end;
    if (i < n) falt_generic_divide(plan, element_at(plan, sums, i), rows * (double)axis_count(plan, 2, ow + i), 1);
  }
}

void falt_generic_windows(const falt_generic_run *run, falt_generic_plan *plan, falt_generic_run *windows) {
  *plan = *run->plan;
  plan->p.operation = FALT_MAXPOOL;
  plan->gathers = false;
  plan->source = plan->p.input;
  plan->result = plan->p.output;
  plan->fill = -INFINITY;
  *windows = *run;
  windows->plan = plan;
  windows->source = run->operands->input;
}

void falt_generic_divide(const falt_generic_plan *plan, void *sums, double count, int64_t n) {
  if (plan->lane_index == FALT_GENERIC_F32)
    for (int64_t i = 0; i < n; i++) ((float *)sums)[i] /= (float)count;
  if (plan->lane_index == FALT_GENERIC_F64)
    for (int64_t i = 0; i < n; i++) ((double *)sums)[i] /= count;
}
