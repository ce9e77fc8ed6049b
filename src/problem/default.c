/* Structs as their default functions leave them, and the problem's canonical form. */
#include <string.h>

#include "problem/line.h"

static falt_tensor one_element(void) {
  falt_tensor tensor = {.type = FALT_F32};
  for (int dim = 0; dim < FALT_DIMS; dim++) tensor.size[dim] = tensor.stride[dim] = 1;
  return tensor;
}

void falt_problem_default(falt_problem *problem) {
  if (!problem) return;
  memset(problem, 0, sizeof *problem);
  problem->operation = FALT_FORWARD;
  problem->space = 2;
  problem->input = problem->filter = problem->output = problem->residual = one_element();
  for (int i = 0; i < 3; i++) problem->axis[i].stride = problem->axis[i].dilation = problem->pool[i] = 1;
  problem->accumulator = FALT_F32;
  problem->alpha = 1;
  problem->activation = FALT_IDENTITY;
  problem->act_a = FALT_LEAKY_DEFAULT;
}

void falt_budget_default(falt_budget *budget) {
  if (!budget) return;
  memset(budget, 0, sizeof *budget);
  budget->max_workspace = -1;
}

void falt_options_default(falt_options *options) {
  if (!options) return;
  memset(options, 0, sizeof *options);
  options->space = 2;
  options->mode = FALT_SAME;
  for (int i = 0; i < 3; i++) {
    options->axis[i].stride = options->axis[i].dilation = 1;
    options->anchor[i] = FALT_ANCHOR_CENTER;
  }
  options->alpha = 1;
  falt_budget_default(&options->budget);
}

void falt_operands_default(falt_operands *operands) {
  if (operands) *operands = (falt_operands){0};
}

falt_type falt_default_weight_type(bool is_filter, falt_type input) {
  static const falt_type of_layers[] = {FALT_S8, FALT_S8, FALT_S16, FALT_S16, FALT_S32};
  if (!falt_type_is_integer(input)) return input;
  return is_filter ? FALT_F32 : of_layers[input];
}

falt_type falt_default_out_type(bool is_layer, falt_type input) {
  return is_layer && falt_type_is_integer(input) ? FALT_S32 : input;
}

falt_type falt_default_accumulator(const falt_problem *problem) {
  falt_type in = problem->input.type, weight = problem->filter.type;
  bool pooling = falt_is_pooling(problem->operation);
  if (in == FALT_F64 || weight == FALT_F64 || problem->output.type == FALT_F64) return FALT_F64;
  if (!falt_type_is_integer(in) || (!pooling && !falt_type_is_integer(weight))) return FALT_F32;
  if (!falt_type_is_byte(in) || !falt_type_is_byte(weight)) return FALT_F64;
  return pooling || problem->is_filter ? FALT_F32 : FALT_S32;
}

falt_filter_when falt_problem_filter_when(const falt_problem *problem) {
  if (!problem || !falt_reads_filter(problem->operation)) return FALT_FILTER_AUTO;
  if (problem->filter_when != FALT_FILTER_AUTO) return problem->filter_when;
  return problem->is_filter ? FALT_FILTER_KNOWN : FALT_FILTER_GIVEN;
}

falt_problem falt_problem_planned(const falt_problem *problem, const void *filter_values) {
  falt_problem planned = *problem;
  planned.filter_when = filter_values ? FALT_FILTER_KNOWN : FALT_FILTER_GIVEN;
  if (!falt_reads_filter(problem->operation)) planned.filter_when = FALT_FILTER_AUTO;
  return planned;
}

/* Strides along dimensions of size 1 have no meaning: the dense ones where a layout fits, 0 otherwise. */
static void canonical_tensor(falt_tensor *tensor, falt_layout first, falt_layout last) {
  for (falt_layout layout = first; layout <= last; layout++) {
    falt_tensor dense = *tensor;
    if (!falt_tensor_is(tensor, layout) || !falt_layout_dense(&dense, layout)) continue;
    memcpy(tensor->stride, dense.stride, sizeof dense.stride);
    return;
  }
  for (int dim = 0; dim < FALT_DIMS; dim++) {
    if (tensor->size[dim] == 1) tensor->stride[dim] = 0;
  }
}

static void canonical_axes(falt_problem *problem) {
  bool constant = false;
  for (int i = 0; i < 3; i++) {
    falt_axis *axis = &problem->axis[i];
    if (i < 3 - problem->space) {
      axis->boundary[0] = axis->boundary[1] = FALT_CONSTANT;
      axis->pad[1] = 0;
    } else if (problem->is_filter) {
      int64_t reach = falt_extent(axis, problem->filter.size[FALT_D + i]) - axis->pad[0];
      axis->pad[1] = (problem->output.size[FALT_D + i] - 1) * axis->stride + reach - problem->input.size[FALT_D + i];
    }
    if (i >= 3 - problem->space) constant |= !axis->boundary[0] || !axis->boundary[1];
  }
  if (!constant || falt_is_pooling(problem->operation)) problem->boundary_value = 0;
}

void falt_problem_canonical(falt_problem *problem) {
  falt_problem plain;
  falt_problem_default(&plain);
  canonical_axes(problem);
  if (falt_is_pooling(problem->operation)) {
    problem->filter.type = problem->input.type;
    problem->filter.offset = 0;
    falt_layout_dense(&problem->filter, FALT_OIHW);
  }
  if (!problem->has_residual) problem->residual = plain.residual;
  if (problem->activation != FALT_LEAKY && problem->activation != FALT_CLIP) problem->act_a = plain.act_a;
  if (problem->activation != FALT_CLIP) problem->act_b = plain.act_b;
  if (problem->operation != FALT_AVGPOOL && problem->operation != FALT_BACKWARD_AVGPOOL) problem->count_pad = false;
  canonical_tensor(&problem->input, FALT_NCHW, FALT_NHWC);
  canonical_tensor(&problem->output, FALT_NCHW, FALT_NHWC);
  canonical_tensor(&problem->residual, FALT_NCHW, FALT_NHWC);
  canonical_tensor(&problem->filter, FALT_OIHW, FALT_HWIO);
  double *values[] = {&problem->boundary_value, &problem->alpha, &problem->beta, &problem->act_a, &problem->act_b};
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) *values[i] += 0.0; /* -0 becomes 0 */
}
