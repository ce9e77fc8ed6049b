/* The plan of igemm-nchw-bf16: igemm_nchw_bf16.c creates it, igemm_nchw_bf16_run.c executes it. */
#ifndef FALT_SOLVER_CPU_FPROP_IGEMM_NCHW_BF16_H
#define FALT_SOLVER_CPU_FPROP_IGEMM_NCHW_BF16_H

#include "solver/cpu/common/layer.h"
#include "solver/cpu/igemm_vnni/igemm_vnni_kernels.h"

enum {
  FALT_NCHW_BF16_PIECE = FALT_TILE_BYTES / 2, /* elements of the depth that a tile has */
  FALT_NCHW_BF16_BLOCK = FALT_NCHW_BF16_PIECE /* outer elements of a segment, so that it is of whole pieces */
};

/* How rows of the filter are stored: `inner` adjacent elements, `outer` times, `apart` elements from each other. */
typedef struct falt_nchw_bf16_rows {
  bool transposed; /* adjacent elements are of neighbouring rows instead; one tap */
  bool taps_inner; /* the taps of a channel are neighbours; else the channels of a tap */
  bool backwards;  /* taps are summed last to first, their order in memory */
  int64_t inner, outer, apart;
} falt_nchw_bf16_rows;

/* Offsets into a worker's scratch. */
typedef struct falt_nchw_bf16_scratch {
  size_t panel, rows, list, inside, keep;
  falt_memory_layout parts;
} falt_nchw_bf16_scratch;

typedef struct falt_nchw_bf16_plan {
  falt_plan base;
  falt_layer layer;
  const falt_tiles_kernels *kernels;
  falt_nchw_bf16_rows rows;
  int64_t depth;            /* elements of a filter row */
  int64_t segments, pieces; /* of a row, each of its pieces; the last segment ends with zeros */
  int64_t tiles, tile_rows; /* of a group's filter */
  bool images;              /* a line of positions is an image; else a row */
  int64_t lines, length;    /* of all images; positions of one */
  int64_t panels;           /* of a line: FALT_TILES_COLUMNS positions each, and the rest */
  falt_layer_pieces chunks; /* of pairs of tiles */
  falt_layer_pieces bands;  /* of the panels of all lines; a task is a chunk by a band */
  bool in_place;            /* tiles are rows of the caller's filter */
  bool own_rows;            /* else tasks pack their rows; or all threads pack the filter before */
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
/* Elements of a packed row, and of a group's packed rows: pairs of tiles, of each segment all rows. */
static inline int64_t falt_nchw_bf16_row(const falt_nchw_bf16_plan *plan) {
  return plan->segments * plan->pieces * FALT_NCHW_BF16_PIECE;
}
static inline int64_t falt_nchw_bf16_packed(const falt_nchw_bf16_plan *plan) {
  return plan->tiles * plan->tile_rows * falt_nchw_bf16_row(plan);
}

/* Fills `offset` and `tap`. */
void falt_nchw_bf16_order(const falt_nchw_bf16_plan *plan);
/* Packs the filters of all groups on the device's threads. */
void falt_nchw_bf16_pack(const falt_nchw_bf16_plan *plan, const void *filter, uint16_t *packed);
void falt_nchw_bf16_execute(const falt_plan *plan, const falt_operands *operands);

#endif
