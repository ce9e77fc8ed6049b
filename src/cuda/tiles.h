/* How the direct kernel cuts a filter into threads and blocks: plain C, no GPU needed. Every shape is enumerated, the
 * illegal are dropped with a reason, the others compared by an estimate of their time. */
#ifndef FALT_CUDA_TILES_H
#define FALT_CUDA_TILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A filter as the kernel sees it: taps and sizes along the sweep, the rows and the columns. */
typedef struct falt_tile_problem {
  int taps[3];
  int64_t out[3];                  /* results: planes, rows, elements of a row (channels included) */
  int64_t batch;                   /* images */
  int pixel;                       /* channels interleaved */
  int x_bytes, y_bytes, sum_bytes; /* of one element in, out, of one partial sum */
  int x_align, y_align;            /* elements that rows are aligned to: a power of two */
  int pad;                         /* before, along the columns */
} falt_tile_problem;

typedef struct falt_tile_machine {
  int multiprocessors;
  double bytes_per_s, flops; /* of the whole GPU */
} falt_tile_machine;

typedef struct falt_tile {
  int width;         /* elements of a thread along a row */
  int rows;          /* rows of a thread; chunks of the row where `linear` */
  int steps, unroll; /* planes of a sweep, planes unrolled */
  int block[2];      /* threads: along a row, across rows */
  int blocks;        /* that should fit on a multiprocessor */
  int x_vector, y_vector;
  bool linear;
  /* what was estimated */
  int registers;
  double seconds;
  const char *rejected; /* NULL: legal */
} falt_tile;

/* Calls visit for every tile considered, with its estimate or its reason. */
void falt_tiles_each(const falt_tile_problem *problem, const falt_tile_machine *machine,
                     void (*visit)(void *context, const falt_tile *tile), void *context);

/* The best; false with the reason of the least bad one if no tile is legal. */
bool falt_tiles_choose(const falt_tile_problem *problem, const falt_tile_machine *machine, falt_tile *best);

#endif
