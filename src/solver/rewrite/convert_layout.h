/* Declarations of convert-layout: the conversion of one operand, shared by convert_layout.c and
 * convert_layout_operand.c. */
#ifndef FALT_SOLVER_REWRITE_CONVERT_LAYOUT_H
#define FALT_SOLVER_REWRITE_CONVERT_LAYOUT_H

#include "planner/planner.h"
#include "solver/rewrite/convert_layout_args.h"

enum { VECTOR = 16, THREADS = FALT_CUDA_TURN_THREADS, TURNS = FALT_CUDA_TURNS };

/* One operand: as the child has it, and how it gets there. */
typedef struct falt_conversion {
  bool wanted;
  falt_tensor tensor;
  falt_cuda_turn args;
  size_t bytes, at; /* in the workspace */
} falt_conversion;

/* The conversion of an operand by transpose or padding, if it pays and is possible. */
falt_conversion falt_conversion_of(const falt_tensor *t, bool is_filter);
/* The conversion of the output back, if possible: it is dense NCHW, and the child writes all of it. */
falt_conversion falt_conversion_of_result(const falt_problem *p);
/* The copy of a padded output back, if possible: the output is dense. */
falt_conversion falt_conversion_of_spread_result(const falt_problem *p);

#endif
