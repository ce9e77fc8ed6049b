/* Names in the order of their enumerations, and what an operation is and writes. */
#include "problem/problem.h"

const char *const falt_boundary_names[FALT_BOUNDARY_COUNT] = {"constant", "edge", "symmetric", "reflect101", "wrap"};

const char *const falt_activation_names[FALT_ACTIVATION_COUNT] = {"identity", "relu",    "relu6", "leaky", "silu",
                                                                  "gelu",     "sigmoid", "tanh",  "clip"};

const char *const falt_operation_names[FALT_OPERATION_COUNT] = {
    "forward", "backward-data", "backward-filter", "maxpool", "avgpool", "backward-maxpool", "backward-avgpool"};

bool falt_is_pooling(falt_operation operation) {
  return operation >= FALT_MAXPOOL && operation <= FALT_BACKWARD_AVGPOOL;
}

const falt_tensor *falt_problem_result(const falt_problem *problem) {
  switch (problem->operation) {
    case FALT_BACKWARD_DATA:
    case FALT_BACKWARD_MAXPOOL: /* dx lies in operands.residual, laid out as the input */
    case FALT_BACKWARD_AVGPOOL:
      return &problem->input;
    case FALT_BACKWARD_FILTER:
      return &problem->filter;
    default:
      return &problem->output;
  }
}
