/* Executes a plan to measure its time: random operands, a workspace, a clock. */
#ifndef FALT_PLANNER_TRIAL_H
#define FALT_PLANNER_TRIAL_H

#include "planner/planner.h"
#include "planner/timer.h"

typedef struct falt_trial {
  falt_operands operands;
  falt_device *device;
  void *memory[7];
  int count;
} falt_trial;

/* Every operand of the problem, filled, in device memory, and a workspace of a number of bytes. FALT_NO_MEMORY leaves
 * nothing behind; it is also returned if the machine has less memory than the operands need. */
falt_status falt_trial_open(falt_trial *trial, falt_device *device, const falt_problem *problem, size_t workspace);
void falt_trial_close(falt_trial *trial);

/* Times a plan on the operands for about `seconds`. Returns the error of its execution. */
falt_status falt_trial_time(const falt_plan *plan, const falt_operands *operands, double seconds, falt_timing *timing);

#endif
