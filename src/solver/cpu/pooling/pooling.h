/* Declarations that forward and backward pooling share. */
#ifndef FALT_SOLVER_CPU_POOLING_POOLING_H
#define FALT_SOLVER_CPU_POOLING_POOLING_H

#include "planner/planner.h"
#include "solver/cpu/filter/filter_kernels.h"
#include "solver/cpu/pooling/pooling_kernels.h"

/* The last axis and the adjacent channels form rows: `channels` elements a position (1 if positions are adjacent in
 * memory), converted to the lane's type. A piece of a row is processed in scratch. Positions outside the input are part
 * of the piece, filled with the neutral element, so no kernel handles an edge. */

enum {
  FALT_POOLING_LINE = 4096, /* elements of a piece at most, including its windows */
};

/* Elements of a line in scratch: whole cache lines. */
static inline size_t falt_pooling_line(int64_t elements) {
  return ((size_t)elements + 15) / 16 * 16;
}

/* Parts of a worker's scratch; the parts from the first maxima on are for gradients only. */
typedef enum falt_pooling_area {
  FALT_POOLING_AT_LINE,
  FALT_POOLING_AT_ROW,
  FALT_POOLING_AT_OUT,
  FALT_POOLING_AT_SPLIT,
  FALT_POOLING_AT_TOP,
  FALT_POOLING_AT_SUMS,
  FALT_POOLING_AT_POLYPHASES,
  FALT_POOLING_AT_WINDOWS,
  FALT_POOLING_AT_KEPT,
  FALT_POOLING_AREAS
} falt_pooling_area;

typedef struct falt_pooling_plan {
  falt_plan base;
  falt_problem p; /* the problem, axes perhaps joined */
  falt_lane lane_index;
  falt_type lane_type;
  const falt_pooling_lane *lane;
  const falt_filter_kernels *convert;
  bool largest;
  int64_t channels, chunks;      /* of a task; how many of them make all groups */
  int64_t piece;                 /* positions of the output in a piece of a row */
  int64_t rows, pitch;           /* forward: output rows at a time, 1 if they are not narrow; pitch in elements */
  int64_t band, bands;           /* rows of the output in a task; how many of them make the height */
  int64_t kept[2], window;       /* backward: windows' rows kept by depth and height; elements of one */
  size_t line;                   /* elements of a line in scratch */
  falt_memory_layout scratch;    /* of a worker */
  size_t at[FALT_POOLING_AREAS]; /* offsets in it */
} falt_pooling_plan;

/* Part of the work, in the scratch of one worker: rows [h, h_end) of one depth and one chunk of channels. */
typedef struct falt_pooling_task {
  const falt_pooling_plan *plan;
  const falt_operands *operands;
  int64_t n, g, channels, d, h, h_end;
  char *line, *row, *split, *out; /* of 1, 1, 2 and 1 lines */
  char *scratch;                  /* of the worker */
} falt_pooling_task;

/* ---- rows */

/* `count` positions of a tensor's row from position w on into the lane. */
void falt_pooling_load(const falt_pooling_task *t, const falt_tensor *tensor, const void *data, int64_t d, int64_t h,
                       int64_t w, int64_t count, void *to);
void falt_pooling_store(const falt_pooling_task *t, const falt_tensor *tensor, void *data, int64_t d, int64_t h,
                        int64_t w, int64_t count, const void *from);
/* The address of position w where a row needs no load; NULL where it does. */
void *falt_pooling_in_place(const falt_pooling_task *t, const falt_tensor *tensor, const void *data, int64_t d,
                            int64_t h, int64_t w);

/* Taps by depth and height of an output row's windows that are inside the input. */
typedef struct falt_pooling_box {
  int64_t begin[2], end[2];
} falt_pooling_box;

falt_pooling_box falt_pooling_box_of(const falt_pooling_plan *plan, int64_t d, int64_t h);
/* The position of tap j of output o on an axis of the input. */
static inline int64_t falt_pooling_position(const falt_pooling_plan *plan, int axis, int64_t o, int64_t j) {
  const falt_axis *a = &plan->p.axis[axis];
  return o * a->stride + j * a->dilation - a->pad[0];
}

static inline falt_pooling_fold falt_pooling_way(const falt_pooling_plan *plan) {
  return plan->largest ? FALT_POOLING_LARGEST : FALT_POOLING_SUM;
}

/* Narrow rows, many at a time (pooling_narrow.c): sets rows and pitch, joins planes that tile. Returns how many output
 * rows from h on were computed, 0 if this does not apply. */
void falt_pooling_join_planes(falt_problem *p);
void falt_pooling_lay_narrow(falt_pooling_plan *plan);
int64_t falt_pooling_narrow(const falt_pooling_task *t, int64_t h);

/* The taps of output o that an average counts along an axis. */
double falt_pooling_count(const falt_pooling_plan *plan, int axis, int64_t o);
/* Divides the sums of outputs [w, w + count) of a row by the counts of their windows. */
void falt_pooling_average(const falt_pooling_task *t, int64_t d, int64_t h, int64_t w, int64_t count, char *out);

/* ---- windows along a row */

/* The addresses of the taps of outputs: each tap has `segments` rows of n elements, in the order of outputs. */
typedef struct falt_pooling_view {
  const char *base;
  int64_t segments, n, step; /* bytes from segment to segment */
  int64_t dilation, stride;  /* positions; stride 1: not split */
  int64_t pitch;             /* bytes between polyphase parts */
  int64_t position;          /* bytes */
} falt_pooling_view;

/* The windows of `count` outputs on a line that starts with the first tap of the first; splits it if need be. */
falt_pooling_view falt_pooling_open(const falt_pooling_task *t, const void *line, int64_t count);
/* Rows of taps [j, j + count) at a segment into list. */
void falt_pooling_rows(const falt_pooling_view *view, int64_t segment, int64_t j, int64_t count, const void **list);

/* The part of a line of `length` positions from `first` on that is inside the input's width. */
typedef struct falt_pooling_part {
  int64_t first, length, begin, end;
} falt_pooling_part;

falt_pooling_part falt_pooling_inside(const falt_pooling_plan *plan, int64_t first, int64_t length);
/* Stores `value` to the positions outside. */
void falt_pooling_margins(const falt_pooling_task *t, const falt_pooling_part *part, double value);

void falt_pooling_forward(const falt_pooling_task *t);
/* Sets channels, piece, rows, pitch and line. False where a window is too wide. */
bool falt_pooling_forward_lay(falt_pooling_plan *plan);

/* A task of a gradient. */
void falt_pooling_backward(const falt_pooling_task *t);
/* Sets channels, piece, kept, window and line. False where a window is too wide. */
bool falt_pooling_backward_lay(falt_pooling_plan *plan);
/* Adds a gradient's parts to the scratch. */
void falt_pooling_backward_place(falt_pooling_plan *plan);

#endif
