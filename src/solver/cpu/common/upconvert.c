/* Converts tensors of narrow types to f32 and back: runs of neighbours by the row conversion kernels. */
#include "solver/cpu/common/upconvert.h"

#include <math.h>

#include "solver/cpu/filter/filter_kernels.h"

enum { MOST = 8192 /* elements of a run: half of a first-level cache */ };

/* ---- lines: dimensions that follow each other in both tensors are one */

typedef struct line_dim {
  int64_t size, wide, narrow; /* elements apart */
} line_dim;

typedef struct conversion {
  const falt_filter_kernels *kernels;
  falt_type type;
  char *narrow;
  float *wide;
  bool back;
  int64_t pieces;          /* of a line */
  line_dim dim[FALT_DIMS]; /* the first is the line */
  int dims;
} conversion;

static void add_dim(conversion *c, line_dim dim) {
  line_dim *last = c->dims > 0 ? &c->dim[c->dims - 1] : NULL;
  if (last && dim.wide == last->size * last->wide && dim.narrow == last->size * last->narrow)
    last->size *= dim.size;
  else
    c->dim[c->dims++] = dim;
}

static void add_dims(conversion *c, const falt_tensor *tensor, const falt_tensor *wide) {
  int dims[FALT_DIMS];
  falt_upconvert_order(tensor, dims);
  for (int i = 0; i < FALT_DIMS; i++) {
    const int dim = dims[i];
    const bool counts = tensor->size[dim] > 1 && wide->stride[dim] != 0;
    if (counts) add_dim(c, (line_dim){tensor->size[dim], wide->stride[dim], tensor->stride[dim]});
  }
  if (c->dims == 0) add_dim(c, (line_dim){1, 1, 1});
}

static void convert_piece(void *context, int64_t index) {
  static const falt_row_epilogue none = {.alpha = 1, .low = -INFINITY, .high = INFINITY};
  const conversion *c = context;
  const line_dim *line = &c->dim[0];
  const int64_t first = index % c->pieces * MOST, count = falt_min(MOST, line->size - first);
  int64_t wide = first * line->wide, narrow = first * line->narrow, rest = index / c->pieces;
  for (int i = 1; i < c->dims; i++) {
    wide += rest % c->dim[i].size * c->dim[i].wide;
    narrow += rest % c->dim[i].size * c->dim[i].narrow;
    rest /= c->dim[i].size;
  }
  void *const there = c->narrow + narrow * (int64_t)falt_type_size(c->type);
  if (c->back)
    c->kernels->store[FALT_LANE_F32][c->type](there, line->narrow, c->wide + wide, count, &none, false);
  else
    c->kernels->load[FALT_LANE_F32][c->type](c->wide + wide, there, line->narrow, count);
}

static void convert(const falt_device *device, conversion *c, const falt_tensor *tensor, const falt_tensor *wide) {
  c->kernels = falt_filter_kernels_for(device->isa);
  c->type = tensor->type;
  c->narrow += tensor->offset * (int64_t)falt_type_size(tensor->type);
  add_dims(c, tensor, wide);
  c->pieces = falt_ceil_div(c->dim[0].size, MOST);
  int64_t count = c->pieces;
  for (int i = 1; i < c->dims; i++) count *= c->dim[i].size;
  falt_parallel_for(device->threads, count, convert_piece, c);
}

void falt_upconvert(const falt_device *device, const falt_tensor *tensor, const void *data, const falt_tensor *wide,
                    float *to) {
  conversion c = {.narrow = (char *)(uintptr_t)data, .wide = to};
  convert(device, &c, tensor, wide);
}

void falt_downconvert(const falt_device *device, const falt_tensor *wide, const float *from, const falt_tensor *tensor,
                      void *data) {
  conversion c = {.narrow = data, .wide = (float *)(uintptr_t)from, .back = true};
  convert(device, &c, tensor, wide);
}

/* ---- estimates */

static const double upconverting = 8, narrowing = 16, apart = 96; /* operations of an element; of an isolated element */
static const double per_line = 400;

static double flops(const falt_tensor *t, double each) {
  conversion c = {.narrow = NULL};
  falt_tensor wide;
  size_t bytes;
  if (!falt_upconvert_shape(&wide, t, &bytes)) return INFINITY;
  add_dims(&c, t, &wide);
  const double lines = (double)bytes / sizeof(float) / (double)c.dim[0].size;
  return lines * ((double)c.dim[0].size * (c.dim[0].narrow == 1 || c.dim[0].narrow == -1 ? each : apart) + per_line);
}

double falt_upconvert_flops(const falt_tensor *tensor) {
  return flops(tensor, upconverting);
}

double falt_downconvert_flops(const falt_tensor *tensor) {
  return flops(tensor, narrowing);
}
