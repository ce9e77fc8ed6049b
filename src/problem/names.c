/* Names in the order of their enumerations. */
#include "problem/problem.h"

const char *const falt_boundary_names[FALT_BOUNDARY_COUNT] = {"constant", "edge", "symmetric", "reflect101", "wrap"};

const char *const falt_activation_names[FALT_ACTIVATION_COUNT] = {"identity", "relu",    "relu6", "leaky", "silu",
                                                                  "gelu",     "sigmoid", "tanh",  "clip"};
const char *const falt_filter_when_names[] = {"given", "known"};
