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

/* ---- phases: what is computed, axis by axis */

typedef struct falt_igemm_axis {
  int64_t source, results, taps; /* sizes: of what is read, of what is written */
  int64_t stride, dilation, pad; /* the problem's */
} falt_igemm_axis;

/* Along one axis: outputs begin, begin + pitch, ...; output q reads with its tap i position q*step + first + i*delta of
 * the source, and tap i is tap from + i*pace of the filter. */
typedef struct falt_igemm_phase {
  int64_t begin, pitch, results;
  int64_t step, first, delta, taps, from, pace;
} falt_igemm_phase;

/* All outputs of a forward layer. */
falt_igemm_phase falt_igemm_forward(const falt_igemm_axis *axis);
/* A data gradient falls into as many phases as the stride has steps: outputs `phase`, phase + stride, ... use
 * the same taps. */
int64_t falt_igemm_phases(const falt_igemm_axis *axis);
falt_igemm_phase falt_igemm_backward(const falt_igemm_axis *axis, int64_t phase);

/* n/d = n*reciprocal >> shift for all n < 2^31; d from 1 to 2^31 - 1. */
void falt_igemm_divisor(int64_t d, unsigned *reciprocal, int *shift);

/* ---- the table of a depth: an entry a piece of a window */

typedef struct falt_igemm_depth {
  int64_t channels;                     /* of a tap */
  int64_t piece;                        /* channels of an entry, which divide those of a tap */
  int64_t entries;                      /* with those beyond the depth, up to whole steps */
  int64_t axis_bytes[3], channel_bytes; /* from one position of the source, one channel, to the next */
  int64_t even;                         /* of spans: what divides their ways and leads */
} falt_igemm_depth;

/* Fill `entries` entries of one phase. False if a way is longer than an entry can say. */
bool falt_igemm_entries(const falt_igemm_depth *depth, const falt_igemm_phase phase[3], falt_cuda_igemm_entry *entry);
/* Pixels that are numbered across images and axes and lie evenly, modulo the 16 bytes of a span: a way that the number
 * times. After so many of them, the phases, their first positions lie as far behind a multiple of 16 as before. */
typedef struct falt_igemm_evenly {
  int64_t apart, even; /* bytes between neighbours; what divides all ways */
  int phases;
  bool groups; /* it is groups that are numbered, and pixels lie apart by multiples of 16 bytes */
} falt_igemm_evenly;

/* Of images and three axes: how many outputs, bytes between their first positions, between positions; of groups: bytes
 * between them, 0 if there is one. False if they do not lie so. */
bool falt_igemm_lie_evenly(const int64_t results[4], const int64_t step_bytes[4], const int64_t bytes[4],
                           int64_t group_bytes, falt_igemm_evenly *evenly);

/* The same of spans: an entry is 16 bytes from a multiple of 16 on, if the first position lies `lead` bytes behind one
 * and channels side by side. A tap has falt_igemm_span_bytes of them, whatever the lead. */
bool falt_igemm_spans(const falt_igemm_depth *depth, const falt_igemm_phase phase[3], int64_t lead,
                      falt_cuda_igemm_entry *entry);
int64_t falt_igemm_span_bytes(const falt_igemm_depth *depth);
bool falt_igemm_places(const falt_igemm_depth *depth, const falt_igemm_phase phase[3], falt_cuda_igemm_place *place);

/* ---- tiles */

/* Outputs of so many channels, in rows that 16 bytes do not divide, are stored by lanes side by side. */
enum { FALT_IGEMM_RAGGED = 8 };

typedef struct falt_igemm_shape {
  int64_t pixels, channels, depth;         /* of the largest product: rows, columns, bytes of a row's depth */
  int64_t products;                        /* phases and groups */
  double bytes;                            /* that must pass through memory */
  int x_bytes, y_bytes;                    /* of an element */
  int unit;                                /* bytes of a piece */
  int merged, step;                        /* groups in one, whose channels are a step's bytes; 1, 0 */
  int gather;                              /* channels of an entry of pieces that lie apart; 0: they are contiguous */
  int64_t apart;                           /* bytes between pixels that are gathered at once, of spans modulo theirs; 0:
                                            * they are contiguous, or all spans begin as the first */
  bool fold, split, planar, split_k, real; /* split-K slices: the depth may be cut; real: outputs are finished in f32 */
  bool spans;                              /* pieces are aligned words, of which some are no channel of their tap */
  bool ragged;                             /* 16 bytes do not divide the rows of outputs */
  int64_t workspace;                       /* that split-K slices of the depth may use; negative: any */
} falt_igemm_shape;

typedef struct falt_igemm_tile {
  int bm, bn, warps[2]; /* outputs of a block, its warps along both */
  int row, stages;      /* bytes of a step, steps in shared memory */
  int promote;          /* steps between additions to the long sum */
  bool wgmma;           /* by warpgroups */
  int blocks;           /* on a multiprocessor */
  int shared_bytes;
  int split_k, slice_steps; /* of the depth; split-K slices are added by a second kernel */
  int64_t workspace;
  double seconds;
} falt_igemm_tile;

/* Calls visit for every tile that the kernel can take, with its estimate. */
void falt_igemm_each(const falt_igemm_shape *shape, const falt_machine *machine, falt_tile_search *search);
/* The best of them. */
void falt_igemm_choose(const falt_igemm_shape *shape, const falt_machine *machine, falt_igemm_tile *best);

/* ---- tiles of weight gradients */

typedef struct falt_igemm_wgrad_shape {
  int64_t pixels, rows, columns, groups;
  double bytes;
  int x_bytes;
  int unit[2];    /* of y, of x */
  bool gather[2]; /* the same */
  bool split, fold;
  int64_t workspace; /* that may be used; negative: any */
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
