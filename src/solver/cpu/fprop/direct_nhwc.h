/* The plan of direct-nhwc: shared by its planning half (direct_nhwc.c) and its running half (direct_nhwc_run.c). */
#ifndef FALT_SOLVER_CPU_FPROP_DIRECT_NHWC_H
#define FALT_SOLVER_CPU_FPROP_DIRECT_NHWC_H

#include "solver/cpu/common/layer_inside.h"
#include "solver/cpu/common/layer_slots.h"

/* Offsets into a worker's scratch. */
typedef struct falt_direct_nhwc_scratch {
  size_t list, out, residual, constant, gathered, slots, tags, sums, taps, calls, which, jumps;
  falt_memory_layout parts;
} falt_direct_nhwc_scratch;

typedef struct falt_direct_nhwc_plan {
  falt_plan base;
  falt_layer layer;
  bool folds;                       /* a segment is a row of taps rather than one */
  bool in_place;                    /* pixels are read where they lie */
  bool shares;                      /* lists serve all groups, which follow each other in memory */
  double inside_share;              /* of the taps of all positions */
  bool skips;                       /* those outside are left out */
  int64_t joined;                   /* the problem's groups in one of the plan's, side by side in a vector */
  int64_t segments, length;         /* elements of a segment */
  int64_t vectors;                  /* of a group's output channels */
  falt_layer_pieces panels;         /* of vectors */
  int64_t rows;                     /* positions of a kernel call, at most */
  int64_t spans, span, unit;        /* of positions that blocks do not cross, their size, and what blocks are cut in */
  falt_layer_pieces blocks, chunks; /* tasks: blocks of each span times chunks of the panels of all groups */
  falt_slots slots;                 /* of input rows, where rows of taps are segments */
  falt_inside inside;               /* where taps outside are left out */
  size_t group;                     /* floats of a group's packed filter */
  const float *values;              /* the filter, from planning until it is packed */
  float *packed;                    /* or NULL if the filter comes with each execution */
  size_t factors, filter;           /* offsets into the workspace */
  falt_direct_nhwc_scratch at;      /* in each worker's scratch */
} falt_direct_nhwc_plan;
/* A pixel outside: shared lists are read from any group's first channel on. */
static inline int64_t falt_direct_nhwc_constant_length(const falt_direct_nhwc_plan *plan) {
  const int64_t groups = plan->layer.p.output.size[FALT_G] * plan->joined;
  return plan->shares ? groups * plan->length : plan->length;
}

/* Packs a filter by panels, a row of columns for each tap and channel; runs on the device's threads. */
void falt_direct_nhwc_pack(const falt_direct_nhwc_plan *plan, const float *filter, float *packed);

void falt_direct_nhwc_execute(const falt_plan *plan, const falt_operands *operands);

#endif
