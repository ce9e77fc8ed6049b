/* The plan of winograd: shared by its planning half (winograd.c), its packing (winograd_pack.c) and its running half
 * (winograd_run.c). */
#ifndef FALT_SOLVER_CPU_WINOGRAD_WINOGRAD_H
#define FALT_SOLVER_CPU_WINOGRAD_WINOGRAD_H

#include "solver/cpu/common/layer.h"
#include "solver/cpu/common/rows.h"
#include "solver/cpu/winograd/winograd_kernels.h"

/* RUN: tiles of a row that are transformed together. CHUNK: channels of pixels that are brought together at once. */
enum { FALT_WINOGRAD_RUN = 8, FALT_WINOGRAD_CHUNK = 64 };

/* Why no form has a layer's taps or steps, or NULL. */
const char *falt_winograd_refusal(const falt_problem *layer);

/* A form as the planner sees it. */
typedef struct falt_winograd_traits {
  const char *name;
  int taps, outputs;
  /* The largest error seen, in 2^-24 of the largest input times the sum of the filter's magnitudes, with one axis and
   * with two. It counts as rounding from so many channels on, where it stays below that of a sum in sequence. */
  double error[2];
  int64_t least_channels[2];
  int64_t chain; /* channels that are summed in sequence; 0: all */
  /* The same of wgrad, whose error falls with the root of the number of tiles: that of one, and so many. */
  double wgrad_error[2];
  int64_t least_tiles[2];
} falt_winograd_traits;

extern const falt_winograd_traits falt_winograd_forms[FALT_WINOGRAD_FORMS];

/* How a form cuts outputs into tiles. */
typedef struct falt_winograd_tiling {
  falt_winograd_form form;
  int axes;                    /* that are transformed: the width, or the height too */
  int64_t outputs[2], size[2]; /* of a tile, along the height and the width; of its transform */
  int64_t elements;            /* of a tile's transform */
  int64_t tiles[2], all;       /* of a plane, along the height and the width; of all planes */
} falt_winograd_tiling;
falt_winograd_tiling falt_winograd_tile(falt_winograd_form form, int axes, const falt_tensor *output);

/* Offsets into a worker's scratch. */
typedef struct falt_winograd_scratch {
  size_t pixels, gathered, constant, inputs, list, sums, outputs;
  falt_memory_layout parts;
} falt_winograd_scratch;

typedef struct falt_winograd_plan {
  falt_plan base;
  falt_layer layer;
  const falt_winograd_kernels *kernels;
  falt_winograd_tiling tiling;
  bool in_place;                    /* channels of a pixel are read where they lie */
  int64_t depth, chain;             /* channels of a transform, filled up to whole chains; 0: one chain */
  int64_t vectors;                  /* of a group's output channels */
  falt_layer_pieces panels;         /* of vectors */
  int64_t width, rows;              /* columns of the largest panel; tiles of a kernel call, at most */
  falt_layer_pieces blocks, chunks; /* tasks: blocks of tiles times chunks of the panels of all groups */
  int64_t pitch, sums_pitch;        /* floats between elements of transforms, and of their sums */
  size_t group;                     /* floats of a group's packed filter */
  const float *values;              /* the filter, from planning until it is packed */
  float *packed, *taps;             /* transformed; untransformed with contiguous output channels; or NULL */
  falt_tensor taps_tensor;
  size_t factors, filter;   /* offsets into the workspace */
  falt_winograd_scratch at; /* in each worker's scratch */
} falt_winograd_plan;

/* Columns of a group before a panel. */
static inline int64_t falt_winograd_columns(const falt_winograd_plan *plan, int64_t panel) {
  return falt_layer_piece(&plan->panels, panel) * plan->layer.kernels->width;
}

/* Transforms a filter: for each group and panel, for each element of a tile, a row of columns for each channel. Runs on
 * the device's threads. */
void falt_winograd_pack(const falt_winograd_plan *plan, const float *filter, float *packed);
/* Copies a filter to the layout of plan->taps_tensor, with contiguous output channels. */
void falt_winograd_copy_taps(const falt_winograd_plan *plan, const float *filter, float *taps);
/* Operations that take as long as transforming a filter that comes with each execution; 0 if it is known. */
double falt_winograd_pack_work(const falt_winograd_plan *plan);

void falt_winograd_execute(const falt_plan *plan, const falt_operands *operands);

#endif
