/* The operations of a back end that rewrites ask for: copies of tensors to another layout or pitch, conversions of
 * types, and factors that come with an execution. Each back end defines one table; src/solver/registry.c lists them. */
#ifndef FALT_PLANNER_BACKEND_H
#define FALT_PLANNER_BACKEND_H

#include "planner/planner.h"

/* A copy from NCHW, lines of pixels of each channel, to NHWC: line after line, pixel after pixel, each of `pitch`
 * elements. Or a copy of NHWC rows to another pitch. Zeros follow the last channel. Strides count elements. */
typedef struct falt_copy {
  const void *from;
  void *to;
  int64_t bytes;            /* of an element; 0: no copy */
  int64_t channel, line[3]; /* from a channel to the next; lines have up to three axes, the last the fastest */
  int64_t lines[3], pixels, channels, pitch;
  int64_t pixel; /* where channels are contiguous: from a pixel to the next; else 0 */
  int64_t row;   /* and the padded pitch, by which blocks are cut */
} falt_copy;

/* Terms of one factor an axis, of size[] values each, as `count` dense taps, or as the factors of passes. */
typedef struct falt_factors {
  bool expands;
  const void *values;
  void *to;
  int64_t size[3], count;
  bool backwards[3]; /* the axis's taps run from the last to the first */
  int64_t terms;
  falt_type type, to_type;
  int first; /* the axis whose factor takes those of the axes of one tap */
} falt_factors;

/* Without an operation a pointer is NULL. */
typedef struct falt_backend {
  const char *kind; /* of devices */
  /* Copies on a stream: whether one is not too large; its kernel, once for copies of equal `bytes`, with or without
   * `pixel`; and up to two copies by that kernel. */
  bool (*can_copy)(const falt_copy *copy);
  falt_status (*copy_ready)(const falt_device *device, const falt_copy *copy, void **kernel);
  void (*copy)(const falt_device *device, void *kernel, const falt_copy *copies, int count, void *stream);
  /* Factors on a stream. */
  falt_status (*factors_ready)(const falt_device *device, bool expands, void **kernel);
  void (*factors)(const falt_device *device, void *kernel, const falt_factors *factors, void *stream);
  /* Every element from one tensor to another one of the same sizes, of which one is f32, rounded to the nearest value,
   * ties to even; on all threads unless called by one of them. And its cost, in multiply-adds of f32 vectors counted as
   * two operations: to f32 and back. */
  void (*convert)(const falt_device *device, const falt_tensor *from, const void *data, const falt_tensor *to,
                  void *out);
  double (*upconvert_flops)(const falt_tensor *tensor);
  double (*downconvert_flops)(const falt_tensor *tensor);
  /* The f32 taps of a filter to a dense filter whose channels are contiguous. */
  void (*reorder_filter)(const falt_device *device, const falt_tensor *from, const float *taps, const falt_tensor *to,
                         float *out);
} falt_backend;

/* Defined by src/solver/registry.c; ends with NULL. */
extern const falt_backend *const falt_backends[];
/* The back end of a device's kind, or one without operations. */
const falt_backend *falt_backend_of(const falt_device *device);

#endif
