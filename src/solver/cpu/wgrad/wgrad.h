/* The plan of wgrad: wgrad.c creates it, wgrad_run.c executes it. */
#ifndef FALT_SOLVER_CPU_WGRAD_WGRAD_H
#define FALT_SOLVER_CPU_WGRAD_WGRAD_H

#include "solver/cpu/common/layer.h"
#include "solver/cpu/wgrad/wgrad_kernels.h"

enum { FALT_WGRAD_PACKED_ROWS = 48 /* copied at a time */ };

/* Offsets into a worker's scratch. */
typedef struct falt_wgrad_scratch {
  size_t panel, list, rows, constant, ones, sums;
  falt_memory_layout parts;
} falt_wgrad_scratch;

typedef struct falt_wgrad_plan {
  falt_plan base;
  falt_layer layer; /* the forward one */
  const falt_outer_kernels *kernels;
  bool in_place;            /* pixels are read in place */
  bool folds;               /* a segment is a row of taps rather than one */
  bool by_channels;         /* a block has all taps of some channels, and stores runs of taps; else some rows */
  int64_t segments, length; /* rows of a segment */
  int64_t rows;             /* in all; the bias's is the last */
  int64_t chunk;            /* positions */
  falt_layer_pieces panels; /* of vectors of a group's output channels */
  falt_layer_pieces blocks; /* of rows, or of channels */
  falt_layer_pieces slices; /* of positions */
  int64_t joins;            /* tasks that add the slices of a part */
  size_t block;             /* floats of a block's sums */
  size_t partial;           /* sums of all slices, an offset into the workspace */
  falt_wgrad_scratch at;    /* in each worker's scratch */
} falt_wgrad_plan;

/* Rows of a unit of which blocks have several. */
static inline int64_t falt_wgrad_unit(const falt_wgrad_plan *plan) {
  return plan->by_channels ? plan->segments : 1;
}

/* Parts of the gradient: blocks of rows times panels of columns, of all groups. */
static inline int64_t falt_wgrad_parts(const falt_wgrad_plan *plan) {
  return plan->layer.p.filter.size[FALT_G] * plan->panels.count * plan->blocks.count;
}

void falt_wgrad_execute(const falt_plan *plan, const falt_operands *operands);

/* Whether the filter has one tap, and every position reads inside the input. */
static inline bool falt_wgrad_is_pointwise(const falt_problem *p) {
  for (int a = 0; a < 3; a++) {
    const int dim = FALT_D + a;
    const int64_t last = (p->output.size[dim] - 1) * p->axis[a].stride;
    if (p->filter.size[dim] != 1 || p->axis[a].pad[0] != 0 || last >= p->input.size[dim]) return false;
  }
  return true;
}

/* Whether channels or pixels along the width are contiguous. */
static inline bool falt_wgrad_is_contiguous(const falt_tensor *t) {
  return falt_tensor_unit(t, FALT_C) || falt_tensor_unit(t, FALT_W);
}

/* Results whose channels are apart (OIHW, several taps): each tap writes a part of the same cache lines, which stay in
 * the second-level cache from tap to tap or do not. */
typedef enum falt_apart { FALT_APART_NO, FALT_APART_NEAR, FALT_APART_FAR } falt_apart;
falt_apart falt_wgrad_apart(const falt_tensor *filter, const falt_device *device);

/* Costs of more than two threads; fewer have near caches, and their estimates fit without. Seconds in which a thread
 * loads so many bytes of operands in order, beyond an equal part of x and dy, which every solver loads; and stores
 * sums: caches keep neither from call to call. */
double falt_wgrad_loading(const falt_device *device, const falt_problem *problem, double bytes);
double falt_wgrad_storing(const falt_device *device, double bytes);
/* The same of f32 operands, whose products hide more of it: bytes that stay in half of the second-level cache, and
 * those beyond it, take different parts of a time. */
typedef struct falt_wgrad_rate {
  double staying, beyond;
} falt_wgrad_rate;
double falt_wgrad_loading_f32(const falt_device *device, const falt_problem *problem, double bytes,
                              falt_wgrad_rate rate);

#endif
