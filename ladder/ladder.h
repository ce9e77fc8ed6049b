/* The ladder: one filter computed by rising steps, from the definition to what the planner picks, each small enough to
 * be read in a minute. Nothing in the library uses it; the command runs it, checks each step and times it.
 *
 * Single-channel f32, correlation, "same" size, anchor K/2, zero beyond the edges; 1D and 2D are 3D with sizes of one.
 */
#ifndef FALT_LADDER_LADDER_H
#define FALT_LADDER_LADDER_H

#include <stdint.h>

typedef struct ladder_task {
  int64_t size[3];    /* depth, height, width */
  int64_t taps[3];    /* of the filter, in the same order */
  const float *x, *w; /* dense */
  float *y;           /* dense, as large as x */
  int threads;        /* for the steps that use several */
} ladder_task;

typedef struct ladder_step {
  const char *name;
  const char *idea; /* what changed against the step before, in a few words */
  /* Bytes read for one output if every load that the step does not avoid went to memory: the textbook's count. */
  double (*bytes_per_output)(const ladder_task *task);
  void (*run)(const ladder_task *task);
} ladder_step;

/* The CPU's steps, ended by a NULL name. The planner's own step is the command's to add. */
extern const ladder_step ladder_cpu[];

#endif
