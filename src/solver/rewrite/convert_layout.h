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

/* How an operand is turned or spread, if it should and can be. */
falt_conversion falt_conversion_of(const falt_tensor *t, bool is_filter);
/* How the output is turned back, if it can be: it lies planar without gaps, and is all that the child would write. */
falt_conversion falt_conversion_of_result(const falt_problem *p);
/* How an output that was written spread is copied back, if it can be: it lies without gaps. */
falt_conversion falt_conversion_of_spread_result(const falt_problem *p);

#endif
