/* The repeated-boxes plan: shared by its planning half (repeated_boxes.c) and its running half (repeated_boxes_run.c).
 */
#ifndef FALT_SOLVER_CPU_RUNNING_SUMS_REPEATED_BOXES_H
#define FALT_SOLVER_CPU_RUNNING_SUMS_REPEATED_BOXES_H

#include "problem/box_chain.h"
#include "solver/cpu/common/rows.h"
#include "solver/cpu/running_sums/repeated_boxes_kernels.h"

typedef struct falt_repeated_boxes {
  falt_rows rows;
  const falt_boxes_kernels *kernels;
  falt_box_chain chain;
  double weight[FALT_MOST_BOXES]; /* of each box before the last: a power of two, for which the last makes up */
  int axis;                       /* the filter's, 0 to 2 */
  bool direct;                    /* along y or z: the first box reads the input's rows where they lie */
  bool stream;                    /* results bypass the caches */
  int64_t lanes;                  /* lines of a position */
  int64_t block[3];               /* outputs of a task; along x for each of its lines */
  falt_memory_layout scratch;     /* of a worker: one part, divided for each task */
} falt_repeated_boxes;

/* Positions that `outputs` results of the filter's axis read, gaps included. */
int64_t falt_repeated_boxes_reach(const falt_repeated_boxes *how, int64_t outputs);
size_t falt_repeated_boxes_scratch(const falt_repeated_boxes *how);
void falt_repeated_boxes_run(const falt_repeated_boxes *how, const falt_device *device, const falt_operands *operands);

#endif
