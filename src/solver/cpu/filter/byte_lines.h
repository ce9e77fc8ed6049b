/* Rows of bytes for kernels that filter bytes. A task moves down a strip and keeps input rows in a ring of lines. A
 * line includes the boundary's pixels, so kernels need no boundary code. 2D, stride 1. */
#ifndef FALT_SOLVER_CPU_FILTER_BYTE_LINES_H
#define FALT_SOLVER_CPU_FILTER_BYTE_LINES_H

#include "solver/cpu/common/rows.h"

/* The ring and the blocks of a plan. A block of the kernel has `rows` output rows. */
typedef struct falt_byte_lines {
  int64_t rows, block[3];
  int64_t slots;     /* lines of the ring */
  size_t pitch;      /* of a line */
  size_t ring, idle; /* in a worker's scratch; idle: results of rows beyond the task */
  falt_memory_layout scratch;
} falt_byte_lines;

/* Why rows of bytes are not for these kernels, or NULL: u8 at stride 1 without an epilogue, adjacent along x, taps at
 * most most_step elements apart. */
const char *falt_byte_lines_refusal(const falt_rows *rows, const falt_problem *problem, int64_t most_step);

/* Blocks for a kernel of `tile` rows and lines that are readable over the columns of a strip, those under the filter,
 * and `beyond` bytes. Parts that the kernel needs may be placed in scratch before or after. */
void falt_byte_lines_init(falt_byte_lines *lines, const falt_rows *rows, const falt_device *device, int64_t tile,
                          int64_t strip, size_t beyond);

/* One block of a task: `rows` + R - 1 input lines and `rows` output rows, each of `n` elements, as the kernel takes
 * them; scratch: the worker's. */
typedef void falt_byte_kernel(const falt_plan *plan, const uint8_t **list, void **out, int64_t n, char *scratch);

/* Executes a plan of byte lines: all tasks on all threads, block after block. */
void falt_byte_lines_run(const falt_plan *plan, const falt_byte_lines *lines, const falt_rows *rows,
                         const falt_operands *operands, falt_byte_kernel *kernel);

#endif
