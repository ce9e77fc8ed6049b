/* The textbook's counts of a filter: its arithmetic and its memory traffic on paper. */
#ifndef FALT_CLI_COUNTS_H
#define FALT_CLI_COUNTS_H

#include <stdio.h>

#include "faltung/faltung.h"

typedef struct cli_counts {
  double multiplications;        /* zeros beyond the edges counted: outputs x taps */
  double multiplications_inside; /* ghost cells skipped: a product over the axes of N*M - r(r+1) */
  double ghost_cells;            /* positions beyond the edges that some output reads */
  double tiled_intensity; /* operations per byte with the filter cached and input tiles of 32 a side (1024 in 1D) */
  double reads_saved[4];  /* by tiling, for output tiles of tile[] a side */
  int tile[4];
  double tile_threads_in, tile_threads_out; /* threads of a block that is the input tile, the output tile (16 a side) */
  double tile_blocks, tile_shared_bytes;    /* blocks, and shared memory of one */
} cli_counts;

/* Counts of one slice (one image, one channel). */
cli_counts cli_count(const falt_problem *problem);
/* False for problems that are no filters: layers and pools have no such counts. */
bool cli_counts_apply(const falt_problem *problem);
void cli_counts_print(FILE *file, const falt_problem *problem);
void cli_counts_json(FILE *file, const char *line, const falt_problem *problem);

#endif
