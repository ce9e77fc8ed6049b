/* Tile shapes of cuda_igemm_sm90_halo.cu and cuda_wgrad_sm90_halo.cu: the axis of the 2.5D blocking, and the tiles
 * along the other axes. Plain C, no GPU needed. */
#ifndef FALT_SOLVER_CUDA_IGEMM_SM90_CUDA_IGEMM_SM90_HALO_TILES_H
#define FALT_SOLVER_CUDA_IGEMM_SM90_CUDA_IGEMM_SM90_HALO_TILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/machine.h"
#include "solver/cuda/common/tile_search.h"

/* Tap j of output i of an axis reads position i + j + corner. Axes: planes, rows, columns. */
typedef struct falt_igemm_sm90_halo_problem {
  int64_t images, channels, results; /* channels: of the depth */
  int64_t taps[3], in[3], out[3], corner[3];
  int y_bytes; /* of an element of the output */
  bool residual;
  int scattered; /* outputs of one store, one or two; 0: runs of channels, or boxes of pixels */
  bool boxed;    /* NCHW outputs of 16 bits, stored by TMA */
  bool sectors;  /* rows are aligned to sectors of memory */
} falt_igemm_sm90_halo_problem;

/* Named after cuda_igemm_sm90_halo.cu's parameters. */
typedef struct falt_igemm_sm90_halo_tile {
  int pixel, pieces, channels, columns, consumers, blocks, blocks_w, stages;
  int tiles[2], walk, walks; /* tiles along rows and columns; planes of a walk; walks along the planes */
  int column_tiles;          /* of outputs' channels */
  int64_t items;             /* walks of all tiles and images, of one column tile */
  int64_t grid;              /* blocks that run */
  int shared_bytes;
  /* the estimate */
  double seconds;
  const char *rejected; /* NULL: legal */
} falt_igemm_sm90_halo_tile;

/* An axis of a strided dgrad as an axis of a layer: `step` neighbouring pixels of the output are one pixel of the
 * layer, and the first step starts `shift` pixels outside. Tap i of the layer is, for pixel e of a step, the filter's
 * tap first + e - i * step, if there is one. */
typedef struct falt_igemm_sm90_halo_axis {
  int64_t step, shift, taps, corner, first;
} falt_igemm_sm90_halo_axis;

/* The axis description with the fewest taps. */
falt_igemm_sm90_halo_axis falt_igemm_sm90_halo_axis_of(int64_t stride, int64_t taps, int64_t pad);

/* Pixels of a tile along rows and columns, and of its halo tile. */
int falt_igemm_sm90_halo_tile_height(const falt_igemm_sm90_halo_tile *tile);
int falt_igemm_sm90_halo_tile_width(const falt_igemm_sm90_halo_tile *tile);

/* The reason that no tile can be legal, or NULL. */
const char *falt_igemm_sm90_halo_refusal(const falt_igemm_sm90_halo_problem *problem);

/* Offers every tile to the search, with its estimate or its reason. */
void falt_igemm_sm90_halo_each(const falt_igemm_sm90_halo_problem *problem, const falt_machine *machine,
                               falt_tile_search *search);
/* The best; false if no tile is legal. */
bool falt_igemm_sm90_halo_choose(const falt_igemm_sm90_halo_problem *problem, const falt_machine *machine,
                                 falt_igemm_sm90_halo_tile *best);

/* ---- wgrad, by cuda_wgrad_sm90_halo.cu and cuda_wgrad_sm90_nchw.cu */

typedef struct falt_wgrad_sm90_tile {
  int height, width;           /* pixels of a stage; NCHW: whole rows */
  int stages;                  /* in shared memory */
  int tiles[3], items;         /* tiles of an image (NHWC); stages of all images */
  int row_tiles, column_tiles; /* spans of dy's channels, of x's */
  int split_k;                 /* blocks that share the items */
  int64_t columns;             /* of the sums, a tap's channels in whole spans */
  int64_t grid;                /* blocks */
  int shared_bytes;
  size_t workspace;
  double seconds;
  const char *rejected; /* NULL: legal */
} falt_wgrad_sm90_tile;

enum { FALT_PLANES_SPAN = 64 }; /* channels of one load */

/* What its sums are of: so many channels of dy and of x, blocks of taps, and taps. */
typedef struct falt_wgrad_sm90_sums {
  int64_t results, channels, tap_blocks, taps;
  int64_t workspace; /* bytes that may be used; negative: no limit */
} falt_wgrad_sm90_sums;

/* Cuts a tile's items into the split-K slices that fill the GPU `waves` times, or as many as the workspace has room
 * for: the fields from row_tiles to grid, and workspace. The reason that none fits, or NULL. */
const char *falt_wgrad_sm90_cut(falt_wgrad_sm90_tile *tile, const falt_machine *machine,
                                const falt_wgrad_sm90_sums *sums, int waves);
/* Its time, if it computes for so long, and reads so many bytes once and again; again: mostly from the cache. */
double falt_wgrad_sm90_seconds(const falt_machine *machine, double compute, double once, double again, double sums);

/* Tap j of pixel i of dy along an axis reads pixel i + j * dilation + corner of x. */
typedef struct falt_wgrad_sm90_halo_problem {
  int64_t images, channels, results; /* of x, of dy */
  int64_t taps[3], dilation[3], in[3], out[3], corner[3];
  int64_t workspace; /* bytes that may be used; negative: no limit */
} falt_wgrad_sm90_halo_problem;

const char *falt_wgrad_sm90_halo_refusal(const falt_wgrad_sm90_halo_problem *problem);
void falt_wgrad_sm90_halo_each(const falt_wgrad_sm90_halo_problem *problem, const falt_machine *machine,
                               falt_tile_search *search);
bool falt_wgrad_sm90_halo_choose(const falt_wgrad_sm90_halo_problem *problem, const falt_machine *machine,
                                 falt_wgrad_sm90_tile *best);

#endif
