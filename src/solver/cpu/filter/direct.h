/* The plan of the solver direct: direct.c creates it, direct_run.c executes it. */
#ifndef FALT_SOLVER_CPU_FILTER_DIRECT_H
#define FALT_SOLVER_CPU_FILTER_DIRECT_H

#include "solver/cpu/common/layer.h"
#include "solver/cpu/common/rows.h"

enum { FALT_DIRECT_MOST_BAND = 32 };

/* The taps that one kernel call takes. With an output stride, the taps of an axis fall into classes that read different
 * input positions modulo the stride; each class is a plane with fewer taps, and classes of equal size make a part. */
typedef struct falt_direct_part {
  int64_t first_tap; /* in the packed filter of a group */
  int64_t y_class, y_classes, x_class, x_classes;
  int64_t r, s, planes;
} falt_direct_part;

/* The windows of one range of outputs, one for each class of taps along x. */
typedef struct falt_direct_windows {
  size_t at, slots; /* offsets of the first window in a worker's scratch, of the slots in a window */
  falt_memory_layout one;
} falt_direct_windows;

/* Offsets in a worker's scratch, in bytes. */
typedef struct falt_direct_scratch {
  size_t pointers, windows, sums;
  falt_direct_windows left, right, constant; /* constant: the row of outputs that read the source in place */
  falt_memory_layout parts;
} falt_direct_scratch;

typedef struct falt_direct_plan {
  falt_plan base;
  falt_problem problem; /* transposed */
  falt_rows rows;
  falt_direct_part parts[4];
  int part_count;
  int64_t y_classes, x_classes;
  int64_t out_step, in_step; /* rows between neighbours in a tile: of outputs, of inputs */
  int64_t step;              /* elements between taps */
  int64_t band;              /* output rows of the largest kernel call */
  bool blocked;              /* bands use the 2.5D kernel, the rest tiles */
  int64_t block[3];          /* outputs of a task */
  int64_t depth, height;     /* slots of the windows */
  int64_t begin, end;        /* outputs of a row that read the source in place; begin == end: none */
  int64_t chunk;             /* positions whose sums are buffered in the scratch */
  bool stream, prefetch;
  int64_t tap_groups, tap_count; /* filters, and taps of each */
  const void *values;            /* the filter, from planning until it is packed */
  char *taps;                    /* packed, or NULL if they are given with each execution */
  bool finishes;                 /* a layer's epilogue is applied in place to a task's sums */
  falt_layer layer;              /* that epilogue */
  size_t factors;                /* its offset in the workspace */
  size_t dense, packed;          /* else these offsets: as given, in the lane's type, and packed */
  falt_direct_scratch scratch;
} falt_direct_plan;

/* Packs the taps of all filters in the order of the parts. `dense` has room for all of them in the lane's type. */
void falt_direct_pack(const falt_direct_plan *plan, const void *filter, char *dense, char *packed);

void falt_direct_execute(const falt_plan *plan, const falt_operands *operands);

#endif
