/* Kernels for dense layers, of f32 or of f64: row loaders, products of rows and a packed panel (batch-reduce GEMM over
 * address lists), and stores. M. Dukhan, "The Indirect Convolution Algorithm", 2019; E. Georganas et al.,
 * "High-Performance Deep Learning via a Single Building Block", 2020. */
#ifndef FALT_SOLVER_CPU_FPROP_LAYER_KERNELS_H
#define FALT_SOLVER_CPU_FPROP_LAYER_KERNELS_H

#include "core/cpu.h"
#include "core/types.h"

/* The outputs of a layer are a matrix, positions by channels; each is a sum over (tap, input channel). One of the two
 * runs along vectors (the columns of the panel), the other is broadcast element by element (the rows). The solver
 * chooses which, by the layout. Rows are lists of addresses, one for each segment of the sum: the input is read in
 * place, and an element outside is another address. The accumulators stay in registers over all segments. */

enum { FALT_LAYER_VECTORS = 4, FALT_LAYER_ROWS = 12, FALT_LAYER_WIDEST = 64 /* columns of a panel */ };
enum { FALT_LAYER_CHAIN = 512 }; /* of f32; a sum of f64 is one chain */
/* Segments of a depth in one chain. */
static inline int64_t falt_layer_chain(int64_t depth, int64_t chain) {
  return depth > 0 && depth < chain ? chain / depth : 1;
}

/* Elements to skip before a segment: of `a`, and of the panel. */
typedef struct falt_layer_jump {
  int64_t a, b;
} falt_layer_jump;

/* out[m][i] = (accumulate ? out[m][i] : 0)
 *           + sum over s < segments, j < depth of a[s*a_pitch + m][offset + j*(1 + skip)] * b[(s*depth + j)*pitch + i]
 *
 * for m < rows, i < n, where pitch is n rounded up to whole vectors, at most `vectors` of them, and b_skip elements;
 * rows are at most what the table says for so many. Jumps move a and b on before a segment, for it and those that
 * follow. Segments whose panels lie within `chain` rows, or `chain` rows of one segment, are one chain of multiply-adds
 * in the order s, j, and chains are added up in order: in one chain a long sum of f32 would lose as many bits as its
 * length has. A sum of f64 is one chain, which a call that accumulates continues. So the bits of a sum do not depend on
 * how rows and columns were cut into calls, nor the depth at the beginning of a chain. */
typedef struct falt_layer_product {
  const void *const *a;
  const void *b; /* all of the pitch is readable; faster where it is aligned to a vector */
  void *const *out;
  int64_t a_pitch, offset, segments, depth, n;
  int64_t skip, b_skip;         /* elements skipped between those of a row, never negative, and of the panel */
  const falt_layer_jump *jumps; /* one for each segment; NULL: none */
  /* Memory that is used next and is prefetched if panels are the widest: a line of 64 bytes at each step of the depth,
   * in runs of ahead_run lines with ahead_jump elements between them. NULL: none. */
  const void *ahead;
  int64_t ahead_run, ahead_jump;
  int rows;
  int results;   /* of `groups`: columns that one group has, n a multiple of it */
  int64_t chain; /* 0: FALT_LAYER_CHAIN; a segment ends a chain if it goes beyond it */
  bool accumulate;
} falt_layer_product;

/* to[j*to_pitch + i] = from[j*from_pitch + i*step] for j < count, i < n; steps and pitches of either sign. Fast where
 * elements of one of the two are adjacent: a copy of rows, or a transpose. */
typedef struct falt_layer_copy {
  const void *from;
  void *to;
  int64_t step, from_pitch, to_pitch, n, count;
} falt_layer_copy;

/* to[j*step + i] += from[j*pitch + i] for j < count, i < n. Runs overlap where step < n. */
typedef struct falt_layer_overlap {
  const void *from;
  void *to;
  int64_t pitch, step, n, count;
} falt_layer_overlap;

/* A number of the kernels' lane. */
typedef union falt_layer_number {
  float f32;
  double f64;
} falt_layer_number;

/* out[m][i] = clip(bend(scale*sums[m*pitch + i] + offset + residual[m][i])) for m < rows, i < n, with the scale and the
 * offset of the row (scale[m]) or of the column (scale[i]). out may be the sums. */
typedef struct falt_layer_finish {
  const void *sums;
  void *const *out;
  const void *const *residual; /* NULL: none */
  const void *scale, *offset;
  int64_t pitch, n;
  int rows;
  falt_activation curve;       /* one that is no clip, or the identity */
  falt_layer_number slope;     /* of the leaky one */
  falt_layer_number low, high; /* infinities: no clip. NaN passes */
} falt_layer_finish;

typedef struct falt_layer_kernels {
  size_t lane_size;                 /* bytes of an element */
  int width;                        /* elements of a vector */
  int vectors;                      /* the most of a panel */
  int rows[FALT_LAYER_VECTORS + 1]; /* the most of a call, by the panel's vectors */
  int group_rows;                   /* the most of a call of `groups` */
  void (*product)(const falt_layer_product *call);
  /* The same for several small groups adjacent in one vector: column i reads a[..][offset + i/outputs*depth + j]. n and
   * n/outputs*depth are at most a vector's width, multiples of outputs and of depth. All segments; does not accumulate.
   */
  void (*groups)(const falt_layer_product *call);
  void (*copy)(const falt_layer_copy *call);
  void (*overlap)(const falt_layer_overlap *call);
  void (*finish_by_row)(const falt_layer_finish *call);
  void (*finish_by_column)(const falt_layer_finish *call);
} falt_layer_kernels;

static inline falt_layer_number falt_layer_number_of(const falt_layer_kernels *kernels, double value) {
  const bool wide = kernels->lane_size == sizeof(double);
  return wide ? (falt_layer_number){.f64 = value} : (falt_layer_number){.f32 = (float)value};
}

/* The tables for an instruction set, or for the highest one below it that was built, of f32 and of f64. Never NULL. */
const falt_layer_kernels *falt_layer_kernels_for(falt_isa isa);
const falt_layer_kernels *falt_layer_kernels_f64_for(falt_isa isa);

#endif
