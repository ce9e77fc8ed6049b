/* The parts of the generic solver: gathering maps and weight gradients, each for three vector directions. */
#ifndef FALT_SOLVER_GENERIC_GENERIC_H
#define FALT_SOLVER_GENERIC_GENERIC_H

#include "planner/planner.h"
#include "solver/cpu/filter/filter_kernels.h"
#include "solver/generic/generic_kernels.h"

/*   a map       forward, backward-data, pooling and its gradients: every output sums over source channels and over the
 *               (tap, source position) pairs of its position. `result` and `source` are the two data tensors, in either
 *               direction of the operation, and `fill` is the value outside the source;
 *   a gradient  of the filter: every output sums over the positions of the layer's output.
 *
 * Each has three versions by the direction of the vectors: `rows` (positions along the width), `channels` (the channels
 * of a group, adjacent in memory) and `groups` (one channel a group, adjacent in memory). */

typedef enum falt_generic_way { FALT_GENERIC_ROWS, FALT_GENERIC_CHANNELS, FALT_GENERIC_GROUPS } falt_generic_way;

/* Scratch on the stack of each thread, in bytes where not said otherwise. */
enum {
  FALT_GENERIC_DEPTH = 64,   /* rows of one kernel call */
  FALT_GENERIC_POOL = 32768, /* converted rows */
  FALT_GENERIC_SUMS = 16384,
  FALT_GENERIC_WIDEST = 64, /* elements of the widest vector, with room to spare */
};

typedef struct falt_generic_plan {
  falt_plan base;
  falt_problem p; /* the problem, axes perhaps exchanged */
  falt_generic_way way;
  int lane_index;
  const falt_generic_lane *lane;
  const falt_filter_kernels *convert;
  size_t type_size[FALT_TYPE_COUNT];
  const void *values; /* the filter, from planning until it is copied */
  void *filter;       /* a copy of the values, or NULL */
  /* the map */
  bool gathers; /* against the direction of the relation: backward-data, gradients of pooling */
  falt_tensor result, source;
  int64_t out_channels, in_channels; /* of one group */
  int64_t filter_out, filter_in;     /* the filter's strides along them */
  double fill;
} falt_generic_plan;

/* One execution. */
typedef struct falt_generic_run {
  const falt_generic_plan *plan;
  const falt_operands *operands;
  const void *source, *filter;
  void *result;
  bool merges; /* outputs are the maximum of the old and the new value */
} falt_generic_run;

/* ---- elements in and out (generic_data.c) */

/* Removes and returns the last digit of *index in this base: jobs are numbers in mixed radix. */
static inline int64_t falt_generic_digit(int64_t *index, int64_t base) {
  const int64_t digit = *index % base;
  *index /= base;
  return digit;
}

void falt_generic_load_wide(int64_t *dst, const void *data, falt_type type, int64_t index, int64_t stride, int64_t n);
/* dst[i] = data[index + i*stride] as the lane's elements, i < n. */
static inline void falt_generic_load(const falt_generic_plan *plan, void *dst, const void *data, falt_type type,
                                     int64_t index, int64_t stride, int64_t n) {
  if (plan->lane_index == FALT_GENERIC_WIDE)
    falt_generic_load_wide(dst, data, type, index, stride, n);
  else
    plan->convert->load[plan->lane_index][type](dst, (const char *)data + index * (int64_t)plan->type_size[type],
                                                stride, n);
}
void falt_generic_fill(const falt_generic_plan *plan, void *dst, double value, int64_t n);
/* The element at data[index] where kernels may read it in place: the lane's type, else NULL. */
const void *falt_generic_in_place(const falt_generic_plan *plan, const void *data, falt_type type, int64_t index);

/* Where n sums go: positions in memory and channels that advance with them. */
typedef struct falt_generic_target {
  int64_t index, stride;             /* of the output */
  int64_t residual, residual_stride; /* of the residual */
  int64_t channel, channel_step;     /* of scale and bias, G*K numbering */
} falt_generic_target;

/* n sums through the epilogue into the output. */
void falt_generic_store(const falt_generic_run *run, const void *sums, int64_t n, const falt_generic_target *target);
/* n totals (drained sums) into the output; weight gradients. */
void falt_generic_store_totals(const falt_generic_run *run, const double *totals, int64_t n, int64_t index,
                               int64_t stride);
/* Divides the sums of outputs (od, oh, ow..ow+n) by the counts of their windows; n sums by one count; one count. */
void falt_generic_average(const falt_generic_plan *plan, void *sums, int64_t od, int64_t oh, int64_t ow, int64_t n);
void falt_generic_divide(const falt_generic_plan *plan, void *sums, double count, int64_t n);
double falt_generic_window_count(const falt_generic_plan *plan, int64_t od, int64_t oh, int64_t ow);

/* The forward pooling of a max pooling gradient, as an execution whose source is x. */
void falt_generic_windows(const falt_generic_run *run, falt_generic_plan *plan, falt_generic_run *windows);

/* ---- the source positions of outputs (generic_axis.c) */

/* Positions of outputs along one axis that share their taps: origin + q*step, q < count. */
typedef struct falt_polyphase {
  int64_t origin, step, count;
} falt_polyphase;

int64_t falt_polyphase_count(const falt_generic_plan *plan, int axis);
falt_polyphase falt_polyphase_at(const falt_generic_plan *plan, int axis, int64_t index);

/* An affine piece of the relation: for outputs q in [first, first + count) of a polyphase part and taps t < taps,
 * source position base + step*q + tap_step*t is multiplied by the filter's tap tap_first + tap_next*t. tap_step is
 * positive.
 */
typedef struct falt_link {
  int64_t first, count;
  int64_t base, step, tap_step;
  int64_t taps, tap_first, tap_next;
  int64_t size;          /* of the source */
  const falt_axis *axis; /* the boundary that continues the source; NULL: there is no outside */
  int64_t at;            /* where the next link is looked for */
} falt_link;

/* All links of a polyphase part, one by one: the main one first, then those of the folded outside. */
bool falt_link_first(const falt_generic_plan *plan, int axis, falt_polyphase polyphase, falt_link *link);
bool falt_link_next(const falt_generic_plan *plan, int axis, falt_polyphase polyphase, falt_link *link);
/* The same of all axes: every combination of their links, the last axis first. */
bool falt_links_first(const falt_generic_plan *plan, const falt_polyphase polyphase[3], falt_link link[3]);
bool falt_links_next(const falt_generic_plan *plan, const falt_polyphase polyphase[3], falt_link link[3]);
bool falt_link_is_main(const falt_link *link);

/* Source position, or -1 outside. */
static inline int64_t falt_link_fold(const falt_link *link, int64_t u) {
  if (u >= 0 && u < link->size) return u;
  return link->axis ? falt_axis_map(link->axis, link->size, u) : -1;
}
static inline bool falt_link_covers(const falt_link *link, int64_t q) {
  return q >= link->first && q < link->first + link->count;
}
static inline int64_t falt_link_source(const falt_link *link, int64_t q, int64_t t) {
  return falt_link_fold(link, link->base + link->step * q + link->tap_step * t);
}

/* The same relation pair by pair, for one output. */
typedef struct falt_meet {
  const falt_axis *axis;
  bool gathers;
  int64_t i, in, taps, out; /* the output's position; sizes of the problem along the axis */
  int64_t low, high, u;
  int64_t tap, source; /* the pair of falt_meet_next; source is -1 for the constant */
} falt_meet;

falt_meet falt_meet_start(const falt_generic_plan *plan, int axis, int64_t i);
bool falt_meet_next(falt_meet *meet);

/* Positions base + i*step of source rows, i < n, of which [begin, end) are inside. The same for all rows of a tile.
 * step is positive or -1. */
typedef struct falt_cut {
  int64_t base, step, n, begin, end;
  const falt_link *link; /* NULL if nothing outside folds */
} falt_cut;

falt_cut falt_generic_cut(const falt_link *link, int64_t base, int64_t step, int64_t n);
/* dst[i] = the source row that starts at element `row`, for all i of the cut. Positions that do not fold are unchanged:
 * fill them before. */
void falt_generic_load_cut(const falt_generic_run *run, void *dst, int64_t row, const falt_cut *cut);
/* Both, with the fill outside. */
void falt_generic_load_row(const falt_generic_run *run, void *dst, int64_t row, int64_t base, int64_t step, int64_t n,
                           const falt_link *link);

/* ---- the versions */
void falt_generic_map_rows(const falt_generic_run *run);
void falt_generic_map_channels(const falt_generic_run *run);
void falt_generic_map_groups(const falt_generic_run *run);
void falt_generic_maxima_rows(const falt_generic_run *run);
void falt_generic_filter_rows(const falt_generic_run *run);
void falt_generic_filter_channels(const falt_generic_run *run);
void falt_generic_filter_groups(const falt_generic_run *run);
void falt_generic_bias(const falt_generic_run *run);

#endif
