/* Runs the tasks of a plan on the threads of a CPU; each worker takes tasks from its own share, then from others'. */
#ifndef FALT_SOLVER_COMMON_TASKS_H
#define FALT_SOLVER_COMMON_TASKS_H

#include "planner/planner.h"

/* A body run once for each task, by as many workers as the device has threads; each worker has its own scratch for all
 * the tasks that it takes, so nothing is shared and nothing waits. */
typedef struct falt_row_job {
  void (*run)(void *context, int64_t task, void *scratch);
  void *context;
  int64_t tasks;
  size_t scratch; /* bytes of one worker: the total of its layout */
} falt_row_job;

/* Adds the workspace of falt_rows_run to an empty layout: all workers' scratch, and behind it the queue of tasks.
 * *scratch must outlive the layout. */
void falt_rows_place(falt_memory_layout *layout, const falt_device *device, const falt_memory_layout *scratch);
/* The same for scratch of so many bytes without parts, whose layout is made too. The bytes of the workspace. */
size_t falt_rows_place_whole(falt_memory_layout *layout, const falt_device *device, falt_memory_layout *scratch,
                             size_t bytes);
void falt_rows_run(const falt_device *device, const falt_row_job *job, void *workspace);

#endif
