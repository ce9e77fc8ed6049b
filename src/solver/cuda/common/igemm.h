/* Index relations and tile shapes of the implicit GEMM kernels: polyphase parts of a dgrad, the table of the GEMM
 * depth, and the tile search. Plain C, no GPU needed. src/solver/cuda/igemm_sm80/cuda_igemm.cu is the kernel. */
#ifndef FALT_SOLVER_CUDA_COMMON_IGEMM_H
#define FALT_SOLVER_CUDA_COMMON_IGEMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/device/args.h"
#include "cuda/machine.h"
#include "solver/cuda/common/tile_search.h"

/* ---- polyphase parts of the stride, axis by axis */

typedef struct falt_igemm_axis {
  int64_t source, results, taps; /* sizes: read, written */
  int64_t stride, dilation, pad; /* the problem's */
} falt_igemm_axis;

/* A polyphase part along one axis has outputs begin, begin + pitch, ... Tap i of output q reads position q*step + first
 * + i*delta of the source, and is tap from + i*pace of the filter. */
typedef struct falt_igemm_polyphase {
  int64_t begin, pitch, results;
  int64_t step, first, delta, taps, from, pace;
} falt_igemm_polyphase;

/* All outputs of a forward layer. */
falt_igemm_polyphase falt_igemm_forward(const falt_igemm_axis *axis);
/* A dgrad has `stride` polyphase parts: outputs `polyphase`, polyphase + stride, ... use the same taps. */
int64_t falt_igemm_polyphases(const falt_igemm_axis *axis);
falt_igemm_polyphase falt_igemm_backward(const falt_igemm_axis *axis, int64_t polyphase);

/* n/d = n*reciprocal >> shift for all n < 2^31; d from 1 to 2^31 - 1. */
void falt_igemm_divisor(int64_t d, unsigned *reciprocal, int *shift);

/* ---- the table of the GEMM depth: one entry for each piece of a window */

typedef struct falt_igemm_depth {
  int64_t channels;                     /* of a tap */
  int64_t piece;                        /* channels of an entry, a divisor of a tap's */
  int64_t entries;                      /* padded to whole steps */
  int64_t axis_bytes[3], channel_bytes; /* strides of the source's axes and channels */
  int64_t even;                         /* of spans: a divisor of their offsets and leads */
} falt_igemm_depth;

/* Fills the entries of one polyphase part. False if an offset does not fit into an entry. */
bool falt_igemm_entries(const falt_igemm_depth *depth, const falt_igemm_polyphase polyphase[3],
                        falt_cuda_igemm_entry *entry);
/* Pixels, numbered across images and axes, that are evenly spaced modulo the 16 bytes of a span. After `polyphases` of
 * them the offset of the first position modulo 16 bytes repeats. */
typedef struct falt_igemm_evenly {
  int64_t apart, even; /* bytes between neighbours; a divisor of all offsets */
  int polyphases;
  bool groups; /* groups are numbered, and pixels are multiples of 16 bytes apart */
} falt_igemm_evenly;

/* The spacing from the number of outputs, the bytes between their first positions and the bytes between positions, for
 * images and three axes. group_bytes: between groups, 0 if there is one. False if pixels are not evenly spaced. */
bool falt_igemm_lie_evenly(const int64_t results[4], const int64_t step_bytes[4], const int64_t bytes[4],
                           int64_t group_bytes, falt_igemm_evenly *evenly);

/* The entries of spans: an entry is 16 aligned bytes, the first position is `lead` bytes after an aligned address, and
 * channels are contiguous. A tap has falt_igemm_span_bytes bytes for any lead. */
bool falt_igemm_spans(const falt_igemm_depth *depth, const falt_igemm_polyphase polyphase[3], int64_t lead,
                      falt_cuda_igemm_entry *entry);
int64_t falt_igemm_span_bytes(const falt_igemm_depth *depth);
bool falt_igemm_places(const falt_igemm_depth *depth, const falt_igemm_polyphase polyphase[3],
                       falt_cuda_igemm_place *place);

/* ---- tiles */

/* From this number of channels on, outputs in rows that are not a multiple of 16 bytes are stored by adjacent lanes. */
enum { FALT_IGEMM_RAGGED = 8 };

typedef struct falt_igemm_shape {
  int64_t pixels, channels, depth; /* of the largest product: rows, columns, bytes of a row's depth */
  int64_t products;                /* polyphase parts and groups */
  double bytes;                    /* memory traffic */
  int x_bytes, y_bytes;            /* of an element */
  int unit;                        /* bytes of a piece */
  int merged, step;                /* merged groups, whose channels are the bytes of a step; else 1, 0 */
  int gather;                      /* channels of an entry that are loaded one by one; 0: contiguous */
  int64_t apart; /* bytes between pixels that one instruction loads, modulo 16 for spans; 0: contiguous,
                  * or equal leads */
  bool fold, split, planar, split_k, real; /* split_k: the depth may be cut; real: f32 epilogue */
  bool spans;                              /* pieces are aligned words with channels of other pixels */
  bool ragged;                             /* rows of the output are not multiples of 16 bytes */
  int64_t workspace;                       /* limit for split-K slices; negative: none */
} falt_igemm_shape;

typedef struct falt_igemm_tile {
  int bm, bn, warps[2]; /* outputs of a block, its warps along both */
  int row, stages;      /* bytes of a step, steps in shared memory */
  int promote;          /* steps between additions to the f32 accumulator */
  bool wgmma;           /* use wgmma */
  int blocks;           /* on a multiprocessor */
  int shared_bytes;
  int split_k, slice_steps; /* of the depth; split-K slices are added by a second kernel */
  int64_t workspace;
  double seconds;
} falt_igemm_tile;

/* Offers every tile of the kernel to the search, with its estimate. */
void falt_igemm_each(const falt_igemm_shape *shape, const falt_machine *machine, falt_tile_search *search);
/* The best tile. */
void falt_igemm_choose(const falt_igemm_shape *shape, const falt_machine *machine, falt_igemm_tile *best);

/* ---- tiles of weight gradients */

typedef struct falt_igemm_wgrad_shape {
  int64_t pixels, rows, columns, groups;
  double bytes;
  int x_bytes;
  int unit[2];    /* of y, of x */
  bool gather[2]; /* the same */
  bool split, fold;
  int64_t workspace; /* limit; negative: none */
} falt_igemm_wgrad_shape;

typedef struct falt_igemm_wgrad_tile {
  int bm, bn, warps[2], pixels, stages, promote, blocks, shared_bytes;
  int64_t split_k, slice_steps; /* of the pixels */
  int64_t workspace;
  double seconds;
} falt_igemm_wgrad_tile;

void falt_igemm_wgrad_each(const falt_igemm_wgrad_shape *shape, const falt_machine *machine, falt_tile_search *search);
void falt_igemm_wgrad_choose(const falt_igemm_wgrad_shape *shape, const falt_machine *machine,
                             falt_igemm_wgrad_tile *best);

#endif
