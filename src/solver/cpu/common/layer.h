/* Helpers of the forward solvers of dense layers, which run the kernels of solver/cpu/fprop/layer_kernels.h. */
#ifndef FALT_SOLVER_CPU_COMMON_LAYER_H
#define FALT_SOLVER_CPU_COMMON_LAYER_H

#include "planner/planner.h"
#include "solver/cpu/fprop/layer_kernels.h"

/* Outputs are a matrix of positions by channels for each group. Positions are numbered over (n, d, h, w) with w
 * innermost; neighbours along w form a row. Taps are numbered over (t, r, s). */

typedef struct falt_layer {
  falt_problem p;
  const falt_layer_kernels *kernels;
  int64_t positions, taps, channels, results; /* channels in and out of a group */
  int64_t together;                           /* positions whose outputs are consecutive in memory */
  bool plain;                                 /* sums are outputs: no epilogue */
  falt_activation curve;                      /* the activation, unless it is a clip */
  double low, high;                           /* the clip */
} falt_layer;

/* The address of an element of data of the kernels' lane. */
static inline void *falt_layer_at(const falt_layer *layer, const void *data, int64_t index) {
  return (char *)(uintptr_t)data + index * (int64_t)layer->kernels->lane_size;
}

/* Sets the fields of the epilogue for any layer: p, plain, curve, low and high. */
void falt_layer_epilogue(falt_layer *layer, const falt_problem *problem);
/* Fills *layer, or returns why the problem is none (a clause for falt_refuse). */
const char *falt_layer_init(falt_layer *layer, const falt_problem *problem, falt_isa isa);
/* The same for layers of f32 or of f64, with the kernels of that lane. */
const char *falt_layer_init_lane(falt_layer *layer, const falt_problem *problem, falt_isa isa);
/* The same for the forward layer, without its bias, of a wgrad problem. */
const char *falt_layer_init_gradient(falt_layer *layer, const falt_problem *problem, falt_isa isa);
/* falt_layer_init for any types. */
const char *falt_layer_shape(falt_layer *layer, const falt_problem *problem, falt_isa isa);

/* Whether the constant, if there is one, is a number of the input's type. */
bool falt_layer_has_constant(const falt_problem *problem);
/* Whether taps read zeros outside the input, or nothing. */
bool falt_layer_zeros_outside(const falt_problem *problem);

/* `whole` things cut into `count` pieces that differ by one at most: piece i is [falt_layer_piece(i), ... (i + 1)). */
typedef struct falt_layer_pieces {
  int64_t count, size, larger; /* the first `larger` pieces have one more */
} falt_layer_pieces;

static inline falt_layer_pieces falt_layer_cut(int64_t whole, int64_t count) {
  return (falt_layer_pieces){count, whole / count, whole % count};
}
static inline int64_t falt_layer_piece(const falt_layer_pieces *pieces, int64_t i) {
  return pieces->size * i + falt_min(i, pieces->larger);
}
/* The same cut with the larger pieces spread, so that neighbouring pieces are equal shares of the whole. */
static inline int64_t falt_layer_even(const falt_layer_pieces *pieces, int64_t i) {
  return pieces->size * i + pieces->larger * i / pieces->count;
}
static inline int64_t falt_layer_most(const falt_layer_pieces *pieces) {
  return pieces->size + (pieces->larger > 0);
}

/* ---- positions */

/* Fraction of the multiply-add peak that products reach, by the vectors of their panel, measured on layers of 7 x 7 to
 * 56 x 56 with AVX-512: with one vector, rows take as many loads as multiply-adds. */
static inline double falt_layer_share(int64_t vectors) {
  return vectors == 1 ? 0.65 : vectors == 2 ? 0.8 : 0.85;
}

/* The same for wgrad, whose sums leave the registers after each chunk of positions. */
static inline double falt_layer_gradient_share(int64_t vectors) {
  return 0.85 * falt_layer_share(vectors);
}

typedef struct falt_layer_point {
  int64_t n, at[3];
} falt_layer_point;

falt_layer_point falt_layer_point_at(const falt_layer *layer, int64_t position);
/* How many of the `most` positions from one on have outputs that follow each other. */
static inline int64_t falt_layer_together(const falt_layer *layer, int64_t position, int64_t most) {
  return falt_min(most, layer->together - position % layer->together);
}
/* How many of the next `most` positions are in the same row. */
static inline int64_t falt_layer_run(const falt_layer *layer, const falt_layer_point *point, int64_t most) {
  return falt_min(most, layer->p.output.size[FALT_W] - point->at[2]);
}
/* Advances by at most the rest of the row. */
void falt_layer_advance(const falt_layer *layer, falt_layer_point *point, int64_t count);

/* Where output `o` and tap `j` of an axis read the input: its index there, or -1 for the constant. */
static inline int64_t falt_layer_source(const falt_layer *layer, int axis, int64_t o, int64_t j) {
  const falt_axis *a = &layer->p.axis[axis];
  const int64_t u = o * a->stride + j * a->dilation - a->pad[0], size = layer->p.input.size[FALT_D + axis];
  return u >= 0 && u < size ? u : falt_axis_map(a, size, u);
}

/* Copies n elements of 1, 2, 4 or 8 bytes, `step` elements apart, to contiguous elements at `to`. */
void falt_layer_gather(const char *from, int64_t step, int64_t n, int64_t size, char *restrict to);

/* Copies every stride-th element of a line of the input along the width, `count` of them from pixel w on, which may be
 * outside it, to contiguous elements at `to`. `line` is the address of pixel 0 of a channel; NULL: the constant, one
 * element of which is at hand. */
void falt_layer_line(const falt_layer *layer, const void *line, int64_t w, int64_t count, const void *constant,
                     void *to);

/* Where a tap, by its number over (t, r, s), is in a filter as seen from its first tap, in elements. */
static inline int64_t falt_layer_tap_at(const falt_tensor *w, int64_t tap) {
  const int64_t row = tap / w->size[FALT_W];
  return row / w->size[FALT_H] * w->stride[FALT_D] + row % w->size[FALT_H] * w->stride[FALT_H] +
         tap % w->size[FALT_W] * w->stride[FALT_W];
}
/* to[tap*to_pitch + i] = the filter's value of a tap at the i-th of n elements `step` apart, for all taps; `from` is
 * the first element at the first tap. */
void falt_layer_copy_taps(const falt_layer_kernels *kernels, const falt_tensor *w, const float *from, int64_t step,
                          int64_t n, float *to, int64_t to_pitch);

/* to[i] = value, for i < n elements of the kernels' lane. */
void falt_layer_fill(const falt_layer_kernels *kernels, void *to, int64_t n, double value);

/* Memory for a filter that is packed when planning. */
falt_status falt_layer_room(float **packed, size_t floats);

/* ---- outputs */

/* scale and offset of all channels, 2*G*K elements of f32, or of f64 if the output is, as the epilogue needs them. */
void falt_layer_factors(const falt_layer *layer, const falt_operands *operands, void *factors);

/* A block of sums in the scratch to be stored: output (m, i) is element out[m] + out_shift + i*out_step of the output.
 */
typedef struct falt_layer_block {
  void *sums;
  int64_t pitch, n;
  int rows;
  bool by_row; /* channels are the rows; else the columns */
  const int64_t *out, *residual;
  int64_t out_shift, residual_shift, out_step, residual_step;
  int64_t channel; /* of the first row or column, G*K numbering */
  const void *factors;
} falt_layer_block;

void falt_layer_store(const falt_layer *layer, const falt_operands *operands, const falt_layer_block *block);

/* Rows of sums, one for each output channel, of `count` positions from `first` on; at most FALT_LAYER_ROWS rows. */
typedef struct falt_layer_rows {
  float *sums;
  int64_t pitch, first, count;
  int64_t group, channel; /* of the first row, in its group */
  int rows;
  const float *factors;
} falt_layer_rows;

void falt_layer_store_rows(const falt_layer *layer, const falt_operands *operands, const falt_layer_rows *r);

#endif
