/* Dense layers in tiles: the plan, and what brings rows to the kernels of cpu/layer_tiles.h. layer_tiles.c says how. */
#ifndef FALT_SOLVER_LAYER_TILES_H
#define FALT_SOLVER_LAYER_TILES_H

#include "cpu/layer_tiles.h"
#include "solver/layer.h"

enum { TILE = FALT_TILE, ROWS = FALT_TILE_ROWS, COLUMNS = FALT_TILES_COLUMNS, PAIR = 2 };

/* Offsets into a worker's scratch. */
typedef struct falt_tiles_map {
  size_t list, out, residual, constant, copied, gathered, sums, total;
} falt_tiles_map;

typedef struct falt_tiles_plan {
  falt_plan base;
  falt_layer layer;
  const falt_tiles_kernels *kernels;
  falt_tiles_kind kind;
  int64_t element;                  /* bytes of an element in a tile */
  bool by_rows;                     /* no tile goes over the end of a row */
  int64_t rows;                     /* positions of a tile */
  int64_t line, tiles;              /* positions that are cut into tiles together, and these tiles */
  int64_t wide;                     /* pixels of an input row with all that stands beyond its ends */
  bool in_place;                    /* a segment is a tap and lies in the input; else it is all taps together */
  bool vectors;                     /* results go out by kernels; else one by one */
  int64_t segments, length, pieces; /* elements of a segment, and its pieces of 64 bytes */
  int64_t panels;                   /* of a group */
  falt_layer_pieces blocks, chunks; /* tasks: blocks of calls times chunks of the panels of all groups */
  int64_t part_segments, part_pieces, parts; /* of the depth that stays in the first-level cache */
  size_t panel;                              /* bytes */
  char *packed;                              /* or NULL if the filter comes with each falt_tiles_run */
  size_t factors, filter;                    /* offsets into the workspace */
  falt_tiles_map at;                         /* in each worker's scratch */
} falt_tiles_plan;

static inline int64_t falt_tiles_all(const falt_tiles_plan *plan) {
  return plan->layer.positions / plan->line * plan->tiles;
}
static inline int64_t falt_tiles_groups(const falt_tiles_plan *plan) {
  return plan->layer.p.output.size[FALT_G];
}

static inline int64_t falt_tiles_columns(const falt_tiles_plan *plan, int64_t panel) {
  return falt_min(COLUMNS, plan->layer.results - panel * COLUMNS);
}

/* A tile's first position, and how many it has. */
static inline int64_t falt_tiles_first(const falt_tiles_plan *plan, int64_t tile) {
  return tile / plan->tiles * plan->line + tile % plan->tiles * plan->rows;
}
static inline int falt_tiles_count(const falt_tiles_plan *plan, int64_t tile) {
  return (int)falt_min(plan->rows, plan->line - tile % plan->tiles * plan->rows);
}

typedef struct falt_tiles_run {
  const falt_tiles_plan *plan;
  const falt_operands *operands;
  const char *packed;
  const float *factors;
} falt_tiles_run;

/* A block of tiles and the lists of its calls: one call has two tiles of positions, for each segment. */
typedef struct falt_tiles_task {
  const falt_tiles_run *run;
  const falt_tiles_plan *plan;
  const falt_layer *layer;
  int64_t group, tile, tiles; /* tiles [tile, tile + tiles) */
  const char *input;          /* of the group that the lists are made for */
  int copies;                 /* rows that were copied with what stands beyond their ends */
  int64_t pixel;              /* bytes between pixels */
  falt_tile_rows *list;
  int64_t *out, *residual; /* elements of channel 0 of group 0, by position */
  char *constant, *gathered, *sums;
  const char **copied; /* where those rows lie in the input */
} falt_tiles_task;

static inline int64_t falt_tiles_input_size(const falt_tiles_task *t) {
  return (int64_t)falt_type_size(t->layer->p.input.type);
}

/* The filter as panels; runs on the device's threads. */
void falt_tiles_pack(const falt_tiles_plan *plan, const void *filter, char *packed);

/* Lists of all tiles of the task's block for a group: list, out, residual. */
void falt_tiles_list(falt_tiles_task *t, int64_t group);

#endif
