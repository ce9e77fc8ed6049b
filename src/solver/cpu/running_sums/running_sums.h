/* The running-sums plan: shared by its planning half (running_sums.c) and its running half (running_sums_run.c). */
#ifndef FALT_SOLVER_CPU_RUNNING_SUMS_RUNNING_SUMS_H
#define FALT_SOLVER_CPU_RUNNING_SUMS_RUNNING_SUMS_H

#include "solver/cpu/common/rows.h"
#include "solver/cpu/running_sums/running_sums_kernels.h"

typedef struct falt_running {
  falt_rows rows;
  const falt_running_kernels *kernels;
  bool whole;                 /* sums are u32 and then scaled; else of the lane's type */
  size_t size;                /* bytes of a sum */
  double weight;              /* the value of all taps */
  bool in_place;              /* rows of sums are made from the input where it lies, else from a converted copy */
  bool stream;                /* results bypass the caches */
  int64_t block[3];           /* outputs of a task */
  falt_memory_layout scratch; /* of a worker: one part, divided for each task */
} falt_running;

/* Scratch bytes of the task that needs most, with the block as it stands. */
size_t falt_running_scratch(const falt_running *how);
void falt_running_run(const falt_running *how, const falt_device *device, const falt_operands *operands);

#endif
