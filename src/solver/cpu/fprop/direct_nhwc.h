/* The plan of direct-nhwc: direct_nhwc.c creates it, direct_nhwc_run.c executes it. */
#ifndef FALT_SOLVER_CPU_FPROP_DIRECT_NHWC_H
#define FALT_SOLVER_CPU_FPROP_DIRECT_NHWC_H

#include "solver/cpu/common/layer_inside.h"
#include "solver/cpu/common/layer_slots.h"

/* Offsets into a worker's scratch. */
typedef struct falt_direct_nhwc_scratch {
  size_t list, out, residual, constant, gathered, slots, tags, sums, panel, taps, calls, which, jumps;
  falt_memory_layout parts;
} falt_direct_nhwc_scratch;

typedef struct falt_direct_nhwc_plan {
  falt_plan base;
  falt_layer layer;
  bool folds;                       /* a segment is a row of taps rather than one */
  bool in_place;                    /* pixels are read in place */
  bool shares;                      /* lists serve all groups, which follow each other in memory */
  double inside_share;              /* of the taps of all positions */
  bool skips;                       /* those outside are skipped */
  int64_t joined;                   /* the problem's groups in one of the plan's, adjacent in a vector */
  int64_t segments, length;         /* elements of a segment */
  int64_t vectors;                  /* of a group's output channels */
  falt_layer_pieces panels;         /* of vectors */
  int64_t rows;                     /* positions of a kernel call, at most */
  int64_t spans, span, unit;        /* of positions that blocks do not cross, their size, and the unit of blocks */
  falt_layer_pieces blocks, chunks; /* tasks: blocks of each span times chunks of the panels of all groups */
  falt_slots slots;                 /* of input rows, where rows of taps are segments */
  falt_inside inside;               /* where taps outside are left out */
  int64_t tap_step;                 /* elements between taps of the filter, or 0 if they are not equally spaced */
  bool just_in_time;                /* tasks pack the part of a panel that they multiply next */
  bool owned;                       /* even if several blocks of positions need it, each packs it for itself */
  int64_t parts;                    /* of the depth of a panel, each multiplied by one call */
  int64_t part_rows, part_most;     /* of a part: wanted, and of the largest */
  size_t group;                     /* elements of a group's packed filter */
  const void *values;               /* the filter, from planning until it is packed */
  void *packed;                     /* or NULL if the filter is given with each execution */
  size_t factors, filter;           /* offsets into the workspace */
  falt_direct_nhwc_scratch at;      /* in each worker's scratch */
} falt_direct_nhwc_plan;

/* Part of a panel's depth: a number of taps, and of channels of each. One of the two is whole, or there is one tap. */
typedef struct falt_direct_nhwc_part {
  int64_t index, tap, taps, channel, channels;
} falt_direct_nhwc_part;

/* A pixel outside: shared lists are read from any group's first channel on. */
static inline int64_t falt_direct_nhwc_constant_length(const falt_direct_nhwc_plan *plan) {
  const int64_t groups = plan->layer.p.output.size[FALT_G] * plan->joined;
  return plan->shares ? groups * plan->length : plan->length;
}

/* Columns of a group before a panel. */
static inline int64_t falt_direct_nhwc_columns(const falt_direct_nhwc_plan *plan, int64_t panel) {
  return falt_layer_piece(&plan->panels, panel) * plan->layer.kernels->width;
}

/* Chooses between packing all of a filter first and just in time; sets the parts. */
void falt_direct_nhwc_set_parts(falt_direct_nhwc_plan *plan);
falt_direct_nhwc_part falt_direct_nhwc_part_of(const falt_direct_nhwc_plan *plan, int64_t index);
/* Packs one part of a panel of a group. */
void falt_direct_nhwc_pack_part(const falt_direct_nhwc_plan *plan, const void *filter, int64_t group, int64_t panel,
                                const falt_direct_nhwc_part *part, void *to);
/* The filter's memory of a part: `count` rows of `lines` cache lines, `step` elements apart. No rows if it is not that
 * simple. */
typedef struct falt_direct_nhwc_source {
  const void *from;
  int64_t count, lines, step;
} falt_direct_nhwc_source;
falt_direct_nhwc_source falt_direct_nhwc_source_of(const falt_direct_nhwc_plan *plan, const void *filter, int64_t group,
                                                   int64_t panel, const falt_direct_nhwc_part *part);
/* Packs a filter by panels, a row of columns for each tap and channel; runs on the device's threads. */
void falt_direct_nhwc_pack(const falt_direct_nhwc_plan *plan, const void *filter, void *packed);
/* Operations that take as long as packing a filter that is given with each execution; 0 if it is known. */
double falt_direct_nhwc_pack_work(const falt_direct_nhwc_plan *plan);

void falt_direct_nhwc_execute(const falt_plan *plan, const falt_operands *operands);

#endif
