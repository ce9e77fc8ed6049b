/* Row access of the filter solvers, which run the kernels of solver/cpu/filter/filter_kernels.h. */
#ifndef FALT_SOLVER_CPU_COMMON_ROWS_H
#define FALT_SOLVER_CPU_COMMON_ROWS_H

#include "planner/planner.h"
#include "solver/common/tasks.h"
#include "solver/cpu/filter/filter_kernels.h"

/* A problem with one channel in and out per group is a set of independent slices (batch x group; interleaved pixels
 * that share one filter stay together as one slice of wider rows). A slice is processed in boxes of outputs (tasks).
 * Inside a box a solver asks for the input row that the boundary puts at a logical position (z, y): either in place, or
 * converted, extended to the left and right, and kept in a window of the lane's type. The solver runs the kernels and
 * stores the sums through the epilogue.
 *
 * Positions, sizes and counts below are in x positions (pixels); a row of n positions has n*pixel elements. Logical
 * input positions may be outside the input: output o and tap j read position o*stride + j*dilation - pad of their axis,
 * and the boundary defines the element there. */

static inline falt_type falt_lane_type(falt_lane lane) {
  return lane == FALT_LANE_F32 ? FALT_F32 : FALT_F64;
}

/* ------------------------------------------------------------------------------------------ the problem in rows */

typedef struct falt_rows {
  const falt_filter_kernels *kernels;
  falt_lane lane;
  size_t lane_size; /* bytes */
  falt_type in_type, out_type;
  int64_t in_size, out_size; /* bytes of an element */
  bool in_place;             /* kernels can read source rows in place: lane's type, adjacent neighbours, x stride 1 */
  bool out_place;            /* kernels can write destination rows: lane's type, neighbours adjacent, no epilogue */
  int64_t pixel;             /* elements at one x position: the channels if interleaved pixels share a filter, else 1 */
  int64_t batch, groups;     /* slices = batch * groups; groups is 1 when the channels are in the pixel */
  int64_t in[3], out[3];     /* sizes of depth, height, width */
  int64_t in_stride[5], out_stride[5]; /* batch, group, depth, height, width, in elements */
  int64_t in_offset, out_offset;
  int64_t taps[3]; /* T, R, S */
  falt_axis axis[3];
  double boundary_value;
  falt_row_epilogue epilogue;
} falt_rows;

/* The same problem with its axes relabelled so that x has the nearest neighbours: optional, before falt_rows_init and
 * instead of the problem in all calls below. */
void falt_rows_permute(falt_problem *permuted, const falt_problem *problem);

/* Fills *rows, or returns why this problem is not one (a clause for falt_refuse). Checks operation, channels and
 * epilogue; chooses the lane by falt_rows_lane. values is the filter in host memory, or NULL. */
const char *falt_rows_init(falt_rows *rows, const falt_problem *problem, falt_isa isa, const void *values);

/* The accumulator that keeps the promise of the problem's types: f32 unless the accumulator is f64 or the sums of an
 * integer problem need more than 24 bits; FALT_LANE_COUNT if they need more than 53. */
falt_lane falt_rows_lane(const falt_problem *problem, const void *values);

/* ------------------------------------------------------------------------------------------------- rows in, rows out
 */

/* Address of position x = 0 of the source row that the boundary puts at logical (z, y), or NULL for the constant.
 * Position x of it is x*in_stride[4] elements further. */
const void *falt_rows_source(const falt_rows *rows, const void *input, int64_t slice, int64_t z, int64_t y);

/* The same for `count` rows y, y + step, ... of one z, into list; the constant's row (at x = 0) for those without. */
void falt_rows_sources(const falt_rows *rows, const void *input, int64_t slice, int64_t z, int64_t y, int64_t step,
                       int64_t count, const void *constant, const void **list);

/* dst[v] = the element at logical position first + v*step of a source row, for v in [0, count) positions, as the lane's
 * type. source is the result of falt_rows_source, NULL included. Runs of neighbours are converted by kernels. */
void falt_rows_load(const falt_rows *rows, const void *source, int64_t first, int64_t step, int64_t count, void *dst);

/* Positions [begin, end) of a loaded row that are equally spaced in the source: at, at + by, ...; at < 0: constant. */
typedef struct falt_row_run {
  int64_t begin, end, at, by;
} falt_row_run;

/* falt_rows_load in two steps, for rows that are cut alike: the runs (their number, or 0 if there are more than
 * `most`), then a row by its runs. */
int falt_rows_runs(const falt_rows *rows, int64_t first, int64_t step, int64_t count, falt_row_run *runs, int most);
void falt_rows_load_runs(const falt_rows *rows, const void *source, const falt_row_run *runs, int count, void *dst);

/* Address of output position (z, y, x). Without out_place only falt_rows_store may write there. */
void *falt_rows_target(const falt_rows *rows, void *output, int64_t slice, int64_t z, int64_t y, int64_t x);

/* `count` positions of sums through the epilogue to an address from falt_rows_target. */
void falt_rows_store(const falt_rows *rows, void *target, const void *sums, int64_t count, bool stream);

/* Outputs [*begin, *end) within [low, high) of the x axis whose window is inside the input, where rows can be read in
 * place; empty (*begin == *end) if there are none. Outside it rows come from falt_rows_load or a window. */
void falt_rows_interior(const falt_rows *rows, int64_t low, int64_t high, int64_t *begin, int64_t *end);

/* Input positions that outputs [low, high) of an axis read: first and count, gaps included. */
void falt_rows_reach(const falt_rows *rows, int axis, int64_t low, int64_t high, int64_t *first, int64_t *count);

/* ------------------------------------------------------------------------------------------------------ row windows */

/* The content of a slot of a ring: row (z, y), in the slot or at the row of the constant. */
typedef struct falt_row_tag {
  int64_t z, y;
  const void *row;
} falt_row_tag;

/* A ring of converted rows: logical row (z, y) lives in slot (z mod depth, y mod height) until another takes its slot,
 * so rows that the next tile needs again are not converted again. depth and height must cover the rows that one kernel
 * call reads. One window per task and x range; the memory is scratch. */
typedef struct falt_row_window {
  falt_row_run runs[5];
  int run_count;              /* 0: too many for the list */
  int64_t first, step, count; /* falt_rows_load's arguments for every row */
  int64_t depth, height;
  size_t pitch; /* bytes between slots */
  char *slots;  /* depth*height of them, then one row of the constant */
  falt_row_tag *tags;
  bool constant; /* the row of the constant has been filled */
} falt_row_window;

/* Scratch bytes of a window's tags and of its slots. */
size_t falt_row_window_tags(int64_t depth, int64_t height);
size_t falt_row_window_slots(const falt_rows *rows, int64_t count, int64_t depth, int64_t height);
/* Lays a window over scratch for at least its count (aligned to FALT_ALIGN); all slots start empty. */
void falt_row_window_open(falt_row_window *window, const falt_rows *rows, int64_t first, int64_t step, int64_t count,
                          int64_t depth, int64_t height, void *tags, void *slots);
/* The converted row at logical (z, y); converts it if its slot holds another. */
const void *falt_row_window_get(falt_row_window *window, const falt_rows *rows, const void *input, int64_t slice,
                                int64_t z, int64_t y);
/* The same for `count` rows y, y + step, ... of one z, into list; step is at most the window's height. */
void falt_row_window_list(falt_row_window *window, const falt_rows *rows, const void *input, int64_t slice, int64_t z,
                          int64_t y, int64_t step, int64_t count, const void **list);
/* The row of the constant, for rows read in place whose source is NULL; a window of depth and height 0 has only it. */
const void *falt_row_window_constant(falt_row_window *window, const falt_rows *rows);

/* ------------------------------------------------------------------------------------------------------------ tasks */

/* A box of outputs of one slice: [begin, end) by depth, height, width. */
typedef struct falt_row_task {
  int64_t slice;
  int64_t begin[3], end[3];
} falt_row_task;

/* Boxes of at most block[] outputs, x innermost, then y, z, slice (groups inside batch). */
int64_t falt_rows_task_count(const falt_rows *rows, const int64_t block[3]);
falt_row_task falt_rows_task(const falt_rows *rows, const int64_t block[3], int64_t index);

#endif
