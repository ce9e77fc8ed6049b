/* Tiles of cuda_fft.cu: points and parts of the filter along each axis. Enumerates all, rejects the illegal ones with a
 * reason, and keeps the one with the smallest estimated time. Plain C, no GPU needed. */
#ifndef FALT_SOLVER_CUDA_FFT_CUDA_FFT_TILES_H
#define FALT_SOLVER_CUDA_FFT_CUDA_FFT_TILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/machine.h"
#include "solver/cuda/common/tile_search.h"

/* Points of a thread; threads of a block that sums products. */
enum { FALT_FFT_SLOTS = 16, FALT_FFT_PRODUCT_THREADS = 256 };

/* A filter as the kernel sees it. Axes are in the order depth, height, width. */
typedef struct falt_cuda_fft_problem {
  int64_t in[3], out[3], taps[3], stride[3], dilation[3], pad[3];
  bool zeros[3];            /* beyond both ends */
  int64_t filters, images;  /* images of each filter */
  int real_bytes;           /* of a sum */
  int x_bytes, y_bytes;     /* of an element in, out */
  int64_t x_step, y_step;   /* elements between neighbouring columns */
  bool wgrad;               /* products of all images are added, and taps are of each image */
  bool known, far;          /* known: the filter's values are, when planning; far: the epilogue is more than beta */
  int64_t most_bytes;       /* of the workspace; negative: any number */
  double cache_bytes_per_s; /* of the second-level cache */
} falt_cuda_fft_problem;

typedef struct falt_cuda_fft_tile {
  int log[3]; /* of the points */
  int64_t part_taps[3], parts[3], block[3], tiles[3];
  int64_t all_parts, boxes, pairs; /* tiles and pairs of tiles of a filter */
  int axis;                        /* spectra of tiles along it are kept; -1: none are */
  int64_t segments, steps, inputs; /* of the axis; tiles of a segment; tiles of the input that they read */
  int64_t strands, shift;          /* strands: pairs of segments of a launch; shift: see cuda_fft_args.h */
  int group;                       /* tiles whose products a thread sums */
  int threads, blocks;             /* blocks: on a multiprocessor */
  int64_t shared_bytes;
  double spectra_bytes; /* of all filters */
  double seconds;
  const char *rejected; /* NULL: legal */
} falt_cuda_fft_tile;

/* Bytes of the workspace: a filter that is not known leaves its spectra there. */
double falt_cuda_fft_workspace(const falt_cuda_fft_problem *problem, const falt_cuda_fft_tile *tile);

/* Bytes of the spectra that a launch keeps. */
double falt_cuda_fft_kept(const falt_cuda_fft_problem *problem, const falt_cuda_fft_tile *tile);

/* Offers every tile of a method to the search. */
typedef void falt_cuda_fft_method(const falt_cuda_fft_problem *problem, const falt_machine *machine,
                                  falt_tile_search *search);
/* One transform forward and back for each part of the filter; filters cut along one axis, with the spectra of the
 * input's tiles kept; and sums of products over images, whose filter may be one part. */
falt_cuda_fft_method falt_cuda_fft_each, falt_cuda_fft_each_partitioned, falt_cuda_fft_each_wgrad;
/* The best of a method; false with the reason of the least bad one if none is legal. */
bool falt_cuda_fft_choose(falt_cuda_fft_method *method, const falt_cuda_fft_problem *problem,
                          const falt_machine *machine, falt_cuda_fft_tile *best);

/* ---- shared by the searches */

typedef struct falt_cuda_fft_axis {
  int64_t out, taps, stride, dilation, reach; /* reach: positions that all outputs read */
} falt_cuda_fft_axis;

/* Of the estimates: the fraction of the issue rate that a block reaches between its barriers; instructions of a point
 * beside those of the passes; seconds of a launch. */
typedef struct falt_cuda_fft_rates {
  double issue_share, load, store, far, launch;
} falt_cuda_fft_rates;
extern const falt_cuda_fft_rates falt_cuda_fft_rates_of_points;

/* The arguments of a method. */
typedef struct falt_cuda_fft_search {
  const falt_cuda_fft_problem *problem;
  const falt_machine *machine;
  falt_tile_search *tiles;
} falt_cuda_fft_search;

/* Calls `visit` with the logarithms of each tile's lengths. */
typedef void falt_cuda_fft_visit(const falt_cuda_fft_search *search, const falt_cuda_fft_axis axes[3],
                                 const int log[3]);
void falt_cuda_fft_each_log(const falt_cuda_fft_search *search, falt_cuda_fft_visit *visit);
/* Parts and tiles along an axis; `way` 0 leaves the filter whole if it fits. False: there is no such way. */
bool falt_cuda_fft_set_axis(const falt_cuda_fft_axis *axis, falt_cuda_fft_tile *tile, int i, int log, int way);
/* Threads, blocks, shared memory, and the bytes of spectra. */
void falt_cuda_fft_set_block(const falt_cuda_fft_problem *problem, const falt_machine *machine,
                             falt_cuda_fft_tile *tile);
/* Why a tile is illegal, or NULL. */
const char *falt_cuda_fft_reason(const falt_cuda_fft_problem *problem, const falt_machine *machine,
                                 const falt_cuda_fft_tile *tile);

double falt_cuda_fft_points_of(const falt_cuda_fft_tile *tile);
/* How many bytes a row of a tile moves for each that it has. */
double falt_cuda_fft_sectors(double columns, int bytes, int64_t step);
/* Instructions of a transform a point, in f32; how many times as long they take in the problem's type. */
double falt_cuda_fft_transform_steps(const falt_cuda_fft_tile *tile);
double falt_cuda_fft_wide(const falt_cuda_fft_problem *problem, const falt_machine *machine);
/* Seconds for filters that come with the execution. */
double falt_cuda_fft_filters_of(const falt_cuda_fft_problem *problem, const falt_machine *machine,
                                const falt_cuda_fft_tile *tile);

/* The twiddles of a tile as cuda_fft.cuh reads them, real and imaginary parts; their number, if `to` is NULL. */
size_t falt_cuda_fft_twiddles(const int log[3], double *to);

#endif
