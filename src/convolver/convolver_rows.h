/* The parts of a convolver of rows: where windows lie, which needs no memory; plans of bands of output rows; the rows
 * that later outputs need. Output o has the window of rows [o*step - before, o*step - before + window). */
#ifndef FALT_CONVOLVER_CONVOLVER_ROWS_H
#define FALT_CONVOLVER_CONVOLVER_ROWS_H

#include "core/status.h"
#include "planner/planner.h"

enum { FALT_ROWS_PLANS = 6, FALT_ROWS_GROWTH = 4 }; /* bands of 1, 4, 16, ... output rows */

typedef struct falt_rows_shape {
  falt_axis axis;               /* along which the rows follow each other */
  int64_t taps, pool;           /* of that axis */
  int64_t before, step, window; /* see above */
  int64_t height, outputs;      /* of the image; height 0: any */
  bool is_filter;
  falt_mode mode; /* of filters of any height */
} falt_rows_shape;

/* Output rows of an image of `height` rows. */
int64_t falt_rows_outputs(const falt_rows_shape *shape, int64_t height);
/* Outputs before this one can be computed from `rows` rows, given that those before `from` have been, before the
 * image's end is known. At least `from`. */
int64_t falt_rows_ready(const falt_rows_shape *shape, int64_t rows, int64_t from);
/* The least rows for which output o, not before `from`, is among them. */
int64_t falt_rows_needed(const falt_rows_shape *shape, int64_t o, int64_t from);
/* Rows at the image's end that its boundary may continue. */
int64_t falt_rows_tail(const falt_rows_shape *shape);

/* Rows of one operand, in bytes. */
typedef struct falt_rows_line {
  int64_t lowest; /* from the operand's address to the first element of row 0 in memory */
  int64_t pitch, bytes;
} falt_rows_line;

struct falt_convolver_rows {
  falt_device *device;
  falt_rows_shape shape;
  falt_type type; /* of the input */
  int64_t latency;
  falt_rows_line input, output;
  int64_t store_pitch; /* bytes, from row to row of the store */
  bool direct;         /* plans of bands take the caller's rows in place */
  int plans, edge_plans;
  int64_t band[FALT_ROWS_PLANS]; /* output rows */
  falt_plan *plan[FALT_ROWS_PLANS];
  /* Of bands that reach beyond the image: the plans above, or plans of another type that holds the boundary's value. */
  falt_plan *edge_plan[FALT_ROWS_PLANS];
  falt_type edge_type;
  char *store; /* of `room` rows; row `low` is at place `slot` */
  char *edge;  /* the rows of a window that reaches beyond the image */
  char *constant;
  void *workspace, *bias, *scale;
  int64_t room, low, high, slot;
  int64_t keeps, edge_pitch; /* rows of the tail; bytes */
  int64_t rows, next;        /* rows so far; the next output */
  bool ended, lost;
};

#endif
