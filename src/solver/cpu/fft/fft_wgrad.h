/* The plan of the solver fft-wgrad: shared by its planning half (fft_wgrad.c), its choice of tiles (fft_wgrad_tile.c),
 * its running half (fft_wgrad_run.c) and its sums of what is not finite (fft_wgrad_direct.c). */
#ifndef FALT_SOLVER_CPU_FFT_FFT_WGRAD_H
#define FALT_SOLVER_CPU_FFT_FFT_WGRAD_H

#include "solver/cpu/fft/fft_plan.h"

/* How one axis is cut. A tile gives `block` taps of dw the products with `part` positions of dy. */
typedef struct falt_fft_wgrad_cut {
  int64_t size; /* of the transform; 1 where the axis is not transformed */
  int64_t block, blocks;
  int64_t part, parts;
  bool cyclic; /* the tile is the whole input, and its transform wraps as the boundary does */
} falt_fft_wgrad_cut;

typedef struct falt_fft_wgrad_tile {
  falt_fft_wgrad_cut cut[3];
  double work; /* multiply-adds of the whole problem */
} falt_fft_wgrad_tile;

/* What is known of a task's sums. */
typedef struct falt_fft_wgrad_about {
  int exponent;        /* of the power of two by which the sums are to be multiplied */
  bool summed, direct; /* whether there are sums of products of spectra, and direct ones */
  double bias;
} falt_fft_wgrad_about;

typedef struct falt_fft_wgrad_plan {
  falt_plan base;
  falt_rows rows; /* x is the input, dy the taps, dw the output: strides and dilations change places */
  falt_rows by;   /* dy as an input */
  falt_fft_wgrad_tile tile;
  falt_fft_shape shape;
  int64_t outputs, by_step;                     /* output channels of a group; elements between them in dy */
  int64_t units, terms, slices;                 /* blocks of all filters; images and parts of each; slices of these */
  size_t spectrum_at, direct_at, about_at;      /* in sums */
  size_t planes_at, row_at, factors_at, own_at; /* in a worker's scratch */
  size_t sums_at;                               /* in the workspace, of all units and slices, if there are several */
  falt_memory_layout sums, scratch;
} falt_fft_wgrad_plan;

/* Images and parts that each tap sums. */
int64_t falt_fft_wgrad_terms(const falt_rows *rows, const falt_fft_wgrad_tile *tile);
/* The cheapest tiles whose planes, for each of the workers, fit into `most` bytes; false if none do. */
bool falt_fft_wgrad_tile_choose(falt_fft_wgrad_tile *tile, const falt_rows *rows, const falt_fft_lane *lane,
                                int64_t filters, const falt_device *device, bool deterministic, int64_t most);

/* One pair of tiles in the time domain, for sums tap by tap. */
typedef struct falt_fft_wgrad_direct {
  const falt_rows *rows;
  const falt_fft_wgrad_cut *cut;
  const falt_fft_shape *shape;
  const char *x, *dy;              /* planes of a tile */
  int64_t in[3], out[3], block[3]; /* positions of x and dy in them, and taps */
  char *sums;                      /* of the taps, dense */
} falt_fft_wgrad_direct;

/* Adds the products of which a factor is not finite. */
void falt_fft_wgrad_direct_add(const falt_fft_wgrad_direct *d);

void falt_fft_wgrad_execute(const falt_plan *plan, const falt_operands *operands);

static inline double falt_fft_wgrad_get(falt_lane lane, const char *from, int64_t i) {
  return lane == FALT_LANE_F32 ? (double)((const float *)(const void *)from)[i]
                               : ((const double *)(const void *)from)[i];
}

static inline void falt_fft_wgrad_add(falt_lane lane, char *to, int64_t i, double value) {
  if (lane == FALT_LANE_F32)
    ((float *)(void *)to)[i] += (float)value;
  else
    ((double *)(void *)to)[i] += value;
}

#endif
