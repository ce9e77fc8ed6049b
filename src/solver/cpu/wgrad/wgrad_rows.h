/* The plan of wgrad-rows: wgrad_rows.c creates it, wgrad_rows_run.c executes it. */
#ifndef FALT_SOLVER_CPU_WGRAD_WGRAD_ROWS_H
#define FALT_SOLVER_CPU_WGRAD_WGRAD_ROWS_H

#include "solver/cpu/common/layer.h"
#include "solver/cpu/wgrad/wgrad.h"

enum { FALT_WGRAD_ROWS_LINES = 32 /* of a chunk, at most */ };

typedef struct falt_wgrad_rows_plan {
  falt_plan base;
  falt_layer layer;          /* the forward one */
  bool x_there, y_there;     /* read in place */
  int64_t width, block;      /* columns of a panel, and rows of a block of registers */
  int64_t pitch;             /* of the copy of dy: an odd number of lines */
  bool skips;                /* what taps read outside is left out */
  bool by_lines;             /* chunks are lines of a plane, or spans of one */
  falt_layer_pieces lines;   /* of a plane; a chunk's */
  falt_layer_pieces spans;   /* of a line's positions; a chunk's */
  falt_layer_pieces chunks;  /* of positions, unless by lines */
  falt_layer_pieces rows;    /* of a group's output channels; a task's */
  int64_t panels;            /* of a tap */
  falt_layer_pieces columns; /* of the panels of all taps; a task's */
  int64_t x_step, x_line;    /* elements from position to position, and from line to line if x is read in place */
  int64_t y_step;            /* from position to position */
  size_t at_rows, at_panels;
  falt_memory_layout scratch;
} falt_wgrad_rows_plan;

/* Positions of a chunk that a tap reads inside: [begin, begin + count) of some of its lines. */
typedef struct falt_wgrad_rows_reach {
  int64_t line, lines, begin, count;
} falt_wgrad_rows_reach;

/* A panel of columns: some input channels at a tap, and their elements in the chunk. */
typedef struct falt_wgrad_rows_panel {
  int64_t t, r, s, channel, count;
  int64_t out; /* element of the gradient, in the task's first row */
  falt_wgrad_rows_reach in;
  const float *x;
} falt_wgrad_rows_panel;

void falt_wgrad_rows_execute(const falt_plan *plan, const falt_operands *operands);

#endif
