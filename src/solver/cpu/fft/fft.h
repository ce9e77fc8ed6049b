/* The plan of the solver fft: shared by its planning half (fft.c), its choice of tiles (fft_tile.c) and its running
 * half (fft_run.c). */
#ifndef FALT_SOLVER_CPU_FFT_FFT_H
#define FALT_SOLVER_CPU_FFT_FFT_H

#include "solver/cpu/fft/fft_plan.h"

/* How one axis is cut. */
typedef struct falt_fft_cut {
  int64_t size;  /* of the transform, in elements; rows of a tile where the axis is not transformed */
  int64_t block; /* outputs of a tile */
  bool transformed;
  bool cyclic; /* the tile is the whole input, and its transform wraps as the boundary does */
} falt_fft_cut;

typedef struct falt_fft_tile {
  falt_fft_cut cut[3];
  double work; /* multiply-adds of the whole problem */
} falt_fft_tile;

/* What is known of the taps of a group. */
typedef struct falt_fft_filter {
  int exponent;  /* of the power of two by which the taps are divided before they are transformed */
  double weight; /* sum of the taps' magnitudes; infinite or NaN where one is not finite */
} falt_fft_filter;

typedef struct falt_fft_plan {
  falt_plan base;
  falt_problem problem; /* axes relabelled */
  falt_rows rows;
  falt_fft_tile tile;
  falt_fft_shape shape;
  int64_t block[3];
  bool exact, stream;                    /* sums are whole numbers; outputs bypass the caches */
  int64_t filters, tap_count;            /* filters, and taps of each */
  bool each;                             /* a task makes the spectrum of its filter: too many to keep */
  const void *values;                    /* the filter, from planning until the plan is ready */
  char *taps, *spectra;                  /* of all filters, dense; NULL if they are made at execution */
  falt_fft_filter *about;                /* of all filters, with them */
  size_t taps_at, spectra_at, about_at;  /* their offsets in the workspace */
  size_t planes_at, row_at, spectrum_at; /* in a worker's scratch */
  falt_memory_layout scratch;
} falt_fft_plan;

/* The cheapest tiles whose planes, for each of the workers, fit into `most` bytes; false if none do. */
bool falt_fft_tile_choose(falt_fft_tile *tile, const falt_rows *rows, const falt_fft_lane *lane, int64_t filters,
                          const falt_device *device, bool deterministic, int64_t most);

/* Dense taps, spectra and what is known of a filter. `tile` has room for two planes. */
void falt_fft_filter_make(const falt_fft_plan *plan, const char *taps, int exponent, void *tile, void *spectrum);
falt_fft_filter falt_fft_filter_about(const falt_fft_plan *plan, const char *taps);

void falt_fft_execute(const falt_plan *plan, const falt_operands *operands);

#endif
