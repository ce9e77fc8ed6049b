/* Images between planes of channels (NCHW) and adjacent channels (NHWC), of any types that f32 holds, or f64. */
#ifndef FALT_SOLVER_CPU_COMMON_PLANES_H
#define FALT_SOLVER_CPU_COMMON_PLANES_H

#include "planner/planner.h"

int64_t falt_planes_pixels(const falt_tensor *tensor);
/* Whether the pixels of a channel follow each other. */
bool falt_planes_adjacent(const falt_tensor *tensor);
/* So many images of the same shape, of a type, their channels adjacent. */
falt_tensor falt_planes_packed(const falt_tensor *planar, int64_t images, falt_type type);

/* The element type of an NHWC copy of NCHW data that kernels read in f32: a 16-bit type is kept from AVX-512 on, which
 * transposes 16-bit elements; every other type is converted to f32. */
falt_type falt_planes_kept(const falt_device *device, falt_type planar);

typedef struct falt_planes {
  const falt_tensor *planar; /* the caller's, its pixels adjacent */
  void *data;                /* its elements */
  int64_t first, images;     /* which of its images */
  int channel;               /* the dimension of its channels: FALT_G or FALT_C; the other has size 1 */
  falt_type type;            /* of packed, as falt_planes_packed has it */
  void *packed;
  bool back; /* from packed to planar */
} falt_planes;

/* Copies on all threads. Types that differ are converted, rounded to the nearest value, ties to even. */
void falt_planes_move(const falt_device *device, const falt_planes *planes);

/* Runs a child on all images of a batch, so many at a time: moves them in, runs it on the packed tensors, moves its
 * output out. The operands have the packed tensors and the child's workspace. */
void falt_planes_run(const falt_plan *child, const falt_operands *packed, falt_planes in, falt_planes out);

/* How long that takes for the whole tensor. */
double falt_planes_seconds(const falt_device *device, const falt_tensor *planar, falt_type type, bool back);
/* Seconds in which a thread loads its part of the packed input and output of a problem, which other threads have
 * written. The packed tensors have the problem's types. */
double falt_planes_loads(const falt_device *device, const falt_problem *problem);

#endif
