/* The plan of igemm-vnni, and the row loaders of solver/cpu/igemm_vnni/igemm_vnni_kernels.h. igemm_vnni.c plans,
 * igemm_vnni_run.c executes. */
#ifndef FALT_SOLVER_CPU_IGEMM_VNNI_IGEMM_VNNI_H
#define FALT_SOLVER_CPU_IGEMM_VNNI_IGEMM_VNNI_H

#include "solver/cpu/common/layer.h"
#include "solver/cpu/igemm_vnni/igemm_vnni_kernels.h"

enum {
  TILE = FALT_TILE,
  ROWS = FALT_TILE_ROWS,
  COLUMNS = FALT_TILES_COLUMNS,
  PAIR = 2,
  GROUP = 4 /* bytes */,
  MOST_JOINED = 32,
  NEAR = 16384 /* bytes of panels */
};

/* Groups [group, group + groups) of a tile of 16 columns: slot j of the first one is element at[j] of each column, that
 * of the next one `step` elements further. Slots that are not `present` (bit j) are zeros. */
typedef struct falt_panel_run {
  int64_t at[GROUP], step;
  int group, groups;
  unsigned present;
} falt_panel_run;

typedef struct falt_panel_tile {
  int64_t index;       /* in a panel of 16 columns */
  int64_t first, runs; /* of the order's; none: it is of zeros */
  int64_t low, high;   /* the first and the last element of a column that it has */
  int64_t straight;    /* its number of consecutive elements from `low` on; 0: they are not consecutive */
  bool whole;          /* no group is left out */
} falt_panel_tile;

/* Tiles [begin, end), which have elements [low, high] of a column. */
typedef struct falt_panel_block {
  int64_t begin, end, low, high;
} falt_panel_block;

typedef struct falt_panel_order {
  bool columns;    /* a column's elements are close together: stretches of columns are transposed; else rows joined */
  bool direct;     /* columns whose stretches are tiles in place */
  int64_t longest; /* elements of a block's stretch */
  int64_t tiles, blocks;
  falt_panel_tile *tile; /* owns all three, ordered by `low` */
  falt_panel_run *run;
  falt_panel_block *block;
} falt_panel_order;

/* Offsets into a worker's scratch. */
typedef struct falt_tiles_map {
  size_t list, tiles, out, residual, constant, lines, copies, filled, sums, panels, packing;
  falt_memory_layout parts;
} falt_tiles_map;

typedef struct falt_tiles_plan {
  falt_plan base;
  falt_layer layer;
  const falt_tiles_kernels *kernels;
  falt_tiles_kind kind;
  bool split;      /* f16 as sums of two bf16 */
  int64_t element; /* bytes of an element of the input in a tile */

  bool in_place;                    /* pixels are read in place, unless some are outside */
  bool windows;                     /* copies are of the windows of all taps of a row, by position; else of pixels */
  bool flat;                        /* tiles go over the ends of rows */
  bool transposed;                  /* positions are the columns of products: outputs of a channel are adjacent */
  bool zipped;                      /* copies are of groups at adjacent positions: for transposed products, and for
                                     * lines */
  int64_t joined, steps;            /* rows of taps that a window has, and windows that have all of a plane's */
  int64_t line;                     /* bytes of the pixels of a tap row; 0: windows are copied from the input */
  bool slides;                      /* zipped, and the next group begins where the next position's taps do */
  bool stacked;                     /* the copied rows of all taps are consecutive: one segment has them */
  int64_t row, deep;                /* elements of a copied row's window or pixel, and its groups */
  int64_t step;                     /* zipped: bytes from a position's group to the next one's */
  int64_t segments, length, pieces; /* elements of a segment of rows, and its pieces of 64 bytes */
  int64_t groups;                   /* of its last piece */
  int64_t times;                    /* passes of the panel over the segments */

  bool by_panels;                 /* tasks are panels, each by all positions */
  falt_layer_pieces lines, spans; /* parts: lines of a plane of outputs, and spans of their positions */
  int64_t rows;                   /* positions of a tile */
  int64_t along, tiles;           /* tiles of a line (all lines if they are flat), and of a part */
  bool own;                       /* each tap has copies of its own */
  int64_t class, slots;           /* copied rows: of one residue of the stride, for one tap of the depth */
  int64_t wide;                   /* pixels or windows of a copied row; zipped: groups, of each residue */
  int64_t residues, pitch;        /* zipped: of the stride along the width, and bytes from groups to groups */
  int64_t slot;                   /* bytes of a copied row; flat and zipped: of all lines of a tap */

  bool vectors;                     /* outputs go out by kernels; else one by one */
  int64_t panels;                   /* of a group */
  int64_t near;                     /* panels that stay in the second-level cache */
  falt_layer_pieces blocks, chunks; /* tasks: blocks of parts times chunks of the panels of all groups */
  size_t panel;                     /* bytes */
  falt_panel_order order;           /* in which panels take the filter's elements */
  char *packed;                     /* or NULL if the filter is given with each falt_tiles_run */
  bool in_time;                     /* then each task packs the panels that it multiplies, a few at a time */
  size_t factors, filter;           /* offsets into the workspace */
  falt_tiles_map at;                /* in each worker's scratch */
} falt_tiles_plan;

/* Whether tiles have elements of 4 bytes that are made from the operands' elements. */
static inline bool falt_tiles_converts(const falt_tiles_plan *plan) {
  return plan->split || plan->kind == FALT_TILES_F32;
}
static inline int64_t falt_tiles_groups(const falt_tiles_plan *plan) {
  return plan->layer.p.output.size[FALT_G];
}
static inline int64_t falt_tiles_columns(const falt_tiles_plan *plan, int64_t panel) {
  return falt_min(COLUMNS, plan->layer.results - panel * COLUMNS);
}
/* Pixels from the first row of a window to that of the next. */
static inline int64_t falt_tiles_down(const falt_tiles_plan *plan) {
  return plan->joined * plan->layer.p.axis[1].dilation;
}
/* Bytes of a copied pixel or window. Windows are of whole pieces; so are pixels that a matrix unit reads. */
static inline int64_t falt_tiles_pixel(const falt_tiles_plan *plan) {
  return plan->zipped    ? plan->deep * plan->step
         : plan->windows ? plan->pieces * FALT_TILE_BYTES
                         : plan->row * plan->element;
}
/* Entries of a tile's list: for transposed products one for each piece, with pieces outermost, so that all taps use one
 * piece's groups while they are in the L1 cache. */
static inline int64_t falt_tiles_listed(const falt_tiles_plan *plan) {
  return plan->segments * plan->times * (plan->transposed ? plan->pieces : 1);
}
static inline int64_t falt_tiles_copies(const falt_tiles_plan *plan) {
  return plan->layer.p.filter.size[FALT_D] * plan->slots; /* rows that a part may copy */
}

/* Slots that a part's copies are in. */
static inline int64_t falt_tiles_slots_of(const falt_tiles_plan *plan) {
  return plan->flat && plan->zipped ? plan->layer.p.filter.size[FALT_D] * plan->steps : falt_tiles_copies(plan);
}

typedef struct falt_tiles_run {
  const falt_tiles_plan *plan;
  const falt_operands *operands;
  const char *packed; /* NULL: tasks pack */
  const float *factors;
} falt_tiles_run;

/* A tile of outputs: positions [w, w + count) of its row, which may go on in the next ones. */
typedef struct falt_tiles_tile {
  falt_layer_point at;
  int count;
} falt_tiles_tile;

/* A block of parts and the lists of its tiles, two by two. */
typedef struct falt_tiles_task {
  const falt_tiles_run *run;
  const falt_tiles_plan *plan;
  const falt_layer *layer;
  int64_t group, part, parts; /* parts [part, part + parts) */
  int64_t count;              /* of tiles */
  const char *input;          /* of the group that the lists are made for */
  falt_tile_rows *list;       /* of a pair, a segment and one of the two */
  falt_tiles_tile *tiles;
  int64_t *out, *residual;                                         /* elements of channel 0 of group 0, by position */
  int64_t row_out[FALT_TILES_ROWS], row_residual[FALT_TILES_ROWS]; /* transposed: of the channels of a panel */
  char *constant, *lines, *copies, *filled, *sums, *panels, *packing;
  const char *packed; /* panel `from` of all groups, and the following ones */
  int64_t from;
} falt_tiles_task;

static inline int64_t falt_tiles_piece_count(int64_t length, int64_t element) {
  return falt_ceil_div(length * element, FALT_TILE_BYTES);
}

/* The number of groups of a number of elements. */
static inline int64_t falt_tiles_depth(const falt_tiles_plan *plan, int64_t length) {
  return falt_round_up(falt_ceil_div(length * plan->element, GROUP), plan->kernels->together);
}

/* Whether and how rows are copied as groups: zipped, slides, step, windows and stacked. */
void falt_tiles_set_groups(falt_tiles_plan *plan);
/* Whether pixels are so small, and adjacent, that lines of them are copied before windows are. */
bool falt_tiles_copies_lines(const falt_tiles_plan *plan);
/* Tap rows that share a window, which would be mostly empty with one. The last window may have rows beyond the filter's
 * with zero weights; not for floats, which may be infinite. */
int64_t falt_tiles_joined(const falt_tiles_plan *plan);

/* Finds plan->order; false if memory ran out. */
bool falt_tiles_order(falt_tiles_plan *plan);

/* The packing of an execution, in f32 operations of vectors that take as long. */
double falt_tiles_packing_work(const falt_tiles_plan *plan);
/* Bytes of scratch that packing needs. */
size_t falt_tiles_packing(const falt_tiles_plan *plan);
/* Packs panels [begin, end) of all groups to `packed`, one after the other; ends early if the call is cancelled. */
void falt_tiles_pack(const falt_tiles_plan *plan, const void *filter, int64_t begin, int64_t end, char *packed,
                     void *scratch);
/* All panels, on the device's threads. The workspace is that of falt_rows_run with `scratch` bytes for each worker,
 * where packing finds its own at offset `at`. */
void falt_tiles_pack_all(const falt_tiles_plan *plan, const void *filter, char *packed, void *workspace, size_t scratch,
                         size_t at);

/* A weight of the task's group, of kinds that are split. */
float falt_tiles_weight(const falt_tiles_task *t, int64_t k, int64_t tap, int64_t c);

/* Lists of all tiles of the task's block for a group: count, list, tiles, out, residual. */
void falt_tiles_list(falt_tiles_task *t, int64_t group);

void falt_tiles_execute(const falt_plan *plan, const falt_operands *operands);

#endif
