/* Kernels for depthwise layers whose channels are adjacent: sums of products of rows and weights, vector by vector.
 *
 * A call makes a run of neighbouring positions for n channels. Its sums are cut into segments: taps that follow each
 * other along the width, read from one row. Rows are addresses, so a row may be one that the boundary chose, or
 * missing; columns that do not follow each other are listed in a table. Weights are packed by vectors of channels: for
 * each, all taps of its channels (weights of one vector lie together, whatever the number of channels). */
#ifndef FALT_CPU_DEPTHWISE_H
#define FALT_CPU_DEPTHWISE_H

#include "core/cpu.h"
#include "core/types.h"

enum { FALT_DEPTHWISE_TAPS = 7 /* of a near segment */, FALT_DEPTHWISE_AHEAD = 4 };
/* In a table: nothing is read here. */
#define FALT_DEPTHWISE_NONE INT64_MIN

/* Tap s < taps of position q reads row[q*step + s*tap_step], or row[at[s*positions + q]] where there is a table. In a
 * near segment step and tap_step are equal, position q + 1 reads by one tap what position q reads by the next, and the
 * table is at[q + s]. */
typedef struct falt_depthwise_segment {
  const float *row; /* at the first channel */
  const int64_t *at;
  int64_t step, tap_step;
  int64_t weight, weight_step; /* where its weights are in a vector's, in elements */
  int taps;
  bool near;
} falt_depthwise_segment;

/* result = clip(bend(scale[i]*sum + offset[i] + residual)), as falt_layer_finish has it. */
typedef struct falt_depthwise_finish {
  const float *scale, *offset;
  const float *residual; /* NULL: none */
  int64_t residual_step; /* between positions */
  falt_activation curve;
  float slope, low, high;
} falt_depthwise_finish;

typedef struct falt_depthwise_call {
  const falt_depthwise_segment *segments;
  int64_t count;
  int64_t weights_pitch;               /* between vectors of channels: taps*width of the table */
  int64_t positions, n;                /* channels; the last vector need not be full */
  const falt_depthwise_finish *finish; /* NULL: sums are results */
  const float *weights;
  float *out;
  int64_t out_step; /* between positions */
  bool stream;      /* results are not read again soon: bypass the cache where whole lines are written */
  /* What later calls read, one vector for each of this call's positions and channels; brought nearer meanwhile. */
  const float *ahead[FALT_DEPTHWISE_AHEAD];
  int ahead_count;
  int64_t ahead_step;
} falt_depthwise_call;

/* sums[v][weight + s*weight_step] += sum over q < positions of by[q*by_step] * (what tap s of q reads), for each
 * segment of the call and vector v of channels; sums are laid out like weights. Of the call, segments, count,
 * weights_pitch, positions, n and what is ahead are read. */
typedef struct falt_depthwise_gradient {
  falt_depthwise_call call;
  const float *by;
  int64_t by_step;
  float *sums;
} falt_depthwise_gradient;

typedef struct falt_depthwise_kernels {
  int width; /* elements of a vector */
  int tile;  /* positions that keep their sums in registers together */
  /* Each sum is one chain of multiply-adds in the order of segments and taps, however positions are cut into calls. */
  void (*sums)(const falt_depthwise_call *call);
  void (*gradient)(const falt_depthwise_gradient *call);
} falt_depthwise_kernels;

/* The table for an instruction set, or for the highest one below it that was built. Never NULL. */
const falt_depthwise_kernels *falt_depthwise_kernels_for(falt_isa isa);

#endif
