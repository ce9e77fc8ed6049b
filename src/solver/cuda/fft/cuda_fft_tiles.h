/* Tiles of cuda_fft.cu: points and parts of the filter along each axis. Enumerates all, rejects the illegal ones with a
 * reason, and keeps the one with the smallest estimated time. Plain C, no GPU needed. */
#ifndef FALT_SOLVER_CUDA_FFT_CUDA_FFT_TILES_H
#define FALT_SOLVER_CUDA_FFT_CUDA_FFT_TILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/machine.h"
#include "solver/cuda/common/tile_search.h"

/* A filter as the kernel sees it. Axes are in the order depth, height, width. */
typedef struct falt_cuda_fft_problem {
  int64_t out[3], taps[3], stride[3], dilation[3];
  int64_t filters, images;  /* images of each filter */
  int real_bytes;           /* of a sum */
  int x_bytes, y_bytes;     /* of an element in, out */
  int64_t x_step, y_step;   /* elements between neighbouring columns */
  bool known, far;          /* known: the filter's values are, when planning; far: the epilogue is more than beta */
  int64_t most_bytes;       /* of the workspace; negative: any number */
  double cache_bytes_per_s; /* of the second-level cache */
} falt_cuda_fft_problem;

typedef struct falt_cuda_fft_tile {
  int log[3]; /* of the points */
  int64_t part_taps[3], parts[3], block[3], tiles[3];
  int64_t all_parts, boxes, pairs; /* tiles and pairs of tiles of a filter */
  int threads, blocks;             /* blocks: on a multiprocessor */
  int64_t shared_bytes;
  double spectra_bytes; /* of all filters */
  double seconds;
  const char *rejected; /* NULL: legal */
} falt_cuda_fft_tile;

/* Bytes of the workspace: a filter that is not known leaves its spectra there. */
double falt_cuda_fft_workspace(const falt_cuda_fft_problem *problem, const falt_cuda_fft_tile *tile);

/* Offers every tile to the search. */
void falt_cuda_fft_each(const falt_cuda_fft_problem *problem, const falt_machine *machine, falt_tile_search *search);
/* The best; false with the reason of the least bad one if none is legal. */
bool falt_cuda_fft_choose(const falt_cuda_fft_problem *problem, const falt_machine *machine, falt_cuda_fft_tile *best);

/* The twiddles of a tile as cuda_fft.cuh reads them, real and imaginary parts; their number, if `to` is NULL. */
size_t falt_cuda_fft_twiddles(const int log[3], double *to);

#endif
