/* Tile shapes of cuda_fewchannels_nhwc.cu and cuda_fewchannels_wgrad.cu. Plain C, no GPU needed. */
#ifndef FALT_SOLVER_CUDA_FEWCHANNELS_CUDA_FEWCHANNELS_TILES_H
#define FALT_SOLVER_CUDA_FEWCHANNELS_CUDA_FEWCHANNELS_TILES_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda/compile.h"
#include "cuda/machine.h"
#include "solver/cuda/common/tile_search.h"

/* Pairs are rows, columns. */
typedef struct falt_fewchannels_nhwc_problem {
  int64_t images, channels, results; /* of x, of y */
  int64_t taps[2], stride[2], dilation[2], in[2], out[2];
  bool planar; /* NCHW output */
} falt_fewchannels_nhwc_problem;

/* Named after cuda_fewchannels_nhwc.cu's parameters. */
typedef struct falt_fewchannels_nhwc_tile {
  int pixel, paired, pieces, width, rows, parts, batches, mirrored;
  int walk, walks;                /* rows of a walk; walks down an image */
  int column_tiles, result_tiles; /* of columns; of channels, times tap_parts */
  int tap_parts;                  /* parts of the rows of taps: more than one for weight gradients only */
  int64_t items, grid;            /* walks of all images and column tiles; blocks */
  int shared_bytes;
  double seconds;
  const char *rejected; /* NULL: legal */
} falt_fewchannels_nhwc_tile;

/* Offers every tile to the search, with its estimate or its reason. */
void falt_fewchannels_nhwc_each(const falt_fewchannels_nhwc_problem *problem, const falt_machine *machine,
                                falt_tile_search *search);
/* The best; false if no tile is legal, with the reason of the first. */
bool falt_fewchannels_nhwc_choose(const falt_fewchannels_nhwc_problem *problem, const falt_machine *machine,
                                  falt_fewchannels_nhwc_tile *best);

/* Shared by both tile searches. The pieces of 16 bytes of a run. */
int64_t falt_fewchannels_nhwc_fewest_pieces(const falt_fewchannels_nhwc_problem *problem,
                                            const falt_fewchannels_nhwc_tile *tile);
/* Pieces of a row in the ring; additional batches that a batch needs; rows in flight at once. */
int64_t falt_fewchannels_nhwc_row_pieces(const falt_fewchannels_nhwc_problem *problem,
                                         const falt_fewchannels_nhwc_tile *tile);
int64_t falt_fewchannels_nhwc_ahead(const falt_fewchannels_nhwc_problem *problem,
                                    const falt_fewchannels_nhwc_tile *tile);
int64_t falt_fewchannels_nhwc_at_once(const falt_fewchannels_nhwc_problem *problem,
                                      const falt_fewchannels_nhwc_tile *tile);
/* Sets walks, tiles and blocks; returns the reason if there are too many. */
const char *falt_fewchannels_nhwc_count(const falt_fewchannels_nhwc_problem *problem, const falt_machine *machine,
                                        falt_fewchannels_nhwc_tile *tile);
/* The next shorter walk that gives another cut of the rows, starting with whole columns; false after the shortest. */
bool falt_fewchannels_nhwc_next_walk(const falt_fewchannels_nhwc_problem *problem, falt_fewchannels_nhwc_tile *tile);

/* Threads of a block. */
int falt_fewchannels_nhwc_threads(const falt_fewchannels_nhwc_tile *tile);
/* The parameters of a problem and its tile. */
void falt_fewchannels_nhwc_defines(falt_cuda_kernel *kernel, const falt_fewchannels_nhwc_problem *problem,
                                   const falt_fewchannels_nhwc_tile *tile);

/* ---- weight gradients */

typedef struct falt_fewchannels_wgrad_problem {
  falt_fewchannels_nhwc_problem layer;
  bool biased;       /* the gradient of the bias is summed too */
  int64_t workspace; /* bytes that may be used; negative: no limit */
} falt_fewchannels_wgrad_problem;

typedef struct falt_fewchannels_wgrad_tile {
  falt_fewchannels_nhwc_tile layer; /* the producer of x */
  int taps, blocks;                 /* rows of taps of a part, of an instruction */
  int stages, producers;            /* rows of dy in flight to a warpgroup; producer warpgroups of x */
  int64_t split_k;
  int shared_bytes;
  size_t workspace;
  double seconds;
  const char *rejected;
} falt_fewchannels_wgrad_tile;

/* Sums of an output, with two for the bias. */
int64_t falt_fewchannels_wgrad_columns(const falt_fewchannels_wgrad_problem *problem);
int falt_fewchannels_wgrad_threads(const falt_fewchannels_wgrad_tile *tile);
void falt_fewchannels_wgrad_each(const falt_fewchannels_wgrad_problem *problem, const falt_machine *machine,
                                 falt_tile_search *search);
/* The best; false if no tile is legal, with the reason of the first. */
bool falt_fewchannels_wgrad_choose(const falt_fewchannels_wgrad_problem *problem, const falt_machine *machine,
                                   falt_fewchannels_wgrad_tile *best);
void falt_fewchannels_wgrad_defines(falt_cuda_kernel *kernel, const falt_fewchannels_wgrad_problem *problem,
                                    const falt_fewchannels_wgrad_tile *tile);

#endif
