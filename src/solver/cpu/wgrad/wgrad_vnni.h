/* The plan of wgrad-vnni, and the loaders of its operands. wgrad_vnni.c describes the method. */
#ifndef FALT_SOLVER_CPU_WGRAD_WGRAD_VNNI_H
#define FALT_SOLVER_CPU_WGRAD_WGRAD_VNNI_H

#include "solver/cpu/common/layer.h"
#include "solver/cpu/igemm_vnni/igemm_vnni_kernels.h"
#include "solver/cpu/wgrad/wgrad_kernels.h"

enum {
  ROWS = FALT_TILE_ROWS,
  COLUMNS = FALT_TILES_COLUMNS,
  TILE = FALT_TILE,
  CHUNK = 32 /* positions */,
  PAIR_BYTES = 4,
  SQUARE = FALT_TILES_ROWS * COLUMNS
};
enum { MOST_SEGMENTS = 64, MOST_LENGTH = 256 /* of windows */ };

typedef struct falt_outer_tiles_plan {
  falt_plan base;
  falt_layer layer; /* of the forward problem */
  bool exchanged;   /* x and dy */
  const falt_tiles_kernels *kernels;
  const falt_outer_kernels *outer;
  int64_t lines, line_cuts;           /* of a plane's outputs in a part, and cuts of a plane by lines */
  int64_t span, span_cuts;            /* of their positions */
  int64_t parts, blocks, all;         /* parts of a block, at most; blocks; all parts */
  int64_t polyphases[2];              /* by height and width */
  int64_t height, width;              /* lines of x of a polyphase part, and positions of a line */
  int64_t chunks, reach, pitch;       /* of a part's dy; chunks of a polyphase part of x, and bytes of its channel */
  int64_t segments;                   /* stretches of a part's dy whose x is evenly spaced */
  bool windows;                       /* rows are input channels at all taps of the width; else channels */
  bool spaced;                        /* windows are read from lines of pairs, not from rows of positions */
  int64_t distance, pairs;            /* bytes from pair to pair of positions; of such a line its pairs */
  bool x_lines, y_lines;              /* the operand's neighbours along the width are adjacent */
  int64_t along;                      /* taps of the width that are shifts */
  int64_t length, tiles, rows;        /* rows of a tap, their tiles, and rows of a tile */
  int64_t panels;                     /* of output channels */
  falt_layer_pieces chunks_of_panels; /* tasks of a pair */
  size_t transposed, paired, sums, zeros, ones; /* offsets into the workspace */
  size_t matrix, x_part, y_panel; /* bytes of a polyphase part of x, of a part's x, of a block's panel of dy */
} falt_outer_tiles_plan;

typedef struct falt_outer_tiles_run {
  const falt_outer_tiles_plan *plan;
  const falt_operands *operands;
  int64_t first, parts; /* of the block */
  char *transposed, *paired;
  float *sums;
  const char *zeros, *ones;
} falt_outer_tiles_run;

static inline int64_t falt_outer_tiles_groups(const falt_outer_tiles_plan *plan) {
  return plan->layer.p.filter.size[FALT_G];
}
static inline int64_t falt_outer_tiles_polyphases(const falt_outer_tiles_plan *plan) {
  return plan->polyphases[0] * plan->polyphases[1];
}

/* Row 0 of a matrix of transposed x: of a part, a tap of the depth and a residue. */
static inline char *falt_outer_tiles_transposed(const falt_outer_tiles_run *run, int64_t i, int64_t j,
                                                int64_t polyphase) {
  const falt_outer_tiles_plan *plan = run->plan;
  return run->transposed + (size_t)i * plan->x_part +
         (size_t)(j * falt_outer_tiles_polyphases(plan) + polyphase) * plan->matrix;
}

/* The number of tasks that transpose x, and pack dy, of so many parts. */
int64_t falt_outer_tiles_x_tasks(const falt_outer_tiles_plan *plan, int64_t parts);
int64_t falt_outer_tiles_y_tasks(const falt_outer_tiles_plan *plan, int64_t parts);

/* Prepares x and dy of the block's parts, on the device's threads. */
void falt_outer_tiles_bring(const falt_outer_tiles_run *run);

#endif
