/* Declarations of convert-layout and pad-channels: the conversion of one operand, shared by convert_layout.c and
 * convert_layout_operand.c. */
#ifndef FALT_SOLVER_REWRITE_CONVERT_LAYOUT_H
#define FALT_SOLVER_REWRITE_CONVERT_LAYOUT_H

#include "planner/backend.h"

/* One operand: as the child has it, and how it gets there. */
typedef struct falt_conversion {
  bool wanted;
  falt_tensor tensor;
  falt_copy copy;
  size_t bytes, at; /* in the workspace */
} falt_conversion;

static inline bool falt_conversion_pads(const falt_conversion *c) {
  return c->copy.pixel > 0;
}

/* The conversion of an operand by transpose or padding, if it pays and is possible. */
falt_conversion falt_conversion_of(const falt_backend *backend, const falt_tensor *t, bool is_filter);
/* The conversion of the output back, if possible: it is dense NCHW, and the child writes all of it. */
falt_conversion falt_conversion_of_result(const falt_backend *backend, const falt_problem *p);
/* The copy of a padded output back, if possible: the output is dense. */
falt_conversion falt_conversion_of_padded_result(const falt_backend *backend, const falt_problem *p);

#endif
