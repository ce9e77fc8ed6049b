/* Layers of small groups, NHWC: declarations of the solvers that run solver/cpu/depthwise/depthwise_kernels.h. */
#ifndef FALT_SOLVER_CPU_DEPTHWISE_DEPTHWISE_H
#define FALT_SOLVER_CPU_DEPTHWISE_DEPTHWISE_H

#include "solver/cpu/common/layer.h"
#include "solver/cpu/common/upconvert.h"
#include "solver/cpu/depthwise/depthwise_kernels.h"
#include "solver/generic/generic.h"

/* An output has `depth` sources: the channels of its group. Outputs are processed in rows along the width. A row is cut
 * into spans of positions that read the source in the same way. The reads of a span from one source row are a list of
 * pieces: neighbouring taps, with a table of columns where the boundary or a stride changes their order. Spans and
 * pieces are the same for all rows, so the plan holds them; an execution only adds the addresses of the rows under its
 * window.
 *
 * Pixels of bf16, and of u8 with s8 weights, are read in place as words of 4 bytes if the instruction set has dot
 * products for them, and outputs are stored in the narrow type. Otherwise kernels compute in f32: rows of narrow types
 * are upconverted when a window first reads them and stay in a worker's scratch; outputs wait there for a span and are
 * then narrowed. Memory moves narrow elements only. */

typedef struct falt_depthwise_piece {
  int64_t from, step, tap_step; /* elements from the source row's first position */
  int64_t begin, end;           /* columns that are read, if there is no table */
  int64_t table, table_length;  /* in falt_depthwise.tables; no length: none */
  int64_t tap, tap_next;        /* of the filter, along the width */
  int64_t tap_every;            /* the same in taps of the link */
  int64_t repeats;              /* segments that follow, each `taps` taps on; none with a table */
  int taps;
  bool near, constant; /* constant: of the row of the constant instead */
} falt_depthwise_piece;

typedef struct falt_depthwise_span {
  int64_t origin, step, count; /* outputs */
  int64_t first, pieces;
} falt_depthwise_span;

typedef struct falt_depthwise {
  falt_layer layer; /* the problem, its operands as kernels take them, and its epilogue */
  const falt_depthwise_kernels *kernels;
  const falt_filter_kernels *convert;
  falt_type source_type, result_type;
  falt_tiles_kind kind;       /* of words that are multiplied */
  int64_t word;               /* channels of the source in one */
  bool upconverts;            /* source rows are to be f32 and are not */
  falt_generic_plan relation; /* only the fields for links: which outputs read which sources by which taps */
  falt_depthwise_unit unit;
  int64_t channels, depth, taps;        /* outputs of all groups; words of sources of each */
  int64_t units, unit_vectors, vectors; /* vectors of a unit and of all */
  int64_t pitch;                        /* elements of all weights of a vector of channels */
  int64_t block;                        /* units of a task, at most */
  int64_t pixel;                        /* words between columns of a source row, as kernels read it */
  int64_t strip;                        /* lines of outputs of a plane that are processed before the next plane's */
  int64_t slots;                        /* converted rows that a task keeps */
  falt_depthwise_span *spans;           /* these three from falt_depthwise_ready on */
  falt_depthwise_piece *pieces;
  int64_t *tables;
  int64_t span_count, piece_count, table_length;
  int64_t tile_count;                       /* of a row of outputs */
  int64_t segments, segments_most;          /* of one source row: of the last span, and of any at most */
  int64_t rows_most, pieces_most, longest;  /* source rows of an output row, segments and positions of a span */
  double products[FALT_DEPTHWISE_TAPS + 1]; /* positions by taps, over a row of outputs, by a segment's taps */
  double columns;                           /* that are read for them */
  double useful;                            /* the fraction of multiply-adds that are not with zeros outside */
} falt_depthwise;

/* Fills *d, or returns the reason that it cannot (a clause for falt_refuse). Call falt_depthwise_free afterwards in
 * either case. There is room for `extra` taps of one source after the filter's weights. *no_memory is set if memory was
 * the reason. */
const char *falt_depthwise_init(falt_depthwise *d, const falt_problem *problem, const falt_device *device,
                                int64_t extra, bool *no_memory);
void falt_depthwise_free(falt_depthwise *d);

/* Counts the spans and segments of an output row, and samples them for estimates: part of falt_depthwise_init. */
const char *falt_depthwise_count(falt_depthwise *d, bool *no_memory);
/* Makes the spans, their pieces and tables: for a plan's `ready`. */
falt_status falt_depthwise_ready(falt_depthwise *d);

/* Bytes of the problem's filter in f32, if it is narrow and kernels need f32. */
size_t falt_depthwise_wide_bytes(const falt_depthwise *d, const falt_problem *problem);

/* Whether a group has more than one channel in or out. */
static inline bool falt_depthwise_is_grouped(const falt_problem *p) {
  return p->input.size[FALT_C] != 1 || p->output.size[FALT_C] != 1;
}

/* Channels of the source in all groups. */
static inline int64_t falt_depthwise_source_channels(const falt_depthwise *d) {
  return d->relation.source.size[FALT_G] * d->depth;
}
/* Bytes of an element of the source in memory. */
static inline int64_t falt_depthwise_source_bytes(const falt_depthwise *d) {
  return (int64_t)falt_type_size(d->source_type);
}

/* ---- weights: (vector, tap, source, lane) */

/* Neighbouring lanes of a vector whose weights are equally spaced in the filter. */
typedef struct falt_depthwise_patch {
  int64_t lane, lanes;
  int64_t k, g, c; /* of the first lane and source */
  int64_t lane_step, source_step;
} falt_depthwise_patch;

/* The next patch of a vector, from {0} on; false behind the last. */
bool falt_depthwise_next_patch(const falt_depthwise *d, int64_t vector, falt_depthwise_patch *patch);
/* The output channel of a vector's first lane; *lanes is set to how many it has. */
int64_t falt_depthwise_lanes(const falt_depthwise *d, int64_t vector, int64_t *lanes);

/* ---- rows */

/* Source rows that one row of outputs reads. */
typedef struct falt_depthwise_row {
  int64_t source;  /* element, or -1: the constant */
  int64_t tap;     /* of the first of its taps */
  const float *at; /* in f32, at the block's first channel */
} falt_depthwise_row;

/* `count` columns of n channels: `step` elements apart in their tensor, `pixel` in f32. */
typedef struct falt_depthwise_strip {
  int64_t count, n, step, pixel;
} falt_depthwise_strip;

/* Elements of a tensor from `narrow` on as f32, and back, rounded to the nearest value, ties to even. */
void falt_depthwise_upconvert(const falt_depthwise *d, const falt_depthwise_strip *strip, falt_type type,
                              const void *narrow, float *wide);
void falt_depthwise_narrow(const falt_depthwise *d, const falt_depthwise_strip *strip, falt_type type,
                           const float *wide, void *narrow);

/* Outputs' rows are numbered over (n, strip of h, d, h within the strip). */
static inline int64_t falt_depthwise_rows(const falt_depthwise *d) {
  const int64_t *size = d->relation.result.size;
  return size[FALT_N] * size[FALT_D] * size[FALT_H];
}
/* The element at which a tensor of outputs has row `row`. */
int64_t falt_depthwise_at(const falt_depthwise *d, const falt_tensor *tensor, int64_t row);

/* ---- a task: a block of units, row by row */

typedef struct falt_depthwise_scratch {
  size_t rows, next, segments, constant, slots, window;
  falt_memory_layout parts;
} falt_depthwise_scratch;

/* A converted row: its source element, and the last step of the task that read it. */
typedef struct falt_depthwise_slot {
  int64_t source, step;
} falt_depthwise_slot;

/* The scratch of a task on at most `units`, with `extra` segments in addition to those of the taps. */
falt_depthwise_scratch falt_depthwise_lay(const falt_depthwise *d, int64_t units, int64_t extra);

typedef struct falt_depthwise_task {
  const falt_depthwise *d;
  const char *source;       /* at the block's first channel */
  int64_t unit, vector;     /* the block's first */
  int64_t result, results;  /* its channels */
  int64_t channels;         /* of the source */
  bool ahead;               /* the next row is prefetched during the sums of one */
  falt_depthwise_row *rows; /* under the window of this row of outputs */
  falt_depthwise_row *next; /* and of the one after it */
  int64_t sources, next_sources;
  falt_depthwise_segment *segments;
  float *constant;
  falt_depthwise_slot *slots; /* of the window */
  float *window;
  int64_t step;
} falt_depthwise_task;

/* The task of units [unit, end), in a worker's scratch. */
falt_depthwise_task falt_depthwise_open(const falt_depthwise *d, const falt_depthwise_scratch *at, void *scratch,
                                        const void *source, int64_t unit, int64_t end);
/* Elements of a converted row. */
static inline int64_t falt_depthwise_slot_floats(const falt_depthwise *d) {
  return d->relation.source.size[FALT_W] * d->pixel;
}
/* Sees to it that the task's rows are in its window, and says where. */
void falt_depthwise_bring(falt_depthwise_task *task);
/* Makes `row` the task's row, its source rows in f32; `last` is the end of its rows, which are to be taken in their
 * order. */
void falt_depthwise_advance(falt_depthwise_task *task, int64_t row, bool first, int64_t last);
/* The kernel call for a span of the task's row: its segments, and its prefetches. */
falt_depthwise_call falt_depthwise_call_of(const falt_depthwise_task *task, const falt_depthwise_span *span);

/* The bands of a weight gradient: pieces of rows, or of groups of rows, with so many positions each. They are so long
 * that clearing and adding the sums of a band do not matter, and depend on the problem alone: the order of sums must
 * not depend on threads. */
falt_layer_pieces falt_depthwise_bands(int64_t rows, int64_t positions, int64_t sums);

/* For estimates: the fraction of an axis's taps, over all outputs, that is inside the input. */
double falt_depthwise_inside(const falt_problem *problem, int axis);
/* The operations of all lanes, shuffles and calls, and the bytes of weights beyond the first reading. */
double falt_depthwise_flops(const falt_depthwise *d);
double falt_depthwise_conversions(const falt_depthwise *d, const falt_problem *problem); /* operations */
double falt_depthwise_reread(const falt_depthwise *d, const falt_device *device);

#endif
