/* The plan of igemm-nchw-bf16: igemm_nchw_bf16.c creates it, igemm_nchw_bf16_run.c executes it. */
#ifndef FALT_SOLVER_CPU_FPROP_IGEMM_NCHW_BF16_H
#define FALT_SOLVER_CPU_FPROP_IGEMM_NCHW_BF16_H

#include "solver/cpu/common/layer.h"
#include "solver/cpu/igemm_vnni/igemm_vnni_kernels.h"

enum { FALT_NCHW_BF16_PIECE = FALT_TILE_BYTES / 2 /* elements of the depth that a tile has */ };

/* How rows of the filter become rows of tiles. */
typedef enum falt_nchw_bf16_packing {
  FALT_ROWS_COPIED,     /* a row is one run of elements: all taps of channel after channel, or channels of taps */
  FALT_ROWS_TRANSPOSED, /* one tap, and neighbouring rows are adjacent */
  FALT_ROWS_GATHERED    /* taps from anywhere: all channels of one, then of the next; an even number of channels */
} falt_nchw_bf16_packing;

/* Offsets into a worker's scratch. */
typedef struct falt_nchw_bf16_scratch {
  size_t panel, rows, inside, keep;
  falt_memory_layout parts;
} falt_nchw_bf16_scratch;

typedef struct falt_nchw_bf16_plan {
  falt_plan base;
  falt_layer layer;
  const falt_tiles_kernels *kernels;
  falt_nchw_bf16_packing packing;
  bool taps_inner;          /* taps of a channel follow each other in a row; else channels of a tap */
  bool backwards;           /* taps are summed last to first, their order in memory */
  int64_t channels;         /* in a row: the layer's, or one more, of zeros */
  int64_t depth, pieces;    /* elements of a filter row, and of FALT_NCHW_BF16_PIECE elements */
  int64_t tiles, tile_rows; /* of a group's filter */
  bool images;              /* a line of positions is an image; else a row */
  int64_t step[3];          /* elements of the input from position to position of an axis */
  int64_t apart;            /* elements between what neighbouring positions of a line read */
  int64_t lines, length;    /* of all images; positions of one */
  int64_t panels;           /* of a line: FALT_TILES_COLUMNS positions each, and the rest */
  falt_layer_pieces chunks; /* of pairs of tiles */
  falt_layer_pieces bands;  /* of the panels of all lines; a task is a chunk by a band */
  bool in_place;            /* tiles are rows of the caller's filter */
  bool own_rows;            /* tasks pack their rows; else, if not in place, all threads pack the filter before */
  int64_t *offset;          /* of each element of a row: where the input has it, from the first tap of channel 0 */
  int32_t *tap;             /* and its tap in that order; behind the depth the number of taps */
  const void *values;       /* the filter, from planning until it is packed */
  uint16_t *packed;         /* or NULL if the filter is given with each execution */
  size_t factors, filter;   /* offsets into the workspace */
  falt_nchw_bf16_scratch at;
} falt_nchw_bf16_plan;

static inline int64_t falt_nchw_bf16_pairs(const falt_nchw_bf16_plan *plan) {
  return falt_ceil_div(plan->tiles, 2);
}
static inline int64_t falt_nchw_bf16_groups(const falt_nchw_bf16_plan *plan) {
  return plan->layer.p.output.size[FALT_G];
}
static inline int64_t falt_nchw_bf16_tasks(const falt_nchw_bf16_plan *plan) {
  return falt_nchw_bf16_groups(plan) * plan->chunks.count * plan->bands.count;
}
/* Whether all threads pack the filter before the tasks. */
static inline bool falt_nchw_bf16_packs_all(const falt_nchw_bf16_plan *plan) {
  return !plan->base.packed && !plan->in_place && !plan->own_rows;
}
/* Elements of a packed row, of the rows of a pair of tiles, and of a group's. */
static inline int64_t falt_nchw_bf16_row(const falt_nchw_bf16_plan *plan) {
  return plan->pieces * FALT_NCHW_BF16_PIECE;
}
static inline int64_t falt_nchw_bf16_pair(const falt_nchw_bf16_plan *plan) {
  return 2 * plan->tile_rows * falt_nchw_bf16_row(plan);
}
static inline int64_t falt_nchw_bf16_packed(const falt_nchw_bf16_plan *plan) {
  return falt_nchw_bf16_pairs(plan) * falt_nchw_bf16_pair(plan);
}

/* Fills `offset` and `tap`. */
void falt_nchw_bf16_order(const falt_nchw_bf16_plan *plan);
/* Packs the filters of all groups on the device's threads. */
void falt_nchw_bf16_pack(const falt_nchw_bf16_plan *plan, const void *filter, uint16_t *packed);
void falt_nchw_bf16_execute(const falt_plan *plan, const falt_operands *operands);

#endif
