/* Kernels for filters on rows: the arithmetic of every filter of any dimension, type, boundary or layout. */
#ifndef FALT_SOLVER_CPU_FILTER_FILTER_KERNELS_H
#define FALT_SOLVER_CPU_FILTER_FILTER_KERNELS_H

#include "core/cpu.h"
#include "core/types.h"

/* A kernel reads contiguous rows of the accumulator's type (f32 or f64) and has no boundaries: a row above the image is
 * a pointer to the row that the boundary puts there, the ends of rows come from small edge buffers, and interleaved
 * pixels or dilation are a wider step between taps. Each instruction set has its own table; the portable one is the
 * specification. */

/* Taps of one chain in f32: 1,000 equal terms can exceed the tolerance. */
enum { FALT_FILTER_CHAIN = 31 * 31, FALT_FILTER_MOST_ROWS = 16 };

/* out[p][x] = (accumulate ? out[p][x] : 0)
 *           + sum over i < r, plane < planes, j < s of
 *             taps[(plane*r + i)*s + j] * rows[plane*row_count + p + i][x + j*step]
 *
 * for x in [0, n), with row_count = r + p_count - 1, where p_count is tile_rows for `tile`, 1 for `single` and `count`
 * for `blocked`. In f64, and up to FALT_FILTER_CHAIN taps in f32, a sum is one chain of multiply-adds in the order i,
 * plane, j. More taps are cut into pieces, each a chain of its own, and these are added in order: a long chain in f32
 * would lose as many bits as its length has. The cut depends on planes, r and s alone, so the bits of an output do not
 * depend on the cut of the work into calls. `blocked` takes no more than one chain. */
typedef struct falt_filter_rows {
  const void *const *rows; /* each readable over [0, n + (s-1)*step) and not a byte beyond */
  const void *taps;
  void *const *out; /* may be unaligned; exactly n elements of each are written */
  int64_t n;
  int planes, r, s;
  int64_t step;
  bool accumulate;
  bool stream;                 /* out is not read again soon: bypass the cache where that helps */
  int count;                   /* output rows (blocked only): more than r, and r - 1 more than a multiple of r */
  const void *const *prefetch; /* NULL, or p_count rows of a later call, to be prefetched; not `single` */
} falt_filter_rows;

/* The store of a row of sums: dst = convert(clip(alpha*sum + beta)). */
typedef struct falt_row_epilogue {
  double alpha, beta;
  double low, high; /* applied before conversion; infinities when there is no activation */
} falt_row_epilogue;

typedef enum falt_lane { FALT_LANE_F32, FALT_LANE_F64, FALT_LANE_COUNT } falt_lane;

typedef struct falt_filter_kernels {
  falt_isa isa;
  int tile_rows;    /* output rows of one `tile` call */
  int tile_vectors; /* vectors of each in registers, for printed plans */
  void (*tile[FALT_LANE_COUNT])(const falt_filter_rows *call);
  void (*single[FALT_LANE_COUNT])(const falt_filter_rows *call);
  /* 2.5D blocking, the fastest for filters of few rows, 2 <= r <= blocked_most (0: not built): every input row is
   * loaded once. Does not accumulate. */
  int blocked_most;
  void (*blocked[FALT_LANE_COUNT])(const falt_filter_rows *call);
  /* dst[i] = src[i*stride] converted to the lane's type; stride may be negative. */
  void (*load[FALT_LANE_COUNT][FALT_TYPE_COUNT])(void *dst, const void *src, int64_t stride, int64_t n);
  /* dst[i*stride] = src[i] through the epilogue; integers rounded to the nearest, ties to even, and saturated, NaN
   * becomes 0 there.
   */
  void (*store[FALT_LANE_COUNT][FALT_TYPE_COUNT])(void *dst, int64_t stride, const void *src, int64_t n,
                                                  const falt_row_epilogue *epilogue, bool stream);
} falt_filter_kernels;

/* Calls a kernel for one piece of the taps after another. rows: its output rows, at most FALT_FILTER_MOST_ROWS;
 * lane_size: bytes of an element. */
void falt_filter_in_pieces(const falt_filter_rows *call, int rows, size_t lane_size,
                           void (*kernel)(const falt_filter_rows *call));

static inline bool falt_filter_is_chain(size_t lane_size, int64_t planes, int64_t r, int64_t s) {
  return lane_size > sizeof(float) || planes * r * s <= FALT_FILTER_CHAIN;
}

/* The table for an instruction set, or for the highest one below it that was built. Never NULL. */
const falt_filter_kernels *falt_filter_kernels_for(falt_isa isa);

#endif
