/* The operands of a plan: which it uses, their addresses, which it writes, and that these do not overlap other
 * operands. */
#ifndef FALT_PLANNER_OPERANDS_H
#define FALT_PLANNER_OPERANDS_H

#include "planner/planner.h"

typedef struct falt_use {
  bool used, written;
  falt_tensor tensor; /* of bias and scale: a vector along K */
} falt_use;

/* The operands that an execution of the plan reads and writes; all[FALT_WORKSPACE] is in bytes. */
void falt_operands_use(const falt_plan *plan, falt_use all[FALT_ADDRESSES]);
/* Bytes from data[0] to the last element; 0 if unused. */
size_t falt_use_bytes(const falt_use *use);

/* Prepares the plan's checks, so that an execution only compares addresses. Stored with the plan; call it once. */
falt_status falt_operands_keep(falt_plan *plan);

/* Checks that the plan can run on these operands: none is missing, and outputs do not overlap other operands. On the
 * device, or in host memory, where the workspace is ignored. */
falt_status falt_operands_check(const falt_plan *plan, const falt_operands *operands, bool on_device);

#endif
