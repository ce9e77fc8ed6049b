/* The cut of a problem on host arrays into slabs that pass through a device in sequence: arithmetic without memory or
 * device. */
#ifndef FALT_API_SLABS_H
#define FALT_API_SLABS_H

#include "problem/problem.h"

/* Rows of one of the caller's arrays and of its slab on the device. Row r of the slab is the array's row
 * falt_problem_row(first + r); its bytes are dense in both. Offsets are bytes from the operand's address. */
typedef struct falt_slab_rows {
  int64_t here, here_pitch; /* of the array's row 0, and from row to row */
  int64_t there_pitch;
  int64_t row_bytes;
  int64_t first, count;
  int64_t skip;          /* first rows of the slab that are not moved: another slab has them */
  int64_t size;          /* rows of the array */
  const falt_axis *axis; /* NULL: rows are never outside the array */
} falt_slab_rows;

typedef struct falt_slab {
  falt_problem problem; /* of the slab, on buffers that begin with its lowest element */
  falt_slab_rows source, residual, result;
} falt_slab;

typedef struct falt_slabs {
  const falt_problem *problem;
  bool goes_back;      /* reads the output, writes the input */
  int dim;             /* the cut one: FALT_N, FALT_G or an axis */
  bool walked[FALT_D]; /* N, G: one index at a time */
  int64_t rows, step;  /* along dim: of the result, and of each slab */
  int64_t count;       /* slabs */
} falt_slabs;

/* Cuts into slabs of about `wanted` bytes, and of `most` bytes at most if that is possible. False where the arrays
 * cannot be cut: gradients of filters, sums over all of the array, channels outermost, rows with gaps inside. */
bool falt_slabs_cut(falt_slabs *slabs, const falt_problem *problem, int64_t wanted, int64_t most);

/* The slab with this index. */
falt_status falt_slab_describe(const falt_slabs *slabs, int64_t index, falt_slab *slab);

/* Bytes of the slab's buffer on the device. */
static inline int64_t falt_slab_bytes(const falt_slab_rows *rows) {
  return rows->count ? (rows->count - 1) * rows->there_pitch + rows->row_bytes : 0;
}

/* The bytes of a slab's copies, and one run of them: from byte `at` as many as are contiguous on both sides, up to
 * `end`. */
static inline int64_t falt_slab_moved(const falt_slab_rows *rows) {
  return (rows->count - rows->skip) * rows->row_bytes;
}
typedef struct falt_slab_piece {
  int64_t here, there, bytes;
} falt_slab_piece;
falt_slab_piece falt_slab_next(const falt_slab_rows *rows, int64_t at, int64_t end);

#endif
