/* Layers of few input channels by first.cu: how they are cut. Plain C, no GPU needed. src/cuda/kernels/first.cu has the
 * algorithm. */
#ifndef FALT_CUDA_FIRST_H
#define FALT_CUDA_FIRST_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda/compile.h"

/* Pairs are rows, columns. */
typedef struct falt_first_problem {
  int64_t images, channels, results; /* of x, of y */
  int64_t taps[2], stride[2], dilation[2], in[2], out[2];
  bool planar; /* results' pixels lie side by side */
} falt_first_problem;

typedef struct falt_first_machine {
  int multiprocessors, shared_block; /* bytes of shared memory that a block may have */
  double bytes_per_s, clock_hz;
} falt_first_machine;

/* Named after first.cu's holes. */
typedef struct falt_first_tile {
  int pixel, paired, width, rows, parts, batches;
  int walk, walks;                /* rows of a walk; walks down an image */
  int column_tiles, result_tiles; /* of columns, of channels */
  int64_t items, grid;            /* walks of all images and column tiles; blocks */
  int shared_bytes;
  double seconds;
  const char *rejected; /* NULL: legal */
} falt_first_tile;

/* Calls visit for every tile considered, with its estimate or its reason. */
void falt_first_each(const falt_first_problem *problem, const falt_first_machine *machine,
                     void (*visit)(void *context, const falt_first_tile *tile), void *context);
/* The best; false if no tile is legal, with the reason of the first. */
bool falt_first_choose(const falt_first_problem *problem, const falt_first_machine *machine, falt_first_tile *best);

/* Threads of a block. */
int falt_first_threads(const falt_first_tile *tile);
/* The holes of a problem and its tile. */
void falt_first_holes(falt_cuda_kernel *kernel, const falt_first_problem *problem, const falt_first_tile *tile);

#endif
