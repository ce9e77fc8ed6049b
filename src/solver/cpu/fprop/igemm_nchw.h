/* The plan of igemm-nchw: igemm_nchw.c creates and executes it, igemm_nchw_tasks.c cuts it into tasks,
 * igemm_nchw_pack.c packs its filter. */
#ifndef FALT_SOLVER_CPU_FPROP_IGEMM_NCHW_H
#define FALT_SOLVER_CPU_FPROP_IGEMM_NCHW_H

#include "solver/cpu/common/layer.h"

enum { FALT_IGEMM_NCHW_LINE = 16 /* floats of a cache line */ };

typedef struct falt_igemm_nchw_scratch {
  size_t panel, sums, rows;
  falt_memory_layout parts;
} falt_igemm_nchw_scratch;

typedef struct falt_igemm_nchw_plan {
  falt_plan base;
  falt_layer layer;
  int64_t step;             /* stride of the elements of a filter row, if the filter is read in place; else 0 */
  bool just_in_time;        /* tasks pack the rows that they multiply next */
  bool own_rows;            /* tasks pack all of their rows first, each for itself */
  bool backwards;           /* taps are summed last to first, their order in memory */
  int64_t tap_step;         /* elements between taps of the filter, or 0 if they are not equally spaced */
  int64_t depth;            /* elements of a filter row */
  int64_t span;             /* channels of a panel */
  int64_t vectors;          /* of all positions */
  falt_layer_pieces panels; /* of vectors */
  falt_layer_pieces chunks; /* of output channels */
  falt_layer_pieces bands;  /* of panels; a task is a chunk by a band */
  int64_t rows;             /* output channels of a kernel call */
  const float *values;      /* the filter, from planning until it is packed */
  float *packed;            /* or NULL if the filter is given with each execution */
  size_t factors, filter;   /* offsets into the workspace */
  falt_igemm_nchw_scratch at;
} falt_igemm_nchw_plan;

bool falt_igemm_nchw_lines_stay(const falt_layer *layer, int64_t bytes_apart, size_t room);

/* Sets panels, chunks, bands and the estimate. */
void falt_igemm_nchw_cut(falt_igemm_nchw_plan *plan);
int64_t falt_igemm_nchw_tasks(const falt_igemm_nchw_plan *plan);

/* Whether all threads pack a filter that is given with each execution before they multiply. */
static inline bool falt_igemm_nchw_packs_all(const falt_igemm_nchw_plan *plan) {
  return !plan->base.packed && plan->step == 0 && !plan->just_in_time && !plan->own_rows;
}

/* Packs a filter: for each group and output channel a row of (channel, tap). Runs on the device's threads. */
void falt_igemm_nchw_pack(const falt_igemm_nchw_plan *plan, const float *filter, float *packed);

/* Rows [row, row + rows) of a group's filter, and a number of channels of each. */
typedef struct falt_igemm_nchw_part {
  int64_t group, row, rows, channel, channels;
} falt_igemm_nchw_part;

/* Where the filter has the first element of a part. */
const float *falt_igemm_nchw_source(const falt_igemm_nchw_plan *plan, const float *filter,
                                    const falt_igemm_nchw_part *part);
/* Packs a part into rows `pitch` elements apart. */
void falt_igemm_nchw_pack_part(const falt_igemm_nchw_plan *plan, const float *filter, const falt_igemm_nchw_part *part,
                               float *to, int64_t pitch);
/* Packs all of some rows of a group's filter on this thread. */
void falt_igemm_nchw_pack_rows(const falt_igemm_nchw_plan *plan, const float *filter, int64_t group, int64_t row,
                               int64_t rows, float *to);
/* Operations that take as long as packing a filter that is given with each execution; 0 if nothing is packed then. */
double falt_igemm_nchw_pack_work(const falt_igemm_nchw_plan *plan);

#endif
