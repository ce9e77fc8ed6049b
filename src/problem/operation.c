/* The table of operations, operands by their number, and questions about the types of all operands. */
#include "problem/operation.h"

#include <stddef.h>

enum { X = 1 << FALT_INPUT, W = 1 << FALT_FILTER, Y = 1 << FALT_OUTPUT };

const falt_operation_traits falt_operations[] = {
    [FALT_FORWARD] = {"forward", false, false, {FALT_INPUT, FALT_FILTER}, FALT_OUTPUT, FALT_OUTPUT, X | W},
    [FALT_BACKWARD_DATA] = {"backward-data", false, true, {FALT_OUTPUT, FALT_FILTER}, FALT_INPUT, FALT_INPUT, Y | W},
    [FALT_BACKWARD_FILTER] =
        {"backward-filter", false, true, {FALT_INPUT, FALT_OUTPUT}, FALT_FILTER, FALT_FILTER, X | Y},
    [FALT_MAXPOOL] = {"maxpool", true, false, {FALT_INPUT, FALT_INPUT}, FALT_OUTPUT, FALT_OUTPUT, X},
    [FALT_AVGPOOL] = {"avgpool", true, false, {FALT_INPUT, FALT_INPUT}, FALT_OUTPUT, FALT_OUTPUT, X},
    [FALT_BACKWARD_MAXPOOL] =
        {"backward-maxpool", true, true, {FALT_OUTPUT, FALT_OUTPUT}, FALT_RESIDUAL, FALT_INPUT, X | Y},
    [FALT_BACKWARD_AVGPOOL] = {"backward-avgpool", true, true, {FALT_OUTPUT, FALT_OUTPUT}, FALT_INPUT, FALT_INPUT, Y},
};
_Static_assert(sizeof falt_operations / sizeof *falt_operations == FALT_OPERATION_COUNT, "an operation has no row");

bool falt_is_pooling(falt_operation operation) {
  return falt_operations[operation].is_pooling;
}

bool falt_reads_filter(falt_operation operation) {
  return falt_operations[operation].reads & W;
}

/* ---- tensors */

static const falt_tensor *tensor_of(const falt_problem *p, falt_operand which) {
  const falt_tensor *const tensors[FALT_OPERANDS] = {
      [FALT_INPUT] = &p->input, [FALT_FILTER] = &p->filter, [FALT_OUTPUT] = &p->output, [FALT_RESIDUAL] = &p->residual};
  return tensors[which];
}

const falt_tensor *falt_problem_result(const falt_problem *problem) {
  return tensor_of(problem, falt_operations[problem->operation].shape);
}

const falt_tensor *falt_problem_factor(const falt_problem *problem, int which) {
  return tensor_of(problem, falt_operations[problem->operation].factor[which]);
}

falt_tensor *falt_problem_tensor(falt_problem *problem, falt_operand which) {
  return (falt_tensor *)(uintptr_t)tensor_of(problem, which);
}

falt_tensor falt_operand_tensor(const falt_problem *p, falt_operand which) {
  if (which == FALT_BIAS || which == FALT_SCALE)
    return (falt_tensor){.type = falt_type_real(p->output.type),
                         .size = {1, 1, p->filter.size[FALT_G] * p->filter.size[FALT_K], 1, 1, 1},
                         .stride = {0, 0, 1, 0, 0, 0}};
  if (which == FALT_FILTER && p->factors)
    return (falt_tensor){
        .type = p->filter.type, .size = {1, 1, 1, 1, 1, falt_problem_filter_elements(p)}, .stride = {0, 0, 0, 0, 0, 1}};
  return which == falt_operations[p->operation].result ? *falt_problem_result(p) : *tensor_of(p, which);
}

/* ---- which */

unsigned falt_operands_used(const falt_problem *p) {
  const falt_operation_traits *o = &falt_operations[p->operation];
  return o->reads | 1u << o->result | (unsigned)p->has_bias << FALT_BIAS | (unsigned)p->has_scale << FALT_SCALE |
         (unsigned)p->has_residual << FALT_RESIDUAL;
}

unsigned falt_operands_written(const falt_problem *p) {
  const bool bias = p->operation == FALT_BACKWARD_FILTER && p->has_bias;
  return 1u << falt_operations[p->operation].result | (unsigned)bias << FALT_BIAS;
}

/* ---- data */

static const size_t places[FALT_ADDRESSES] = {
    [FALT_INPUT] = offsetof(falt_operands, input),         [FALT_FILTER] = offsetof(falt_operands, filter),
    [FALT_OUTPUT] = offsetof(falt_operands, output),       [FALT_BIAS] = offsetof(falt_operands, bias),
    [FALT_SCALE] = offsetof(falt_operands, scale),         [FALT_RESIDUAL] = offsetof(falt_operands, residual),
    [FALT_WORKSPACE] = offsetof(falt_operands, workspace),
};

void **falt_operand_at(falt_operands *operands, falt_operand which) {
  return (void **)(void *)((char *)operands + places[which]);
}

void *falt_operand_data(const falt_operands *operands, falt_operand which) {
  return *(void *const *)(const void *)((const char *)operands + places[which]);
}

void *falt_factor_data(falt_operation operation, const falt_operands *operands, int which) {
  return falt_operand_data(operands, falt_operations[operation].factor[which]);
}

void *falt_result_data(falt_operation operation, const falt_operands *operands) {
  return falt_operand_data(operands, falt_operations[operation].result);
}

/* ---- types */

bool falt_problem_has_f64(const falt_problem *p) {
  return p->input.type == FALT_F64 || p->output.type == FALT_F64 || p->accumulator == FALT_F64 ||
         (!falt_is_pooling(p->operation) && p->filter.type == FALT_F64);
}

bool falt_problem_fits_f32(const falt_problem *p) {
  return falt_type_fits_f32(p->input.type) && falt_type_fits_f32(p->output.type) && !falt_problem_has_f64(p);
}

static bool tensors_are(const falt_problem *p, falt_type type) {
  return p->input.type == type && p->filter.type == type && p->output.type == type &&
         (!p->has_residual || p->residual.type == type);
}

bool falt_tensors_are_f32(const falt_problem *p) {
  return tensors_are(p, FALT_F32);
}

bool falt_problem_is_f32(const falt_problem *p) {
  return falt_tensors_are_f32(p) && p->accumulator == FALT_F32;
}

bool falt_problem_sums_integers(const falt_problem *p) {
  return falt_type_is_integer(p->input.type) && falt_type_is_integer(p->filter.type);
}

bool falt_problem_is_f64(const falt_problem *p) {
  return tensors_are(p, FALT_F64) && p->accumulator == FALT_F64;
}
