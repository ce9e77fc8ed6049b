/* Kernels for repeated boxes, on positions of FALT_BOXES_BYTES: neighbouring lines, one a lane, that are filtered
 * alike. Compiled once per instruction set. */
#ifndef FALT_SOLVER_CPU_RUNNING_SUMS_REPEATED_BOXES_KERNELS_H
#define FALT_SOLVER_CPU_RUNNING_SUMS_REPEATED_BOXES_KERNELS_H

#include "core/cpu.h"
#include "solver/cpu/filter/filter_kernels.h"

enum { FALT_BOXES_BYTES = 128 };

/* out[i] = (plus ? plus[i] : 0) + weight * (in[i] + in[i + step] + ... + in[i + (size - 1)*step]), for all windows
 * inside [0, count) positions. `out` may be `in`. Pitches are in bytes. Everything is aligned to 64 bytes; rows and,
 * without `stream`, `out` to elements. */
typedef struct falt_boxes_sum {
  const void *in;
  const void *const *rows; /* NULL, or position i of the input is `offset` bytes behind rows[i]; not with `plus` */
  size_t offset;
  void *out;
  const void *plus; /* NULL, or with the pitch FALT_BOXES_BYTES */
  void *ends[2];    /* scratch: `size` positions each, with the pitch FALT_BOXES_BYTES */
  size_t in_pitch, out_pitch;
  int64_t count, size, step;
  double weight;
  bool stream; /* results bypass the caches */
} falt_boxes_sum;

typedef struct falt_boxes_kernels {
  void (*sum)(const falt_boxes_sum *call);
  /* Lines of `count` elements, `pitch` bytes apart, to positions, and back. Lines are readable and writable, and
   * positions are there, up to the next multiple of 64 bytes or of 16 positions. */
  void (*to_positions)(void *positions, const void *lines, size_t pitch, int64_t count);
  void (*to_lines)(void *lines, size_t pitch, const void *positions, int64_t count);
} falt_boxes_kernels;

/* The table of a lane for an instruction set, or for the highest one below it that was built. Never NULL. */
const falt_boxes_kernels *falt_boxes_f32_for(falt_isa isa);
const falt_boxes_kernels *falt_boxes_f64_for(falt_isa isa);

#endif
