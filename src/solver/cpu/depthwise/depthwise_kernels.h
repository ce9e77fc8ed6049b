/* Kernels for NHWC layers of small groups: sums of products of rows and weights, one vector of output channels at a
 * time. In a depthwise layer each group has one channel. */
#ifndef FALT_SOLVER_CPU_DEPTHWISE_DEPTHWISE_KERNELS_H
#define FALT_SOLVER_CPU_DEPTHWISE_DEPTHWISE_KERNELS_H

#include "core/cpu.h"
#include "core/types.h"
#include "solver/cpu/igemm_vnni/igemm_vnni_kernels.h"

/* A call computes a run of neighbouring positions for n channels. Its sums are cut into segments: neighbouring taps
 * along the width, read from one row. Rows are addresses, so a row may be one that the boundary chose, or missing. A
 * table lists columns that are not neighbours. Weights are packed by vectors of channels: each vector has all taps of
 * its channels, so the weights of one vector are contiguous for any number of channels.
 *
 * In kernels for narrow types an element of the source or of the weights below, a float, is a word of 4 bytes: two
 * channels of bf16 or four of bytes, which one instruction multiplies and adds. The words of the source need not be
 * aligned. */

enum { FALT_DEPTHWISE_TAPS = 7 /* of a near segment */, FALT_DEPTHWISE_AHEAD = 4, FALT_DEPTHWISE_WIDEST = 16 };
/* In a table: nothing is read here. */
#define FALT_DEPTHWISE_NONE INT64_MIN

/* The source of lane i of a vector, for channel j of its group's sources. */
typedef enum falt_depthwise_reads {
  FALT_READS_EACH, /* source i: groups have one channel, j is 0 */
  FALT_READS_PICK, /* source pick[i] + j: several small groups; a vector has no more sources than lanes */
  FALT_READS_ALL,  /* source j: a group whose outputs fill whole vectors */
} falt_depthwise_reads;

/* Channels of outputs and sources, in units: outputs [u*outputs, (u + 1)*outputs) read sources [u*sources, (u +
 * 1)*sources). A unit's outputs are cut into vectors of their own; a unit of EACH or PICK is one vector at most. */
typedef struct falt_depthwise_unit {
  falt_depthwise_reads reads;
  int32_t pick[FALT_DEPTHWISE_WIDEST];
  int64_t results, sources;
} falt_depthwise_unit;

/* Tap s < taps of position q reads row[q*step + s*tap_step], or row[at[s*positions + q]] if there is a table. In a near
 * segment, which has no table, step and tap_step are equal: one tap of position q + 1 and the next tap of position q
 * read the same column q + s, and only columns in [begin, end) are read. taps is the result of falt_depthwise_taps. */
typedef struct falt_depthwise_segment {
  const float *row; /* at the first channel */
  const int64_t *at;
  int64_t step, tap_step;
  int64_t begin, end;
  int64_t weight,
      weight_step; /* offset of its weights in a vector's, in elements; those of source j are j vectors further */
  int taps;
  int64_t depth; /* sources of a group */
  bool near;
} falt_depthwise_segment;

/* output = clip(bend(scale[i]*sum + offset[i] + residual)), as falt_layer_finish has it. */
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
  const falt_depthwise_unit *unit;
  int64_t weights_pitch;               /* between vectors of channels: taps*depth*width of the table */
  int64_t positions, n;                /* output channels; the last unit and vector need not be full */
  const falt_depthwise_finish *finish; /* NULL: sums are outputs */
  const float *weights;
  falt_type type; /* of outputs: f32; from sums of narrow types also any integer type, f16 and bf16 */
  void *out;
  int64_t out_step; /* between positions */
  /* Outputs are not read again soon: bypass the cache where whole lines are written. Units begin at lines then. */
  bool stream;
  /* The source of later calls, one vector for each of this call's positions and channels, which is prefetched. */
  const float *ahead[FALT_DEPTHWISE_AHEAD];
  int ahead_count;
  int64_t ahead_step;
} falt_depthwise_call;

/* sums[v][weight + s*weight_step + j*width] += sum over q < positions of by[q*by_step] * (the element of tap s of q for
 * j), for each segment of the call and vector v of channels; sums have the layout of weights. The call's fields
 * segments, count, unit, weights_pitch, positions, n and the prefetches are read. */
typedef struct falt_depthwise_gradient {
  falt_depthwise_call call;
  const float *by;
  int64_t by_step;
  float *sums;
} falt_depthwise_gradient;

typedef struct falt_depthwise_kernels {
  int width;    /* elements of a vector */
  int tile;     /* positions that keep their sums in registers together */
  double speed; /* products of elements that take the time of one in f32 */
  /* Each sum is a chain of multiply-adds for every 512 taps, in an order that does not depend on how positions are cut
   * into calls. */
  void (*sums)(const falt_depthwise_call *call);
  void (*gradient)(const falt_depthwise_gradient *call); /* in f32 */
} falt_depthwise_kernels;

/* How many of `left` taps that follow each other go into one segment. */
static inline int falt_depthwise_taps(falt_depthwise_reads reads, int64_t left) {
  if (reads != FALT_READS_EACH) return left < 3 ? (int)left : 3;
  return left >= FALT_DEPTHWISE_TAPS ? FALT_DEPTHWISE_TAPS : left == 6 ? 3 : (int)left;
}

/* The table for an instruction set, or for the highest one below it that was built, of words of f32, of bf16, or of u8
 * and weights of s8. Never NULL. */
const falt_depthwise_kernels *falt_depthwise_kernels_of(falt_tiles_kind kind, falt_isa isa);

#endif
