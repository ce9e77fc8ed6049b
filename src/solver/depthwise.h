/* Depthwise layers whose channels are adjacent: what the solvers share that run them through cpu/depthwise.h.
 *
 * A depthwise layer is a set of groups of one channel in and out; here "channels" are these groups. Results are walked
 * in rows along the width. A row is cut into spans of positions that read the source alike, and what a span reads of
 * one source row is a list of pieces: neighbouring taps, with a table of columns where the boundary or a stride spoils
 * their order. Spans and pieces are the same for all rows, so the plan has them; an execution only adds the addresses
 * of the rows under its window. */
#ifndef FALT_SOLVER_DEPTHWISE_H
#define FALT_SOLVER_DEPTHWISE_H

#include "cpu/depthwise.h"
#include "solver/generic.h"
#include "solver/layer.h"

typedef struct falt_depthwise_piece {
  int64_t from, step, tap_step; /* elements from the source row's first position */
  int64_t table, table_length;  /* in falt_depthwise.tables; no length: none */
  int64_t tap, tap_next;        /* of the filter, along the width */
  int taps;
  bool near, constant; /* constant: of the row of the constant instead */
} falt_depthwise_piece;

typedef struct falt_depthwise_span {
  int64_t origin, step, count; /* results */
  int64_t first, pieces;
} falt_depthwise_span;

typedef struct falt_depthwise {
  falt_layer layer; /* the problem and its epilogue */
  const falt_depthwise_kernels *kernels;
  falt_generic_plan relation; /* only what links and meets read: which results meet which sources by which taps */
  int64_t channels, vectors, taps;
  int64_t pitch; /* elements of all weights of a vector of channels */
  falt_depthwise_span *spans;
  falt_depthwise_piece *pieces;
  int64_t *tables;
  int64_t span_count, piece_count, table_length;
  int64_t rows_most, pieces_most; /* source rows of a result row, pieces of a span */
  double useful;                  /* the share of multiply-adds that are not with zeros outside */
} falt_depthwise;

/* Fills *d, or returns why not (a clause for falt_refuse). falt_depthwise_free afterwards in either case. `extra` taps
 * have room among the weights behind those of the filter. *no_memory is set where memory was the reason. */
const char *falt_depthwise_init(falt_depthwise *d, const falt_problem *problem, falt_isa isa, int64_t extra,
                                bool *no_memory);
void falt_depthwise_free(falt_depthwise *d);

/* Source rows that one row of results reads. */
typedef struct falt_depthwise_row {
  int64_t source; /* element, or -1: the constant */
  int64_t tap;    /* of the first of its taps */
} falt_depthwise_row;

/* Results' rows are numbered over (n, d, h), h innermost. */
static inline int64_t falt_depthwise_rows(const falt_depthwise *d) {
  const int64_t *size = d->relation.result.size;
  return size[FALT_N] * size[FALT_D] * size[FALT_H];
}
/* The element at which a tensor of results has row `row`. */
int64_t falt_depthwise_at(const falt_depthwise *d, const falt_tensor *tensor, int64_t row);
/* Rows under the window of `row`, at most rows_most; their number. */
int64_t falt_depthwise_sources(const falt_depthwise *d, int64_t row, falt_depthwise_row *list);

/* What a span reads, as segments: at most rows_most*segments_of_a_row. Their number. */
int64_t falt_depthwise_segments(const falt_depthwise *d, const falt_depthwise_span *span,
                                const falt_depthwise_row *rows, int64_t count, const float *source,
                                const float *constant, falt_depthwise_segment *segments);
/* Sets what a span's call brings nearer: of the source's rows that the next row of results is the first to read, one
 * column for each of the span's positions (and those between, where there is a stride). */
void falt_depthwise_ahead(const falt_depthwise *d, const falt_depthwise_span *span, const falt_depthwise_row *rows,
                          int64_t count, const falt_depthwise_row *next, int64_t next_count, const float *source,
                          falt_depthwise_call *call);
/* The most that one result row and span need. */
static inline int64_t falt_depthwise_segments_most(const falt_depthwise *d) {
  const int64_t constants = falt_ceil_div(d->layer.p.filter.size[FALT_W], FALT_DEPTHWISE_TAPS);
  return d->rows_most * falt_max(d->pieces_most, constants);
}

/* How many vectors of channels of the rows under a window stay in half of the second-level cache, at least 4. */
int64_t falt_depthwise_block(const falt_depthwise *d, const falt_device *device);

#endif
