/* Band matrices for tensor cores: splits taps into numbers that tensor cores multiply exactly, packs the matrices, and
 * chooses the tiles of cuda_toeplitz.cu. Plain C, no GPU needed. */
#ifndef FALT_SOLVER_CUDA_TOEPLITZ_CUDA_TOEPLITZ_TILES_H
#define FALT_SOLVER_CUDA_TOEPLITZ_CUDA_TOEPLITZ_TILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/machine.h"
#include "solver/cuda/common/tile_search.h"

/* By the numbers of mma.cuh's Kind. */
typedef enum falt_toeplitz_kind {
  FALT_BANDS_BYTES,  /* s8 taps, exact sums */
  FALT_BANDS_HALVES, /* f16 */
  FALT_BANDS_BRAINS, /* bf16 */
  FALT_BANDS_WORDS   /* tf32 */
} falt_toeplitz_kind;

typedef struct falt_toeplitz {
  falt_toeplitz_kind kind;
  int taps[3];              /* planes, rows, columns */
  int pixel;                /* distance of taps: interleaved channels that are not separated */
  int channels;             /* interleaved channels that a lane separates */
  int per_word;             /* elements in 32 bits */
  int depth;                /* blocks of four rows of a footprint */
  int chunks, slots, pairs; /* its columns, in pieces; words of a piece; products for a block of a piece */
  int parts;                /* numbers whose sum is a tap */
  bool transposed;          /* transposed products: the image is the first operand */
  double unit;              /* a tap is unit * (sum of its parts), the first being the largest */
  double error;             /* of the split taps: root of the sum of squares */
  double relative_error;    /* the largest, relative to its tap */
} falt_toeplitz;

/* Describes the Toeplitz matrices of a filter; taps are in the order planes, rows, columns. */
void falt_toeplitz_make(falt_toeplitz *bands, falt_toeplitz_kind kind, const int taps[3], int pixel,
                        const double *values);

/* Conversion of integer sums to outputs without an instruction: each sum starts at the bits of the float 1.5 * 2^23,
 * whose neighbours are one apart, so its bits are a float that is too large by this bias. An output is
 *
 *   ((offset + weight[0] * sum[0]) + weight[1] * sum[1]) + weight[2] * sum[2]
 *
 * with one rounding each. The offset subtracts the bias (folded) if it stays a float; otherwise each sum subtracts it.
 */
enum { FALT_BANDS_START = 0x4b400000 };

typedef struct falt_toeplitz_bias {
  float weight[3], offset;
  bool folded;
  double error; /* of an output, at most; 0: none is rounded */
} falt_toeplitz_bias;

/* The conversion for outputs alpha * sum + beta of elements up to `most`. False if sums would leave the range, or if
 * outputs would lose more precision than f32 sums. */
bool falt_toeplitz_bias_make(falt_toeplitz_bias *bias, const falt_toeplitz *bands, const double *values, double most,
                             double alpha, double beta);

/* Bytes of all bands, and the bands in the order in which the kernel's lanes read them. */
size_t falt_toeplitz_bytes(const falt_toeplitz *bands);
void falt_toeplitz_fill(const falt_toeplitz *bands, const double *values, void *memory);

/* ---- how an image is cut */

typedef struct falt_toeplitz_image {
  int64_t out[3]; /* outputs: planes, rows, elements of a row (channels included) */
  int64_t batch;
  int x_bytes, y_bytes; /* of an element */
  bool aligned;         /* rows allow vector access */
} falt_toeplitz_image;

/* Where the kernel reads bands from: its parameter BANDS. */
typedef enum falt_toeplitz_place { FALT_BANDS_REGISTERS, FALT_BANDS_SHARED, FALT_BANDS_GLOBAL } falt_toeplitz_place;

enum { FALT_BANDS_WARPS = 4 }; /* of a block */

typedef struct falt_toeplitz_cut {
  falt_toeplitz_place place;
  int groups, tiles;    /* of a lane: along a row, along a column */
  int steps, end_steps; /* of a warp down the image; at its edges, where a step takes longer */
  int blocks;           /* that should fit on a multiprocessor */
  int shared_bytes;
  /* the estimate */
  int registers;
  double seconds;
} falt_toeplitz_cut;

/* Outputs of a warp along a row, and down. */
int falt_toeplitz_width(const falt_toeplitz *bands, const falt_toeplitz_cut *cut);
int falt_toeplitz_height(const falt_toeplitz_cut *cut);

/* Whether the persistent variant applies (cuda_toeplitz_ring.cuh): filters of u8 or s8 images of up to five rows whose
 * windows, which start `before` elements before their output, reach no farther than a neighbouring lane's words. */
bool falt_toeplitz_ringed(const falt_toeplitz *bands, const falt_toeplitz_cut *cut, int before);

/* Offers every shape of the kernel to the search, with its estimate. */
void falt_toeplitz_each(const falt_toeplitz *bands, const falt_toeplitz_image *image, const falt_machine *machine,
                        falt_tile_search *search);
/* The best shape; there is always one. */
void falt_toeplitz_choose(const falt_toeplitz *bands, const falt_toeplitz_image *image, const falt_machine *machine,
                          falt_toeplitz_cut *best);

#endif
