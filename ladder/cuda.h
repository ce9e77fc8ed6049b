/* Private to the ladder: the description and the launch of a step's kernels. */
#ifndef FALT_LADDER_CUDA_H
#define FALT_LADDER_CUDA_H

#include "cuda/compile.h"
#include "ladder/kernels/shape.h"
#include "ladder/ladder.h"

/* A kernel made ready for a task, on paper: needs no GPU. */
typedef struct ladder_launch {
  const struct ladder_kernel *of;
  falt_cuda_kernel kernel;
  int64_t blocks[3]; /* x, y, z */
  int threads[3];
  int64_t shared_bytes;
  double tile_inputs, tile_outputs; /* of the tile that inputs are shared in, one channel; 0: no tile */
} ladder_launch;

typedef struct ladder_kernel {
  const char *source, *entry;
  int step; /* its number in the source: each is compiled alone */
  /* Fills blocks, threads, tile and the kernel's parameters; or says why the kernel does not serve. */
  const char *(*shape)(const ladder_task *task, ladder_launch *launch);
  bool taps_as_argument; /* else w is a pointer */
  bool is_layer;         /* takes a ladder_layer_size, else a ladder_size */
  enum {
    LADDER_X_TO_Y,
    LADDER_X_TO_BETWEEN,
    LADDER_BETWEEN,
    LADDER_BETWEEN_TO_Y,
    LADDER_W_TO_BETWEEN,
    LADDER_X_BETWEEN_TO_Y /* `between` in the place of w */
  } operands;
} ladder_kernel;

/* A kernel of transforms. */
typedef struct ladder_transform {
  ladder_kernel kernel;
  int levels; /* of radix 2 that a thread does in registers; 0: the definition */
  int pieces; /* segments or tiles of one block; 0: the kernel is of the filter */
} ladder_transform;

/* The launch of a kernel, or why there is none. */
const char *ladder_launch_make(const ladder_kernel *kernel, const ladder_task *task, ladder_launch *launch);

#endif
